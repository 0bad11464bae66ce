"""Ask a model about people under every protected assignment, and find those it decides differently.

Where a white box is known to decide exactly like the model, it answers in the model's place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.errors import BudgetError
from evenhand.models.ledger import ask_model
from evenhand.models.scorer import Scorer, WrappedScorer, predict_labels
from evenhand.schema.counterparts import counterparts_of
from evenhand.schema.people import People
from evenhand.schema.schema import Schema


def build_variants(individuals: Floats, columns: list[int], assignments: Floats) -> Floats:
    """Return every individual under every assignment, shape (n * assignments, attributes), individual by individual."""
    repeated = np.repeat(individuals, len(assignments), axis=0)
    repeated[:, columns] = np.tile(assignments, (len(individuals), 1))
    return repeated


def find_flips(labels: Integers, compared: Booleans | None = None) -> Booleans:
    """Find the individuals (rows of labels by assignment) that some assignment decides differently, shape (n,).

    Args:
        labels: shape (n, assignments).
        compared: which of them are compared, same shape; by default all.
    """
    if compared is None:
        return np.asarray((labels != labels[:, :1]).any(axis=1))
    first = np.take_along_axis(labels, np.argmax(compared, axis=1)[:, None], axis=1)
    return np.asarray(((labels != first) & compared).any(axis=1))


@dataclass(frozen=True)
class Variants:
    """People under every protected assignment: as published, and as plausible counterparts.

    Attributes:
        published: nothing but the protected attributes changes, shape (n, assignments, attributes).
        counterparts: attributes that the schema links to them move along, same shape. Without rules: the published.
        plausible: which counterparts obey every rule of the schema, shape (n, assignments).
    """

    published: Floats
    counterparts: Floats
    plausible: Booleans

    @classmethod
    def of(cls, schema: Schema, protected: Sequence[str], individuals: Floats) -> Variants:
        """Return the variants of individuals (n, attributes)."""
        assignments = schema.assignments(protected)
        published = build_variants(individuals, schema.positions(protected), assignments)
        published = published.reshape(len(individuals), len(assignments), -1)
        if not schema.constrains_people:
            return cls(published, published, np.ones(published.shape[:2], dtype=np.bool_))
        return cls(published, *counterparts_of(schema, protected).of(individuals))

    def __getitem__(self, rows: Integers) -> Variants:
        return Variants(self.published[rows], self.counterparts[rows], self.plausible[rows])

    @classmethod
    def concatenate(cls, parts: Sequence[Variants]) -> Variants:
        """Return the variants of all parts, in order."""
        names = ("published", "counterparts", "plausible")
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))

    @property
    def representatives(self) -> Floats:
        """One plausible counterpart that stands for all of them, the same for each, shape (n, attributes)."""
        first = np.argmax(self.plausible, axis=1)[:, None, None]
        return np.take_along_axis(self.counterparts, first, axis=1)[:, 0]

    def labels(self, decide: Callable[[Floats], Integers]) -> tuple[Integers, Integers]:
        """Return the labels of the published variants and of the counterparts, each of shape (n, assignments).

        What both share is asked about once; an implausible counterpart is not asked about and gets the label of the
        published variant, which no one may compare.
        """
        shape = self.plausible.shape
        published = decide(self.published.reshape(-1, self.published.shape[2])).reshape(shape)
        same = (self.counterparts == self.published) | np.isnan(self.published)  # no one moves to a missing value
        moved = self.plausible & ~same.all(axis=2)
        counterparts = published.copy()
        if moved.any():
            counterparts[moved] = decide(self.counterparts[moved])
        return published, counterparts


@dataclass(frozen=True)
class DistinctProfiles:
    """People merged who differ in the protected columns only: they have the same variants.

    Attributes:
        individuals: one per distinct rest, in order of first appearance, shape (distinct, attributes).
        first: the person each appeared with first, increasing, shape (distinct,).
        of: which of them each person is, shape (n,).
    """

    individuals: Floats
    first: Integers
    of: Integers


def merge_by_unprotected(individuals: Floats, columns: list[int]) -> DistinctProfiles:
    """Merge people (n, attributes) who agree on everything but the given columns."""
    rest = [i for i in range(individuals.shape[1]) if i not in columns]
    if not rest:
        return DistinctProfiles(
            individuals[:1], np.zeros(1, dtype=np.int64), np.zeros(len(individuals), dtype=np.int64)
        )
    _, first, of = np.unique(_row_keys(individuals[:, rest]), return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return DistinctProfiles(individuals[first[order]], first[order], rank[of])


def find_real(people: People, protected: Sequence[str], variants: Floats, compared: Booleans) -> Booleans:
    """Find profiles that tell about a person in the data, shape (n,): others are invented.

    These are profiles of which some variant is a record of the data, but for protected attributes, and profiles with a
    value that a single person in the data has, by which that person can be recognized.

    Args:
        people: The people in the data.
        protected: Attributes that vary, besides those that the schema protects.
        variants: Variants of each profile, shape (n, m, attributes).
        compared: Variants that are compared, shape (n, m).
    """
    ignored = {*people.schema.protected, *protected}
    columns = [i for i, name in enumerate(people.schema.names) if name not in ignored]
    if not columns:
        return np.ones(len(variants), dtype=np.bool_)
    rows = variants[:, :, columns].reshape(-1, len(columns))
    known = np.isin(_row_keys(rows), _row_keys(people.individuals[:, columns]))
    for i, column in enumerate(columns):
        values, counts = np.unique(people.individuals[:, column], return_counts=True)
        known |= np.isin(rows[:, i], values[counts == 1])
    return np.asarray((known.reshape(compared.shape) & compared).any(axis=1))


def _row_keys(rows: Floats) -> NDArray[np.void]:
    """Return each row (n, k) as one value, shape (n,)."""
    keys = np.ascontiguousarray(rows)
    return keys.view(np.dtype((np.void, keys.dtype.itemsize * keys.shape[1]))).ravel()


def keep_apart(individuals: Floats) -> DistinctProfiles:
    """Return people (n, attributes) each on their own, alike or not."""
    each = np.arange(len(individuals))
    return DistinctProfiles(individuals, each, each)


COMPARED = 10_000
"""Individuals that both are asked about before the white box answers alone, at most."""

CLOSE = 1e-3
"""Distance between the two highest scores below which the model itself is asked.

