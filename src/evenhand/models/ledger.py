"""Ledger of black-box queries, with a budget."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from evenhand.core.typing import Floats
from evenhand.errors import BudgetError
from evenhand.models.replies import Reply, join_replies
from evenhand.models.scorer import BATCH_ROWS, Scorer, split_batches


@dataclass(eq=False)
class QuestionLedger:
    """Count of the individuals (or texts) sent to a model. Queries beyond the budget are refused.

    A black box charges its ledger for each call, including calls during loading and retries. The count therefore equals
    the number of rows that the model received. Cached answers are free.

    Attributes:
        budget: Maximum number of individuals. None disables the limit.
        sent: Number of individuals sent.
        settled: Number of individuals already included in a report.
    """

    budget: int | None = None
    sent: int = 0
    settled: int = 0

    @property
    def left(self) -> float:
        """Remaining number of individuals. Infinite without a budget."""
        return np.inf if self.budget is None else self.budget - self.sent

    def charge(self, rows: int) -> None:
        """Count individuals before they are sent.

        Raises:
            BudgetError: The budget would be exceeded. None of the individuals is counted, and none may be sent.
        """
        if self.budget is not None and rows > self.budget - self.sent:
            raise BudgetError(
                f"the budget of {self.budget:,} rows is spent: {self.sent:,} have been queried, and the next query "
                f"needs {rows:,}",
                hint="increase the budget, or query fewer people",
            )
        self.sent += rows

    def settle(self) -> int:
        """Count the individuals since the last call, for the report of an analysis."""
        rows, self.settled = self.sent - self.settled, self.sent
        return rows

    @contextmanager
    def within(self, rows: int | None) -> Iterator[None]:
        """Temporarily lower the budget to a number of rows since the last report. None keeps the budget."""
        budget = self.budget
        if rows is not None:
            self.budget = int(min(self.settled + rows, np.inf if budget is None else budget))
        try:
            yield
        finally:
            self.budget = budget


def find_ledger(model: Any) -> QuestionLedger | None:
    """Find the ledger of a model. None for a model without one, such as a white box."""
    ledger = getattr(model, "ledger", None)
    return ledger if isinstance(ledger, QuestionLedger) else None


def ask_people(scorer: Scorer, individuals: Floats, ledger: QuestionLedger | None = None) -> Reply:
    """Query the scores and labels of individuals (n, attributes) in batches (see ``ask_model``)."""
    batches = split_batches(individuals, BATCH_ROWS)
    return join_replies(scorer, (ask_model(scorer, batch, ledger) for batch in batches))


def ask_model(scorer: Scorer, individuals: Floats, ledger: QuestionLedger | None = None) -> Reply:
    """Query the scores and labels of individuals (n, attributes) in one call.

    Args:
        scorer: The model.
        individuals: The individuals.
        ledger: Ledger that is charged if the model has none.

    Raises:
        BudgetError: The budget would be exceeded.
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
