"""The paper's figures, example by example: what it states beside what was found."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from evenhand.text import format_count
from reproductions.comparison import (
    ComparedFigure,
    ComparedTable,
    OwnFigure,
    Paper,
    Piece,
    PublishedTable,
    Values,
    Verdict,
    judge,
    summarize_verdicts,
)
from reproductions.conditional_fairness import pieces, published
from reproductions.conditional_fairness.settings import IN_FLIGHT, SETTINGS

Found = Mapping[str, Values]

ABOUT: dict[str, tuple[str, str]] = {
    "Figure 1": (
        "Pictures of poor, successful and overweight people",
        "Pictures are not bundled; what the text says of them is compared with captions of the pictures.",
    ),
    "Lemmas": (
        "Equal deadlines bound frequencies, and are at least the number of values",
        "Lemma 2 is checked by solving the game for each deadline; Lemma 1 on recorded sequences, each with the "
        "smallest deadline that it keeps.",
    ),
    "Example 6": (
        "Which prompts are biased",
        "The paper asks a language model; ours are keywords, and for the neutral prompt the recorded pictures: a "
        "prompt fixes a gender that comes 95 % of the time.",
    ),
    "Algorithm 1": (
        "Enforcement by counters: deadlines missed and prompts changed",
        "The paper claims that no deadline is missed if each is longer than the number of values, with one request "
        "at a time and a generator that obeys. It has no measurements. Every setting is run by the published "
        "counters and by both of Evenhand's ways on the same simulated requests: before (the default) asks in the "
        "prompt, after looks at items first and makes those again that may not stay.",
    ),
    "Figure 2": (
        "Example 7: four values, each within 50 pictures, of which the generator shows one",
        "The paper's rule takes one of the three values at random. Evenhand asks for one of them too, and "
        "intervenes at the same picture.",
    ),
    "Gender": (
        "Evaluation: smallest deadlines for gender, leaders and poor people",
        "The sequences of ChatGPT-4 with DALL-E 3 are the lists in the authors' notebook, without pictures whose "
        "gender is not recognised; those of GLM-4 are the authors' labels of successful people.",
    ),
    "Demographics": (
        "Evaluation: ethnicities of leaders, poor and overweight people",
        "Ethnicities of leaders are those that captions name (DALL-E 3) or the authors' labels (GLM-4).",
    ),
    "Figure 3": (
        "Coverage of all pairs of values, by pictures of successful people (GLM-4)",
        "The figure itself is a drawing without numbers; the text bounds it. The first sequence was asked for "
        "without any hint of diversity and is not among the published lines.",
    ),
    "Enforcement": (
        "Evaluation: poor people with a deadline of 5 for either gender",
        "A simulated generator shows women as often as the recorded pictures of poor people do, one request at a time.",
    ),
    "Figure 4": (
        "Example 8: a deadline beyond the end of a finite sequence",
        "The drawing's items are not in the text; ours are 11 items with yellow last as item 8, as it states.",
    ),
}
"""Number of a table -> its title, and what is compared."""

PICTURE = "the paper shows pictures, and no labels of them are published"
READ_OFF = (5, 10, 15, 20, 25, 40, 60, 80)
"""Pictures at which coverage is compared."""


def compare_pictures(found: Found) -> ComparedTable:
    """Compare what the text says of Figure 1, as far as labels are published."""
    figures = []
    demographics = found.get("demographics")
    if demographics:
        places = demographics["places"]["openai_leader_seq1"]
        place = published.NATIVE_AMERICAN_PICTURE
        figures += [
            _figure(
                "row 1, poor person", "ages among the first 14 pictures", 3, _observed_figure(len(demographics["ages"]))
            ),
            _figure(
                "row 2, leaders",
                "picture of a Native American",
                place,
                _observed_figure(min(places, key=lambda one: abs(one - place))),
            ),
        ]
    figures += [
        _left_out(f"row {row}", "contents", PICTURE)
        for row in ("3, successful person", "4, overweight person", "5, overweight person, enforced")
    ]
    return _table("Figure 1", figures)


def compare_lemmas(found: Found) -> ComparedTable:
    """Compare Lemma 1 with the frequencies of all sequences, and Lemma 2 with exact games."""
    figures = [
        _figure(f"{n} values", "smallest deadline that can be kept", float(n), OwnFigure(value=beta, kind="proved"))
        for n, beta in found.get("least", {}).get("least", {}).items()
    ]
    for name, one in found.get("waits", {}).get("sequences", {}).items():
        if one["beta"] is None:
            continue
        most, seen = 100 * one["bound_here"], 100 * one["difference"]
        verdict: Verdict = "agrees" if seen <= most + 1e-9 else "differs"
        bound = f"{100 * one['bound']:.1f}"
        because = (
            f"the bound of the {one['items']} pictures themselves is {most:.1f} %, of an endless sequence {bound} %"
        )
        figures.append(
            ComparedFigure(
                row=f"{name}, all within {one['beta']}",
                measure="difference of frequencies",
                unit="%",
                published=100 * one["bound"],
                published_text=f"at most {bound}",
                ours=OwnFigure(value=seen, kind="observed", basis=f"on {one['items']} pictures"),
                verdict=verdict,
                because=because,
            )
        )
    return _table("Lemmas", figures)


def compare_prompts(found: Found) -> ComparedTable:
    """Compare which groups the prompts of Example 6 fix."""
    done = found.get("prompts")
    figures = []
    for prompt, groups in published.FIXED.items() if done else ():
        fixed = done["fixed"][prompt] if done else []
        figures.append(_figure(prompt, "groups of gender and age that are fixed", groups, _observed_figure(len(fixed))))
    if done:
        repeated = done["repeated"]
        fixed = float(repeated["verdict"] == "biased")
        figures.append(
            _figure(
                f"{published.PROMPTS[0]} (repeated)",
                "gender is fixed",
                0.0,
                OwnFigure(value=fixed, kind="estimated", basis=f"from {repeated['items']} pictures by DALL-E 3"),
            )
        )
    return _table("Example 6", figures)


def compare_algorithm(found: Found) -> ComparedTable:
    """Compare the deadlines that the published algorithm misses with its claim of none, and with Evenhand's rules."""
    figures = []
    for setting in SETTINGS:
        for in_flight in IN_FLIGHT:
            done = found.get(simulation_name(setting.name, in_flight))
            if done is None:
                continue
            row = f"{setting.name} ({setting.deadlines}), {in_flight} in flight"
            claimed = setting.promised and in_flight == 1
            figures += list(_compare_policies(row, done, claimed=claimed))
    differs = [one.row for one in figures if one.verdict == "differs"]
    because = ""
    if differs:
        because = (
            "with unequal deadlines the published counters miss some, although each is longer than the number of "
            f"values ({format_count(len(differs), 'setting', 'settings')}); Evenhand misses none in any of them"
        )
    table = _table("Algorithm 1", figures)
    return table.model_copy(update={"because": because})


