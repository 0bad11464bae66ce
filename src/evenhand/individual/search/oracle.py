"""Oracle of a search, which queries each profile once under every assignment, in batches and within a budget."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from evenhand.core.time_limit import NEVER, TimeLimit
from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.errors import BudgetError
from evenhand.individual.search.findings import FindingCollector
from evenhand.individual.search.gradients import ProfileNetwork, find_gradients
from evenhand.individual.search.space import ProfileSpace
from evenhand.models.additive.network import AdditiveNetwork
from evenhand.models.replies import QuestionLedger, Reply, ask_model, find_ledger
from evenhand.models.scorer import Scorer

MAX_ROWS = 65_536
"""Maximum number of individuals per call to a model."""

NETWORK_ROWS = 4096
"""Individuals per call to an additive network. Its units then fit in the processor's cache, which makes it four
times as fast."""

WAVE_SHARE = 0.1
"""Maximum fraction of the budget for the global phase of one wave of more than one seed."""

MAX_CACHED_SCORES = 64_000_000
"""Maximum number of scores in the cache (half a gigabyte). Other profiles are queried again if needed."""


class BudgetExhausted(Exception):  # noqa: N818 - the regular end of a search, not an error
    """Raised when the budget or the time limit is reached. Earlier answers are in the findings."""


@dataclass(frozen=True)
class ModelAnswers:
    """Answers about profiles.

    Attributes:
        scores: Scores, shape (n, A, classes). One-hot if the model returns labels only.
        labels: Labels as positions in the model's classes, shape (n, A).
        flips: Whether two assignments get different labels, shape (n,).
    """

    scores: Floats
    labels: Integers
    flips: Booleans


class Oracle:
    """Queries a model for a search method and adds all answers for complete profiles to the findings.

    Attributes:
        scorer: The model.
        space: Space of the profiles.
        findings: Collector of the profiles whose label changes.
        ledger: Counts the queried individuals (rows) against the budget. A profile costs A queries, one per assignment;
            a gradient costs one; cached answers are free.
        budget: Number of individuals that a method may query. If None, only its plan and the ledger limit it.
    """

    def __init__(
        self,
        scorer: Scorer,
        space: ProfileSpace,
        *,
        ledger: QuestionLedger | None = None,
        budget: int | None = None,
        limit: TimeLimit = NEVER,
        progress: Callable[[int], None] = lambda queries: None,
    ) -> None:
        """Create an oracle. Its default ledger is that of the model, or a new one without a budget.

        ``progress`` is called with the number of queried rows after every call to the model.
        """
        self.scorer, self.space, self.budget = scorer, space, budget
        self.findings = FindingCollector(space, scorer)
        self.ledger = ledger or find_ledger(scorer) or QuestionLedger()
        self._limit, self._progress = limit, progress
        self._network = ProfileNetwork(scorer, space) if isinstance(scorer, AdditiveNetwork) else None
        # An endpoint accepts few individuals per request: limits are checked between requests.
        rows = min(MAX_ROWS, int(getattr(scorer, "batch", MAX_ROWS)))
        self._rows = rows if self._network is None else NETWORK_ROWS
        self._gradients = self._network
        self._slots: dict[int, int] = {}
        shape = 1024, len(space.assignments)
        self._scores, self._labels = np.empty((*shape, len(scorer.classes))), np.empty(shape, dtype=np.int64)
        self._max_slots = max(1024, MAX_CACHED_SCORES // self._scores[0].size)

    @property
    def queries(self) -> int:
        """Number of individuals in all queries."""
        return self.ledger.sent

    @property
    def queries_left(self) -> float:
        """Remaining number of individuals. Infinite without a budget."""
        return max(0.0, self.ledger.left)  # other analyses may have exceeded it

    def ask(self, unprotected: Floats, which: Integers | None = None) -> ModelAnswers:
        """Query profiles (n, U) under every assignment, or only under some (n, k).

        Answers under some assignments only are not cached, and the profiles whose labels differ between these are
        findings. Their other assignments are queried at the end, within the budget.

        Raises:
            BudgetExhausted: The budget or the time limit does not cover all of them. The profiles that the budget
                covers are still queried and added to the findings.
        """
        self._require()
        slots, keys = self._slots, [] if which is not None else self.space.keys(unprotected).tolist()
        if which is not None or len(slots) + len(keys) > self._max_slots:
            scores, labels = self._charge_and_query(unprotected, which)
        else:
            first: dict[int, int] = {}
            for i, key in enumerate(keys):
                if key not in slots:
                    first.setdefault(key, i)
            if first:
                self._store(*self._charge_and_query(unprotected[list(first.values())]))
                slots.update(zip(first, range(len(slots), len(slots) + len(first)), strict=True))
            at = [slots[key] for key in keys]
            scores, labels = self._scores[at], self._labels[at]
        return ModelAnswers(scores, labels, self.findings.add(unprotected, labels, scores, which))

    def scores_at(self, unprotected: Floats, which: Integers) -> Floats:
        """Query the scores of profiles (n, U), each under one assignment (n,), to estimate slopes.

        The scores have shape (n, classes) and cost n queries.

        Raises:
            BudgetExhausted: The budget or the time limit does not suffice.
        """
        self._require(len(unprotected))
        scores = np.empty((len(unprotected), len(self.scorer.classes)))
        for i in range(0, len(unprotected), self._rows):
            part = slice(i, i + self._rows)
            scores[part] = self._query(unprotected[part], which[part, None]).scores
        self._progress(self.queries)
        return scores

    def gradient(self, unprotected: Floats, which: Integers, *, loss: bool = False) -> Floats:
        """Compute the gradient of the predicted label's probability (or of its cross-entropy) at profiles (n, U), each
        under one assignment (n,), with respect to the unprotected attributes, shape (n, U).

        Costs n.

        Raises:
            OptionError: The model has no gradients.
            BudgetExhausted: The budget or the time limit does not suffice.
        """
        self._gradients = self._gradients or find_gradients(self.scorer, self.space)
        self._require(len(unprotected))
        self.ledger.charge(len(unprotected))
        self._progress(self.queries)
        return self._gradients.gradient(unprotected, which, loss=loss)

    def waves(self, n: int, cost: int) -> Iterator[slice]:
        """Yield n seeds in waves. Without a budget, all seeds form one wave.

        The published programs complete the global phase of all seeds first. With a budget, this could exhaust it
        before the local phase. ``cost`` is the maximum number of queries of the global phase per seed.
        """
        size = n if self.budget is None else max(1, int(WAVE_SHARE * self.budget / cost))
        for first in range(0, n, max(1, size)):
            yield slice(first, min(first + size, n))

    def _charge_and_query(self, unprotected: Floats, which: Integers | None = None) -> tuple[Floats, Integers]:
        """Query profiles (n, U) under all assignments, or under specific ones (n, k).

        Raises:
            BudgetExhausted: A limit was reached. The answers until then are in the findings.
        """
        n, k = len(unprotected), len(self.space.assignments) if which is None else which.shape[1]
        paid = int(min(n, self.queries_left / k))
        scores = np.empty((paid, k, len(self.scorer.classes)))
        labels = np.empty((paid, k), dtype=np.int64)
        step = max(1, self._rows // k)
        answered = 0
        while answered < paid:
            part = slice(answered, min(answered + step, paid))
            try:
                assigned = self.space.substitutes(unprotected[part])
                if which is not None:
                    assigned = np.take_along_axis(assigned, which[part], axis=1)
                reply = self._query(unprotected[part], assigned)
                scores[part] = reply.scores.reshape(*assigned.shape, -1)
                labels[part] = reply.labels.reshape(assigned.shape)
            except BudgetError:  # retries after a failure cost more than expected
                break
            self._progress(self.queries)
            answered = part.stop
            if answered < paid and self._limit.passed():
                break
        if answered < n:
            done = slice(0, answered)
            self.findings.add(unprotected[done], labels[done], scores[done], None if which is None else which[done])
            raise BudgetExhausted
        return scores, labels

    def _query(self, unprotected: Floats, which: Integers) -> Reply:
        """Query profiles (n, U) under assignments (n, k), shape (n * k,)."""
        if self._network is not None:
            self.ledger.charge(which.size)
            return self._network.reply(unprotected, which)
        people = self.space.sides(unprotected, which)
        return ask_model(self.scorer, people.reshape(-1, people.shape[2]), self.ledger)

    def _store(self, scores: Floats, labels: Integers) -> None:
        start = len(self._slots)
        end = start + len(scores)
        if end > len(self._scores):
            size = max(end, 2 * len(self._scores))
            for stored in (self._scores, self._labels):
                stored.resize((size, *stored.shape[1:]), refcheck=False)
        self._scores[start:end], self._labels[start:end] = scores, labels

    def _require(self, rows: int = 0) -> None:
        if self._limit.passed() or rows > self.queries_left:
            raise BudgetExhausted
