"""Both tables, counted from what was run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from evenhand.reproduce.mitigation import published
from evenhand.reproduce.mitigation.cases import CASES
from evenhand.reproduce.mitigation.result import Counted, Mended, MitigationTables, Model
from evenhand.reproduce.mitigation.subgroups import GIVEN
from evenhand.reproduce.shields import published as shields
from evenhand.reproduce.shields.environments import ENVIRONMENTS
from evenhand.stats.difference import newcombe

if TYPE_CHECKING:
    import pandas as pd

HALVED = 0.5
"""A gap counts as mended if no more than this share of it is left."""

POINT = 0.01
"""And if less accuracy than this was lost."""


@dataclass(frozen=True)
class Row:
    """A method on a data set, means over the runs in which it could be used.

    Attributes:
        case, method: which.
        runs: how many.
        accuracy, gap: on the people kept aside.
        low, high: 95 % interval of the signed gap there (rate inside minus rate outside), of a single run only.
        learnt_accuracy, learnt_gap: on the people learnt from.
        rate, rest_rate, sampled_gap: on samples around those, counted as the paper counts.
        published: the paper's line; None for methods that it does not have.
    """

    case: str
    method: str
    runs: int
    accuracy: float
    gap: float
    low: float | None
    high: float | None
    learnt_accuracy: float
    learnt_gap: float
    rate: float
    rest_rate: float
    sampled_gap: float
    published: published.State | None


@dataclass(frozen=True)
class Reached:
    """How often a method halved the gap for less than a point of accuracy.

    Attributes:
        method: which.
        cases: data sets on which, on average over the runs, it did so on people kept aside; of: it was used on.
        paper: the same, counted on samples around the people learnt from, as the paper counts.
    """

    method: str
    cases: tuple[str, ...]
    paper: tuple[str, ...]
    of: int


@dataclass(frozen=True)
class ClassifierRow:
    """A classifier in an environment, means over the runs.

    Attributes:
        environment, classifier: which.
        runs: how many.
        accuracy, demographic_parity, equal_opportunity: on people it was not trained on.
        published: the paper's line.
    """

    environment: str
    classifier: str
    runs: int
    accuracy: float
    demographic_parity: float
    equal_opportunity: float
    published: shields.Classified | None


def rows(found: MitigationTables) -> list[Row]:
    """The table of subgroups: the given network first, then the methods, by data set."""
    made = []
    for case in CASES:
        own = [one for one in found.mended if one.case == case.name and one.subgroup is not None]
        for method in (GIVEN, *found.settings.methods):
            models = [model for one in own for model in one.models if model.method == method]
            if models:
                made.append(_row(case.name, method, models))
    return made


def _row(case: str, method: str, models: Sequence[Model]) -> Row:
    held, learnt, sampled = ([getattr(model, name) for model in models] for name in PARTS)
    low, high = ends(held[0]) if len(held) == 1 else (None, None)
    known = published.RETRAINED[case]
    return Row(
        case=case,
        method=method,
        runs=len(models),
        accuracy=_mean([one.accuracy or 0.0 for one in held]),
        gap=_mean([one.gap for one in held]),
        low=low,
        high=high,
        learnt_accuracy=_mean([one.accuracy or 0.0 for one in learnt]),
        learnt_gap=_mean([one.gap for one in learnt]),
        rate=_mean([one.rate for one in sampled]),
        rest_rate=_mean([one.rest_rate for one in sampled]),
        sampled_gap=_mean([one.gap for one in sampled]),
        published=known.before if method == GIVEN else known.after if method == "retrain" else None,
    )


PARTS = ("held_out", "learnt_from", "sampled")


def ends(counted: Counted) -> tuple[float, float]:
    """The 95 % interval of the rate inside minus the rate outside, for people like these."""
    low, high = newcombe(
        counted.favourable, counted.inside, counted.rest_favourable, counted.people - counted.inside
    )  # fmt: skip
    return float(low), float(high)


def reached(found: MitigationTables) -> list[Reached]:
    """How often each method halved the gap for less than a point."""
    table = rows(found)
    before = {row.case: row for row in table if row.method == GIVEN}
    made = []
    for method in found.settings.methods:
        own = [row for row in table if row.method == method]
        cheap = [row for row in own if before[row.case].accuracy - row.accuracy < POINT]
        made.append(
            Reached(
                method,
                tuple(row.case for row in cheap if _halved(before[row.case].gap, row.gap)),
                tuple(row.case for row in cheap if _halved(before[row.case].sampled_gap, row.sampled_gap)),
                len(own),
            )
        )
    return made


def _halved(before: float, after: float) -> bool:
    return before > 0 and after <= HALVED * before


def classifier_rows(found: MitigationTables) -> list[ClassifierRow]:
    """The table of classifiers, by environment."""
    made = []
    for environment in ENVIRONMENTS:
        for name in found.settings.classifiers:
            own = [
                one
                for one in found.classifiers
                if (one.dataset, one.attribute, one.classifier) == (environment.dataset, environment.attribute, name)
            ]
            if own:
                made.append(
                    ClassifierRow(
                        environment=environment.name,
                        classifier=name,
                        runs=len(own),
                        accuracy=_mean([one.accuracy for one in own]),
                        demographic_parity=_mean([one.demographic_parity for one in own]),
                        equal_opportunity=_mean([one.equal_opportunity for one in own]),
                        published=shields.CLASSIFIED.get((environment.dataset, environment.attribute, name)),
                    )
                )
    return made


def subgroups_found(found: MitigationTables, case: str) -> list[tuple[str, int]]:
    """The subgroups of a data set in words, and in how many runs each was the widest."""
    words = [
        (one.subgroup or "none is large enough") + ("" if one.stands_out else " (does not stand out from chance)")
        for one in found.mended
        if one.case == case
    ]
    return [(each, words.count(each)) for each in dict.fromkeys(words)]


def left_out(found: MitigationTables) -> list[tuple[str, str, str]]:
    """Data set, method and why it could not be used there, each once."""
    return list(
        dict.fromkeys((one.case, method, why) for one in found.mended for method, why in one.left_out.items())
    )  # fmt: skip


def models_frame(found: MitigationTables) -> pd.DataFrame:
    """One row per model, see ``MitigationTables.to_frame``."""
    import pandas as pd

    columns = ["case", "run", "subgroup", "method", "words", "counted_on", "people", "inside", "accuracy", "rate",
               "rest_rate", "gap", "seconds"]  # fmt: skip
    return pd.DataFrame(
        [_record(one, model, part) for one in found.mended for model in one.models for part in PARTS], columns=columns
    )


def _record(one: Mended, model: Model, part: str) -> dict[str, object]:
    counted: Counted = getattr(model, part)
    return {
        "case": one.case,
        "run": one.run,
        "subgroup": one.subgroup,
        "method": model.method,
        "words": model.words,
        "counted_on": part,
        "people": counted.people,
        "inside": counted.inside,
        "accuracy": counted.accuracy,
        "rate": counted.rate,
        "rest_rate": counted.rest_rate,
        "gap": counted.gap,
        "seconds": model.seconds,
    }


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
