"""Gaps between groups as scorers for ``GridSearchCV``, ``cross_validate`` and the like."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from evenhand.core.text import suggest_name
from evenhand.errors import OptionError
from evenhand.groups.analysis import measure_decisions
from evenhand.groups.names import GAP_NAMES
from evenhand.schema.arrays import check_index, read_columns
from evenhand.stats.quantity import quantity_value

SCORED = tuple(name for name in GAP_NAMES if name != "calibration_difference")
"""Gaps of decisions; calibration is one of scores."""


def make_fairness_scorer(
    metric: str = "demographic_parity_difference", *, favourable: Any = None, min_group_size: int = 1
) -> Any:
    """Return a scorer of a gap between groups, which scikit-learn maximises.

    Differences are negative in it, as those of every scorer of which less is better; ratios are as they are. Groups
    come as metadata: ``set_score_request(sensitive_features=True)`` on the scorer, after
    ``sklearn.set_config(enable_metadata_routing=True)``, and ``params={"sensitive_features": ...}`` for ``fit`` of the
    search or for ``cross_validate``. Where there are several attributes, the widest gap of one counts.

    Args:
        metric: ``demographic_parity_difference``, ``demographic_parity_ratio``, ``equal_opportunity_difference``,
            ``equalized_odds_difference``, ``accuracy_difference``, ``false_discovery_difference`` or
            ``false_omission_difference``.
        favourable: the label that people want; None: the greater one.
        min_group_size: groups with fewer people to count are left out. The score is nan where fewer than two are left.
            Folds are small, and so are groups in them: a gap of one fold is noise, their mean less so. An audit of the
            chosen model has the interval.

    Raises:
        OptionError: there is no such metric.

    Example:
        >>> scorer = make_fairness_scorer("equal_opportunity_difference")
    """
    from sklearn.metrics import make_scorer

    if metric not in SCORED:
        raise OptionError(
            f"expected the name of a gap, got {metric!r}",
            location="`metric=`",
            hint=suggest_name(metric, SCORED) or f"one of {', '.join(SCORED)}",
        )
    ratio = metric.endswith("_ratio")
    return make_scorer(
        _measure_gap, greater_is_better=ratio, metric=metric, favourable=favourable, min_group_size=min_group_size
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
            "expected the groups of the people",
            hint="set_score_request(sensitive_features=True) on the scorer, and params={'sensitive_features': ...}",
        )
    check_index(y_true=y_true, y_pred=y_pred, sensitive_features=sensitive_features)
    truth, decided = np.asarray(y_true), np.asarray(y_pred)
    wanted = max(np.unique(truth).tolist() + np.unique(decided).tolist()) if favourable is None else favourable
    found = measure_decisions(
        decided == wanted,
        truth == wanted,
        read_columns("sensitive_features", sensitive_features),
        min_group_size=min_group_size,
    )
    values = [
        value
        for breakdown in found.breakdowns
        if len(breakdown.by) == 1
        for gap in breakdown.gaps
        if gap.name == metric and (value := quantity_value(gap.value)) is not None
    ]
    return math.nan if not values else min(values) if metric.endswith("_ratio") else max(values)
