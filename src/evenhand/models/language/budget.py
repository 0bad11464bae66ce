"""What was asked of a service and what it cost, and a budget that is never passed."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import NamedTuple

from evenhand.errors import BudgetError


class Spent(NamedTuple):
    """What was asked of a service, and what it cost.

    Attributes:
        calls: answers that were charged, or may have been: those that came late or broken too.
        tokens_in, tokens_out: read and written, as the service counts them; where it does not, at most.
        money: what they cost; None where the file has no prices.
        remembered: answers that were kept from before and cost nothing.
        failed: questions that stayed without an answer.
    """

    calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    money: float | None = None
    remembered: int = 0
    failed: int = 0


@dataclass(eq=False)
class CallBudget:
    """A budget of calls and money that is never passed, whatever threads do at the same time.

    Before a call, the most that it can cost is reserved; after it, what it did cost is settled.

    Attributes:
        calls: calls at most; None: any number.
        money: their price at most; None: any amount.
        price: of a million tokens read and of a million written.
    """

    calls: int | None
    money: float | None
    price: tuple[float, float] | None
    _spent: Spent = field(default_factory=Spent)
    _reserved: list[tuple[int, int]] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def reserve(self, tokens: tuple[int, int]) -> None:
        """Set aside one call with so many tokens read and written at most.

        Raises:
            BudgetError: that is more than is left; nothing is set aside.
        """
        with self._lock:
            reserved = [*self._reserved, tokens]
            if self.calls is not None and self._spent.calls + len(reserved) > self.calls:
                raise BudgetError(
                    f"the limit of {self.calls:,} calls is reached", hint="raise calls, or ask about less"
                )
            if self.money is not None:
                read, written = (sum(one[i] for one in reserved) for i in (0, 1))
                if self.cost(self._spent.tokens_in + read, self._spent.tokens_out + written) > self.money:
                    raise BudgetError(
                        f"the next question may cost more than is left of {self.money:g}; spent so far: "
                        f"{self.cost(self._spent.tokens_in, self._spent.tokens_out):.4g}",
                        hint="raise money, lower max_tokens, or ask about less",
                    )
            self._reserved.append(tokens)

    def settle(self, reserved: tuple[int, int], used: tuple[int, int] | None) -> None:
        """Charge a call that was reserved: the tokens that it used, or, if that is not known, all that was reserved."""
        with self._lock:
            self._reserved.remove(reserved)
            read, written = reserved if used is None else used
            self._spent = self._spent._replace(
                calls=self._spent.calls + 1,
                tokens_in=self._spent.tokens_in + read,
                tokens_out=self._spent.tokens_out + written,
            )

    def release(self, reserved: tuple[int, int]) -> None:
        """Give back what was reserved for a call that the service did not charge."""
        with self._lock:
            self._reserved.remove(reserved)

    def count(self, *, remembered: int = 0, failed: int = 0) -> None:
        """Count answers that cost nothing, and questions without an answer."""
        with self._lock:
            before = self._spent
            self._spent = before._replace(remembered=before.remembered + remembered, failed=before.failed + failed)

    @property
    def spent(self) -> Spent:
        """What was asked and what it cost so far."""
        with self._lock:
            found = self._spent
        return found if self.price is None else found._replace(money=self.cost(found.tokens_in, found.tokens_out))

    def cost(self, read: int, written: int) -> float:
        """Return what so many tokens cost."""
        price = self.price or (0.0, 0.0)
        return (read * price[0] + written * price[1]) / 1e6
