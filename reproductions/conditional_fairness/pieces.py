"""The work behind the tables: bundled sequences are assessed, and the published algorithm is run beside Evenhand's."""

from __future__ import annotations

import csv
import lzma
from functools import cache
from pathlib import Path
from typing import Any

from evenhand.genai import (
    Enforcer,
    GenerationConfig,
    KeywordJudge,
    PolicyComparisonResult,
    PublishedCountdown,
    RecordedSequence,
    assess_sequences,
    check_feasibility,
    compare_policies,
    estimate_prompt_bias,
)
from evenhand.typing import Progress
from reproductions.comparison import PieceContext, Values
from reproductions.conditional_fairness.published import PROMPTS
from reproductions.conditional_fairness.settings import QUICK_REQUESTS, REQUESTS, SETTINGS

GENDER: dict[str, tuple[str, ...]] = {"gender": ("male", "female")}

ALL_PAIRS = {
    "occupation": (
        "armed_forces", "manager", "professional", "technician", "clerical_worker", "service_worker", "skilled_worker",
        "craftsperson", "plant_operator", "elementary_worker",
    ),
    "ethnicity": (
        "american_indian_or_alaska_native", "asian", "black_or_african_american", "hispanic_or_latino", "white",
        "native_hawaiian_or_other_pacific_islander", "others",
    ),
    "gender": ("female", "male"),
    "body_type": ("slim", "overweight"),
}  # fmt: skip
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
    path = Path(__file__).parent / "data" / "labels.csv.xz"
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


def find_waits(context: PieceContext, progress: Progress) -> Values:
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


def find_demographics(context: PieceContext, progress: Progress) -> Values:
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
    unstated = {
        condition: sum(row["ethnicity"] != "" for row in read_labels() if f"_{condition}_" in row["sequence"])
        for condition in ("poor", "overweight")
    }
    return {"sequences": found, "places": places, "ages": ages, "ethnicities_stated": unstated}


def find_pair_coverage(context: PieceContext, progress: Progress) -> Values:
    """Return the share of pairs of values seen among the first 1, 2, ... pictures, by sequence."""
    found = {}
    for one in assess_sequences(select_sequences("authors", ALL_PAIRS)).sequences:
        if one.coverage is not None:
            found[one.name] = [round(share, 6) for share in one.coverage.curve]
    return {"curves": found}


def judge_prompts(context: PieceContext, progress: Progress) -> Values:
    """Return what the prompts of Example 6 fix by their words, and what repeating a neutral one showed."""
    judge = KeywordJudge(
        {"poor": ["poor", "disadvantaged"]},
        {
            "gender": {"female": ["female", "woman", "lady"], "male": ["male", "man", "gentleman"]},
            "age": {"child": ["child"], "adult": ["young", "adult"], "elderly": ["elderly", "old"]},
        },
    )
    answers = [{"gender": label} for one in select_sequences("notebook", GENDER, "openai_poor")
               for label in one.labels["gender"]]  # fmt: skip
    repeated = estimate_prompt_bias({PROMPTS[0]: answers}, GENDER).findings[0]
    return {
        "fixed": {prompt: sorted(judge.fixed_groups(prompt)) for prompt in PROMPTS},
        "repeated": {"verdict": repeated.verdict, "items": len(answers), "shown": repeated.shown},
    }


def find_least_deadlines(context: PieceContext, progress: Progress) -> Values:
    """Return the smallest deadline, equal for all values, that can be kept for ever, by number of values."""
    found = {}
    for values in range(2, 7):
        kept = (beta for beta in range(1, 20) if check_feasibility(_one_group(values, beta)).feasible)
        found[str(values)] = next(kept)
    return {"least": found}


def follow_example(context: PieceContext, progress: Progress) -> Values:
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


def judge_weak_next(context: PieceContext, progress: Progress) -> Values:
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


def simulate_setting(name: str, in_flight: int, context: PieceContext, progress: Progress) -> Values:
    """Return what four policies missed and cost on the same requests."""
    setting = next(one for one in SETTINGS if one.name == name)
    requests = QUICK_REQUESTS if context.quick else REQUESTS
    described = setting.configuration()
    found = _compare_to_the_end(described, requests, in_flight, context.seed + 1, progress)
    return {
        "requests": requests,
        **{
            one.policy: {
                "missed": one.violations,
                "changed": one.interventions,
                "made": one.generator_calls,
                "longest": max(one.longest_gap.values()),
            }
            for one in found.simulations
        },
    }


def enforce_recorded(context: PieceContext, progress: Progress) -> Values:
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
    found = _compare_to_the_end(described, requests, 1, context.seed, progress)
    return {
        "female": female,
        "requests": requests,
        **{
            one.policy: {"missed": one.violations, "changed": one.interventions, "longest": one.longest_gap["female"]}
            for one in found.simulations
        },
    }


def _compare_to_the_end(
    described: GenerationConfig, requests: int, in_flight: int, seed: int, progress: Progress
) -> PolicyComparisonResult:
    """Return what every policy came to; an interrupted simulation is not a piece that is done."""
    found = compare_policies(described, requests=requests, in_flight=in_flight, seed=seed, progress=progress)
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
