"""What a search for subgroups found: rule sets with their rates, intervals and how sure one can be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict

from evenhand.result import Result
from evenhand.subgroup.around import Around
from evenhand.subgroup.measures import Measure
from evenhand.subgroup.rules import Rules, RuleSet, words

if TYPE_CHECKING:
    import altair as alt
    import pandas as pd

Control: TypeAlias = Literal["max-t", "BY", "none"]
Against: TypeAlias = Literal["rest", "best"]
Method: TypeAlias = Literal["exact", "sampled", "themis", "linear"]

EVENTS: dict[str, str] = {
    "favourable": "are given the favourable label",
    "false-negative": "of those who deserve the favourable label are refused it",
    "false-positive": "of those who do not deserve the favourable label are given it",
    "score": "is the mean score",
}
"""What a measure's rate says of people."""


class Finding(BaseModel):
    """One rule set, and how the people in it fare against the others.

    Attributes:
        rules: the simplest description of its people, attribute -> values or range.
        words: the same as one says it.
        size, rest: people in it, and those it is compared with.
        positives, rest_positives: how many of them have the outcome; None for the mean score, and where the rates are
            those of samples.
        rate, rest_rate: shares with the outcome, or mean scores.
        gap: ``rate - rest_rate`` (with a control variable, the average over its strata).
        low, high: interval for the gap, adjusted for everything that was looked at.
        plain_low, plain_high: interval for this gap alone, as if nothing else had been looked at.
        z: the gap in standard errors under "no difference", its tail made like a normal one's where few people or a
            rare outcome skew it; None where a published method has none.
        adjusted_p: probability of a gap as clear as this anywhere, were there none; None where a published method has
            none.
        found: whether the gap stands out from chance: ``adjusted_p`` is small enough, the adjusted interval excludes
            0, and it does not rule out a gap of at least the margin.
        under: position among the findings of the simpler one that explains this gap.
        same: other descriptions of the same people.
        others: how many there are, those not listed included.
        versus: whom they are compared with, where that is not everyone else.
        samples: samples on either side that the rates were counted on, where they are not those of real people.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    rules: Rules
    words: str
    size: int
    rest: int
    positives: int | None
    rest_positives: int | None
    rate: float
    rest_rate: float
    gap: float
    low: float
    high: float
    plain_low: float
    plain_high: float
    z: float | None
    adjusted_p: float | None
    found: bool
    under: int | None = None
    same: tuple[RuleSet, ...] = ()
    others: int = 0
    versus: RuleSet | None = None
    samples: int | None = None

    def sentence(self, measure: Measure = "favourable") -> str:
        """The finding as a sentence."""
        if measure == "score":
            return (
                f"The mean score of {self.size:,} people with {self.words} is {self.rate:.3f}; "
                f"of everyone else {self.rest_rate:.3f}."
            )
        whom = self.versus.words() if self.versus else "everyone else"
        of = f"{self.size:,} people with" if self.samples is None else f"{self.samples:,} samples of"
        return (f"Of {of} {self.words}, {self.rate:.1%} {EVENTS[measure]}; of {whom} {self.rest_rate:.1%}.").replace(
            "%", " %"
        )


class LinearGroup(BaseModel):
    """The people whose linear score over the sensitive attributes is positive: what the linear auditor reports.

    Attributes:
        weights: of every column of the score, a number or "attribute value"; in the attributes' own units.
        intercept: added to it.
        weighted: share of everybody who is in the group and concerned, times the distance of the group's rate from the
            rate of all: the disparity of Kearns and others (2018).
        overall_gap: the group's rate minus the rate of all.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    weights: dict[str, float]
    intercept: float
    weighted: float
    overall_gap: float


class Refused(BaseModel):
    """A rule set that was asked about and that nothing can be said about.

    Attributes:
        rules: its rules.
        words: the same as one says it.
        size, rest: people in it and outside.
        reason: why not.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    rules: Rules
    words: str
    size: int
    rest: int
    reason: str


class Cells(BaseModel):
    """A sensitive attribute and the cells that rules are made of.

    Attributes:
        name: the attribute.
        cells: its values or ranges, in words.
        ordered: whether rules are ranges of neighbouring cells, else subsets.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    cells: tuple[str, ...]
    ordered: bool


