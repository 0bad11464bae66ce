"""Plausible pairs and moves against slow references: each pair of values is judged by itself."""

from __future__ import annotations

import numpy as np
import pytest

from evenhand.individual.search.methods.frontier import NEIGHBOUR, RIDGE, Surrogate, likeliest
from evenhand.individual.search.moves import Moves
from evenhand.individual.search.plausibility import BINS, ValuePairs
from evenhand.individual.search.space import ProfileSpace
from evenhand.schema.people import People
from evenhand.schema.schema import Schema
from evenhand.stats.level import poisson_cdf


def random_people(rng: np.random.Generator) -> People:
    n, columns = int(rng.choice([30, 300, 3000])), int(rng.integers(3, 8))
    common = rng.normal(size=n)
    attributes, entries = [], []
    for j in range(columns):
        value = common * rng.choice([0, 0.5, 2]) + rng.normal(size=n)
        kind = int(rng.integers(0 if j else 2, 5))
        if kind == 0:
            attributes.append({"name": f"a{j}", "kind": "real", "lower": -20, "upper": 20})
            entries.append(np.clip(value, -20, 20))
        elif kind == 1:
            attributes.append({"name": f"a{j}", "kind": "integer", "lower": -100, "upper": 100})
            entries.append(np.clip(np.round(value * 20), -100, 100))
        elif kind == 2:
            attributes.append({"name": f"a{j}", "kind": "categorical", "values": [f"v{i}" for i in range(6)]})
            entries.append(np.clip(np.round(value + 3), 0, 5))
        else:
            attributes.append({"name": f"a{j}", "kind": "integer", "lower": 0, "upper": 9})
            entries.append(np.clip(np.round((common if kind == 3 else value) + 4), 0, 9))
    attributes[0]["protected"] = True
    target = {"name": "t", "favourable": "1", "values": ["0", "1"]}
    schema = Schema.parse({"target": target, "attributes": attributes})
    return People(schema, np.stack(entries, axis=1).astype(float), None, np.arange(n), None)


def absent(seen: int, expected: float, people: int, *, unseen: bool) -> bool:
    error = seen <= max(1.0, 1e-4 * people) and float(poisson_cdf(np.array(seen), np.array(0.05 * expected))) < 0.01
    return error or (seen == 0 and not unseen)


def is_in_range(counts: np.ndarray, row: int, column: int, *, unseen: bool) -> bool:
    """Check that a column is in the range observed with a row, ignoring errors at both ends."""
    people = int(counts.sum())
    expected = counts[row].sum() * counts.sum(axis=0) / people
    ends = (range(column, counts.shape[1]), range(column + 1))
    before = any(absent(counts[row, : c + 1].sum(), expected[: c + 1].sum(), people, unseen=unseen) for c in ends[0])
    after = any(absent(counts[row, c:].sum(), expected[c:].sum(), people, unseen=unseen) for c in ends[1])
    return not before and not after


