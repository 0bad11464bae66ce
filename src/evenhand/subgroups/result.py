"""Results of searches for subgroups: rule sets with rates, gaps and intervals."""

from __future__ import annotations

import importlib
import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal

from evenhand.core.document import Document, SubjectCard
from evenhand.core.result import Result, ResultNumber
from evenhand.core.result_part import ResultPart
from evenhand.core.text import format_count
from evenhand.models.noise import NoiseCheck
from evenhand.stats.quantity import Observed
from evenhand.subgroups.config import Compared, Control, Measure, Method, NumberMeasure
from evenhand.subgroups.rules import Rules

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = (
    *("words", "size", "rest", "positives", "rest_positives", "rate", "rest_rate", "gap", "low", "high"),
    *("plain_low", "plain_high", "z", "adjusted_p", "found", "under"),
)
"""Columns of a result's data frame."""


class Finding(ResultPart):
    """A rule set, compared with the other people.

    Attributes:
        rules: Shortest description of its people, attribute -> values or range.
        words: Description in words.
        size, rest: Number of people inside, and in the comparison group.
        rate, rest_rate: Shares with the outcome, or means.
        gap: ``rate - rest_rate`` (with a control variable, the average over its strata).
        low, high: Interval of the gap, adjusted for all tests.
        plain_low, plain_high: Unadjusted interval of the gap.
        found: Whether the gap is significant: ``adjusted_p`` is small enough, the adjusted interval excludes 0, and it
            does not rule out a gap of at least the margin.
        positives, rest_positives: Number of people with the outcome. None for means, samples and weighted rates.
        z: Gap in standard errors under the null hypothesis, with its tail corrected for skewness. None for the
            published method.
        adjusted_p: Probability of a gap at least this clear in any subgroup if outcomes are unrelated to groups. None
            for the published method.
        under: Position of the finding that explains this gap.
        explains: Number of findings that this one explains, listed or not.
        others: Number of other descriptions of the same people.
        samples: Number of samples on each side, if rates are estimated on samples.
        effective_size, effective_rest: Effective sample sizes of weighted people.
    """

    rules: Rules
    words: str
    size: int
    rest: int
    rate: float
    rest_rate: float
    gap: float
    low: float
    high: float
    plain_low: float
    plain_high: float
    found: bool
    positives: int | None = None
    rest_positives: int | None = None
    z: float | None = None
    adjusted_p: float | None = None
    under: int | None = None
    explains: int = 0
    others: int = 0
    samples: int | None = None
    effective_size: float | None = None
    effective_rest: float | None = None


class MeasuredNumber(ResultPart):
    """Number that subgroups are compared by.

    Attributes:
        name, unit: Name and unit of the number.
        favourable: Direction that is better for people: ``higher``, ``lower`` or ``neither``.
        above: Level, if shares above it are compared. None if means are compared.
        deviation: Standard deviation over all people.
    """

    name: str
    unit: str | None
    favourable: str
    above: float | None = None
    deviation: float

    @property
    def digits(self) -> int:
        """Number of decimals that resolve a twentieth of a standard deviation."""
        return 0 if self.deviation <= 0 else max(0, min(8, 2 - math.floor(math.log10(self.deviation))))

    def describe(self) -> str:
        """Describe the number and its favourable direction."""
        directions = {"higher": "; people want it to be high", "lower": "; people want it to be low"}
        return f"{self.name} is a number{f' in {self.unit}' if self.unit else ''}{directions.get(self.favourable, '')}"


class RefusedRuleSet(ResultPart):
    """Requested rule set that cannot be tested.

    Attributes:
        rules: Its rules.
        words: Description in words.
        size, rest: Number of people inside and outside.
        reason: Reason why it cannot be tested.
    """

    rules: Rules
    words: str
    size: int
    rest: int
    reason: str


class AttributeCells(ResultPart):
    """Cells of a sensitive attribute, from which rules are made.

    Attributes:
        name: Name of the attribute.
        cells: Descriptions of the cells.
        ordered: Whether rules are ranges of adjacent cells. Otherwise, they are subsets.
    """

    name: str
    cells: tuple[str, ...]
    ordered: bool


