"""Assessment of recorded sequences: appearances of values, longest waits, frequencies and coverage.

The items of a condition are taken in the order of their requests. Unrecognised items are excluded, and the remaining
items are numbered from 1 to L. Deadlines follow Cheng et al., "Conditional Fairness for Generative AIs", definition 10:
a value must appear among the first beta items, and after each appearance among the next beta items. A deadline after L
is not missed. A sequence of at most beta items is inconclusive.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations, pairwise, product
from typing import Any

import numpy as np

from evenhand.core.text import find_repeated, format_count, list_some
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
from evenhand.genai.spec.entries import check_known
from evenhand.genai.spec.specification import Requirement, expand_deadlines
from evenhand.stats.level import bonferroni
from evenhand.stats.proportion import clopper_pearson, observed_rates
from evenhand.stats.quantity import Observed, Proved, Quantity, Unknown

DeadlineLengths = int | Sequence[int]

MAX_VALUES = 10_000
"""Maximum number of combined values of several groups."""

MAX_COMBINATIONS = 1_000_000
"""Maximum number of combinations whose coverage is computed."""

NO_ITEM = "no item is recognised"


def longest_wait(appearances: Sequence[int], length: int) -> int:
    """Compute the smallest beta for which no deadline of a value is missed: the longest distance of its appearances.

    Args:
        appearances: Ascending numbers of the items that show the value, from 1. 0 and ``length + 1`` also count.
        length: Number of items.
    """
    return max(end - start for start, end in pairwise([0, *appearances, length + 1]))


def smallest_beta(appearances: Sequence[int], length: int) -> int | None:
    """Compute the smallest beta for which the sequence is fair to a value. None if there is none."""
    wait = longest_wait(appearances, length)
    return wait if wait < length else None


def missed_deadlines(appearances: Sequence[int], length: int, beta: int) -> tuple[int, ...]:
    """Compute the items by which a value was due and did not appear: every beta items of its absence."""
    stops = pairwise([0, *appearances, length + 1])
    return tuple(item for start, end in stops for item in range(start + beta, end, beta))


def judge_appearances(appearances: Sequence[Sequence[int]], length: int, beta: Sequence[int] | None) -> VerdictValue:
    """Check whether all values appear, or appear repeatedly within beta, given the appearances of each value."""
    if length == 0:
        return "unknown"
    if beta is None:
        return "holds" if all(appearances) else "violated"
    if any(missed_deadlines(own, length, limit) for own, limit in zip(appearances, beta, strict=True)):
        return "violated"
    return "holds" if length > max(beta) else "unknown"


def frequency_bound(values: int, beta: int) -> float:
    """Bound the difference of two frequencies in an endless sequence with equal beta by ``1 - values / beta``.

    Every frequency is at least 1 / beta, so the largest is at most 1 - (values - 1) / beta (Cheng et al., lemma 1).
    """
    return 1 - values / beta


def finite_frequency_bound(values: int, beta: int, length: int) -> float:
    """Bound the difference of two frequencies among the first ``length`` items of a fair sequence."""
    return 1 - values * (length // beta) / length


def assess_sequences(
    sequences: Sequence[RecordedSequence],
    *,
    repeated: DeadlineLengths | Mapping[str | tuple[str, ...], DeadlineLengths] | None = None,
    ways: int | None = None,
    confidence: float = 0.95,
    conditions: Mapping[str, str] | None = None,
    source: str = "recorded items",
) -> GenaiAssessment:
    """Assess the groups of sequences, and combinations of groups.

    Args:
        sequences: Recorded sequences.
        repeated: Number of items within which each value must appear repeatedly: one number, one per value, or these by
            group. A tuple of groups refers to their combined values. None sets no deadline.
        ways: Number of groups in the combinations whose coverage is computed. Default: 2 if there are several groups.
        confidence: Confidence level of each interval. Intervals assume independent items, which does not hold for
            generators that are instructed to vary their items.
        conditions: Value by column that the items were requested for, shown in the result.
        source: Origin of the sequences, shown in the result.

    Raises:
        OptionError: A deadline is not a positive number, their number is wrong, or a group is unknown.
        LimitError: There are too many combinations.
    """
    started = time.perf_counter()
    if not sequences:
        raise OptionError("there is no sequence to assess")
    names = list(sequences[0].labels)
    named = repeated if isinstance(repeated, Mapping) else dict.fromkeys(names, repeated)
    deadlines = {(key,) if isinstance(key, str) else tuple(key): beta for key, beta in named.items()}
    sets = [key for key in deadlines if len(key) > 1]
    for groups in deadlines:
        for group in groups:
            check_known(group, names, "group")
        if find_repeated(groups):
            raise OptionError(f"a group is listed twice: {' + '.join(groups)}")
    findings = []
    for recorded in sequences:
        requirements = []
        for key in [*((group,) for group in recorded.labels), *sets]:
            _check_combined_values(recorded, key)
            eventual = Requirement("", "", key, tuple(recorded.values[group] for group in key), None)
            requirements.append(eventual)
            if (beta := deadlines.get(key)) is not None:
                own = expand_deadlines(beta, eventual.labels, f"`repeated=` for {' + '.join(key)}")
                requirements.append(replace(eventual, repeated=own))
        combined = ways or (2 if len(recorded.labels) > 1 else None)
        finding = assess_sequence(recorded, requirements, ways=combined, confidence=confidence)
        if finding.coverage is not None and len(recorded.labels) > 1:
            more = _judge_combinations(recorded, finding.coverage, sets)
            finding = finding.model_copy(update={"verdicts": (*finding.verdicts, *more)})
        findings.append(finding)
    return GenaiAssessment(
        seed=0,
        seconds=time.perf_counter() - started,
        source=source,
        conditions=dict(conditions or {}),
        confidence=confidence,
        sequences=tuple(findings),
    )


def assess_sequence(
    recorded: RecordedSequence,
    requirements: Sequence[Requirement],
    *,
    ways: int | None = None,
    confidence: float = 0.95,
) -> SequenceFinding:
    """Assess one sequence. See ``assess_sequences``.

    Args:
        recorded: The sequence.
        requirements: Requirements to judge.
        ways: Number of groups in the combinations whose coverage is computed. If None, that of the requirements, and at
            least 2.
        confidence: Confidence level of each interval.
    """
    deadlines: dict[tuple[str, ...], list[tuple[int, ...]]] = {(group,): [] for group in recorded.labels}
    for requirement in requirements:
        own = deadlines.setdefault(requirement.groups, [])
        if requirement.repeated is not None and requirement.repeated not in own:
            own.append(requirement.repeated)
    # A finding with deadlines also shows whether values appear at all.
    groups = {
        (key, beta): assess_group(recorded, key, beta, confidence)
        for key, own in deadlines.items()
        for beta in own or (None,)
    }
    default = {key: groups[key, own[0] if own else None] for key, own in deadlines.items()}
    verdicts = [
        judge_group(
            groups.get((requirement.groups, requirement.repeated), default[requirement.groups]),
            requirement.repeated,
            requirement.name or None,
        )
        for requirement in requirements
    ]
    combined = max([2, *(len(requirement.groups) for requirement in requirements)])
    covered = len(recorded) > 0 and (ways is not None or len(recorded.labels) > 1)
    return SequenceFinding(
        name=recorded.name,
        condition=recorded.condition,
        items=len(recorded),
        groups=tuple(groups.values()),
        verdicts=tuple(verdicts),
        coverage=find_coverage(recorded, ways or combined) if covered else None,
        files=recorded.files,
    )


def _check_combined_values(recorded: RecordedSequence, groups: Sequence[str]) -> None:
    """Raise a LimitError if groups have too many combined values."""
    number = math.prod(len(recorded.values[group]) for group in groups)
    if number > MAX_VALUES:
        raise LimitError(f"{' + '.join(groups)} have {number:,} combined values", hint="use fewer values or groups")


def assess_group(
    recorded: RecordedSequence, groups: tuple[str, ...], beta: tuple[int, ...] | None, confidence: float
) -> GroupFinding:
    """Assess the combined values of groups, and their deadlines beta. The values of the last group vary fastest."""
    _check_combined_values(recorded, groups)
    column = recorded.column(groups)
    items = tuple(i for i, values in enumerate(column, start=1) if values is not None)
    length = len(items)
    appearances: dict[tuple[str, ...], list[int]] = {
        values: [] for values in product(*(recorded.values[group] for group in groups))
    }
    for number, item in enumerate(items, start=1):
        appearances[column[item - 1] or ()].append(number)
    counts = [len(own) for own in appearances.values()]
    rates = observed_rates(counts, [length] * len(counts), confidence, if_empty=NO_ITEM)
    deadlines = beta or (None,) * len(counts)
    findings = tuple(
        ValueFinding(
            value=" + ".join(values),
            appearances=tuple(own),
            longest_wait=longest_wait(own, length),
            smallest_beta=smallest_beta(own, length),
            beta=deadline,
            missed=() if deadline is None else missed_deadlines(own, length, deadline),
            frequency=rate,
        )
        for (values, own), deadline, rate in zip(appearances.items(), deadlines, rates, strict=True)
    )
    betas = [finding.smallest_beta for finding in findings if finding.smallest_beta is not None]
    smallest = max(betas) if len(betas) == len(findings) else None
    equal = smallest
    if beta is not None and len(set(beta)) == 1:
        fair = judge_appearances(list(appearances.values()), length, beta) == "holds"
        equal = beta[0] if fair else smallest
    bound: Quantity
    bound_here: Quantity
    bound = bound_here = Unknown(reason="a value never appears, or the sequence is too short for it")
    if equal is not None:
        bound = Proved(
            value=frequency_bound(len(counts), equal),
            how=f"as 1 - {len(counts)}/{equal}, if every value appears within {equal} items",
        )
        bound_here = Proved(
            value=finite_frequency_bound(len(counts), equal, length),
            how=f"since each value appears at least {length // equal:,} times in {length:,} items",
        )
    return GroupFinding(
        groups=groups,
        items=items,
        **_count_excluded(recorded, groups, column),
        values=findings,
        smallest_beta=smallest,
        difference=_frequency_difference(counts, length, confidence),
        bound=bound,
        bound_here=bound_here,
    )


def _count_excluded(
    recorded: RecordedSequence, groups: tuple[str, ...], column: Sequence[tuple[str, ...] | None]
) -> dict[str, Any]:
    """Count the items that are excluded for each group, by a single reason each."""
    outside: Counter[str] = Counter()
    reasons: Counter[str] = Counter(unrecognised=0)
    for i in (i for i, values in enumerate(column) if values is None):
        unknown = [
            label if len(groups) == 1 else f"{group} {label}"
            for group in groups
            if (label := recorded.labels[group][i]) is not None and label not in recorded.values[group]
        ]
        if any(i in recorded.biased.get(group, ()) for group in groups):
            reasons["biased"] += 1
        elif any(i in recorded.fixed.get(group, ()) for group in groups):
            reasons["fixed"] += 1
        elif unknown:
            outside[unknown[0]] += 1
        else:
            reasons["unrecognised"] += 1
    return {"outside": dict(outside.most_common()), **reasons}


def find_coverage(recorded: RecordedSequence, ways: int) -> CoverageFinding:
    """Compute the coverage of combinations of values of several groups.

    An item counts for every choice of ``ways`` groups in which it is recognised. For two groups, this is the normalised
    all-paired fairness of Cheng et al., "Conditional Fairness for Generative AIs", definition 9.

    Raises:
        OptionError: ``ways`` is less than 2, or more than the number of groups.
        LimitError: There are too many combinations.
    """
    if not 2 <= ways <= len(recorded.labels):
        raise OptionError(
            f"combinations of {ways} groups among {len(recorded.labels)}",
            hint="combine at least 2 groups and at most all of them",
        )
    choices = list(combinations(recorded.labels, ways))
    total = sum(math.prod(len(recorded.values[group]) for group in choice) for choice in choices)
    if total > MAX_COMBINATIONS:
        raise LimitError(f"{total:,} combinations of {ways} groups", hint="use fewer values, groups or ways")
    covered: set[tuple[tuple[str, ...], tuple[str, ...]]] = set()
    counts = []
    for row in zip(*(recorded.column(choice) for choice in choices), strict=True):
        covered |= {(choice, values) for choice, values in zip(choices, row, strict=True) if values is not None}
        counts.append(len(covered))
    return CoverageFinding(
        ways=ways,
        total=total,
        share=len(covered) / total,
        curve=tuple(count / total for count in counts),
        missing=tuple(
            MissingCombination(groups=choice, values=values)
            for choice in choices
            for values in product(*(recorded.values[group] for group in choice))
            if (choice, values) not in covered
        ),
    )


def _frequency_difference(counts: Sequence[int], length: int, confidence: float) -> Quantity:
    """Compute the largest difference of two frequencies, with an interval from the joint intervals of all values."""
    if length == 0:
        return Unknown(reason=NO_ITEM)
    low, high = clopper_pearson(counts, np.full(len(counts), length), bonferroni(confidence, len(counts)))
    return Observed(
        value=(max(counts) - min(counts)) / length,
        n=length,
        low=max(0.0, float(low.max() - high.min())),
        high=float(high.max() - low.min()),
        confidence=confidence,
        method="Clopper-Pearson of every value, Bonferroni",
    )


def judge_group(group: GroupFinding, beta: tuple[int, ...] | None, name: str | None = None) -> SpecificationVerdict:
    """Check whether every value appears, or appears repeatedly within beta, for the named specification."""
    length = len(group.items)
    verdict = judge_appearances([value.appearances for value in group.values], length, beta)
    fault: tuple[str, ...] = ()
    if length == 0:
        why = NO_ITEM
    elif beta is None:
        fault = tuple(value.value for value in group.values if not value.appearances)
        why = f"never: {list_some(fault, 6)}" if fault else f"{len(group.values)} values in {length:,} items"
    elif verdict == "violated":
        fault = tuple(value.value for value in group.values if value.missed)
        count = sum(len(value.missed) for value in group.values)
        late = [
            f"{value.value} since item {group.items[value.overdue - 1]:,}" for value in group.values if value.overdue
        ]
        why = f"{format_count(count, 'deadline', 'deadlines')} missed by {list_some(fault, 6)}"
        why += f"; overdue at the end: {list_some(late, 6)}" if late else ""
    elif verdict == "unknown":
        why = f"no deadline was missed, but {length:,} items are not more than the largest deadline, {max(beta):,}"
    else:
        why = f"no deadline was missed in {length:,} items"
    kind: VerdictKind = "paired" if len(group.groups) == 2 else "k-way"
    if len(group.groups) == 1:
        kind = "eventual" if beta is None else "repeated"
    return SpecificationVerdict(
        name=name,
        groups=group.groups,
        kind=kind,
        beta=beta,
        values=() if beta is None else tuple(value.value for value in group.values),
        verdict=verdict,
        at_fault=fault,
        why=why,
    )


def _judge_combinations(
    recorded: RecordedSequence, covered: CoverageFinding, judged: Sequence[tuple[str, ...]]
) -> list[SpecificationVerdict]:
    """Check whether all combinations of each choice of groups appear, except the choices in ``judged``."""
    absent: dict[tuple[str, ...], list[str]] = {}
    for combination in covered.missing:
        absent.setdefault(combination.groups, []).append(" + ".join(combination.values))
    verdicts = []
    for choice in combinations(recorded.labels, covered.ways):
        if choice in judged:
            continue
        missing = tuple(absent.get(choice, ()))
        total = math.prod(len(recorded.values[group]) for group in choice)
        recognised = any(recorded.column(choice))
        verdicts.append(
            SpecificationVerdict(
                groups=choice,
                kind="paired" if len(choice) == 2 else "k-way",
                beta=None,
                verdict=("violated" if missing else "holds") if recognised else "unknown",
                at_fault=missing if recognised else (),
                why=f"{total - len(missing):,} of {total:,} combinations appear" if recognised else NO_ITEM,
            )
        )
    return verdicts
