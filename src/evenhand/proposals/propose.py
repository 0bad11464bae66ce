"""Propose rules, dependencies and links for a schema from data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, permutations

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
    """Propose rules, dependencies and links that the data suggest and the schema does not contain.

    Dependencies and forbidden pairs of values have passed a test with an error probability of 1 % per data set. Links,
    the correspondences between values, must be confirmed by a person.

    Args:
        people: Data. The tests require several thousand people.
        rng: Random generator that selects the half of the people from which dependencies are learnt.

    Example:
        >>> import evenhand, numpy as np
        >>> adult = evenhand.datasets.load_dataset("adult")
        >>> proposals = propose_rules(evenhand.schema.encode(adult.schema, adult.frame), np.random.default_rng(0))
        >>> {str(proposal.entry): proposal.evidence for proposal in proposals}["relationship == Husband -> sex == Male"]
        'seen 1, expected 6,536'
    """
    schema, columns = people.schema, code_columns(people)
    dependencies = find_dependencies(columns, rng)
    entries = [*schema.dependencies, *(item.entry for item in dependencies if isinstance(item.entry, Dependency))]
    determined = frozenset(frozenset(schema.positions(dependency.between)) for dependency in entries)
    pairs = find_forbidden(columns, determined)
    proposals = [
        *(proposal for pair in pairs for proposal in imply_pairs(columns, pair)),
        *dependencies,
        *find_links(columns, schema.positions(schema.protected), pairs),
    ]
    return tuple(proposal for proposal in proposals if not _is_in_schema(proposal, schema))


def add_proposals(schema: Schema, proposals: Iterable[Proposal]) -> Schema:
    """Add the proposals that need no confirmation to a schema.

    Raises:
        SchemaError: A proposal contradicts the schema.
    """
    entries = [proposal.entry for proposal in proposals if proposal.accepted]
    fields = schema.model_dump()
    fields["rules"] = [*schema.rules, *(entry for entry in entries if isinstance(entry, str))]
    fields["dependencies"] = [*schema.dependencies, *(entry for entry in entries if isinstance(entry, Dependency))]
    return Schema.parse(fields)


def _is_in_schema(proposal: Proposal, schema: Schema) -> bool:
    entry = proposal.entry
    if isinstance(entry, Link):
        return any(link.move == entry.move for link in schema.links)
    if isinstance(entry, Dependency):
        return any(set(dependency.between) == set(entry.between) for dependency in schema.dependencies)
    return entry in schema.rules


# Conversion of forbidden pairs to implications in the language of schema rules.


def imply_pairs(columns: CodedColumns, pairs: ForbiddenPairs) -> list[Proposal]:
    """Convert forbidden pairs of values to a minimal set of implications.

    Values with the same forbidden values are combined. Of the two directions, the one with fewer implications
    is used. Ties are resolved in favour of more conclusions with ``==``, then of the shorter text.
    """
    reverse = ForbiddenPairs(pairs.columns[::-1], pairs.forbidden.T, pairs.seen.T, pairs.expected.T)

    def cost(proposals: list[Proposal]) -> tuple[int, int, int]:
        texts = [str(proposal.entry) for proposal in proposals]
        return len(texts), sum(" == " not in text.rpartition(" -> ")[2] for text in texts), len("".join(texts))

    return min((_imply_forward(columns, pairs), _imply_forward(columns, reverse)), key=cost)


def _imply_forward(columns: CodedColumns, pairs: ForbiddenPairs) -> list[Proposal]:
    """Build the implications from values of the first attribute."""
    codes_by_row: dict[bytes, list[int]] = {}
    for code, row in enumerate(pairs.forbidden):
        if row.any():
            codes_by_row.setdefault(row.tobytes(), []).append(code)
    premise, conclusion = pairs.columns
    proposals = []
    for codes in codes_by_row.values():
        forbidden = np.flatnonzero(pairs.forbidden[codes[0]]).tolist()
        cells = np.ix_(codes, forbidden)
        excluded = [columns.value(conclusion, code) for code in forbidden]
        allowed = [value for value in columns.attributes[conclusion].values or () if value not in excluded]
        consequent = (allowed, "==", "in") if len(allowed) == 1 else (excluded, "!=", "not in")
        antecedent = _list_values(columns, premise, [columns.value(premise, code) for code in codes], "==", "in")
        text = f"{antecedent} -> {_list_values(columns, conclusion, *consequent)}"
        evidence = f"seen {pairs.seen[cells].sum():,}, expected {pairs.expected[cells].sum():,.0f}"
        proposals.append(Proposal(text, evidence, accepted=True))
    return proposals


def _list_values(columns: CodedColumns, column: int, values: Sequence[Value], single: str, several: str) -> str:
    name = quote_word(columns.attributes[column].name)
    words = [quote_word(value) if isinstance(value, str) else str(value) for value in values]
    return f"{name} {single} {words[0]}" if len(words) == 1 else f"{name} {several} {{{', '.join(words)}}}"


# Functional dependencies: attributes determined by another attribute, except for a few wrong entries.


MAX_ERROR_RATE = 0.005
"""Maximum share of people who violate a dependency, as an upper bound that holds simultaneously for all pairs."""

MIN_IMPROVEMENT = 0.95
"""Minimum reduction of errors, compared with always predicting the most common value."""

MIN_BASELINE_ERRORS = 30
"""Minimum number of errors when always predicting the most common value."""

CONFIDENCE = 0.99
"""Simultaneous confidence level of the bounds."""

MAX_VALUES = 64
"""Maximum number of distinct values of a numeric determinant."""


def find_dependencies(columns: CodedColumns, rng: np.random.Generator) -> list[Proposal]:
    """Find attributes that are determined by another attribute.

    The map is learnt on a random half of the people, as the most common second value for each first value. Its errors
    are counted on the other half, where an unknown first value is an error, so a column that is almost a key is not a
    determinant. If both directions qualify, the one with fewer errors is used.
    """
    training = np.zeros(len(columns.codes), dtype=np.bool_)
    training[rng.permutation(len(training))[: len(training) // 2]] = True
    proposals: dict[tuple[int, int], Proposal] = {}
    for i, j in permutations(range(len(columns.attributes)), 2):
        attribute = columns.attributes[i]
        if attribute.is_discrete or (attribute.size is not None and attribute.size <= MAX_VALUES):
            evidence = _test_dependency(columns, (i, j), training)
            if evidence is not None:
                proposals[i, j] = Proposal(_learn_map(columns, i, j), evidence, accepted=True)
    for i, j in [pair for pair in proposals if pair[0] < pair[1] and pair[::-1] in proposals]:
        worse = _count_errors(columns, i, j) > _count_errors(columns, j, i)
        del proposals[(i, j) if worse else (j, i)]
    return list(proposals.values())


def _test_dependency(columns: CodedColumns, pair: tuple[int, int], training: Booleans) -> str | None:
    """Test a dependency, and describe the evidence; None if it is insufficient."""
    learnt, test = columns.count(*pair, training), columns.count(*pair, ~training)
    people = int(test.sum())
    if people == 0 or learnt.sum() == 0:
        return None
    baseline = people - int(test[:, learnt.sum(axis=0).argmax()].sum())
    correct = np.take_along_axis(test, learnt.argmax(axis=1)[:, None], axis=1)[:, 0]
    errors = people - int(correct[learnt.any(axis=1)].sum())
    if baseline < MIN_BASELINE_ERRORS or errors > (1 - MIN_IMPROVEMENT) * baseline:
        return None
    pairs = len(columns.attributes) * (len(columns.attributes) - 1)
    # Only the upper end is used, so the two-sided level has twice the error probability.
    bound = clopper_pearson(errors, people, bonferroni(1 - 2 * (1 - CONFIDENCE), pairs))[1]
    if errors > 0 and bound > MAX_ERROR_RATE:
        return None
    return f"{errors:,} of {people:,} held-out people differ; with the most common value alone {baseline:,}"


def _learn_map(columns: CodedColumns, i: int, j: int) -> Dependency:
    counts = columns.count(i, j)
    codes = np.flatnonzero(counts.sum(axis=1))
    return Dependency(
        between=(columns.attributes[i].name, columns.attributes[j].name),
        map={columns.value(i, int(code)): columns.value(j, int(counts[code].argmax())) for code in codes},
    )


def _count_errors(columns: CodedColumns, i: int, j: int) -> int:
    counts = columns.count(i, j)
    return int(counts.sum() - counts.max(axis=1).sum())


# Links: pairs of values, each of which only occurs with a different protected value.


BINS = 16
"""Number of quantile bins in which numbers are compared."""


def find_links(columns: CodedColumns, protected: Sequence[int], pairs: Sequence[ForbiddenPairs]) -> list[Proposal]:
    """Find values that correspond to each other if a protected attribute changes; a person must confirm each link.

    Let a be the most common protected value and a' another one. The values that are only forbidden under a' are matched
    with the values that are only forbidden under a. The assignment minimises the mean total variation of all other
    attributes between people with matched values (Kuhn, "The Hungarian method for the assignment problem", 1955).
    """
    proposals = []
    for pair in pairs:
        i, j = pair.columns
        for group, moved, forbidden in ((i, j, pair.forbidden), (j, i, pair.forbidden.T)):
            if group in protected and moved not in protected:
                proposal = _match_values(columns, group, moved, forbidden)
                proposals += [proposal] if proposal is not None else []
    return proposals


def _match_values(columns: CodedColumns, group: int, moved: int, forbidden: Booleans) -> Proposal | None:
    """Match the values of an attribute that changes with a protected one; None if there is no match."""
    from scipy.optimize import linear_sum_assignment

    common = int(np.bincount(columns.codes[columns.codes[:, group] >= 0, group]).argmax())
    distances = _compare_values(columns, group, moved)
    rows: dict[int, dict[Value, Value]] = {}
    row_of: dict[int, int] = {}
    evidence = []
    for value in range(len(forbidden)):
        of_common = np.flatnonzero(forbidden[value] & ~forbidden[common])
        of_value = np.flatnonzero(forbidden[common] & ~forbidden[value])
        i, j = linear_sum_assignment(distances[np.ix_(of_common, of_value)])
        for source, match in zip(of_common[i].tolist(), of_value[j].tolist(), strict=True):
            if row_of.setdefault(match, source) == source:  # a value may only be in one row
                row = rows.setdefault(source, {columns.value(group, common): columns.value(moved, source)})
                row[columns.value(group, value)] = columns.value(moved, match)
                evidence.append(_describe_match(columns, moved, distances[source], (source, match)))
    if not rows:
        return None
    when, move = columns.attributes[group].name, columns.attributes[moved].name
    return Proposal(Link(when=when, move=move, rows=tuple(rows.values())), "; ".join(evidence), accepted=False)


def _compare_values(columns: CodedColumns, group: int, moved: int) -> Floats:
    """Compute the pairwise distances between people with different values of an attribute, shape (values, values).

    The distance is the mean total variation over all attributes except these two.
    """
    size = len(columns.entries[moved])
    compared = [column for column in range(len(columns.attributes)) if column not in (group, moved)]
    distances = np.zeros((size, size))
    for column in compared:
        table = columns.count(moved, column)
        if not columns.attributes[column].is_discrete:
            people = table.sum(axis=0)
            bins = ((np.cumsum(people) - people / 2) / max(1, people.sum()) * BINS).astype(np.int64)
            table = np.stack([np.bincount(bins, weights=row, minlength=BINS) for row in table])
        shares = table / np.maximum(1, table.sum(axis=1, keepdims=True))
        for value in range(size):
            distances[value] += np.abs(shares - shares[value]).sum(axis=1) / 2
    return distances / max(1, len(compared))


def _describe_match(columns: CodedColumns, column: int, distances: Floats, pair: tuple[int, int]) -> str:
    """Describe the distance between two matched values, and the distance to the next best match."""
    source, match = (columns.value(column, code) for code in pair)
    text = f"{source} and {match} differ by {distances[pair[1]]:.3f} in mean total variation"
    alternatives = [code for code in range(len(distances)) if code not in pair]
    if not alternatives:
        return text
    best = min(alternatives, key=lambda code: distances[code])
    return f"{text}, {source} and {columns.value(column, best)} (next best) by {distances[best]:.3f}"


# Integer codes of attribute values.


@dataclass(frozen=True)
class CodedColumns:
    """Integer codes of people's attributes.

    Attributes:
        attributes: Attributes, in schema order.
        entries: Sorted distinct entries of each attribute.
        codes: Positions in ``entries``, or -1 if missing, shape (n, attributes).
    """

    attributes: tuple[Attribute, ...]
    entries: tuple[Floats, ...]
    codes: Integers

    def count(self, i: int, j: int, mask: Booleans | None = None) -> Integers:
        """Count people by the values of two attributes, shape (entries of i, entries of j).

        Args:
            i, j: Positions of the attributes.
            mask: People to count, shape (n,). Default: all.
        """
        rows, columns = self.codes[:, i], self.codes[:, j]
        used = (rows >= 0) & (columns >= 0) & (True if mask is None else mask)
        shape = len(self.entries[i]), len(self.entries[j])
        return np.bincount(rows[used] * shape[1] + columns[used], minlength=shape[0] * shape[1]).reshape(shape)

    def value(self, column: int, code: int) -> Value:
        """Return the value of a code as in the data."""
        attribute, entry = self.attributes[column], float(self.entries[column][code])
        if attribute.values is not None:
            return attribute.values[int(entry)]
        return int(entry) if attribute.kind == "integer" else entry


def code_columns(people: People) -> CodedColumns:
    """Convert people's attributes to integer codes."""
    individuals = people.individuals[:, : len(people.schema.attributes)]
    codes = np.full(individuals.shape, -1, dtype=np.int64)
    entries = []
    for column, values in enumerate(individuals.T):
        present = ~np.isnan(values)
        unique, codes[present, column] = np.unique(values[present], return_inverse=True)
        entries.append(unique)
    return CodedColumns(people.schema.attributes, tuple(entries), codes)


