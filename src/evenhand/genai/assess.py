"""Judge recorded sequences of a generator: eventual and repeated appearance, least beta, frequencies, coverage.

The items whose condition holds are taken in the order of their requests, those not recognised are left out, and the
rest is numbered from 1 to L. Deadlines are read as Cheng et al. read them for finite sequences ("Conditional Fairness
for Generative AIs", definition 10): a value must come among the first beta items, and after each appearance within the
next beta; a deadline after L has not passed and violates nothing. A sequence no longer than beta shows nothing.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from itertools import combinations, pairwise, product

import numpy as np

from evenhand.errors import LimitError, OptionError
from evenhand.genai.assessment import (
    CoverageFinding,
    Found,
    GenaiAssessment,
    GroupFinding,
    Kind,
    Missing,
    SequenceFinding,
    ValueFinding,
    Verdict,
)
from evenhand.genai.coverage import coverage
from evenhand.genai.sequence import Recorded
from evenhand.stats import Observed, Proved, Quantity, Unknown, bonferroni, clopper_pearson, observed_rates

Beta = int | Sequence[int]
MOST_VALUES = 10_000
"""Values of several groups taken together that are judged one by one."""


def longest_wait(appearances: Sequence[int], length: int) -> int:
    """The least beta by which no deadline up to the end is missed, for a value that appears at these items.

    It is the largest of: the number of the first item that shows it, the distances between one and the next, and the
    distance from the last to one past the end. Without any appearance: length + 1.
    """
    stops = [0, *appearances, length + 1]
    # Beyond the last item nothing is due: if the value is the last item, the wait there is 1, as it must be.
    return max(after - before for before, after in pairwise(stops))


def least_beta(appearances: Sequence[int], length: int) -> int | None:
    """The least beta with which the sequence is fair to a value; None if it is with none.

    Args:
        appearances: numbers of the items that show it, from 1, ascending.
        length: of how many items.
    """
    wait = longest_wait(appearances, length)
    return wait if wait < length else None


def missed(appearances: Sequence[int], length: int, beta: int) -> tuple[int, ...]:
    """Numbers of the items at which a value was due, and had not come since it was last seen."""
    stops = [0, *appearances, math.inf]
    return tuple(
        int(before + beta) for before, after in pairwise(stops) if after > before + beta and before + beta <= length
    )


def verdict(appearances: Sequence[Sequence[int]], length: int, beta: Sequence[int] | None) -> Found:
    """Whether values with these appearances come, or come again and again within beta."""
    if length == 0:
        return "unknown"
    if beta is None:
        return "holds" if all(appearances) else "violated"
    if any(missed(own, length, limit) for own, limit in zip(appearances, beta, strict=True)):
        return "violated"
    return "holds" if length > max(beta) else "unknown"


def bound(values: int, beta: int) -> float:
    """At most how much two frequencies differ in an endless sequence with equal beta: 1 - values / beta.

    Every value has a frequency of at least 1 / beta, so one has at most 1 - (values - 1) / beta, and another has at
    least 1 / beta (the lemma on equal beta of Cheng et al.).
    """
    return 1 - values / beta


def bound_here(values: int, beta: int, length: int) -> float:
    """The same for the first ``length`` items of a fair sequence: each value is among every beta items in a row."""
    return 1 - values * (length // beta) / length


def assess(
    sequences: Sequence[Recorded],
    *,
    repeated: Beta | Mapping[str | tuple[str, ...], Beta] | None = None,
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
        OptionError: a beta is no positive number, there is not one per value, or a group is not there.
        LimitError: too many combinations.
    """
    started = time.perf_counter()
    if not sequences:
        raise OptionError("there is no sequence to assess")
    betas = _by_group(repeated, sequences[0])
    sets = list(dict.fromkeys([*(key for key in betas if len(key) > 1), *map(tuple, together)]))
    for groups in [*betas, *sets]:
        _check(groups, sequences[0])
    found = tuple(_sequence(recorded, betas, sets, ways, confidence) for recorded in sequences)
    return GenaiAssessment(
        seed=0,
        seconds=time.perf_counter() - started,
        source=source,
        conditions=dict(conditions or {}),
        confidence=confidence,
        sequences=found,
    )


