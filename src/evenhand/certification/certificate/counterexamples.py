"""Find counterexamples among points, confirm them with the model, and remove duplicates."""

from __future__ import annotations

import numpy as np

from evenhand.certification.certificate.result import Counterexample
from evenhand.certification.query.orbits import OrbitQuestion
from evenhand.certification.query.question import Question
from evenhand.core.typing import Booleans, Floats


class CounterexampleFinder:
    """Collector of distinct counterexamples.

    Args:
        question: Question.
        limit: Maximum number of counterexamples.
    """

    def __init__(self, question: Question | OrbitQuestion, limit: int) -> None:
        self._question = question
        self.limit = limit
        # All people examined so far: in a small domain, almost every sample contains the same few people.
        self._known: set[tuple[int, bytes]] = set()
        self.found: list[Counterexample] = []

    @property
    def full(self) -> bool:
        """Whether the limit is reached."""
        return len(self.found) >= self.limit

    def unfair(self, entries: Floats) -> Booleans:
        """Find the people who are treated unfairly, shape (n,), and keep some of them.

        Args:
            entries: Unprotected entries, shape (n, cells); with orbits, the last column is the number of the orbit.
        """
        if isinstance(self._question, Question):
            return self._unfair_in(self._question, 0, entries)
        unfair = np.zeros(len(entries), dtype=np.bool_)
        for number in np.unique(entries[:, -1]).astype(np.int64).tolist():
            rows = np.flatnonzero(entries[:, -1] == number)
            unfair[rows] = self._unfair_in(self._question.orbits[number].query, number, entries[rows, :-1])
        return unfair

    def _unfair_in(self, query: Question, orbit: int, entries: Floats) -> Booleans:
        if query.demanded is not None or query.least > 2:
            return self._unfair_among_all(query, orbit, entries)
        labels = query.labels(query.individuals(entries, 0))
        # First assignment under which each person gets a different label.
        other = np.full(len(entries), -1, dtype=np.int64)
        for assignment in range(1, len(query.assignments)):
            open_rows = np.flatnonzero(other < 0)
            if not len(open_rows):
                break
            differs = query.labels(query.individuals(entries[open_rows], assignment)) != labels[open_rows]
            other[open_rows[differs]] = assignment
        unfair = other >= 0
        for row in np.flatnonzero(unfair):
            if self.full:
                break
            self._keep(query, orbit, entries[row : row + 1], 0, int(other[row]))
        return np.asarray(unfair)

    def _unfair_among_all(self, query: Question, orbit: int, entries: Floats) -> Booleans:
        """Find the people who are treated unfairly from all their answers, and keep some of them."""
        each = [query.answers(query.individuals(entries, p)) for p in range(len(query.assignments))]
        answers: Floats = np.stack(each).astype(np.float64)
        unfair = query.differ(answers)
        for row in np.flatnonzero(unfair):
            if self.full:
                break
            first, second = int(np.argmin(answers[:, row])), int(np.argmax(answers[:, row]))
            self._keep(query, orbit, entries[row : row + 1], first, second)
        return unfair

    def _keep(self, query: Question, orbit: int, person: Floats, own: int, other: int) -> None:
        key = orbit, (person + 0.0).tobytes()  # minus zero is zero
        if key in self._known:
            return
        self._known.add(key)
        rows = np.concatenate([query.individuals(person, own), query.individuals(person, other)])
        if not query.confirms(rows):
            return
        texts = query.answer_texts(rows)
        varied = [query.schema[name] for name in query.protected]
        self.found.append(
            Counterexample(
                unprotected={
                    attribute.name: attribute.text(entry)
                    for attribute, entry in zip(query.schema.attributes, rows[0], strict=True)
                    if attribute.name not in query.protected
                },
                first={a.name: a.text(entry) for a, entry in zip(varied, query.assignments[own], strict=True)},
                second={a.name: a.text(entry) for a, entry in zip(varied, query.assignments[other], strict=True)},
                first_label=texts[0],
                second_label=texts[1],
            )
        )
