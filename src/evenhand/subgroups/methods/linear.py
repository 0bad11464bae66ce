"""The linear auditor of subgroup fairness: one half-space of people, found by regression on the sensitive attributes.

Source: Kearns, Neel, Roth and Wu, "Preventing fairness gerrymandering: auditing and learning for subgroup fairness"
(ICML 2018): the auditor that their FairFictPlay plays against, as in the library GerryFair.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

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
from evenhand.subgroups.methods.published import check_options, describe_cuts, sensitive_names
from evenhand.subgroups.result import Finding, LinearGroup

ROUNDING = 1e-12
"""A predicted cost this small is 0: it decides nothing."""

SHOWN = 4
"""Terms of the score in a finding's words, at most."""

LIGHT = 0.01
"""Terms that move the score by less than this share of the heaviest are only counted."""


def audit_linear(
    scorer: Scorer, people: People, config: SubgroupConfig, progress: Progress, limit: TimeLimit
) -> dict[str, Any]:
    """Return the half-space with the largest weighted disparity that the oracle finds; see ``Published``."""
    check_options(
        config,
        *("favourable", "false-negative", "false-positive"),
        deaf_to=("support", "min_size", "control", "depth", "margin", "time_limit"),
    )
    names = sensitive_names(people, config)
    found = measure_outcomes(scorer, people, config.measure)
    design = DesignMatrix.of(people, names)
    cells, k = design.cell[found.concerned], found.values.astype(np.int64)
    sizes = np.bincount(cells, minlength=len(design.combinations))
    outcomes = np.bincount(cells, weights=k, minlength=len(sizes)).astype(np.int64)
    auditor = LinearAuditor(design, sizes, len(people))
    group = auditor.find(outcomes)
    n, total = int(sizes.sum()), int(outcomes.sum())
    inside, positives = int(sizes[group.inside].sum()), int(outcomes[group.inside].sum())
    if inside == 0:
        raise OptionError(
            "no half-space over the sensitive attributes holds some of the people and not others: everybody is treated "
            "alike, or has the same values",
            hint="name other attributes, or use the method 'exact'",
        )
    progress("permuting", 0.0)
    permuted = permute_counts(sizes, total, config.permutations, np.random.default_rng(config.seed))
    # Ties count against the finding: sums in another order may differ in the last digits.
    reached = int((auditor.largest(permuted) >= group.weighted * (1 - 1e-9)).sum())
    # The observed outcomes are one more arrangement, so that p is never 0 (Phipson & Smyth 2010).
    p = (1 + reached) / (1 + config.permutations)
    low, high = difference_interval(positives, inside, total - positives, n - inside, config.confidence)
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
        low=float(low),
        high=float(high),
        plain_low=float(low),
        plain_high=float(high),
        z=float(standardised_gap(positives, inside, total, n)),
        adjusted_p=p,
        found=p <= 1 - config.confidence + 1e-12,
    )
    return {
        "control": "none",
        "critical": None,
        "support": 0.0,
        "min_size": 1,
        "people": n,
        "rate": total / n,
        "rule_sets": 1,
        "tested": 1,
        "found": int(finding.found),
        "attributes": describe_cuts(cut_attributes(people, names, config.bins, equal_width_ends)[0]),
        "findings": (finding,),
        "linear": LinearGroup(
            weights=dict(zip(group.names, group.weights.tolist(), strict=True)),
            intercept=group.intercept,
            weighted=group.weighted,
            overall_gap=rate - total / n,
        ),
        "notes": (
            f"Disparity {group.weighted:.4f}: the share of people in the group times the distance of their rate from "
            f"everybody's. The oracle is a heuristic; a half-space with a larger disparity may exist.",
            "The group was chosen because its gap is large, on the same people, so the interval (which is for a group "
            "chosen beforehand) lies too far from 0.",
            f"p = {p:.3g} accounts for the choice: in {config.permutations:,} random exchanges of the outcomes the "
            f"auditor chose again each time. The publication gives no such number.",
            "A half-space is not a rule: who is in it is said by a sum of weights.",
        ),
    }


