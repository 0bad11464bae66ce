"""SG, symbolic generation: negate path conditions of a local decision tree that approximates the model.

Around a profile, a small tree approximates the model's label (under the profile's own assignment). Negating one
condition of the profile's path gives another profile to query. Local search negates each condition of the path, if the
profile discriminates. Global search negates each condition before the first uncertain one, and drops the conditions
after the negated one. As in the paper, profiles from local search are taken from the queue first, then seeds, then
profiles from global search.

Source: Agarwal et al., "Automated test generation to detect individual discrimination in AI models" (2018); Aggarwal et
al., "Black box fairness testing of machine learning models" (ESEC/FSE 2019), with its ranks 1, 5 and 10 and its
threshold 0.3. The conditions on a path are an interval of every attribute, so no solver is needed: the nearest point is
used, or a random one if the nearest is already in the queue. The published program ends when the queue is empty. With
a budget, this search continues from other seeds.
"""

from __future__ import annotations

import heapq
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from evenhand.core.typing import Floats, Integers
from evenhand.individual.search.config import SearchConfig
from evenhand.individual.search.oracle import Oracle
from evenhand.individual.search.space import ProfileSpace

TREE_QUERIES = 8
"""Queries per tree. The published program uses 5,000, with which a budget hardly covers a single tree. Among 8, 16, 32,
64 and 128, this number finds the most profiles for a given budget, and no fewer per queried profile."""

BATCH = 16
"""Number of profiles taken from the queue at a time, so that they are queried in one batch."""

MIN_CERTAINTY = 0.3
"""Share of the label in the tree below which global search does not continue along a path."""

CANDIDATES = 8
"""Number of random profiles that are tried if the nearest one is already in the queue."""

LOCAL, SEED, GLOBAL = 1.0, 5.0, 10.0
"""Ranks of profiles in the queue."""


class PathCondition(NamedTuple):
    """Condition on a path of a tree.

    Attributes:
        attribute: Position of the attribute.
        threshold: Threshold.
        below: Whether the attribute is at most the threshold, instead of above it.
        certainty: Share of the label among the profiles that satisfy the path up to here.
    """

    attribute: int
    threshold: float
    below: bool
    certainty: float

    def negate(self) -> PathCondition:
        """Return the opposite condition."""
        return self._replace(below=not self.below, certainty=1 - self.certainty)


class _ProfileQueue:
    """Priority queue of profiles. Each profile enters it once."""

    def __init__(self, space: ProfileSpace, rng: np.random.Generator) -> None:
        self._space, self._rng = space, rng
        self._heap: list[tuple[float, int, Floats, int]] = []
        self._seen: set[int] = set()

    def put(self, rank: float, profile: Floats, which: int) -> bool:
        """Add a profile, and return whether it is new."""
        key = int(self._space.keys(profile[None])[0])
        is_new = key not in self._seen
        if is_new:
            self._seen.add(key)
            heapq.heappush(self._heap, (rank, len(self._seen), profile, which))
        return is_new

    def take(self, max_profiles: int) -> tuple[Floats, Integers]:
        entries = [heapq.heappop(self._heap) for _ in range(min(max_profiles, len(self._heap)))]
        profiles = np.array([profile for _, _, profile, _ in entries]).reshape(len(entries), self._space.width)
        return profiles, np.array([which for *_, which in entries], dtype=np.int64)

    def put_negations(self, path: list[PathCondition], profile: Floats, which: int, *, flips: bool) -> None:
        """Add profiles that satisfy the path of a profile (U,) with one of its conditions negated."""
        # Local: negating one condition and keeping all others stays near a profile that discriminates.
        for j in range(len(path) if flips else 0):
            conditions = [*path[:j], path[j].negate(), *path[j + 1 :]]
            self._put_satisfying(conditions, LOCAL + _mean_certainty(conditions), profile, which)
        # Global: a prefix of the path with its last condition negated leads elsewhere. The search ends at an
        # uncertain condition.
        for j, condition in enumerate(path):
            if condition.certainty < MIN_CERTAINTY:
                break
            conditions = [*path[:j], condition.negate()]
            self._put_satisfying(conditions, GLOBAL - _mean_certainty(conditions), profile, which)

    def _put_satisfying(self, conditions: list[PathCondition], rank: float, profile: Floats, which: int) -> None:
        """Add a new admissible profile that satisfies the conditions, if there is one."""
        space = self._space
        low, high = space.lower.copy(), space.upper.copy()
        for i, threshold, below, _ in conditions:
            is_whole = space.attributes[i].kind != "real"
            if below:
                high[i] = min(high[i], np.floor(threshold) if is_whole else threshold)
            else:
                low[i] = max(low[i], np.floor(threshold) + 1 if is_whole else threshold + space.step[i] / 2)
        if (low > high).any():
            return
        # The nearest profile. If the profile is not new or not admissible, the attributes of the conditions are drawn
        # at random.
        nearest = np.clip(profile, low, high)
        if space.is_admissible(nearest[None])[0] and self.put(rank, nearest, which):
            return
        columns = sorted({condition.attribute for condition in conditions})
        random = np.repeat(nearest[None], CANDIDATES, axis=0)
        random[:, columns] = np.clip(space.draw_anywhere(CANDIDATES, self._rng), low, high)[:, columns]
        for candidate in random[space.is_admissible(random)]:
            if self.put(rank, candidate, which):
                return


