"""Classifier with a single decision threshold that bounds a gap between groups."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.utils import assert_all_finite, check_consistent_length
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.errors import OptionError
from evenhand.schema.arrays import check_index, check_rows, read_columns

MAX_THRESHOLDS = 200
"""Maximum number of candidate thresholds, which are quantiles of the scores."""

GapName = Literal["demographic_parity_difference", "equal_opportunity_difference", "equalized_odds_difference"]


class BoundNotMetWarning(UserWarning):
    """Issued when no threshold meets the bound, and the one with the smallest gap is used."""


class FairnessThreshold(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]  # has no types
    """Binary classifier with the most accurate decision threshold whose gap between groups is within a bound.

    Up to 200 thresholds are evaluated on cross-validated scores, and the most accurate one with a gap of at most
    ``bound`` is selected. The threshold is the same for all people, so groups are only required by ``fit``. Finally,
    the estimator is refitted on the full training data.

    The bound holds only for the cross-validated predictions. Audit the classifier on held-out data.

    Args:
        estimator: Classifier with ``predict_proba`` or ``decision_function``. None means logistic regression.
        metric: ``demographic_parity_difference``, ``equal_opportunity_difference`` or ``equalized_odds_difference``.
            With several attributes, the largest gap is used.
        bound: Maximum gap, between 0 and 1.
        protected: Columns of X that contain the groups, by name or position. None means that the groups are passed to
            ``fit``. Numeric columns with more than ten distinct values are split at the median.
        favourable: Favourable label. None means the larger one.
        cv: Number of folds.
        seed: Random seed of the folds.

    Attributes:
        classes_: Both labels, in ascending order.
        estimator_: Estimator fitted on the full training data.
        threshold_: Score above which the favourable label is predicted.
        gap_, accuracy_: Gap and accuracy of the cross-validated predictions.
        bound_met_: Whether the gap is within the bound.

    Example:
        >>> import numpy as np
        >>> X = np.arange(40.0).reshape(-1, 1)
        >>> y = (X[:, 0] > 19).astype(int)
        >>> fair = FairnessThreshold(bound=0.2).fit(X, y, sensitive_features=np.arange(40) % 2)
        >>> bool(fair.bound_met_)
        True
    """

    def __init__(
        self,
        estimator: Any = None,
        *,
        metric: GapName = "demographic_parity_difference",
        bound: float = 0.05,
        protected: Sequence[str | int] | None = None,
        favourable: Any = None,
        cv: int = 5,
        seed: int = 0,
    ) -> None:
        self.estimator = estimator
        self.metric = metric
        self.bound = bound
        self.protected = protected
        self.favourable = favourable
        self.cv = cv
        self.seed = seed

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    def fit(self, X: Any, y: ArrayLike, *, sensitive_features: Any = None) -> Self:
        """Select the threshold, and fit the estimator.

        Args:
            X: Features, shape (n, attributes).
            y: Binary labels, shape (n,).
            sensitive_features: Group labels of each sample: a data frame, a column or an array. None means the columns
                ``protected`` of X.

        Raises:
            OptionError: There are no groups, or an option is invalid.
            ValueError: X and y are not valid training data for a binary classifier.
        """
        check_index(X=X, y=y, sensitive_features=sensitive_features)
        X, labels = self._validate_training(X, y)
        groups = self._read_groups(X, sensitive_features)
        check_rows({"y": labels} | {f"group {i + 1}": column for i, column in enumerate(groups)})
        check_classification_targets(labels)
        kind = type_of_target(labels)
        self.classes_ = np.unique(labels)
        if len(self.classes_) > 2 or kind not in ("binary", "multiclass"):
            raise ValueError(f"Only binary classification is supported. The type of the target is {kind}.")
        if len(self.classes_) < 2:
            raise ValueError("Classifier can't train when only one class is present.")
        truth = labels == self._favourable_label()
        base = LogisticRegression() if self.estimator is None else self.estimator
        folds = StratifiedKFold(self._count_folds(truth), shuffle=True, random_state=self.seed)
        scores = self._favourable_score(cross_val_predict(clone(base), X, labels, cv=folds, method=_method_of(base)))
        self._select_threshold(scores, truth, [np.unique(column, return_inverse=True)[1] for column in groups])
        self.estimator_ = clone(base).fit(X, labels)
        return self

    def decision_function(self, X: Any) -> Floats:
        """Compute the score minus the threshold, shape (n,); positive values mean ``classes_[1]``."""
        check_is_fitted(self)
        predict = getattr(self.estimator_, _method_of(self.estimator_))
        margin = self._favourable_score(predict(self._validate(X))) - self.threshold_
        return margin if self.classes_[1] == self._favourable_label() else -margin

    def predict(self, X: Any) -> Any:
        """Predict the label of each sample, shape (n,)."""
        check_is_fitted(self)
        return self.classes_[(self.decision_function(X) > 0).astype(int)]

    def _validate(self, X: Any) -> Any:
        """Validate features; the columns of a data frame are left to the estimator."""
        frame = hasattr(X, "columns")
        validated = validate_data(self, X, reset=False, skip_check_array=frame)
        return X if frame else validated

    def _validate_training(self, X: Any, y: Any) -> tuple[Any, Any]:
        """Validate features and labels."""
        if not hasattr(X, "columns"):
            X, labels = validate_data(self, X, y)
            return X, labels
        validate_data(self, X, skip_check_array=True)
        labels = column_or_1d(y, warn=True)
        check_consistent_length(X, labels)
        assert_all_finite(labels, input_name="y")
        return X, labels

    def _favourable_label(self) -> Any:
        if self.favourable is None:
            return self.classes_[1]
        if self.favourable not in self.classes_.tolist():
            raise OptionError(
                f"expected one of the labels, got {self.favourable!r}",
                location="`favourable=`",
                hint=f"the labels are {', '.join(map(str, self.classes_))}",
            )
        return self.favourable

    def _count_folds(self, truth: Booleans) -> int:
        smaller = int(min(truth.sum(), (~truth).sum()))
        if smaller < 2:
            raise ValueError(f"cross-validation requires at least two people of each label, got {smaller}")
        return min(self.cv, smaller)

    def _favourable_score(self, scores: Any) -> Floats:
        """Select the score of the favourable label, shape (n,)."""
        values = np.asarray(scores, dtype=float)
        is_first = bool(self.classes_[0] == self._favourable_label())
        if values.ndim == 2:
            return np.asarray(values[:, 0 if is_first else 1])
        return -values if is_first else values

    def _read_groups(self, X: Any, sensitive_features: Any) -> list[Any]:
        if sensitive_features is not None:
            return [np.asarray(column) for column in read_columns("sensitive_features", sensitive_features).values()]
        if not self.protected:
            raise OptionError(
                "group labels are required, got neither sensitive_features nor protected columns",
                hint="pass sensitive_features to fit, or name columns of X: `protected=[...]`",
            )
        if hasattr(X, "columns"):
            names = [X.columns[column] if isinstance(column, int) else column for column in self.protected]
            return [_split_numbers(np.asarray(X[name])) for name in names]
        return [_split_numbers(X[:, int(column)]) for column in self.protected]

    def _select_threshold(self, scores: Floats, truth: Booleans, groups: Sequence[Integers]) -> None:
        thresholds = np.unique(np.quantile(scores, np.linspace(0, 1, MAX_THRESHOLDS + 1), method="inverted_cdf"))
        selected = scores >= thresholds[:, None]
        gaps = np.max([self._gaps(selected, truth, group) for group in groups], axis=0)
        accuracy = (selected == truth).mean(axis=1)
        within = gaps <= self.bound + 1e-12
        if within.any():
            best = int(np.argmax(np.where(within, accuracy, -1.0)))
        else:
            best = int(np.lexsort((-accuracy, gaps))[0])
            warnings.warn(
                f"no threshold has a gap of at most {self.bound:g}; the smallest gap is {gaps[best]:.3g}",
                BoundNotMetWarning,
                stacklevel=3,
            )
        # The threshold is just below the lowest score with the favourable label.
        self.threshold_, self.gap_ = float(np.nextafter(thresholds[best], -np.inf)), float(gaps[best])
        self.accuracy_, self.bound_met_ = float(accuracy[best]), bool(within.any())

    def _gaps(self, selected: Booleans, truth: Booleans, group: Integers) -> Floats:
        """Compute the gap at each threshold, shape (thresholds,)."""
        masks = {
            "demographic_parity_difference": (np.ones_like(truth),),
            "equal_opportunity_difference": (truth,),
            "equalized_odds_difference": (truth, ~truth),
        }
        if self.metric not in masks:
            raise OptionError(
                f"expected a gap, got {self.metric!r}", location="`metric=`", hint=f"use one of {', '.join(masks)}"
            )
        return np.asarray(np.max([_rate_gap(selected, mask, group) for mask in masks[self.metric]], axis=0))


def _method_of(estimator: Any) -> str:
    return "predict_proba" if hasattr(estimator, "predict_proba") else "decision_function"


def _rate_gap(selected: Booleans, mask: Booleans, group: Integers) -> Floats:
    """Compute the largest gap in selection rate at each threshold, among the people selected by a mask."""
    members = ((group == code) & mask for code in range(int(group.max()) + 1))
    rates = [selected[:, rows].mean(axis=1) for rows in members if rows.any()]
    return np.ptp(np.array(rates), axis=0) if rates else np.zeros(len(selected))


def _split_numbers(column: Any) -> Any:
    """Split a numeric column with more than ten distinct values at the median; return other columns unchanged."""
    try:
        numbers = column.astype(float)
    except (TypeError, ValueError):
        return column
    if not np.isfinite(numbers).all() or len(np.unique(numbers)) <= 10:
        return column
    return numbers > np.median(numbers)