class SubgroupResult(Result):
    """Subgroups that a model treats differently.

    Attributes:
        method: Search method.
        measure: Compared quantity; for numbers ``mean``, ``residual`` (decided minus true), ``absolute-error`` or
            ``above`` a level.
        number: Number that subgroups are compared by. Gaps and means are in its unit. None for labels.
        control: Multiple-testing correction: ``max-t`` (no false finding at all, with ``confidence``), or ``none`` for
            the published method.
        confidence: Confidence level of the intervals.
        critical: Half width of the adjusted intervals in standard errors. None if nothing is adjusted.
        margin: Gaps that are certainly smaller are not significant.
        support, min_size: Minimum share and number of people inside and outside a rule set. Only the number applies to
            requested rule sets.
        people: Number of people that the measure covers.
        unknown: Number of people left out because the value of an attribute is unknown.
        rate: Overall rate or mean.
        weights: Source of the weights of rates, gaps and intervals. None if all people count equally.
        rule_sets: Number of rule sets.
        tested: Number of distinct groups of people that are large enough, and were tested.
        found: Number of significant groups, listed or not.
        starts: Number of starts of a subset scan, which tests only the groups that its climbs end at. None if all rule
            sets were tested.
        attributes: Sensitive attributes and their cells.
        findings: Findings in reading order: significant ones that no other explains (see
            ``findings.explain_findings``), each followed by those it explains; then the others, by decreasing
            absolute ``z`` (after a scan, by decreasing score).
        judged: Requested rule sets.
        per: Control variable; gaps are computed within its strata.
        interrupted: Whether an interrupt or the time limit ended the search early.
        queries: Total number of rows sent to the model.
        noise: Rate at which the model disagreed with itself. None if it was not queried twice.
        repeats: Number of answers per person, combined by majority vote (scores by their mean).
        notes: Notes for readers.
    """

    chart = "subgroups.draw_gaps"
    kind: Literal["subgroups"] = "subgroups"
    method: Method
    measure: Measure | NumberMeasure | Literal["above"]
    number: MeasuredNumber | None = None
    control: Control
    confidence: float
    critical: float | None
    margin: float
    support: float
    min_size: int
    people: int
    unknown: int = 0
    rate: float
    weights: str | None = None
    rule_sets: int
    tested: int
    found: int
    starts: int | None = None
    attributes: tuple[AttributeCells, ...]
    findings: tuple[Finding, ...]
    judged: tuple[Finding | RefusedRuleSet, ...] = ()
    per: str | None = None
    interrupted: bool = False
    queries: int = 0
    noise: NoiseCheck | None = None
    repeats: int = 1
    notes: tuple[str, ...] = ()

    def sentence(self, finding: Finding) -> str:
        """Describe a finding in one sentence."""
        sentence: str = importlib.import_module("evenhand.subgroups.wording").finding_sentence(self, finding)
        return sentence

    def is_worse(self, finding: Finding) -> bool:
        """Check whether a subgroup is worse off than the others. By default, lower numbers are worse."""
        favourable = "higher" if self.number is None else self.number.favourable
        high_is_worse = self.measure in ("false-negative", "absolute-error") or favourable == "lower"
        return finding.gap > 0 if high_is_worse else finding.gap < 0

    @property
    def is_undirected(self) -> bool:
        """Whether neither a higher nor a lower value is better."""
        return self.number is not None and self.number.favourable == "neither" and self.measure != "absolute-error"

    def counts_as_worse(self, finding: Finding) -> bool:
        """Check whether a subgroup is worse off, or, if ``is_undirected``, differs from the others."""
        return self.is_worse(finding) or self.is_undirected

    @property
    def widest(self) -> Finding | None:
        """The clearest subgroup that counts as worse. None if no subgroup does."""
        return next(filter(self.counts_as_worse, self.findings), None)

    @property
    def unexplained(self) -> tuple[Finding, ...]:
        """Findings that no other explains."""
        return tuple(finding for finding in self.findings if finding.under is None)

    @property
    def shown(self) -> tuple[Finding, ...]:
        """Findings that no other explains. The clearest one that counts as worse comes first if another explains it."""
        widest = self.widest
        explained = widest is not None and widest.under is not None
        return (widest, *self.unexplained) if widest is not None and explained else self.unexplained

    def numbers(self) -> Iterator[ResultNumber]:
        """Yield the gap of the worst subgroup, then all significant gaps."""
        yield ResultNumber("worst_subgroup_gap", "", "", self._worst_gap())
        name = "mean_score" if self.measure == "score" else "subgroup_gap"
        for finding in self.unexplained:
            if finding.found:
                note = f"explains {format_count(finding.explains, 'other', 'others')}" if finding.explains else ""
                gap = self._observe(finding.gap, finding.low, finding.high, finding.size + finding.rest)
                yield ResultNumber(name, "", finding.words, gap, note)

    def _observe(self, gap: float, low: float, high: float, n: int) -> Observed:
        tests = f"{self.tested:,} subgroups tested"
        if self.starts is not None:
            tests = f"a search among {self.rule_sets:,} rule sets"
        method = f"adjusted for {tests} ({self.control})"
        return Observed(value=gap, n=n, low=low, high=high, confidence=self.confidence, method=method)

    def _worst_gap(self) -> Observed:
        """Compute the gap with the highest lower bound among subgroups that count as worse, as a positive number."""
        intervals = [
            (finding.gap, finding.low, finding.high) if finding.gap > 0 else (-finding.gap, -finding.high, -finding.low)
            for finding in filter(self.counts_as_worse, self.findings)
        ]
        gap, low, high = max(intervals, key=lambda interval: interval[1], default=(0.0, 0.0, 0.0))
        return self._observe(gap, max(0.0, low), high, self.people)

    def document(self, subject: SubjectCard | None = None) -> Document:
        """Build the document: number of tests, ranked findings, and method.

        Args:
            subject: Model and data, which the result does not contain.
        """
        return self._write_document("evenhand.subgroups.wording", subject)

    def to_frame(self) -> pd.DataFrame:
        """Build a data frame with one row per finding: its words, sizes, rates, gap, intervals and tests."""
        return _build_frame(self.findings)


