"""Which of a model's labels each person of a lesson shall be given."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from evenhand.errors import DataError
from evenhand.mitigate.lesson import Lesson
from evenhand.models import Scorer
from evenhand.models.labels import same_label


def wanted(lesson: Lesson, scorer: Scorer) -> NDArray[np.int64]:
    """The labels of everybody in a lesson, as positions in the ``classes`` of a model, shape (n + m,).

    Raises:
        DataError: the model cannot give one of the labels.
    """
    target = lesson.people.schema.target
    positions = []
    for value in target.values or ():
        if same_label(value, target.favourable):
            positions.append(scorer.favourable)
        elif len(scorer.classes) == 2:
            positions.append(1 - scorer.favourable)
        else:
            positions.append(next((i for i, label in enumerate(scorer.classes) if same_label(label, value)), -1))
    labels = np.array(positions, dtype=np.int64)[lesson.all_labels]
    if (labels < 0).any():
        unknown = (target.values or ())[int(lesson.all_labels[int(np.argmax(labels < 0))])]
        raise DataError(f"{scorer.name} cannot give the label {unknown!r}: it knows {list(scorer.classes)}")
    return labels