Rounding of a model that adds up in another order, or in single precision, stays far below it.
"""


ALIKE = 1e-6
"""Scores of model and white box that lie further apart than this are not the same scores."""

ROUNDING = 1e-12
"""Distance between scores of model and white box that is allowed for, where they were never seen to differ."""

SAFETY = 1000
"""A decision is too close for the white box within so many times the distance seen between its scores and the model's.
"""


@dataclass(frozen=True)
class Decisions:
    """The model's decisions, most of them computed by its white box.

    Attributes:
        model: what is looked at.
        white_box: answers for the model unless its decision is close or a value is missing; None: the model is asked.
        compared: decisions that both were asked for, all alike; 0 without a white box.
    """

    model: Scorer
    white_box: Scorer | None = None
    compared: int = 0

    def labels(self, individuals: Floats) -> Integers:
        """Return the label of each individual, as a position in the model's classes, shape (n,)."""
        if self.white_box is None:
            return predict_labels(self.model, individuals)
        labels, clear, _ = _clear(self.white_box, individuals, CLOSE)
        labels[~clear] = predict_labels(self.model, individuals[~clear])
        return labels


def compare(model: Scorer, white_box: Scorer | None, individuals: Floats) -> Decisions:
    """Let the white box answer for the model if it decides these individuals (n, attributes) exactly like the model.

    A model that is its own white box is asked itself, and so is one whose budget does not pay for the comparison.
    """
    if white_box is None or white_box is model:
        return Decisions(model)
    labels, clear, _ = _clear(white_box, individuals, CLOSE)
    try:
        alike = np.array_equal(labels[clear], predict_labels(model, individuals[clear]))
    except BudgetError:
        return Decisions(model)
    return Decisions(model, white_box, compared=int(clear.sum())) if alike else Decisions(model)


class WhiteBoxScorer(WrappedScorer):
    """The white box of a model: it answers for the model, but where its rounding could decide.

    Attributes:
        scorer: the model itself.
        model: its white box, which gives the model's own scores, but for rounding.
        close: distance between the two highest scores below which the model is asked.
    """

    def __init__(self, scorer: Scorer, white_box: Scorer, close: float) -> None:
        self.scorer, self.model, self.close = scorer, white_box, close

    def scores(self, individuals: Floats) -> Floats:
        """Return scores, shape (n, classes)."""
        _, clear, scores = _clear(self.model, individuals, self.close)
        if not clear.all():
            scores[~clear] = self.scorer.scores(individuals[~clear])
        return scores

    def predict(self, individuals: Floats) -> Integers:
        """Return labels, shape (n,)."""
        labels, clear, _ = _clear(self.model, individuals, self.close)
        if not clear.all():
            labels[~clear] = self.scorer.predict(individuals[~clear])
        return labels


def stand_in(model: Scorer, white_box: Scorer | None, individuals: Floats) -> Scorer:
    """Return the model with its white box in front, if both answer alike about these individuals (n, attributes).

    Without a white box, and where scores or labels differ or the model gives labels only, it is the model itself.
    """
    if white_box is None or white_box is model or model.label_only:
        return model
    reply = ask_model(model, individuals)
    apart = float(np.abs(white_box.scores(individuals) - reply.scores).max(initial=0.0))
    if not apart <= ALIKE:
        return model
    front = WhiteBoxScorer(model, white_box, SAFETY * max(apart, ROUNDING))
    labels, clear, _ = _clear(white_box, individuals, front.close)
    return front if np.array_equal(labels[clear], reply.labels[clear]) else model


def _clear(white_box: Scorer, individuals: Floats, close: float) -> tuple[Integers, Booleans, Floats]:
    """Ask the white box: its labels (n,), for whom they are clear, and its scores (n, classes).

    Clear means that no value is missing and no other score comes close to the highest.
    """
    clear = np.asarray(~np.isnan(individuals).any(axis=1))
    known = white_box.scores(individuals[clear])
    scores = np.full((len(individuals), known.shape[1]), np.nan)
    scores[clear] = known
    labels = np.zeros(len(individuals), dtype=np.int64)
    labels[clear] = np.argmax(known, axis=1)
    highest = np.partition(known, -2, axis=1)
    clear[clear] = highest[:, -1] - highest[:, -2] >= close
    return labels, clear, scores
