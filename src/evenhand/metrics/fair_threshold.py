"""One threshold for everybody, chosen so that a gap between groups stays below a bound."""

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

MOST_THRESHOLDS = 200
"""Candidates: quantiles of the scores. Between two of them 0.5 % of the people lie."""

GapName = Literal["demographic_parity_difference", "equal_opportunity_difference", "equalized_odds_difference"]


class BoundNotMetWarning(UserWarning):
    """No threshold keeps the gap below the bound; the one with the smallest gap was taken."""


class FairnessThreshold(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]  # has no types
    """A classifier whose one threshold keeps a gap between groups below a bound, at the highest accuracy.

    Scores of people whom the estimator was not fitted on (by cross-validation) are compared with up to 200
    thresholds; of those whose gap is at most ``bound`` the most accurate is taken. Everybody is decided by the same
    threshold, and no group is needed to decide. The estimator is then fitted on everybody.

    The bound holds for the cross-validated people, not for others: audit the classifier on people kept aside.

    Args:
        estimator: a classifier with ``predict_proba`` or ``decision_function``; None: a logistic regression.
        metric: the gap: ``demographic_parity_difference``, ``equal_opportunity_difference`` or
            ``equalized_odds_difference``; of several attributes, the widest.
        bound: of the gap, 0 to 1.
        protected: columns of X, by name or position, that hold the groups; None: they are given to ``fit``. A column
            of numbers with more than ten values is cut at its median.
        favourable: the label that people want; None: the greater one.
        cv: folds.
        seed: of the folds.

    Attributes:
        classes_: the two labels, ascending.
        estimator_: fitted on everybody.
        threshold_: the favourable label is given above this score.
        gap_, accuracy_: at that threshold, of the cross-validated people.
        bound_met_: whether the gap is within the bound.

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
        """Choose the threshold, and fit the estimator.

        Args:
            X: people, shape (n, attributes).
            y: labels of two values, shape (n,).
            sensitive_features: groups, one row per person: a frame, a column, or an array; None: ``protected`` names
                columns of X.

        Raises:
            OptionError: there are no groups, or an option makes no sense.
            ValueError: X and y are not what a classifier of two labels is fitted on.
        """
        check_index(X=X, y=y, sensitive_features=sensitive_features)
        X, labels = self._validate_both(X, y)
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
        scores = self._one_score(cross_val_predict(clone(base), X, labels, cv=folds, method=_method_of(base)))
        self._choose(scores, truth, [np.unique(column, return_inverse=True)[1] for column in groups])
        self.estimator_ = clone(base).fit(X, labels)
        return self

    def decision_function(self, X: Any) -> Floats:
        """Return how far every person's score lies above the threshold, shape (n,): positive means ``classes_[1]``."""
        check_is_fitted(self)
        above = self._one_score(_ask(self.estimator_, self._validate(X))) - self.threshold_
        return above if self.classes_[1] == self._favourable_label() else -above

    def predict(self, X: Any) -> Any:
        """Return the label of every person, shape (n,)."""
        check_is_fitted(self)
        return self.classes_[(self.decision_function(X) > 0).astype(int)]

    def _validate(self, X: Any) -> Any:
        """Return people to be decided about; the columns of a data frame are the estimator's affair."""
        frame = hasattr(X, "columns")
        validated = validate_data(self, X, reset=False, skip_check_array=frame)
        return X if frame else validated

    def _validate_both(self, X: Any, y: Any) -> tuple[Any, Any]:
        """Return people and labels to fit on."""
        if not hasattr(X, "columns"):
            people, labels = validate_data(self, X, y)
            return people, labels
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
                hint=f"labels are {', '.join(map(str, self.classes_))}",
            )
        return self.favourable

    def _count_folds(self, truth: Booleans) -> int:
        least = int(min(truth.sum(), (~truth).sum()))
        if least < 2:
            raise ValueError("expected two people or more of each label, to cross-validate")
        return min(self.cv, least)

    def _one_score(self, scores: Any) -> Floats:
        """Return the score of the favourable label, shape (n,)."""
        values = np.asarray(scores, dtype=float)
        first = bool(self.classes_[0] == self._favourable_label())
        if values.ndim == 2:
            return np.asarray(values[:, 0 if first else 1])
        return -values if first else values

    def _read_groups(self, X: Any, given: Any) -> list[Any]:
        if given is not None:
            return [np.asarray(column) for column in read_columns("sensitive_features", given).values()]
        if not self.protected:
            raise OptionError(
                "expected to know the groups",
                hint="give sensitive_features to fit, or name columns of X: `protected=[...]`",
            )
        if hasattr(X, "columns"):
            names = [X.columns[one] if isinstance(one, int) else one for one in self.protected]
            return [_cut(np.asarray(X[name])) for name in names]
        return [_cut(X[:, int(one)]) for one in self.protected]

    def _choose(self, scores: Floats, truth: Booleans, groups: Sequence[Integers]) -> None:
        thresholds = np.unique(np.quantile(scores, np.linspace(0, 1, MOST_THRESHOLDS + 1), method="inverted_cdf"))
        selected = scores >= thresholds[:, None]
        gaps = np.max([self._gaps(selected, truth, group) for group in groups], axis=0)
        accuracy = (selected == truth).mean(axis=1)
        within = gaps <= self.bound + 1e-12
        if within.any():
            best = int(np.argmax(np.where(within, accuracy, -1.0)))
        else:
            best = int(np.lexsort((-accuracy, gaps))[0])
            warnings.warn(
                f"expected a threshold with a gap of at most {self.bound:g}, the smallest is {gaps[best]:.3g}",
                BoundNotMetWarning,
                stacklevel=3,
            )
        # A threshold is the score of somebody who is selected: it stands just below that.
        self.threshold_, self.gap_ = float(np.nextafter(thresholds[best], -np.inf)), float(gaps[best])
        self.accuracy_, self.bound_met_ = float(accuracy[best]), bool(within.any())

    def _gaps(self, selected: Booleans, truth: Booleans, group: Integers) -> Floats:
        """Return the gap at every threshold, shape (thresholds,)."""
        everybody = np.ones_like(truth)
        wanted = {
            "demographic_parity_difference": (everybody,),
            "equal_opportunity_difference": (truth,),
            "equalized_odds_difference": (truth, ~truth),
        }
        if self.metric not in wanted:
            raise OptionError(
                f"expected a gap, got {self.metric!r}", location="`metric=`", hint=f"one of {', '.join(wanted)}"
            )
        spreads = [_spread(selected, counted, group) for counted in wanted[self.metric]]
        return np.asarray(np.max(spreads, axis=0))


def _method_of(estimator: Any) -> str:
    return "predict_proba" if hasattr(estimator, "predict_proba") else "decision_function"


def _ask(estimator: Any, X: Any) -> Any:
    return getattr(estimator, _method_of(estimator))(X)


def _spread(selected: Booleans, counted: Booleans, group: Integers) -> Floats:
    """Return the highest minus the lowest selection rate of the groups among those counted, at every threshold."""
    masks = ((group == one) & counted for one in range(int(group.max()) + 1))
    rates = [selected[:, here].mean(axis=1) for here in masks if here.any()]
    return np.ptp(np.array(rates), axis=0) if rates else np.zeros(len(selected))


def _cut(column: Any) -> Any:
    """Return a column of groups: numbers with more than ten values are cut at their median."""
    try:
        numbers = column.astype(float)
    except (TypeError, ValueError):
        return column
    if not np.isfinite(numbers).all() or len(np.unique(numbers)) <= 10:
        return column
    return numbers > np.median(numbers)
