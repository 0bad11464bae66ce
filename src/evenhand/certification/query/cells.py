"""Divide unprotected attributes into cells, with their terms in the network and their masses.

A box is a range of cells of every attribute. A cell is one value, a bin, or (for a number that enters affinely and has
too many values to list) a short interval. The order of the cells makes ranges useful: numbers are ordered by size,
categories by their terms in the network.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from evenhand.core.typing import Floats, Integers
from evenhand.errors import OptionError
from evenhand.models.additive.cells import first_true
from evenhand.models.additive.network import AttributeTerm, CurveTerm, LineTerm, StepTerm, TableTerm
from evenhand.population.independent import Marginal, UniformMarginal, normalize_masses
from evenhand.schema.attribute import Attribute
from evenhand.schema.subdomain import Runs, list_entries

REAL_CELLS = 65_536
"""Minimum number of cells of a real attribute that enters affinely."""
CURVE_CELLS = 65_536
"""Maximum number of cells of a number that enters through one curve, each with an equal part of its rise."""
LISTED_CELLS = 2**20
"""Maximum number of integers that enter through one curve with a cell each."""
SHARED_CELLS = 2048
"""Maximum number of cells per curve of a number that enters through several, which needs a table of terms."""
MAX_CELLS = 2**30
"""Maximum number of cells of an integer attribute. With more values, a cell holds several consecutive ones."""
MAX_HELD, HELD_SHARE = 512, 0.125
"""Maximum number of values with mass, and maximum share of all values, for which only the values with mass get cells.
Bounds then need a table of terms instead of one slope.
"""


@dataclass(frozen=True)
class CellScale:
    """Positions of cells along a line: cell i spans ``[low(i), high(i)]``, rounded outward.

    Either ``keys`` (one exact position per cell, increasing), or evenly spaced:
    ``low(i) = base + step * i - pad`` and ``high(i) = base + step * i + reach + pad``.
    """

    keys: Floats | None = None
    base: float = 0.0
    step: float = 1.0
    reach: float = 0.0
    pad: float = 0.0

    def low(self, cells: NDArray[np.integer]) -> Floats:
        """Lower end of each cell."""
        if self.keys is not None:
            return np.asarray(self.keys[cells])
        return np.asarray(self.base + self.step * cells - self.pad, dtype=np.float64)

    def high(self, cells: NDArray[np.integer]) -> Floats:
        """Upper end of each cell."""
        if self.keys is not None:
            return np.asarray(self.keys[cells])
        return np.asarray(self.base + self.step * cells + self.reach + self.pad, dtype=np.float64)


@dataclass(frozen=True)
class JointValues:
    """Several attributes that only occur together, as one attribute whose entries number the joint values.

    Attributes:
        attributes: Attributes.
        columns: Their columns in an individual's row.
        entries: Joint values, shape (values, attributes).
    """

    attributes: tuple[Attribute, ...]
    columns: tuple[int, ...]
    entries: Floats

    def text(self, entry: float) -> str:
        """Describe one joint value by the values of the data."""
        pairs = zip(self.attributes, self.entries[int(entry)], strict=True)
        return " and ".join(attribute.text(value) for attribute, value in pairs)


@dataclass(frozen=True)
class Cells:
    """Cells of one attribute, or of several that only occur together.

    Attributes:
        attribute: Attribute. For several, a substitute for their joint values.
        position: Its column in an individual's row.
        count: Number of cells.
        scale: Positions of the cells if their terms are ``slope * position`` (rank one). None: listed in ``rows``.
        rows: Slope, shape (1, units), if there is a scale; else the terms of each cell, shape (count, units).
        offset: Constant term of all cells, shape (units,), which belongs to the biases.
        residual: Bound on the error of ``offset + slope * position``, shape (units,).
        values: Number of values in each cell of an evenly weighted attribute.
        cumulative: Integer weight of the cells before each cell, shape (count + 1,). None: weighted evenly by value.
        total: Weight of all cells.
        distance: Bound on the total variation distance between the population and these weights.
        entries: First entry of each cell. None: ``attribute.first + cell * values`` (or real).
        ends: Last entry of each cell, if cells are bins.
        marginal: Distribution of the entries in a bin.
        joint: Attributes behind ``attribute``, if there are several.
        sparse: Whether values without mass between the entries are left out.
    """

    attribute: Attribute
    position: int
    count: int
    scale: CellScale | None
    rows: Floats
    offset: Floats
    residual: Floats
    total: int
    values: int = 1
    cumulative: Integers | None = None
    distance: float = 0.0
    entries: Floats | None = None
    ends: Floats | None = None
    marginal: Marginal | UniformMarginal | None = field(default=None, repr=False)
    joint: JointValues | None = None
    sparse: bool = False

    @property
    def columns(self) -> tuple[int, ...]:
        """Columns of the attributes in an individual's row."""
        return (self.position,) if self.joint is None else self.joint.columns

    def values_of(self, entries: Floats) -> Floats:
        """Convert entries (n,) to the values of these columns, shape (n, columns)."""
        return entries[:, None] if self.joint is None else self.joint.entries[entries.astype(np.int64)]

    @property
    def exact(self) -> bool:
        """Whether all individuals of a cell are equal to the network."""
        return self.scale is None or self.scale.keys is not None or (self.scale.reach == 0 and self.scale.pad == 0)

    def before(self, cells: NDArray[np.integer]) -> Integers:
        """Compute the weight of all cells before each given cell. ``count`` gives the total."""
        if self.cumulative is not None:
            return np.asarray(self.cumulative[cells])
        return np.asarray(np.minimum(cells.astype(np.int64) * self.values, self.total))

    def cell_contributions(self, cells: NDArray[np.integer]) -> Floats:
        """Compute the terms of single cells, shape (n, units). For an interval, those of its lower end."""
        if self.scale is None:
            return np.asarray(self.rows[cells])
        return np.asarray(self.scale.low(cells)[:, None] * self.rows[0])

    def size(self) -> Floats:
        """Compute the largest absolute value of the terms of all cells, shape (units,)."""
        if self.scale is None:
            return np.asarray(np.abs(self.rows).max(axis=0))
        ends = np.array([0, self.count - 1])
        reach = max(np.abs(self.scale.low(ends)).max(), np.abs(self.scale.high(ends)).max())
        return np.asarray(np.abs(self.rows[0]) * reach)

    def summed_size(self) -> Floats:
        """Compute the size of the terms that bounds add per cell: on a line, the first cell and the distance to it."""
        if self.scale is None:
            return self.size()
        first, last = (float(end) for end in (self.scale.low(np.array(0)), self.scale.high(np.array(self.count - 1))))
        return np.asarray(np.abs(self.rows[0]) * (abs(first) + abs(last - first)))

    def draw(self, lo: NDArray[np.integer], hi: NDArray[np.integer], rng: np.random.Generator) -> Floats:
        """Draw one entry from each range of cells by the population, shape (n,). Pass single cells twice."""
        ticket = rng.integers(self.before(lo), self.before(hi + 1))
        return self._inside(lo.astype(np.int64) if lo is hi else self.holding(ticket), ticket, rng)

    def holding(self, ticket: Integers) -> Integers:
        """Find the cell of each unit of weight (n,): the last one with no more weight before it."""
        if self.cumulative is None:
            return ticket // self.values
        return np.asarray(np.searchsorted(self.cumulative, ticket, side="right") - 1)

    def _inside(self, cells: Integers, ticket: Integers, rng: np.random.Generator) -> Floats:
        lower, upper = self.attribute.first, self.attribute.last
        if self.ends is not None and self.entries is not None and self.marginal is not None:
            return self.marginal.draw_between(self.entries[cells], self.ends[cells], rng)
        if self.entries is not None:
            return np.asarray(self.entries[cells])
        if self.attribute.size is None:
            share = (cells + rng.random(len(cells))) / self.count
            return np.asarray(np.clip(lower + (upper - lower) * share, lower, upper))
        within = ticket - cells * self.values if self.cumulative is None else np.zeros_like(cells)
        return np.asarray(lower + cells * self.values + within, dtype=np.float64)

    def entry(self, cells: NDArray[np.integer]) -> Floats:
        """Select one entry of each cell, shape (n,)."""
        if self.entries is not None:
            return np.asarray(self.entries[cells])
        lower, upper = self.attribute.first, self.attribute.last
        if self.attribute.size is None:
            return np.asarray(np.clip(lower + (upper - lower) * ((cells + 0.5) / self.count), lower, upper))
        return np.asarray(np.minimum(lower + cells.astype(np.float64) * self.values, upper))

    def words(self, lo: int, hi: int) -> str:
        """Describe a range of cells by the values of the data."""
        say = self.attribute.text if self.joint is None else self.joint.text
        if not self.attribute.ordered and self.entries is not None:
            members = [say(entry) for entry in np.sort(self.entries[lo : hi + 1])]
            return ", ".join(members)
        if self.entries is not None:
            inside = self.entries[lo : hi + 1]
            ends = inside if self.ends is None else self.ends[lo : hi + 1]
            gaps = self.ends is None and not self.sparse and inside.max() - inside.min() > len(inside) - 1
            if len(inside) > 1 and gaps:
                return ", ".join(say(entry) for entry in np.sort(inside))
            low, high = float(inside.min()), float(ends.max())
        elif self.attribute.size is None:
            width = (self.attribute.last - self.attribute.first) / self.count
            low, high = self.attribute.first + width * lo, self.attribute.first + width * (hi + 1)
        else:
            low = self.attribute.first + lo * self.values
            high = min(self.attribute.first + (hi + 1) * self.values - 1, self.attribute.last)
        return say(low) if low == high else f"{say(low)} to {say(high)}"


