"""Groups known by probability alone, such as race by BIFSG: rates under a stated assumption, bounds without it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from pydantic import BaseModel, ConfigDict

from evenhand.errors import DataError, OptionError
from evenhand.stats import Observed, bonferroni, clopper_pearson, normal_quantile
from evenhand.typing import Floats, Integers

ASSUMPTION = (
    "The estimates assume that the probabilities are calibrated, and that among people with the same inputs of the "
    "proxy (name, address) the decision does not depend on the group. Where it does they are biased; the bounds assume "
    "calibrated probabilities alone."
)
SUM_TOLERANCE = 1e-3
CELLS = 10
LEAST = 100
"""Cells of similar probability that bounds are added up over, at most, and people in each, at least."""

DRAWS = 500


class ProxyRate(BaseModel):
    """The selection rate of one group that is known by probability.

    Attributes:
        group: its name.
        expected_people: the sum of the probabilities.
        estimate: under the assumption of ``ProxyRates``; its interval carries that memberships are not known.
        low, high: the least and the largest rate that decisions and calibrated probabilities leave possible, without
            the assumption that decisions do not depend on the group; with what sampling adds at this confidence.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    group: str
    expected_people: float
    estimate: Observed
    low: float
    high: float


class ProxyRates(BaseModel):
    """Selection rates of groups that are known by probability, and their differences.

    Attributes:
        assumption: what the estimates rest on.
        rates: of each group.
        differences: ``A - B`` -> difference of the estimates, under the same assumption, intervals simultaneous.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    assumption: str = ASSUMPTION
    rates: tuple[ProxyRate, ...]
    differences: dict[str, Observed]


def measure_proxies(
    selected: ArrayLike, probabilities: Mapping[str, ArrayLike] | Any, *, confidence: float = 0.95, seed: int = 0
) -> ProxyRates:
    """Estimate selection rates of groups from probabilities of membership.

    With probabilities p of a group and decisions d, the estimate is ``sum(p d) / sum(p)``, with the linearised variance
    ``sum(p^2 (d - rate)^2) / sum(p)^2``. It is biased by the covariance of decision and membership among people of
    equal probabilities (Chen, Kallus, Mao, Svacha & Udell, "Fairness under unawareness", FAT* 2019): the bias is 0
    where that covariance is. The rate of people put into their most probable group is another one, biased even then.

    Without that assumption, people of similar probabilities form cells, with mean probability q and selection rate r.
    Selected members are at least ``max(0, q + r - 1)`` and at most ``min(q, r)`` of a cell (Frechet); summed over
    cells these bound the rate of the group (Kallus, Mao & Zhou, "Assessing algorithmic fairness with unobserved
    protected class using data combination", Management Science 2022). Finer cells bound it more closely; with fewer
    people than ``LEAST`` in a cell its rate would be too uncertain, so the bounds are valid and not the sharpest ones.
    Their sampling error is that of the bootstrap over people.

    Args:
        selected: who was given the favourable decision, booleans or 0 and 1, shape (n,).
        probabilities: group -> probability of each person, shape (n,), as a mapping or a data frame; of each person
            they add up to 1.
        confidence: of every interval.
        seed: of the bootstrap.

    Raises:
        DataError: the columns differ in length, or hold what is not a probability.
        OptionError: fewer than two groups.

    Examples:
        >>> found = measure_proxies([1, 1, 0, 0] * 50, {"a": [0.8, 0.6, 0.4, 0.2] * 50, "b": [0.2, 0.4, 0.6, 0.8] * 50})
        >>> [(one.group, round(one.estimate.value, 2)) for one in found.rates]
        [('a', 0.7), ('b', 0.3)]
    """
    names, p = _read_probabilities(probabilities)
    decided = np.asarray(selected)
    if decided.shape != (len(p),) or not ((decided == 0) | (decided == 1)).all():
        raise DataError(f"expected one decision per person, yes or no, for {len(p):,} people", location="selected")
    d, n = decided.astype(np.float64), len(p)
    total = p.sum(axis=0)
    if (total <= 0).any():
        raise DataError(f"no one belongs to {names[int(np.argmin(total))]!r} with any probability")
    rate = d @ p / total
    influence = p * (d[:, None] - rate) / total
    variance = (influence**2).sum(axis=0)
    mixed = (rate > 0) & (rate < 1) & (variance > 0)
    kish = total**2 / (p**2).sum(axis=0)
    size = np.where(mixed, rate * (1 - rate) / np.where(mixed, variance, 1), kish)
    low, high = clopper_pearson(rate * size, size, confidence)
    bounds = [_bound_rate(d, p[:, k], confidence, np.random.default_rng([seed, k])) for k in range(len(names))]
    method = "Clopper-Pearson, of effective sample sizes (membership probabilities, linearised)"
    rates = tuple(
        ProxyRate(
            group=name,
            expected_people=float(total[k]),
            estimate=Observed(
                value=float(rate[k]), n=n, low=float(low[k]), high=float(high[k]), confidence=confidence, method=method
            ),
            low=bounds[k][0],
            high=bounds[k][1],
        )
        for k, name in enumerate(names)
    )
    pairs = [(i, j) for i in range(len(names)) for j in range(i + 1, len(names))]
    z = normal_quantile(bonferroni(confidence, len(pairs)))
    together = "" if len(pairs) == 1 else f", simultaneous over {len(pairs)} comparisons (Bonferroni)"
    differences = {}
    for i, j in pairs:
        # The same people are in both groups by part: their influences are subtracted before they are squared.
        half = z * float(np.sqrt(((influence[:, i] - influence[:, j]) ** 2).sum()))
        value = float(rate[i] - rate[j])
        differences[f"{names[i]} - {names[j]}"] = Observed(
            value=value,
            n=n,
            low=max(-1.0, value - half),
            high=min(1.0, value + half),
            confidence=confidence,
            method=f"linearised, normal{together}",
        )
    return ProxyRates(rates=rates, differences=differences)


def _read_probabilities(given: Any) -> tuple[list[str], Floats]:
    """Return names of groups and the probabilities, shape (n, groups)."""
    if not isinstance(given, Mapping):
        import narwhals as nw

        try:
            table = nw.from_native(given, eager_only=True)
        except TypeError:
            raise DataError(f"expected a column of probabilities per group, got {type(given).__name__}") from None
        given = {name: table[name].to_numpy() for name in table.columns}
    if len(given) < 2:
        raise OptionError(f"expected probabilities of at least two groups, got {len(given)}")
    columns = [np.asarray(column, dtype=np.float64) for column in given.values()]
    lengths = {str(name): column.shape for name, column in zip(given, columns, strict=True)}
    if len(set(lengths.values())) > 1 or columns[0].ndim != 1 or not len(columns[0]):
        raise DataError(f"expected one probability per person and group, got columns of shape {lengths}")
    p = np.column_stack(columns)
    wrong = ~np.isfinite(p).all(axis=1) | (p < 0).any(axis=1) | (np.abs(p.sum(axis=1) - 1) > SUM_TOLERANCE)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise DataError(
            f"expected probabilities that add up to 1 for each person, got {p[row].tolist()} in row {row + 1} "
            f"({int(wrong.sum()):,} such rows)",
            hint="leave out people without probabilities, or divide by their sum",
        )
    return [str(name) for name in given], np.asarray(p / p.sum(axis=1, keepdims=True))


def _bound_rate(d: Floats, p: Floats, confidence: float, rng: np.random.Generator) -> tuple[float, float]:
    """Return the bounds of one group's rate, moved out by what sampling may do to each."""
    cells = _cut_cells(p)
    low, high = _frechet(d, p, cells)
    drawn = np.array([_frechet(d[rows], p[rows], cells[rows]) for rows in rng.integers(0, len(d), (DRAWS, len(d)))])
    z = normal_quantile(confidence)
    below, above = z * drawn.std(axis=0)
    return max(0.0, low - float(below)), min(1.0, high + float(above))


def _cut_cells(p: Floats) -> Integers:
    """Return a cell for each person: about as many people in each, of similar probability."""
    cells = int(np.clip(len(p) // LEAST, 1, CELLS))
    edges = np.unique(np.quantile(p, np.arange(1, cells) / cells))
    return np.asarray(np.searchsorted(edges, p, side="right"))


def _frechet(d: Floats, p: Floats, cells: Integers) -> tuple[float, float]:
    people = np.bincount(cells).astype(np.float64)
    members, selected = np.bincount(cells, weights=p), np.bincount(cells, weights=d)
    total = members.sum()
    low = np.maximum(members + selected - people, 0).sum() / total
    return float(low), float(np.minimum(members, selected).sum() / total)
