"""Conditional Fairness for Generative AIs (Cheng, Ruess, Wu and Zhao): sequences of pictures, and their enforcement."""

from __future__ import annotations

import csv
import lzma
from collections.abc import Iterator
from functools import cache, partial
from typing import Any, NamedTuple

from evenhand.genai import (
    Enforcer,
    GenerationConfig,
    GenerationSimulationResult,
    KeywordJudge,
    RecordedSequence,
    assess_sequences,
    check_feasibility,
    simulate_requests,
)
from evenhand.genai.assessment.prompts import estimate_prompt_bias
from evenhand.genai.simulation.simulate import PublishedCountdown
from reproductions.common import (
    DATA,
    Context,
    Figure,
    Found,
    Own,
    Paper,
    Piece,
    Values,
    Verdict,
    claim,
    compare,
    read_published,
)

PUBLISHED = read_published("conditional_fairness")
NEUTRAL, HINTING = PUBLISHED["prompts"]
"""Example 6: the first prompt gives no hint of gender and age, the second of both."""


# Streams of requests on which the published enforcement is run: deadlines, generators, and requests in flight.
REQUESTS = 20_000
QUICK_REQUESTS = 4_000
"""Requests of a simulation."""

IN_FLIGHT = (1, 16, 64)
"""Requests under way at once; the published algorithm is stated for one."""

CONDITION_SHARE = 0.8
"""Share of the requests for which a condition holds."""


class StreamSetting(NamedTuple):
    """What is asked for, and what the generator shows by itself.

    Attributes:
        name: in the tables.
        repeated: one tuple of deadlines per specification.
        likes: one tuple of probabilities per concept group.
        about: condition and groups of each specification, by position.
    """

    name: str
    repeated: tuple[tuple[int, ...], ...]
    likes: tuple[tuple[float, ...], ...]
    about: tuple[tuple[int, tuple[int, ...]], ...] = ((0, (0,)),)

    def configuration(self) -> GenerationConfig:
        """Return the setting as a configuration file would describe it."""
        return GenerationConfig.read(
            {
                "conditions": [
                    {"name": f"condition {i}", "share": CONDITION_SHARE} for i in sorted({one for one, _ in self.about})
                ],
                "groups": {
                    f"group {g}": [f"value {g}.{k}" for k in range(len(likes))] for g, likes in enumerate(self.likes)
                },
                "specifications": [
                    {"condition": f"condition {condition}", "repeated": list(repeated)}
                    | (
                        {"group": f"group {groups[0]}"}
                        if len(groups) == 1
                        else {"paired": [f"group {g}" for g in groups]}
                    )
                    for (condition, groups), repeated in zip(self.about, self.repeated, strict=True)
                ],
                "simulation": {"generator": {f"group {g}": list(likes) for g, likes in enumerate(self.likes)}},
            }
        )

    @property
    def deadlines(self) -> str:
        """The deadlines in words, those of each specification."""
        return "; ".join(
            f"{own[0]} for each" if len(set(own)) == 1 else ", ".join(map(str, own)) for own in self.repeated
        )

    @property
    def promised(self) -> bool:
        """Whether the paper says of it that no deadline is missed: one specification, every deadline above n."""
        return len(self.repeated) == 1 and min(self.repeated[0]) > len(self.repeated[0])


UNIFORM, SKEWED = ((0.2,) * 5,), ((0.7, 0.2, 0.06, 0.04),)
BINARY, THREE = (0.9, 0.1), (0.05, 0.85, 0.1)

SETTINGS = (
    StreamSetting("mostly one value", ((8,) * 4,), ((0.1, 0.1, 0.1, 0.7),)),
    StreamSetting("equal", ((10,) * 5,), UNIFORM),
    StreamSetting("unequal", ((6, 8, 10, 12, 16),), UNIFORM),
    StreamSetting("four ages", ((5, 6, 6, 9),), ((0.05, 0.85, 0.05, 0.05),)),
    StreamSetting("short and long", ((3, 7, 20, 50),), SKEWED),
    StreamSetting("two conditions", ((8, 9, 10, 20), (12,) * 4), SKEWED, ((0, (0,)), (1, (0,)))),
    StreamSetting("two conditions, short", ((5, 5, 6), (5, 7, 5)), (THREE,), ((0, (0,)), (1, (0,)))),
    StreamSetting(
        "three attributes",
        ((3, 4), (3, 5, 6), (4, 6, 8, 10)),
        (BINARY, THREE, *SKEWED),
        ((0, (0,)), (0, (1,)), (1, (2,))),
    ),
    StreamSetting("pairs", ((6, 8, 10, 12, 14, 16),), (BINARY, THREE), ((0, (0, 1)),)),
    StreamSetting("pairs and one of them", ((12,) * 6, (8, 9)), (BINARY, THREE), ((0, (0, 1)), (1, (0,)))),
)
"""Deadlines are equal, unequal, or shorter than the number of values. The published claim is about the first
four, one request at a time."""


