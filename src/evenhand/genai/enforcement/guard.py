"""A generator with a guard around it: a prompt goes in, and an item comes out that keeps every deadline.

The guard does what an enforcer only decides: it asks the judge what the prompt is about, changes the prompt where it
must, has the item made and looked at, and made again where it must. It never leaves a step out silently: where the
judge or the classifier fails, it does what was configured, and says so in the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias
from urllib.parse import quote

from evenhand.core.coroutines import call, call_nonblocking, run_blocking
from evenhand.errors import BudgetError, DecisionError, OptionError
from evenhand.genai.backends.generator import Generator, Item, add_instruction
from evenhand.genai.classifiers.classifier import Classifier
from evenhand.genai.enforcement.enforcer import Admission, Instruction, ItemOutcome
from evenhand.genai.enforcement.supply import ItemAttempt, ItemSupply, ItemValues, PartFailure, Spending
from evenhand.genai.judges import Judge
from evenhand.genai.spec.pipeline_config import WhenUnsure
from evenhand.genai.spec.spending_config import BudgetConfig, PriceConfig
from evenhand.models.language.services import ContentRefusedError

AnswerStatus: TypeAlias = Literal["ok", "violation", "unguarded", "refused"]


class EnforcerProtocol(Protocol):
    """What decides, and where its rows are kept.

    ``Enforcer`` keeps them in memory, and gives them away and takes them back for a file (``state``, ``restore``);
    the service's keeps them in its store, together with the requests under way.
    """

    def admit(
        self,
        conditions: Collection[str],
        *,
        fixed: Collection[str] = (),
        prefer: Mapping[str, Sequence[str]] | None = None,
    ) -> Admission:
        """Admit a request; as ``Enforcer.admit``."""
        ...

    def complete(self, admission: Admission, values: ItemValues) -> ItemOutcome:
        """Record what the item of an admission shows; as ``Enforcer.complete``."""
        ...

    def fail(self, admission: Admission) -> ItemOutcome:
        """Record that there is no item; as ``Enforcer.fail``."""
        ...


class AttemptLimits(NamedTuple):
    """How often items are made, and what they may cost.

    Attributes:
        candidates: how many are asked for at once; the first that fits is taken.
        attempts: how many an enforcer lets be made for one request in all; None: that is not known.
        price: of the generator.
        budget: what one request may cost, and what happens where that is reached.
    """

    candidates: int = 1
    attempts: int | None = None
    price: PriceConfig = PriceConfig()
    budget: BudgetConfig = BudgetConfig()

    @property
    def most(self) -> float:
        """What one item can cost at most, as far as that is known before its tokens are counted."""
        tries = self.candidates if self.attempts is None else self.attempts + 1
        most = self.price.cost(calls=tries, items=tries, usage={})
        return most if self.budget.request is None else min(most, self.budget.request)

    def round_size(self, made: int) -> int:
        """Return how many to ask for next, after so many that did not fit."""
        left = self.candidates if self.attempts is None else self.attempts - made
        return max(1, min(self.candidates, left))


ONE_BY_ONE = AttemptLimits()
"""Every item is asked for by itself."""


@dataclass(frozen=True)
class GuardedAnswer:
    """Answer to a prompt.

    Attributes:
        item: to deliver; None if there is none.
        status: ``ok``; ``violation``: a stated assumption is broken; ``unguarded``: the item was made without knowing
            what it counts for or shows, as configured; ``refused``: there is no item.
        prompt: as it was sent last.
        changed: whether that is another one than was given.
        conditions: those that the judge found.
        fixed: concept groups whose value the given prompt fixes.
        must: what the last prompt had to ask for.
        slots: the slot of the item, by specification.
        attempts: in their order.
        notice: Sentence of the guard on why the status is not ``ok``, other than by a failure.
        failures: Failures that explain the status; the last one decided.
        budget: why no other attempt was made, where the budget of the request did not pay for one.
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
        """Why the status is not ``ok``; it may contain text of other services."""
        return "; ".join(filter(None, (self.notice, *map(str, self.failures))))

    @property
    def values(self) -> ItemValues:
        """What the item shows, by concept group; empty if it was not classified."""
        return self.attempts[-1].values if self.attempts else {}

    @property
    def cost(self) -> float:
        """What its attempts cost; candidates that were not looked at are not among them."""
        return sum(attempt.cost for attempt in self.attempts)

    @property
    def refusal(self) -> ContentRefusedError | None:
        """Why the generator refused what was asked last; None if it did not."""
        return self.attempts[-1].refusal if self.attempts and self.item is None else None

    @property
    def disclosure(self) -> str:
        """What was done to the request, in one line of ASCII that a header can hold; other letters percent-encoded."""
        parts = {"status": self.status, "changed": "yes" if self.changed else "no"}
        if self.must:
            parts["asked"] = ", ".join(
                f"{_header_name(group)} {' or '.join(map(_header_name, values))}" for group, values in self.must.items()
            )
        if self.slots:
            parts["slots"] = ", ".join(f"{_header_name(name)} {slot}" for name, slot in self.slots.items())
        parts["attempts"] = str(len(self.attempts))
        return "; ".join(f"{name}={said}" for name, said in parts.items())

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain JSON values, without the item's bytes."""
        return {
            "item": None
            if self.item is None
            else {"kind": self.item.kind, "media_type": self.item.media_type, "bytes": len(self.item.data)},
            "status": self.status,
            "prompt": self.prompt,
            "changed": self.changed,
            "conditions": sorted(self.conditions),
            "fixed": sorted(self.fixed),
            "must": {group: list(values) for group, values in self.must.items()},
            "slots": dict(self.slots),
            "values": dict(self.values),
            "attempts": [attempt.to_dict() for attempt in self.attempts],
            "reason": self.reason,
        }


