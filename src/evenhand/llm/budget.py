"""Calls to a service and their cost, with limits."""

from __future__ import annotations

import math
import threading
from collections import Counter
from dataclasses import dataclass, field

from evenhand.core.result_part import ResultPart
from evenhand.core.text import format_count, format_significant
from evenhand.errors import BudgetError
from evenhand.models.answer_store import Tokens


class ServiceUsage(ResultPart):
    """Calls to a service and their cost.

    Attributes:
        calls: Calls that were charged or may have been charged, including calls in flight.
        tokens_in, tokens_out: Tokens of these calls as reported by the service, or the maximum of a call if it reported
            none.
        money: Cost of these tokens. None if the file has no prices.
        assumed: Calls whose tokens the service did not report, such as late answers. They are part of ``calls``.
        assumed_money: Maximum cost of these calls. It is part of ``money``.
        remembered: Answers from the answers file, which are free in this run.
        remembered_money: Cost of these answers and of unanswered calls in earlier runs.
        failed: Questions without an answer.
    """

    calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    money: float | None = None
    assumed: int = 0
    assumed_money: float | None = None
    remembered: int = 0
    remembered_money: float | None = None
    failed: int = 0

    def __str__(self) -> str:
        """Describe the calls and their cost, such as ``12 calls were made for 0.0031``."""
        text = f"{format_count(self.calls, 'call was', 'calls were')} made"
        if self.money is not None:
            text += f" for {format_significant(self.money)}"
        if self.assumed:
            maximum = "" if self.assumed_money is None else f"at most {format_significant(self.assumed_money)} for "
            uncounted = format_count(self.assumed, "call", "calls")
            text += f", including {maximum}{uncounted} whose tokens the service did not report"
        if self.remembered_money:
            text += f"; earlier runs paid {format_significant(self.remembered_money)} for answers of this run"
        return text


@dataclass(eq=False)
class CallBudget:
    """Thread-safe limits on calls and cost.

    The maximum cost of a call is reserved before the call; the actual cost is settled afterwards. If the service
    reports more tokens than the maximum, later reservations are raised by the largest ratio so far. Answers of earlier
    runs count towards the limits once, so a resumed run costs no more than an uninterrupted one.

    Attributes:
        calls: Maximum number of calls. None disables the limit.
        money: Maximum cost. None disables the limit.
        price: Prices per million input tokens and per million output tokens.
    """

    calls: int | None
    money: float | None
    price: tuple[float, float] | None
    _counts: Counter[str] = field(default_factory=Counter)
    _known: Tokens = (0, 0)
    _unknown: Tokens = (0, 0)
    _earlier: Tokens = (0, 0)
    _earlier_calls: int = 0
    _reserved: Tokens = (0, 0)
    _in_flight: int = 0
    _excess: tuple[float, float] = (1.0, 1.0)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def is_calibrated(self) -> bool:
        """Whether cost is unlimited or the service has reported the tokens of a call."""
        return self.money is None or self._known != (0, 0) or self._earlier != (0, 0)

    def reserve(self, maximum: Tokens) -> bool:
        """Reserve a call that uses at most these tokens.

        Returns:
            Whether the call is reserved. If not, retry when a call in flight is settled, since it may use less than
            its reservation.

        Raises:
            BudgetError: The limits do not allow the call, and no call is in flight.
        """
        with self._lock:
            all_calls = self._counts["calls"] + self._earlier_calls + self._in_flight + 1
            most_money = self.cost(*add_tokens(self._known, self._earlier, self._uncounted(maximum)))
            if self.calls is not None and all_calls > self.calls:
                message, hint = f"the limit of {self.calls:,} calls is reached", "raise calls, or ask fewer questions"
            elif self.money is not None and most_money > self.money:
                message = f"the next question may exceed the remaining part of {self.money:g}"
                hint = "raise money, lower max_tokens, or ask fewer questions"
            else:
                self._reserved, self._in_flight = add_tokens(self._reserved, maximum), self._in_flight + 1
                return True
            if self._in_flight:
                return False
        raise BudgetError(message, hint=hint)

    def _uncounted(self, *more: Tokens) -> Tokens:
        """Return the maximum tokens of calls that the service did not report: late answers, calls in flight, and the
        given calls."""
        tokens_in, tokens_out = add_tokens(self._unknown, self._reserved, *more)
        return math.ceil(tokens_in * self._excess[0]), math.ceil(tokens_out * self._excess[1])

    def _land(self, reserved: Tokens) -> None:
        self._reserved = self._reserved[0] - reserved[0], self._reserved[1] - reserved[1]
        self._in_flight -= 1

    def settle(self, reserved: Tokens, used: Tokens | None) -> None:
        """Charge a reserved call for the reported tokens, or for the maximum if none were reported."""
        with self._lock:
            self._land(reserved)
            if used is None:
                self._unknown = add_tokens(self._unknown, reserved)
            else:
                self._known = add_tokens(self._known, used)
                self._calibrate(reserved, used)
            self._counts.update(calls=1, assumed=int(used is None))

    def _calibrate(self, maximum: Tokens, used: Tokens) -> None:
        tokens_in, tokens_out = (
            max(old, count / max(limit, 1)) for old, count, limit in zip(self._excess, used, maximum, strict=True)
        )
        self._excess = tokens_in, tokens_out

    def release(self, reserved: Tokens) -> None:
        """Release a reserved call that the service did not charge."""
        with self._lock:
            self._land(reserved)

    def count_earlier(self, maximum: Tokens, used: Tokens | None) -> None:
        """Count an earlier run's call towards the limits."""
        with self._lock:
            self._earlier = add_tokens(self._earlier, maximum if used is None else used)
            self._earlier_calls += 1
            if used is not None:
                self._calibrate(maximum, used)

    def count(self, *, remembered: int = 0, failed: int = 0) -> None:
        """Count free answers and unanswered questions."""
        with self._lock:
            self._counts.update(remembered=remembered, failed=failed)

    @property
    def spent(self) -> ServiceUsage:
        """Calls so far and their cost. Calls in flight are counted with their maximum usage."""
        with self._lock:
            unknown = self._uncounted()
            total = add_tokens(self._known, unknown)
            parts = (total, unknown, self._earlier)
            money, assumed, earlier = (None if self.price is None else self.cost(*part) for part in parts)
            return ServiceUsage(
                calls=self._counts["calls"] + self._in_flight,
                tokens_in=total[0],
                tokens_out=total[1],
                money=money,
                assumed=self._counts["assumed"] + self._in_flight,
                assumed_money=assumed,
                remembered=self._counts["remembered"],
                remembered_money=earlier,
                failed=self._counts["failed"],
            )

    def cost(self, tokens_in: float, tokens_out: float) -> float:
        """Compute the cost of input and output tokens."""
        price = self.price or (0.0, 0.0)
        return (tokens_in * price[0] + tokens_out * price[1]) / 1e6


def add_tokens(*parts: Tokens) -> Tokens:
    """Sum the tokens of several calls."""
    return sum(tokens_in for tokens_in, _ in parts), sum(tokens_out for _, tokens_out in parts)
