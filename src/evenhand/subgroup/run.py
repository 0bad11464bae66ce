"""One search: the model is asked once, everything after that is counting."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from typing import Any

from evenhand.models import Scorer
from evenhand.schema import People
from evenhand.subgroup.augmented import augmented
from evenhand.subgroup.config import Config
from evenhand.subgroup.exact import examine
from evenhand.subgroup.measures import outcome
from evenhand.subgroup.methods import METHODS
from evenhand.subgroup.result import SubgroupResult

SHARED = ("method", "measure", "against", "control", "confidence", "margin", "support", "least_people", "seed")
"""Settings that a result repeats."""


def run(
    scorer: Scorer,
    people: People,
    config: Config | None = None,
    *,
    progress: Callable[[str, float], None] | None = None,
    **options: Any,
) -> SubgroupResult:
    """Search for subgroups that a model treats differently.

    Args:
        scorer: the model, asked once about everybody.
        people: the people it decides about.
        config: the settings.
        progress: called with what is being done and the share done, 0 to 1.
        **options: settings by name, in place of those in ``config``.

    Returns:
        What stands out. An interrupt (Ctrl-C) or the time limit after the model has answered leaves what can be said
        with the permutations done so far; ``interrupted`` and a note say so.

    Raises:
        EvenhandError: the options make no sense, or the model cannot be asked.
    """
    started = time.perf_counter()
    config = dataclasses.replace(config or Config(), **options)
    say = progress or (lambda what, share: None)
    if config.method != "exact":
        settings = {name: getattr(config, name) for name in SHARED}
        found_by = METHODS[config.method](scorer, people, config, say)
        return SubgroupResult(**settings | found_by, seconds=time.perf_counter() - started)
    stop = None if config.time_limit is None else started + config.time_limit
    say("asking the model", 0.0)
    result = examine(people, lambda: outcome(scorer, people, config.measure), config, progress=say, deadline=stop)
    result = augmented(result, scorer, people, config, say, stop)
    return result.model_copy(update={"seconds": time.perf_counter() - started})
