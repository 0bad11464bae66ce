"""SG, symbolic generation: a local decision tree stands in for the model, and its path conditions are negated.

Around a profile the model's label (under the profile's own assignment) is explained by a small tree. Negating one
condition of the path that leads to the profile gives the next ones to ask about: every one of them around a profile
that discriminates (local search), and the first ones, as long as the tree is sure of them, around any other (global
search). Waiting profiles are taken in the paper's order: local ones first, then seeds, then global ones.

Source: Agarwal et al., "Automated test generation to detect individual discrimination in AI models" (2018); Aggarwal et
al., "Black box fairness testing of machine learning models" (ESEC/FSE 2019), whose ranks 1, 5 and 10 and threshold 0.3
these are. Instead of a solver, the conditions on a path leave an interval of every attribute, and its nearest point is
taken, or a random one where the nearest is known. The published program ends when no profile waits any more; with a
budget the search goes on from other seeds.
"""

from __future__ import annotations

import heapq
import itertools
from dataclasses import dataclass

import numpy as np

from evenhand.core.typing import Floats, Integers
from evenhand.individual.search.methods.choice import MethodOptions
from evenhand.individual.search.oracle import Oracle
from evenhand.individual.search.space import ProfileSpace

AROUND = 8
"""Questions to the model per tree. The published program asks 5,000, of which a budget pays for hardly a tree; among 8,
16, 32, 64 and 128 this few find most at equal budgets, and no less per profile asked about."""

TOGETHER = 16
"""Profiles taken at a time, so that the model is asked about all of them at once."""

CERTAINTY_BAR = 0.3
"""Global search goes down a path as long as the tree gives the label at least this share."""

LOCAL, SEED, GLOBAL = 1.0, 5.0, 10.0


@dataclass(frozen=True)
class PathCondition:
    """One decision on a path: an attribute is at most a threshold, or above it; sure of the label by a share."""

    attribute: int
    threshold: float
    below: bool
    sure: float

    def negate(self) -> PathCondition:
        """Return the other way."""
        return PathCondition(self.attribute, self.threshold, not self.below, 1 - self.sure)


class _ProfileQueue:
    """Profiles to be asked about, the most promising first; each once."""

    def __init__(self, space: ProfileSpace) -> None:
        self._space = space
        self._heap: list[tuple[float, int, Floats, int]] = []
        self._count = itertools.count()
        self._known: set[int] = set()

    def is_known(self, profile: Floats) -> bool:
        return int(self._space.keys(profile[None])[0]) in self._known

    def put(self, rank: float, profile: Floats, which: int) -> None:
        key = int(self._space.keys(profile[None])[0])
        if key not in self._known:
            self._known.add(key)
            heapq.heappush(self._heap, (rank, next(self._count), profile, which))

    def take(self, most: int) -> tuple[Floats, Integers]:
        taken = [heapq.heappop(self._heap) for _ in range(min(most, len(self._heap)))]
        profiles = np.array([profile for _, _, profile, _ in taken]).reshape(len(taken), self._space.width)
        return profiles, np.array([which for *_, which in taken], dtype=np.int64)


def search(oracle: Oracle, seeds: Floats, rng: np.random.Generator, options: MethodOptions) -> None:
    """Ask about at most ``local`` profiles per seed."""
    space = oracle.space
    waiting = _ProfileQueue(space)
    for profile, which in zip(*space.split(seeds), strict=True):
        waiting.put(SEED, profile, int(which))
    asked, most = 0, len(seeds) * max(1, options.local)
    while asked < most:
        profiles, under = waiting.take(min(TOGETHER, most - asked))
        if len(profiles) == 0:
            return
        asked += len(profiles)
        answers = oracle.ask(profiles)
        # At the very end the budget pays for fewer trees, or for none: then those who wait are still asked about.
        explained = int(min(len(profiles), oracle.queries_left / AROUND))
        surroundings, labels = _sample_around(oracle, profiles[:explained], under[:explained], rng)
        for i in range(explained):
            own = int(answers.labels[i, under[i]])
            around = np.concatenate([surroundings[i], profiles[i : i + 1]])
            # A tree fitted to labels around the profile stands for the model's path: its conditions are what can be
            # negated.
            path = path_conditions(around, np.append(labels[i], own), own)
            _enqueue_negations(space, waiting, path, profiles[i], int(under[i]), rng, flips=bool(answers.flips[i]))


