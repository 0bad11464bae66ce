"""Supply of items for one request, which are generated in batches, classified concurrently, and taken one by one.

Items of the same prompt are exchangeable, so each may be used for any attempt with this prompt. The choice does not
depend on the values of the items. The guard decides about each item as if it had been requested separately.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

from evenhand.core.coroutines import call, is_blocking
from evenhand.core.text import summarize_error
from evenhand.errors import BudgetError, EvenhandError, FetchError, ModelError
from evenhand.genai.backends.generator import Generator, Item
from evenhand.genai.classifiers.classifier import Classifier
from evenhand.genai.enforcement.instructions import clean_item
from evenhand.genai.spec.pipeline_config import PriceConfig
from evenhand.models.language.services import ContentRefusedError, may_be_charged

ItemValues: TypeAlias = Mapping[str, str | None]

REFUSED_SEVERAL = (400, 404, 413, 422)
"""HTTP statuses of services that refuse to generate several items at once."""


@runtime_checkable
class SeveralGenerator(Generator, Protocol):
    """Generator that returns several items from one call."""

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
        """Build a failure from the error that the part raised."""
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


class Spending:
    """Cost of one request, within a limit.

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
            BudgetError: The limit does not allow any.
        """
        untested = self.cap is not None and any(self.price.tokens) and not self._most_tokens
        for size in range(1 if untested else count, 0, -1):
            calls = 1 if one_call else size
            # Sums of prices are rounded, so that a limit that is met exactly is not exceeded.
            maximum = self._spent + self._reserved(self._calls + calls, self._items + size)
            if self.cap is None or maximum <= self.cap * (1 + 1e-9):
                self._calls, self._items = self._calls + calls, self._items + size
                return size
        raise BudgetError(f"the budget of a request, {self.cap:g}, does not cover another attempt")

    def _reserved(self, calls: int, items: int) -> float:
        return self.price.cost(calls=calls, items=items, usage={}) + items * self._most_tokens

    def settle(self, count: int, items: Sequence[object], *, lost: bool = False) -> list[float]:
        """Settle a call for ``count`` reserved items.

        Args:
            count: Number of reserved items.
            items: Items of the call.
            lost: Whether the answer of a call without items may have been lost, so that its cost is the maximum.

        Returns:
            The cost of each item. The cost of the call is included in the first. Without items, the cost of the call.
        """
        costs: list[float] = []
        for item in items:
            usage = item.usage if isinstance(item, Item) else {}
            self._most_tokens = max(self._most_tokens, self.price.cost(calls=0, items=0, usage=usage))
            costs.append(self.price.cost(calls=int(not costs), items=1, usage=usage))
        if not items:
            costs = [self._reserved(1, count) if lost else self.price.cost(calls=1, items=0, usage={})]
        self.release(count)
        self._spent += sum(costs)
        return costs

    def release(self, count: int) -> None:
        """Release a reserved call for several items."""
        self._calls, self._items = self._calls - 1, self._items - count


class ItemSupply:
    """Generated and classified items of one request, whose cost is limited by ``spending`` unless they are free.

    Attributes:
        busy_seconds: Time in which at least one call of the generator was running.
    """

    def __init__(
        self,
        prompt: str,
        generator: Generator,
        classifier: Classifier,
        groups: Mapping[str, Sequence[str]],
        spending: Spending | None,
    ) -> None:
        self._spending = spending
        self._prompt, self._generator, self._classifier, self._groups = prompt, generator, classifier, groups
        self._several = generator if isinstance(generator, SeveralGenerator) else None
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
        pool = self._pools.setdefault((words, look), [])
        while True:
            if not pool:
                several = self._several if count > 1 else None
                one_call = several is not None
                # If every call blocks, the next call is made only when its item is needed.
                size = count if one_call or not is_blocking() else 1
                if self._spending is not None:
                    size = self._spending.allow(size, one_call=one_call)
                for _ in range(1 if one_call else size):
                    _add_work(pool, partial(self._make, pool, words, size if one_call else 1, look, several))
            attempt = await _finish_next(pool)
            if attempt is not None:
                return attempt

    async def leftovers(self) -> list[ItemAttempt]:
        """Wait for all requests, and return the items that were not taken."""
        attempts = []
        for pool in self._pools.values():
            while pool:
                attempts.append(await _finish_next(pool))
        return [attempt for attempt in attempts if attempt is not None]

    def drop(self) -> None:
        """Cancel the requests that have not been answered."""
        for pool in self._pools.values():
            for work in pool:
                if isinstance(work, asyncio.Task):
                    work.cancel()

    async def _make(
        self, pool: _Pool, words: str, count: int, look: bool, several: SeveralGenerator | None
    ) -> ItemAttempt | None:
        """Generate items with one call, classify the first, and add the others to the pool.

        None if the generator does not offer several items at once.
        """
        spending = self._spending
        if not self._calls:
            self._since = time.perf_counter()
        self._calls += 1
        try:
            if several is None:
                items = [await call(self._generator.generate, words)]
            else:
                items = (await call(several.generate_several, words, count))[:count]
            if not items:
                raise ModelError("it answered without an item")
        except Exception as error:
            if several is not None and _refuses_several(error):
                if spending is not None:
                    spending.release(count)
                self._several = None  # from now on, each item is requested separately
                return None
            lost = isinstance(error, FetchError) and may_be_charged(error)
            (cost,) = (0.0,) if spending is None else spending.settle(count, (), lost=lost)
            return ItemAttempt(words, failure=PartFailure.of("generator", error), cost=cost)
        finally:
            self._calls -= 1
            if not self._calls:
                self.busy_seconds += time.perf_counter() - self._since
        costs = [0.0] * len(items) if spending is None else spending.settle(count, items)
        for item, cost in zip(items[1:], costs[1:], strict=True):
            _add_work(pool, partial(self._look_at, words, item, look, cost))
        return await self._look_at(words, items[0], look, costs[0])

    async def _look_at(self, words: str, answer: object, look: bool, cost: float) -> ItemAttempt:
        if not isinstance(answer, Item):
            wrong = ModelError(f"expected an item, got a {type(answer).__name__}")
            return ItemAttempt(words, failure=PartFailure.of("generator", wrong), cost=cost)
        # Repeated words of the instruction say nothing about the item, so they are removed before it is classified.
        item = answer if words == self._prompt else clean_item(answer, self._prompt, words)
        try:
            values = known_values(await call(self._classifier.classify, item), self._groups) if look else {}
        except Exception as failure:
            return ItemAttempt(words, failure=PartFailure.of("classifier", failure), item=item, cost=cost)
        return ItemAttempt(words, values, item=item, cost=cost)


_Work: TypeAlias = "Callable[[], Coroutine[Any, Any, ItemAttempt | None]]"
_Pool: TypeAlias = "list[asyncio.Task[ItemAttempt | None] | _Work]"
"""Work on the items of one prompt, in the order of the requests: tasks, or functions if calls block."""


def _add_work(pool: _Pool, work: _Work) -> None:
    """Add work to a pool. It runs concurrently or, if calls block, when its item is taken."""
    pool.append(work if is_blocking() else asyncio.ensure_future(work()))


async def _finish_next(pool: _Pool) -> ItemAttempt | None:
    """Remove the first finished work from a pool and return its result. Wait if none is finished."""
    tasks = [work for work in pool if isinstance(work, asyncio.Task)]
    if tasks:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    work = next((task for task in tasks if task.done()), pool[0])
    pool.remove(work)
    return await (work if isinstance(work, asyncio.Task) else work())


def known_values(answers: object, groups: Mapping[str, Sequence[str]]) -> ItemValues:
    """Select the known values among the answers of a classifier. Unknown values count as "cannot tell".

    Raises:
        ModelError: The answer is not a mapping.
    """
    if not isinstance(answers, Mapping):
        raise ModelError(f"expected values by concept group, got a {type(answers).__name__}")
    return {group: value if (value := answers.get(group)) in values else None for group, values in groups.items()}


def _refuses_several(error: Exception) -> bool:
    """Check whether the generator may still accept requests for single items."""
    if isinstance(error, ContentRefusedError) or not isinstance(error, EvenhandError):
        return False
    return isinstance(error, ModelError) or getattr(error, "status", None) in REFUSED_SEVERAL
