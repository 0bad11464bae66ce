"""What a search for subgroups found: rule sets with their rates, intervals and how sure one can be."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal

from evenhand.core.document import Document, SubjectCard
from evenhand.core.result import Result, ResultNumber
from evenhand.core.result_part import ResultPart
from evenhand.core.text import format_count
from evenhand.models.noise import NoiseCheck
from evenhand.stats.quantity import Observed
from evenhand.subgroups.config import Against, Compared, Control, Measure, Method, NumberMeasure
from evenhand.subgroups.rules import Rules, RuleSet, describe_rules

if TYPE_CHECKING:
    import pandas as pd

EVENTS: dict[str, str] = {
    "favourable": "are given the favourable label",
    "false-negative": "of those who deserve the favourable label are refused it",
    "false-positive": "of those who do not deserve the favourable label are given it",
    "score": "is the mean score",
}
"""What a measure's rate says of people."""


class Finding(ResultPart):
    """One rule set, and how the people in it fare against the others.

    Attributes:
        rules: the simplest description of its people, attribute -> values or range.
        words: the same as one says it.
        size, rest: people in it, and those it is compared with.
        positives, rest_positives: how many of them have the outcome; None for the mean score, and where the rates are
            those of samples or weighted.
        rate, rest_rate: shares with the outcome, or mean scores.
        gap: ``rate - rest_rate`` (with a control variable, the average over its strata).
        low, high: interval for the gap, adjusted for everything that was looked at.
        plain_low, plain_high: interval for this gap alone, as if nothing else had been looked at.
        z: the gap in standard errors under "no difference", its tail made like a normal one's where few people or a
            rare outcome skew it; None where a published method has none.
        adjusted_p: probability of a gap as clear as this anywhere, were there none; None where a published method has
            none.
        found: whether the gap is significant: ``adjusted_p`` is small enough, the adjusted interval excludes
            0, and it does not rule out a gap of at least the margin.
        under: position among the findings of the one that explains this gap; that one is explained by none.
        explains: how many findings it explains, those not listed included.
        same: other descriptions of the same people.
        others: how many there are, those not listed included.
        versus: whom they are compared with, where that is not everyone else.
        samples: samples on either side that the rates were counted on, where they are not those of real people.
        effective_size, effective_rest: where people have weights, how many drawn alike say as much; then rates are
            weighted.
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
    same: tuple[RuleSet, ...] = ()
    others: int = 0
    versus: RuleSet | None = None
    samples: int | None = None
    effective_size: float | None = None
    effective_rest: float | None = None

    def sentence(self, measure: str = "favourable") -> str:
        """Return the finding as a sentence, of a measure of labels or scores."""
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


def list_in_reading_order(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Return findings as screens and files list them: each is followed by those it explains.

    Args:
        findings: those that explain others are not explained themselves.
    """
    below: dict[int | None, list[int]] = {}
    for i, finding in enumerate(findings):
        below.setdefault(finding.under, []).append(i)
    order = [i for top in below.get(None, ()) for i in (top, *below.get(top, ()))]
    place: dict[int | None, int] = {i: at for at, i in enumerate(order)}
    return tuple(findings[i].model_copy(update={"under": place.get(findings[i].under)}) for i in order)


