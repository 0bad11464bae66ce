"""A network trained to be fair, as a scikit-learn classifier."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import assert_all_finite, check_consistent_length
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.errors import DataError, OptionError
from evenhand.mitigation.training.encoding import FeatureEncoding, joint_groups, number_groups
from evenhand.mitigation.training.loop import StepRecord, TrainingPlan, train_network
from evenhand.mitigation.training.losses.loss import load_loss
from evenhand.mitigation.training.network import start_from_network
from evenhand.mitigation.training.tables import (
    accept_fractions,
    as_table,
    fit_into,
    guess_schema,
    join_features,
    name_protected,
)
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
"""Instead, where there are fewer people to learn from than a batch holds."""


class FairClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """A dense ReLU network that minimises ``cross entropy + strength * penalty`` for a label of two.

    The defaults are those of the published comparison of these methods: three hidden layers, 150 steps of Adam on
    batches of 1,024 people (128 where there are fewer), a rate of 0.01 that falls to a tenth after each third. What
    those call epochs are single batches in their code, and so they are here: ``steps``.

    After ``fit``, ``network_`` is the same network over the schema's individuals, as the certifier, the searches and
    every engine take it; ``predict_proba`` is asked of it, so that what is proved of the one holds for the other. The
    same people, parameters and seed give the same weights, bit for bit on one machine.

    Source: Han et al.: FFB, A Fair Fairness Benchmark for In-Processing Group Fairness Methods, ICLR 2024; Cano et al.:
    Fairness Shields, AAAI 2025, appendix C.3.

    With no ``schema`` it is like any other classifier of scikit-learn: it infers columns and their ranges from the
    data frame or array that it is fitted on, and a later number outside a range counts as its nearest end. Methods
    that compare groups get them from ``protected`` or, for each fit, by ``sensitive_features``, which searches and
    pipelines hand on as metadata (``set_fit_request(sensitive_features=True)``).

    Args:
        method: ``erm``, ``diffdp`` (``gap`` is the same here), ``hsic``, ``laftr``, ``prejudice-remover``,
            ``logit-pairing`` or ``certified``.
        strength: of the penalty; None: the method's default.
        schema: what the individuals are; None: guessed from the data, the greater label being favourable.
        protected: names of the protected attributes, or their positions among the columns; None: those of the schema.
            A protected column of an array is cut at its median, unless it has at most ten different whole numbers.
        hidden: units of each hidden layer.
        steps: batches learnt from.
        batch_size: people in each; None: 1,024, or 128 where there are fewer people than that.
        learning_rate: of the first third of the steps.
        sees_protected: whether the protected attributes are inputs; where not, their weights are exactly 0.
        start: a network over the schema to train on from its weights, in place of a fresh one with ``hidden`` layers.
        seed: of the first weights and of the order of people.

    Attributes:
        classes_: the two labels in ascending order, as scikit-learn has them.
        n_features_in_: columns seen in ``fit``; with a schema, its attributes.
        feature_names_in_: names of the columns, where there is no schema and a data frame was given.
        schema_: what its individuals are; its target lists both labels.
        network_: the trained network over them.
        history_: error and penalty of every step.
        interrupted_: whether it was stopped early; the weights are those reached by then.
    """

    def __init__(
        self,
        method: str = "erm",
        *,
        strength: float | None = None,
        schema: Schema | None = None,
        protected: Sequence[str | int] | None = None,
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
        """Train on people and their labels.

        Args:
            X: a data frame in the data's own words; or an array: individuals (n, attributes) of the schema, or plain
                numbers where there is none.
            y: the label of each, in the data's own words, shape (n,).
            sensitive_features: the groups of each, for penalties that compare groups: a column of shape (n,), or
                several, whose joint groups are compared; None: the joint groups of the protected attributes.
            deadline: by ``time.perf_counter()``, when to stop with what there is.
            each: called after every step with its number, from 1.

        Raises:
            DataError: the people do not fit the schema, there are not two labels, a value is missing.
            OptionError: a parameter makes no sense, or the method compares groups and there are none.
            ModelError: training went astray: weights grew beyond all numbers.
            MissingExtraError: PyTorch is not installed.
            ValueError: without a schema, X and y are not what a classifier of two labels is fitted on.
        """
        self._check()
        check_index(X=X, y=y, sensitive_features=sensitive_features)
        teacher = load_loss(self.method)
        if self.schema is None:
            X, labels = self._validate_both(X, y)
            schema = guess_schema(X, labels, self.protected)
        else:
            labels = _check_labels(np.asarray(y))
            schema = self.schema if isinstance(self.schema, Schema) else Schema.parse(self.schema)
            self.n_features_in_ = len(schema.attributes)
        individuals, rows = self._individuals(schema, X)
        if len(labels) != len(individuals) + (0 if rows is None else len(X) - len(rows)):
            raise DataError(f"there are {len(labels)} labels for {len(X)} people")
        schema, favourable = _list_labels(schema, labels)
        groups = None if sensitive_features is None else join_features(sensitive_features, len(labels))
        if rows is not None:
            favourable = favourable[rows]
            groups = None if groups is None else groups[rows]
        protected = schema.protected if self.protected is None else name_protected(self.protected, schema.names)
        schema.positions(protected)
        strength = teacher.default if self.strength is None else self.strength
        course = TrainingPlan(
            individuals=individuals,
            labels=favourable,
            groups=joint_groups(schema, individuals, protected) if groups is None else number_groups(groups),
            steps=self.steps,
            batch_size=self.batch_size or (BATCH if len(individuals) >= BATCH else SMALL_BATCH),
            learning_rate=self.learning_rate,
            strength=strength,
            seed=self.seed,
            deadline=deadline,
        )
        begun = None
        if self.start is None:
            encoding = FeatureEncoding.fit_to_people(
                schema, individuals, unseen=() if self.sees_protected else protected
            )
        else:
            encoding, begun = start_from_network(self.start, schema, individuals)
        taught = train_network(
            course, encoding, hidden=self.hidden, loss=teacher, protected=protected, start=begun, each=each
        )
        self.schema_ = schema
        self.classes_ = np.unique(labels)
        self.network_: AdditiveNetwork = encoding.additive(
            taught.layers, binary_labels(schema), 1, self._name(strength)
        )
        self.encoding_ = encoding
        self.history_: tuple[StepRecord, ...] = taught.history
        self.interrupted_ = taught.interrupted
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the label of each, in the data's own words, shape (n,)."""
        positive = self.decision_function(X) > 0
        return np.asarray(self.classes_[positive.astype(np.int64)])

    def predict_proba(self, X: Any) -> Floats:
        """Return the probability of each label, in the order of ``classes_``, shape (n, 2)."""
        scores = self._require_network().scores(self._people(X))
        return scores if self._labels_ascend() else scores[:, ::-1]

    def decision_function(self, X: Any) -> Floats:
        """Return the logit of the second label of ``classes_``, shape (n,)."""
        logits = self._require_network().logits(self._people(X))[:, 0]
        return logits if self._labels_ascend() else -logits

    def _require_network(self) -> AdditiveNetwork:
        check_is_fitted(self, "network_")
        return self.network_

    def _labels_ascend(self) -> bool:
        return bool(self.classes_[1] == self.schema_.target.favourable)

    def _check(self) -> None:
        """Refuse parameters that make no sense.

        Raises:
            OptionError: one is not a number, or outside its range.
        """
        if isinstance(self.hidden, str) or not isinstance(self.hidden, Sequence | np.ndarray):
            raise _expect("hidden", "the units of each hidden layer", self.hidden, "hidden=(64, 16)")
        for units in self.hidden:
            if not _is_whole(units, 1):
                raise _expect("hidden", "whole numbers of at least 1", self.hidden, "hidden=(64, 16)")
        for name, most in (("steps", None), ("batch_size", None), ("seed", 2**63)):
            value, least = getattr(self, name), 0 if name == "seed" else 1
            if not (value is None and name == "batch_size") and not _is_whole(value, least, most):
                expected = f"a whole number of at least {least}{', below 2^63' if most else ''}"
                raise _expect(name, expected, value, f"{name}={_DEFAULTS[name]}")
        if self.strength is not None and not (_is_number(self.strength) and self.strength >= 0):
            raise _expect(
                "strength", "a number of at least 0", self.strength, "strength=1.0, or None: the method's own"
            )
        if not (_is_number(self.learning_rate) and self.learning_rate > 0):
            raise _expect("learning_rate", "a number above 0", self.learning_rate, f"learning_rate={LEARNING_RATE}")
        if self.protected is not None and not isinstance(self.protected, str | Sequence | np.ndarray):
            raise _expect("protected", "a list of names or positions", self.protected, "protected=['sex'], or [0]")
        if self.start is not None and not isinstance(self.start, AdditiveNetwork):
            raise _expect("start", "a network over the schema", self.start, "start=fitted.network_, or leave it out")
        if self.start is not None and not self.sees_protected:
            raise OptionError("a network to start from sees what it sees", hint="leave out start, or sees_protected")

    def _name(self, strength: float) -> str:
        return self.method if strength == 0 else f"{self.method} (strength {strength:g})"

    def _validate_both(self, X: Any, y: Any) -> tuple[Any, NDArray[Any]]:
        """Return people and labels to fit on where no schema says what they are."""
        if hasattr(X, "columns"):
            validate_data(self, X, skip_check_array=True)
            labels = _check_labels(column_or_1d(y, warn=True))
            check_consistent_length(X, labels)
            assert_all_finite(labels, input_name="y")
            self._columns: list[str] | None = list(as_table(X).columns)
        else:
            X, labels = validate_data(self, X, y)
            self._columns = None
        check_classification_targets(labels)
        if len(np.unique(labels)) > 2:
            raise ValueError("Only binary classification is supported. The type of the target is multiclass.")
        if len(np.unique(labels)) < 2:
            raise ValueError("Classifier can't train when only one class is present.")
        return X, labels

    def _validate(self, X: Any) -> Any:
        """Return people to be decided about, as a table with the columns that were fitted on."""
        if self._columns is None:
            return validate_data(self, X, reset=False)
        validate_data(self, X, reset=False, skip_check_array=True)
        if hasattr(X, "columns"):
            return X
        import pandas as pd

        return pd.DataFrame(np.asarray(X), columns=self._columns).infer_objects()

    def _individuals(self, schema: Schema, given: Any) -> tuple[Floats, Integers | None]:
        """Return individuals, and the rows that they come from if they come from a frame."""
        if isinstance(given, np.ndarray) and self.schema is not None:
            individuals = np.asarray(given, dtype=np.float64)[..., : len(schema.attributes)]
            if individuals.ndim != 2 or individuals.shape[1] != len(schema.attributes):
                raise DataError(f"individuals have shape {given.shape}; expected (n, {len(schema.attributes)})")
            rows = None
            inside = schema.contains(individuals) | np.isnan(individuals).any(axis=1)
            if not inside.all():
                raise DataError(f"individual {int(np.argmin(inside)) + 1} lies outside the schema's domain")
        else:
            import narwhals as nw

            table = nw.from_native(as_table(given), eager_only=True)
            # A label that stands in the frame is none of the inputs, whatever it holds.
            people = encode(schema, table.drop(schema.target.name, strict=False).to_native())
            individuals, rows = people.individuals, people.rows
        if np.isnan(individuals).any():
            column = int(np.argmax(np.isnan(individuals).any(axis=0)))
            raise DataError(
                f"{schema.names[column]!r} is missing for somebody, and a network has no input for that",
                hint="say `missing: drop` for the attribute in the schema, or fill it in",
            )
        return individuals, rows

    def _people(self, given: Any) -> Floats:
        if self.schema is None:
            given = fit_into(self.schema_, self._validate(given))
        schema = self.schema_ if self.schema is not None else accept_fractions(self.schema_)
        individuals, rows = self._individuals(schema, given)
        if rows is not None and len(rows) < len(given):
            raise DataError(f"{len(given) - len(rows)} of {len(given)} people have a missing value", hint="fill it in")
        return individuals


