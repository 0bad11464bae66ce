"""Decision trees of depth 1 to 3 over binary features: the smallest gap at an accuracy floor, by enumeration.

The outcome of a tree is the sum of its two branches, each a tree of lower depth over the people with one answer: the
number of correct decisions, and the difference of each pair of groups as an integer. Branches with equal outcomes are
merged, and pairs of branches that cannot reach the floor are skipped. All numbers are integers, so the result is exact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations
from typing import NamedTuple, TypeAlias

import numpy as np

from evenhand.core.interrupts import InterruptCounter
from evenhand.core.typing import Booleans, Floats, Integers, Progress
from evenhand.mitigation.refutation.features import FeatureCells
from evenhand.mitigation.refutation.result import NO_RULE, FamilyBound

NEAREST = 1e-9
"""Distance of the bound below the smallest gap, which is rounded."""

BLOCK = 4_000_000
"""Number of pairs of branches that are evaluated together."""
MAX_PAIRS = 10**10
"""Maximum number of pairs of branches."""


class TreeLeaf(NamedTuple):
    """Leaf with its decision."""

    accepted: bool


class RuleQuestion(NamedTuple):
    """Question about a feature, and the branches of people without and with it."""

    feature: int
    without: TreeRule
    holding: TreeRule


TreeRule: TypeAlias = TreeLeaf | RuleQuestion


class Branches(NamedTuple):
    """Distinct branches over some people.

    Attributes:
        outcomes: Number of correct decisions, and difference of each pair of groups, shape (branches, 1 + pairs).
        rules: Function that builds the tree of a branch.
    """

    outcomes: Integers
    rules: Callable[[int], TreeRule]


class RuleTreeSearch:
    """Enumeration of all trees over a table of cells.

    Attributes:
        gap: Gap of the best tree.
        best: Best tree, or None if none reaches the floor.
        pairs: Number of pairs of branches evaluated.
    """

    def __init__(self, table: FeatureCells, depth: int) -> None:
        self.table, self.depth = table, depth
        self.gap = np.inf
        self.best: TreeRule | None = None
        self.pairs = 0
        groups = table.counts.sum(axis=(0, 2))
        pairs = list(combinations(range(len(groups)), 2))
        # The difference of a pair from accepting a cell, in units of the product of both groups' sizes.
        sizes = table.counts.sum(axis=2)
        differences = [sizes[:, a] * groups[b] - sizes[:, b] * groups[a] for a, b in pairs]
        self.units: Floats = np.array([float(groups[a] * groups[b]) for a, b in pairs])
        self.accepting = np.column_stack([table.counts[:, :, 1].sum(axis=1), *differences])
        self.refusing = np.zeros_like(self.accepting)
        self.refusing[:, 0] = table.counts[:, :, 0].sum(axis=1)

    def run(self, time_limit: float | None, progress: Progress, *, clock: Callable[[], float]) -> FamilyBound:
        """Find the best tree. Without a limit or an interrupt, its gap is the bound."""
        started = clock()
        width = self.table.features.shape[1]
        complete, stopped = False, False
        with InterruptCounter() as interrupts:
            leaves = self._branches(np.ones(len(self.table.features), dtype=np.bool_), 0)
            for at, outcome in enumerate(leaves.outcomes):
                self._offer(outcome, leaves.rules(at))
            for _ in (step for feature in range(width) for step in self._search_root(feature, progress)):
                stopped = (time_limit is not None and clock() - started > time_limit) or self.pairs > MAX_PAIRS
                if stopped or interrupts.count:
                    break
            else:
                complete = True
        tree, decisions, rule = self.best, None, {}
        if tree is not None:
            decisions = apply_tree(tree, self.table.features).astype(np.float64)
            text = write_tree(tree)
            rule = {"words": f"a tree of {text.count('?')} questions", "tree": text}
        bound = -1.0 if not complete else NO_RULE if tree is None else self.gap - NEAREST
        return FamilyBound(bound, decisions, rule, stopped=stopped, interrupted=bool(interrupts.count))

    def _search_root(self, feature: int, progress: Progress) -> Iterator[None]:
        """Evaluate all trees with a feature at the root. Yield after each part of the work."""
        progress(f"trees with feature {feature + 1} at the root", feature / self.table.features.shape[1])
        has = self.table.features[:, feature] == 1
        sides = []
        for members in (~has, has):
            sides.append(self._branches(members, self.depth - 1))
            yield
        without, holding = sides
        # Branches with more correct decisions come first, so that those within reach of the floor are a prefix.
        order = np.argsort(-holding.outcomes[:, 0], kind="stable")
        sorted_outcomes = holding.outcomes[order]
        reach = np.searchsorted(-sorted_outcomes[:, 0], without.outcomes[:, 0] - self.table.need, side="right")
        rows = np.flatnonzero(reach)
        rows = rows[np.argsort(reach[rows], kind="stable")]
        at = 0
        while at < len(rows):
            step = max(1, BLOCK // int(reach[rows[min(at + 255, len(rows) - 1)]]))
            block = rows[at : at + min(step, 256)]
            columns = int(reach[block].max())
            gaps = np.zeros((len(block), columns))
            for pair, unit in enumerate(self.units, 1):
                sums = without.outcomes[block, pair][:, None] + sorted_outcomes[:columns, pair]
                np.maximum(gaps, np.abs(sums) / unit, out=gaps)
            gaps[np.arange(columns) >= reach[block][:, None]] = np.inf  # these do not reach the floor
            best = int(gaps.argmin())
            first, second = block[best // columns], order[best % columns]
            if gaps.flat[best] < self.gap:
                outcome = without.outcomes[first] + holding.outcomes[second]
                tree = RuleQuestion(feature, without.rules(int(first)), holding.rules(int(second)))
                self._offer(outcome, tree)
            at += len(block)
            self.pairs += len(block) * columns
            yield

    def _offer(self, outcome: Integers, rule: TreeRule) -> None:
        gap = float((np.abs(outcome[1:]) / self.units).max())
        if outcome[0] >= self.table.need and gap < self.gap:
            self.gap, self.best = gap, rule

    def _branches(self, members: Booleans, depth: int) -> Branches:
        """Enumerate all distinct branches of at most a depth over some cells."""
        # The outcomes below a question are all sums of one outcome from each side. The first of equal outcomes is kept
        # with its position, from which the tree is rebuilt on demand.
        outcomes = np.stack([self.refusing[members].sum(axis=0), self.accepting[members].sum(axis=0)])
        parts: list[tuple[int, Branches, Branches]] = []
        blocks = [outcomes]
        for feature in range(self.table.features.shape[1] if depth > 0 else 0):
            has = self.table.features[:, feature] == 1
            if (members & has).any() and (members & ~has).any():
                sides = self._branches(members & ~has, depth - 1), self._branches(members & has, depth - 1)
                parts.append((feature, *sides))
                blocks.append((sides[0].outcomes[:, None] + sides[1].outcomes).reshape(-1, outcomes.shape[1]))
        distinct, first = np.unique(np.concatenate(blocks), axis=0, return_index=True)
        starts = np.cumsum([0, *map(len, blocks)])

        def rule(number: int) -> TreeRule:
            at = int(first[number])
            block = int(np.searchsorted(starts, at, side="right")) - 1
            if block == 0:
                return TreeLeaf(bool(at))
            feature, without, holding = parts[block - 1]
            row, column = divmod(at - int(starts[block]), len(holding.outcomes))
            return RuleQuestion(feature, without.rules(row), holding.rules(column))

        return Branches(distinct, rule)


def apply_tree(rule: TreeRule, features: Integers) -> Booleans:
    """Apply a tree to people with features (n, features), shape (n,)."""
    if isinstance(rule, TreeLeaf):
        return np.full(len(features), rule.accepted)
    has = features[:, rule.feature] == 1
    return np.where(has, apply_tree(rule.holding, features), apply_tree(rule.without, features))


def write_tree(rule: TreeRule) -> str:
    """Write a tree as one line: ``feature number ? (if it holds) : (otherwise)``."""
    if isinstance(rule, TreeLeaf):
        return "accept" if rule.accepted else "refuse"
    return f"{rule.feature} ? ({write_tree(rule.holding)}) : ({write_tree(rule.without)})"


def read_tree(text: str) -> TreeRule:
    """Read a tree written by ``write_tree``."""
    feature, question, remainder = text.partition(" ? (")
    if not question:
        return TreeLeaf(text == "accept")
    depth, at = 1, 0
    while depth:
        depth += {"(": 1, ")": -1}.get(remainder[at], 0)
        at += 1
    return RuleQuestion(int(feature), read_tree(remainder[at + 4 : -1]), read_tree(remainder[: at - 1]))
