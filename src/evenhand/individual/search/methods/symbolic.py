"""SG, symbolic generation: a local decision tree stands in for the model, and its path conditions are negated.

Around a profile the model's label (under the profile's own assignment) is explained by a small tree. Negating one
condition of the path that leads to the profile gives the next ones to ask about: every one of them around a profile
that discriminates (local search), and the first ones, as long as the tree is sure of them, around any other (global
search). Waiting profiles are taken in the paper's order: local ones first, then seeds, then global ones.

Source: Agarwal et al., "Automated test generation to detect individual discrimination in AI models" (2018); Aggarwal et
al., "Black box fairness testing of machine learning models" (ESEC/FSE 2019). In place of a solver, the conditions on a
path leave an interval of every attribute, and its nearest point is taken, or a random one where the nearest is known.
"""

from __future__ import annotations

import heapq
import itertools
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from evenhand.individual.search.findings import Findings
from evenhand.individual.search.methods import Options
from evenhand.individual.search.oracle import Oracle
from evenhand.individual.search.space import Space

Floats: TypeAlias = NDArray[np.float64]

AROUND = 64
"""Questions to the model per tree."""

TOGETHER = 64
"""Profiles taken at a time, so that the model is asked about all of them at once."""

DEPTH = 6
SURE = 0.3
"""Global search goes down a path as long as the tree gives the label at least this share."""

LOCAL, SEED, GLOBAL = 1.0, 5.0, 10.0


@dataclass(frozen=True)
class Condition:
    """One decision on a path: an attribute is at most a threshold, or above it; sure of the label by a share."""

    attribute: int
    threshold: float
    below: bool
    sure: float

    def negated(self) -> Condition:
        """The other way."""
        return Condition(self.attribute, self.threshold, not self.below, 1 - self.sure)


class _Waiting:
    """Profiles to be asked about, the most promising first; each once."""

    def __init__(self, space: Space) -> None:
        self._space = space
        self._heap: list[tuple[float, int, Floats, int]] = []
        self._count = itertools.count()
        self._known: set[int] = set()

    def known(self, profile: Floats) -> bool:
        return int(self._space.keys(profile[None])[0]) in self._known

    def put(self, rank: float, profile: Floats, which: int) -> None:
        key = int(self._space.keys(profile[None])[0])
        if key not in self._known:
            self._known.add(key)
            heapq.heappush(self._heap, (rank, next(self._count), profile, which))

    def take(self, most: int) -> tuple[Floats, NDArray[np.int64]]:
        taken = [heapq.heappop(self._heap) for _ in range(min(most, len(self._heap)))]
        profiles = np.array([profile for _, _, profile, _ in taken]).reshape(len(taken), self._space.width)
        return profiles, np.array([which for *_, which in taken], dtype=np.int64)


def search(
    space: Space, oracle: Oracle, findings: Findings, seeds: Floats, rng: np.random.Generator, options: Options
) -> None:
    """Ask about at most ``local`` profiles per seed."""
    waiting = _Waiting(space)
    for profile, which in zip(*space.split(seeds), strict=True):
        waiting.put(SEED, profile, int(which))
    asked, most = 0, len(seeds) * max(1, options.local)
    while asked < most:
        profiles, under = waiting.take(min(TOGETHER, most - asked))
        if len(profiles) == 0:
            return
        asked += len(profiles)
        answers = oracle.ask(profiles)
        surroundings, labels = _explored(space, oracle, profiles, under, rng)
        for i in range(len(profiles)):
            own = int(answers.labels[i, under[i]])
            around = np.concatenate([surroundings[i], profiles[i : i + 1]])
            path = explained(around, np.append(labels[i], own), own)
            if answers.flips[i]:
                for j in range(len(path)):
                    wanted = [*path[:j], path[j].negated(), *path[j + 1 :]]
                    _put(space, waiting, LOCAL + _mean_sure(wanted), profiles[i], int(under[i]), wanted, rng)
            for j in range(len(path)):
                if path[j].sure < SURE:
                    break
                wanted = [*path[:j], path[j].negated()]
                _put(space, waiting, GLOBAL - _mean_sure(wanted), profiles[i], int(under[i]), wanted, rng)


def explained(around: Floats, labels: NDArray[np.int64], own: int) -> list[Condition]:
    """The conditions that a tree fitted to labels (n,) of profiles (n, U) puts on the last of them, root first."""
    if (labels == labels[0]).all():
        return []
    from sklearn.tree import DecisionTreeClassifier

    tree = DecisionTreeClassifier(max_depth=DEPTH, random_state=0).fit(around, labels == own)
    inside = tree.tree_
    path, node = [], 0
    while inside.children_left[node] != -1:
        attribute, threshold = int(inside.feature[node]), float(inside.threshold[node])
        below = bool(np.float32(around[-1, attribute]) <= threshold)
        node = int(inside.children_left[node] if below else inside.children_right[node])
        shares = inside.value[node][0]
        path.append(Condition(attribute, threshold, below, float(shares[-1] / shares.sum())))
    return path


def _explored(
    space: Space, oracle: Oracle, profiles: Floats, under: NDArray[np.int64], rng: np.random.Generator
) -> tuple[Floats, NDArray[np.int64]]:
    """Profiles around each (n, AROUND, U) and the model's label for them under its assignment (n, AROUND)."""
    n, u = profiles.shape
    around = np.repeat(profiles, AROUND, axis=0)
    drawn = space.anywhere(len(around), rng)
    # As many attributes are drawn anew as a coin says, so that near and far profiles are both there.
    changed = rng.random(around.shape) < rng.random((len(around), 1))
    around = np.where(changed, drawn, around)
    labels = np.argmax(oracle.scores_at(around, np.repeat(under, AROUND)), axis=1)
    return around.reshape(n, AROUND, u), np.asarray(labels, dtype=np.int64).reshape(n, AROUND)


def _put(
    space: Space,
    waiting: _Waiting,
    rank: float,
    profile: Floats,
    which: int,
    conditions: list[Condition],
    rng: np.random.Generator,
) -> None:
    """Let a profile wait that satisfies the conditions, if there is one that may be reported and was not known."""
    low, high = space.lower.copy(), space.upper.copy()
    for condition in conditions:
        i, step = condition.attribute, float(space.step[condition.attribute])
        whole = space.attributes[i].kind != "real"
        if condition.below:
            high[i] = min(high[i], np.floor(condition.threshold) if whole else condition.threshold)
        else:
            low[i] = max(low[i], np.floor(condition.threshold) + 1 if whole else condition.threshold + step / 2)
    if (low > high).any():
        return
    nearest = np.clip(profile, low, high)
    trials = [nearest]
    if waiting.known(nearest) or not space.admissible(nearest[None])[0]:
        named = sorted({condition.attribute for condition in conditions})
        drawn = np.clip(space.anywhere(8, rng), low, high)
        others = np.repeat(nearest[None], 8, axis=0)
        others[:, named] = drawn[:, named]
        trials = [each for each in others[space.admissible(others)] if not waiting.known(each)][:1]
    for trial in trials:
        waiting.put(rank, trial, which)


def _mean_sure(conditions: list[Condition]) -> float:
    return sum(condition.sure for condition in conditions) / len(conditions)
