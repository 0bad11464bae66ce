"""The model as a search asks it: whole batches, every profile under every assignment, within a budget, never twice."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from evenhand.individual.flips import disagree
from evenhand.individual.search.findings import UNASKED, Findings
from evenhand.individual.search.gradients import Gradients, gradients_of
from evenhand.individual.search.network import Inside, labels_of, probabilities
from evenhand.individual.search.space import Space
from evenhand.models import AdditiveNetwork, Scorer

Floats: TypeAlias = NDArray[np.float64]

ROWS = 65_536
"""Individuals per call to a model."""

IN_CACHE = 4096
"""Individuals at a time in an additive network: its units then stay in a processor's cache, four times as fast."""

KEPT = 64_000_000
"""Scores that the cache holds at most (half a gigabyte); what comes later is asked again if needed."""


class Spent(Exception):  # noqa: N818 - the regular end of a search, not an error
    """The budget or the time is used up. What was answered before is in the findings."""


@dataclass(frozen=True)
class Answers:
    """What the model said about profiles.

    Attributes:
        scores: shape (n, A, classes); one-hot where the model gives labels only.
        labels: shape (n, A), positions in the model's classes.
        flips: shape (n,), whether two assignments get different labels.
    """

    scores: Floats
    labels: NDArray[np.int64]
    flips: NDArray[np.bool_]


