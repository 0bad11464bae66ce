"""Results of checking a certificate."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import TYPE_CHECKING, Literal, TypeAlias

from pydantic import Field

from evenhand.core.document import (
    Block,
    Column,
    Document,
    Facts,
    Figure,
    Heading,
    Metric,
    Note,
    ReportedNumber,
    Table,
    TableRow,
    Text,
)
from evenhand.core.result import Result
from evenhand.core.result_part import ResultPart

if TYPE_CHECKING:
    import pandas as pd


SHARES = {
    "fair": "claimed fair",
    "unfair": "claimed unfair",
    "proved_fair": "proved fair",
    "proved_unfair": "proved unfair",
}
"""Shares of an unconfirmed box, and their titles."""
Verdict: TypeAlias = Literal["confirmed", "restricted", "not confirmed", "unfinished", "rejected"]


def float_below(share: Fraction) -> float:
    """Compute the largest float that does not exceed a fraction."""
    nearest = float(share)
    return nearest if Fraction(nearest) <= share else math.nextafter(nearest, -math.inf)


class UnconfirmedBox(ResultPart):
    """Box whose claimed shares were not confirmed, with its proved shares."""

    where: dict[str, str]
    fair: float
    unfair: float
    proved_fair: float
    proved_unfair: float

    @property
    def place(self) -> str:
        """Description of the box."""
        return "; ".join(f"{name}: {values}" for name, values in self.where.items())


class CheckedOutcome(ResultPart):
    """Bounds on the share of people who can get at least ``least`` different outcomes."""

    least: int
    proved: float
    possible: float


class CertificateCheck(Result):
    """Result of checking a certificate file.

    Attributes:
        verdict: ``confirmed``: the file is intact and for this model, its boxes partition the domain, its totals are
            correct, every checked box is confirmed, and it answers the question. ``restricted``: the same, but it
            answers a different question; see ``restricted``. ``not confirmed``: the claim of some box was not
            confirmed. ``unfinished``: interrupted before any fault was found. ``rejected``: the file is damaged, or
            contradicts the model or itself; see ``fault``.
        fault: Reason of the rejection.
        model: Name of the model.
        protected: Attributes that were varied.
        population: Population that weighs the people, as the checker determined it.
        restricted: Differences from the user's question, by attribute, or ``protected``, ``domain``, ``population``,
            ``threshold``, ``tolerance``, ``bands``.
        where: Conditions on the people, which were compared with the boxes.
        threshold: Threshold on the second label's probability.
        tolerance: Permitted change of a number. None for labels and bands.
        bands: Scores that separate bands of the favourable label's score. Empty for labels.
        outcomes: Bounds for each number of different outcomes. Empty for two.
        method: Method of the proof.
        certified, falsified, undecided: Recomputed totals. None if rejected.
        boxes: Number of boxes.
        checked: Number of different boxes that were checked, including boxes without a claim.
        exact: Whether boxes were proved in integers (trees) or in float64 with outward rounding (networks).
        interrupted: Whether an interrupt left boxes unchecked.
        draws: Size of the random sample. None if all boxes were checked.
        unconfirmed: Boxes that were not confirmed, at most 100; see ``failures``.
        failures: Number of draws (or boxes, if all were checked) that were not confirmed.
        doubt: Upper bound, at this ``confidence``, on the share of the claimed mass in boxes that would not be
            confirmed. None if rejected.
        confidence: Confidence level of ``doubt``.
    """

    chart = "certification.draw_check"
    kind: Literal["certificate-check"] = "certificate-check"
    verdict: Verdict
    fault: str | None = None
    model: str | None = None
    protected: tuple[str, ...] = ()
    population: str | None = None
    restricted: dict[str, str] = Field(default_factory=dict)
    where: tuple[str, ...] = ()
    threshold: float | None = None
    tolerance: float | None = None
    bands: tuple[float, ...] = ()
    outcomes: tuple[CheckedOutcome, ...] = ()
    method: str | None = None
    certified: float | None = None
    falsified: float | None = None
    undecided: float | None = None
    boxes: int = 0
    checked: int = 0
    exact: bool = False
    interrupted: bool = False
    draws: int | None = None
    unconfirmed: tuple[UnconfirmedBox, ...] = ()
    failures: int = 0
    doubt: float | None = None
    confidence: float

    def document(self) -> Document:
        """Build the report: verdict, totals and sample."""
        if self.verdict == "rejected":
            blocks: tuple[Block, ...] = (Note(f"rejected: {self.fault}", "caution"),)
            return Document("Certificate rejected", "", blocks, brand="Evenhand check", made=self.provenance)
        name = " x ".join(self.protected)
        headline = "confirmed, but of a restricted question" if self.verdict == "restricted" else self.verdict
        return Document(
            f"{headline}: {name} of {self.model}",
            self._proved_again(),
            (
                *self._restrictions(),
                *self._finding(name),
                *self._totals(name),
                Facts(tuple(self._facts())),
                *self._unconfirmed_table(),
                Heading("Where it holds", detail=True),
                Figure("checked shares", "From left to right: certified fair, undecided, certified unfair.", self),
            ),
            brand="Evenhand check",
            made=self.provenance,
        )

    def _finding(self, name: str) -> Iterator[Text]:
        if self.verdict in ("confirmed", "restricted") and self.certified is not None:
            yield Text(
                f"The certificate is confirmed: for {self.certified:.2%} of the population that it is "
                f"about, the decision does not change with {name}.",
                role="finding",
            )

    def _proved_again(self) -> str:
        exact = "in integers" if self.exact else "in float64 with outward rounding"
        if self.interrupted:
            return (
                f"Interrupted: {self.checked:,} boxes were proved again, {exact}; {self.failures:,} not confirmed. "
                f"{self.doubt or 0.0:.2%} of the claimed mass was not confirmed."
            )
        if self.draws is None:
            return f"All {self.checked:,} boxes were proved again, {exact}; {self.failures:,} not confirmed."
        return (
            f"{self.checked:,} boxes were proved again, in {self.draws:,} draws by claimed mass, {exact}; "
            f"{self.failures:,} draws not confirmed. With {self.confidence:.0%} confidence at most "
            f"{self.doubt or 0.0:.2%} of the claimed mass would not be confirmed."
        )

    def _restrictions(self) -> Iterator[Note]:
        """Yield the differences from the user's question."""
        if self.restricted:
            differences = "; ".join(f"{name}: {words}" for name, words in self.restricted.items())
            yield Note(f"This differs from the requested question. The certificate is about {differences}.", "caution")

    def _totals(self, name: str) -> Iterator[Metric]:
        for question, share in (
            ("certified fair", self.certified),
            ("certified unfair", self.falsified),
            ("undecided", self.undecided),
        ):
            number = ReportedNumber(f"{share or 0.0:.2%}", share, "proved", basis=f"of {self.population}")
            yield Metric(question, number, about=name)

    def _facts(self) -> Iterator[tuple[str, str]]:
        if self.where:
            yield "where", " and ".join(self.where)
        if self.threshold not in (None, 0.5):
            yield "decision threshold", f"{self.threshold:g}"
        if self.tolerance is not None:
            yield "tolerance", f"numbers that change by no more than {self.tolerance:g} count as the same"
        if self.bands:
            yield "bands", f"of the favourable label's score, cut at {', '.join(f'{edge:g}' for edge in self.bands)}"
        for each in self.outcomes:
            yield f"at least {each.least} outcomes", f"proved for {each.proved:.2%}, possible for {each.possible:.2%}"
        yield "population", str(self.population)
        yield "boxes", f"{self.boxes:,} fill the domain without gap or overlap, and the totals add up"

    def _unconfirmed_table(self) -> Iterator[Table]:
        if self.unconfirmed:
            columns = (Column("where"), *(Column(title, numeric=True) for title in SHARES.values()))
            rows = tuple(
                TableRow((box.place or "everywhere", *(f"{getattr(box, name):.4%}" for name in SHARES)))
                for box in self.unconfirmed
            )
            yield Table("Boxes that were not confirmed", columns, rows, listed=5)

    def to_frame(self) -> pd.DataFrame:
        """Build a table with one row per unconfirmed box."""
        import pandas as pd

        rows = [{"where": box.place, **{name: getattr(box, name) for name in SHARES}} for box in self.unconfirmed]
        return pd.DataFrame(rows, columns=["where", *SHARES])
