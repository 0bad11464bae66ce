"""What can learn: a kind of model that is trained again the way it was made."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from evenhand.core.typing import Integers
from evenhand.errors import DataError, OptionError
from evenhand.mitigation.split import TrainingSet
from evenhand.models.replies import same_label
from evenhand.models.scorer import Scorer
from evenhand.schema.attribute import Value
from evenhand.schema.people import decode


class Learner(Protocol):
    """A model that can be trained again. The same training set and seed give the same model, bit for bit.

    Attributes:
        name: what is trained and how, for a reader: ``a scikit-learn Pipeline, refitted``.
        endings: of the files that its models can be written to.
        takes_weights: whether it heeds the weights of a training set.
    """

    @property
    def name(self) -> str: ...
    @property
    def endings(self) -> tuple[str, ...]: ...
    @property
    def takes_weights(self) -> bool: ...

    def fit(self, training_set: TrainingSet, *, seed: int) -> Scorer:
        """Return a model of the same kind, trained on these people; the given one stays as it was."""
        ...

    def save(self, scorer: Scorer, path: Path) -> tuple[Path, ...]:
        """Write a model that this learner made; the files written, that one first."""
        ...


@runtime_checkable
class ResumableLearner(Learner, Protocol):
    """A learner that trains on from weights: from those of a model it made as well as from the given ones."""

    def resume_from(self, scorer: Scorer) -> Self:
        """Return the same, training on from a model that this learner made."""
        ...


# Which of a model's labels each person of a training set shall be given.


def target_labels(training_set: TrainingSet, scorer: Scorer) -> Integers:
    """Return the labels of everybody in a training set, as positions in the ``classes`` of a model, shape (n + m,).

    Raises:
        DataError: the model cannot give one of the labels.
    """
    target = training_set.people.schema.target
    positions = []
    for value in target.values or ():
        if same_label(value, target.favourable):
            positions.append(scorer.favourable)
        elif len(scorer.classes) == 2:
            positions.append(1 - scorer.favourable)
        else:
            positions.append(next((i for i, label in enumerate(scorer.classes) if same_label(label, value)), -1))
    labels = np.array(positions, dtype=np.int64)[training_set.all_labels]
    if (labels < 0).any():
        unknown = (target.values or ())[int(training_set.all_labels[int(np.argmax(labels < 0))])]
        raise DataError(f"{scorer.name} cannot give the label {unknown!r}: it knows {list(scorer.classes)}")
    return labels


# Where a model is written.


def file_ending(path: Path, endings: Sequence[str]) -> str:
    """Return the ending of a file, in small letters.

    Raises:
        OptionError: no model of this kind is written so, or there is no such folder.
    """
    ending = path.suffix.lower()
    if ending not in endings:
        raise OptionError(
            f"a model of this kind is not written to a file that ends in {ending!r}",
            location=str(path),
            hint=f"let it end in {' or '.join(endings)}",
        )
    if not path.parent.is_dir():
        raise OptionError("there is no such folder", location=str(path.parent))
    return ending


def training_frame(training_set: TrainingSet, columns: Sequence[str] | None = None) -> Any:
    """Return a training set as one data frame of the user's own type, the real people as they stand in the data.

    Args:
        training_set: the added instances are written in the schema's words, with the data's column types.
        columns: the columns wanted, in order; by default every attribute, then the passthrough columns.
    """
    import narwhals as nw

    people = training_set.people
    wanted = list(columns or people.schema.columns)
    real = nw.from_native(people.frame, eager_only=True)[people.rows.tolist()].select(wanted)
    if len(training_set.added) == 0:
        return real.to_native()
    added = nw.from_native(decode(people.schema, training_set.added, like=people.frame), eager_only=True).select(wanted)
    return nw.concat([real, added], how="vertical").to_native()


def label_values(training_set: TrainingSet) -> NDArray[Any]:
    """Return everybody's label as it stands in the data, shape (n + m,)."""
    return label_array(training_set.people.schema.target.values or ())[training_set.all_labels]


def label_array(values: Sequence[Value]) -> NDArray[Any]:
    """Return labels as an array: of numbers where all of them are, of text where all of them are, else of objects."""
    kinds = {type(value) for value in values}
    if len(kinds) == 1:
        return np.array(values)
    array = np.empty(len(values), dtype=object)
    array[:] = list(values)
    return array
