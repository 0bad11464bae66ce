"""Whether the groups of a list of names differ in something else that is plain to see."""

from __future__ import annotations

import itertools
import math
import re
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from evenhand.datasets.identity.names import NameList, Person
from evenhand.errors import OptionError
from evenhand.text import format_count, format_percent, list_some

LARGEST_DIFFERENCE = 0.25
"""Of two groups' means, in standard deviations; more is not balanced (Stuart 2010, Statistical Science 25, 1-21)."""

VOWELS = re.compile(r"[aeiouy\u0131áàâäåãéèêëíìîïóòôöõøúùûüæœý]+", re.IGNORECASE)


class _Measure(NamedTuple):
    """A number that a name has, the least difference of two means that matters, and how to say it.

    Attributes:
        of: a person's number; None where unknown.
        least: difference of two means below which none is said.
        say: the sentence, from the groups with the larger and the smaller mean and these means.
        known: what is known or not, for sentences.
    """

    of: Callable[[Person], float | None]
    least: float
    say: Callable[[str, float, str, float], str]
    known: str


MEASURES = (
    _Measure(
        lambda one: len(one.label),
        0.5,
        lambda more, high, less, low: (
            f"names of {more} are longer than names of {less}: {high:.1f} against {low:.1f} characters on average"
        ),
        "length",
    ),
    _Measure(
        lambda one: len(VOWELS.findall(one.label)),
        1 / 3,
        lambda more, high, less, low: (
            f"names of {more} have more syllables than names of {less}: {high:.1f} against {low:.1f} on average"
        ),
        "number of syllables",
    ),
    _Measure(
        lambda one: math.log(one.bearers) if one.bearers else None,
        math.log(1.5),
        lambda more, high, less, low: (
            f"names of {more} are {math.exp(high - low):.1f} times as frequent as names of {less} (geometric means)"
        ),
        "frequency",
    ),
    _Measure(
        lambda one: one.birth_decade,
        5,
        lambda more, high, less, low: (
            f"names of {more} are of people born later than those of {less}: {high:.0f} against {low:.0f} on average"
        ),
        "birth decade",
    ),
)


def check_name_list(names: NameList, compare: Sequence[tuple[str, str]] | None = None) -> tuple[str, ...]:
    """Return what differs between groups of a list beside the group itself, in words; nothing where they are alike.

    Compared are the number of names, their length in characters and in syllables (runs of vowels), how many people bear
    them, the decade of birth, and which share has which pronouns. A difference is said where the means of two groups
    are more than a quarter of a standard deviation apart, and half a character, a third of a syllable, a factor of 1.5
    in frequency or five years. Of several pairs of groups the one furthest apart is said.

    Args:
        names: the list.
        compare: pairs of groups that will be compared; all pairs if left out.

    Raises:
        OptionError: a group is not in the list.
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
    """Say how far the two groups are apart that are furthest apart, and of which groups the number is not known."""
    known = {
        group: [number for one in people[group] if (number := measure.of(one)) is not None]
        for group in dict.fromkeys(itertools.chain.from_iterable(pairs))
    }
    unknown = [group for group, numbers in known.items() if len(numbers) < len(people[group])]
    if unknown and any(known.values()):
        yield f"the {measure.known} is not known for all names of: {list_some(unknown)}"
    apart = []
    for pair in pairs:
        more, less = sorted(pair, key=lambda group: -statistics.fmean(known[group] or [0]))
        if not known[more] or not known[less]:
            continue
        high, low = statistics.fmean(known[more]), statistics.fmean(known[less])
        deviation = math.sqrt((statistics.pvariance(known[more]) + statistics.pvariance(known[less])) / 2)
        if high - low >= measure.least and high - low > LARGEST_DIFFERENCE * deviation:
            apart.append((high - low, measure.say(more, high, less, low)))
    if apart:
        others = len(apart) - 1
        furthest = max(apart, key=lambda one: one[0])[1]
        yield furthest + (f"; the same holds for {format_count(others, 'other pair', 'other pairs')}" if others else "")


def _compare_pronouns(people: People, pairs: Pairs) -> Iterator[str]:
    """Name pairs of groups in which some, but not all, have other pronouns than in the other group."""
    for first, second in pairs:
        for gender in ("feminine", "masculine"):
            one, other = (
                statistics.fmean(person.pronouns.gender == gender for person in people[group])
                for group in (first, second)
            )
            if abs(one - other) > 0.05 and not {one, other} <= {0.0, 1.0}:
                yield (
                    f"{format_percent(one)} of the names of {first} have {gender} pronouns, "
                    f"{format_percent(other)} of those of {second}"
                )
                break


def _find_shared_names(people: People, pairs: Pairs) -> Iterator[str]:
    for first, second in pairs:
        key = [{(one.label, one.title, one.pronouns) for one in people[group]} for group in (first, second)]
        if shared := sorted(label for label, _, _ in key[0] & key[1]):
            yield f"{first} and {second} share names, which tell nothing apart: {list_some(shared, 5)}"
