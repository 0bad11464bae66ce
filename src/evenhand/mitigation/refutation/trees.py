"""Decision trees of depth 1 to 3 over binary features: the least gap at an accuracy floor, by looking at all of them.

What a tree does to people is added up from its two branches, each a tree of one depth less over the people who answer
one way: how many are decided rightly, and the difference of every pair of groups in whole numbers. Branches that do the
same are one branch; pairs that cannot reach the floor together are not looked at. All numbers are whole, so what is
found is exact.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple, TypeAlias

import numpy as np

from evenhand.core.interrupts import InterruptCounter
from evenhand.core.typing import Booleans, Floats, Integers, Progress
from evenhand.mitigation.refutation.features import FeatureCells

BLOCK = 4_000_000
"""Pairs of branches that are looked at together."""
MAX_PAIRS = 10**10
"""Maximum number of pairs of branches that are looked at."""


class TreeLeaf(NamedTuple):
    """The end of a branch: whether these people are accepted."""

    accepted: bool


class RuleQuestion(NamedTuple):
    """A question about one feature, and the branches of those without and with it."""

    feature: int
    without: TreeRule
    holding: TreeRule


TreeRule: TypeAlias = TreeLeaf | RuleQuestion


class Branches(NamedTuple):
    """Different branches over some people.

    Attributes:
        outcomes: how many are decided rightly, and the difference of every pair, shape (branches, 1 + pairs).
        rules: a tree for each, made when it is asked for.
    """

    outcomes: Integers
    rules: Callable[[int], TreeRule]


@dataclass
class SearchedTrees:
    """The best tree and its gap.

    Attributes:
        complete: Whether all trees were looked at.
        pairs: Number of pairs of branches that were looked at.
        stopped: Whether a limit was reached.
        interrupted: Whether an interrupt (Ctrl-C) ended the search.
    """

    gap: float
    best: TreeRule | None
    complete: bool
    pairs: int = 0
    stopped: bool = False
    interrupted: bool = False


class RuleTreeSearch:
    """All trees over a table of cells."""

    def __init__(self, table: FeatureCells, depth: int) -> None:
        self.table, self.depth = table, depth
        groups = table.counts.sum(axis=(0, 2))
        self.pairs = list(combinations(range(len(groups)), 2))
        # The difference of a pair in parts of the product of both groups' sizes, of each cell when it is accepted.
        sizes = table.counts.sum(axis=2)
        differences = [sizes[:, one] * groups[two] - sizes[:, two] * groups[one] for one, two in self.pairs]
        self.parts: Floats = np.array([float(groups[one] * groups[two]) for one, two in self.pairs])
        self.accepting = np.column_stack([table.counts[:, :, 1].sum(axis=1), *differences])
        self.refusing = np.column_stack([table.counts[:, :, 0].sum(axis=1), *(0 * one for one in differences)])

    def run(self, time_limit: float | None, progress: Progress, *, clock: Callable[[], float]) -> SearchedTrees:
        """Return the best tree; it is not complete if a limit was reached or on an interrupt."""
        started = clock()
        found = SearchedTrees(np.inf, None, complete=True)
        everybody = np.ones(len(self.table.features), dtype=np.bool_)
        with InterruptCounter() as interrupts:

            def is_over() -> bool:
                late = time_limit is not None and clock() - started > time_limit
                found.stopped = late or found.pairs > MAX_PAIRS
                found.interrupted = bool(interrupts.count)
                return found.stopped or found.interrupted

            leaves = self._branches(everybody, 0)
            for at, outcome in enumerate(leaves.outcomes):
                self._offer(found, outcome, leaves.rules(at))
            for feature in range(self.table.features.shape[1]):
                progress(f"trees that ask about feature {feature + 1} first", feature / self.table.features.shape[1])
                if not self._search_root(found, feature, is_over):
                    found.complete = False
                    break
        return found

    def _search_root(self, found: SearchedTrees, feature: int, is_over: Callable[[], bool]) -> bool:
        """Look at all trees that ask about one feature first; return whether that was done."""
        has = self.table.features[:, feature] == 1
        sides = []
        for members in (~has, has):
            sides.append(self._branches(members, self.depth - 1))
            if is_over():
                return False
        without, holding = sides
        # Those with more right decisions first, so that who reaches the floor together with a branch stands in front.
        order = np.argsort(-holding.outcomes[:, 0], kind="stable")
        other = holding.outcomes[order]
        reach = np.searchsorted(-other[:, 0], without.outcomes[:, 0] - self.table.need, side="right")
        rows = np.flatnonzero(reach)
        rows = rows[np.argsort(reach[rows], kind="stable")]
        at = 0
        while at < len(rows):
            step = max(1, BLOCK // int(reach[rows[min(at + 255, len(rows) - 1)]]))
            block = rows[at : at + min(step, 256)]
            most = int(reach[block].max())
            gaps = np.zeros((len(block), most))
            for pair, part in enumerate(self.parts, 1):
                sums = without.outcomes[block, pair][:, None] + other[:most, pair]
                np.maximum(gaps, np.abs(sums) / part, out=gaps)
            # Branches beyond a branch's reach do not come to the floor with it.
            gaps[np.arange(most) >= reach[block][:, None]] = np.inf
            best = int(gaps.argmin())
            one, two = block[best // most], order[best % most]
            if gaps.flat[best] < found.gap:
                outcome = without.outcomes[one] + holding.outcomes[two]
                tree = RuleQuestion(feature, without.rules(int(one)), holding.rules(int(two)))
                self._offer(found, outcome, tree)
            at += len(block)
            found.pairs += len(block) * most
            if is_over():
                return False
        return True

    def _offer(self, found: SearchedTrees, outcome: Integers, rule: TreeRule) -> None:
        gap = float((np.abs(outcome[1:]) / self.parts).max())
        if outcome[0] >= self.table.need and gap < found.gap:
            found.gap, found.best = gap, rule

    def _branches(self, members: Booleans, depth: int) -> Branches:
        """Return all different branches of a depth at most over some cells."""
        # The outcomes below a question are all sums of one from each side. Equal ones are kept once, with the place of
        # the first, from which a tree is found again when it is wanted.
        outcomes = np.stack([self.refusing[members].sum(axis=0), self.accepting[members].sum(axis=0)])
        parts: list[tuple[int, Branches, Branches]] = []
        blocks = [outcomes]
        if depth > 0:
            for feature in range(self.table.features.shape[1]):
                has = self.table.features[:, feature] == 1
                if not (members & has).any() or not (members & ~has).any():
                    continue
                two = self._branches(members & ~has, depth - 1), self._branches(members & has, depth - 1)
                parts.append((feature, *two))
                blocks.append((two[0].outcomes[:, None] + two[1].outcomes).reshape(-1, outcomes.shape[1]))
        kept, first = np.unique(np.concatenate(blocks), axis=0, return_index=True)
        starts = np.cumsum([0, *map(len, blocks)])

        def rule(number: int) -> TreeRule:
            at = int(first[number])
            block = int(np.searchsorted(starts, at, side="right")) - 1
            if block == 0:
                return TreeLeaf(bool(at))
            feature, without, holding = parts[block - 1]
            one, two = divmod(at - int(starts[block]), len(holding.outcomes))
            return RuleQuestion(feature, without.rules(one), holding.rules(two))

        return Branches(kept, rule)


def apply_tree(rule: TreeRule, features: Integers) -> Booleans:
    """Return whom a tree accepts of people with features (n, features), shape (n,)."""
    if isinstance(rule, TreeLeaf):
        return np.full(len(features), rule.accepted)
    has = features[:, rule.feature] == 1
    return np.where(has, apply_tree(rule.holding, features), apply_tree(rule.without, features))


def write_tree(rule: TreeRule) -> str:
    """Return a tree as one line: ``feature number ? (holds) : (does not)``."""
    if isinstance(rule, TreeLeaf):
        return "accept" if rule.accepted else "refuse"
    return f"{rule.feature} ? ({write_tree(rule.holding)}) : ({write_tree(rule.without)})"


def read_tree(text: str) -> TreeRule:
    """Return the tree that ``write_tree`` wrote."""
    feature, found, rest = text.partition(" ? (")
    if not found:
        return TreeLeaf(text == "accept")
    deep, at = 1, 0
    while deep:
        deep += {"(": 1, ")": -1}.get(rest[at], 0)
        at += 1
    return RuleQuestion(int(feature), read_tree(rest[at + 4 : -1]), read_tree(rest[: at - 1]))