def search(oracle: Oracle, seeds: Floats, rng: np.random.Generator, config: SearchConfig) -> None:
    """Query at most ``local`` profiles per seed."""
    space = oracle.space
    queue = _ProfileQueue(space, rng)
    for profile, which in zip(*space.split(seeds), strict=True):
        queue.put(SEED, profile, int(which))
    queried, max_profiles = 0, len(seeds) * max(1, config.local)
    while queried < max_profiles:
        profiles, assignments = queue.take(min(BATCH, max_profiles - queried))
        if len(profiles) == 0:
            return
        queried += len(profiles)
        answers = oracle.ask(profiles)
        # Near the end, the budget covers fewer trees or none. The remaining queue is still queried.
        n = int(min(len(profiles), oracle.queries_left / TREE_QUERIES))
        samples, labels = _sample_around(oracle, profiles[:n], assignments[:n], rng)
        for i in range(n):
            own = int(answers.labels[i, assignments[i]])
            path = path_conditions(np.concatenate([samples[i], profiles[i : i + 1]]), np.append(labels[i], own), own)
            queue.put_negations(path, profiles[i], int(assignments[i]), flips=bool(answers.flips[i]))


def path_conditions(profiles: Floats, labels: Integers, own: int) -> list[PathCondition]:
    """Fit a tree to labels (n,) of profiles (n, U), and return the path of the last profile, root first."""
    if (labels == labels[0]).all():
        return []
    from sklearn.tree import DecisionTreeClassifier

    tree = DecisionTreeClassifier(random_state=0).fit(profiles, labels == own).tree_
    path = []
    nodes = tree.decision_path(profiles[-1:].astype(np.float32)).indices.tolist()
    for node, child in pairwise(nodes):
        shares = tree.value[child][0]
        below = child == int(tree.children_left[node])
        certainty = float(shares[-1] / shares.sum())
        path.append(PathCondition(int(tree.feature[node]), float(tree.threshold[node]), below, certainty))
    return path


def _sample_around(
    oracle: Oracle, profiles: Floats, which: Integers, rng: np.random.Generator
) -> tuple[Floats, Integers]:
    """Draw samples around each profile, and query their labels under the assignment of the profile.

    Returns:
        Samples, shape (n, TREE_QUERIES, U), and their labels, shape (n, TREE_QUERIES).
    """
    n, u = profiles.shape
    samples = np.repeat(profiles, TREE_QUERIES, axis=0)
    redrawn = oracle.space.draw_anywhere(len(samples), rng)
    # The number of redrawn attributes is random, so that some samples are near and others far.
    changed = rng.random(samples.shape) < rng.random((len(samples), 1))
    samples = np.where(changed, redrawn, samples)
    labels = np.argmax(oracle.scores_at(samples, np.repeat(which, TREE_QUERIES)), axis=1)
    return samples.reshape(n, TREE_QUERIES, u), np.asarray(labels, dtype=np.int64).reshape(n, TREE_QUERIES)


def _mean_certainty(conditions: list[PathCondition]) -> float:
    return sum(condition.certainty for condition in conditions) / len(conditions)
