"""A generator with a guard around it: a prompt goes in, and an item comes out that keeps every deadline.

The guard does what an enforcer only decides: it asks the judge what the prompt is about, changes the prompt where it
must, has the item made and looked at, and made again where it must. It never leaves a step out silently: where the
judge or the classifier fails, it does what was configured, and says so in the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias
from urllib.parse import quote

from evenhand.errors import DecisionError, EvenhandError, ModelError, OptionError
from evenhand.genai.backends.generator import Generator, Item, add_instruction
from evenhand.genai.classifiers.classifier import Classifier
from evenhand.genai.enforcement.enforcer import Admission, Instruction, ItemOutcome
from evenhand.genai.enforcement.instructions import clean_item
from evenhand.genai.judges import Judge
from evenhand.genai.spec.pipeline_config import WhenUnsure
from evenhand.models import summarize_error
from evenhand.services import ContentRefusedError

AnswerStatus: TypeAlias = Literal["ok", "violation", "unguarded", "refused"]
ItemValues: TypeAlias = Mapping[str, str | None]


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


@dataclass(frozen=True)
class ItemAttempt:
    """One item that was asked for.

    Attributes:
        prompt: as it was sent.
        values: what the item shows, by concept group; empty if it was not classified.
        error: why there is no item, or no answer about it; empty if nothing went wrong.
        refusal: the same, if the generator works and refuses what was asked of it.
    """

    prompt: str
    values: ItemValues = field(default_factory=dict)
    error: str = ""
    refusal: ContentRefusedError | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain JSON values."""
        return {"prompt": self.prompt, "values": dict(self.values), "error": self.error}


@dataclass(frozen=True)
class GuardedAnswer:
    """What came of a prompt.

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
        reason: why it is not ok.
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
    reason: str = ""

    @property
    def values(self) -> ItemValues:
        """What the item shows, by concept group; empty if it was not classified."""
        return self.attempts[-1].values if self.attempts else {}

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
            "item": None if self.item is None else {"kind": self.item.kind, "media_type": self.item.media_type,
                                                    "bytes": len(self.item.data)},
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
        }  # fmt: skip


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
    ) -> None:
        self.keeper = keeper
        self._generator, self._classifier, self._judge = generator, classifier, judge
        self._groups = {group: tuple(values) for group, values in groups.items()}
        self._when_unsure = when_unsure
        self._instruct = instruct

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
        making = self._generator if generator is None else generator
        try:
            conditions = frozenset(self._judge.conditions(prompt))
            # What a prompt fixes is of no account where it counts for nothing.
            fixed = frozenset(self._judge.fixed_groups(prompt)) if conditions else frozenset()
        except Exception as error:
            return self._answer_unjudged(prompt, making, _describe_error("the judge", error))
        try:
            admission = self.keeper.admit(conditions, fixed=fixed, prefer=prefer)
        except OptionError as error:
            return self._answer_unjudged(prompt, making, _describe_error("the judge", error))
        return self._make_item(prompt, making, conditions, fixed, admission)

    def _answer_unjudged(self, prompt: str, generator: Generator, reason: str) -> GuardedAnswer:
        """Answer a prompt of which it is unknown what it counts for."""
        if self._when_unsure == "refuse":
            return GuardedAnswer(None, "refused", prompt, reason=reason)
        item, attempt = self._attempt(prompt, prompt, generator, look=False)
        reasons = "; ".join(filter(None, (reason, attempt.error)))
        return GuardedAnswer(
            item, "refused" if item is None else "unguarded", prompt, attempts=(attempt,), reason=reasons
        )

    def _make_item(
        self,
        prompt: str,
        generator: Generator,
        conditions: frozenset[str],
        fixed: frozenset[str],
        admission: Admission,
    ) -> GuardedAnswer:
        """Return the item of a request that was admitted."""
        attempts: list[ItemAttempt] = []
        try:
            while True:
                sent = self._instruct(prompt, admission.must)
                # Where an item counts for nothing, nothing depends on what it shows, nor on who looks at it.
                item, attempt = self._attempt(prompt, sent, generator, look=bool(admission.counts))
                attempts.append(attempt)
                if attempt.error and self._when_unsure == "refuse":
                    item = None
                outcome = (
                    self.keeper.fail(admission) if item is None else self.keeper.complete(admission, attempt.values)
                )
                if outcome.status != "retry" or outcome.admission is None:
                    break
                admission = outcome.admission
            return _build_answer(item, outcome, prompt, conditions, fixed, admission.must, attempts)
        except BaseException as error:
            self._abandon_admission(admission, error)
            raise

    def _attempt(self, given: str, prompt: str, generator: Generator, *, look: bool) -> tuple[Item | None, ItemAttempt]:
        """Return one item for a prompt that somebody gave in other words perhaps, and what it shows."""
        item: Item | None = None
        values: ItemValues = {}
        error = ""
        refusal: ContentRefusedError | None = None
        who = "the generator"
        try:
            made = generator.generate(prompt)
            if not isinstance(made, Item):
                raise ModelError(f"it answered with a {type(made).__name__}, and not with an item")
            # Words that were put in say nothing of what was made: they are gone before anything looks at it.
            item, who = clean_item(made, given, prompt), "the classifier"
            values = classify_item(item, self._classifier, self._groups) if look else {}
        except Exception as failure:
            error = _describe_error(who, failure)
            refusal = failure if isinstance(failure, ContentRefusedError) and item is None else None
        return item, ItemAttempt(prompt, values, error, refusal)

    def _abandon_admission(self, admission: Admission, error: BaseException) -> None:
        """Complete an admission whose item will never come."""
        try:
            outcome = self.keeper.fail(admission)
            while outcome.status == "retry" and outcome.admission is not None:
                outcome = self.keeper.fail(outcome.admission)
        except DecisionError:
            return  # It is complete.
        except Exception as second:
            error.add_note(f"the slot of the request could not be given up either: {second}")


def classify_item(item: Item, classifier: Classifier, groups: Mapping[str, Sequence[str]]) -> ItemValues:
    """Return what an item shows, by concept group; an answer that is not a value of its group counts as "cannot tell".

    Raises:
        ModelError: the classifier answers with something else.
    """
    answers = classifier.classify(item)
    if not isinstance(answers, Mapping):
        raise ModelError(f"it answered with a {type(answers).__name__}, and not with values by concept group")
    found = {group: answers.get(group) for group in groups}
    return {group: value if value in groups[group] else None for group, value in found.items()}


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
    reason = "; ".join(filter(None, (outcome.reason, last.error)))
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
        reason,
    )


def _header_name(name: str) -> str:
    """Return a name as a header can hold it: whatever could be taken for something else is percent-encoded."""
    return quote(name, safe=" :+()'")


def _describe_error(who: str, error: Exception) -> str:
    """Return what went wrong, in one line."""
    what = error.message if isinstance(error, EvenhandError) else summarize_error(error)
    if isinstance(error, ContentRefusedError):
        return f"{who} refused: {what} ({error.code})"
    return f"{who} failed: {what}"