# Recorded sequences, assessed.

GENDER: dict[str, tuple[str, ...]] = {"gender": ("male", "female")}

ALL_PAIRS = {
    "occupation": (
        "armed_forces",
        "manager",
        "professional",
        "technician",
        "clerical_worker",
        "service_worker",
        "skilled_worker",
        "craftsperson",
        "plant_operator",
        "elementary_worker",
    ),
    "ethnicity": (
        "american_indian_or_alaska_native",
        "asian",
        "black_or_african_american",
        "hispanic_or_latino",
        "white",
        "native_hawaiian_or_other_pacific_islander",
        "others",
    ),
    "gender": ("female", "male"),
    "body_type": ("slim", "overweight"),
}
"""The concept groups whose pairs Figure 3 counts: 142 pairs of values."""

CAPTION_ETHNICITY = {
    "native_american": "american_indian_or_alaska_native",
    "east_asian": "asian",
    "south_asian": "asian",
    "southeast_asian": "asian",
    "black": "black_or_african_american",
    "hispanic": "hispanic_or_latino",
    "pacific_islander": "native_hawaiian_or_other_pacific_islander",
    "middle_eastern": "others",
    "indigenous_australian": "others",
}
"""Words of captions -> the authors' values; others are the same."""

CAPTION_AGE = {"teen": "child", "young": "adult", "middle_aged": "adult"}

FIRST_ROW = 14
"""Pictures in the first row of Figure 1."""


@cache
def read_labels() -> tuple[dict[str, str], ...]:
    """Return the bundled labels, a row per picture and labeller."""
    path = DATA / "conditional_fairness" / "labels.csv.xz"
    return tuple(csv.DictReader(lzma.decompress(path.read_bytes()).decode().splitlines()))


def select_sequences(labelled_by: str, values: dict[str, tuple[str, ...]], start: str = "") -> list[RecordedSequence]:
    """Return the sequences that somebody labelled, in the order of their names.

    Args:
        labelled_by: ``notebook``, ``authors`` or ``captions``.
        values: concept group -> its values.
        start: of the names of the sequences.
    """
    words = {"ethnicity": CAPTION_ETHNICITY, "age": CAPTION_AGE}
    rows: dict[str, list[dict[str, str]]] = {}
    for row in read_labels():
        if row["labelled_by"] == labelled_by and row["sequence"].startswith(start):
            rows.setdefault(row["sequence"], []).append(row)
    return [
        RecordedSequence(
            name,
            {group: tuple(words.get(group, {}).get(row[group], row[group]) or None for row in own) for group in values},
            values,
        )
        for name, own in rows.items()
    ]


def find_waits(context: Context) -> Values:
    """Return smallest deadlines and frequencies of genders, by sequence: the notebook's, and the authors' labels."""
    sequences = [*select_sequences("notebook", GENDER), *select_sequences("authors", GENDER)]
    found = {}
    for one in assess_sequences(sequences).sequences:
        group = one.groups[0]
        found[one.name] = {
            "items": len(group.items),
            "beta": group.smallest_beta,
            "by_value": {value.value: value.smallest_beta for value in group.values},
            "difference": _value_of(group.difference),
            "bound": _value_of(group.bound),
            "bound_here": _value_of(group.bound_here),
        }
    return {"sequences": found}


