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
"""Maximum difference of two means in standard deviations (Stuart 2010, Statistical Science 25, 1-21)."""

VOWELS = re.compile(r"[aeiouy\u0131áàâäåãéèêëíìîïóòôöõøúùûüæœý]+", re.IGNORECASE)


class _Measure(NamedTuple):
    """A numerical property of names.

    Attributes:
        noun: Name of the property.
        compute: Function that computes the property of a person; None if unknown.
        min_difference: Smallest relevant difference of two means.
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
        "names of {more} are of people born later than those of {less}: {high:.0f} against {low:.0f} on average",
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
    people = names.by_group()
    pairs = list(itertools.combinations(names.groups, 2)) if compare is None else list(compare)
    for group in itertools.chain.from_iterable(pairs):
        if group not in people:
            raise OptionError(
                f"there is no group {group!r} in the list of names {names.name!r}",
                hint=f"the groups are: {', '.join(names.groups)}",
            )
    return (
        *_compare_sizes(people, pairs),
        *(warning for measure in MEASURES for warning in _compare_means(people, pairs, measure)),
        *_compare_pronouns(people, pairs),
        *_find_shared_names(people, pairs),
    )


People = Mapping[str, tuple[Person, ...]]
Pairs = Sequence[tuple[str, str]]


def _compare_sizes(people: People, pairs: Pairs) -> Iterator[str]:
    sizes = {group: len(people[group]) for group in itertools.chain.from_iterable(pairs)}
    if len(set(sizes.values())) > 1:
        yield "groups differ in size: " + list_some(
            [f"{group} {format_count(size, 'name', 'names')}" for group, size in sizes.items()]
        )


def _compare_means(people: People, pairs: Pairs, measure: _Measure) -> Iterator[str]:
    """Describe the largest difference of two groups, and name the groups with unknown values."""
    known = {
        group: [number for person in people[group] if (number := measure.compute(person)) is not None]
        for group in dict.fromkeys(itertools.chain.from_iterable(pairs))
    }
    unknown = [group for group, numbers in known.items() if len(numbers) < len(people[group])]
    if unknown and any(known.values()):
        yield f"the {measure.noun} is not known for all names of: {list_some(unknown)}"
    differences = []
    for pair in pairs:
        more, less = sorted(pair, key=lambda group: -statistics.fmean(known[group] or [0]))
        if not known[more] or not known[less]:
            continue
        high, low = statistics.fmean(known[more]), statistics.fmean(known[less])
        deviation = math.sqrt((statistics.pvariance(known[more]) + statistics.pvariance(known[less])) / 2)
        if high - low >= measure.min_difference and high - low > LARGEST_DIFFERENCE * deviation:
            factor = math.exp(min(high - low, 100))
            message = measure.message.format(more=more, less=less, high=high, low=low, factor=factor)
            differences.append((high - low, message))
    if differences:
        others = len(differences) - 1
        _, largest = max(differences, key=lambda difference: difference[0])
        yield largest + (f"; the same holds for {format_count(others, 'other pair', 'other pairs')}" if others else "")


def _compare_pronouns(people: People, pairs: Pairs) -> Iterator[str]:
    """Describe pairs of groups that differ in the share of a gender, unless each group has a single gender."""
    for first, second in pairs:
        for gender in ("feminine", "masculine"):
            first_share, second_share = (
                statistics.fmean(person.pronouns.gender == gender for person in people[group])
                for group in (first, second)
            )
            if abs(first_share - second_share) > 0.05 and not {first_share, second_share} <= {0.0, 1.0}:
                yield (
                    f"{format_percent(first_share)} of the names of {first} have {gender} pronouns, "
                    f"{format_percent(second_share)} of those of {second}"
                )
                break


def _find_shared_names(people: People, pairs: Pairs) -> Iterator[str]:
    for first, second in pairs:
        keys = [{(one.label, one.title, one.pronouns) for one in people[group]} for group in (first, second)]
        if shared := sorted(label for label, _, _ in keys[0] & keys[1]):
            yield f"{first} and {second} share names, which do not distinguish them: {list_some(shared, 5)}"
