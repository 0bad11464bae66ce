"""Training, validation and test sets, and training sets with added instances."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from evenhand.core.text import summarize_error
from evenhand.core.typing import Floats, Integers
from evenhand.errors import DataError, ModelError
from evenhand.models.scorer import Scorer
from evenhand.models.subject import Subject
from evenhand.schema.people import People
from evenhand.schema.schema import Schema

SHARES = (0.6, 0.2, 0.2)
"""Default shares of the training, validation and test sets."""

MIN_SIZE = 20
"""Minimum size of each set."""


@dataclass(frozen=True, eq=False)
class Split:
    """Disjoint sets of people.

    Attributes:
        train: Training set.
        validation: Validation set, on which amounts and strengths are chosen.
        test: Test set, used once for the comparison.
    """

    train: People
    validation: People
    test: People


def split_people(
    people: People, *, seed: int, test: People | None = None, shares: tuple[float, float, float] = SHARES
) -> Split:
    """Split people at random, stratified by label and protected group.

    People with an unknown protected value are excluded.

    Args:
        people: People with labels.
        seed: Random seed.
        test: Separate test set. All of ``people`` are then split into training and validation sets.
        shares: Shares of the three sets.

    Raises:
        DataError: There are no labels, or too few people.
    """
    people, test = _drop_unknown(people), None if test is None else _drop_unknown(test)
    for table, location in ((people, None), (test, "`test=`")):
        if table is None:
            continue
        if table.labels is None:
            raise DataError(
                f"the column {table.schema.target.name!r} is missing, and training needs true labels",
                location=location,
                hint="name the column of true labels: `target=`",
            )
        if len(np.unique(table.labels)) < 2:
            raise DataError(f"the target column {table.schema.target.name!r} has only one class", location=location)
    assert people.labels is not None, "checked above"
    rng = np.random.default_rng([seed, 9])
    train_end, validation_end = shares[0], shares[0] + shares[1]
    if test is not None:
        train_end, validation_end = train_end / validation_end, 1.0
    parts: tuple[list[Integers], ...] = ([], [], [])
    strata = np.column_stack([people.labels, people.individuals[:, people.schema.positions(people.schema.protected)]])
    _, codes = np.unique(strata, axis=0, return_inverse=True)
    for stratum in range(int(codes.max()) + 1):
        rows = rng.permutation(np.flatnonzero(codes == stratum))
        # The random offset distributes strata of one or two people over all sets.
        place = (np.arange(len(rows)) + rng.random()) / len(rows)
        for part, mask in zip(
            parts,
            (place < train_end, (place >= train_end) & (place < validation_end), place >= validation_end),
            strict=True,
        ):
            part.append(rows[mask])
    train, validation, remainder = (people.at(np.sort(np.concatenate(part))) for part in parts)
    split = Split(train, validation, remainder if test is None else test)
    smallest = min(len(split.train), len(split.validation), len(split.test))
    if smallest < MIN_SIZE:
        raise DataError(
            f"expected at least {MIN_SIZE} people in the training, validation and test sets, got {smallest}",
            hint=f"add people: there are {len(people):,}",
        )
    return split


def put_in_one_table(subject: Subject, test: People) -> tuple[Subject, People]:
    """Combine the tables of a subject and a test set, if individuals carry rows (``Schema.carries_rows``).

    A model receives the passthrough columns of an individual's row, which are looked up in a single table.

    Raises:
        DataError: The columns of the tables have different types.
    """
    import narwhals as nw

    people = subject.people
    if not people.schema.carries_rows or test.frame is people.frame:
        return subject, test
    tables = [nw.from_native(part.frame, eager_only=True) for part in (people, test)]
    shared = [name for name in tables[0].columns if name in tables[1].columns]
    try:
        frame = nw.concat([table.select(shared) for table in tables], how="vertical").to_native()
    except Exception as error:  # each data frame library has its own errors
        raise DataError(
            f"the test set cannot be appended to the data: {summarize_error(error)}",
            hint="pass tables of the same library, with equal column types",
        ) from error
    individuals = test.individuals.copy()
    individuals[:, -1] += len(tables[0])
    test = replace(test, frame=frame, individuals=individuals, rows=test.rows + len(tables[0]))
    return replace(subject, people=replace(people, frame=frame)), test


def _drop_unknown(people: People) -> People:
    return people.at(np.flatnonzero(people.is_known(people.schema.protected)))


@dataclass(frozen=True, eq=False)
class TrainingSet:
    """Training set with added instances.

    Attributes:
        people: Original people, with true labels.
        added: Added instances, shape (m, attributes).
        labels: Labels of the added instances, as positions in the values of the target, shape (m,).
        weights: Weights, shape (n + m,), or None for equal weights. Only for a learner that ``takes_weights``.
    """

    people: People
    added: Floats
    labels: Integers
    weights: Floats | None = None

    @classmethod
    def plain(cls, people: People, weights: Floats | None = None) -> TrainingSet:
        """Create a training set without added instances."""
        return cls(people, np.empty((0, people.individuals.shape[1])), np.empty(0, dtype=np.int64), weights)

    @property
    def individuals(self) -> Floats:
        """Original people and then added instances, shape (n + m, attributes)."""
        return np.concatenate([self.people.individuals, self.added])

    @property
    def all_labels(self) -> Integers:
        """Labels of ``individuals``, shape (n + m,)."""
        assert self.people.labels is not None, "a split has labels"
        return np.concatenate([self.people.labels, self.labels])


def class_positions(scorer: Scorer, schema: Schema) -> Integers:
    """Find the positions of a model's classes in the values of the target, shape (classes,).

    Raises:
        ModelError: A class is not a value of the target.
    """
    values = schema.target.values or scorer.classes
    unknown = [label for label in scorer.classes if label not in values]
    if unknown:
        raise ModelError(
            f"the model predicts {unknown[0]!r}, which is not among the labels {values}", location=scorer.name
        )
    return np.array([values.index(label) for label in scorer.classes], dtype=np.int64)