def _by_group(
    repeated: Beta | Mapping[str | tuple[str, ...], Beta] | None, recorded: Recorded
) -> dict[tuple[str, ...], Beta]:
    if repeated is None:
        return {}
    if not isinstance(repeated, Mapping):
        return {(group,): repeated for group in recorded.labels}
    return {(key,) if isinstance(key, str) else tuple(key): beta for key, beta in repeated.items()}


def _check(groups: tuple[str, ...], recorded: Recorded) -> None:
    for group in groups:
        if group not in recorded.labels:
            raise OptionError(f"there is no group {group!r}", mend=f"groups: {', '.join(recorded.labels)}")
    if len(set(groups)) != len(groups):
        raise OptionError(f"a group is named twice: {' + '.join(groups)}")


def _sequence(
    recorded: Recorded,
    betas: Mapping[tuple[str, ...], Beta],
    sets: Sequence[tuple[str, ...]],
    ways: int | None,
    confidence: float,
) -> SequenceFinding:
    groups: list[GroupFinding] = []
    verdicts: list[Verdict] = []
    for key in [*((group,) for group in recorded.labels), *sets]:
        beta = None if key not in betas else _per_value(betas[key], _together(recorded, key), key)
        finding = group_finding(recorded, key, beta, confidence)
        groups.append(finding)
        verdicts += [judge_group(finding, one) for one in ([None] if beta is None else [None, beta])]
    covered = None
    if ways is not None or len(recorded.labels) > 1:
        covered = covered_by(recorded, ways or 2)
        if len(recorded.labels) > 1:
            verdicts += _combined(recorded, covered, sets)
    return SequenceFinding(
        name=recorded.name,
        items=len(recorded),
        groups=tuple(groups),
        verdicts=tuple(verdicts),
        coverage=covered,
        files=recorded.files,
    )


def _per_value(beta: Beta, values: int, groups: tuple[str, ...]) -> tuple[int, ...]:
    many = (beta,) * values if isinstance(beta, int) else tuple(beta)
    name = " + ".join(groups)
    if len(many) != values:
        raise OptionError(f"{len(many)} betas for the {values} values of {name}", mend="one number, or one per value")
    for one in many:
        if one < 1:
            raise OptionError(f"beta {one} for {name}", mend="a value comes within 1 or more items")
    return many


def _together(recorded: Recorded, groups: Sequence[str]) -> int:
    """How many values groups have together.

    Raises:
        LimitError: too many.
    """
    number = math.prod(len(recorded.values[group]) for group in groups)
    if number > MOST_VALUES:
        raise LimitError(f"{' + '.join(groups)} have {number:,} values together", mend="fewer values or groups")
    return number


def group_finding(
    recorded: Recorded, groups: tuple[str, ...], beta: tuple[int, ...] | None, confidence: float
) -> GroupFinding:
    """How the values of groups, taken together, appear; the last group's values change fastest.

    Args:
        beta: one per value, or None.
        confidence: of the intervals.

    Raises:
        LimitError: the groups have too many values together.
    """
    _together(recorded, groups)
    names = list(product(*(recorded.values[group] for group in groups)))
    column = recorded.column(groups)
    items = tuple(i + 1 for i, values in enumerate(column) if values is not None)
    length = len(items)
    at: dict[tuple[str, ...], list[int]] = {values: [] for values in names}
    for number, item in enumerate(items, start=1):
        shown = column[item - 1]
        if shown is not None:
            at[shown].append(number)
    biased = len(frozenset[int]().union(*(recorded.biased.get(group, ()) for group in groups)))
    counts = [len(own) for own in at.values()]
    rates = observed_rates(counts, [length] * len(names), confidence, if_empty="no item is recognised")
    values = tuple(
        ValueFinding(
            value=" + ".join(name),
            appearances=tuple(own),
            longest_wait=longest_wait(own, length),
            least_beta=least_beta(own, length),
            beta=None if beta is None else beta[k],
            missed=() if beta is None else missed(own, length, beta[k]),
            frequency=rate,
        )
        for k, ((name, own), rate) in enumerate(zip(at.items(), rates, strict=True))
    )
    betas = [value.least_beta for value in values]
    known = [one for one in betas if one is not None]
    least = max(known) if len(known) == len(betas) else None
    equal = least
    if beta is not None and len(set(beta)) == 1 and verdict(list(at.values()), length, beta) == "holds":
        equal = beta[0]
    return GroupFinding(
        groups=groups,
        items=items,
        unrecognised=len(column) - length - biased,
        biased=biased,
        values=values,
        least_beta=least,
        difference=_difference(counts, length, confidence),
        bound=_bounded(len(names), equal, None),
        bound_here=_bounded(len(names), equal, length),
    )