class Guard:
    """Keeps a generator from missing deadlines.

    Threads may share one if they may share its parts, and guards may share an ``Enforcer``: items are made and looked
    at side by side.

    Args:
        keeper: decides; an ``Enforcer``, for one.
        generator: makes items.
        classifier: looks at them.
        judge: reads prompts.
        groups: the values of every concept group; whatever else a classifier answers counts as "cannot tell".
        when_unsure: ``refuse``: no item is made if the judge fails, and none is delivered that the classifier failed
            at; ``pass``: the item is delivered, and counts as showing nothing.
        instruct: puts what must be asked for into a prompt.
        limits: how items are made that must show something.
    """

    def __init__(
        self,
        keeper: EnforcerProtocol,
        generator: Generator,
        classifier: Classifier,
        judge: Judge,
        *,
        groups: Mapping[str, Sequence[str]],
        when_unsure: WhenUnsure = "refuse",
        instruct: Callable[[str, Instruction], str] = add_instruction,
        limits: AttemptLimits = ONE_BY_ONE,
    ) -> None:
        self.keeper = keeper
        self.generator, self.classifier, self.judge = generator, classifier, judge
        self.groups = {group: tuple(values) for group, values in groups.items()}
        self.when_unsure = when_unsure
        self.instruct = instruct
        self.limits = limits

    def answer(
        self, prompt: str, *, generator: Generator | None = None, prefer: Mapping[str, Sequence[str]] | None = None
    ) -> GuardedAnswer:
        """Return an item for a prompt.

        Args:
            prompt: as the user wrote it.
            generator: for this prompt alone.
            prefer: for a concept group the values that change the prompt least, best first.

        Raises:
            EvenhandError: the keeper could not decide; no item is made or delivered then. Failures of the judge, the
                generator and the classifier are told in the answer instead.
        """
        return run_blocking(self.answer_async(prompt, generator=generator, prefer=prefer))

    async def answer_async(
        self, prompt: str, *, generator: Generator | None = None, prefer: Mapping[str, Sequence[str]] | None = None
    ) -> GuardedAnswer:
        """Return what ``answer`` returns, without holding up the event loop."""
        series = AnswerSeries(self, prompt, generator=generator, prefer=prefer)
        try:
            return await series.answer()
        finally:
            series.supply.drop()

    def answer_several(self, prompt: str, count: int, *, generator: Generator | None = None) -> list[GuardedAnswer]:
        """Return several items for a prompt, decided one after the other; see ``AnswerSeries``.

        Args:
            prompt: as the user wrote it.
            count: how many.
            generator: for this prompt alone.

        Raises:
            EvenhandError: as for ``answer``.
        """
        return run_blocking(self.answer_several_async(prompt, count, generator=generator))

    async def answer_several_async(
        self, prompt: str, count: int, *, generator: Generator | None = None
    ) -> list[GuardedAnswer]:
        """Return what ``answer_several`` returns, without holding up the event loop."""
        series = AnswerSeries(self, prompt, count, generator=generator)
        try:
            return [await series.answer() for _ in range(count)]
        finally:
            series.supply.drop()


