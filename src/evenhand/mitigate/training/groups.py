"""Which group everybody learnt from belongs to, for losses that compare groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.groups.membership import of_attribute
from evenhand.schema import Schema

LEAST = 30
"""People of a group at least: what the mean of fewer says about them is mostly chance."""

LEAST_SHARE = 0.01
"""The same as a share of everybody: a smaller group is not met in every batch."""

NOBODYS = -1


def joint_groups(schema: Schema, individuals: NDArray[np.float64], protected: Sequence[str]) -> NDArray[np.int64]:
    """Groups by the joint values of the protected attributes (an integer with many: by ranges), shape (n,).

    Groups with too few people are taken together, and where even together they are too few, they are nobody's (-1):
    a network learns to be right about these people, and no group's mean is taken of them. Where that would leave a
    single group, smaller ones count too.

    Args:
        schema: what the individuals are.
        individuals: shape (n, attributes).
        protected: names of the attributes; with none, everybody is nobody's.
    """
    if not protected:
        return np.full(len(individuals), NOBODYS)
    memberships = [of_attribute(schema[name], individuals[:, schema.position(name)]) for name in protected]
    codes = np.stack([membership.codes for membership in memberships], axis=1)
    _, groups = np.unique(codes, axis=0, return_inverse=True)
    return _compared(groups.reshape(-1), (max(LEAST, LEAST_SHARE * len(individuals)), LEAST, 1))


def given_groups(group: NDArray[Any]) -> NDArray[np.int64]:
    """Groups as they were given, shape (n,), numbered from 0; those of fewer than `LEAST` pooled."""
    return _compared(np.unique(group, return_inverse=True)[1].reshape(-1), (LEAST, 1))


def _compared(groups: NDArray[np.int64], least: Sequence[float]) -> NDArray[np.int64]:
    """Groups of the first size that leaves two to compare, else as they are."""
    for size in least:
        found = pooled(groups, size)
        if found.max(initial=NOBODYS) > 0:
            return found
    return groups


def pooled(groups: NDArray[np.int64], least: float) -> NDArray[np.int64]:
    """Groups (n,) renumbered from 0; those of fewer people than ``least`` taken together, or nobody's."""
    large = np.bincount(groups) >= least
    number = np.where(large, np.cumsum(large) - 1, NOBODYS)
    found = number[groups]
    rest = found == NOBODYS
    if rest.sum() >= least:
        found[rest] = large.sum()
    return np.asarray(found, dtype=np.int64)