class SubgroupResult(Result):
    """The subgroups that a model treats differently.

    Attributes:
        method: how they were searched for.
        measure: what is compared.
        against: with whom: everybody else, or the best other group.
        control: how looking at many is accounted for: ``max-t`` (no false finding at all, with ``confidence``),
            ``BY`` (share of false findings, Benjamini-Yekutieli), ``none``.
        confidence: of the intervals, and 1 - the error that is controlled.
        critical: how many standard errors the adjusted intervals reach; None where nothing is adjusted.
        margin: gaps that are certainly smaller than this are not called found.
        support, least_people: floors: the share and the number of people in a rule set, and outside it, at least. One
            that was asked about needs the number only.
        people: how many are concerned.
        rate: the overall rate, or mean score.
        rule_sets: how many there are, before floors.
        tested: how many different groups of people meet the floors: the number of statistics looked at.
        found: how many of them stand out, those not listed included.
        attributes: the sensitive attributes and their cells.
        findings: ranked by the gap that is certain (the end of the adjusted interval nearer to 0).
        judged: rule sets that were asked about.
        per: the control variable within whose strata gaps are taken.
        split: whether rule sets were chosen on one half of the people and measured on the other.
        interrupted: whether somebody stopped it, or time was up; what is here was found before.
        linear: the group of the linear auditor, which no rules describe.
        around: rule sets around the data, where that was asked for: samples, not people.
        notes: what else a reader must know.
    """

    kind: Literal["subgroups"] = "subgroups"
    method: Method
    measure: Measure
    against: Against
    control: Control
    confidence: float
    critical: float | None
    margin: float
    support: float
    least_people: int
    people: int
    rate: float
    rule_sets: int
    tested: int
    found: int
    attributes: tuple[Cells, ...]
    findings: tuple[Finding, ...]
    judged: tuple[Finding | Refused, ...] = ()
    per: str | None = None
    split: bool = False
    interrupted: bool = False
    linear: LinearGroup | None = None
    around: tuple[Around, ...] = ()
    notes: tuple[str, ...] = ()

    def sentence(self, finding: Finding) -> str:
        """A finding as a sentence."""
        return finding.sentence(self.measure)

    def words(self, rules: Rules) -> str:
        """Rules as one says them, most values by what is left out."""
        return words(rules, {cells.name: cells.cells for cells in self.attributes})

    def tree(self) -> dict[int | None, list[int]]:
        """Positions of findings by the position of the one they are shown under; None: on their own."""
        found: dict[int | None, list[int]] = {}
        for position, finding in enumerate(self.findings):
            found.setdefault(finding.under, []).append(position)
        return found

    def summary(self) -> str:
        """How much was looked at, and the clearest findings."""
        lines = [
            f"{self.tested:,} of {self.rule_sets:,} rule sets over {', '.join(cells.name for cells in self.attributes)}"
            f" looked at; {self.found:,} stand out ({self.control}, {self.confidence:.0%})".replace("%", " %")
        ]
        for position in self.tree().get(None, [])[:10]:
            finding = self.findings[position]
            if finding.found:
                lines.append(f"{finding.gap:+.3f} [{finding.low:+.3f}, {finding.high:+.3f}]  {self.sentence(finding)}")
        return "\n".join(lines)

    def to_frame(self) -> pd.DataFrame:
        """One row per finding: its words, sizes, rates, gap, intervals, z, adjusted_p, found, under."""
        import pandas as pd

        columns = ["words", "size", "rest", "positives", "rest_positives", "rate", "rest_rate", "gap", "low", "high",
                   "plain_low", "plain_high", "z", "adjusted_p", "found", "under"]  # fmt: skip
        return pd.DataFrame(
            [{name: getattr(finding, name) for name in columns} for finding in self.findings], columns=columns
        )

    def plot(self) -> alt.TopLevelMixin:
        """The gaps with their adjusted intervals."""
        from evenhand.subgroup.plot import plot

        return plot(self)
