"""Supply of items for one request, which are generated in batches, classified concurrently, and taken one by one.

Items of the same prompt are exchangeable, so each may be used for any attempt with this prompt. The choice does not
depend on the values of the items. The guard decides about each item as if it had been requested alone.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

from evenhand.core.coroutines import call, is_blocking
from evenhand.core.text import summarize_error
from evenhand.errors import BudgetError, EvenhandError, FetchError, ModelError
from evenhand.genai.backends.generator import Generator, Item
from evenhand.genai.classifiers.classifier import Classifier
from evenhand.genai.enforcement.instructions import clean_item
from evenhand.genai.spec.spending_config import PriceConfig
from evenhand.models.language.services import ContentRefusedError, may_be_charged

ItemValues: TypeAlias = Mapping[str, str | None]

REFUSED_SEVERAL = (400, 404, 413, 422)
"""HTTP statuses of services that refuse to generate several items at once."""


@runtime_checkable
class SeveralGenerator(Protocol):
    """Generator that returns several items from one call."""

    def generate(self, prompt: str) -> Item:
        """Generate one item. See ``Generator``."""
        ...

    def generate_several(self, prompt: str, count: int) -> list[Item]:
        """Generate up to ``count`` items for a prompt, at least one.

        Raises:
            EvenhandError: No item was generated.
        """
        ...


GuardPart: TypeAlias = Literal["guard", "judge", "generator", "classifier", "store"]


@dataclass(frozen=True)
class PartFailure:
    """Failure of a part of a guard.

    Attributes:
        part: The part that failed.
        message: Message of the error. It may contain text of other services.
        error: The error. None if there is only a message.
    """

    part: GuardPart
    message: str = ""
    error: Exception | None = field(default=None, compare=False)

    @classmethod
    def of(cls, part: GuardPart, error: Exception) -> PartFailure:
        """Build from the error that the part raised."""
        message = error.message if isinstance(error, EvenhandError) else summarize_error(error)
        return cls(part, f"{message} ({error.code})" if isinstance(error, ContentRefusedError) else message, error)

    @property
    def timed_out(self) -> bool:
        """Whether there was no response in time."""
        return isinstance(self.error, FetchError) and self.error.timed_out

    @property
    def summary(self) -> str:
        """Sentence without text of other services."""
        verb = "refused" if isinstance(self.error, ContentRefusedError) else "failed"
        return f"the {self.part} {'did not answer in time' if self.timed_out else verb}"

    def __str__(self) -> str:
        return f"{self.summary}: {self.message}" if self.message else self.summary


@dataclass(frozen=True)
class ItemAttempt:
    """One item that was requested.

    Attributes:
        prompt: Prompt that was sent.
        values: Values that the item shows by concept group. Empty if it was not classified.
        failure: Failure of the generator or the classifier. None if there was none.
        item: The item. None if there is none.
        cost: Cost by the configured prices. The first of several items of one request carries the cost of the request.
    """

    prompt: str
    values: ItemValues = field(default_factory=dict)
    failure: PartFailure | None = None
    item: Item | None = field(default=None, repr=False)
    cost: float = 0.0

    @property
    def error(self) -> str:
        """Description of the failure. Empty if there was none."""
        return "" if self.failure is None else str(self.failure)

    @property
    def refusal(self) -> ContentRefusedError | None:
        """Error with which the generator refused the content of the prompt. None if it did not."""
        error = None if self.failure is None else self.failure.error
        return error if isinstance(error, ContentRefusedError) else None

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain JSON values, without the item."""
        cost = {"cost": self.cost} if self.cost else {}
        return {"prompt": self.prompt, "values": dict(self.values), "error": self.error, **cost}


class _Pool:
    """Items requested with the same prompt.

    Attributes:
        ready: Attempts in the order of their arrival. An unclassified item is stored as the coroutine function that
            classifies it.
        pending: Requests that have not been answered.
    """

    def __init__(self) -> None:
        self.ready: deque[ItemAttempt | partial[Coroutine[Any, Any, ItemAttempt]]] = deque()
        self.pending: set[asyncio.Task[ItemAttempt | None]] = set()


