"""What the enforcement of conditional fairness is judged by: definitions and exhaustive search, nothing of the engine.

Nothing here is clever, and nothing here knows of deadlines, tight sets or minimal elements: a sequence is judged by
looking at its windows, and the game is played out on every state until nothing more is lost.
"""

import csv
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations, product
from pathlib import Path
from typing import Any

from evenhand.genai import GenerationConfig, Item, PolicyOutcome, simulate_requests

Counters = tuple[int, ...]
"""How many items are left for each value, the next one included."""


def read_config(groups: dict[str, list[str]], *specifications: dict[str, Any], **more: Any) -> GenerationConfig:
    """A configuration of specifications, by default under the condition ``asked``, and of the conditions they name."""
    stated = [{"condition": "asked", **specification} for specification in specifications]
    conditions = [{"name": name} for name in dict.fromkeys(specification["condition"] for specification in stated)]
    entries = {"conditions": conditions, "groups": groups, "specifications": stated, **more}
    return GenerationConfig.read(entries)


@dataclass(frozen=True)
class Miss:
    """A value that did not appear among the items after ``after`` up to and with ``by`` (items count from 1)."""

    value: int
    after: int
    by: int


def misses(items: Sequence[int], beta: Sequence[int]) -> list[Miss]:
    """Every broken deadline of ``repeated(beta)``, by the definition.

    Args:
        items: what was delivered in the order of the requests: values 1..n; 0s are left out by the definition.
        beta: for every value, the longest wait.

    A deadline beyond the end of the sequence is not broken, and while a value stays away every beta items are one miss.
    """
    shown = [item for item in items if item]
    found = []
    for value, most in enumerate(beta, start=1):
        starts = [0] + [place for place, item in enumerate(shown, start=1) if item == value]
        for start in starts:
            ends = range(start + most, len(shown) + 1, most)
            found += [Miss(value, start, by) for by in ends if value not in shown[start:by]]
    return sorted(found, key=lambda miss: (miss.by, miss.value))


def after(counters: Counters, value: int, beta: Sequence[int]) -> Counters | None:
    """The counters when ``value`` (from 0) is shown, or None when another value was due then."""
    if any(left <= 1 for other, left in enumerate(counters) if other != value):
        return None
    return tuple(beta[other] if other == value else left - 1 for other, left in enumerate(counters))


@cache
def winning(beta: tuple[int, ...]) -> frozenset[Counters]:
    """The states that can be kept safe for ever: all of them, less those that lose, until nothing changes."""
    safe = set(product(*(range(1, most + 1) for most in beta)))
    moves = {state: [then for value in range(len(beta)) if (then := after(state, value, beta))] for state in safe}
    before = {}
    for state, following in moves.items():
        for then in following:
            before.setdefault(then, []).append(state)
    left = {state: len(following) for state, following in moves.items()}
    lost = [state for state, count in left.items() if count == 0]
    while lost:
        state = lost.pop()
        safe.discard(state)
        for earlier in before.get(state, ()):
            left[earlier] -= 1
            if left[earlier] == 0:
                lost.append(earlier)
    return frozenset(safe)


def feasible(beta: Sequence[int]) -> bool:
    """Whether somebody who decides every item from the start can meet every deadline for ever."""
    return tuple(beta) in winning(tuple(beta))


def allowed(counters: Counters, beta: Sequence[int]) -> set[int]:
    """The values (from 0) after which the state can still be kept safe for ever."""
    region = winning(tuple(beta))
    return {value for value in range(len(beta)) if after(counters, value, beta) in region}


def after_blank(counters: Counters) -> Counters | None:
    """The counters when a slot shows none of the values, as a slot in flight may."""
    return None if any(left <= 1 for left in counters) else tuple(left - 1 for left in counters)


def subsets(count: int) -> Iterator[tuple[int, ...]]:
    """Every non-empty set of conditions that an item may meet."""
    for size in range(1, count + 1):
        yield from combinations(range(count), size)


@cache
def jointly_winning(betas: tuple[tuple[int, ...], ...]) -> frozenset[tuple[Counters, ...]]:
    """The safe states of several conditions on one concept group, whichever of them the next items meet."""
    regions = [list(product(*(range(1, most + 1) for most in beta))) for beta in betas]
    safe = set(product(*regions))
    together = list(subsets(len(betas)))
    while True:
        lost = {state for state in safe if not all(jointly_allowed(state, betas, met, safe) for met in together)}
        if not lost:
            return frozenset(safe)
        safe -= lost


def jointly_allowed(
    state: tuple[Counters, ...],
    betas: Sequence[Sequence[int]],
    met: Iterable[int],
    safe: frozenset[tuple[Counters, ...]] | set[tuple[Counters, ...]],
) -> set[int]:
    """The values (from 0) that an item meeting the conditions ``met`` may show."""
    met, values = set(met), range(len(betas[0]))
    found = set()
    for value in values:
        then = [after(each, value, betas[i]) if i in met else each for i, each in enumerate(state)]
        if None not in then and tuple(then) in safe:
            found.add(value)
    return found


class Published:
    """The published counter rule in its own setting: equal deadlines, one request at a time, every item recognised.

    Counters start at beta; a shown value's goes back to beta, every other one's goes down by one. From k = n down to 1
    it looks for k values whose counters are k, and asks for one of them.
    """

    def __init__(self, values: int, beta: int) -> None:
        self.beta = beta
        self.counters = [beta] * values

    def due(self) -> set[int]:
        """The values (from 0) of which one is asked for; empty where the prompt is left alone."""
        for size in range(len(self.counters), 0, -1):
            equal = {value for value, left in enumerate(self.counters) if left == size}
            if len(equal) >= size:
                return equal
        return set()

    def show(self, value: int) -> None:
        """An item showed ``value`` (from 0)."""
        self.counters = [self.beta if other == value else left - 1 for other, left in enumerate(self.counters)]


def run_policy(configuration: Any, *, policy: str = "before", **options: Any) -> PolicyOutcome:
    """Simulate requests under one policy."""
    return simulate_requests(configuration, policies=[policy], **options).policies[0]


class Stops:
    """A generator that raises an error at every call after the first ones."""

    def __init__(self, inner: Any, after: int, error: Any = KeyboardInterrupt) -> None:
        self.inner, self.after, self.error = inner, after, error

    def resume(self, made: int) -> None:
        self.inner.resume(made)

    def generate(self, prompt: str) -> Item:
        self.after -= 1
        if self.after < 0:
            raise self.error
        return self.inner.generate(prompt)


def read_rows(path: Path) -> list[dict[str, str]]:
    """Read a CSV file."""
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))
