"""Fairness gaps as scorers for ``GridSearchCV``, ``cross_validate`` and similar tools."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from evenhand.core.text import suggest_name
from evenhand.errors import OptionError
from evenhand.groups.analysis import measure_decisions
from evenhand.schema.arrays import check_index
from evenhand.stats.metric_specs import GAP_NAMES
from evenhand.stats.quantity import quantity_value

SCORED = tuple(name for name in GAP_NAMES if name != "calibration_difference")
"""Names of the gaps computed from decisions. The calibration gap is computed from scores."""


def make_fairness_scorer(
    metric: str = "demographic_parity_difference", *, favourable: Any = None, min_group_size: int = 1
) -> Any:
    """Make a scikit-learn scorer for a gap between groups.

    As in all scikit-learn scorers, larger scores are better: differences are negated, ratios are not. Groups are passed
    as metadata: enable it with ``sklearn.set_config(enable_metadata_routing=True)``, call
    ``set_score_request(sensitive_features=True)`` on the scorer, and pass ``params={"sensitive_features": ...}`` to
    ``fit`` of the search or to ``cross_validate``. With several attributes, the largest single-attribute gap is used.

    Args:
        metric: ``demographic_parity_difference``, ``demographic_parity_ratio``, ``equal_opportunity_difference``,
            ``equalized_odds_difference``, ``accuracy_difference``, ``false_discovery_difference`` or
            ``false_omission_difference``.
        favourable: Favourable label. None means the larger one.
        min_group_size: Minimum group size. Smaller groups are ignored, and the score is NaN for fewer than two groups.
            Groups in a single fold are small, so the gap is noisy; the mean over folds is less so. Audit the selected
            model to obtain an interval.

    Raises:
        OptionError: The metric is unknown.

    Example:
        >>> scorer = make_fairness_scorer("equal_opportunity_difference")
    """
    from sklearn.metrics import make_scorer

    if metric not in SCORED:
        raise OptionError(
            f"expected the name of a gap, got {metric!r}",
            location="`metric=`",
            hint=suggest_name(metric, SCORED) or f"use one of {', '.join(SCORED)}",
        )
    return make_scorer(
        _measure_gap,
        greater_is_better=metric.endswith("_ratio"),
        metric=metric,
        favourable=favourable,
        min_group_size=min_group_size,
    )


def _measure_gap(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    *,
    metric: str,
    favourable: Any,
    min_group_size: int,
    sensitive_features: Any = None,
) -> float:
    if sensitive_features is None:
        raise OptionError(
            "sensitive_features is required, got None",
            hint="call set_score_request(sensitive_features=True) on the scorer, and pass "
            "params={'sensitive_features': ...}",
        )
    check_index(y_true=y_true, y_pred=y_pred, sensitive_features=sensitive_features)
    truth, predicted = np.asarray(y_true), np.asarray(y_pred)
    if favourable is None:
        favourable = max(np.unique(truth).tolist() + np.unique(predicted).tolist())
    result = measure_decisions(
        predicted == favourable, truth == favourable, sensitive_features, min_group_size=min_group_size
    )
    values = [
        value
        for breakdown in result.breakdowns
        if len(breakdown.by) == 1
        for gap in breakdown.gaps
        if gap.name == metric and (value := quantity_value(gap.value)) is not None
    ]
    return math.nan if not values else min(values) if metric.endswith("_ratio") else max(values)
