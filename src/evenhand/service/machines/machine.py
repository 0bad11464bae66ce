"""The protocol of everything that is kept: a state, and operations that change it the same way every time."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Protocol, TypeAlias, runtime_checkable

Operation: TypeAlias = Mapping[str, Any]
"""What is done: ``{"op": NAME, ...}``, as JSON can hold it."""


class Machine(Protocol):
    """Takes one operation after another; the same state, operation and number give the same output on any machine.

    That is what a replay of the log rests on: no clock, no randomness but that of the entry's number.
    """

    @property
    def kind(self) -> str:
        """``shield`` or ``guard``."""
        ...

    @property
    def digest(self) -> str:
        """Of the policy or configuration that decides; a log belongs to one."""
        ...

    @property
    def configuration(self) -> Mapping[str, Any]:
        """From which the machine can be built again; kept in the log's first entry."""
        ...

    def state(self) -> dict[str, Any]:
        """Everything that changes, as JSON can hold it."""
        ...

    def load(self, state: Mapping[str, Any]) -> None:
        """Take up a state that `state` gave.

        Raises:
            DecisionError: it is none of this machine.
        """
        ...

    def holders(self, state: Mapping[str, Any]) -> Collection[str]:
        """The replicas that have something open in a state that `state` gave; if one dies, that is abandoned.

        It depends on the argument alone, and any thread may ask.
        """
        ...

    def before(self, operation: Operation) -> Mapping[str, Any]:
        """The counters that the log shows beside an operation, as they stand before it."""
        ...

    def apply(self, operation: Operation, number: int) -> dict[str, Any]:
        """Carry an operation out.

        Args:
            operation: what is done.
            number: of its entry in the log, from 1.

        Returns:
            What the caller is told, and the log keeps.

        Raises:
            DecisionError, OptionError: the operation makes no sense; nothing changed.
        """
        ...


@runtime_checkable
class Planner(Protocol):
    """A machine that makes plans as it goes, which may take long: they are made outside transactions, ahead of time."""

    def ahead(self, state: Mapping[str, Any] | None = None) -> Callable[[], None] | None:
        """What makes the plan that the next operation needs, where that is not made yet; else None.

        While it runs, in whatever thread, the machine must rest.

        Args:
            state: to be loaded before the next operation; by default the machine goes on from its own.
        """
        ...