class Oracle:
    """Asks a model on behalf of a search method. Whatever it answers about whole profiles goes into the findings.

    Attributes:
        space: what the profiles are.
        findings: where discriminating profiles are collected.
        budget: individuals (rows) that the model may be asked about; None: no limit. A profile costs A, one for each
            assignment, a gradient costs one, and what was asked before costs nothing.
        queries: what was spent.
        hits: profiles answered from the cache.
    """

    def __init__(
        self,
        scorer: Scorer,
        space: Space,
        findings: Findings,
        *,
        budget: int | None = None,
        deadline: float | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> None:
        """Prepare to ask.

        Args:
            deadline: when to stop, by ``time.perf_counter``.
            progress: called with the queries so far, after every call to the model.
        """
        self.scorer = scorer
        self.space = space
        self.findings = findings
        self.budget = budget
        self.queries = 0
        self.hits = 0
        # An endpoint takes few individuals per request: time and answers are looked after between requests.
        self._rows = min(ROWS, int(getattr(scorer, "batch", ROWS)))
        self._deadline = deadline
        self._progress = progress
        self._inside = Inside(scorer, space) if isinstance(scorer, AdditiveNetwork) else None
        if self._inside is not None:
            self._rows = IN_CACHE
        self._gradients: Gradients | None = None
        self._slots: dict[int, int] = {}
        classes, assignments = len(scorer.classes), len(space.assignments)
        self._scores = np.empty((1024, assignments, classes))
        self._labels = np.empty((1024, assignments), dtype=np.int64)
        self._most = max(1024, KEPT // (classes * assignments))

    @property
    def left(self) -> float:
        """How many more individuals the model may be asked about; infinite without a budget."""
        return np.inf if self.budget is None else self.budget - self.queries

    @property
    def affordable(self) -> float:
        """How many new profiles the rest of the budget pays for; infinite without a budget."""
        return np.inf if self.budget is None else self.left // len(self.space.assignments)

    @property
    def fractions(self) -> NDArray[np.bool_]:
        """Of which unprotected attributes the model can be asked about values between whole ones, shape (U,)."""
        real = np.array([attribute.kind == "real" for attribute in self.space.attributes])
        return real if self._inside is None else real | self._inside.lines

    def ask(self, unprotected: Floats) -> Answers:
        """What the model says about profiles (n, U) under every assignment.

        Raises:
            Spent: the budget or the time does not suffice for all of them. What it does suffice for was asked, in
                order, and is in the findings.
        """
        self._check_time()
        slots, known = self._slots, len(self._slots)
        keys = self.space.keys(unprotected).tolist()
        if known + len(keys) > self._most:
            return self._answered(unprotected, *self._pay_and_ask(unprotected))
        at = np.array([slots.setdefault(key, len(slots)) for key in keys], dtype=np.int64)
        new = len(slots) - known
        self.hits += len(keys) - new
        if new:
            where = np.empty(new, dtype=np.int64)
            fresh = np.flatnonzero(at >= known)[::-1]
            where[at[fresh] - known] = fresh  # the first of each, since later writes win
            try:
                scores, labels = self._pay_and_ask(unprotected[where])
            except BaseException:
                for key in [keys[i] for i in where.tolist()]:
                    del slots[key]  # not answered after all
                raise
            self._keep(known, scores, labels)
        return self._answered(unprotected, self._scores[at], self._labels[at])

    def compare(self, unprotected: Floats, which: NDArray[np.int64]) -> Answers:
        """What the model says about profiles (n, U), each under some assignments only (n, k). Costs n k.

        Those that these decide differently are findings; what the others say is asked when they are verified.

        Raises:
            Spent: as ``ask``.
        """
        self._check_time()
        k = which.shape[1]
        paid = int(min(len(unprotected), self.left // k))
        scores = np.empty((paid, k, len(self.scorer.classes)))
        labels = np.empty((paid, k), dtype=np.int64)
        each = max(1, self._rows // k)
        for i in range(0, paid, each):
            part = unprotected[i : min(i + each, paid)]
            scores[i : i + each], labels[i : i + each] = self._model_at(part, which[i : i + len(part)])
            self._pay(labels[i : i + each].size)
        every = np.full((paid, self._scores.shape[1]), UNASKED)
        np.put_along_axis(every, which[:paid], labels, axis=1)
        flips = disagree(labels)
        some = np.full((int(flips.sum()), *self._scores.shape[1:]), np.nan)
        self.findings.add(unprotected[:paid][flips], every[flips], some)
        if paid < len(unprotected):
            raise Spent
        return Answers(scores, labels, flips)

    def scores_at(self, unprotected: Floats, which: NDArray[np.int64]) -> Floats:
        """Scores of profiles (n, U), each under one assignment (n,), for slopes: shape (n, classes). Costs n.

        The entries may lie between the values of those attributes that ``fractions`` marks.

        Raises:
            Spent: the budget or the time does not suffice.
        """
        self._check_time()
        self._pay(len(unprotected))
        found = [np.empty((0, len(self.scorer.classes)))]
        for i in range(0, len(unprotected), self._rows):
            part, under = unprotected[i : i + self._rows], which[i : i + self._rows]
            if self._inside is not None:
                found.append(probabilities(self._inside.logits_at(part, under)))
            else:
                found.append(np.asarray(self.scorer.scores(self.space.rows_as(part, under))))
        return np.concatenate(found)

    def gradient(self, unprotected: Floats, which: NDArray[np.int64], *, loss: bool = False) -> Floats:
        """How the predicted label's probability changes along every unprotected attribute, shape (n, U). Costs n.

        Args:
            unprotected: profiles, shape (n, U).
            which: the assignment of each, shape (n,).
            loss: give the slope of its cross-entropy instead.

        Raises:
            OptionError: the model has no gradients.
            Spent: the budget or the time does not suffice.
        """
        if self._gradients is None:
            model = getattr(self.scorer, "scorer", self.scorer)  # behind a file of answers
            self._gradients = gradients_of(model, self.space, self._inside)
        self._check_time()
        self._pay(len(unprotected))
        return self._gradients.gradient(unprotected, which, loss=loss)

    def _answered(self, unprotected: Floats, scores: Floats, labels: NDArray[np.int64]) -> Answers:
        return Answers(scores, labels, self.findings.add(unprotected, labels, scores))

    def _pay_and_ask(self, unprotected: Floats) -> tuple[Floats, NDArray[np.int64]]:
        n = len(unprotected)
        paid = int(min(n, self.affordable))
        scores = np.empty((paid, *self._scores.shape[1:]))
        labels = np.empty((paid, self._labels.shape[1]), dtype=np.int64)
        each = max(1, self._rows // labels.shape[1])
        for i in range(0, paid, each):
            part = unprotected[i : min(i + each, paid)]
            scores[i : i + each], labels[i : i + each] = self._model(part)
            self._pay(len(part) * labels.shape[1])
            if paid > each and i + each < paid and self._late():
                self.findings.add(unprotected[: i + each], labels[: i + each], scores[: i + each])
                raise Spent
        if paid < n:
            self.findings.add(unprotected[:paid], labels, scores)
            raise Spent
        return scores, labels

    def _model(self, unprotected: Floats) -> tuple[Floats, NDArray[np.int64]]:
        if self._inside is not None:
            logits = self._inside.logits(unprotected)
            return probabilities(logits), labels_of(logits)
        rows = self.space.rows(unprotected)
        shape = (len(unprotected), len(self.space.assignments))
        scores = np.asarray(self.scorer.scores(rows))
        labels = np.argmax(scores, axis=1) if self.scorer.label_only else self.scorer.predict(rows)
        return scores.reshape(*shape, -1), np.asarray(labels, dtype=np.int64).reshape(shape)

    def _model_at(self, unprotected: Floats, which: NDArray[np.int64]) -> tuple[Floats, NDArray[np.int64]]:
        repeated = np.repeat(unprotected, which.shape[1], axis=0)
        if self._inside is not None:
            logits = self._inside.logits_at(repeated, which.ravel())
            scores, labels = probabilities(logits), labels_of(logits)
        else:
            rows = self.space.rows_as(repeated, which.ravel())
            scores = np.asarray(self.scorer.scores(rows))
            labels = np.argmax(scores, axis=1) if self.scorer.label_only else self.scorer.predict(rows)
        return scores.reshape(*which.shape, -1), np.asarray(labels, dtype=np.int64).reshape(which.shape)

    def _keep(self, start: int, scores: Floats, labels: NDArray[np.int64]) -> None:
        needed = start + len(scores)
        if needed > len(self._scores):
            size = max(needed, 2 * len(self._scores))
            grown, grown_labels = np.empty((size, *scores.shape[1:])), np.empty((size, labels.shape[1]), dtype=np.int64)
            grown[:start], grown_labels[:start] = self._scores[:start], self._labels[:start]
            self._scores, self._labels = grown, grown_labels
        self._scores[start:needed], self._labels[start:needed] = scores, labels

    def _pay(self, rows: int) -> None:
        if rows > self.left:
            raise Spent
        self.queries += rows
        if self._progress is not None:
            self._progress(self.queries)

    def _late(self) -> bool:
        return self._deadline is not None and time.perf_counter() > self._deadline

    def _check_time(self) -> None:
        if self._late():
            raise Spent
