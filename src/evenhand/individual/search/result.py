"""What a search found, and how common it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from evenhand.individual.result import Assignment
from evenhand.individual.search.reading.parts import Reading
from evenhand.individual.search.table import Table
from evenhand.result import Result

if TYPE_CHECKING:
    import altair as alt
    import pandas as pd

Floats: TypeAlias = NDArray[np.float64]


class ViolationRate(BaseModel):
    """The share of a population that is decided differently under some protected assignment, from a random sample.

    Attributes:
        estimate: the share among the n drawn.
        low, high, confidence: the exact (Clopper-Pearson) interval, two-sided.
        population: what was sampled.
        flips, n: how many of how many.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    estimate: float
    low: float
    high: float
    confidence: float
    population: str
    flips: int
    n: int


class Example(BaseModel):
    """One profile: a person's unprotected part, with what the model says to each protected assignment.

    Attributes:
        unprotected: attribute -> value in the data's own words.
        worse, better: the assignments with the lowest and the highest favourable score among those that disagree.
        outcomes: every assignment, in the schema's order.
        gap: difference of the two favourable scores.
        severity: what the examples are ranked by: the gap times how near somebody in the data is (1 minus
            ``distance``); without data the gap.
        distance: Gower's distance of the unprotected part to the nearest person in the data, 0 to 1; None without data.
        changes: what that person has instead: attribute -> value, for the attributes that differ.
        valid: whether every pair of its values occurs together in the data; None without data.
        given: whether it is a seed as it stands, so that no search was needed.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    unprotected: dict[str, str]
    worse: Assignment
    better: Assignment
    outcomes: tuple[Assignment, ...]
    gap: float
    severity: float
    distance: float | None = None
    changes: dict[str, str] = Field(default_factory=dict)
    valid: bool | None
    given: bool


class SearchResult(Result):
    """Profiles that a model decides differently under some protected assignment.

    Attributes:
        method: how they were searched.
        protected: the attributes whose joint assignments were compared.
        profiles: distinct profiles found, each verified again on the model at the end.
        valid: how many of them have only pairs of values that occur together in the data; None without data.
        given: how many of them were seeds as they stand.
        queries: individuals that the search asked the model about; the rates and the verification are not in it.
        rates: violation rates, first over the population; none if a tenth of the budget paid for no sample.
        examples: the most severe profiles, most severe first.
        reading: attributes that matter, kinds of people, diversity; None if nothing was found.
        representatives: one profile per kind of ``reading.kinds``, in their order.
        interrupted: whether somebody stopped it; what is here was found before.
        stopped_by: what ended the search: its plan was carried out, budget, time, or an interrupt.
        remembered: questions answered from the file of answers.
        settings: what it was called with.
        table: all profiles; not part of the JSON.
    """

    kind: Literal["individual"] = "individual"
    method: str
    protected: tuple[str, ...]
    profiles: int
    valid: int | None
    given: int
    queries: int
    rate: ViolationRate | None
    rates: tuple[ViolationRate, ...]
    examples: tuple[Example, ...]
    reading: Reading | None = None
    representatives: tuple[Example, ...] = ()
    interrupted: bool = False
    stopped_by: Literal["plan", "budget", "time", "interrupt"]
    remembered: int = 0
    settings: dict[str, Any]
    table: Any = Field(default=None, exclude=True, repr=False)

    def __eq__(self, other: object) -> bool:
        """Whether two results say the same; the table of all profiles does not travel as JSON and does not count."""
        return isinstance(other, SearchResult) and self.plain() == other.plain()

    __hash__ = None  # type: ignore[assignment]

    def summary(self) -> str:
        """How common it is, what was found, and what to do where nothing was."""
        names = " x ".join(self.protected)
        lines = [
            f"{100 * rate.estimate:.3g} % flip with {names} ({rate.flips:,} of {rate.n:,} sampled from "
            f"{rate.population}; {rate.confidence:.0%} interval {100 * rate.low:.2g} to {100 * rate.high:.2g} %)"
            for rate in self.rates
        ]
        if self.profiles:
            could = "" if self.valid is None else f", {self.valid:,} of them people who could exist"
            seeds = f" ({self.given:,} were people in the data as they stand)" if self.given else ""
            lines.append(f"{self.method}: {self.profiles:,} profiles in {self.queries:,} queries{could}{seeds}")
        else:
            lines.append(f"{self.method}: none found in {self.queries:,} queries")
            if self.rate is not None:
                lines.append(
                    f"at {self.rate.confidence:.0%} confidence at most {100 * self.rate.high:.2g} % of "
                    f"{self.rate.population} are affected; whether anybody is, only a proof can say: evenhand certify"
                )
        if self.interrupted:
            lines.append("interrupted; this was found before")
        return "\n".join(lines)

    def to_frame(self) -> pd.DataFrame:
        """One row per profile in the data's own words, in the order found; after ``from_json`` only the examples.

        Columns: the unprotected attributes; protected values, label and favourable score of the worst and the best
        treated assignment; gap; valid; given.
        """
        import pandas as pd

        if isinstance(self.table, Table):
            return self.table.to_frame()
        rows = [
            example.unprotected
            | {f"{name} (worse)": value for name, value in example.worse.values.items()}
            | {f"{name} (better)": value for name, value in example.better.values.items()}
            | {"label (worse)": example.worse.label, "label (better)": example.better.label}
            | {"score (worse)": example.worse.score, "score (better)": example.better.score, "gap": example.gap}
            | {"valid": example.valid, "given": example.given}
            for example in self.examples
        ]
        return pd.DataFrame(rows)

    def plot(self) -> alt.TopLevelMixin:
        """How wide the gaps are, and where the profiles sit by attribute, next to the data."""
        from evenhand.individual.search.plot import plot

        return plot(self)


def examples(
    table: Table,
    rows: NDArray[np.int64],
    severity: Floats,
    distance: Floats | None = None,
    nearest: Floats | None = None,
) -> tuple[Example, ...]:
    """Profiles of a table in full.

    Args:
        rows: their positions in the table, shape (n,).
        severity, distance: shape (n,), see ``Example``.
        nearest: the unprotected part of the nearest person in the data, shape (n, U).
    """
    found = table.found

    def assignment(row: int, which: int) -> Assignment:
        entries = zip(table.protected, table.assignments[which], strict=True)
        return Assignment(
            values={name: table.schema[name].text(entry) for name, entry in entries},
            label=str(table.classes[found.labels[row, which]]),
            score=float(found.scores[row, which, table.favourable]),
        )

    def changes(k: int, row: int) -> dict[str, str]:
        if nearest is None:
            return {}
        pairs = zip(table.unprotected, found.unprotected[row], nearest[k], strict=True)
        return {name: table.schema[name].text(real) for name, entry, real in pairs if entry != real}

    return tuple(
        Example(
            unprotected={
                name: table.schema[name].text(entry)
                for name, entry in zip(table.unprotected, found.unprotected[row], strict=True)
            },
            worse=assignment(row, int(table.worse[row])),
            better=assignment(row, int(table.better[row])),
            outcomes=tuple(assignment(row, which) for which in range(len(table.assignments))),
            gap=float(table.gap[row]),
            severity=float(severity[k]),
            distance=None if distance is None else float(distance[k]),
            changes=changes(k, row),
            valid=bool(found.valid[row]) if table.with_data else None,
            given=bool(found.given[row]),
        )
        for k, row in enumerate(rows.tolist())
    )
