"""What data suggest for a schema, in one list."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from evenhand.core.expressions import quote_word
from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.schema.attribute import Attribute, Value
from evenhand.schema.people import People
from evenhand.schema.rules import Dependency, Link, Proposal
from evenhand.schema.schema import Schema
from evenhand.stats.level import bonferroni, poisson_cdf
from evenhand.stats.permutation import holm
from evenhand.stats.proportion import clopper_pearson


def propose_rules(people: People, rng: np.random.Generator) -> tuple[Proposal, ...]:
    """Return rules, dependencies and links that people suggest and their schema does not have.

    Dependencies and forbidden pairs of values have passed a test that allows one false proposal in a hundred data sets.
    Which values stand for each other, a person must confirm.

    Args:
        people: some thousands, or little is found: that 5 % or less of what chance would give exists must be certain.
        rng: chooses the half of the people from which dependencies are learnt.

    Example:
        >>> import evenhand, numpy as np
        >>> adult = evenhand.datasets.load_dataset("adult")
        >>> found = propose_rules(evenhand.schema.encode(adult.schema, adult.frame), np.random.default_rng(0))
        >>> {str(one.entry): one.evidence for one in found}["relationship == Husband -> sex == Male"]
        'seen 1, expected 6,536'
    """
    schema, columns = people.schema, code_columns(people)
    dependencies = find_dependencies(columns, rng)
    known = [*schema.dependencies, *(one.entry for one in dependencies if isinstance(one.entry, Dependency))]
    determined = frozenset(frozenset(schema.positions(dependency.between)) for dependency in known)
    pairs = find_forbidden(columns, determined)
    found = [
        *(one for each in pairs for one in imply_pairs(columns, each)),
        *dependencies,
        *find_links(columns, schema.positions(schema.protected), pairs),
    ]
    return tuple(one for one in found if not _is_known(one, schema))


def add_proposals(schema: Schema, proposals: Iterable[Proposal]) -> Schema:
    """Return the schema with the proposals that need no confirmation.

    Raises:
        SchemaError: one contradicts what the schema says already.
    """
    entries = [one.entry for one in proposals if one.accepted]
    described = schema.model_dump()
    described["rules"] = [*schema.rules, *(entry for entry in entries if isinstance(entry, str))]
    described["dependencies"] = [*schema.dependencies, *(entry for entry in entries if isinstance(entry, Dependency))]
    return Schema.parse(described)


def _is_known(proposal: Proposal, schema: Schema) -> bool:
    entry = proposal.entry
    if isinstance(entry, Link):
        return any(link.move == entry.move for link in schema.links)
    if isinstance(entry, Dependency):
        return any(set(one.between) == set(entry.between) for one in schema.dependencies)
    return entry in schema.rules


# Forbidden combinations as implications, in the language of a schema's rules.


def imply_pairs(columns: CodedColumns, pairs: ForbiddenPairs) -> list[Proposal]:
    """Return the fewest implications that forbid some pairs of values.

    Values of which the same is forbidden are joined. Of the two directions the one with fewer implications is taken,
    of two with as many the one that says more often what a value is, not what it is not, then the shorter one.
    """
    turned = ForbiddenPairs(pairs.columns[::-1], pairs.forbidden.T, pairs.seen.T, pairs.expected.T)
    ways = [_imply_forward(columns, way) for way in (pairs, turned)]
    texts = [[str(one.entry) for one in way] for way in ways]
    costs = [
        (len(way), sum(" == " not in text.rpartition(" -> ")[2] for text in way), len("".join(way))) for way in texts
    ]
    return ways[costs.index(min(costs))]


def _imply_forward(columns: CodedColumns, pairs: ForbiddenPairs) -> list[Proposal]:
    """Return the implications from values of the first attribute."""
    alike: dict[bytes, list[int]] = {}
    for code, row in enumerate(pairs.forbidden):
        if row.any():
            alike.setdefault(row.tobytes(), []).append(code)
    proposals = []
    for codes in alike.values():
        barred = np.flatnonzero(pairs.forbidden[codes[0]]).tolist()
        text = f"{_is_one_of(columns, pairs.columns[0], codes)} -> {_is_none_of(columns, pairs.columns[1], barred)}"
        cells = np.ix_(codes, barred)
        evidence = _describe_counts(int(pairs.seen[cells].sum()), float(pairs.expected[cells].sum()))
        proposals.append(Proposal(text, evidence, accepted=True))
    return proposals


def _describe_counts(seen: int, expected: float) -> str:
    return f"seen {seen:,}, expected {expected:,.0f}"


def _is_one_of(columns: CodedColumns, column: int, codes: Sequence[int]) -> str:
    return _list_values(columns, column, [columns.value(column, code) for code in codes], ("==", "in"))


def _is_none_of(columns: CodedColumns, column: int, codes: Sequence[int]) -> str:
    barred = [columns.value(column, code) for code in codes]
    allowed = [value for value in columns.attributes[column].values or () if value not in barred]
    if len(allowed) == 1:
        return _list_values(columns, column, allowed, ("==", "in"))
    return _list_values(columns, column, barred, ("!=", "not in"))


def _list_values(columns: CodedColumns, column: int, values: Sequence[Value], signs: tuple[str, str]) -> str:
    name = quote_word(columns.attributes[column].name)
    words = [quote_word(value) if isinstance(value, str) else str(value) for value in values]
    return f"{name} {signs[0]} {words[0]}" if len(words) == 1 else f"{name} {signs[1]} {{{', '.join(words)}}}"


# Functional dependencies: attributes that another attribute determines, but for a few wrong entries.


MOST_ERRORS = 0.005
"""Share of people who may break a dependency, at most, by an upper bound that holds for all pairs together."""

FEWER_ERRORS = 0.95
"""How much better than the most common value alone a map must be."""

LEAST_ERRORS = 30
"""Errors that the most common value alone must make, or else there was nothing to learn."""

CONFIDENCE = 0.99
"""With which the bounds of all pairs hold together."""

MOST_VALUES = 64
"""A number of more values determines nothing: its map would be a table of the data."""


def find_dependencies(columns: CodedColumns, rng: np.random.Generator) -> list[Proposal]:
    """Return the attributes that another one determines.

    The map is learnt on a random half of the people, as the most common second value of each first value; its errors
    are counted on the other half, where a first value that was not seen is an error. So a column that is nearly a key
    determines nothing. Of two directions the one with fewer errors is returned.
    """
    learning = np.zeros(len(columns.codes), dtype=np.bool_)
    learning[rng.permutation(len(learning))[: len(learning) // 2]] = True
    width = len(columns.attributes)
    found: dict[tuple[int, int], Proposal] = {}
    for one, other in ((i, j) for i in range(width) for j in range(width) if i != j):
        if _may_determine(columns.attributes[one]):
            evidence = _test_dependency(columns, (one, other), learning)
            if evidence is not None:
                found[one, other] = Proposal(_learn_map(columns, one, other), evidence, accepted=True)
    for one, other in [pair for pair in found if pair[0] < pair[1] and pair[::-1] in found]:
        worse = _count_errors(columns, one, other) > _count_errors(columns, other, one)
        del found[(one, other) if worse else (other, one)]
    return list(found.values())


def _may_determine(attribute: Attribute) -> bool:
    return attribute.is_discrete or (attribute.size is not None and attribute.size <= MOST_VALUES)


def _test_dependency(columns: CodedColumns, pair: tuple[int, int], learning: Booleans) -> str | None:
    """Return the evidence for a dependency; None if it is not enough."""
    learnt, rest = columns.count(*pair, learning), columns.count(*pair, ~learning)
    people = int(rest.sum())
    if people == 0 or learnt.sum() == 0:
        return None
    constant = people - int(rest[:, learnt.sum(axis=0).argmax()].sum())
    right = np.take_along_axis(rest, learnt.argmax(axis=1)[:, None], axis=1)[:, 0]
    wrong = people - int(right[learnt.any(axis=1)].sum())
    if constant < LEAST_ERRORS or wrong > (1 - FEWER_ERRORS) * constant:
        return None
    pairs = len(columns.attributes) * (len(columns.attributes) - 1)
    # One side of the interval is used, so the whole of what may be missed goes to it.
    bound = clopper_pearson(wrong, people, bonferroni(1 - 2 * (1 - CONFIDENCE), pairs))[1]
    if wrong > 0 and bound > MOST_ERRORS:
        return None
    return f"{wrong:,} of {people:,} held-out people differ; with the most common value alone {constant:,}"


def _learn_map(columns: CodedColumns, one: int, other: int) -> Dependency:
    names = columns.attributes[one].name, columns.attributes[other].name
    best = columns.count(one, other)
    seen = np.flatnonzero(best.sum(axis=1))
    known = {columns.value(one, int(code)): columns.value(other, int(best[code].argmax())) for code in seen}
    return Dependency(between=names, map=known)


def _count_errors(columns: CodedColumns, one: int, other: int) -> int:
    count = columns.count(one, other)
    return int(count.sum() - count.max(axis=1).sum())


# Links: values that only people of one protected value have, paired with those that only people of another have.


BINS = 16
"""A number is compared in so many bins, cut at its quantiles."""


def find_links(columns: CodedColumns, protected: Sequence[int], pairs: Sequence[ForbiddenPairs]) -> list[Proposal]:
    """Return which values stand for each other when a protected attribute changes; a person must confirm each.

    Let a be the most common protected value and a' another. The values that are forbidden under a' only are matched
    with those that are forbidden under a only, so that the people who have them are as alike as possible: the least
    mean total variation of all other attributes (Kuhn, "The Hungarian method for the assignment problem", 1955).
    """
    found = []
    for pair in pairs:
        for one, other, forbidden in (
            (*pair.columns, pair.forbidden),
            (*pair.columns[::-1], pair.forbidden.T),
        ):
            if one in protected and other not in protected:
                proposal = _match_values(columns, one, other, forbidden)
                found += [proposal] if proposal is not None else []
    return found


def _match_values(columns: CodedColumns, one: int, other: int, forbidden: Booleans) -> Proposal | None:
    """Return the link by which the second attribute moves with the first; None if no values answer each other."""
    from scipy.optimize import linear_sum_assignment

    common = int(np.bincount(columns.codes[columns.codes[:, one] >= 0, one]).argmax())
    distances = _compare_values(columns, one, other)
    rows: dict[int, dict[Value, Value]] = {}
    row_of: dict[int, int] = {}
    evidence = []
    for value in range(len(forbidden)):
        of_common = np.flatnonzero(forbidden[value] & ~forbidden[common])
        of_value = np.flatnonzero(forbidden[common] & ~forbidden[value])
        firsts, seconds = linear_sum_assignment(distances[np.ix_(of_common, of_value)])
        for first, second in zip(of_common[firsts].tolist(), of_value[seconds].tolist(), strict=True):
            if row_of.setdefault(second, first) == first:  # else it would stand in two rows
                row = rows.setdefault(first, {columns.value(one, common): columns.value(other, first)})
                row[columns.value(one, value)] = columns.value(other, second)
                evidence.append(_describe_match(columns, other, distances[first], (first, second)))
    if not rows:
        return None
    names = columns.attributes[one].name, columns.attributes[other].name
    return Proposal(Link(when=names[0], move=names[1], rows=tuple(rows.values())), "; ".join(evidence), accepted=False)


def _compare_values(columns: CodedColumns, one: int, other: int) -> Floats:
    """Return how much people with two values of an attribute differ, shape (values, values).

    The total variation between the distributions of an attribute, on average over all but these two.
    """
    size = len(columns.entries[other])
    rest = [column for column in range(len(columns.attributes)) if column not in (one, other)]
    distances = np.zeros((size, size))
    for column in rest:
        table = columns.count(other, column)
        if not columns.attributes[column].is_discrete:
            people = table.sum(axis=0)
            bins = ((np.cumsum(people) - people / 2) / max(1, people.sum()) * BINS).astype(np.int64)
            table = np.stack([np.bincount(bins, weights=row, minlength=BINS) for row in table])
        shares = table / np.maximum(1, table.sum(axis=1, keepdims=True))
        for value in range(size):
            distances[value] += np.abs(shares - shares[value]).sum(axis=1) / 2
    return distances / max(1, len(rest))


def _describe_match(columns: CodedColumns, column: int, distances: Floats, pair: tuple[int, int]) -> str:
    """Return how alike two values are, and the value that would have come next."""
    first, second = (columns.value(column, code) for code in pair)
    text = f"{first} and {second} differ by {distances[pair[1]]:.3f} in mean total variation"
    others = [code for code in range(len(distances)) if code not in pair]
    if not others:
        return text
    best = min(others, key=lambda code: distances[code])
    return f"{text}, {first} and {columns.value(column, best)} (next best) by {distances[best]:.3f}"


# People as small numbers: per attribute the values that occur, and who has which.


@dataclass(frozen=True)
class CodedColumns:
    """Attributes as positions among the entries that occur.

    Attributes:
        attributes: in the order of an individual's entries.
        entries: per attribute the entries that occur, increasing.
        codes: shape (n, attributes), positions in ``entries``; -1 where the value is missing.
    """

    attributes: tuple[Attribute, ...]
    entries: tuple[Floats, ...]
    codes: Integers

    def count(self, one: int, other: int, among: Booleans | None = None) -> Integers:
        """Return how many people have each pair of values, shape (entries of one, entries of other)."""
        first, second = self.codes[:, one], self.codes[:, other]
        known = (first >= 0) & (second >= 0)
        known = known if among is None else known & among
        shape = len(self.entries[one]), len(self.entries[other])
        cells = np.bincount(first[known] * shape[1] + second[known], minlength=shape[0] * shape[1])
        return cells.reshape(shape)

    def value(self, column: int, code: int) -> Value:
        """Return a value as it stands in the data."""
        attribute, entry = self.attributes[column], float(self.entries[column][code])
        if attribute.values is not None:
            return attribute.values[int(entry)]
        return int(entry) if attribute.kind == "integer" else entry


def code_columns(people: People) -> CodedColumns:
    """Return people's attributes as positions among the entries that occur."""
    individuals = people.individuals[:, : len(people.schema.attributes)]
    codes = np.full(individuals.shape, -1, dtype=np.int64)
    entries = []
    for column, values in enumerate(individuals.T):
        known = ~np.isnan(values)
        found, codes[known, column] = np.unique(values[known], return_inverse=True)
        entries.append(found)
    return CodedColumns(people.schema.attributes, tuple(entries), codes)