def _compare_policies(row: str, done: Values, *, claimed: bool) -> Iterator[ComparedFigure]:
    requests = done["requests"]

    def own(policy: str, what: str, *, percent: bool = False) -> OwnFigure:
        value = 100 * done[policy][what] / requests if percent else done[policy][what]
        return OwnFigure(value=value, kind="observed", basis=f"in {requests:,} requests")

    missed = done["published"]["missed"]
    verdict: Verdict = ("agrees" if missed == 0 else "differs") if claimed else "not compared"
    because = "" if claimed else "the paper claims nothing of it"
    if verdict == "differs":
        because = "two values with different deadlines come due at once before the counters show it"
    yield ComparedFigure(
        row=row,
        measure="deadlines missed",
        published=0.0 if claimed else None,
        ours=own("published", "missed"),
        default=own("before", "missed"),
        verdict=verdict,
        because=because,
    )
    for policy in ("before", "after"):
        yield ComparedFigure(
            row=row,
            measure=f"requests whose prompt was changed, {policy}",
            unit="%",
            ours=own("published", "changed", percent=True),
            default=own(policy, "changed", percent=True),
            verdict="not compared",
            because="the paper measures none",
        )
    yield ComparedFigure(
        row=row,
        measure="deadlines missed, after",
        ours=own("published", "missed"),
        default=own("after", "missed"),
        verdict="not compared",
        because="the paper has no such way",
    )


def compare_example(found: Found) -> ComparedTable:
    """Compare when the rule of Figure 2 intervenes first."""
    done = found.get("example")
    figures = []
    if done:
        counter = published.EXAMPLE_COUNTER
        figures = [
            _figure(f"value {i}", "counter when it intervenes", counter, _observed_figure(one))
            for i, one in enumerate(done["counters"], 2)
        ]
        figures.append(
            _figure(
                "value 1 alone",
                "pictures before it intervenes",
                50.0 - counter,
                _observed_figure(done["shown"]),
                _observed_figure(done["shown_default"]),
            )
        )
    return _table("Figure 2", figures)