class Spending:
    """The cost of one request, within a limit.

    The price of tokens is known only after a call, so the first call is made alone, and each further item reserves the
    highest price of tokens of earlier items.

    Args:
        price: Prices of the generator.
        cap: Maximum cost. None disables the limit.
    """

    def __init__(self, price: PriceConfig, cap: float | None) -> None:
        self.price, self.cap = price, cap
        self._spent = self._most_tokens = 0.0
        self._calls = self._items = 0

    def allow(self, count: int, *, one_call: bool) -> int:
        """Reserve up to ``count`` items, in one call or one call each, and return the number reserved.

        Raises:
            BudgetError: The limit does not allow one.
        """
        untested = self.cap is not None and any(self.price.tokens) and not self._most_tokens
        for size in range(1 if untested else count, 0, -1):
            calls = 1 if one_call else size
            # Sums of prices are rounded, so a limit that is met exactly is not exceeded.
            maximum = self._spent + self._reserved(self._calls + calls, self._items + size)
            if self.cap is None or maximum <= self.cap * (1 + 1e-9):
                self._calls, self._items = self._calls + calls, self._items + size
                return size
        raise BudgetError(f"the budget of a request, {self.cap:g}, does not pay for another attempt")

    def _reserved(self, calls: int, items: int) -> float:
        return self.price.cost(calls=calls, items=items, usage={}) + items * self._most_tokens

    def settle(self, count: int, items: Sequence[object], *, one_call: bool) -> list[float]:
        """Settle a call for some items and return the cost of each; that of the call is part of the first."""
        costs = [self._cost(item, calls=int(k == 0)) for k, item in enumerate(items)]
        self._land(count, sum(costs), one_call=one_call)
        return costs

    def settle_failure(self, count: int, error: Exception, *, one_call: bool) -> float:
        """Settle a call without an item, and return its cost: the maximum if its answer may have been lost."""
        lost = isinstance(error, FetchError) and may_be_charged(error)
        cost = self._reserved(1, count) if lost else self.price.cost(calls=1, items=0, usage={})
        self._land(count, cost, one_call=one_call)
        return cost

    def release(self, count: int) -> None:
        """Release a call for several items that the generator does not offer."""
        self._land(count, 0.0, one_call=True)

    def _cost(self, item: object, *, calls: int) -> float:
        usage = item.usage if isinstance(item, Item) else {}
        self._most_tokens = max(self._most_tokens, self.price.cost(calls=0, items=0, usage=usage))
        return self.price.cost(calls=calls, items=1, usage=usage)

    def _land(self, count: int, cost: float, *, one_call: bool) -> None:
        self._calls, self._items = self._calls - (1 if one_call else count), self._items - count
        self._spent += cost


