"""Balance checks of name lists: differences between groups other than the group itself."""

from __future__ import annotations

import itertools
import math
import re
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from evenhand.core.text import format_count, format_percent, list_some
from evenhand.datasets.identity.names import NameList, Person
from evenhand.errors import OptionError

LARGEST_DIFFERENCE = 0.25
"""Maximum difference between two means in standard deviations (Stuart 2010, Statistical Science 25, 1-21)."""

VOWELS = re.compile(r"[aeiouy\u0131áàâäåãéèêëíìîïóòôöõøúùûüæœý]+", re.IGNORECASE)


class _Measure(NamedTuple):
    """A numerical property of names.

    Attributes:
        noun: Name of the property.
        compute: Function that computes the property of a person; None if unknown.
        min_difference: Smallest relevant difference between two means.
        message: Template with the groups ``more`` and ``less``, their means ``high`` and ``low``, and ``factor``, the
            exponential of the difference.
    """

    noun: str
    compute: Callable[[Person], float | None]
    min_difference: float
    message: str


MEASURES = (
    _Measure(
        "length",
        lambda person: len(person.label),
        0.5,
        "names of {more} are longer than names of {less}: {high:.1f} against {low:.1f} characters on average",
    ),
    _Measure(
        "number of syllables",
        lambda person: len(VOWELS.findall(person.label)),
        1 / 3,
        "names of {more} have more syllables than names of {less}: {high:.1f} against {low:.1f} on average",
    ),
    _Measure(
        "frequency",
        lambda person: math.log(person.bearers) if person.bearers else None,
        math.log(1.5),
        "names of {more} are {factor:.1f} times as frequent as names of {less} (geometric means)",
    ),
    _Measure(
        "birth decade",
        lambda person: person.birth_decade,
        5,
        "names of {more} have later birth decades than names of {less}: {high:.0f} against {low:.0f} on average",
    ),
)


def check_name_list(names: NameList, compare: Sequence[tuple[str, str]] | None = None) -> tuple[str, ...]:
    """Describe differences between the groups of a list other than the group itself.

    The check compares the number of names, their length in characters and in syllables (runs of vowels), their
    frequency, the decade of birth, and the pronouns. A difference is reported if the means of two groups differ by more
    than a quarter of a standard deviation, and by at least half a character, a third of a syllable, a factor of 1.5 in
    frequency or five years. Of several pairs of groups, the pair with the largest difference is reported.

    Args:
        names: List of names.
        compare: Pairs of groups to compare. Default: all pairs.

    Raises:
        OptionError: A group is not in the list.
    """
    by_group = names.by_group()
    pairs = list(itertools.combinations(names.groups, 2)) if compare is None else list(compare)
    for group in itertools.chain.from_iterable(pairs):
        if group not in by_group:
            raise OptionError(
                f"there is no group {group!r} in the list of names {names.name!r}",
                hint=f"the groups are: {', '.join(names.groups)}",
            )
    people = {group: by_group[group] for group in itertools.chain.from_iterable(pairs)}
    warnings = []
    if len({len(members) for members in people.values()}) > 1:
        sizes = [f"{group} {format_count(len(members), 'name', 'names')}" for group, members in people.items()]
        warnings.append(f"groups differ in size: {list_some(sizes)}")
    for measure in MEASURES:
        warnings += _compare_means(people, pairs, measure)
    warnings += [warning for pair in pairs if (warning := _compare_pronouns(people, *pair)) is not None]
    for first, second in pairs:
        keys = [
            {(person.label, person.title, person.pronouns) for person in people[group]} for group in (first, second)
        ]
        if shared := sorted(label for label, _, _ in keys[0] & keys[1]):
            warnings.append(f"{first} and {second} share names, which do not distinguish them: {list_some(shared, 5)}")
    return tuple(warnings)


def _compare_means(
    people: Mapping[str, Sequence[Person]], pairs: Sequence[tuple[str, str]], measure: _Measure
) -> Iterator[str]:
    """Describe the largest difference between two groups, and list the groups with unknown values."""
    values = {
        group: [value for person in members if (value := measure.compute(person)) is not None]
        for group, members in people.items()
    }
    unknown = [group for group, numbers in values.items() if len(numbers) < len(people[group])]
    if unknown and any(values.values()):
        yield f"the {measure.noun} is not known for all names of: {list_some(unknown)}"
    differences = []
    for pair in pairs:
        if not all(values[group] for group in pair):
            continue
        (low, less), (high, more) = sorted((statistics.fmean(values[group]), group) for group in pair)
        deviation = math.sqrt(statistics.fmean(statistics.pvariance(values[group]) for group in pair))
        if high - low >= measure.min_difference and high - low > LARGEST_DIFFERENCE * deviation:
            factor = math.exp(min(high - low, 100))
            message = measure.message.format(more=more, less=less, high=high, low=low, factor=factor)
            differences.append((high - low, message))
    if differences:
        others = len(differences) - 1
        _, largest = max(differences, key=lambda difference: difference[0])
        yield largest + (f"; the same holds for {format_count(others, 'other pair', 'other pairs')}" if others else "")


def _compare_pronouns(people: Mapping[str, Sequence[Person]], first: str, second: str) -> str | None:
    """Compare the gender ratios of two groups, unless each group has a single gender."""
    for gender in ("feminine", "masculine"):
        share, other = (
            statistics.fmean(person.pronouns.gender == gender for person in people[group]) for group in (first, second)
        )
        if abs(share - other) > 0.05 and not {share, other} <= {0.0, 1.0}:
            return (
                f"{format_percent(share)} of the names of {first} have {gender} pronouns, "
                f"{format_percent(other)} of those of {second}"
            )
    return None
