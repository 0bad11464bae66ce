"""Who is learnt from, who decides how much, and who is kept aside until the end; and instances added to them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from evenhand.core.text import summarize_error
from evenhand.core.typing import Floats, Integers
from evenhand.errors import DataError, ModelError, OptionError
from evenhand.models.scorer import Scorer
from evenhand.models.subject import Subject
from evenhand.schema.people import People
from evenhand.schema.schema import Schema

SHARES = (0.6, 0.2, 0.2)
"""Of the people to learn from, to choose on and to compare on."""

LEAST = 20
"""People that every part needs: with fewer nothing can be chosen or compared."""


@dataclass(frozen=True, eq=False)
class Split:
    """Three disjoint parts of the people.

    Attributes:
        train: learnt from.
        validation: amounts and strengths are selected on them.
        test: looked at once, when everything is chosen.
    """

    train: People
    validation: People
    test: People

    @property
    def size(self) -> int:
        """How many people there are in all parts."""
        return len(self.train) + len(self.validation) + len(self.test)


def split_people(
    people: People, *, seed: int, test: People | None = None, shares: tuple[float, float, float] = SHARES
) -> Split:
    """Part people at random, every part with the same share of each label among each protected group.

    Those of whom a protected value is unknown are in no part.

    Args:
        people: with labels.
        test: people kept aside by the caller; all of ``people`` is then for training and validation.
        shares: of train, validation and test; they add up to 1.

    Raises:
        DataError: there are no labels, or too few people.
        OptionError: shares that do not add up to 1.
    """
    people, test = _leave_out_unknown(people), None if test is None else _leave_out_unknown(test)
    if people.labels is None or (test is not None and test.labels is None):
        raise DataError(f"the data has no column {people.schema.target.name!r}: without true labels nothing is learnt")
    if min(shares) < 0 or not np.isclose(sum(shares), 1):
        raise OptionError(f"the shares of a split add up to 1, not {sum(shares):g}")
    rng = np.random.default_rng([seed, 9])
    first, second = shares[0], shares[0] + shares[1]
    if test is not None:
        first, second = first / second, 1.0
    parts: tuple[list[Integers], ...] = ([], [], [])
    strata = np.column_stack([people.labels, people.individuals[:, people.schema.positions(people.schema.protected)]])
    _, of = np.unique(strata, axis=0, return_inverse=True)
    for stratum in range(int(of.max()) + 1):
        rows = rng.permutation(np.flatnonzero(of == stratum))
        # A random offset, so that strata of one or two people do not all fall into the same part.
        place = (np.arange(len(rows)) + rng.random()) / len(rows)
        for part, chosen in zip(
            parts, (place < first, (place >= first) & (place < second), place >= second), strict=True
        ):
            part.append(rows[chosen])
    train, validation, rest = (people.at(np.sort(np.concatenate(part))) for part in parts)
    made = Split(train, validation, rest if test is None else test)
    smallest = min(len(made.train), len(made.validation), len(made.test))
    if smallest < LEAST:
        raise DataError(
            f"{len(people):,} people are too few to learn from some, choose on others and compare on the rest",
            hint=f"every part needs {LEAST} people at least; this one would get {smallest}",
        )
    return made


def put_in_one_table(subject: Subject, test: People) -> tuple[Subject, People]:
    """Return a subject and other people as rows of one table, where individuals carry rows (``Schema.carries_rows``).

    A model is given the passthrough columns of the row that an individual carries, and looks them up in one table.

    Raises:
        DataError: the tables' columns are not of the same types.
    """
    import narwhals as nw

    people = subject.people
    if not people.schema.carries_rows or test.frame is people.frame:
        return subject, test
    tables = [nw.from_native(one.frame, eager_only=True) for one in (people, test)]
    shared = [name for name in tables[0].columns if name in tables[1].columns]
    try:
        frame = nw.concat([table.select(shared) for table in tables], how="vertical").to_native()
    except Exception as error:  # every kind of table raises errors of its own
        raise DataError(
            f"the test people cannot be put below the others: {summarize_error(error)}",
            hint="give both as tables of one kind, with the same types of columns",
        ) from error
    behind = test.individuals.copy()
    behind[:, -1] += len(tables[0])
    test = replace(test, frame=frame, individuals=behind, rows=test.rows + len(tables[0]))
    return replace(subject, people=replace(people, frame=frame)), test


def _leave_out_unknown(people: People) -> People:
    return people.at(np.flatnonzero(people.is_known(people.schema.protected)))


@dataclass(frozen=True, eq=False)
class TrainingSet:
    """People to learn from.

    Attributes:
        people: real ones, with their true labels.
        added: instances added to them, shape (m, attributes), as ``People.individuals``.
        labels: the labels they shall be given, positions in the schema's target values, shape (m,).
        weights: how much each counts, shape (n + m,); None where all count alike. Only for a learner that
            ``takes_weights``.
    """

    people: People
    added: Floats
    labels: Integers
    weights: Floats | None = None

    @classmethod
    def plain(cls, people: People, weights: Floats | None = None) -> TrainingSet:
        """Return the real people alone, by their weights where there are any."""
        return cls(people, np.empty((0, people.individuals.shape[1])), np.empty(0, dtype=np.int64), weights)

    @property
    def individuals(self) -> Floats:
        """Everybody, the real ones first, shape (n + m, attributes)."""
        return np.concatenate([self.people.individuals, self.added])

    @property
    def all_labels(self) -> Integers:
        """Everybody's label, shape (n + m,)."""
        assert self.people.labels is not None, "a split has labels"
        return np.concatenate([self.people.labels, self.labels])


def class_positions(scorer: Scorer, schema: Schema) -> Integers:
    """Return where each of a model's classes stands among the target's values, shape (classes,).

    Raises:
        ModelError: a class is none of them.
    """
    values = schema.target.values or scorer.classes
    unknown = [label for label in scorer.classes if label not in values]
    if unknown:
        raise ModelError(
            f"the model answers {unknown[0]!r}, which is not among the labels {values}", location=scorer.name
        )
    return np.array([values.index(label) for label in scorer.classes], dtype=np.int64)