def _build_frame(findings: Sequence[Finding]) -> pd.DataFrame:
    import pandas as pd

    rows = [{name: getattr(finding, name) for name in COLUMNS} for finding in findings]
    return pd.DataFrame(rows, columns=list(COLUMNS))


class SwapEffect(Finding):
    """Effect of naming a group instead of the others in the same texts, caused by the model alone.

    The fields are those of a finding: ``size`` counts texts, each with the words of this group (``rate``) and of every
    other group (``rest`` answers, whose average over texts is ``rest_rate``); ``gap`` is the mean difference within a
    text. ``positives`` and ``rest_positives`` are None, because not every group has a word for every position.

    Attributes:
        clusters: Number of clusters of these texts, by default of texts that are identical without the swapped words.
            The interval counts each cluster as one observation.
    """

    clusters: int


class TextSubgroupResult(SubgroupResult):
    """Subgroups of texts that a model treats differently.

    ``people`` counts texts, and ``attributes`` are categories with their groups or terms.

    Attributes:
        classes, favourable: Labels, and the one whose rate or score is compared.
        compared: Texts that the subgroups are compared with: ``others`` of the same categories, or ``all`` others.
        queries: Number of texts sent to the model.
        effects: Effects of swapping words, by group, ranked like ``findings``.
        effects_critical: Half width of the adjusted intervals of the effects in standard errors.
    """

    classes: tuple[str, ...]
    favourable: str
    compared: Compared
    queries: int
    effects: tuple[SwapEffect, ...] = ()
    effects_critical: float | None = None

    @property
    def shown(self) -> tuple[Finding, ...]:
        """Findings that no other explains: no label of a text is better than the others."""
        return self.unexplained

    def to_frame(self) -> pd.DataFrame:
        """Build a data frame of findings and effects: ``analysis`` (observed or swapped), then their columns."""
        import pandas as pd

        frames = [
            _build_frame(findings).assign(analysis=analysis)
            for analysis, findings in (("observed", self.findings), ("swapped", self.effects))
            if findings
        ]
        frame = pd.concat(frames) if frames else _build_frame(()).assign(analysis="observed")
        return frame[["analysis", *COLUMNS]].reset_index(drop=True)
