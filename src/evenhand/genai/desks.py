"""Who decides about prompts in a simulation: every policy behind the same two questions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, TypeAlias

from evenhand.genai.core import Admission, Enforcer
from evenhand.genai.published import PublishedRule
from evenhand.genai.simulation import Order, Policy
from evenhand.genai.specification import Configuration
from evenhand.genai.stream import Item

Must: TypeAlias = Mapping[str, tuple[str, ...]]
"""What a prompt asks for: concept group -> values, any of which will do. Empty: it is left alone."""

FREE: Must = {}


class Desk(Protocol):
    """Admits requests and takes their items."""

    @property
    def order(self) -> Order:
        """Whose order the sequence of items has that this policy keeps."""

    @property
    def reported(self) -> int | None:
        """Violations that the policy knows of; None if it keeps no account."""

    def admit(self, conditions: frozenset[str]) -> tuple[Any, Must]:
        """A request comes; what is to be handed back with its item, and what its prompt asks for."""

    def complete(self, ticket: Any, item: Item) -> tuple[Any, Must] | None:
        """An item is there. None: it is delivered; else it is thrown away and made again, as after ``admit``."""


class Free:
    """Leaves every prompt alone."""

    order: Order = "requests"
    reported: int | None = None

    def admit(self, conditions: frozenset[str]) -> tuple[Any, Must]:
        return None, FREE

    def complete(self, ticket: Any, item: Item) -> None:
        return None


class Published:
    """The published counters, one set for each requirement; they move when an item is delivered.

    Where two of them ask for different values of one group, the first is listened to.
    """

    order: Order = "decisions"
    reported: int | None = None

    def __init__(self, configuration: Configuration, *, seed: int) -> None:
        self._rules = [
            (requirement, PublishedRule(requirement.repeated, seed=seed))
            for requirement in configuration.requirements
            if requirement.repeated is not None
        ]

    def admit(self, conditions: frozenset[str]) -> tuple[frozenset[str], Must]:
        must: dict[str, tuple[str, ...]] = {}
        for requirement, rule in self._rules:
            asked = rule.asks() if requirement.condition in conditions else None
            if asked is None:
                continue
            for group, values, place in zip(
                requirement.groups, requirement.values, requirement.combinations[asked], strict=True
            ):
                must.setdefault(group, (values[place],))
        return conditions, must

    def complete(self, ticket: frozenset[str], item: Item) -> None:
        for requirement, rule in self._rules:
            if requirement.condition not in ticket:
                continue
            shown = [item[group] for group in requirement.groups]
            known = [value for value in shown if value is not None]
            rule.shown(requirement.labels.index(" + ".join(known)) if len(known) == len(shown) else None)


class Kept:
    """The enforcer, in one of its two modes."""

    def __init__(self, enforcer: Enforcer) -> None:
        self._enforcer = enforcer
        self.order: Order = "requests" if enforcer.mode == "before" else "decisions"

    @property
    def reported(self) -> int | None:
        return sum(one["missed"] for one in self._enforcer.counts.values())

    def admit(self, conditions: frozenset[str]) -> tuple[Admission, Must]:
        admission = self._enforcer.admit(conditions)
        return admission, admission.must

    def complete(self, ticket: Admission, item: Item) -> tuple[Admission, Must] | None:
        again = self._enforcer.complete(ticket, item).admission
        return None if again is None else (again, again.must)


def desk_for(policy: Policy, configuration: Configuration, *, in_flight: int, seed: int) -> Desk:
    """The desk of a policy, for so many requests in flight.

    Raises:
        OptionError: the configuration cannot be kept, and the policy is one that keeps it.
    """
    if policy == "free":
        return Free()
    if policy == "published":
        return Published(configuration, seed=seed)
    return Kept(Enforcer(configuration, mode=policy, seed=seed, in_flight=in_flight))
