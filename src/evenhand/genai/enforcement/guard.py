"""Guards: generators whose items keep every deadline.

A guard carries out the decisions of an enforcer. It asks the judge for the conditions of a prompt, changes the prompt
where necessary, generates an item, classifies it, and repeats this where necessary. No step is omitted silently: if the
judge or the classifier fails, the guard reacts as configured, and the answer reports it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from typing import Literal, NamedTuple, Protocol, TypeAlias
from urllib.parse import quote

from evenhand.core.coroutines import blocks, call
from evenhand.errors import BudgetError, DecisionError, OptionError
from evenhand.genai.backends.generator import Generator, Item
from evenhand.genai.classifiers.classifier import Classifier
from evenhand.genai.enforcement.enforcer import Admission, Instruction, ItemOutcome
from evenhand.genai.enforcement.instructions import InstructionWriter
from evenhand.genai.enforcement.supply import ItemAttempt, ItemSupply, ItemValues, PartFailure, Spending
from evenhand.genai.judges import Judge
from evenhand.genai.spec.pipeline_config import BudgetConfig, PriceConfig, WhenUnsure
from evenhand.models.language.services import ContentRefusedError

AnswerStatus: TypeAlias = Literal["ok", "violation", "unguarded", "refused"]

_quote = partial(quote, safe=" :+()'")
"""Percent-encode a name for use in a header."""


class AdmissionStore(Protocol):
    """Store of admissions, which decides by the rules of an ``Enforcer``.

    ``Enforcer`` itself is the store in memory. The store of the service keeps its rows in the ledger, together with the
    open requests. Guards use no other part of the two.
    """

    def admit(self, conditions: Collection[str], *, fixed: Collection[str] = ()) -> Admission: ...

    def complete(self, admission: Admission, values: ItemValues | None) -> ItemOutcome: ...


class AttemptLimits(NamedTuple):
    """Limits of the attempts and of the cost of a request.

    Attributes:
        candidates: Number of items requested at once. The first that fits is delivered.
        attempts: Maximum number of attempts per request. None if it is unknown.
        price: Prices of the generator.
        budget: Maximum cost of a request.
    """

    candidates: int = 1
    attempts: int | None = None
    price: PriceConfig = PriceConfig()
    budget: BudgetConfig = BudgetConfig()

    @property
    def most(self) -> float:
        """Maximum cost of one item, without the cost of its tokens."""
        tries = self.candidates if self.attempts is None else self.attempts + 1
        maximum = self.price.cost(calls=tries, items=tries, usage={})
        return maximum if self.budget.request is None else min(maximum, self.budget.request)

    def round_size(self, made: int) -> int:
        """Compute the number of items to request after ``made`` attempts."""
        left = self.candidates if self.attempts is None else self.attempts - made
        return max(1, min(self.candidates, left))


@dataclass(frozen=True)
class GuardedAnswer:
    """Answer to a prompt.

    Attributes:
        item: Item to deliver. None if there is none.
        status: ``ok``; ``violation``: a stated assumption is broken; ``unguarded``: the conditions or the values of the
            item are unknown, and it is delivered as configured; ``refused``: there is no item.
        prompt: Last prompt that was sent.
        changed: Whether this prompt differs from the user's prompt.
        conditions: Conditions that hold for the prompt, according to the judge.
        fixed: Concept groups whose value the prompt of the user fixes.
        must: Values that the last prompt had to request, by concept group.
        slots: Slot of the item, by specification.
        attempts: Attempts, in their order.
        notice: Explanation by the guard if the status is not ``ok`` for a reason other than a failure.
        failures: Failures that explain the status; the last one was decisive.
        budget: Error if the budget of the request did not allow another attempt.
    """

    item: Item | None
    status: AnswerStatus
    prompt: str
    changed: bool = False
    conditions: frozenset[str] = frozenset()
    fixed: frozenset[str] = frozenset()
    must: Instruction = field(default_factory=dict)
    slots: Mapping[str, int] = field(default_factory=dict)
    attempts: tuple[ItemAttempt, ...] = ()
    notice: str = ""
    failures: tuple[PartFailure, ...] = ()
    budget: BudgetError | None = None

    @property
    def reason(self) -> str:
        """Explanation of a status other than ``ok``. It may contain text of other services."""
        return "; ".join(filter(None, (self.notice, *map(str, self.failures))))

    @property
    def values(self) -> ItemValues:
        """Values of the item by concept group. Empty if it was not classified."""
        return self.attempts[-1].values if self.attempts else {}

    @property
    def cost(self) -> float:
        """Cost of the attempts, excluding candidates that were not classified."""
        return sum(attempt.cost for attempt in self.attempts)

    @property
    def refusal(self) -> ContentRefusedError | None:
        """Error with which the generator refused the last prompt. None if it did not."""
        return self.attempts[-1].refusal if self.attempts and self.item is None else None

    @property
    def disclosure(self) -> str:
        """Summary of the changes to the request as an ASCII header. Other letters are percent-encoded."""
        parts = [f"status={self.status}", f"changed={'yes' if self.changed else 'no'}"]
        if self.must:
            asked = [f"{_quote(group)} {' or '.join(map(_quote, values))}" for group, values in self.must.items()]
            parts.append(f"asked={', '.join(asked)}")
        if self.slots:
            slots = [f"{_quote(name)} {slot}" for name, slot in self.slots.items()]
            parts.append(f"slots={', '.join(slots)}")
        return "; ".join([*parts, f"attempts={len(self.attempts)}"])


@dataclass(eq=False)
class Guard:
    """Generator whose items keep every deadline.

    A guard is thread-safe if its parts are. Guards may share an ``Enforcer``: items are then generated and
    classified concurrently.

    Attributes:
        enforcer: Store that decides, such as an ``Enforcer``.
        generator: Generator of items.
        classifier: Classifier of items.
        judge: Judge of prompts.
        groups: Values of each concept group. Any other answer of the classifier counts as "cannot tell".
        when_unsure: ``refuse``: if the judge fails, no item is generated, and if the classifier fails, none is
            delivered; ``pass``: the item is delivered, and counts as showing nothing.
        instruct: Function that adds the required values to a prompt, without blocking. It is not called if there are
            none.
        limits: Limits of the attempts and of their cost. By default, every item is requested separately.
    """

    enforcer: AdmissionStore
    generator: Generator
    classifier: Classifier
    judge: Judge
    _: KW_ONLY
    groups: Mapping[str, Sequence[str]]
    when_unsure: WhenUnsure = "refuse"
    instruct: Callable[[str, Instruction], str] = field(default_factory=InstructionWriter)
    limits: AttemptLimits = field(default_factory=AttemptLimits)

    async def answer_async(self, prompt: str, *, generator: Generator | None = None) -> GuardedAnswer:
        """Generate an item for a prompt. See ``answer_several``."""
        return (await self.answer_several_async(prompt, 1, generator=generator))[0]

    async def answer_several_async(
        self, prompt: str, count: int, *, generator: Generator | None = None
    ) -> list[GuardedAnswer]:
        """Generate several items for a prompt, each decided after the previous one. See ``AnswerSeries``.

        Args:
            prompt: Prompt of the user.
            count: Number of items.
            generator: Generator for this prompt. If None, the generator of the guard.

        Raises:
            EvenhandError: The store could not decide. No further item is delivered. Failures of the judge, the
                generator and the classifier are reported in the answers instead.
        """
        series = AnswerSeries(self, prompt, count, generator=generator)
        try:
            return [await series.answer() for _ in range(count)]
        finally:
            series.supply.drop()

    answer = blocks(answer_async)
    answer_several = blocks(answer_several_async)


class AnswerSeries:
    """Several answers to one prompt, each decided like a separate request that waited for the previous one.

    If no value is required, all remaining items are requested at once. The enforcer receives the same admissions and
    items in the same order as from separate requests. If a value is required, as many candidates as the limits of the
    guard state are requested at once. The enforcer receives them one by one as attempts, so the first that fits is
    delivered, and the guarantee is unchanged.

    Args:
        guard, prompt, count, generator: See ``Guard.answer_several``.
        watch: Function called with every attempt before it is decided.

    Attributes:
        supply: Source of the items, including unused ones.
    """

    def __init__(
        self,
        guard: Guard,
        prompt: str,
        count: int = 1,
        *,
        generator: Generator | None = None,
        watch: Callable[[ItemAttempt], None] = lambda attempt: None,
    ) -> None:
        making = guard.generator if generator is None else generator
        cap = None if guard.limits.budget.request is None else count * guard.limits.budget.request
        spending = None if guard.limits.price == PriceConfig() else Spending(guard.limits.price, cap)
        self.supply = ItemSupply(prompt, making, guard.classifier, guard.groups, spending)
        self._guard, self._prompt, self._left, self._watch = guard, prompt, count, watch
        self._judged: tuple[frozenset[str], frozenset[str]] | None = None

    async def answer(self) -> GuardedAnswer:
        """Generate the next answer. Raises the errors of ``Guard.answer_several``."""
        judge = self._guard.judge
        try:
            try:
                if self._judged is None:
                    conditions = frozenset(await call(judge.conditions, self._prompt))
                    # If no condition holds, fixed groups have no effect.
                    fixed = await call(judge.fixed_groups, self._prompt) if conditions else ()
                    self._judged = conditions, frozenset(fixed)
            except Exception as error:
                return await self._answer_unjudged(PartFailure.of("judge", error))
            conditions, fixed = self._judged
            try:
                admission = await call(self._guard.enforcer.admit, conditions, fixed=fixed)
            except OptionError as error:
                # The judge named an unknown condition.
                return await self._answer_unjudged(PartFailure.of("judge", error))
            return await self._make_item(conditions, fixed, admission)
        finally:
            self._left -= 1

    async def _answer_unjudged(self, failure: PartFailure) -> GuardedAnswer:
        """Answer a prompt whose conditions are unknown."""
        if self._guard.when_unsure == "refuse":
            return GuardedAnswer(None, "refused", self._prompt, failures=(failure,))
        try:
            attempt = await self.supply.take(self._prompt, self._left, look=False)
        except BudgetError as error:
            return GuardedAnswer(None, "refused", self._prompt, notice=error.message, budget=error)
        self._watch(attempt)
        failures = (failure,) if attempt.failure is None else (failure, attempt.failure)
        status: AnswerStatus = "refused" if attempt.item is None else "unguarded"
        return GuardedAnswer(attempt.item, status, self._prompt, attempts=(attempt,), failures=failures)

    async def _make_item(
        self, conditions: frozenset[str], fixed: frozenset[str], admission: Admission
    ) -> GuardedAnswer:
        """Generate the item of an admitted request."""
        guard, enforcer = self._guard, self._guard.enforcer
        attempts: list[ItemAttempt] = []
        spent: BudgetError | None = None
        try:
            while True:
                # Without a budget, the remaining attempts fail like the last one.
                if spent is None:
                    words, count = self._prompt, self._left
                    if admission.must:
                        words = guard.instruct(words, admission.must)
                        count = guard.limits.round_size(admission.attempt)
                    try:
                        # If no specification counts the item, its values have no effect.
                        attempt = await self.supply.take(words, count, look=bool(admission.counts))
                    except BudgetError as error:
                        spent, attempt = error, ItemAttempt(words)
                    else:
                        attempts.append(attempt)
                        self._watch(attempt)
                    item = None if attempt.failure and guard.when_unsure == "refuse" else attempt.item
                values = None if item is None else attempt.values
                outcome = await call(enforcer.complete, admission, values)
                if outcome.admission is None:
                    break
                admission = outcome.admission
        except BaseException as error:
            await self._abandon_admission(admission, error)
            raise
        status: AnswerStatus
        if outcome.status != "ok":
            status = "violation"
        elif item is None:
            status = "refused"
        else:
            status = "unguarded" if attempt.failure else "ok"
        return GuardedAnswer(
            item,
            status,
            attempt.prompt,
            changed=attempt.prompt != self._prompt,
            conditions=conditions,
            fixed=fixed,
            must=admission.must,
            slots=outcome.slots,
            attempts=tuple(attempts),
            notice="; ".join(filter(None, (outcome.reason, spent.message if spent else ""))),
            failures=() if attempt.failure is None else (attempt.failure,),
            budget=spent,
        )

    async def _abandon_admission(self, admission: Admission, error: BaseException) -> None:
        """Complete an admission without an item."""
        enforcer = self._guard.enforcer
        try:
            outcome = await call(enforcer.complete, admission, None)
            while outcome.admission is not None:
                outcome = await call(enforcer.complete, outcome.admission, None)
        except DecisionError:
            return  # The request is already complete.
        except Exception as second:
            error.add_note(f"in addition, the slot of the request could not be released: {second}")