class MeasuredNumber(ResultPart):
    """The number that is decided, where subgroups are not compared by labels.

    Attributes:
        name, unit: of the number; the unit where it was said.
        favourable: what people want of it: ``higher``, ``lower``, or ``neither`` where it was not said.
        above: the level above which numbers are counted; None where means are compared.
        deviation: standard deviation of what is compared over everybody, in its unit.
    """

    name: str
    unit: str | None
    favourable: str
    above: float | None = None
    deviation: float

    @property
    def digits(self) -> int:
        """Digits after the point that tell a twentieth of a standard deviation."""
        return 0 if self.deviation <= 0 else max(0, min(8, 2 - math.floor(math.log10(self.deviation))))

    def format(self, value: float, *, sign: bool = False, unit: bool = True) -> str:
        """Return a mean or a gap with its unit: ``512.4 EUR``."""
        written = f"{value:{'+' if sign and round(value, self.digits) else ''},.{self.digits}f}"
        return f"{written if float(written.replace(',', '')) else written.lstrip('-')}" + (
            f" {self.unit}" if unit and self.unit else ""
        )

    def describe(self) -> str:
        """Say what is decided, and what people want of it."""
        wanted = {"higher": "; people want it to be high", "lower": "; people want it to be low"}
        return f"{self.name} is a number{f' in {self.unit}' if self.unit else ''}{wanted.get(self.favourable, '')}"

    def describe_rate(self, measure: str) -> str:
        """Return what is compared: ``mean premium``, ``mean residual of premium (decided minus true)``."""
        if self.above is not None:
            return f"share with {self.name} above {self.above:,.10g}{f' {self.unit}' if self.unit else ''}"
        kinds = {"residual": "mean residual of {} (decided minus true)", "absolute-error": "mean absolute error of {}"}
        return kinds.get(measure, "mean {}").format(self.name)

    def sentence(self, measure: str, finding: Finding, *, given: str = "") -> str:
        """Return a finding as a sentence.

        Args:
            measure: what is compared.
            finding: which one.
            given: what rates depend on besides the people, such as ``With region alike``.
        """
        who = f"{finding.size:,} people {'with' if finding.rules else 'for whom'} {finding.words}"
        others = finding.versus.words() if finding.versus else "everyone else"
        start = f"{given}, " if given else ""
        if self.above is not None:
            own, theirs = (f"{100 * rate:.1f} %" for rate in (finding.rate, finding.rest_rate))
            level = f"{self.above:,.10g}{f' {self.unit}' if self.unit else ''}"
            return (
                f"{start}{'of' if start else 'Of'} {who}, {own} have {self.name} above {level}; of {others} {theirs}."
            )
        return (
            f"{start}{'the' if start else 'The'} {self.describe_rate(measure)} of {who} is "
            f"{self.format(finding.rate)}; of {others} {self.format(finding.rest_rate)}."
        )


class LinearGroup(ResultPart):
    """The people whose linear score over the sensitive attributes is positive: what the linear auditor reports.

    Attributes:
        weights: of every column of the score, a number or "attribute value"; in the attributes' own units.
        intercept: added to it.
        weighted: share of everybody who is in the group and concerned, times the distance of the group's rate from the
            rate of all: the disparity of Kearns and others (2018).
        overall_gap: the group's rate minus the rate of all.
    """

    weights: dict[str, float]
    intercept: float
    weighted: float
    overall_gap: float


class RefusedRuleSet(ResultPart):
    """A rule set that was asked about and that nothing can be said about.

    Attributes:
        rules: its rules.
        words: the same as one says it.
        size, rest: people in it and outside.
        reason: why not.
    """

    rules: Rules
    words: str
    size: int
    rest: int
    reason: str


class AttributeCells(ResultPart):
    """A sensitive attribute and the cells that rules are made of.

    Attributes:
        name: the attribute.
        cells: its values or ranges, in words.
        ordered: whether rules are ranges of neighbouring cells, else subsets.
    """

    name: str
    cells: tuple[str, ...]
    ordered: bool


