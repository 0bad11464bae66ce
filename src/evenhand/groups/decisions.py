"""Decisions with a favourable label: rates, errors, mean scores and calibration of groups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from evenhand.core.typing import Floats, Integers
from evenhand.groups.cells import CellSample, GroupedCells
from evenhand.groups.engine import TENTHS, GroupCounts
from evenhand.groups.label_coverage import DECISIONS, count_labels
from evenhand.groups.membership import DecidedPeople
from evenhand.schema.thresholds import describe_scale
from evenhand.stats.metric_specs import METRIC_NAMES

ROUNDING = 1e-6
"""Tolerance for probabilities outside [0, 1], such as those of a softmax in single precision."""

NO_SCORES = "there are no scores"


@dataclass(frozen=True)
class DecisionSample(CellSample):
    """Decisions with a favourable label, counted by cell.

    Attributes:
        why_no_scores: Reason why there are no probabilities; empty if there are.
    """

    why_no_scores: str

    scored: ClassVar[str] = "mean_score"
    observed: ClassVar[str] = "base_rate"

    @classmethod
    def of(cls, people: DecidedPeople) -> Self:
        """Count people by cell. Scores that are not probabilities are omitted because they cannot be calibrated."""
        scores, why_no_scores = people.scores, NO_SCORES
        if scores is not None and not (scores.min() >= -ROUNDING and scores.max() <= 1 + ROUNDING):
            why_no_scores, scores = describe_scale(scores), None
        if scores is None:
            return cls.tabulate(people._replace(scores=None), 2, why_no_scores=why_no_scores)
        scores = np.clip(scores, 0.0, 1.0)
        tenth = np.minimum((scores * TENTHS).astype(np.int64), TENTHS - 1)
        return cls.tabulate(people._replace(scores=scores), 2, (tenth, TENTHS), why_no_scores="")

    def count(self, group: Integers, groups: int) -> GroupCounts:
        cells, selected, labels = GroupedCells(self, group, groups), self.decided == 1, self.truth
        labelled = self.labelled
        rates = {"selection_rate": (np.ones_like(selected), selected)}
        if labels is not None:
            positive, negative = labels == 1, labels == 0
            rates |= {
                "base_rate": (labelled, positive),
                "true_positive_rate": (positive, selected),
                "false_positive_rate": (negative, selected),
                "accuracy": (labelled, selected == positive),
                "precision": (selected & labelled, positive),
                "false_discovery_rate": (selected & labelled, negative),
                "false_omission_rate": (~selected & labelled, positive),
            }
        estimators = {name: cells.rate(name, *masks) for name, masks in rates.items()}
        if not self.why_no_scores:
            estimators["mean_score"] = cells.mean("mean_score", 0, (0.0, 1.0))
            if labels is not None:
                # The mean of score minus true label is the calibration error, from -1 to 1.
                estimators["calibration_gap"] = cells.mean("calibration_gap", labels, (-1.0, 1.0), labelled)
        coverage = count_labels(group, groups, self.decided, DECISIONS, labelled, self.n)
        needed = () if labels is None else METRIC_NAMES
        unknown = {name: self.why_no_scores for name in needed if name not in estimators}
        return GroupCounts(*cells.size(), estimators, coverage, unknown)

    def count_benefits(self) -> tuple[Floats, int]:
        """Count the people wrongly not selected, correctly decided and wrongly selected, shape (3,), and all of them.

        Only people with a true label are counted. With weights, the counts are shares of Kish's effective size.
        """
        assert self.truth is not None
        labelled = self.labelled
        total, squares = (column[labelled] for column in self.sums[:2])
        benefits = np.bincount((1 + self.decided - self.truth)[labelled], weights=total, minlength=3)
        return np.asarray(benefits * total.sum() / (squares.sum() or 1.0)), int(self.n[labelled].sum())