def sixteenths(counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    people = counts.sum(axis=1)
    bins = np.minimum((np.cumsum(people) - people / 2) * BINS // people.sum(), BINS - 1).astype(int)
    merged = np.stack([counts[bins == i].sum(axis=0) for i in range(BINS)])
    return merged, bins


def occur_together(pairs: ValuePairs, codes: np.ndarray, i: int, j: int, a: int, b: int, *, unseen: bool) -> bool:
    counts = np.zeros((pairs.sizes[i], pairs.sizes[j]), dtype=int)
    np.add.at(counts, (codes[:, i], codes[:, j]), 1)
    by_range = (pairs.cuts[i] is not None, pairs.cuts[j] is not None)
    if by_range == (False, False):
        return not absent(counts[a, b], counts[a].sum() * counts[:, b].sum() / len(codes), len(codes), unseen=unseen)
    good = True
    for table, row, column, ranged, merges in (
        (counts, a, b, by_range[1], by_range[0]),
        (counts.T, b, a, by_range[0], by_range[1]),
    ):
        if ranged:
            merged, bins = sixteenths(table) if merges else (table, np.arange(len(table)))
            good &= is_in_range(merged, bins[row], column, unseen=unseen)
    return good


@pytest.mark.parametrize("seed", range(12))
def test_pairs_and_moves_match_a_slow_reference(seed: int) -> None:
    rng = np.random.default_rng(seed)
    people = random_people(rng)
    space = ProfileSpace(people)
    pairs, moves = space.pairs, Moves.of(space)
    assert pairs is not None
    codes = pairs.cells(people.individuals) - pairs.start
    rows = people.individuals[rng.integers(0, len(people), 30)].copy()
    for j in range(rows.shape[1]):
        mixed = rng.random(len(rows)) < 0.3
        rows[mixed, j] = people.individuals[rng.integers(0, len(people), int(mixed.sum())), j]
    cells = pairs.cells(rows) - pairs.start
    expected = [
        all(
            occur_together(pairs, codes, i, j, row[i], row[j], unseen=0 in (i, j))
            for i in range(len(row))
            for j in range(i)
        )
        and all(row[i] in codes[:, i] for i in range(1, len(row)))
        for row in cells
    ]
    assert pairs.all_pairs_occur(rows).tolist() == expected
    many = np.repeat(rows, 100, axis=0)
    assert pairs.all_pairs_occur(many)[::100].tolist() == expected

    profiles = space.people[:20]
    levels = moves.codes(profiles)
    for profile, opened in zip(levels, moves.open(levels), strict=True):
        for level in rng.choice(len(moves.attribute), 20).tolist():
            own = moves.attribute[level]
            clashes = [
                clash(space, moves, other, level)
                for part, other in enumerate(profile.tolist())
                if part != own and moves.dependent_levels[level, part] < 0
            ]
            possible = bool(moves.possible[level])
            assert opened[level] == (level != profile[own] and possible and not any(clashes))


def clash(space: ProfileSpace, moves: Moves, first: int, second: int) -> bool:
    """Check that two levels of different attributes do not occur together, by a person who has both."""
    row = np.array([[attribute.first for attribute in space.schema.attributes]])
    columns = []
    for level in (first, second):
        part = moves.attribute[level]
        columns.append(space.columns[part])
        row[0, columns[-1]] = moves.levels[level]
    alone = [bool(space.pairs.all_pairs_occur(row, [column])[0]) for column in columns]
    return all(alone) and not space.pairs.all_pairs_occur(row, columns)[0]


def test_conjugate_gradients_match_the_direct_solution() -> None:
    rng = np.random.default_rng(0)
    attributes = [{"name": "sex", "kind": "categorical", "values": ["f", "m"], "protected": True}]
    attributes += [{"name": f"a{j}", "kind": "integer", "lower": 0, "upper": 39} for j in range(30)]
    schema = Schema.parse({"target": {"name": "t", "favourable": "1", "values": ["0", "1"]}, "attributes": attributes})
    moves = Moves.of(ProfileSpace(schema))
    levels = len(moves.attribute)
    surrogate = Surrogate(moves, 2, 2, label_only=False)
    codes = moves.start + rng.integers(0, 40, size=(400, 30))
    answers = rng.normal(size=(400, 2))
    surrogate.learn_answers(codes[:200], answers[:200])
    surrogate.learn_answers(codes[200:], answers[200:])
    for _ in range(5):
        surrogate.fit()
    indicators = np.zeros((400, levels))
    indicators[np.arange(400)[:, None], codes] = 1
    direct = np.linalg.solve(indicators.T @ indicators + RIDGE * np.eye(levels), indicators.T @ answers)
    np.testing.assert_allclose(
        surrogate.guess_answers(np.zeros((levels - 1, 2)), np.zeros(levels - 1, dtype=int), np.arange(1, levels)),
        direct[1:] - direct[0],
        atol=0.01,
    )


@pytest.mark.parametrize("max_size", [0, 5, 40, 1000])
def test_a_queue_keeps_the_likeliest_parent_of_each_of_the_likeliest_profiles(max_size: int) -> None:
    rng = np.random.default_rng(max_size)
    neighbours = np.empty(200, NEIGHBOUR)
    for name, values in (("chance", rng.random(200)), ("mark", rng.integers(0, 60, 200)), ("parent", range(200))):
        neighbours[name] = values
    neighbours["level"] = 0
    by_mark: dict[int, tuple[float, int]] = {}
    for neighbour in neighbours:
        mark, chance = int(neighbour["mark"]), float(neighbour["chance"])
        by_mark[mark] = max(by_mark.get(mark, (0.0, 0)), (chance, int(neighbour["parent"])))
    expected = sorted(by_mark.values(), reverse=True)[:max_size]
    queue = likeliest(neighbours, max_size)
    assert list(zip(queue["chance"].tolist(), queue["parent"].tolist(), strict=True)) == expected