class ItemSupply:
    """Generated and classified items of one request.

    Args:
        prompt: Prompt of the user.
        generator: Generator of items.
        classifier: Classifier of items.
        groups: Values of each concept group.
        spending: Cost of the items, within its limit.

    Attributes:
        busy_seconds: Time in which at least one call of the generator was running.
    """

    def __init__(
        self,
        prompt: str,
        generator: Generator,
        classifier: Classifier,
        groups: Mapping[str, Sequence[str]],
        spending: Spending,
    ) -> None:
        self._spending = spending
        self._together = isinstance(generator, SeveralGenerator)
        self._prompt, self._generator, self._classifier, self._groups = prompt, generator, classifier, groups
        self._pools: dict[tuple[str, bool], _Pool] = {}
        self._calls, self._since = 0, 0.0
        self.busy_seconds = 0.0

    async def take(self, words: str, count: int = 1, *, look: bool = True) -> ItemAttempt:
        """Take the next item for a prompt, or its failure.

        Args:
            words: Prompt that is sent.
            count: Number of items to request if none is left from earlier requests.
            look: Whether to classify the item.

        Raises:
            BudgetError: No item is left, and the budget does not allow another one.
        """
        pool = self._pools.setdefault((words, look), _Pool())
        while not pool.ready:
            if pool.pending:
                await asyncio.wait(pool.pending, return_when=asyncio.FIRST_COMPLETED)
            else:
                await self._ask(pool, words, count, look)
        entry = pool.ready.popleft()
        return entry if isinstance(entry, ItemAttempt) else await entry()

    async def leftovers(self) -> list[ItemAttempt]:
        """Wait for all requests, and return the items that were not taken."""
        pools = self._pools.values()
        while pending := [task for pool in pools for task in pool.pending]:
            await asyncio.wait(pending)
        left: list[ItemAttempt] = []
        for (words, _look), pool in self._pools.items():
            left += [
                entry if isinstance(entry, ItemAttempt) else ItemAttempt(words, item=entry.args[1], cost=entry.args[3])
                for entry in pool.ready
            ]
            pool.ready.clear()
        return left

    def drop(self) -> None:
        """Cancel the requests that have not been answered."""
        for pool in self._pools.values():
            for task in pool.pending:
                task.cancel()

    # ---- generation

    async def _ask(self, pool: _Pool, words: str, count: int, look: bool) -> None:
        one_call = self._together and count > 1
        # If every call blocks, the next call is made only when its item is needed.
        limit = count if one_call or not is_blocking() else 1
        size = self._spending.allow(limit, one_call=one_call)
        if one_call:
            await self._run(pool, self._make_several(pool, words, size, look))
            return
        for _ in range(size):
            await self._run(pool, self._make(words, look))

    async def _run(self, pool: _Pool, work: Coroutine[Any, Any, ItemAttempt | None]) -> None:
        """Run work now if calls block, otherwise concurrently."""
        if is_blocking():
            attempt = await work
            if attempt is not None:
                pool.ready.append(attempt)
            return
        task = asyncio.ensure_future(work)
        pool.pending.add(task)
        task.add_done_callback(partial(_arrive, pool))

    async def _make(self, words: str, look: bool) -> ItemAttempt:
        try:
            item = await self._time_call(call(self._generator.generate, words))
        except Exception as failure:
            return _failed_attempt(words, failure, self._spending.settle_failure(1, failure, one_call=False))
        (cost,) = self._spending.settle(1, [item], one_call=False)
        return await self._look_at(words, item, look, cost)

    async def _make_several(self, pool: _Pool, words: str, count: int, look: bool) -> ItemAttempt | None:
        assert isinstance(self._generator, SeveralGenerator)
        items: list[Item] = []
        failure: Exception = ModelError("it answered without an item")
        try:
            items = (await self._time_call(call(self._generator.generate_several, words, count)))[:count]
        except Exception as error:
            failure = error
        if not items:
            if _refuses_several(failure):
                self._spending.release(count)
                self._together = False  # from now on, each item is requested by itself
                return None
            return _failed_attempt(words, failure, self._spending.settle_failure(count, failure, one_call=True))
        costs = self._spending.settle(count, items, one_call=True)
        for item, cost in zip(items, costs, strict=True):
            if is_blocking():
                pool.ready.append(partial(self._look_at, words, item, look, cost))
            else:
                await self._run(pool, self._look_at(words, item, look, cost))
        return None

    async def _look_at(self, words: str, answer: object, look: bool, cost: float) -> ItemAttempt:
        if not isinstance(answer, Item):
            wrong = ModelError(f"expected an item, got a {type(answer).__name__}")
            return _failed_attempt(words, wrong, cost)
        # Repeated words of the instruction say nothing about the item, so they are removed before it is classified.
        item = clean_item(answer, self._prompt, words)
        try:
            values = known_values(await call(self._classifier.classify, item), self._groups) if look else {}
        except Exception as failure:
            return ItemAttempt(words, failure=PartFailure.of("classifier", failure), item=item, cost=cost)
        return ItemAttempt(words, values, item=item, cost=cost)

    async def _time_call(self, work: Coroutine[Any, Any, Any]) -> Any:
        if not self._calls:
            self._since = time.perf_counter()
        self._calls += 1
        try:
            return await work
        finally:
            self._calls -= 1
            if not self._calls:
                self.busy_seconds += time.perf_counter() - self._since


def _arrive(pool: _Pool, task: asyncio.Task[ItemAttempt | None]) -> None:
    pool.pending.discard(task)
    if not task.cancelled() and (attempt := task.result()) is not None:
        pool.ready.append(attempt)


def known_values(answers: object, groups: Mapping[str, Sequence[str]]) -> ItemValues:
    """Select the known values among the answers of a classifier. Unknown values count as "cannot tell".

    Raises:
        ModelError: The answer is not a mapping.
    """
    if not isinstance(answers, Mapping):
        raise ModelError(f"expected values by concept group, got a {type(answers).__name__}")
    return {group: value if (value := answers.get(group)) in values else None for group, values in groups.items()}


def _failed_attempt(words: str, error: Exception, cost: float) -> ItemAttempt:
    return ItemAttempt(words, failure=PartFailure.of("generator", error), cost=cost)


def _refuses_several(error: Exception) -> bool:
    """Check whether the generator may still accept requests for single items."""
    if isinstance(error, ContentRefusedError) or not isinstance(error, EvenhandError):
        return False
    return isinstance(error, ModelError) or getattr(error, "status", None) in REFUSED_SEVERAL