# Forbidden pairs: pairs of values that would often occur together if they were independent, but hardly ever do.
#
# For a pair with k people, where independence implies e = n_a n_b / n, the null hypothesis is that the expected count
# is at least ``RARE`` e: p = P(Poisson(RARE e) <= k). Holm's correction over all pairs controls the probability of any
# false rule. A few people may have a forbidden pair, because data contain wrong entries.


RARE = 0.05
"""Largest ratio of the observed to the expected count of a forbidden pair."""

LEVEL = 0.01
"""Family-wise error rate: the probability of any false rule."""

MAX_SEEN_SHARE = 1e-4
"""Maximum share of people with a forbidden pair."""


@dataclass(frozen=True)
class ForbiddenPairs:
    """Pairs of values of two attributes that do not occur together.

    Attributes:
        columns: Positions of the two attributes.
        forbidden: Whether each pair is forbidden, by the codes of both values, shape (values, values).
        seen: Number of people with each pair, of the same shape.
        expected: Expected number of people under independence, of the same shape.
    """

    columns: tuple[int, int]
    forbidden: Booleans
    seen: Integers
    expected: Floats


def find_forbidden(columns: CodedColumns, determined: frozenset[frozenset[int]]) -> list[ForbiddenPairs]:
    """Find pairs of values that do not occur together.

    Args:
        columns: People.
        determined: Pairs of columns with a dependency, which are skipped.
    """
    counts = list(_count_all(columns, determined))
    if not counts:
        return []
    seen = np.concatenate([pairs.seen.ravel() for pairs in counts])
    expected = np.concatenate([pairs.expected.ravel() for pairs in counts])
    rejected = holm(poisson_cdf(seen, RARE * expected)) <= LEVEL
    rejected &= seen <= MAX_SEEN_SHARE * len(columns.codes)
    ends = np.cumsum([pairs.seen.size for pairs in counts])[:-1]
    return [
        replace(pairs, forbidden=mask.reshape(pairs.seen.shape))
        for pairs, mask in zip(counts, np.split(rejected, ends), strict=True)
        if mask.any()
    ]


def _count_all(columns: CodedColumns, determined: frozenset[frozenset[int]]) -> Iterator[ForbiddenPairs]:
    """Yield the counts of each pair of categorical attributes, with no pair of values marked as forbidden yet."""
    discrete = [column for column, attribute in enumerate(columns.attributes) if attribute.is_discrete]
    for pair in combinations(discrete, 2):
        if frozenset(pair) not in determined:
            table = columns.count(*pair)
            expected = table.sum(axis=1, keepdims=True) * table.sum(axis=0) / max(1, table.sum())
            yield ForbiddenPairs(pair, np.zeros(table.shape, dtype=np.bool_), table, expected)