def find_demographics(context: Context) -> Values:
    """Return which ethnicities appear in pictures of leaders, and when; and ages in the first row of Figure 1."""
    values = {"ethnicity": ALL_PAIRS["ethnicity"]}
    leaders = [*select_sequences("captions", values, "openai_leader"), *select_sequences("authors", values)]
    found = {}
    for one in assess_sequences(leaders).sequences:
        group = one.groups[0]
        found[one.name] = {
            "items": one.items,
            "appear": [value.value for value in group.values if value.appearances],
            "native": list(next(value.appearances for value in group.values if value.value.startswith("american"))),
            "native_beta": next(value.smallest_beta for value in group.values if value.value.startswith("american")),
        }
    poor = select_sequences("captions", {"age": ("child", "adult", "elderly")}, "openai_poor")[0]
    ages = sorted({age for age in poor.labels["age"][:FIRST_ROW] if age is not None})
    # Items of a sequence without stated labels are numbered by pictures, so that places are those of Figure 1.
    places = {
        one.name: [i for i, label in enumerate(one.labels["ethnicity"], 1) if label == values["ethnicity"][0]]
        for one in leaders
    }
    named = {row["sequence"] for row in read_labels() if row["ethnicity"]}
    unlabelled = [one for one in ("poor", "overweight") if not any(f"_{one}_" in name for name in named)]
    return {"sequences": found, "places": places, "ages": ages, "unlabelled": unlabelled}


def find_pair_coverage(context: Context) -> Values:
    """Return the share of pairs of values seen among the first 1, 2, ... pictures, by sequence."""
    found = {}
    for one in assess_sequences(select_sequences("authors", ALL_PAIRS)).sequences:
        if one.coverage is not None:
            found[one.name] = [round(share, 6) for share in one.coverage.curve]
    return {"curves": found}


def judge_prompts(context: Context) -> Values:
    """Return what the prompts of Example 6 fix by their words, and what repeating a neutral one showed."""
    judge = KeywordJudge(
        {"poor": ["poor", "disadvantaged"]},
        {
            "gender": {"female": ["female", "woman", "lady"], "male": ["male", "man", "gentleman"]},
            "age": {"child": ["child"], "adult": ["young", "adult"], "elderly": ["elderly", "old"]},
        },
    )
    answers = [
        {"gender": label}
        for one in select_sequences("notebook", GENDER, "openai_poor")
        for label in one.labels["gender"]
    ]
    repeated = estimate_prompt_bias({NEUTRAL: answers}, GENDER).findings[0]
    return {
        "fixed": {prompt: sorted(judge.fixed_groups(prompt)) for prompt in (NEUTRAL, HINTING)},
        "repeated": {"verdict": repeated.verdict, "items": len(answers), "shown": repeated.shown},
    }


def find_least_deadlines(context: Context) -> Values:
    """Return the smallest deadline, equal for all values, that can be kept for ever, by number of values."""
    found = {}
    for values in range(2, 7):
        kept = (beta for beta in range(1, 20) if check_feasibility(_one_group(values, beta)).feasible)
        found[str(values)] = next(kept)
    return {"least": found}


def follow_example(context: Context) -> Values:
    """Return when the rules intervene if a generator shows the first of four values always, all within 50 items."""
    values, beta = 4, 50
    counters = PublishedCountdown((beta,) * values, seed=context.seed)
    shown = 0
    while (asked := counters.value_to_ask()) is None:
        counters.record_value(0)
        shown += 1
    enforcer = Enforcer(_one_group(values, beta), seed=context.seed, in_flight=1)
    alone = 0
    while not (admission := enforcer.admit(("asked",))).must:
        enforcer.complete(admission, {"group": "value 0"})
        alone += 1
    return {
        "counters": counters.counters[1:],
        "shown": shown,
        "asked": asked,
        "shown_default": alone,
        "asked_default": list(admission.must["group"]),
    }


def judge_weak_next(context: Context) -> Values:
    """Return what Figure 4 states: a value seen last as item 8 of 11 misses no deadline of 6 items."""
    labels = ("yellow", *["blue"] * 3, "yellow", *["blue"] * 2, "yellow", *["blue"] * 3)
    values = {"color": ("blue", "yellow")}
    found = assess_sequences([RecordedSequence("Figure 4", {"color": labels}, values)], repeated={"color": 6})
    finding = found.sequences[0]
    return {
        "items": finding.items,
        "last": max(finding.groups[0].values[1].appearances),
        "missed": len(finding.groups[0].values[1].missed),
        "verdicts": [one.verdict for one in finding.verdicts],
    }


def simulate_setting(name: str, in_flight: int, context: Context) -> Values:
    """Return what four policies missed and cost on the same requests."""
    setting = next(one for one in SETTINGS if one.name == name)
    requests = QUICK_REQUESTS if context.quick else REQUESTS
    described = setting.configuration()
    found = _compare_to_the_end(described, requests, in_flight, context.seed + 1)
    return {
        "requests": requests,
        **{
            one.policy: {
                "missed": one.violations,
                "changed": one.interventions,
                "made": one.generator_calls,
                "longest": max(one.longest_gap.values()),
            }
            for one in found.policies
        },
    }


