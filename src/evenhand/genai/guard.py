"""A generator with a guard around it: a prompt goes in, and an item comes out that keeps every deadline.

The guard does what an enforcer only decides: it asks the judge what the prompt is about, changes the prompt where it
must, has the item made and looked at, and made again where it must. It never leaves a step out silently: where the
judge or the classifier fails, it does what was configured, and says so in the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from threading import RLock
from typing import Any, Literal, Protocol, TypeAlias

from evenhand.genai.backends import Generator, Item, instruct
from evenhand.genai.classify import Classifier
from evenhand.genai.core import Admission, Enforcer, Must, Outcome
from evenhand.genai.equipment import WhenUnsure
from evenhand.genai.judge import Judge

AnswerStatus: TypeAlias = Literal["ok", "violation", "unguarded", "refused"]
Values: TypeAlias = Mapping[str, str | None]


class Keeper(Protocol):
    """What decides: an ``Enforcer``, or something that keeps its rows elsewhere."""

    def admit(
        self,
        conditions: Collection[str],
        *,
        fixed: Collection[str] = (),
        prefer: Mapping[str, Sequence[str]] | None = None,
    ) -> Admission:
        """Admit a request; as ``Enforcer.admit``."""
        ...

    def complete(self, admission: Admission, values: Values) -> Outcome:
        """The item of an admission is known; as ``Enforcer.complete``."""
        ...

    def fail(self, admission: Admission) -> Outcome:
        """There is no item; as ``Enforcer.fail``."""
        ...


class Locked:
    """An enforcer for several threads: one at a time."""

    def __init__(self, enforcer: Enforcer) -> None:
        self.enforcer = enforcer
        self._lock = RLock()

    def admit(
        self,
        conditions: Collection[str],
        *,
        fixed: Collection[str] = (),
        prefer: Mapping[str, Sequence[str]] | None = None,
    ) -> Admission:
        """As ``Enforcer.admit``."""
        with self._lock:
            return self.enforcer.admit(conditions, fixed=fixed, prefer=prefer)

    def complete(self, admission: Admission, values: Values) -> Outcome:
        """As ``Enforcer.complete``."""
        with self._lock:
            return self.enforcer.complete(admission, values)

    def fail(self, admission: Admission) -> Outcome:
        """As ``Enforcer.fail``."""
        with self._lock:
            return self.enforcer.fail(admission)

    def state(self) -> dict[str, dict[str, Any]]:
        """As ``Enforcer.state``."""
        with self._lock:
            return self.enforcer.state()


@dataclass(frozen=True)
class Attempt:
    """One item that was asked for.

    Attributes:
        prompt: as it was sent.
        values: what the item shows, by concept group; empty if nobody looked.
        error: why there is no item, or no answer about it; empty if nothing went wrong.
        seconds: that making and looking took; None without a clock.
    """

    prompt: str
    values: Values = field(default_factory=dict)
    error: str = ""
    seconds: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return {"prompt": self.prompt, "values": dict(self.values), "error": self.error, "seconds": self.seconds}


@dataclass(frozen=True)
class Answer:
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
    must: Must = field(default_factory=dict)
    slots: Mapping[str, int] = field(default_factory=dict)
    attempts: tuple[Attempt, ...] = ()
    reason: str = ""

    @property
    def values(self) -> Values:
        """What the item shows, by concept group; empty if nobody looked."""
        return self.attempts[-1].values if self.attempts else {}

    @property
    def disclosure(self) -> str:
        """What was done to the request, in one line of ASCII that a header can hold."""
        raise NotImplementedError

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it, without the item's bytes."""
        raise NotImplementedError


class Guard:
    """Keeps a generator from missing deadlines.

    Threads may share one if they may share its keeper; an ``Enforcer`` is put behind a lock. Items are made and looked
    at outside of it.

    Args:
        keeper: decides; an ``Enforcer``, for one.
        generator: makes items.
        classifier: looks at them.
        judge: reads prompts.
        groups: the values of every concept group; whatever else a classifier answers counts as "cannot tell".
        when_unsure: ``refuse``: no item is made if the judge fails, and none is delivered that the classifier failed
            at; ``pass``: the item is delivered, and counts as showing nothing.
        instruct: puts what must be asked for into a prompt.
        clock: seconds; without one nothing is timed.
    """

    def __init__(
        self,
        keeper: Keeper,
        generator: Generator,
        classifier: Classifier,
        judge: Judge,
        *,
        groups: Mapping[str, Sequence[str]],
        when_unsure: WhenUnsure = "refuse",
        instruct: Callable[[str, Must], str] = instruct,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self.keeper: Keeper = Locked(keeper) if isinstance(keeper, Enforcer) else keeper
        self._generator, self._classifier, self._judge = generator, classifier, judge
        self._groups = {group: tuple(values) for group, values in groups.items()}
        self._when_unsure = when_unsure
        self._instruct = instruct
        self._clock = clock

    def answer(
        self, prompt: str, *, generator: Generator | None = None, prefer: Mapping[str, Sequence[str]] | None = None
    ) -> Answer:
        """An item for a prompt.

        Args:
            prompt: as the user wrote it.
            generator: for this prompt alone.
            prefer: for a concept group the values that change the prompt least, best first.
        """
        raise NotImplementedError
