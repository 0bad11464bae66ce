"""Comparison of mitigated models with the original one on a test set.

All choices are made without the test set: groups by the protected attributes, subgroups from the findings, and further
subgroups by a search of the validation set. The test set is used once, and every interval is adjusted for all numbers
of a candidate.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from evenhand import subgroups
from evenhand.core.typing import Booleans, Progress, ignore_progress
from evenhand.errors import BudgetError, EvenhandError, OptionError
from evenhand.individual.flips import FlipAnswers, attribute_sets, count_flips
from evenhand.mitigation.candidate import Candidate
from evenhand.mitigation.comparison_lines import (
    ComparisonSides,
    ModelDecisions,
    PendingComparison,
    compare_performance,
    compare_shares,
    finish_lines,
)
from evenhand.mitigation.config import MitigationConfig
from evenhand.mitigation.gap_lines import (
    compare_groups,
    compare_subgroup,
    compare_widest_gap,
)
from evenhand.mitigation.metrics import FairnessMetric, FlipMetric, GroupGapMetric, SubgroupGapMetric
from evenhand.mitigation.proof_lines import ProofComparison
from evenhand.mitigation.result import CandidateResult, ComparisonPart
from evenhand.mitigation.split import Split
from evenhand.models.noise import check_noise
from evenhand.models.replies import find_ledger
from evenhand.models.scorer import Scorer
from evenhand.population.mixture import choose_population
from evenhand.subgroups.result import Finding, SubgroupResult
from evenhand.subgroups.rules import describe_rules, find_members

NOISY = (
    "Flips are those of single answers, so the rates before include this noise. Run `evenhand audit` to separate the "
    "two."
)
"""Effect of a noisy original model on a comparison."""

WATCHED = 3
"""Number of additional subgroups to compare: those whose gap grew most in the validation set."""

SIMILAR = 0.8
"""Subgroups whose overlap (intersection over union) reaches this share are treated as one."""


def compare_candidates(
    given: Scorer,
    candidates: Sequence[Candidate],
    split: Split,
    harms: Sequence[FairnessMetric],
    *,
    config: MitigationConfig,
    progress: Progress | None = None,
) -> tuple[CandidateResult, ...]:
    """Compare each candidate with the original model on the test set.

    The numbers are accuracy and AUC, the metrics, gaps between groups, counterfactual flip rates, subgroups whose gap
    grew, and proved shares if both models are white boxes. The intervals of all changes of a candidate hold jointly at
    ``config.confidence`` (Bonferroni): among candidates that change nothing, at most a share of 1 - confidence is
    reported as better or worse in any number.

    Args:
        given: Original model.
        candidates: New models.
        split: People. All choices are made on the validation set.
        harms: Metrics to reduce.
        config: Settings.
        progress: Function called with a description and the completed fraction, 0 to 1.

    Returns:
        One result per candidate. After an interrupt, only the completed numbers.
    """
    say = progress or ignore_progress
    baseline = Baseline(given, split, tuple(harms), config)
    results = []
    for i, candidate in enumerate(candidates):

        def report(action: str, share: float, *, i: int = i) -> None:
            say(f"comparing {candidates[i].method}: {action}", (i + share) / len(candidates))

        results.append(compare_candidate(baseline, candidate, report))
        if results[-1].interrupted and not candidate.interrupted:
            break
    return tuple(results)


class Baseline:
    """Original model and people, with the data that all candidates share. The model is queried once."""

    def __init__(
        self, given: Scorer, split: Split, harms: tuple[FairnessMetric, ...], config: MitigationConfig
    ) -> None:
        self.given, self.split, self.harms, self.config = given, split, harms, config
        self._flips: dict[tuple[str, ...], FlipAnswers] = {}
        schema = split.test.schema
        self.sets = attribute_sets(schema.protected)
        self.flip_metrics = [metric.protected for metric in harms if isinstance(metric, FlipMetric)]
        self.flip_sets = list(dict.fromkeys([*self.flip_metrics, *self.sets]))
        self.notes: list[str] = []
        self._check_noise()
        self.test = ModelDecisions(given, split.test)
        self.validation = ModelDecisions(given, split.validation)
        self.proofs = self._compare_proofs()

    def flips(self, scorer: Scorer, protected: tuple[str, ...]) -> FlipAnswers:
        """Count flips in the test set; those of the original model are only counted once."""
        if scorer is not self.given:
            return count_flips(scorer, self.split.test.schema, self.split.test.individuals, protected)
        if protected not in self._flips:
            self._flips[protected] = count_flips(scorer, self.split.test.schema, self.split.test.individuals, protected)
        return self._flips[protected]

    def _compare_proofs(self) -> ProofComparison | None:
        """Prepare the comparison of certificates; None if they are not requested or not possible."""
        effort, sets = self.config.certify_effort, self.flip_sets
        if effort <= 0 or not sets:
            return None
        try:
            population = choose_population("data", self.split.train)
        except OptionError as error:
            self.notes.append(f"proofs were not compared: {error.message}")
            return None
        return ProofComparison(self.given, sets, population, self.split.test, effort, self.config.seed)

    def _check_noise(self) -> None:
        """Query the original model twice for a part of the test set, if it may be noisy."""
        rng, people = np.random.default_rng([self.config.seed, 19]), self.split.test
        shuffled, ledger = people.individuals[rng.permutation(len(people))], find_ledger(self.given)
        affordable = len(people) if ledger is None else int(max(0, min(len(people), (ledger.left - len(people)) / 2)))
        noise = check_noise(self.given, shuffled[:affordable], confidence=self.config.confidence)
        if noise is not None and noise.noisy:
            self.notes.append(noise.caution(NOISY).text)


def compare_candidate(baseline: Baseline, candidate: Candidate, progress: Progress) -> CandidateResult:
    """Compare one candidate. After an interrupt or if the query budget is exhausted, the completed numbers are kept."""
    numbers: list[PendingComparison] = []
    notes = [*candidate.notes, *baseline.notes]
    interrupted = candidate.interrupted
    try:
        for part in _compare(baseline, candidate.scorer, progress):
            if isinstance(part, str):
                notes.append(part)
            else:
                numbers.append(part)
    except (KeyboardInterrupt, BudgetError) as error:
        if not numbers:
            raise
        interrupted |= isinstance(error, KeyboardInterrupt)
        reason = error.message if isinstance(error, BudgetError) else "the comparison was interrupted"
        notes.append(f"{reason}: the missing numbers were not measured")
    return CandidateResult(
        method=candidate.method,
        words=candidate.words,
        control=candidate.control,
        lines=finish_lines(numbers, baseline.config.confidence),
        trials=candidate.trials,
        interrupted=interrupted,
        notes=tuple(dict.fromkeys(notes)),
    )


def _compare(baseline: Baseline, new: Scorer, progress: Progress) -> Iterator[PendingComparison | str]:
    """Yield all numbers and notes about a new model."""
    split = baseline.split
    decisions = ModelDecisions(new, split.test), ModelDecisions(new, split.validation)
    sides = ComparisonSides(baseline.test, decisions[0], baseline.validation, decisions[1], baseline.config.confidence)
    progress("performance and metrics", 0.0)
    yield from compare_performance(sides)
    metrics = [_compare_metric(metric, baseline, sides) for metric in baseline.harms]
    yield from metrics
    progress("groups and flips", 0.1)
    gaps, unknown = compare_groups(sides, baseline.sets)
    names = {(metric.line.name, metric.line.of) for metric in metrics}
    yield from (gap for gap in gaps if (gap.line.name, gap.line.of) not in names)
    yield from unknown
    for protected in baseline.flip_sets:
        if protected not in baseline.flip_metrics:
            yield _compare_flips("individuals", protected, baseline, sides)
    progress("other subgroups", 0.3)
    yield from _compare_subgroups(baseline, sides)
    if baseline.proofs is not None:
        yield from baseline.proofs.compare(new, lambda action, share: progress(action, 0.5 + 0.5 * share))


def _compare_metric(metric: FairnessMetric, baseline: Baseline, sides: ComparisonSides) -> PendingComparison:
    if isinstance(metric, SubgroupGapMetric):
        return compare_subgroup("asked", metric.rules, describe_rules(metric.rules), sides)
    if isinstance(metric, GroupGapMetric):
        return compare_widest_gap(metric.protected, metric.words, sides)
    return _compare_flips("asked", metric.protected, baseline, sides)


def _compare_flips(
    part: ComparisonPart, protected: tuple[str, ...], baseline: Baseline, sides: ComparisonSides
) -> PendingComparison:
    """Compare flip rates. If the schema has rules, only plausible counterparts are compared."""
    before, after = (baseline.flips(side.scorer, protected) for side in (sides.before, sides.after))
    masks = before.flips[before.compared], after.flips[before.compared]
    words = FlipMetric(protected).words
    return compare_shares(part, "flip_rate", " x ".join(protected), words, masks, sides.confidence)


def _compare_subgroups(baseline: Baseline, sides: ComparisonSides) -> Iterator[PendingComparison | str]:
    """Compare the subgroups that a search finds for the new model on the validation set."""
    try:
        result = subgroups.find_subgroups(sides.after.scorer, sides.validation, seed=baseline.config.seed)
    except BudgetError:
        raise
    except EvenhandError as error:
        yield f"other subgroups were not searched: {error.message}"
        return
    for finding in widened_findings(result, sides, baseline.harms):
        note = "selected on the validation set, where its gap grew"
        yield compare_subgroup("subgroups", finding.rules, finding.words, sides, note)


def widened_findings(
    result: SubgroupResult, sides: ComparisonSides, metrics: Sequence[FairnessMetric]
) -> list[Finding]:
    """Select the findings whose gap grew most in the validation set, and that do not overlap much."""
    selected = [find_members(sides.validation, metric.rules) for metric in metrics if hasattr(metric, "rules")]
    grown = []
    for finding in result.findings:
        inside = find_members(sides.validation, finding.rules)
        before, after = (_subgroup_gap(side, inside) for side in (sides.before_validation, sides.after_validation))
        if after > before:
            grown.append((after - before, finding, inside))
    findings: list[Finding] = []
    for _, finding, inside in sorted(grown, key=lambda growth: -growth[0]):
        if len(findings) < WATCHED and not any(_are_similar(inside, other) for other in selected):
            findings.append(finding)
            selected.append(inside)
    return findings


def _subgroup_gap(side: ModelDecisions, inside: Booleans) -> float:
    if inside.all() or not inside.any():
        return 0.0
    return abs(float(side.favourable_decisions[inside].mean() - side.favourable_decisions[~inside].mean()))


def _are_similar(inside: Booleans, other: Booleans) -> bool:
    """Check whether a subgroup overlaps another one, or its complement, almost completely."""

    def overlap(a: Booleans, b: Booleans) -> float:
        union = int((a | b).sum())
        return float((a & b).sum() / union) if union else 1.0

    return max(overlap(inside, other), overlap(inside, ~other)) >= SIMILAR