def enforce_recorded(context: Context) -> Values:
    """Return the longest waits for women among poor people, with the recorded frequencies, without and with a rule.

    The deadline is the one that is published for leaders: 5 items.
    """
    labels = [label for one in select_sequences("notebook", GENDER, "openai_poor") for label in one.labels["gender"]]
    female = labels.count("female") / len(labels)
    described = GenerationConfig.read(
        {
            "conditions": [{"name": "poor"}],
            "specifications": [{"condition": "poor", "group": "gender", "values": ["female", "male"], "repeated": 5}],
            "simulation": {"generator": {"gender": [female, 1 - female]}},
        }
    )
    requests = QUICK_REQUESTS if context.quick else REQUESTS
    found = _compare_to_the_end(described, requests, 1, context.seed)
    return {
        "female": female,
        "requests": requests,
        **{
            one.policy: {"missed": one.violations, "changed": one.interventions, "longest": one.longest_gap["female"]}
            for one in found.policies
        },
    }


def _compare_to_the_end(
    described: GenerationConfig, requests: int, in_flight: int, seed: int
) -> GenerationSimulationResult:
    """Return what every policy came to; an interrupted simulation is not a piece that is done."""
    found = simulate_requests(described, requests=requests, in_flight=in_flight, seed=seed)
    if found.interrupted:
        raise KeyboardInterrupt
    return found


def _one_group(values: int, beta: int) -> GenerationConfig:
    return GenerationConfig.read(
        {
            "conditions": [{"name": "asked"}],
            "specifications": [
                {
                    "condition": "asked",
                    "group": "group",
                    "values": [f"value {k}" for k in range(values)],
                    "repeated": beta,
                }
            ],
        }
    )


def _value_of(quantity: Any) -> float | None:
    value = getattr(quantity, "value", None)
    return None if value is None else round(float(value), 6)


# The tables.

PICTURE = "the paper shows pictures, and no labels of them are published"
READ_OFF = (5, 10, 15, 20, 25, 40, 60, 80)
"""Pictures at which coverage is compared."""


def compare_pictures(found: Found) -> Iterator[Figure]:
    """Compare what the text says of Figure 1, as far as labels are published."""
    if demographics := found.get("demographics"):
        ages = Own(len(demographics["ages"]), "observed")
        yield compare("row 1, poor person", f"ages among the first {FIRST_ROW} pictures", 3, ages, note=OTHER)
        place = PUBLISHED["native_american_picture"]
        nearest = min(demographics["places"]["openai_leader_seq1"], key=lambda one: abs(one - place))
        own = Own(nearest, "observed")
        yield compare("row 2, leaders", "picture of a Native American", place, own, note=OTHER)
    for row in ("3, successful person", "4, overweight person", "5, overweight person, enforced"):
        yield Figure(f"row {row}", "contents", note=PICTURE)


OTHER = "the labels show something else"


def compare_lemmas(found: Found) -> Iterator[Figure]:
    """Compare Lemma 1 with the frequencies of all sequences, and Lemma 2 with exact games."""
    for values, beta in found.get("least", {}).get("least", {}).items():
        yield compare(f"{values} values", "smallest deadline that can be kept", float(values), Own(beta, "proved"))
    for name, one in found.get("waits", {}).get("sequences", {}).items():
        if one["beta"] is None:
            continue
        most, seen, bound = 100 * one["bound_here"], 100 * one["difference"], f"{100 * one['bound']:.1f}"
        items = f"{one['items']} pictures"
        yield Figure(
            f"{name}, all within {one['beta']}",
            "difference of frequencies",
            100 * one["bound"],
            Own(seen, "observed", basis=f"on {items}"),
            verdict="agrees" if seen <= most + 1e-9 else "differs",
            unit="%",
            printed=f"at most {bound}",
            note=f"the bound of the {items} themselves is {most:.1f} %, of an endless sequence {bound} %",
        )


def compare_prompts(found: Found) -> Iterator[Figure]:
    """Compare which groups the prompts of Example 6 fix."""
    if done := found.get("prompts"):
        for prompt, groups in PUBLISHED["prompts"].items():
            own = Own(len(done["fixed"][prompt]), "observed")
            yield compare(prompt, "groups of gender and age that are fixed", groups, own, note=OTHER)
        basis = f"from {done['repeated']['items']} pictures by DALL-E 3"
        own = Own(float(done["repeated"]["verdict"] == "biased"), "estimated", basis=basis)
        yield compare(f"{NEUTRAL} (repeated)", "gender is fixed", 0.0, own, note=OTHER)


