"""Protocol of learners, which retrain models of one kind."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from evenhand.core.typing import Integers
from evenhand.errors import DataError, OptionError
from evenhand.mitigation.split import TrainingSet
from evenhand.models.replies import same_label
from evenhand.models.scorer import Scorer
from evenhand.schema.people import decode

OWN_FIT = "train it with your own function: `fit=module:function`"


class Learner(Protocol):
    """Model that can be retrained. Equal training sets and seeds give equal models, bit for bit.

    Attributes:
        name: Description of the model and its training: ``a scikit-learn Pipeline, refitted``.
        endings: Supported file extensions of the models.
        takes_weights: Whether it uses the weights of a training set.
    """

    @property
    def name(self) -> str: ...
    @property
    def endings(self) -> tuple[str, ...]: ...
    @property
    def takes_weights(self) -> bool: ...

    def fit(self, training_set: TrainingSet, *, seed: int) -> Scorer:
        """Train a model of the same kind on a training set. The original model does not change."""

    def save(self, scorer: Scorer, path: Path) -> tuple[Path, ...]:
        """Write a model of this learner, and return the files, the model first."""


def target_labels(training_set: TrainingSet, scorer: Scorer) -> Integers:
    """Convert the labels of a training set to indices into the ``classes`` of a model, shape (n + m,).

    Raises:
        DataError: The model does not know one of the labels.
    """
    target = training_set.people.schema.target
    values = target.values or ()
    positions = []
    for value in values:
        if same_label(value, target.favourable):
            positions.append(scorer.favourable)
        elif len(scorer.classes) == 2:
            positions.append(1 - scorer.favourable)
        else:
            positions.append(next((i for i, label in enumerate(scorer.classes) if same_label(label, value)), -1))
    labels = np.array(positions, dtype=np.int64)[training_set.all_labels]
    if (labels < 0).any():
        unknown = values[int(training_set.all_labels[int(np.argmax(labels < 0))])]
        raise DataError(f"{scorer.name} cannot predict the label {unknown!r}: it knows {list(scorer.classes)}")
    return labels


def file_ending(path: Path, endings: Sequence[str]) -> str:
    """Return the extension of a file in lower case.

    Raises:
        OptionError: A model of this kind cannot be written to such a file, or its folder does not exist.
    """
    ending = path.suffix.lower()
    if ending not in endings:
        raise OptionError(
            f"expected a file name that ends in {' or '.join(endings)}, got {ending!r}",
            location=str(path),
            hint=f"use a file name that ends in {' or '.join(endings)}",
        )
    if not path.parent.is_dir():
        raise OptionError("no such folder", location=str(path.parent), hint="create it, or name another folder")
    return ending


def training_frame(training_set: TrainingSet, columns: Sequence[str] | None = None) -> Any:
    """Build a data frame of a training set, of the type of the user's data. Original rows are copied unchanged.

    Args:
        training_set: Training set. Added instances are written with the values of the schema.
        columns: Columns, in order. Default: all attributes and then the passthrough columns.
    """
    import narwhals as nw

    people = training_set.people
    names = list(columns or people.schema.columns)
    rows = nw.from_native(people.frame, eager_only=True)[people.rows.tolist()].select(names)
    if len(training_set.added) == 0:
        return rows.to_native()
    added = nw.from_native(decode(people.schema, training_set.added, like=people.frame), eager_only=True).select(names)
    return nw.concat([rows, added], how="vertical").to_native()


def label_values(training_set: TrainingSet) -> NDArray[Any]:
    """Return the labels of a training set with the values of the data, shape (n + m,)."""
    values = training_set.people.schema.target.values or ()
    # Labels of different types are not converted.
    return np.array(values, dtype=None if len(set(map(type, values))) == 1 else object)[training_set.all_labels]
