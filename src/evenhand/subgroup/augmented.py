"""A result with what its rule sets look like around the data."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from evenhand.errors import OptionError
from evenhand.models import Scorer
from evenhand.schema import People
from evenhand.subgroup.around import augment
from evenhand.subgroup.config import Config
from evenhand.subgroup.measures import concerned
from evenhand.subgroup.result import SubgroupResult
from evenhand.subgroup.rules import Rules

MOST_RULE_SETS = 10
"""Findings that are looked at around the data, where no rule sets are asked about."""


def augmented(
    result: SubgroupResult,
    scorer: Scorer,
    people: People,
    config: Config,
    progress: Callable[[str, float], None],
    deadline: float | None = None,
) -> SubgroupResult:
    """The result with ``around`` filled in: for the rule sets asked about, else for the first that stand out alone.

    Rule sets without anybody inside or outside are left out, and a note says so.

    Args:
        result: what was found on the real people.
        scorer, people, config: what it was found with; ``config.augment`` says how, ``config.budget`` for how much.
        progress: called with what is being done and the share done.
        deadline: on the clock of ``time.perf_counter``.

    Raises:
        OptionError: the measure is the mean score, which is not counted.
    """
    if config.augment is None:
        return result
    if config.measure == "score":
        raise OptionError(
            "around the data decisions are counted, so there is no mean score", mend="choose another measure"
        )
    chosen, empty = _rule_sets(result)
    if not chosen and not empty:
        nothing = "Nothing stands out, so nothing was looked at around the data."
        return result.model_copy(update={"notes": (*result.notes, nothing)})
    rows = concerned(people, config.measure)
    among = dataclasses.replace(
        people,
        individuals=people.individuals[rows],
        labels=None if people.labels is None else people.labels[rows],
        rows=people.rows[rows],
    )
    seen = augment(
        scorer,
        among,
        chosen,
        sensitive={*(cells.name for cells in result.attributes), *people.schema.protected},
        how=config.augment,
        refused=config.measure == "false-negative",
        margin=config.margin,
        confidence=config.confidence,
        budget=config.budget,
        deadline=deadline,
        seed=config.seed,
        progress=lambda share: progress("asking around the data", share),
    )
    notes: tuple[str, ...] = (
        f"Around the data: {seen.asked:,} individuals asked about, people in the data with one attribute that is not "
        f"sensitive moved one step. These gaps are the model's around these people; how few people there are does not "
        f"show in them. Their intervals hold together with {config.confidence:.0%} confidence.".replace("%", " %"),
    )
    if empty:
        notes += (f"{empty:,} of the rule sets asked about hold nobody or everybody, so nothing is around them.",)
    return result.model_copy(
        update={
            "around": seen.rule_sets,
            "interrupted": result.interrupted or seen.interrupted,
            "notes": result.notes + notes,
        }
    )


def _rule_sets(result: SubgroupResult) -> tuple[Sequence[Rules], int]:
    """Which rule sets to look at, and how many that were asked about cannot be."""
    if result.judged:
        both = [one.rules for one in result.judged if one.size and one.rest]
        return both, len(result.judged) - len(both)
    alone = [finding.rules for finding in result.findings if finding.found and finding.under is None]
    return alone[:MOST_RULE_SETS], 0
