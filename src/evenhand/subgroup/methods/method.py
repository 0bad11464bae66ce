"""What a published method is given and gives."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from typing import Any, Protocol

from evenhand.errors import OptionError
from evenhand.models import Scorer
from evenhand.schema import People
from evenhand.subgroup.cells import Cut
from evenhand.subgroup.config import Config
from evenhand.subgroup.result import Cells


class Published(Protocol):
    """One search by a published method."""

    def __call__(
        self, scorer: Scorer, people: People, config: Config, progress: Callable[[str, float], None]
    ) -> dict[str, Any]:
        """Everything of a ``SubgroupResult`` that depends on the method.

        Raises:
            OptionError: the method does not know an option that was set.
        """
        ...


def check(config: Config, *measures: str, deaf_to: Collection[str] = ()) -> None:
    """Refuse what a published method does not know, instead of ignoring it.

    Args:
        config: the options.
        measures: what the method can compare.
        deaf_to: options that must be left at their defaults, besides ``split``, ``per``, ``judged``, ``against`` and
            ``augment``, which no published method knows.
    """
    if config.measure not in measures:
        raise OptionError(
            f"the method {config.method!r} does not compare by {config.measure!r}",
            mend=f"one of: {', '.join(measures)}; or the method 'exact'",
        )
    default = Config()
    for name in ("split", "per", "judged", "against", "augment", *deaf_to):
        if getattr(config, name) != getattr(default, name):
            option = "judge" if name == "judged" else name.replace("_", "-")
            raise OptionError(
                f"the published method {config.method!r} has no option {option!r}",
                mend="leave it out, or use the method 'exact'",
            )


def sensitive(people: People, config: Config) -> tuple[str, ...]:
    """The names of the sensitive attributes."""
    return tuple(config.attributes or people.schema.protected)


def described(cuts: Collection[Cut]) -> tuple[Cells, ...]:
    """The cuts as a result shows them."""
    return tuple(Cells(name=cut.attribute, cells=cut.names, ordered=cut.ordered) for cut in cuts)


def deadline(config: Config) -> float | None:
    """When time is up, on the clock of ``time.perf_counter``."""
    return None if config.time_limit is None else time.perf_counter() + config.time_limit
