"""Nesting: which findings say no more than a simpler one.

A rule set *refines* another if its people are fewer and every rule of the other holds for them by its own rules; the
other then has no more rules and more people. Its gap is *explained* by the other one if both point the same way and the
refinement says nothing more about the people inside the other:

- its people against the rest of the simpler subgroup do not stand out: their standardised gap stays below the same
  critical value that controls the whole search; or
- its rate is within the margin of the simpler subgroup's rate, so that the difference does not matter.

It is then shown under the other. So is the mirror image of a finding: the same split of everybody, told from the other
side.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from evenhand.subgroup.candidates import Candidates
from evenhand.subgroup.family import Family
from evenhand.subgroup.gaps import Groups

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def parents(
    family: Family,
    found: Candidates,
    gap: Floats,
    certain: Floats,
    *,
    critical: float,
    margin: float,
    counted: bool,
) -> Ints:
    """The simpler finding that explains each one, -1 for none, shape (findings,).

    Of several, one that stands on its own comes first, then the one with the fewest rules, then the one whose gap is
    the most certain.

    Args:
        found: what stands out.
        gap: of each, below 0 for those worse off.
        certain: what of each gap is certain; the larger the clearer.
        critical: standard deviations that stand out.
        margin: differences that do not matter are smaller.
        counted: whether values are 0 and 1.
    """
    number = len(found)
    rules, size = (found.chosen > 0).sum(axis=1), found.size.sum(axis=1)
    contained = [_contained(matrix) for matrix in family.rules]
    above: Ints = np.full(number, -1, dtype=np.int64)
    order = np.lexsort((-certain, -size, rules))
    done: list[int] = []
    for i in order.tolist():
        earlier = np.array(done, dtype=np.int64)
        done.append(i)
        for axis, within in enumerate(contained):
            earlier = earlier[within[found.chosen[i, axis], found.chosen[earlier, axis]]]
        earlier = earlier[(size[earlier] > size[i]) & (np.sign(gap[earlier]) == np.sign(gap[i]))]
        if len(earlier) == 0:
            continue
        inside = _inside(found, i, earlier, counted)
        moved = (inside.total - inside.expected).sum(axis=1) / size[i]
        explained = earlier[(np.abs(inside.z) < critical) | (np.abs(moved) < margin)]
        if len(explained):
            best = np.lexsort((-certain[explained], rules[explained], above[explained] >= 0))[0]
            above[i] = explained[best]
    return _mirrored(found, gap, above, rules)


def _contained(rules: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Whether a rule's cells all belong to another's, shape (rules, rules)."""
    return np.asarray((rules.astype(np.float32) @ (~rules).astype(np.float32).T) == 0)


def _inside(found: Candidates, child: int, within: Ints, counted: bool) -> Groups:
    """A refinement among the people of each rule set that it refines."""
    everybody = (found.size[within], found.total[within], found.squares[within])
    size, total, squares = (
        np.broadcast_to(array[child], everybody[0].shape) for array in (found.size, found.total, found.squares)
    )
    return Groups(size, total, squares, everybody, counted)


def _mirrored(found: Candidates, gap: Floats, above: Ints, rules: Ints) -> Ints:
    """The same with mirror images under the one that is simpler to say, or worse off."""
    at = {number: i for i, number in enumerate(found.prints.tolist())}
    for i, outside in enumerate((found.everybody - found.prints).tolist()):
        other = at.get(outside, -1)
        # Simpler descriptions come first among candidates; equally simple ones in the order of who is worse off.
        if other < 0 or above[i] >= 0 or (rules[other], gap[other] > 0, other) > (rules[i], gap[i] > 0, i):
            continue
        up = other
        while up >= 0 and up != i:
            up = int(above[up])
        if up < 0:
            above[i] = other
    return above