def cells_of(
    attribute: Attribute,
    position: int,
    part: AttributeTerm,
    marginal: Marginal | UniformMarginal | None,
    *,
    runs: Runs | None = None,
    held: Floats | None = None,
) -> Cells:
    """Divide one attribute into cells.

    Args:
        attribute: Attribute.
        position: Its column in an individual's row.
        part: Its terms in the network.
        marginal: Its distribution. None: uniform.
        runs: Ranges of its entries. Default: the whole domain.
        held: Entries with mass, if only these get cells.

    Raises:
        OptionError: The marginal does not fit the attribute, or has no mass in these ranges; or there are too many
            values to list.
    """
    if isinstance(marginal, Marginal) and marginal.listed is not None:
        held = _list_wide(attribute, part, marginal, runs) if held is None else held
    elif isinstance(marginal, Marginal) and attribute.size is not None and len(marginal.masses) != attribute.size:
        raise OptionError(
            f"the population lists {len(marginal.masses)} masses for the {attribute.size} values of {attribute.name!r}"
        )
    full_range = ((attribute.first, attribute.last),)
    runs = full_range if runs is None else runs
    mass: Marginal | UniformMarginal = marginal or UniformMarginal(attribute)
    if held is not None:
        return replace(_cells_by_table(attribute, position, part, mass, held), sparse=True)
    if len(runs) == 1 and runs != full_range and not attribute.is_discrete:
        mass = mass.restrict(*runs[0])
        attribute = attribute.model_copy(update={"lower": runs[0][0], "upper": runs[0][1]})
        full_range = runs
    if isinstance(mass, Marginal) and np.ptp(mass.masses) == 0 and (mass.breaks is None or len(mass.masses) == 1):
        mass = UniformMarginal(attribute)
    if isinstance(part, TableTerm) or runs != full_range:
        entries = (
            attribute.domain() if isinstance(part, TableTerm) and runs == full_range else list_entries(attribute, runs)
        )
        return _cells_by_table(attribute, position, part, mass, entries)
    if isinstance(part, LineTerm):
        return _cells_by_line(attribute, position, part, mass)
    if isinstance(part, CurveTerm):
        return _cells_by_curves(attribute, position, part, mass)
    return _cells_by_bins(attribute, position, part, mass)