# Forbidden combinations: values that would meet in hundreds of people, were they independent, and do not.
#
# For a pair with k people, and e = n_a n_b / n expected if the two were independent, the null hypothesis is that at
# least ``RARE`` times as many have it as chance would give: p = P(Poisson(RARE e) <= k). Holm's correction over all
# pairs controls the chance of one false rule. A few people may have the combination all the same: data hold wrong
# entries.


RARE = 0.05
"""A combination is forbidden if less than this share of what chance would give exists."""

LEVEL = 0.01
"""Chance of one false rule or more, over all combinations together."""

MOST_SEEN = 1e-4
"""Share of all people who may have a forbidden combination, at most: wrong entries."""


@dataclass(frozen=True)
class ForbiddenPairs:
    """Pairs of values of two attributes that do not occur together.

    Attributes:
        columns: of the two attributes.
        forbidden: shape (values of the first, values of the second), by their codes.
        seen, expected: the same shape: people who have the pair, and how many had it if the two were independent.
    """

    columns: tuple[int, int]
    forbidden: Booleans
    seen: Integers
    expected: Floats


def find_forbidden(columns: CodedColumns, determined: frozenset[frozenset[int]]) -> list[ForbiddenPairs]:
    """Find the combinations of two values that do not occur.

    Args:
        columns: the people.
        determined: pairs of columns that a dependency ties together, which are not looked at.
    """
    counts = list(_count_all(columns, determined))
    if not counts:
        return []
    seen = np.concatenate([one.seen.ravel() for one in counts])
    expected = np.concatenate([one.expected.ravel() for one in counts])
    rejected = holm(poisson_cdf(seen, RARE * expected)) <= LEVEL
    rejected &= seen <= MOST_SEEN * len(columns.codes)
    ends = np.cumsum([one.seen.size for one in counts])[:-1]
    return [
        replace(one, forbidden=part.reshape(one.seen.shape))
        for one, part in zip(counts, np.split(rejected, ends), strict=True)
        if part.any()
    ]


def _count_all(columns: CodedColumns, determined: frozenset[frozenset[int]]) -> Iterator[ForbiddenPairs]:
    """Yield the counts of each pair of categorical attributes; nothing is forbidden yet."""
    discrete = [column for column, attribute in enumerate(columns.attributes) if attribute.is_discrete]
    for pair in combinations(discrete, 2):
        if frozenset(pair) not in determined:
            table = columns.count(*pair)
            expected = table.sum(axis=1, keepdims=True) * table.sum(axis=0) / max(1, table.sum())
            yield ForbiddenPairs(pair, np.zeros(table.shape, dtype=np.bool_), table, expected)