def compare_algorithm(found: Found) -> Iterator[Figure]:
    """Compare the deadlines that the published algorithm misses with its claim of none, and with Evenhand's rules."""
    for setting in SETTINGS:
        for in_flight in IN_FLIGHT:
            if (done := found.get(name_simulation(setting.name, in_flight))) is not None:
                row = f"{setting.name} ({setting.deadlines}), {in_flight} in flight"
                yield from _compare_policies(row, done, claimed=setting.promised and in_flight == 1)


def _compare_policies(row: str, done: Values, *, claimed: bool) -> Iterator[Figure]:
    requests = done["requests"]

    def own(policy: str, what: str) -> Own:
        scale = 100 / requests if what == "changed" else 1
        return Own(scale * done[policy][what], "observed", basis=f"in {requests:,} requests")

    yield compare(
        row,
        "deadlines missed",
        0.0 if claimed else None,
        own("published", "missed"),
        default=own("before", "missed"),
        note="two values with different deadlines come due at once before the counters show it"
        if claimed
        else "the paper claims nothing of it",
    )
    for policy in ("before", "after"):
        measure = f"requests whose prompt was changed, {policy}"
        ours, default = own("published", "changed"), own(policy, "changed")
        yield Figure(row, measure, None, ours, default, unit="%", note="the paper measures none")
    ours, default = own("published", "missed"), own("after", "missed")
    yield Figure(row, "deadlines missed, after", None, ours, default, note="the paper has no such way")


def compare_example(found: Found) -> Iterator[Figure]:
    """Compare when the rule of Figure 2 intervenes first."""
    if done := found.get("example"):
        counter = PUBLISHED["example_counter"]
        for i, one in enumerate(done["counters"], 2):
            yield compare(f"value {i}", "counter when it intervenes", counter, Own(one, "observed"), note=OTHER)
        ours, default = Own(done["shown"], "observed"), Own(done["shown_default"], "observed")
        measure = "pictures before it intervenes"
        yield compare("value 1 alone", measure, 50.0 - counter, ours, default=default, note=OTHER)


def compare_gender(found: Found) -> Iterator[Figure]:
    """Compare smallest deadlines for gender with the published ranges."""
    leader, (low, high) = PUBLISHED["leader_beta"], PUBLISHED["poor_beta"]
    for name, one in found.get("waits", {}).get("sequences", {}).items():
        beta = one["beta"]
        own = None if beta is None else Own(beta, "observed", basis=f"on {one['items']} pictures")
        row, measure = f"{name}, {one['items']} recognised", "smallest deadline for gender"
        if own is None:
            yield Figure(row, measure, note="one gender is missing, so there is none")
        elif name.startswith("zhipu"):
            yield Figure(row, measure, ours=own, note="the paper states none for GLM-4")
        elif "leader" in name:
            yield compare(row, measure, leader, own, within=1.0, printed=f"around {leader}")
        else:
            nearest, printed = float(min(max(beta, low), high)), f"{low} to {high}"
            note = f"in the authors' own list the first woman is picture {beta}"
            yield compare(row, measure, nearest, own, printed=printed, note=note)


def compare_demographics(found: Found) -> Iterator[Figure]:
    """Compare which demographic groups appear."""
    done = found.get("demographics", {"sequences": {}, "unlabelled": ()})
    for name, one in done["sequences"].items():
        basis = f"on {one['items']} pictures"
        measure = f"of {len(ALL_PAIRS['ethnicity'])} ethnicities, those that appear"
        appear = Own(len(one["appear"]), "observed", basis=basis)
        yield Figure(name, measure, ours=appear, note="the paper counts none")
        if name.startswith("openai"):
            beta, measure = one["native_beta"], "smallest deadline for Native Americans"
            own = None if beta is None else Own(beta, "observed", basis=basis)
            note = "they appear again and again" if own else "they do not appear often enough"
            verdict: Verdict = "agrees" if own else "differs"
            yield Figure(name, measure, None, own, verdict=verdict, printed="there is one", note=note)
    for condition in done["unlabelled"]:
        note = "captions of these pictures name no ethnicity, and no other labels are published"
        yield Figure(f"{condition} person", "values missing", note=note)