@dataclass(frozen=True)
class DesignMatrix:
    """The sensitive attributes as numbers, one row per combination of values that somebody has.

    A category is one column per value but the most frequent; a number is a column of its own, and so is its being
    missing (with the mean in its place).

    Attributes:
        names: the columns, ``age`` or ``race Black``.
        combinations: shape (cells, columns).
        cell: the combination of each person, shape (n,).
    """

    names: tuple[str, ...]
    combinations: Floats
    cell: Integers

    @classmethod
    def of(cls, people: People, names: Sequence[str]) -> DesignMatrix:
        """Return the design of these attributes."""
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
    """The half-space of a linear score over the sensitive attributes.

    Attributes:
        names: the columns of the score.
        weights: of the columns, shape (columns,), in the attributes' own units.
        spans: how far each column's values lie apart, shape (columns,).
        intercept: members are those with ``weights @ columns + intercept > 0``.
        inside: which combinations are members, shape (cells,).
        weighted: Kearns and others' disparity, ``P(counted and in the group) * |rate in the group - rate of all|``.
    """

    names: tuple[str, ...]
    weights: Floats
    spans: Floats
    intercept: float
    inside: Booleans
    weighted: float

    def words(self) -> str:
        """Return who is in it: the terms that move the score most, scaled so that the first has weight 1."""
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
    """Finds the half-space whose people's rate differs most from everybody's, weighted by its size.

    Which group it is, is cost-sensitive classification: with the cost ``rate of all - outcome`` for every member, the
    cheapest group is the one with the largest weighted disparity. The heuristic oracle predicts each person's cost by
    least squares and takes those whose predicted cost is negative. It finds the best half-space where the score can
    fit every combination (a single categorical attribute); elsewhere a better one may exist.

    A group and its complement have the same weighted disparity, so the negated costs that the published auditor also
    tries lead to the complement; the smaller of the two, whose rate lies further from everybody's, is what is reported.
    """

    def __init__(self, design: DesignMatrix, sizes: Integers, population: int) -> None:
        """Where to look.

        Args:
            design: the sensitive attributes.
            sizes: people counted in each combination, shape (cells,); those truly favourable for false negatives.
            population: everybody, counted or not.
        """
        self.design, self.sizes, self.population = design, sizes, population
        share = sizes / max(sizes.sum(), 1)
        # Columns about their mean and of like size: least squares stays exact for years beside percentages.
        self._centre = share @ design.combinations
        spread = np.sqrt(share @ (design.combinations - self._centre) ** 2)
        self._scale = np.where(spread > 0, spread, 1.0)
        standard = (design.combinations - self._centre) / self._scale
        self._matrix = np.concatenate([np.ones((len(sizes), 1)), standard], axis=1)

    @cached_property
    def _regression_solver(self) -> Floats:
        """Coefficients from the costs summed over combinations, shape (1 + columns, cells)."""
        root = np.sqrt(self.sizes)
        return np.asarray(np.linalg.pinv(root[:, None] * self._matrix) / np.where(root > 0, root, np.inf))

    def find(self, outcomes: Integers) -> HalfSpace:
        """The half-space, for so many outcomes (favourable decisions, say) in each combination, shape (cells,)."""
        excess = self._excess(outcomes)
        coefficients = self._regression_solver @ excess
        inside = self._matrix @ coefficients > ROUNDING
        # Both sides of a plane differ by as much: the one with fewer people is named.
        if self.sizes[inside].sum() > self.sizes[~inside].sum():
            coefficients, inside = -coefficients, self._matrix @ -coefficients > ROUNDING
        weights = coefficients[1:] / self._scale
        intercept = float(coefficients[0] - weights @ self._centre)
        weighted = float(abs(excess[inside].sum())) / self.population
        return HalfSpace(
            self.design.names, weights, np.ptp(self.design.combinations, axis=0), intercept, inside, weighted
        )

    def largest(self, outcomes: Integers) -> Floats:
        """Return the weighted disparity found for each of many outcomes (m, cells), shape (m,)."""
        excess = self._excess(outcomes)
        inside = excess @ (self._matrix @ self._regression_solver).T > ROUNDING
        return np.asarray(np.abs((excess * inside).sum(axis=1)) / self.population)

    def _excess(self, outcomes: Integers) -> Floats:
        """Return outcomes beyond what everybody's rate makes expect, shape (..., cells)."""
        rate = outcomes.sum(axis=-1, keepdims=True) / max(self.sizes.sum(), 1)
        return np.asarray(outcomes - self.sizes * rate)


def _design_columns(attribute: Attribute, entries: Floats) -> list[tuple[str, Floats]]:
    gone = np.isnan(entries)
    missing = [(f"{attribute.name} missing", gone.astype(np.float64))] if gone.any() else []
    if attribute.ordered:
        known = entries[~gone].mean() if not gone.all() else 0.0
        return [(attribute.name, np.where(gone, known, entries)), *missing]
    values, counts = np.unique(entries[~gone], return_counts=True)
    others = np.delete(values, np.argmax(counts)) if len(values) else values
    columns = [(f"{attribute.name} {attribute.text(value)}", (entries == value).astype(np.float64)) for value in others]
    return columns + missing
