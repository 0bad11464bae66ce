"""The account of one run: how many individuals a black box was sent, and how many it may be sent."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from evenhand.core.typing import Floats, Integers
from evenhand.errors import BudgetError
from evenhand.models.replies import Reply, join_replies
from evenhand.models.scorer import BATCH_ROWS, Scorer, WrappedScorer


@dataclass(eq=False)
class QuestionLedger:
    """Counts every individual (or text) that is sent to a model, and sends none beyond the budget.

    A black box charges its ledger whenever it is called: while it is loaded, by every analysis, and once more for each
    further try after a failure. So the count is what the model itself counts. Answers that are known cost nothing.

    Attributes:
        budget: individuals that may be sent; None: no limit.
        sent: individuals that were sent.
        settled: how many of them are in a report already.
    """

    budget: int | None = None
    sent: int = 0
    settled: int = 0

    @property
    def left(self) -> float:
        """How many more individuals may be sent; infinite without a budget."""
        return np.inf if self.budget is None else self.budget - self.sent

    def charge(self, rows: int) -> None:
        """Count individuals that are sent now.

        Raises:
            BudgetError: the budget does not pay for all of them; none is counted, and none may be sent.
        """
        if self.budget is not None and rows > self.budget - self.sent:
            raise BudgetError(
                f"the budget of {self.budget:,} rows is spent: {self.sent:,} were asked about, and the next question "
                f"takes {rows:,}",
                hint="give a larger budget, or ask about fewer people",
            )
        self.sent += rows

    def settle(self) -> int:
        """Return how many were sent since the last call: what an analysis reports, its share of loading included."""
        rows, self.settled = self.sent - self.settled, self.sent
        return rows

    @contextmanager
    def within(self, rows: int | None) -> Iterator[None]:
        """Lower the budget for a while, to so many rows since the ledger was settled; None leaves it."""
        before = self.budget
        if rows is not None:
            self.budget = int(min(self.settled + rows, np.inf if before is None else before))
        try:
            yield
        finally:
            self.budget = before


def find_ledger(model: Any) -> QuestionLedger | None:
    """Return the ledger that a black box charges; None where a model has none, such as one read from inside."""
    found = getattr(model, "ledger", None)
    return found if isinstance(found, QuestionLedger) else None


class CountedScorer(WrappedScorer):
    """A model without a ledger of its own, counted by another one."""

    def __init__(self, model: Scorer, ledger: QuestionLedger) -> None:
        self.model, self._ledger = model, ledger

    @property
    def ledger(self) -> QuestionLedger:
        """What counts whom the model is asked about."""
        return self._ledger

    def scores(self, individuals: Floats) -> Floats:
        """Return the model's scores (n, classes)."""
        self._ledger.charge(answers_per_row(self.model) * len(individuals))
        return self.model.scores(individuals)

    def predict(self, individuals: Floats) -> Integers:
        """Return the model's labels (n,)."""
        self._ledger.charge(answers_per_row(self.model) * len(individuals))
        return self.model.predict(individuals)


def answers_per_row(scorer: Scorer) -> int:
    """Return how many questions to the model each individual takes: one, but where several answers are averaged."""
    while isinstance(scorer, WrappedScorer):
        if hasattr(scorer, "answers"):
            return int(scorer.answers)
        scorer = scorer.model
    return 1


def ask_people(scorer: Scorer, individuals: Floats, ledger: QuestionLedger | None = None) -> Reply:
    """Return scores and labels of any number of individuals (n, attributes), asked once, in batches (``ask_model``)."""
    batches = (individuals[at : at + BATCH_ROWS] for at in range(0, len(individuals), BATCH_ROWS))
    return join_replies(scorer, (ask_model(scorer, batch, ledger) for batch in batches))


def ask_model(scorer: Scorer, individuals: Floats, ledger: QuestionLedger | None = None) -> Reply:
    """Return scores and labels of individuals (n, attributes) from one question.

    Args:
        scorer: who is asked.
        individuals: whom about.
        ledger: is charged if the model has none of its own.

    Raises:
        BudgetError: the budget does not pay for them.
    """
    if ledger is not None and find_ledger(scorer) is None:
        ledger.charge(len(individuals))
    reply = getattr(scorer, "reply", None)
    if reply is not None:
        both: Reply = reply(individuals)
        return both
    scores = np.asarray(scorer.scores(individuals))
    labels = np.argmax(scores, axis=1) if scorer.label_only else scorer.predict(individuals)
    return Reply(scores, np.asarray(labels, dtype=np.int64), scorer.label_only)