def covered_by(recorded: Recorded, ways: int) -> CoverageFinding:
    """Coverage of the combinations of so many groups.

    Raises:
        OptionError: there are fewer groups.
        LimitError: too many combinations.
    """
    seen = coverage(recorded, ways=ways)
    return CoverageFinding(
        ways=seen.ways,
        total=seen.total,
        share=seen.share,
        curve=tuple(count / seen.total for count in seen.seen),
        missing=tuple(Missing(groups=choice, values=values) for choice, values in seen.missing),
    )


def _difference(counts: Sequence[int], length: int, confidence: float) -> Quantity:
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


def _bounded(values: int, beta: int | None, length: int | None) -> Quantity:
    if beta is None:
        return Unknown(reason="a value never appears, or the sequence is too short for it")
    if length is None:
        return Proved(
            value=bound(values, beta), how=f"as 1 - {values}/{beta}, while every value comes within {beta} items"
        )
    share = bound_here(values, beta, length)
    return Proved(value=share, how=f"since each value comes at least {length // beta:,} times in {length:,} items")


def judge_group(group: GroupFinding, beta: tuple[int, ...] | None, name: str | None = None) -> Verdict:
    """Whether every value appears, or again and again within beta.

    Args:
        name: of the specification, if it has one.
    """
    length = len(group.items)
    found = verdict([value.appearances for value in group.values], length, beta)
    kind: Kind = ("eventual" if beta is None else "repeated") if len(group.groups) == 1 else _kind(len(group.groups))
    fault: tuple[str, ...] = ()
    if length == 0:
        why = "no item is recognised"
    elif beta is None:
        fault = tuple(value.value for value in group.values if not value.appearances)
        why = f"never: {_listed(fault)}" if fault else f"{len(group.values)} values in {length:,} items"
    else:
        fault = tuple(value.value for value in group.values if value.missed)
        count = sum(len(value.missed) for value in group.values)
        if found == "violated":
            why = f"{count:,} {'deadline' if count == 1 else 'deadlines'} missed by {_listed(fault)}"
        elif found == "unknown":
            why = f"nothing was missed, but {length:,} items are not more than {max(beta):,}"
        else:
            why = f"no deadline was missed in {length:,} items"
    values = () if beta is None else tuple(value.value for value in group.values)
    return Verdict(
        name=name, groups=group.groups, kind=kind, beta=beta, values=values, verdict=found, at_fault=fault, why=why
    )


def _combined(recorded: Recorded, covered: CoverageFinding, judged: Sequence[tuple[str, ...]]) -> list[Verdict]:
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
            Verdict(
                groups=choice,
                kind=_kind(len(choice)),
                beta=None,
                verdict="violated" if fault else "holds" if known else "unknown",
                at_fault=fault,
                why=f"{total - len(fault):,} of {total:,} combinations appear" if known else "no item is recognised",
            )
        )
    return found


def _kind(ways: int) -> Kind:
    return "paired" if ways == 2 else "k-way"


def _listed(names: Sequence[str], most: int = 6) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most:,} more" if len(names) > most else "")