_DEFAULTS = {"steps": STEPS, "batch_size": BATCH, "seed": 0}


def _expect(name: str, expected: str, given: object, hint: str) -> OptionError:
    return OptionError(f"expected {expected}, got {given!r}", location=f"`{name}=`", hint=hint)


def _is_whole(value: Any, least: int, most: int | None = None) -> bool:
    """Return whether a value is a whole number from ``least`` on, and below ``most``; True and False are none."""
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    return bool(whole and value >= least and (most is None or value < most))


def _is_number(value: Any) -> bool:
    real = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    return bool(real and np.isfinite(value))


def _check_labels(labels: NDArray[Any]) -> NDArray[Any]:
    """Return labels that are one per person, none of them missing."""
    import pandas as pd

    if labels.ndim != 1:
        raise DataError(f"the labels have shape {labels.shape}; one per person is expected: (n,)")
    missing = pd.isna(labels)
    if missing.any():
        raise DataError(
            f"Input y contains NaN: the label is missing for {missing.sum():,} of {len(labels):,} people",
            hint="leave them out: `known = y.notna()`, then fit on `X[known]` and `y[known]`",
        )
    return labels


def _list_labels(schema: Schema, labels: NDArray[Any]) -> tuple[Schema, Booleans]:
    """Return the schema, its target's two labels listed, and who has the favourable one."""
    present = [plain_value(value) for value in np.unique(labels)]
    favourable: Value = schema.target.favourable
    others = [value for value in schema.target.values or present if value != favourable]
    unknown = [value for value in present if value != favourable and value not in others]
    if unknown:
        raise DataError(f"the label {unknown[0]!r} is not one of the target's: {[*others, favourable]}")
    if len(others) != 1 or len(present) != 2:
        raise DataError(
            f"there are not two labels: {present if len(others) == 1 else [*others, favourable]}",
            hint=f"the network tells {favourable!r} from one other label: people with both are needed",
        )
    if schema.target.values is None:
        target = Target(name=schema.target.name, favourable=favourable, values=(others[0], favourable))
        schema = schema.model_copy(update={"target": target})
    return schema, np.asarray(labels == favourable)
