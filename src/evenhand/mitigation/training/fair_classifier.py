"""A network trained to be fair, as a scikit-learn classifier."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin

from evenhand.errors import DataError, OptionError
from evenhand.mitigation.training.encoding import FeatureEncoding, joint_groups, number_groups
from evenhand.mitigation.training.loop import StepRecord, TrainingPlan, train_network
from evenhand.mitigation.training.losses import load_loss
from evenhand.mitigation.training.network import start_from_network
from evenhand.models import AdditiveNetwork, binary_labels
from evenhand.schema import Schema, Target, Value, encode, infer_schema, plain_value
from evenhand.typing import Booleans, Floats, Integers

HIDDEN = (512, 256, 64)
"""Units of the hidden layers, as published."""

STEPS = 150
LEARNING_RATE = 0.01
BATCH = 1024
SMALL_BATCH = 128
"""Instead, where there are fewer people to learn from than a batch holds."""

LABEL = "label"


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

    Args:
        method: ``erm``, ``diffdp`` (``gap`` is the same here), ``hsic``, ``laftr``, ``prejudice-remover``,
            ``logit-pairing`` or ``certified``.
        strength: of the penalty; None: the method's default.
        schema: what the individuals are; None: guessed from the data, the greater label being favourable.
        protected: names of the protected attributes; None: those of the schema.
        hidden: units of each hidden layer.
        steps: batches learnt from.
        batch_size: people in each; None: 1,024, or 128 where there are fewer people than that.
        learning_rate: of the first third of the steps.
        sees_protected: whether the protected attributes are inputs; where not, their weights are exactly 0.
        start: a network over the schema to train on from its weights, in place of a fresh one with ``hidden`` layers.
        seed: of the first weights and of the order of people.

    Attributes:
        classes_: the two labels in ascending order, as scikit-learn has them.
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

    def fit(
        self,
        X: Any,
        y: ArrayLike,
        *,
        group: ArrayLike | None = None,
        deadline: float | None = None,
        each: Callable[[int], None] | None = None,
    ) -> FairClassifier:
        """Train on people and their labels.

        Args:
            X: a data frame in the data's own words; or an array: individuals (n, attributes) of the schema, or plain
                numbers where there is none.
            y: the label of each, in the data's own words, shape (n,).
            group: the group of each, for penalties that compare groups, shape (n,); None: the joint groups of the
                protected attributes.
            deadline: by ``time.perf_counter()``, when to stop with what there is.
            each: called after every step with its number, from 1.

        Raises:
            DataError: the people do not fit the schema, there are not two labels, a value is missing.
            OptionError: a parameter makes no sense, or the method compares groups and there are none.
            ModelError: training went astray: weights grew beyond all numbers.
            MissingExtraError: PyTorch is not installed.
        """
        self._check()
        teacher = load_loss(self.method)
        labels = np.asarray(y)
        if labels.ndim != 1:
            raise DataError(f"the labels have shape {labels.shape}; one per person is expected: (n,)")
        schema = self._resolve_schema(X, labels)
        individuals, rows = self._individuals(schema, X)
        if len(labels) != len(individuals) + (0 if rows is None else len(X) - len(rows)):
            raise DataError(f"there are {len(labels)} labels for {len(X)} people")
        schema, favourable = _list_labels(schema, labels)
        groups = None if group is None else np.asarray(group)
        if groups is not None and groups.shape != labels.shape:
            raise DataError(f"the groups have shape {groups.shape}; one per person is expected: {labels.shape}")
        if rows is not None:
            favourable = favourable[rows]
            groups = None if groups is None else groups[rows]
        protected = schema.protected if self.protected is None else tuple(self.protected)
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
        self.n_features_in_ = len(schema.attributes)
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
        from sklearn.utils.validation import check_is_fitted

        check_is_fitted(self, "network_")
        return self.network_

    def _labels_ascend(self) -> bool:
        return bool(self.classes_[1] == self.schema_.target.favourable)

    def _check(self) -> None:
        if self.strength is not None and not self.strength >= 0:
            raise OptionError(f"a strength is at least 0, not {self.strength:g}")
        if any(units < 1 for units in self.hidden):
            raise OptionError(f"a hidden layer needs a unit at least, not {tuple(self.hidden)}")
        for name in ("steps", "batch_size"):
            if getattr(self, name) is not None and getattr(self, name) < 1:
                raise OptionError(f"{name} must be at least 1, not {getattr(self, name)}")
        if self.start is not None and not self.sees_protected:
            raise OptionError("a network to start from sees what it sees", hint="leave out start, or sees_protected")
        if not self.learning_rate > 0:
            raise OptionError(f"the learning rate must be positive, not {self.learning_rate:g}")

    def _name(self, strength: float) -> str:
        return self.method if strength == 0 else f"{self.method} (strength {strength:g})"

    def _resolve_schema(self, given: Any, labels: NDArray[Any]) -> Schema:
        if self.schema is not None:
            return self.schema if isinstance(self.schema, Schema) else Schema.parse(self.schema)
        import narwhals as nw

        table = nw.from_native(_as_frame(given), eager_only=True)
        if LABEL in table.columns:
            raise DataError(f"a column is called {LABEL!r}, and there is no schema", hint="give a schema")
        values = [plain_value(value) for value in labels]
        if len(values) != len(table):
            raise DataError(f"there are {len(values)} labels for {len(table)} people")
        column = nw.new_series(LABEL, values, backend=table.implementation)
        return infer_schema(
            table.with_columns(column).to_native(),
            target=LABEL,
            protected=tuple(self.protected or ()),
            favourable=plain_value(np.unique(labels)[-1]),
        )

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

            table = nw.from_native(_as_frame(given), eager_only=True)
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
        individuals, rows = self._individuals(self.schema_, given)
        if rows is not None and len(rows) < len(given):
            raise DataError(f"{len(given) - len(rows)} of {len(given)} people have a missing value", hint="fill it in")
        return individuals


def _as_frame(given: Any) -> Any:
    """Return an array of plain numbers as a frame; a frame as it is."""
    if not isinstance(given, np.ndarray | list):
        return given
    import pandas as pd

    array = np.asarray(given)
    if array.ndim != 2:
        raise DataError(f"the people have shape {array.shape}; expected (n, attributes)")
    return pd.DataFrame(array, columns=[f"x{i}" for i in range(array.shape[1])])


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
