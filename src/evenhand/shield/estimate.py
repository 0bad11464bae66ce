"""Who will come, estimated from data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from evenhand.errors import DataError, OptionError
from evenhand.shield.inputs import Inputs

if TYPE_CHECKING:
    from evenhand.models import Scorer
    from evenhand.schema import People

BINS = 10
"""Of costs, as in the paper's experiments."""


def inputs_from(
    groups: tuple[str, ...],
    group: ArrayLike,
    recommendation: ArrayLike,
    *,
    label: ArrayLike | None = None,
    cost: ArrayLike | None = None,
    bins: int = BINS,
) -> Inputs:
    """Inputs as frequent as in given decisions.

    Args:
        groups: their names.
        group: (n,) positions in ``groups``.
        recommendation: (n,) 0 or 1.
        label: (n,) 0 or 1, if labels play a part.
        cost: (n,) of overriding each; 1 if left out.
        bins: of equal width that costs are sorted into. Each stands for its largest cost, so that a cost at run time
            belongs to the bin it was counted in; expected costs are too high by at most the width of a bin.

    Raises:
        DataError: nobody of a group, arrays of different lengths, or entries that are not as said.
    """
    if bins < 1:
        raise OptionError(f"{bins} bins for the costs", where="bins", mend="1 or more")
    who, accepted = np.asarray(group), np.asarray(recommendation)
    known = None if label is None else np.asarray(label)
    price = np.ones(len(who)) if cost is None else np.asarray(cost, dtype=np.float64)
    for name, values in (("recommendation", accepted), ("label", known), ("cost", price)):
        if values is not None and values.shape != who.shape:
            raise DataError(f"{values.shape} values for {who.shape} individuals", where=name)
    for name, values in (("recommendation", accepted), ("label", known)):
        if values is not None and not np.isin(values, (0, 1)).all():
            raise DataError("entries are 0 or 1", where=name)
    if not (np.isfinite(price) & (price >= 0)).all():
        raise DataError("costs are finite numbers of 0 or more", where="cost")
    counts = [int((who == position).sum()) for position in range(len(groups))]
    if sum(counts) != len(who):
        raise DataError(f"positions of groups lie between 0 and {len(groups) - 1}", where="group")
    if 0 in counts:
        raise DataError(f"nobody is of group {groups[counts.index(0)]!r}", where="group")
    costs, cell = _binned(price, bins)
    rate = [count / len(who) for count in counts]
    accept = [float(accepted[who == position].mean()) for position in range(len(groups))]
    weights = []
    for position in range(len(groups)):
        rows = []
        for decided in (0, 1):
            tally = np.bincount(cell[(who == position) & (accepted == decided)], minlength=len(costs))
            # Of a recommendation that never came, any costs will do.
            shares = tally / tally.sum() if tally.sum() else np.full(len(costs), 1 / len(costs))
            rows.append(tuple(float(share) for share in shares))
        weights.append((rows[0], rows[1]))
    return Inputs(
        groups=tuple(groups),
        rate=tuple(rate),
        accept=tuple(accept),
        label=None if known is None else tuple(float(known[who == i].mean()) for i in range(len(groups))),
        costs=costs,
        weights=tuple(weights),
    )


def inputs_from_data(
    people: People,
    scorer: Scorer,
    attribute: str,
    *,
    groups: tuple[str, ...] | None = None,
    cost: float | None = None,
    bins: int = BINS,
) -> Inputs:
    """Inputs as frequent as a model's recommendations on people in data.

    Args:
        attribute: the categorical or ordinal attribute whose values are the groups.
        groups: values of it that take part; all unless given.
        cost: of every override; None makes it the model's confidence, the distance of its score from a half.
        bins: see ``inputs_from``.

    Raises:
        OptionError: there is no such attribute, it has no such value, or it is a number.
        DataError: a group has nobody in the data.
    """
    from evenhand.shield.streams import real_people

    source = real_people(people, scorer, attribute, groups=groups, cost=cost)
    return inputs_from(
        source.groups, source.group, source.recommendation, label=source.label, cost=source.cost, bins=bins
    )


def _binned(price: Any, bins: int) -> tuple[tuple[float, ...], Any]:
    """The largest cost of every bin that has any, and the bin of each."""
    low, high = float(price.min()), float(price.max())
    width = (high - low) / bins
    cell = np.minimum(((price - low) / width).astype(np.int64), bins - 1) if width > 0 else np.zeros(len(price), int)
    used, cell = np.unique(cell, return_inverse=True)
    return tuple(float(price[cell == position].max()) for position in range(len(used))), cell