class SubgroupResult(Result):
    """The subgroups that a model treats differently.

    Attributes:
        method: how they were searched for.
        measure: what is compared; of numbers ``mean``, ``residual`` (decided minus true), ``absolute-error`` or
            ``above`` a level.
        number: the number that is decided, whose unit gaps and means are in; None where labels are.
        against: with whom: everybody else, or, by THEMIS, the best other combination.
        control: how looking at many is accounted for: ``max-t`` (no false finding at all, with ``confidence``),
            ``BY`` (share of false findings, Benjamini-Yekutieli), ``none``.
        confidence: of the intervals, and 1 - the error that is controlled.
        critical: how many standard errors the adjusted intervals reach; None where nothing is adjusted.
        margin: gaps that are certainly smaller than this are not called found.
        support, min_size: floors: the share and the number of people in a rule set, and outside it, at least. One
            that was asked about needs the number only.
        people: how many are concerned.
        unknown: how many were left out because a value that would describe them is unknown.
        rate: the overall rate, or mean score.
        weights: where the weights come from, by which all rates, gaps and intervals are computed; None where people
            count alike.
        rule_sets: how many there are, before floors.
        tested: how many different groups of people meet the floors: the number of statistics looked at.
        found: how many of them are significant, those not listed included.
        attributes: the sensitive attributes and their cells.
        findings: as they are read: significant ones that no other explains (see ``findings.explain_findings``), each
            followed by those it explains; then what is not significant, the clearest first.
        judged: rule sets that were asked about.
        per: the control variable within whose strata gaps are taken.
        interrupted: whether somebody stopped it, or time was up; what is here was found before.
        linear: the group of the linear auditor, which no rules describe.
        queries: individuals (rows) that the model was asked about in all, from trying it on.
        noise: how often the model disagreed with itself; None if it was not asked twice.
        repeats: answers about each person, of which the majority counts (of scores the mean).
        notes: what else a reader must know.
    """

    chart = "subgroups.plot_subgroups"
    kind: Literal["subgroups"] = "subgroups"
    method: Method
    measure: Measure | NumberMeasure | Literal["above"]
    number: MeasuredNumber | None = None
    against: Against = "rest"
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
    attributes: tuple[AttributeCells, ...]
    findings: tuple[Finding, ...]
    judged: tuple[Finding | RefusedRuleSet, ...] = ()
    per: str | None = None
    interrupted: bool = False
    linear: LinearGroup | None = None
    queries: int = 0
    noise: NoiseCheck | None = None
    repeats: int = 1
    notes: tuple[str, ...] = ()

    def sentence(self, finding: Finding) -> str:
        """Return a finding as a sentence."""
        if self.number is not None:
            return self.number.sentence(self.measure, finding, given=self.given)
        return f"{self.given}: {finding.sentence(self.measure)}" if self.given else finding.sentence(self.measure)

    @property
    def given(self) -> str:
        """What all rates depend on besides the people, their weights and what is alike on both sides, or nothing."""
        weighted = "" if self.weights is None else f"weighted by {self.weights}"
        alike = f"with {self.per} alike" if self.per else ""
        said = ", ".join(filter(None, [weighted, alike]))
        return said[:1].upper() + said[1:]

    def is_worse(self, finding: Finding) -> bool:
        """Check whether a subgroup is worse off than the others. By default, lower numbers are worse."""
        favourable = "higher" if self.number is None else self.number.favourable
        high_is_worse = self.measure in ("false-negative", "absolute-error") or favourable == "lower"
        return finding.gap > 0 if high_is_worse else finding.gap < 0

    def counts_as_worse(self, finding: Finding) -> bool:
        """Check whether a subgroup is worse off, or departs from the others if neither direction is better."""
        undirected = self.number is not None and self.number.favourable == "neither"
        return self.is_worse(finding) or (undirected and self.measure != "absolute-error")

    def words(self, rules: Rules) -> str:
        """Return rules as one says them, many values by what is left out."""
        return describe_rules(rules, {cells.name: cells.cells for cells in self.attributes})

    def tree(self) -> dict[int | None, list[int]]:
        """Return positions of findings by the position of the one they are shown under; None: on their own."""
        found: dict[int | None, list[int]] = {}
        for position, finding in enumerate(self.findings):
            found.setdefault(finding.under, []).append(position)
        return found

    def numbers(self) -> Iterator[ResultNumber]:
        """Yield the gap of the subgroup that is most clearly worse off, then all significant gaps."""
        yield ResultNumber("worst_subgroup_gap", "", "", self._worst_gap())
        for finding in self.findings:
            if finding.found and finding.under is None:
                yield ResultNumber(
                    "mean_score" if self.measure == "score" else "subgroup_gap",
                    "",
                    finding.words,
                    Observed(
                        value=finding.gap,
                        n=finding.size + finding.rest,
                        low=finding.low,
                        high=finding.high,
                        confidence=self.confidence,
                        method=self._adjustment,
                    ),
                    f"explains {format_count(finding.explains, 'other', 'others')}" if finding.explains else "",
                )

    @property
    def _adjustment(self) -> str:
        return f"adjusted for {self.tested:,} subgroups tested ({self.control})"

    def _worst_gap(self) -> Observed:
        """Return the gap of which most is certain of all subgroups worse off; its ends hold for all of them.

        Of numbers, where it was not said what people want of them: of all that depart from the others.
        """

        def size(finding: Finding) -> tuple[float, float, float]:
            gap, low, high = finding.gap, finding.low, finding.high
            return (gap, low, high) if gap > 0 else (-gap, -high, -low)

        sizes = [size(finding) for finding in self.findings if self.counts_as_worse(finding)]
        gap, low, high = max(sizes, key=lambda interval: interval[1], default=(0.0, 0.0, 0.0))
        return Observed(
            value=gap,
            n=self.people,
            low=max(0.0, low),
            high=high,
            confidence=self.confidence,
            method=self._adjustment,
        )

    def document(self, subject: SubjectCard | None = None) -> Document:
        """Return how many subgroups were tested, the ranked findings, and how it was done.

        Args:
            subject: what was searched, which the result does not hold.
        """
        return self._write_document("evenhand.subgroups.wording", subject)

    def to_frame(self) -> pd.DataFrame:
        """Return one row per finding: its words, sizes, rates, gap, intervals, z, adjusted_p, found, under."""
        import pandas as pd

        columns = [
            "words",
            "size",
            "rest",
            "positives",
            "rest_positives",
            "rate",
            "rest_rate",
            "gap",
            "low",
            "high",
            "plain_low",
            "plain_high",
            "z",
            "adjusted_p",
            "found",
            "under",
        ]
        return pd.DataFrame(
            [{name: getattr(finding, name) for name in columns} for finding in self.findings], columns=columns
        )