def list_held(marginal: Marginal, runs: Runs) -> Floats | None:
    """List the entries of an attribute with mass, shape (n,), if they are a small part of all; else None.

    Args:
        marginal: Distribution of the attribute.
        runs: Ranges of its entries.
    """
    if marginal.attribute.size is None:
        return None
    entries = _list_inside(marginal, runs)
    size = sum(high - low + 1 for low, high in runs)
    return entries if 0 < len(entries) <= min(MAX_HELD, HELD_SHARE * size) else None


def _list_inside(marginal: Marginal, runs: Runs) -> Floats:
    """List the entries of a finite attribute with mass in some ranges, shape (n,)."""
    entries = marginal.held_values()
    return entries[np.any([(entries >= low) & (entries <= high) for low, high in runs], axis=0)]


def _list_wide(attribute: Attribute, part: AttributeTerm, marginal: Marginal, runs: Runs | None) -> Floats | None:
    """List the values with mass of an attribute whose domain is too wide for one cell each. Bins need no list."""
    if isinstance(part, StepTerm | CurveTerm) and len(runs or ()) < 2:
        return None
    entries = _list_inside(marginal, runs or ((attribute.first, attribute.last),))
    if not len(entries):
        normalize_masses(attribute, np.zeros(1))
    return entries


def cells_of_joint(joint: JointValues, parts: Sequence[AttributeTerm], masses: Floats) -> Cells:
    """Build the cells of several attributes: one per joint value, with the sum of the terms of its values.

    Args:
        joint: Attributes and their joint values.
        parts: Terms of each attribute in the network.
        masses: Mass of each joint value, shape (values,).

    Raises:
        OptionError: There is no mass.
    """
    name = " and ".join(attribute.name for attribute in joint.attributes)
    substitute = Attribute(name=name, kind="categorical", values=tuple(range(len(joint.entries))))
    rows = sum(part.at(joint.entries[:, k]) for k, part in enumerate(parts))
    cells = cells_of(substitute, joint.columns[0], TableTerm(np.asarray(rows), 0.0), Marginal(substitute, masses))
    return replace(cells, joint=joint)


