"""What a configuration promises before anything is made: whether it can be kept, and what that is worth."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from evenhand.genai.feasibility import Feasibility, feasible
from evenhand.genai.labels import LabelWorth, label_worth
from evenhand.genai.settings import Settings, Success, choose, worth
from evenhand.genai.specification import Configuration
from evenhand.stats.quantity import Unknown


@dataclass(frozen=True)
class Check:
    """What a configuration promises.

    Attributes:
        feasibility: whether an obedient generator can keep it for ever.
        labels: what deadlines are worth under the samples of labels, by specification.
        success: how often instructions work.
        settings: what the configured retries and slack are worth; None if the configuration cannot be kept.
        smallest: retries and slack that are enough, or why there are none; None if the configuration cannot be kept.
    """

    feasibility: Feasibility
    labels: tuple[LabelWorth, ...]
    success: Success
    settings: Settings | None
    smallest: Settings | Unknown | None

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it: what ``Feasibility.to_dict`` says, and more."""
        return {
            **self.feasibility.to_dict(),
            "labels": [one.model_dump(mode="json") for one in self.labels],
            "success": self.success.model_dump(mode="json"),
            "settings": _plain(self.settings),
            "smallest": _plain(self.smallest),
        }


def checked(configuration: Configuration, counts: Mapping[str, Mapping[str, int]] | None = None) -> Check:
    """Check a configuration.

    Args:
        configuration: what is to be kept.
        counts: of instructions, by specification, as in ``Enforcer.counts``; as the simulation says unless given.

    Raises:
        DataError: a sample cannot be read.
        OptionError: counts that cannot be.
    """
    found = feasible(configuration)
    success = Success.simulated(configuration) if counts is None else Success.counted(configuration, counts)
    labels = label_worth(configuration)
    if not found.feasible:
        return Check(found, labels, success, None, None)
    in_flight = configuration.simulation.in_flight
    return Check(
        found,
        labels,
        success,
        worth(configuration, success, in_flight=in_flight),
        choose(configuration, success, in_flight=in_flight),
    )


def _plain(one: Settings | Unknown | None) -> dict[str, Any] | None:
    return one.plain() if isinstance(one, Settings) else None if one is None else one.model_dump(mode="json")
