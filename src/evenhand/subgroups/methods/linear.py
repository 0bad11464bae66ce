"""Linear auditor of subgroup fairness: one half-space of people, found by regression on the sensitive attributes.

Source: Kearns, Neel, Roth and Wu, "Preventing fairness gerrymandering: auditing and learning for subgroup fairness"
(ICML 2018): the auditor that their FairFictPlay plays against, as in the library GerryFair.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from evenhand.core.time_limit import TimeLimit
from evenhand.core.typing import Booleans, Floats, Integers, Progress
from evenhand.errors import OptionError
from evenhand.models.scorer import Scorer
from evenhand.schema.attribute import Attribute
from evenhand.schema.people import People
from evenhand.stats.permutation import permute_counts, standardised_gap
from evenhand.stats.proportion import difference_interval
from evenhand.subgroups.config import SubgroupConfig
from evenhand.subgroups.cuts import cut_attributes, equal_width_ends
from evenhand.subgroups.measures import measure_outcomes
from evenhand.subgroups.methods.published import build_result, check_options, sensitive_names
from evenhand.subgroups.result import Finding, LinearGroup, SubgroupResult

ROUNDING = 1e-12
"""Predicted costs up to this size are considered 0."""

SHOWN = 4
"""Maximum number of terms of the score in the description of a finding."""

LIGHT = 0.01
"""Terms that change the score by less than this share of the largest change are counted but not listed."""


def audit_linear(
    scorer: Scorer, people: People, config: SubgroupConfig, progress: Progress, limit: TimeLimit
) -> SubgroupResult:
    """Search for the half-space with the largest weighted disparity, by the heuristic oracle."""
    check_options(
        config,
        *("favourable", "false-negative", "false-positive"),
        unsupported=("support", "min_size", "control", "depth", "margin", "time_limit"),
    )
    names = sensitive_names(people, config)
    outcome = measure_outcomes(scorer, people, config.measure)
    design = DesignMatrix.of(people, names)
    cells = design.cell[outcome.concerned]
    sizes = np.bincount(cells, minlength=len(design.combinations))
    outcomes = np.bincount(cells, weights=outcome.values, minlength=len(sizes)).astype(np.int64)
    auditor = LinearAuditor(design, sizes, len(people))
    group = auditor.find(outcomes)
    n, total = int(sizes.sum()), int(outcomes.sum())
    inside, positives = int(sizes[group.inside].sum()), int(outcomes[group.inside].sum())
    if inside == 0:
        raise OptionError(
            "no half-space over the sensitive attributes separates people: all have the same decision, or the same "
            "values",
            hint="name other attributes, or use the method 'exact'",
        )
    progress("permuting", 0.0)
    permuted = permute_counts(sizes, total, config.permutations, np.random.default_rng(config.seed))
    # Ties count against the finding: sums in another order may differ in the last digits.
    reached = int((auditor.largest(permuted) >= group.weighted * (1 - 1e-9)).sum())
    # The observed outcomes are one more arrangement, so that p is never 0 (Phipson & Smyth 2010).
    p = (1 + reached) / (1 + config.permutations)
    low, high = map(float, difference_interval(positives, inside, total - positives, n - inside, config.confidence))
    rate, rest_rate = positives / inside, (total - positives) / (n - inside)
    finding = Finding(
        rules={},
        words=group.words(),
        size=inside,
        rest=n - inside,
        positives=positives,
        rest_positives=total - positives,
        rate=rate,
        rest_rate=rest_rate,
        gap=rate - rest_rate,
        low=low,
        high=high,
        plain_low=low,
        plain_high=high,
        z=float(standardised_gap(positives, inside, total, n)),
        adjusted_p=p,
        found=p <= 1 - config.confidence + 1e-12,
    )
    return build_result(
        people,
        config,
        support=0.0,
        people=n,
        rate=total / n,
        rule_sets=1,
        tested=1,
        found=int(finding.found),
        attributes=tuple(cut.cells for cut in cut_attributes(people, names, config.bins, equal_width_ends)[0]),
        findings=(finding,),
        linear=LinearGroup(
            weights=dict(zip(group.names, group.weights.tolist(), strict=True)),
            intercept=group.intercept,
            weighted=group.weighted,
            overall_gap=rate - total / n,
        ),
        notes=(
            f"Disparity {group.weighted:.4f}: the share of people in the group times the distance of their rate from "
            "that of all people. The oracle is a heuristic; a half-space with a larger disparity may exist.",
            "The group was chosen because its gap is large, on the same people, so the interval (which is for a group "
            "chosen beforehand) lies too far from 0.",
            f"p = {p:.3g} accounts for the choice: in {config.permutations:,} random permutations of the outcomes, the "
            "auditor chose again each time. The publication gives no such number.",
            "A half-space is not a rule: membership is a weighted sum.",
        ),
    )


@dataclass(frozen=True)
class DesignMatrix:
    """Sensitive attributes as numbers, one row per combination of values that occurs.

    A categorical attribute has one column per value except the most frequent. A numeric attribute has one column, with
    missing values replaced by the mean, and another column that marks missing values.

    Attributes:
        names: Names of the columns, such as ``age`` or ``race Black``.
        combinations: Distinct rows, shape (cells, columns).
        cell: Combination of each person, shape (n,).
    """

    names: tuple[str, ...]
    combinations: Floats
    cell: Integers

    @classmethod
    def of(cls, people: People, names: Sequence[str]) -> DesignMatrix:
        """Build the matrix of some attributes."""
        columns = [
            column
            for name, at in zip(names, people.schema.positions(names), strict=True)
            for column in _design_columns(people.schema.attributes[at], people.individuals[:, at])
        ]
        matrix = np.stack([column for _, column in columns], axis=1) if columns else np.zeros((len(people), 0))
        combinations, cell = np.unique(matrix, axis=0, return_inverse=True)
        return cls(tuple(name for name, _ in columns), combinations, cell.reshape(-1).astype(np.int64))


@dataclass(frozen=True)
class HalfSpace:
    """Half-space of a linear score over the sensitive attributes.

    Attributes:
        names: Columns of the score.
        weights: Weight of each column in its own unit, shape (columns,).
        spans: Range of each column, shape (columns,).
        intercept: Members have ``weights @ columns + intercept > 0``.
        inside: Which combinations are members, shape (cells,).
        weighted: Disparity of Kearns et al., ``P(counted and in the group) * |rate in the group - rate of all|``.
    """

    names: tuple[str, ...]
    weights: Floats
    spans: Floats
    intercept: float
    inside: Booleans
    weighted: float

    def words(self) -> str:
        """Describe the terms that change the score most, scaled so that the first has weight 1."""
        effects = np.abs(self.weights) * self.spans
        order = np.argsort(-effects, kind="stable")
        largest = abs(self.weights[order[0]]) if len(order) else 0.0
        if not largest:
            return "a positive score"
        heavy = [i for i in order[:SHOWN] if effects[i] >= LIGHT * effects[order[0]]]
        terms = [f"{self.weights[i] / largest:+.3g} ({self.names[i]})" for i in heavy]
        light = len(order) - len(heavy)
        more = f" and {light} lighter {'term' if light == 1 else 'terms'}" if light else ""
        return f"{' '.join(terms)}{more} > {-self.intercept / largest:.3g}"


class LinearAuditor:
    """Search for the half-space whose rate differs most from that of all people, weighted by its size.

    This is cost-sensitive classification: with the cost ``rate of all - outcome`` of each member, the cheapest group
    has the largest weighted disparity. The heuristic oracle predicts the cost of each person by least squares and
    selects those with a negative predicted cost. It finds the best half-space if the score can fit every combination
    (a single categorical attribute); otherwise a better one may exist.

    A group and its complement have the same weighted disparity, so the negated costs that the published auditor also
    tries lead to the complement. The smaller of the two, whose rate differs more, is reported.

    Args:
        design: Sensitive attributes.
        sizes: Number of counted people in each combination, shape (cells,).
        population: Total number of people, including those not counted.
    """

    def __init__(self, design: DesignMatrix, sizes: Integers, population: int) -> None:
        self.design, self.sizes, self.population = design, sizes, population
        share = sizes / max(sizes.sum(), 1)
        # Standardised columns keep least squares exact for columns of very different sizes.
        self._centre = share @ design.combinations
        spread = np.sqrt(share @ (design.combinations - self._centre) ** 2)
        self._scale = np.where(spread > 0, spread, 1.0)
        standard = (design.combinations - self._centre) / self._scale
        self._matrix = np.concatenate([np.ones((len(sizes), 1)), standard], axis=1)

    @cached_property
    def _regression_solver(self) -> Floats:
        """Matrix from summed costs to coefficients, shape (1 + columns, cells)."""
        root = np.sqrt(self.sizes)
        return np.asarray(np.linalg.pinv(root[:, None] * self._matrix) / np.where(root > 0, root, np.inf))

    def find(self, outcomes: Integers) -> HalfSpace:
        """Find the half-space from the number of positive outcomes in each combination, shape (cells,)."""
        excess = self._excess(outcomes)
        coefficients = self._regression_solver @ excess
        inside = self._matrix @ coefficients > ROUNDING
        # Both sides have the same disparity; the one with fewer people is reported.
        if self.sizes[inside].sum() > self.sizes[~inside].sum():
            coefficients, inside = -coefficients, self._matrix @ -coefficients > ROUNDING
        weights = coefficients[1:] / self._scale
        intercept = float(coefficients[0] - weights @ self._centre)
        weighted = float(abs(excess[inside].sum())) / self.population
        return HalfSpace(
            self.design.names, weights, np.ptp(self.design.combinations, axis=0), intercept, inside, weighted
        )

    def largest(self, outcomes: Integers) -> Floats:
        """Compute the largest weighted disparity of each row of outcomes (m, cells), shape (m,)."""
        excess = self._excess(outcomes)
        inside = excess @ (self._matrix @ self._regression_solver).T > ROUNDING
        return np.asarray(np.abs((excess * inside).sum(axis=1)) / self.population)

    def _excess(self, outcomes: Integers) -> Floats:
        """Compute observed minus expected outcomes, shape (..., cells)."""
        rate = outcomes.sum(axis=-1, keepdims=True) / max(self.sizes.sum(), 1)
        return np.asarray(outcomes - self.sizes * rate)


def _design_columns(attribute: Attribute, entries: Floats) -> list[tuple[str, Floats]]:
    gap = np.isnan(entries)
    missing = [(f"{attribute.name} missing", gap.astype(np.float64))] if gap.any() else []
    if attribute.ordered:
        mean = entries[~gap].mean() if not gap.all() else 0.0
        return [(attribute.name, np.where(gap, mean, entries)), *missing]
    values, counts = np.unique(entries[~gap], return_counts=True)
    rarer = np.delete(values, np.argmax(counts)) if len(values) else values
    columns = [(f"{attribute.name} {attribute.text(value)}", (entries == value).astype(np.float64)) for value in rarer]
    return columns + missing