class SwapEffect(Finding):
    """What it does to the same texts to speak of this group in place of the others: the model's own doing.

    The fields are those of a finding: ``size`` counts texts, each asked about with this group's words (``rate``) and
    with the words of every other group in their place (``rest`` answers, whose average text by text is ``rest_rate``);
    ``gap`` is the mean difference within a text. Counts are not given, since not every group has words for every place.

    Attributes:
        clusters: how many different texts these are once the words are cut out; the interval counts them as one each.
    """

    clusters: int


class TextSubgroupResult(SubgroupResult):
    """The subgroups of texts that a model treats differently.

    ``people`` counts texts, and ``attributes`` are categories with their groups or terms.

    Attributes:
        classes, favourable: the labels, and the one whose rate or score is compared.
        compared: with which texts the findings compare: ``others`` of the same categories, or ``all`` others.
        queries: texts that the model was asked about.
        effects: what swapping does, by group, ranked as ``findings`` are.
        effects_critical: how many standard errors the adjusted intervals of the effects reach.
    """

    classes: tuple[str, ...]
    favourable: str
    compared: Compared
    queries: int
    effects: tuple[SwapEffect, ...] = ()
    effects_critical: float | None = None

    def sentence(self, finding: Finding) -> str:
        """Return a finding or an effect as a sentence."""
        what = {
            "favourable": f"get {self.favourable}",
            "false-negative": f"are wrongly refused {self.favourable}",
            "false-positive": f"wrongly get {self.favourable}",
            "score": "",
        }.get(self.measure, "")
        if isinstance(finding, SwapEffect):
            who, rest = f"{finding.size:,} texts made to speak of {finding.words}", "of the same texts about others"
        elif finding.samples is not None:
            who, rest = f"{finding.samples:,} samples made to speak of {finding.words}", "of samples about others"
        elif self.compared == "others":
            who, rest = f"{finding.size:,} texts that speak of {finding.words}", f"of {finding.rest:,} about others"
        else:
            who, rest = f"{finding.size:,} texts that speak of {finding.words}", f"of the {finding.rest:,} other texts"
        if self.measure == "score":
            return f"The mean score of {who} is {finding.rate:.3f}; {rest} {finding.rest_rate:.3f}."
        return f"Of {who}, {100 * finding.rate:.1f} % {what}; {rest} {100 * finding.rest_rate:.1f} %."

    def to_frame(self) -> pd.DataFrame:
        """One row per finding and effect: ``analysis`` (observed or swapped), then the columns of the findings."""
        import pandas as pd

        observed = super().to_frame()
        swapped = pd.DataFrame([{name: getattr(one, str(name)) for name in observed} for one in self.effects])
        parts = [observed.assign(analysis="observed"), swapped.assign(analysis="swapped")]
        both = pd.concat([part for part in parts if len(part)]) if any(map(len, parts)) else parts[0]
        return both[["analysis", *observed.columns]].reset_index(drop=True)
