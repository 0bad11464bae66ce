"""The ranked group fairness test of every group in every list."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from evenhand.groups.rankings.result import PrefixTest
from evenhand.groups.rankings.tabulate import RankedLists
from evenhand.stats import holm, prefix_p_values, prefix_table
from evenhand.typing import Floats, Integers

MOST_KINDS = 3000
"""Different numbers of members and candidates per list that p-values are computed for."""

MOST_PLACES = 2000
"""The longest prefix: what the exact recursion takes grows with its square."""


class _Tested(NamedTuple):
    """The test of one group: p of each list that has it, those lists, and members by prefix of each."""

    p: Floats
    lists: Integers
    members: Integers


def check_prefixes(
    ranked: RankedLists, labels: Sequence[str], compared: Integers, rng: np.random.Generator, *, single: bool
) -> tuple[tuple[PrefixTest, ...], str]:
    """Return the test of each group that is compared, and why there is none.

    A group's share of each list's candidates is what it is tested against. Candidates of equal rank are put into a
    random order.

    Args:
        ranked: the lists; labels: of the groups.
        compared: groups that are large enough.
        single: whether there are few lists, so that each matters.
        rng: source of random numbers.
    """
    places = min(max(ranked.at), MOST_PLACES, int(ranked.sizes.max()))
    tested = {}
    for group in compared.tolist():
        kinds = np.unique(np.stack([ranked.members[:, group], ranked.sizes]), axis=1).shape[1]
        if kinds > MOST_KINDS:
            return (), f"more than {MOST_KINDS:,} different numbers of candidates and members per list"
        tested[group] = _test_lists(ranked, group, places, rng)
    alpha = 1 - ranked.config.confidence
    adjusted = holm(np.concatenate([one.p for one in tested.values()])) if single and tested else np.zeros(0)
    found, before = [], 0
    for group, one in tested.items():
        given = {"group": labels[group], "places": places, "tested": len(one.p), "failed": int((one.p <= alpha).sum())}
        if single and len(one.p):
            own = adjusted[before : before + len(one.p)]
            before += len(one.p)
            given |= _first_failure(ranked, group, one, own, alpha)
        found.append(PrefixTest(**given))
    return tuple(found), ""


def _test_lists(ranked: RankedLists, group: int, places: int, rng: np.random.Generator) -> _Tested:
    """Return the p-values of one group in the lists that have it and others beside it."""
    shuffled = np.lexsort((rng.random(len(ranked.ties)), ranked.ties))
    starts = ranked.starts[:-1]
    within = np.arange(len(ranked.lists)) - starts[ranked.lists]
    top = within < places
    table = np.zeros((len(ranked.sizes), places), dtype=np.int64)
    table[ranked.lists[top], within[top]] = (ranked.codes[shuffled] == group)[top]
    members = np.cumsum(table, axis=1)
    own, size = ranked.members[:, group].astype(np.int64), ranked.sizes
    p = np.ones(len(size))
    kinds, kind = np.unique(np.stack([own, size], axis=1), axis=0, return_inverse=True)
    for i, (m, n) in enumerate(kinds.tolist()):
        if 0 < m < n:
            here = kind.ravel() == i
            p[here] = prefix_p_values(members[here][:, : min(places, n)], m / n)
    has = np.flatnonzero((own > 0) & (own < size))
    return _Tested(p[has], has, members[has])


def _first_failure(ranked: RankedLists, group: int, one: _Tested, adjusted: Floats, alpha: float) -> dict[str, object]:
    """Return the smallest adjusted p, and where that list fails first if it does."""
    at = int(np.argmin(adjusted))
    found: dict[str, object] = {"p": float(adjusted[at])}
    size = int(ranked.sizes[one.lists[at]])
    members = one.members[at, :size]
    table = prefix_table(len(members), float(ranked.members[one.lists[at], group]) / size, alpha)
    short = np.flatnonzero(members < table.minimum)
    if len(short):
        first = int(short[0])
        found |= {"first": first + 1, "members": int(members[first]), "minimum": int(table.minimum[first])}
    return found
