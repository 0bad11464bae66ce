"""Scikit-learn classifier that trains a network with a fairness penalty."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.errors import DataError, OptionError
from evenhand.mitigation.training.encoding import FeatureEncoding, join_features, joint_groups, number_groups
from evenhand.mitigation.training.loop import train_network
from evenhand.mitigation.training.losses.loss import TrainingPlan
from evenhand.mitigation.training.network import start_from_network
from evenhand.mitigation.training.recipes import load_loss
from evenhand.models.additive.network import AdditiveNetwork, binary_labels
from evenhand.schema.arrays import check_index
from evenhand.schema.attribute import Value
from evenhand.schema.outcome import Target
from evenhand.schema.people import encode
from evenhand.schema.schema import Schema
from evenhand.schema.table import plain_value

HIDDEN = (512, 256, 64)
"""Units of the hidden layers, as published."""

STEPS = 150
LEARNING_RATE = 0.01
BATCH = 1024
SMALL_BATCH = 128
"""Batch size for training sets smaller than ``BATCH``."""

INFERRED = "schema=evenhand.schema.infer_schema(frame, target='NAME', protected=['NAME'])"


class FairClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Dense ReLU network that minimises ``cross entropy + strength * penalty`` for two labels.

    The defaults are those of the published comparison of these methods: three hidden layers and 150 steps of Adam on
    batches of 1,024 rows (128 for small data), with a learning rate of 0.01 that is divided by 10 after each third of
    the steps. The epochs of the publication are single batches in its code, which are called ``steps`` here.

    After ``fit``, ``network_`` is the same network over individuals of the schema, as used by the certifier and the
    searches. ``predict_proba`` evaluates it, so proofs about ``network_`` hold for the classifier. Equal data,
    parameters and seeds give equal weights, bit for bit on one machine.

    Methods that compare groups receive them from ``protected`` or from ``sensitive_features``, which searches
    forward as metadata (``set_fit_request(sensitive_features=True)``).

    Args:
        method: ``erm``, ``diffdp`` (or ``gap``, the same here), ``hsic``, ``laftr``, ``prejudice-remover`` or
            ``logit-pairing``.
        strength: Weight of the penalty. None for the default of the method.
        schema: Data schema, required by ``fit``. ``evenhand.schema.infer_schema`` infers one from a data frame.
        protected: Names of the protected attributes. None for the protected attributes of the schema.
        hidden: Number of units of each hidden layer.
        steps: Number of batches.
        batch_size: Rows per batch. None for 1,024, or 128 for smaller training sets.
        learning_rate: Learning rate of the first third of the steps.
        sees_protected: Whether the protected attributes are inputs. If not, their weights are exactly 0.
        start: Network over the schema to train further, instead of a new one with ``hidden`` layers.
        seed: Seed of the initial weights and of the order of the rows.

    Attributes:
        classes_: Both labels in ascending order.
        n_features_in_: Number of attributes of the schema.
        feature_names_in_: Names of the attributes, if ``fit`` received a data frame.
        schema_: Schema of individuals, with both labels.
        network_: Trained network over individuals.
        history_: Error and penalty of each step.
        interrupted_: Whether training was interrupted. The weights are those of the last complete step.

    References:
        Han et al., "FFB: A Fair Fairness Benchmark for In-Processing Group Fairness Methods", ICLR 2024; Cano et al.,
        "Fairness Shields", AAAI 2025, appendix C.3.
    """

    def __init__(
        self,
        method: str = "erm",
        *,
        strength: float | None = None,
        schema: Schema | None = None,
        protected: Sequence[str] | None = None,
        hidden: Sequence[int] = HIDDEN,
        steps: int = STEPS,
        batch_size: int | None = None,
        learning_rate: float = LEARNING_RATE,
        sees_protected: bool = True,
        start: AdditiveNetwork | None = None,
        seed: int = 0,
    ) -> None:
        self.method = method
        self.strength = strength
        self.schema = schema
        self.protected = protected
        self.hidden = hidden
        self.steps = steps
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.sees_protected = sees_protected
        self.start = start
        self.seed = seed

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    def fit(
        self,
        X: Any,
        y: ArrayLike,
        *,
        sensitive_features: Any = None,
        deadline: float | None = None,
        each: Callable[[int], None] | None = None,
    ) -> Self:
        """Train the network.

        Args:
            X: Data frame with the values of the data, or individuals of the schema, shape (n, attributes).
            y: Labels with the values of the data, shape (n,).
            sensitive_features: Groups for penalties that compare groups: one column of shape (n,), or several, whose
                joint groups are compared. None for the joint groups of the protected attributes.
            deadline: Time by ``time.perf_counter()`` at which training stops.
            each: Function called with the number of each step, from 1.

        Raises:
            DataError: The people do not match the schema, there are not two labels, or a value is missing.
            OptionError: A parameter is invalid, or the method compares groups and there are none.
            ModelError: The weights became infinite.
            MissingExtraError: PyTorch is not installed.
        """
        self._check_parameters()
        check_index(X=X, y=y, sensitive_features=sensitive_features)
        loss = load_loss(self.method)
        labels = _check_labels(np.asarray(y))
        schema = self.schema if isinstance(self.schema, Schema) else Schema.parse(self.schema)
        individuals, rows = _read_individuals(schema, X)
        if len(labels) != len(individuals) + (0 if rows is None else len(X) - len(rows)):
            raise DataError(f"expected one label per row, got {len(labels)} labels for {len(X)} rows")
        schema, favourable = _list_labels(schema, labels)
        groups = None if sensitive_features is None else join_features(sensitive_features, len(labels))
        if rows is not None:
            favourable = favourable[rows]
            groups = None if groups is None else groups[rows]
        protected = schema.protected if self.protected is None else tuple(self.protected)
        schema.positions(protected)
        strength = loss.default if self.strength is None else self.strength
        plan = TrainingPlan(
            individuals=individuals,
            labels=favourable,
            groups=joint_groups(schema, individuals, protected) if groups is None else number_groups(groups),
            protected=protected,
            steps=self.steps,
            batch_size=self.batch_size or (BATCH if len(individuals) >= BATCH else SMALL_BATCH),
            learning_rate=self.learning_rate,
            strength=strength,
            seed=self.seed,
            deadline=deadline,
        )
        start = None
        if self.start is None:
            unseen = () if self.sees_protected else protected
            encoding = FeatureEncoding.fit_to_people(schema, individuals, unseen=unseen)
        else:
            encoding, start = start_from_network(self.start, schema, individuals)
        layers, self.history_ = train_network(plan, encoding, hidden=self.hidden, loss=loss, start=start, each=each)
        self.schema_ = schema
        self.n_features_in_ = len(schema.attributes)
        if rows is not None:
            self.feature_names_in_ = np.array(schema.names, dtype=object)
        self.classes_ = np.unique(labels)
        name = self.method if strength == 0 else f"{self.method} (strength {strength:g})"
        self.network_: AdditiveNetwork = encoding.additive(layers, binary_labels(schema), 1, name)
        self.encoding_ = encoding
        self.interrupted_ = len(self.history_) < self.steps
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict the label of each row, shape (n,)."""
        positive = self.decision_function(X) > 0
        return np.asarray(self.classes_[positive.astype(np.int64)])

    def predict_proba(self, X: Any) -> Floats:
        """Compute the probability of each label, in the order of ``classes_``, shape (n, 2)."""
        people = self._people(X)
        scores = self.network_.scores(people)
        return scores if self._labels_ascend() else scores[:, ::-1]

    def decision_function(self, X: Any) -> Floats:
        """Compute the logit of the second label of ``classes_``, shape (n,)."""
        people = self._people(X)
        logits = self.network_.logits(people)[:, 0]
        return logits if self._labels_ascend() else -logits

    def _labels_ascend(self) -> bool:
        return bool(self.classes_[1] == self.schema_.target.favourable)

    def _check_parameters(self) -> None:
        """Check all parameters."""
        names = isinstance(self.protected, Sequence | np.ndarray) and not isinstance(self.protected, str)
        layers = isinstance(self.hidden, Sequence | np.ndarray) and all(_is_integer(units, 1) for units in self.hidden)
        strength, batch = self.strength, self.batch_size
        for name, valid, expected, hint in (
            ("schema", isinstance(self.schema, Schema | Mapping), "a schema", f"infer it: {INFERRED}"),
            ("hidden", layers, "integers of at least 1, one per hidden layer", "set hidden=(64, 16)"),
            ("steps", _is_integer(self.steps, 1), "an integer of at least 1", f"set steps={STEPS}"),
            ("batch_size", batch is None or _is_integer(batch, 1), "an integer of at least 1", "omit it"),
            ("seed", _is_integer(self.seed, 0, 2**63), "an integer of at least 0, below 2^63", "set seed=0"),
            ("strength", strength is None or _is_number(strength, 0), "a number of at least 0", "omit it"),
            ("learning_rate", _is_number(self.learning_rate, 1e-300), "a number above 0", "set learning_rate=0.01"),
            ("protected", self.protected is None or names, "a list of names", "set protected=['sex']"),
            ("start", isinstance(self.start, AdditiveNetwork | None), "a network over the schema", "omit it"),
        ):
            if not valid:
                raise OptionError(f"expected {expected}, got {getattr(self, name)!r}", location=f"`{name}=`", hint=hint)
        if self.start is not None and not self.sees_protected:
            raise OptionError("`start` cannot be combined with sees_protected=False", hint="omit one of them")

    def _people(self, data: Any) -> Floats:
        check_is_fitted(self, "network_")
        individuals, rows = _read_individuals(self.schema_, data)
        if rows is not None and len(rows) < len(data):
            raise DataError(
                f"a value is missing in {len(data) - len(rows)} of {len(data)} rows", hint="fill in the values"
            )
        return individuals


def _read_individuals(schema: Schema, data: Any) -> tuple[Floats, Integers | None]:
    """Encode data as individuals, and return their row numbers if the data are a data frame."""
    rows = None
    if hasattr(data, "columns"):
        people = encode(schema, data, read_target=False)
        individuals, rows = people.individuals, people.rows
    else:
        array, width = np.asarray(data, dtype=np.float64), len(schema.attributes)
        individuals = array[..., :width]
        if individuals.ndim != 2 or individuals.shape[1] != width:
            raise DataError(f"expected individuals of shape (n, {width}), got {array.shape}")
        inside = schema.contains(individuals) | np.isnan(individuals).any(axis=1)
        if not inside.all():
            raise DataError(f"individual {int(np.argmin(inside)) + 1} is outside the domain of the schema")
    missing = np.isnan(individuals).any(axis=0)
    if missing.any():
        raise DataError(
            f"{schema.names[int(np.argmax(missing))]!r} has a missing value, but the network has no input for it",
            hint="set `missing: drop` for the attribute in the schema, or fill in the value",
        )
    return individuals, rows


def _is_integer(value: Any, minimum: int, maximum: int | None = None) -> bool:
    """Check that a value is an integer (not a boolean) in a range."""
    integer = isinstance(value, int | np.integer) and not isinstance(value, bool)
    return bool(integer and value >= minimum and (maximum is None or value < maximum))


def _is_number(value: Any, minimum: float) -> bool:
    number = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    return bool(number and np.isfinite(value) and value >= minimum)


def _check_labels(labels: NDArray[Any]) -> NDArray[Any]:
    """Check that labels have one dimension and none is missing."""
    import pandas as pd

    if labels.ndim != 1:
        raise DataError(f"expected labels of shape (n,), got {labels.shape}")
    missing = pd.isna(labels)
    if missing.any():
        raise DataError(
            f"the label is missing in {missing.sum():,} of {len(labels):,} rows",
            hint="drop these rows: `rows = y.notna()`, then fit on `X[rows]` and `y[rows]`",
        )
    return labels


def _list_labels(schema: Schema, labels: NDArray[Any]) -> tuple[Schema, Booleans]:
    """Add both labels to a schema, and return it with the mask of favourable labels."""
    present = [plain_value(value) for value in np.unique(labels)]
    favourable: Value = schema.target.favourable
    negatives = [value for value in schema.target.values or present if value != favourable]
    unknown = [value for value in present if value != favourable and value not in negatives]
    if unknown:
        raise DataError(f"the label {unknown[0]!r} is not a value of the target: {[*negatives, favourable]}")
    if len(negatives) != 1 or len(present) != 2:
        raise DataError(
            f"expected two labels, got {present if len(negatives) == 1 else [*negatives, favourable]}",
            hint=f"the network distinguishes {favourable!r} from one other label, so both are required",
        )
    if schema.target.values is None:
        target = Target(name=schema.target.name, favourable=favourable, values=(negatives[0], favourable))
        schema = schema.model_copy(update={"target": target})
    return schema, np.asarray(labels == favourable)
