"""Judge recorded sequences of a generator: eventual and repeated appearance, longest wait, frequencies, coverage.

The items whose condition holds are taken in the order of their requests, those not recognised are left out, and the
rest is numbered from 1 to L. Deadlines are read as Cheng et al. read them for finite sequences ("Conditional Fairness
for Generative AIs", definition 10): a value must come among the first beta items, and after each appearance within the
next beta; a deadline after L has not passed and violates nothing. A sequence no longer than beta shows nothing.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise, product
from typing import TYPE_CHECKING, Any

import numpy as np

from evenhand.core.text import format_count
from evenhand.errors import LimitError, OptionError
from evenhand.genai.assessment.result import (
    CoverageFinding,
    GenaiAssessment,
    GroupFinding,
    MissingCombination,
    SequenceFinding,
    SpecificationVerdict,
    ValueFinding,
    VerdictKind,
    VerdictValue,
)
from evenhand.genai.assessment.sequences import RecordedSequence
from evenhand.stats.level import bonferroni
from evenhand.stats.proportion import clopper_pearson, observed_rates
from evenhand.stats.quantity import Observed, Proved, Quantity, Unknown

if TYPE_CHECKING:
    from evenhand.genai.assessment.sequences import RecordedSequence


DeadlineLengths = int | Sequence[int]
MAX_VALUES = 10_000
"""Values of several groups taken together that are judged one by one."""


def longest_wait(appearances: Sequence[int], length: int) -> int:
    """Return the smallest beta by which no deadline up to the end is missed, for a value that appears at these items.

    It is the largest of: the number of the first item that shows it, the distances between one and the next, and the
    distance from the last to one past the end. Without any appearance: length + 1.
    """
    stops = [0, *appearances, length + 1]
    # Beyond the last item nothing is due: if the value is the last item, the wait there is 1, as it must be.
    return max(after - before for before, after in pairwise(stops))


def smallest_beta(appearances: Sequence[int], length: int) -> int | None:
    """Return the smallest beta with which the sequence is fair to a value; None if it is with none.

    Args:
        appearances: numbers of the items that show it, from 1, ascending.
        length: of how many items.
    """
    wait = longest_wait(appearances, length)
    return wait if wait < length else None


def missed_deadlines(appearances: Sequence[int], length: int, beta: int) -> tuple[int, ...]:
    """Return the numbers of the items at which a value was due and did not come: while it stays away, every beta."""
    stops = [0, *appearances, length + 1]
    return tuple(due for before, after in pairwise(stops) for due in range(before + beta, after, beta))


def judge_appearances(appearances: Sequence[Sequence[int]], length: int, beta: Sequence[int] | None) -> VerdictValue:
    """Return whether values with these appearances come, or come again and again within beta."""
    if length == 0:
        return "unknown"
    if beta is None:
        return "holds" if all(appearances) else "violated"
    if any(missed_deadlines(own, length, limit) for own, limit in zip(appearances, beta, strict=True)):
        return "violated"
    return "holds" if length > max(beta) else "unknown"


def frequency_bound(values: int, beta: int) -> float:
    """At most how much two frequencies differ in an endless sequence with equal beta: 1 - values / beta.

    Every value has a frequency of at least 1 / beta, so one has at most 1 - (values - 1) / beta, and another has at
    least 1 / beta (the lemma on equal beta of Cheng et al.).
    """
    return 1 - values / beta


def finite_frequency_bound(values: int, beta: int, length: int) -> float:
    """The same for the first ``length`` items of a fair sequence: each value is among every beta items in a row."""
    return 1 - values * (length // beta) / length


def assess_sequences(
    sequences: Sequence[RecordedSequence],
    *,
    repeated: DeadlineLengths | Mapping[str | tuple[str, ...], DeadlineLengths] | None = None,
    ways: int | None = None,
    together: Sequence[Sequence[str]] = (),
    confidence: float = 0.95,
    conditions: Mapping[str, str] | None = None,
    source: str = "recorded items",
) -> GenaiAssessment:
    """Judge sequences: every group by itself, and combinations of groups.

    Args:
        sequences: what the generator answered.
        repeated: within how many items each value must come, and come again. One number, one per value, or these per
            group; a tuple of groups is judged by the values they have together. None: nothing is asked, and the least
            that would hold is reported all the same.
        ways: coverage of combinations of so many groups; 2 where there are several groups.
        together: groups to judge together even though no beta is asked.
        confidence: of the intervals, each for itself. They are for items drawn independently, which those of a
            generator that is told to vary are not.
        conditions: column -> value, what the items were asked for, as the result shows it.
        source: where the sequences come from.

    Raises:
        OptionError: a beta is not a positive number, there is not one per value, or a group is not there.
        LimitError: too many combinations.
    """
    started = time.perf_counter()
    if not sequences:
        raise OptionError("there is no sequence to assess")
    betas = _deadlines_by_groups(repeated, sequences[0])
    sets = list(dict.fromkeys([*(key for key in betas if len(key) > 1), *map(tuple, together)]))
    for groups in [*betas, *sets]:
        _check_groups(groups, sequences[0])
    found = tuple(_assess_sequence(recorded, betas, sets, ways, confidence) for recorded in sequences)
    return GenaiAssessment(
        seed=0,
        seconds=time.perf_counter() - started,
        source=source,
        conditions=dict(conditions or {}),
        confidence=confidence,
        sequences=found,
    )


def _deadlines_by_groups(
    repeated: DeadlineLengths | Mapping[str | tuple[str, ...], DeadlineLengths] | None, recorded: RecordedSequence
) -> dict[tuple[str, ...], DeadlineLengths]:
    if repeated is None:
        return {}
    if not isinstance(repeated, Mapping):
        return {(group,): repeated for group in recorded.labels}
    return {(key,) if isinstance(key, str) else tuple(key): beta for key, beta in repeated.items()}


def _check_groups(groups: tuple[str, ...], recorded: RecordedSequence) -> None:
    for group in groups:
        if group not in recorded.labels:
            raise OptionError(f"there is no group {group!r}", hint=f"groups: {', '.join(recorded.labels)}")
    if len(set(groups)) != len(groups):
        raise OptionError(f"a group is named twice: {' + '.join(groups)}")


def _assess_sequence(
    recorded: RecordedSequence,
    betas: Mapping[tuple[str, ...], DeadlineLengths],
    sets: Sequence[tuple[str, ...]],
    ways: int | None,
    confidence: float,
) -> SequenceFinding:
    groups: list[GroupFinding] = []
    verdicts: list[SpecificationVerdict] = []
    for key in [*((group,) for group in recorded.labels), *sets]:
        beta = None if key not in betas else _deadline_per_value(betas[key], _count_combined_values(recorded, key), key)
        finding = assess_group(recorded, key, beta, confidence)
        groups.append(finding)
        verdicts += [judge_group(finding, one) for one in ([None] if beta is None else [None, beta])]
    covered = None
    if ways is not None or len(recorded.labels) > 1:
        covered = find_coverage(recorded, ways or 2)
        if len(recorded.labels) > 1:
            verdicts += _judge_combinations(recorded, covered, sets)
    return SequenceFinding(
        name=recorded.name,
        items=len(recorded),
        groups=tuple(groups),
        verdicts=tuple(verdicts),
        coverage=covered,
        files=recorded.files,
    )


def _deadline_per_value(beta: DeadlineLengths, values: int, groups: tuple[str, ...]) -> tuple[int, ...]:
    many = (beta,) * values if isinstance(beta, int) else tuple(beta)
    name = " + ".join(groups)
    if len(many) != values:
        raise OptionError(f"{len(many)} betas for the {values} values of {name}", hint="one number, or one per value")
    for one in many:
        if one < 1:
            raise OptionError(f"beta {one} for {name}", hint="a value comes within 1 or more items")
    return many


def _count_combined_values(recorded: RecordedSequence, groups: Sequence[str]) -> int:
    """Return how many values groups have together.

    Raises:
        LimitError: too many.
    """
    number = math.prod(len(recorded.values[group]) for group in groups)
    if number > MAX_VALUES:
        raise LimitError(f"{' + '.join(groups)} have {number:,} values together", hint="fewer values or groups")
    return number


def assess_group(
    recorded: RecordedSequence, groups: tuple[str, ...], beta: tuple[int, ...] | None, confidence: float
) -> GroupFinding:
    """Return how the values of groups, taken together, appear; the last group's values change fastest.

    Args:
        beta: one per value, or None.
        confidence: of the intervals.

    Raises:
        LimitError: the groups have too many values together.
    """
    _count_combined_values(recorded, groups)
    names = list(product(*(recorded.values[group] for group in groups)))
    column = recorded.column(groups)
    items = tuple(i + 1 for i, values in enumerate(column) if values is not None)
    length = len(items)
    at: dict[tuple[str, ...], list[int]] = {values: [] for values in names}
    for number, item in enumerate(items, start=1):
        shown = column[item - 1]
        if shown is not None:
            at[shown].append(number)
    left_out = _left_out(recorded, groups, [values is not None for values in column])
    counts = [len(own) for own in at.values()]
    rates = observed_rates(counts, [length] * len(names), confidence, if_empty="no item is recognised")
    values = tuple(
        ValueFinding(
            value=" + ".join(name),
            appearances=tuple(own),
            longest_wait=longest_wait(own, length),
            smallest_beta=smallest_beta(own, length),
            beta=None if beta is None else beta[k],
            missed=() if beta is None else missed_deadlines(own, length, beta[k]),
            frequency=rate,
        )
        for k, ((name, own), rate) in enumerate(zip(at.items(), rates, strict=True))
    )
    betas = [value.smallest_beta for value in values]
    known = [one for one in betas if one is not None]
    least = max(known) if len(known) == len(betas) else None
    equal = least
    if beta is not None and len(set(beta)) == 1 and judge_appearances(list(at.values()), length, beta) == "holds":
        equal = beta[0]
    return GroupFinding(
        groups=groups,
        items=items,
        **left_out,
        values=values,
        smallest_beta=least,
        difference=_frequency_difference(counts, length, confidence),
        bound=_bound_quantity(len(names), equal, None),
        bound_here=_bound_quantity(len(names), equal, length),
    )


def _left_out(recorded: RecordedSequence, groups: tuple[str, ...], recognised: Sequence[bool]) -> dict[str, Any]:
    """Count the items that do not count for groups, each under one reason."""
    outside: Counter[str] = Counter()
    fixed = biased = unrecognised = 0
    for i, known in enumerate(recognised):
        if known:
            continue
        others = [
            label if len(groups) == 1 else f"{group} {label}"
            for group in groups
            if (label := recorded.labels[group][i]) is not None and label not in recorded.values[group]
        ]
        if any(i in recorded.biased.get(group, ()) for group in groups):
            biased += 1
        elif any(i in recorded.fixed.get(group, ()) for group in groups):
            fixed += 1
        elif others:
            outside.update(others[:1])
        else:
            unrecognised += 1
    return {"unrecognised": unrecognised, "outside": dict(outside.most_common()), "fixed": fixed, "biased": biased}


def find_coverage(recorded: RecordedSequence, ways: int) -> CoverageFinding:
    """Return coverage of the combinations of so many groups.

    Raises:
        OptionError: there are fewer groups.
        LimitError: too many combinations.
    """
    seen = combination_coverage(recorded, ways=ways)
    return CoverageFinding(
        ways=seen.ways,
        total=seen.total,
        share=seen.share,
        curve=tuple(count / seen.total for count in seen.seen),
        missing=tuple(MissingCombination(groups=choice, values=values) for choice, values in seen.missing),
    )


def _frequency_difference(counts: Sequence[int], length: int, confidence: float) -> Quantity:
    """The largest difference of two frequencies. Its interval follows from those of all values, taken together."""
    if length == 0:
        return Unknown(reason="no item is recognised")
    low, high = clopper_pearson(counts, np.full(len(counts), length), bonferroni(confidence, len(counts)))
    return Observed(
        value=(max(counts) - min(counts)) / length,
        n=length,
        low=max(0.0, float(low.max() - high.min())),
        high=float(high.max() - low.min()),
        confidence=confidence,
        method="Clopper-Pearson of every value, Bonferroni",
    )


def _bound_quantity(values: int, beta: int | None, length: int | None) -> Quantity:
    if beta is None:
        return Unknown(reason="a value never appears, or the sequence is too short for it")
    if length is None:
        return Proved(
            value=frequency_bound(values, beta),
            how=f"as 1 - {values}/{beta}, while every value comes within {beta} items",
        )
    share = finite_frequency_bound(values, beta, length)
    return Proved(value=share, how=f"since each value comes at least {length // beta:,} times in {length:,} items")


def judge_group(group: GroupFinding, beta: tuple[int, ...] | None, name: str | None = None) -> SpecificationVerdict:
    """Return whether every value appears, or again and again within beta.

    Args:
        name: of the specification, if it has one.
    """
    length = len(group.items)
    found = judge_appearances([value.appearances for value in group.values], length, beta)
    kind: VerdictKind = (
        ("eventual" if beta is None else "repeated") if len(group.groups) == 1 else _coverage_kind(len(group.groups))
    )
    fault: tuple[str, ...] = ()
    if length == 0:
        why = "no item is recognised"
    elif beta is None:
        fault = tuple(value.value for value in group.values if not value.appearances)
        why = f"never: {_join_names(fault)}" if fault else f"{len(group.values)} values in {length:,} items"
    else:
        fault = tuple(value.value for value in group.values if value.missed)
        count = sum(len(value.missed) for value in group.values)
        overdue = [(value.value, group.items[value.overdue - 1]) for value in group.values if value.overdue]
        late = [f"{value} since item {item:,}" for value, item in overdue]
        if found == "violated":
            why = f"{format_count(count, 'deadline', 'deadlines')} missed by {_join_names(fault)}"
            why += f"; overdue at the end: {_join_names(late)}" if late else ""
        elif found == "unknown":
            why = f"nothing was missed, but {length:,} items are not more than {max(beta):,}"
        else:
            why = f"no deadline was missed in {length:,} items"
    values = () if beta is None else tuple(value.value for value in group.values)
    return SpecificationVerdict(
        name=name, groups=group.groups, kind=kind, beta=beta, values=values, verdict=found, at_fault=fault, why=why
    )


def _judge_combinations(
    recorded: RecordedSequence, covered: CoverageFinding, judged: Sequence[tuple[str, ...]]
) -> list[SpecificationVerdict]:
    """Whether all combinations of each choice of groups appear, for choices that are not judged by themselves."""
    missing: dict[tuple[str, ...], list[str]] = {}
    for one in covered.missing:
        missing.setdefault(one.groups, []).append(" + ".join(one.values))
    found = []
    for choice in combinations(recorded.labels, covered.ways):
        if choice in judged:
            continue
        total = math.prod(len(recorded.values[group]) for group in choice)
        known = any(recorded.column(choice))
        fault = tuple(missing.get(choice, ())) if known else ()
        found.append(
            SpecificationVerdict(
                groups=choice,
                kind=_coverage_kind(len(choice)),
                beta=None,
                verdict="violated" if fault else "holds" if known else "unknown",
                at_fault=fault,
                why=f"{total - len(fault):,} of {total:,} combinations appear" if known else "no item is recognised",
            )
        )
    return found


def _coverage_kind(ways: int) -> VerdictKind:
    return "paired" if ways == 2 else "k-way"


def _join_names(names: Sequence[str], most: int = 6) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most:,} more" if len(names) > most else "")


# Which combinations of values of several groups have appeared, item by item, and which are missing.

MAX_COMBINATIONS = 1_000_000
"""Combinations that are kept track of."""


@dataclass(frozen=True)
class CombinationCoverage:
    """How the share of combinations seen grows with the items.

    Attributes:
        ways: groups in a combination.
        total: combinations there are: over every choice of so many groups, the product of their numbers of values.
        seen: combinations seen among the first 1, 2, ... items.
        missing: (groups, values) that no item shows.
    """

    ways: int
    total: int
    seen: tuple[int, ...]
    missing: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]

    @property
    def share(self) -> float:
        """The share of all combinations that the whole sequence shows."""
        return (self.seen[-1] if self.seen else 0) / self.total


def combination_coverage(recorded: RecordedSequence, *, ways: int = 2) -> CombinationCoverage:
    """Return all-pairs coverage, or of larger combinations.

    An item counts for every choice of groups in which it is recognised, also if it is not in others. With two ways this
    is the normalised all-paired fairness of Cheng et al., "Conditional Fairness for Generative AIs", definition 9.

    Raises:
        OptionError: there are fewer groups than ways, or fewer ways than 2.
        LimitError: more combinations than can be kept track of.
    """
    groups = list(recorded.labels)
    if not 2 <= ways <= len(groups):
        raise OptionError(
            f"combinations of {ways} groups among {len(groups)}",
            hint="combinations are of 2 or more groups, and no more than there are",
        )
    choices = list(combinations(groups, ways))
    total = sum(math.prod(len(recorded.values[group]) for group in choice) for choice in choices)
    if total > MAX_COMBINATIONS:
        raise LimitError(f"{total:,} combinations of {ways} groups", hint="fewer values, groups or ways")
    found: set[tuple[int, tuple[str, ...]]] = set()
    seen = []
    for row in zip(*(recorded.column(choice) for choice in choices), strict=True):
        found |= {(i, values) for i, values in enumerate(row) if values is not None}
        seen.append(len(found))
    missing = (
        (choice, values)
        for i, choice in enumerate(choices)
        for values in product(*(recorded.values[group] for group in choice))
        if (i, values) not in found
    )
    return CombinationCoverage(ways, total, tuple(seen), tuple(missing))