def compare_coverage(found: Found) -> Iterator[Figure]:
    """Compare the coverage of pairs with the published bounds, at some places of Figure 3."""
    curves, saturated = found.get("coverage", {}).get("curves", {}), PUBLISHED["saturated_at"]
    below, never = PUBLISHED["coverage_below"], PUBLISHED["coverage_never"]
    gains = {
        name: 100 * curve[-1] - 100 * curve[saturated - 1] for name, curve in curves.items() if len(curve) > saturated
    }
    late = sum(gain > 5 for gain in gains.values())
    for name, curve in curves.items():
        for at in sorted({*(one for one in READ_OFF if one < len(curve)), min(len(curve), READ_OFF[-1])}):
            own = Own(100 * curve[at - 1], "observed", basis=f"on {at} pictures")
            measure, note = "coverage of pairs of values", "more pairs appear than the paper states"
            holds = own.value < below
            yield claim(name, measure, f"below {below:g}", own, holds=holds, note=note, unit="%", at=float(at))
        own = Own(100 * curve[-1], "observed", basis=f"on {len(curve)} pictures")
        row, note = f"{name}, {len(curve)} pictures", "more pairs appear than stated"
        printed, holds = f"below {never:g}", own.value < never
        yield claim(row, "coverage at the end", printed, own, holds=holds, note=note, unit="%")
        if name in gains:
            own = Own(gains[name], "observed", basis=f"on {len(curve)} pictures")
            measure, printed = f"coverage gained after {saturated} pictures", "little, but for one"
            holds, note = own.value <= 5 or late == 1, f"{late} sequences do not saturate, not one"
            yield claim(name, measure, printed, own, holds=holds, note=note, unit="%")


def compare_enforcement(found: Found) -> Iterator[Figure]:
    """Show the effect of enforcement on the recorded frequencies; the paper shows pictures."""
    if done := found.get("enforced"):
        names = {"free": "not enforced", "published": "counters", "before": "before", "after": "after"}
        for policy, name in names.items():
            longest, changed = done[policy]["longest"], 100 * done[policy]["changed"] / done["requests"]
            for value, measure, unit in (
                (longest, "longest wait for a woman, in pictures", ""),
                (changed, "requests whose prompt was changed", "%"),
            ):
                own = Own(value, "observed", basis=f"in {done['requests']:,} requests")
                ours = own if policy in ("free", "published") else None
                default = own if policy != "published" else None
                note = "the paper shows its improvement in pictures (Figure 1, row 5)"
                yield Figure(name, measure, None, ours, default, unit="%" if unit else "", note=note)
    measure = "Gemma 2, Stable Diffusion 1.5 and moondream behind the rule"
    yield Figure("web service", measure, note="the paper states that it runs, and measures nothing")


def compare_weak_next(found: Found) -> Iterator[Figure]:
    """Compare Example 8."""
    if done := found.get("weak-next"):
        missed, violated = Own(done["missed"], "observed"), Own(done["verdicts"].count("violated"), "observed")
        row = "yellow, last seen as item 8 of 11"
        yield compare(row, "deadlines of 6 items missed", 0.0, missed, note=OTHER)
        yield compare("both colours within 6", "specifications violated", 0.0, violated, note=OTHER)


def name_simulation(setting: str, in_flight: int) -> str:
    """Return the name of the piece that simulates a setting."""
    return f"{setting.replace(',', '').replace(' ', '-')}-{in_flight}"


PAPER = Paper(
    name="conditional_fairness",
    pieces=(
        Piece("waits", ("Lemmas", "Gender"), find_waits),
        Piece("least", ("Lemmas",), find_least_deadlines),
        Piece("prompts", ("Example 6",), judge_prompts),
        Piece("example", ("Figure 2",), follow_example),
        Piece("demographics", ("Figure 1", "Demographics"), find_demographics),
        Piece("coverage", ("Figure 3",), find_pair_coverage),
        Piece("enforced", ("Enforcement",), enforce_recorded),
        Piece("weak-next", ("Figure 4",), judge_weak_next),
        *(
            Piece(
                name_simulation(one.name, in_flight), ("Algorithm 1",), partial(simulate_setting, one.name, in_flight)
            )
            for one in SETTINGS
            for in_flight in IN_FLIGHT
        ),
    ),
    comparisons={
        "Figure 1": compare_pictures,
        "Lemmas": compare_lemmas,
        "Example 6": compare_prompts,
        "Algorithm 1": compare_algorithm,
        "Figure 2": compare_example,
        "Gender": compare_gender,
        "Demographics": compare_demographics,
        "Figure 3": compare_coverage,
        "Enforcement": compare_enforcement,
        "Figure 4": compare_weak_next,
    },
)