def compare_gender(found: Found) -> ComparedTable:
    """Compare smallest deadlines for gender with the published ranges."""
    figures = []
    for name, one in found.get("waits", {}).get("sequences", {}).items():
        beta = one["beta"]
        own = None if beta is None else OwnFigure(value=beta, kind="observed", basis=f"on {one['items']} pictures")
        row, measure = f"{name}, {one['items']} recognised", "smallest deadline for gender"
        if name.startswith("zhipu") or own is None:
            why = "the paper states none for GLM-4" if own is not None else "one gender is missing, so there is none"
            figures.append(ComparedFigure(row=row, measure=measure, ours=own, verdict="not compared", because=why))
        elif "leader" in name:
            within = judge(published.LEADER_BETA, own.value, within=1.0)
            figures.append(
                ComparedFigure(
                    row=row,
                    measure=measure,
                    published=published.LEADER_BETA,
                    published_text="around 5",
                    ours=own,
                    verdict=within,
                )
            )
        else:
            low, high = published.POOR_BETA
            inside = low <= own.value <= high
            figures.append(
                ComparedFigure(
                    row=row,
                    measure=measure,
                    published=float(min(max(beta, low), high)),
                    published_text=f"{low} to {high}",
                    ours=own,
                    verdict="agrees" if inside else "differs",
                    because="" if inside else f"in the authors' own list the first woman is picture {beta}",
                )
            )
    return _table("Gender", figures)


def compare_demographics(found: Found) -> ComparedTable:
    """Compare which demographic groups appear."""
    figures = []
    done = found.get("demographics")
    if done:
        for name, one in done["sequences"].items():
            many = len(pieces.ALL_PAIRS["ethnicity"])
            appear = OwnFigure(value=len(one["appear"]), kind="observed", basis=f"on {one['items']} pictures")
            figures.append(
                ComparedFigure(
                    row=name,
                    measure=f"of {many} ethnicities, those that appear",
                    ours=appear,
                    verdict="not compared",
                    because="the paper counts none",
                )
            )
            if name.startswith("openai"):
                beta = one["native_beta"]
                own = (
                    None
                    if beta is None
                    else OwnFigure(value=beta, kind="observed", basis=f"on {one['items']} pictures")
                )
                figures.append(
                    ComparedFigure(
                        row=name,
                        measure="smallest deadline for Native Americans",
                        published_text="there is one",
                        ours=own,
                        verdict="agrees" if own else "differs",
                        because="they appear again and again" if own else "they do not appear often enough",
                    )
                )
        figures += [
            _left_out(
                f"{condition} person",
                "values missing",
                "captions of these pictures name no ethnicity, and no other labels are published",
            )
            for condition in done["ethnicities_stated"]
        ]
    return _table("Demographics", figures)


def compare_coverage(found: Found) -> ComparedTable:
    """Compare the coverage of pairs with the published bounds, and draw it as Figure 3 does."""
    figures: list[ComparedFigure] = []
    for name, curve in found.get("coverage", {}).get("curves", {}).items():
        last = 100 * curve[-1]
        for at in sorted({*(one for one in READ_OFF if one < len(curve)), min(len(curve), READ_OFF[-1])}):
            value = 100 * curve[at - 1]
            below = value < published.COVERAGE_BELOW
            figures.append(
                ComparedFigure(
                    row=name,
                    measure="coverage of pairs of values",
                    unit="%",
                    at=float(at),
                    published_text="below 40",
                    ours=OwnFigure(value=value, kind="observed", basis=f"on {at} pictures"),
                    verdict="agrees" if below else "differs",
                    because="" if below else "more pairs appear than the paper states",
                )
            )
        never = last < published.COVERAGE_NEVER
        figures.append(
            ComparedFigure(
                row=f"{name}, {len(curve)} pictures",
                measure="coverage at the end",
                unit="%",
                published_text="below 35",
                ours=OwnFigure(value=last, kind="observed", basis=f"on {len(curve)} pictures"),
                verdict="agrees" if never else "differs",
                because="" if never else "more pairs appear than stated",
            )
        )
        if len(curve) > published.SATURATED_AT:
            later = last - 100 * curve[published.SATURATED_AT - 1]
            exempt = later > 5
            figures.append(
                ComparedFigure(
                    row=name,
                    measure=f"coverage gained after {published.SATURATED_AT} pictures",
                    unit="%",
                    published_text="little, but for one",
                    verdict="agrees",
                    ours=OwnFigure(value=later, kind="observed", basis=f"on {len(curve)} pictures"),
                    because="the one sequence that does not saturate" if exempt else "",
                )
            )
    late = [i for i, one in enumerate(figures) if one.because.startswith("the one sequence")]
    if len(late) > 1:
        for i in late:
            figures[i] = figures[i].model_copy(
                update={"verdict": "differs", "because": f"{len(late)} sequences do not saturate, not one"}
            )
    table = _table("Figure 3", figures)
    return table.model_copy(update={"horizontal": "pictures"})