class AnswerSeries:
    """Answers one prompt several times, each decided as if it were a request of its own that waited for the last.

    The generator is asked for as many items at once as are left to answer, where nothing needs to be asked for; the
    enforcer sees the same admissions and items, in the same order, as it would in so many requests. Where something
    needs to be asked for, as many candidates are asked for at once as the guard's limits say; they are handed to the
    enforcer one by one as attempts, so that the first that fits is taken and what is guaranteed does not change.

    Args:
        guard: whose parts are used.
        prompt: as the user wrote it.
        count: how many answers there will be.
        generator: for this prompt alone.
        prefer: for a concept group the values that change the prompt least, best first.
        watch: is told of every attempt before it is decided about.

    Attributes:
        supply: where its items come from, and what is left of them in the end.
    """

    def __init__(
        self,
        guard: Guard,
        prompt: str,
        count: int = 1,
        *,
        generator: Generator | None = None,
        prefer: Mapping[str, Sequence[str]] | None = None,
        watch: Callable[[ItemAttempt], None] = lambda attempt: None,
    ) -> None:
        making = guard.generator if generator is None else generator
        cap = None if guard.limits.budget.request is None else count * guard.limits.budget.request
        spending = Spending(guard.limits.price, cap)
        self.supply = ItemSupply(prompt, making, guard.classifier, guard.groups, spending)
        self._guard, self._prompt, self._left, self._prefer, self._watch = guard, prompt, count, prefer, watch
        self._judged: tuple[frozenset[str], frozenset[str]] | None = None

    async def answer(self) -> GuardedAnswer:
        """Return the next answer.

        Raises:
            EvenhandError: as for ``Guard.answer``.
        """
        try:
            try:
                conditions, fixed = await self._judge()
                admission = await call_nonblocking(
                    self._guard.keeper.admit, conditions, fixed=fixed, prefer=self._prefer
                )
            except OptionError as error:
                # It names a condition that there is none of.
                return await self._answer_unjudged(PartFailure.of("judge", error))
            except _JudgeFailedError as error:
                return await self._answer_unjudged(error.failure)
            return await self._make_item(conditions, fixed, admission)
        finally:
            self._left -= 1

    async def _judge(self) -> tuple[frozenset[str], frozenset[str]]:
        if self._judged is None:
            judge = self._guard.judge
            try:
                conditions = frozenset(await call(judge.conditions, self._prompt))
                # What a prompt fixes is of no account where it counts for nothing.
                fixed = frozenset(await call(judge.fixed_groups, self._prompt)) if conditions else frozenset()
            except Exception as error:
                raise _JudgeFailedError(PartFailure.of("judge", error)) from None
            self._judged = conditions, fixed
        return self._judged

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
        """Return the item of a request that was admitted."""
        guard = self._guard
        attempts: list[ItemAttempt] = []
        spent: BudgetError | None = None
        try:
            while True:
                words = await call(guard.instruct, self._prompt, admission.must)
                count = guard.limits.round_size(admission.attempt) if admission.must else self._left
                # Where an item counts for nothing, nothing depends on what it shows, nor on who looks at it.
                try:
                    attempt = await self.supply.take(words, count, look=bool(admission.counts))
                except BudgetError as error:
                    spent = error
                    last = attempts[-1] if attempts and guard.limits.budget.when_spent == "deliver" else None
                    attempt = ItemAttempt(words) if last is None else last
                else:
                    attempts.append(attempt)
                    self._watch(attempt)
                item = None if attempt.error and guard.when_unsure == "refuse" else attempt.item
                outcome = await self._decide(admission, item, attempt, final=spent is not None)
                if outcome.status != "retry" or outcome.admission is None:
                    break
                admission = outcome.admission
            answer = _build_answer(
                item, outcome, self._prompt, conditions, fixed, admission.must, attempts or [attempt]
            )
            return (
                answer
                if spent is None
                else replace(
                    answer,
                    attempts=tuple(attempts),
                    budget=spent,
                    notice="; ".join(filter(None, (answer.notice, spent.message))),
                )
            )
        except BaseException as error:
            await self._abandon_admission(admission, error)
            raise

    async def _decide(
        self, admission: Admission, item: Item | None, attempt: ItemAttempt, *, final: bool
    ) -> ItemOutcome:
        """Return what becomes of an item; where it is the last one, no other attempt is left after it."""
        keeper = self._guard.keeper
        while True:
            outcome = await (
                call_nonblocking(keeper.fail, admission)
                if item is None
                else call_nonblocking(keeper.complete, admission, attempt.values)
            )
            if not final or outcome.status != "retry" or outcome.admission is None:
                return outcome
            admission = outcome.admission

    async def _abandon_admission(self, admission: Admission, error: BaseException) -> None:
        """Complete an admission whose item will never come."""
        keeper = self._guard.keeper
        try:
            outcome = await call_nonblocking(keeper.fail, admission)
            while outcome.status == "retry" and outcome.admission is not None:
                outcome = await call_nonblocking(keeper.fail, outcome.admission)
        except DecisionError:
            return  # It is complete.
        except Exception as second:
            error.add_note(f"the slot of the request could not be given up either: {second}")


class _JudgeFailedError(Exception):
    """Raised when the judge fails."""

    def __init__(self, failure: PartFailure) -> None:
        super().__init__(str(failure))
        self.failure = failure


def _build_answer(
    item: Item | None,
    outcome: ItemOutcome,
    prompt: str,
    conditions: frozenset[str],
    fixed: frozenset[str],
    must: Instruction,
    attempts: Sequence[ItemAttempt],
) -> GuardedAnswer:
    last = attempts[-1]
    status: AnswerStatus
    if outcome.status != "ok":
        status = "violation"
    elif item is None:
        status = "refused"
    else:
        status = "unguarded" if last.error else "ok"
    return GuardedAnswer(
        item,
        status,
        last.prompt,
        last.prompt != prompt,
        conditions,
        fixed,
        must,
        outcome.slots,
        tuple(attempts),
        outcome.reason,
        () if last.failure is None else (last.failure,),
    )


def _header_name(name: str) -> str:
    """Return a name as a header can hold it: whatever could be taken for something else is percent-encoded."""
    return quote(name, safe=" :+()'")