def _cells_by_table(
    attribute: Attribute,
    position: int,
    part: AttributeTerm,
    mass: Marginal | UniformMarginal,
    entries: Floats,
) -> Cells:
    rows, count = part.at(entries), len(entries)
    weights, distance = None, 0.0
    if isinstance(mass, Marginal):
        weights, distance = integer_weights(normalize_masses(attribute, mass.masses_of(entries)))
    line = _rank_one(rows)
    if line is not None:
        keys, slope, residual = line
        order = np.argsort(keys, kind="stable")
        scale, stored_rows, offset = CellScale(keys=keys[order]), slope[None, :], rows[0].copy()
    else:
        order = np.arange(count) if attribute.ordered else np.argsort(_principal_positions(rows), kind="stable")
        scale, stored_rows, offset = None, rows[order], np.zeros(rows.shape[1])
        residual = np.zeros(rows.shape[1])
    return Cells(
        attribute=attribute,
        position=position,
        count=count,
        scale=scale,
        rows=np.ascontiguousarray(stored_rows),
        offset=offset,
        residual=residual,
        total=count if weights is None else int(weights.sum()),
        cumulative=None if weights is None else cumulative_weights(weights[order]),
        distance=distance,
        entries=entries[order],
    )


def _cells_by_line(attribute: Attribute, position: int, part: LineTerm, mass: Marginal | UniformMarginal) -> Cells:
    lower, upper = attribute.first, attribute.last
    weights, distance = integer_weights(mass.masses) if isinstance(mass, Marginal) else (None, 0.0)
    cumulative = None if weights is None else cumulative_weights(weights)
    entries = ends = None
    values = 1
    if attribute.size is not None:
        values = -(-attribute.size // MAX_CELLS)
        count, total = -(-attribute.size // values), attribute.size
        if cumulative is not None:
            cumulative = cumulative[np.minimum(np.arange(count + 1) * values, attribute.size)]
        scale = CellScale(base=lower, step=float(values), reach=float(values - 1))
    elif lower == upper:
        count = total = 1
        cumulative = None
        scale = CellScale(base=lower, step=0.0)
    elif isinstance(mass, Marginal) and mass.breaks is not None:
        # Cells of equal width cannot follow these breaks: their masses are differences of running sums.
        count = total = REAL_CELLS
        borders = np.linspace(lower, upper, count + 1)
        entries, ends = borders[:-1], borders[1:]
        weights, distance = integer_weights(mass.mass_between(entries, ends))
        distance += _endpoint_error(attribute) * mass.peak_density * count
        cumulative = cumulative_weights(weights)
        scale = _equal_cells(attribute, count)
    else:
        bins = 1 if weights is None else len(weights)
        parts = -(-REAL_CELLS // bins)
        count = total = bins * parts
        if weights is not None:
            cumulative = cumulative_weights(np.repeat(weights >> 17, parts))
            distance += bins * 2.0 ** (17 - WEIGHT_BITS)
        scale = _equal_cells(attribute, count)
    return Cells(
        attribute=attribute,
        position=position,
        count=count,
        scale=scale,
        rows=np.ascontiguousarray(part.slope[None, :]),
        offset=part.intercept.copy(),
        residual=np.zeros(len(part.slope)),
        total=total if cumulative is None else int(cumulative[-1]),
        values=values,
        cumulative=cumulative,
        distance=distance,
        entries=entries,
        ends=ends,
        marginal=None if entries is None else mass,
    )


def _equal_cells(attribute: Attribute, count: int) -> CellScale:
    """Divide the domain of a real attribute into cells of equal width."""
    lower, upper = attribute.first, attribute.last
    step = (upper - lower) / count
    return CellScale(base=lower, step=step, reach=step, pad=8 * float(np.spacing(max(abs(lower), abs(upper)))))


def _endpoint_error(attribute: Attribute) -> float:
    """Bound the rounding of an end of a cell of a real attribute, as a share of the domain."""
    lower, upper = attribute.first, attribute.last
    coarse = 8 * float(np.spacing(max(abs(lower), abs(upper), upper - lower)))
    return coarse / (upper - lower) if upper > lower else 0.0


def _cells_by_bins(attribute: Attribute, position: int, part: StepTerm, mass: Marginal | UniformMarginal) -> Cells:
    cells = _cells_between(attribute, position, part.cuts, mass, units=part.rows.shape[1])
    used = np.searchsorted(part.cuts, cells.entry(np.arange(cells.count)), side="right")
    return replace(cells, rows=np.ascontiguousarray(part.rows[used]))


def _cells_by_curves(attribute: Attribute, position: int, part: CurveTerm, mass: Marginal | UniformMarginal) -> Cells:
    """Divide a number into cells with equal rises of its curves.

    In a cell [a, b], a curve that is computed with error e from an increasing function is between its computed values
    at a and b, widened by 2 e. The middle represents the cell, and half of this range is its residual. The largest
    residual over all cells counts for each curve.
    """
    single = len(part.curves) == 1
    levels = (CURVE_CELLS if single else SHARED_CELLS) + 1
    if attribute.size is not None and attribute.size <= (LISTED_CELLS if single else CURVE_CELLS):
        cuts = attribute.domain()
    else:
        cuts = np.concatenate([_rises(curve.computed, attribute, levels) for curve in part.curves])
    cells = _cells_between(attribute, position, cuts, mass, units=part.rows.shape[1])
    starts = cells.entry(np.arange(cells.count))
    ends = starts if cells.ends is None else cells.ends.copy()
    if attribute.size is None:
        ends[:-1] = np.nextafter(ends[:-1], -np.inf)
    low, high = part.values(starts), part.values(np.maximum(starts, ends))
    middle = (low + high) / 2
    error = np.array([curve.error for curve in part.curves])
    span = (np.maximum(np.abs(high - middle), np.abs(low - middle)) + 2 * error).max(axis=0)
    residual = span @ np.abs(part.rows)
    if not single:
        return replace(cells, rows=np.ascontiguousarray(middle @ part.rows), residual=residual)
    keys = np.maximum.accumulate(middle[:, 0])  # they fall by twice the error at most
    residual += 2 * error[0] * np.abs(part.rows[0])
    return replace(cells, scale=CellScale(keys=keys), rows=np.ascontiguousarray(part.rows), residual=residual)


def _rises(computed: Callable[[Floats], Floats], attribute: Attribute, levels: int) -> Floats:
    """Find the first entries at which a curve reaches evenly spaced levels, shape (levels - 2,) at most."""
    ends = computed(np.array([attribute.first, attribute.last]))
    targets = np.linspace(ends[0], ends[1], levels)[1:-1]
    targets = targets[(targets > ends[0]) & (targets <= ends[1])]
    low, high = np.full(len(targets), attribute.first), np.full(len(targets), attribute.last)
    return first_true(lambda entries: computed(entries) >= targets, low, high)


def _cells_between(
    attribute: Attribute, position: int, cuts: Floats, mass: Marginal | UniformMarginal, *, units: int
) -> Cells:
    """Divide an attribute into cells from each cut to the next, with zero terms."""
    lower, upper = attribute.first, attribute.last
    inside = np.unique(cuts[(cuts > lower) & (cuts <= upper)])
    if attribute.size is not None:
        inside = np.unique(np.ceil(inside))
    starts = np.concatenate([[lower], inside])
    ends = np.concatenate([inside, [upper]])
    if attribute.size is not None:
        ends[:-1] -= 1
        rounding = 2.0**-52
    else:
        rounding = _endpoint_error(attribute) * mass.peak_density
    weights, distance = integer_weights(mass.mass_between(starts, ends))
    # The masses of bins are differences of running sums, each off by a rounding per value of the marginal.
    distance += rounding * len(starts) * (len(mass.masses) if isinstance(mass, Marginal) else 1)
    return Cells(
        attribute=attribute,
        position=position,
        count=len(starts),
        scale=None,
        rows=np.zeros((len(starts), units)),
        offset=np.zeros(units),
        residual=np.zeros(units),
        total=int(weights.sum()),
        cumulative=cumulative_weights(weights),
        distance=distance,
        entries=starts,
        ends=ends,
        marginal=mass,
    )


def _rank_one(rows: Floats) -> tuple[Floats, Floats, Floats] | None:
    """Compute keys, slope and residual of ``rows = rows[0] + keys * slope``. None if the rows are not on a line."""
    # The rows lie on a line if the difference of each from the first is a multiple of the largest difference.
    change = rows - rows[0]
    row, unit = np.unravel_index(np.argmax(np.abs(change)), change.shape)
    slope = change[row]
    if slope[unit] == 0:
        return np.zeros(len(rows)), np.zeros(rows.shape[1]), np.zeros(rows.shape[1])
    keys = change[:, unit] / slope[unit]
    missed = np.abs(change - keys[:, None] * slope).max(axis=0)
    size = np.abs(rows).max()
    if missed.max() > 1e-12 * size:
        return None
    return keys, slope, np.asarray(missed + 4 * 2.0**-53 * size)


def _principal_positions(rows: Floats) -> Floats:
    """Compute the position of each row along the direction of the largest variance, shape (rows,)."""
    centred = rows - rows.mean(axis=0)
    direction = np.linalg.svd(centred, full_matrices=False)[2][0]
    return np.asarray(centred @ direction)


# Masses of cells as integers, so that the mass of any range is exact.

WEIGHT_BITS = 52
"""The integer masses of an attribute add up to about 2**``WEIGHT_BITS``."""


def integer_weights(masses: Floats) -> tuple[Integers, float]:
    """Convert masses to integers of about 2**WEIGHT_BITS in total, with a bound on the total variation distance."""
    scaled = np.rint(masses / masses.sum() * 2.0**WEIGHT_BITS).astype(np.int64)
    # Sum of half a unit per value for rounding to integers, three roundings of the share, and the changed total.
    distance = (2 * len(masses) + 8) * 2.0**-WEIGHT_BITS
    return scaled, distance


def cumulative_weights(weights: Integers) -> Integers:
    """Compute the weight before each cell, and finally the total."""
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(weights)])