def compare_enforcement(found: Found) -> ComparedTable:
    """Compare the effect of enforcement on the recorded frequencies; the paper shows pictures."""
    done = found.get("enforced")
    figures = []
    if done:
        requests = f"in {done['requests']:,} requests"
        for policy, name in (
            ("free", "not enforced"),
            ("published", "counters"),
            ("before", "before"),
            ("after", "after"),
        ):
            for what, measure, unit in (
                ("longest", "longest wait for a woman, in pictures", ""),
                ("changed", "requests whose prompt was changed", "%"),
            ):
                value = done[policy][what] if what == "longest" else 100 * done[policy][what] / done["requests"]
                own = OwnFigure(value=value, kind="observed", basis=requests)
                ours = own if policy in ("free", "published") else None
                figures.append(
                    ComparedFigure(
                        row=name,
                        measure=measure,
                        unit="%" if unit else "",
                        ours=ours,
                        default=own if policy in ("free", "before", "after") else None,
                        verdict="not compared",
                        because="the paper shows its improvement in pictures (Figure 1, row 5)",
                    )
                )
    figures.append(
        _left_out(
            "web service",
            "Gemma 2, Stable Diffusion 1.5 and moondream behind the rule",
            "the paper states that it runs, and measures nothing",
        )
    )
    return _table("Enforcement", figures)


def compare_weak_next(found: Found) -> ComparedTable:
    """Compare Example 8."""
    done = found.get("weak-next")
    figures = []
    if done:
        figures = [
            _figure(
                "yellow, last seen as item 8 of 11",
                "deadlines of 6 items missed",
                0.0,
                _observed_figure(done["missed"]),
            ),
            _figure(
                "both colours within 6",
                "specifications violated",
                0.0,
                _observed_figure(sum(one == "violated" for one in done["verdicts"])),
            ),
        ]
    return _table("Figure 4", figures)


def simulation_name(setting: str, in_flight: int) -> str:
    """Return the name of the piece that simulates a setting."""
    return f"{setting.replace(',', '').replace(' ', '-')}-{in_flight}"


def _figure(row: str, measure: str, stated: float, ours: OwnFigure, default: OwnFigure | None = None) -> ComparedFigure:
    verdict = judge(stated, ours.value)
    because = "" if verdict == "agrees" else "the labels show something else"
    return ComparedFigure(
        row=row, measure=measure, published=stated, ours=ours, default=default, verdict=verdict, because=because
    )


def _left_out(row: str, measure: str, because: str) -> ComparedFigure:
    return ComparedFigure(row=row, measure=measure, verdict="not compared", because=because)


def _observed_figure(value: float) -> OwnFigure:
    return OwnFigure(value=value, kind="observed")


def _table(number: str, figures: Sequence[ComparedFigure]) -> ComparedTable:
    verdict = summarize_verdicts([one.verdict for one in figures])
    reasons = dict.fromkeys(one.because for one in figures if one.verdict == verdict and one.because)
    because = "; ".join(reasons) if verdict in ("differs", "not compared") else ""
    return ComparedTable(
        number=number,
        title=ABOUT[number][0],
        text=ABOUT[number][1],
        figures=tuple(figures),
        verdict=verdict,
        because=because,
    )


COMPARISONS: dict[str, Callable[[Found], ComparedTable]] = {
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
}

_SIMULATIONS = tuple(
    Piece(
        simulation_name(setting.name, in_flight),
        ("Algorithm 1",),
        partial(pieces.simulate_setting, setting.name, in_flight),
        minutes=0.05,
        quick_minutes=0.01,
    )
    for setting in SETTINGS
    for in_flight in IN_FLIGHT
)

PAPER = Paper(
    name="conditional-fairness",
    title=published.TITLE,
    published_in=published.WHERE,
    tables=tuple(PublishedTable(number, ABOUT[number][0], compare) for number, compare in COMPARISONS.items()),
    pieces=(
        Piece("waits", ("Lemmas", "Gender"), pieces.find_waits, 0.02, 0.02),
        Piece("least", ("Lemmas",), pieces.find_least_deadlines, 0.02, 0.02),
        Piece("prompts", ("Example 6",), pieces.judge_prompts, 0.01, 0.01),
        Piece("example", ("Figure 2",), pieces.follow_example, 0.01, 0.01),
        Piece("demographics", ("Figure 1", "Demographics"), pieces.find_demographics, 0.01, 0.01),
        Piece("coverage", ("Figure 3",), pieces.find_pair_coverage, 0.02, 0.02),
        Piece("enforced", ("Enforcement",), pieces.enforce_recorded, 0.1, 0.01),
        Piece("weak-next", ("Figure 4",), pieces.judge_weak_next, 0.01, 0.01),
        *_SIMULATIONS,
    ),
)