def _enqueue_negations(
    space: ProfileSpace,
    waiting: _ProfileQueue,
    path: list[PathCondition],
    profile: Floats,
    which: int,
    rng: np.random.Generator,
    *,
    flips: bool,
) -> None:
    """Let those wait to whom the path of a profile (U,), with one of its conditions negated, leads."""
    # Local: negating one condition and keeping the others stays near a profile that discriminates.
    for j in range(len(path) if flips else 0):
        wanted = [*path[:j], path[j].negate(), *path[j + 1 :]]
        _enqueue_profile(space, waiting, LOCAL + _mean_certainty(wanted), profile, which, wanted, rng)
    # Global: a prefix of the path, its last condition negated, leads elsewhere; below an unsure one nothing is known.
    for j in range(len(path)):
        if path[j].sure < CERTAINTY_BAR:
            break
        wanted = [*path[:j], path[j].negate()]
        _enqueue_profile(space, waiting, GLOBAL - _mean_certainty(wanted), profile, which, wanted, rng)


def path_conditions(around: Floats, labels: Integers, own: int) -> list[PathCondition]:
    """The conditions that a tree fitted to labels (n,) of profiles (n, U) puts on the last of them, root first."""
    if (labels == labels[0]).all():
        return []
    from sklearn.tree import DecisionTreeClassifier

    tree = DecisionTreeClassifier(random_state=0).fit(around, labels == own)
    inside = tree.tree_
    path, node = [], 0
    while inside.children_left[node] != -1:
        attribute, threshold = int(inside.feature[node]), float(inside.threshold[node])
        below = bool(np.float32(around[-1, attribute]) <= threshold)
        node = int(inside.children_left[node] if below else inside.children_right[node])
        shares = inside.value[node][0]
        path.append(PathCondition(attribute, threshold, below, float(shares[-1] / shares.sum())))
    return path


def _sample_around(
    oracle: Oracle, profiles: Floats, under: Integers, rng: np.random.Generator
) -> tuple[Floats, Integers]:
    """Return profiles around each (n, AROUND, U) and the model's label for them under its assignment (n, AROUND)."""
    n, u = profiles.shape
    around = np.repeat(profiles, AROUND, axis=0)
    drawn = oracle.space.draw_anywhere(len(around), rng)
    # How many attributes are redrawn is random, so that both near and far profiles occur.
    changed = rng.random(around.shape) < rng.random((len(around), 1))
    around = np.where(changed, drawn, around)
    labels = np.argmax(oracle.scores_at(around, np.repeat(under, AROUND)), axis=1)
    return around.reshape(n, AROUND, u), np.asarray(labels, dtype=np.int64).reshape(n, AROUND)


def _enqueue_profile(
    space: ProfileSpace,
    waiting: _ProfileQueue,
    rank: float,
    profile: Floats,
    which: int,
    conditions: list[PathCondition],
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
    # The nearest profile that meets all conditions; where that is known or may not be reported, one with other values
    # of the attributes that conditions are about.
    nearest = np.clip(profile, low, high)
    trials = [nearest]
    if waiting.is_known(nearest) or not space.is_admissible(nearest[None])[0]:
        named = sorted({condition.attribute for condition in conditions})
        drawn = np.clip(space.draw_anywhere(8, rng), low, high)
        others = np.repeat(nearest[None], 8, axis=0)
        others[:, named] = drawn[:, named]
        trials = [each for each in others[space.is_admissible(others)] if not waiting.is_known(each)][:1]
    for trial in trials:
        waiting.put(rank, trial, which)


def _mean_certainty(conditions: list[PathCondition]) -> float:
    return sum(condition.sure for condition in conditions) / len(conditions)
