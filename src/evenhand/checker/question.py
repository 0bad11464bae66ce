"""Rebuild the domain and the population of a certificate from the model's schema and the cells in the file."""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from evenhand.checker.reading import MAX_CELLS, CertificateClaim, CertificateError, CertificateHeader, RecordedCells
from evenhand.core.typing import Floats, Integers
from evenhand.errors import OptionError
from evenhand.population.independent import UNIFORM_POPULATION, Marginal, ProductPopulation, UniformMarginal
from evenhand.schema.attribute import Attribute
from evenhand.schema.schema import Schema
from evenhand.schema.subdomain import Runs, parse_subdomain

SCALE = 2**128
STATED_POPULATION = "people weighed as the certificate states"
MASS_TOLERANCE = Fraction(1, 10**9)
"""Maximum total variation distance between the masses in a file and its population."""


@dataclass(frozen=True)
class DomainAxis:
    """Unprotected attribute as a sequence of cells. Cells without mass are omitted.

    Attributes:
        attribute, position: Attribute, and its column in an individual's row.
        cells: Cells of the file.
        kept: Indices of the cells with mass in the file. None: all.
    """

    attribute: Attribute
    position: int
    cells: RecordedCells
    kept: Integers | None

    @cached_property
    def count(self) -> int:
        """Number of cells with mass."""
        return self.cells.count if self.kept is None else len(self.kept)

    @cached_property
    def total(self) -> int:
        """Mass of all cells."""
        return int(self.before(np.array([self.count]))[0])

    @cached_property
    def _cumulative(self) -> Integers | None:
        weights = self.cells.weights
        if weights is None:
            return None
        masses = weights if self.kept is None else weights[self.kept]
        return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(masses)])

    def before(self, cells: NDArray[np.integer]) -> Integers:
        """Compute the mass of all cells before each given cell."""
        if self._cumulative is not None:
            return np.asarray(self._cumulative[cells])
        numbers: Integers = cells.astype(np.int64)
        if self.cells.form != "runs":
            return numbers
        return np.asarray(np.minimum(numbers * self.cells.values, int(self.cells.last) - int(self.cells.first) + 1))

    @cached_property
    def _first_kept(self) -> Integers:
        """Number of cells with mass before each cell of the file."""
        weights = self.cells.weights
        assert weights is not None
        return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(weights > 0)])

    def renumber_cells(
        self, low: NDArray[np.integer], high: NDArray[np.integer]
    ) -> tuple[NDArray[np.integer], NDArray[np.integer]]:
        """Convert ranges of the file's cells to ranges of cells with mass. Empty ranges end before they begin."""
        if self.kept is None:
            return low, high
        return self._first_kept[low], self._first_kept[high.astype(np.int64) + 1] - 1

    def entries(self, cells: NDArray[np.integer]) -> tuple[Floats, Floats]:
        """Compute the smallest and largest entry of each cell, up to rounding for real attributes."""
        cells = cells.astype(np.int64) if self.kept is None else self.kept[cells]
        return self.cells.entries(cells)

    def words(self, low: int, high: int) -> str:
        """Describe a range of cells by the values of the data."""
        starts, ends = self.entries(np.arange(low, min(high, low + 20) + 1))
        if self.cells.form == "listed" and not self.attribute.ordered:
            more = ", ..." if high > low + 20 else ""
            return ", ".join(self.attribute.text(entry) for entry in np.sort(starts)) + more
        starts, ends = self.entries(np.array([low, high]))
        begin, end = float(starts.min()), float(ends.max())
        text = self.attribute.text
        return text(begin) if begin == end else f"{text(begin)} to {text(end)}"


PopulationLoader = Callable[[Schema], ProductPopulation]


@dataclass(frozen=True)
class AskedQuestion:
    """Question that a certificate should answer. The verdict names every difference from it.

    Attributes:
        protected: Attributes to vary. Default: the protected attributes of the schema.
        where: Conditions on the people, as for ``certify``. Default: the whole domain.
        population: Population that weighs the people, or a function that builds it for a schema. Default: uniform.
        threshold, tolerance, bands: As for ``certify``.
        domain_given: Whether the schema comes from the user. Otherwise it comes from the file, which then defines the
            domain.
    """

    protected: tuple[str, ...] | None = None
    where: tuple[str, ...] = ()
    population: ProductPopulation | PopulationLoader | None = None
    threshold: float | None = None
    tolerance: float | None = None
    bands: tuple[float, ...] = ()
    domain_given: bool = True


@dataclass(frozen=True, kw_only=True)
class RecordedDomain:
    """Domain of a certificate.

    Attributes:
        statement: Content of the file.
        axes: Unprotected attributes.
        population: Name of the population, as the checker determined it.
        restricted: Differences from the question that the user asked, by setting.
        distance: Upper bound on the total variation distance between the masses and the population.
    """

    statement: CertificateClaim
    axes: tuple[DomainAxis, ...]
    population: str
    restricted: dict[str, str]
    distance: Fraction

    @cached_property
    def total(self) -> int:
        """Mass of the domain."""
        return math.prod(axis.total for axis in self.axes)


def recorded_domain_of(
    statement: CertificateClaim,
    schema: Schema,
    question: AskedQuestion,
    check_cells: Callable[[Attribute, int, RecordedCells], None],
) -> RecordedDomain:
    """Rebuild the domain of a certificate from the file, and compare it with the question that the user asked.

    Args:
        statement: Content of the file.
        schema: Schema of the model.
        question: Question of the user.
        check_cells: Function that rejects cells of an attribute whose values the model distinguishes.

    Raises:
        CertificateError: The domain or population differs, or the cells do not partition the domain.
        OptionError: The question is not valid for this schema.
    """
    population = question.population
    if population is not None and not isinstance(population, ProductPopulation):
        population = population(schema)
    requested = _parse_conditions(schema, question.where)
    stated = _parse_conditions(schema, statement.header.where, fault="the stated conditions are invalid")
    restricted = _other_settings(statement.header, question, schema)
    axes = []
    distance = Fraction(0)
    by_name = {cells.name: cells for cells in statement.cells}
    for i, attribute in enumerate(schema.attributes):
        if attribute.name in statement.header.protected:
            entries = statement.header.protected[attribute.name]
            if attribute.size is None:
                raise CertificateError(f"the protected attribute {attribute.name!r} is a real number")
            entry_runs = _runs_of(np.array(sorted(entries)))
            if entry_runs != stated(attribute):
                raise CertificateError(f"the values of {attribute.name!r} are not those of the stated conditions")
            if entry_runs != requested(attribute):
                restricted[attribute.name] = ", ".join(attribute.text(entry) for entry in sorted(entries)[:20])
            continue
        cells = by_name[attribute.name]
        _check_cells(attribute, cells)
        check_cells(attribute, i, cells)
        with_mass = None if cells.weights is None or cells.weights.min() > 0 else np.flatnonzero(cells.weights)
        axis = DomainAxis(attribute, i, cells, with_mass)
        axes.append(axis)
        marginal = None if population is None else population.marginals[i]
        distance += _population_distance(axis, marginal)
        # Values without mass may be omitted from a population. A uniform population has no such values.
        runs = (cells.extent,) if cells.starts is None or cells.ends is not None else _runs_of(np.sort(cells.starts))
        for part_of, fault in ((stated, True), (requested, False)):
            missing, more = _compare_runs(attribute, part_of(attribute), runs)
            if more or (missing and (fault is False or cells.weights is None) and _has_mass(marginal, missing)):
                if fault:
                    raise CertificateError(f"the cells of {attribute.name!r} are not those of the stated conditions")
                restricted[attribute.name] = axis.words(0, axis.count - 1)
    if all(len(entries) == 1 for entries in statement.header.protected.values()):
        raise CertificateError("the certificate compares nothing: each protected attribute has one value in it")
    name = UNIFORM_POPULATION if population is None else population.name
    if distance > MASS_TOLERANCE:
        if population is not None:
            raise CertificateError(
                f"the masses in the certificate are not those of the population given: they differ by "
                f"{float(distance):.2g}"
            )
        name = STATED_POPULATION
        restricted["population"] = f"{STATED_POPULATION}, not uniformly"
        distance = Fraction(0)
    return RecordedDomain(
        statement=statement, axes=tuple(axes), population=name, restricted=restricted, distance=distance
    )


def require_fingerprint(statement: CertificateClaim, kind: str, digest: str) -> None:
    """Check that the certificate is for the model with this kind and digest.

    Raises:
        CertificateError: The certificate is for a different model.
    """
    if statement.header.model.kind != kind:
        raise CertificateError(f"the certificate is for {statement.header.model.kind}, but this model is {kind}")
    if digest != statement.header.model.fingerprint:
        raise CertificateError(
            f"the certificate is about another model: its digest is {statement.header.model.fingerprint[:16]}..., "
            f"this model's {digest[:16]}...",
            hint="pass the model that was certified",
        )


def margin_pairs(header: CertificateHeader, labels: int, *, rising: bool) -> tuple[tuple[int, int], ...]:
    """List the labels or bands (a, b) of each margin: b beats a if it is positive.

    Two neighbouring bands have a margin at the edge between them, and each pair of labels has one.

    Args:
        header: Question of the certificate.
        labels: Number of labels of the model.
        rising: Whether the upper band has the greater margin.

    Raises:
        CertificateError: A threshold or bands are invalid for the number of labels.
    """
    threshold, count = header.threshold, len(header.bands)
    if threshold is not None and (labels != 2 or not 0 < threshold < 1):
        raise CertificateError(f"a threshold of {threshold:g} cannot be used with this model")
    if count and labels != 2:
        raise CertificateError(f"bands of a score cannot be used with a model of {labels} labels")
    if count:
        return tuple((k, k + 1) if rising else (k + 1, k) for k in range(count))
    return tuple(itertools.combinations(range(labels), 2))


def _other_settings(header: CertificateHeader, question: AskedQuestion, schema: Schema) -> dict[str, str]:
    """Describe the settings of a certificate that differ from the question."""
    differences = {}
    if not question.domain_given:
        differences["domain"] = "as the certificate states it, compared with no schema"
    names = tuple(schema.protected) if question.protected is None else question.protected
    unknown = [name for name in names if name not in schema.names]
    if unknown:
        raise OptionError(f"there is no attribute {unknown[0]!r}", location="protected")
    if set(names) != set(header.protected):
        differences["protected"] = f"{', '.join(header.protected)} (asked about: {', '.join(names) or 'nothing'})"
    if (header.threshold or 0.5) != (question.threshold or 0.5):
        differences["threshold"] = f"{header.threshold or 0.5:g}"
    if header.tolerance != question.tolerance:
        differences["tolerance"] = "labels, no numbers" if header.tolerance is None else f"{header.tolerance:g}"
    if header.bands != tuple(question.bands):
        differences["bands"] = ", ".join(f"{edge:g}" for edge in header.bands) or "labels, no bands"
    return differences


def _parse_conditions(
    schema: Schema, conditions: Sequence[str], fault: str | None = None
) -> Callable[[Attribute], Runs]:
    """Parse conditions. If ``fault`` is set, invalid conditions are a fault of the file.

    Returns:
        Function that computes the entries of an attribute that satisfy the conditions, as ranges.
    """
    try:
        subdomain = parse_subdomain(schema, conditions)
    except OptionError as error:
        if fault is None:
            raise
        raise CertificateError(f"{fault}: {error.message}") from None
    return lambda attribute: ((attribute.first, attribute.last),) if subdomain is None else subdomain.runs(attribute)


def _runs_of(entries: Floats) -> Runs:
    """Convert sorted integers to ranges."""
    cuts = np.flatnonzero(np.diff(entries) != 1)
    begins, ends = np.concatenate([[0], cuts + 1]), np.concatenate([cuts, [len(entries) - 1]])
    return tuple((float(entries[a]), float(entries[b])) for a, b in zip(begins, ends, strict=True))


def _compare_runs(attribute: Attribute, requested: Runs, present: Runs) -> tuple[Runs, bool]:
    """Find the requested entries that are missing (as ranges) and check for entries that were not requested."""
    step = 0.0 if attribute.size is None else 1.0
    missing: list[tuple[float, float]] = []
    # Invariant: every entry of this range before ``at`` is held or in ``missing``.
    for low, high in requested:
        at = low
        for a, b in present:
            if b < at or a > high:
                continue
            if a > at:
                missing.append((at, a - step))
            at = max(at, b + step)
        if at < high or (step and at == high):
            missing.append((at, high))
    inside = all(any(low <= a and b <= high for low, high in requested) for a, b in present)
    return tuple(missing), not inside


def _has_mass(marginal: Marginal | UniformMarginal | None, runs: Runs) -> bool:
    """Check whether ranges of entries have mass in a population. Without a population, every entry has mass."""
    if not isinstance(marginal, Marginal):
        return True
    attribute = marginal.attribute
    mass = _mass_function(attribute, marginal, attribute.first, attribute.last)
    return any(mass(low, high) > 0 for low, high in runs)


def _mass_function(
    attribute: Attribute, marginal: Marginal | None, first: float, last: float
) -> Callable[[float | Fraction, float | Fraction], Fraction]:
    """Build a function that computes the exact mass between two entries. None: uniform from ``first`` to ``last``."""
    if marginal is None and attribute.size is not None:
        return lambda start, end: Fraction(int(end) - int(start) + 1)
    masses = [Fraction(1)] if marginal is None else [Fraction(float(mass)) for mass in marginal.masses]
    running = [Fraction(0), *itertools.accumulate(masses)]
    if marginal is not None and marginal.listed is not None:
        listed = marginal.listed.tolist()
        return lambda start, end: running[bisect.bisect_right(listed, end)] - running[bisect.bisect_left(listed, start)]
    if attribute.size is not None:
        if len(masses) != attribute.size:
            raise CertificateError(
                f"the population lists {len(masses)} masses for the {attribute.size} values of {attribute.name!r}"
            )
        offset = int(attribute.first)
        return lambda start, end: running[int(end) - offset + 1] - running[int(start) - offset]
    edges = [first, last] if marginal is None else list(map(float, marginal.edges))

    def below(entry: Fraction) -> Fraction:
        place = min(max(bisect.bisect_right(edges, float(entry)) - 1, 0), len(masses) - 1)
        width = Fraction(edges[place + 1]) - Fraction(edges[place])
        inside = (entry - Fraction(edges[place])) / width if width else Fraction(int(entry > edges[place]))
        return running[place] + masses[place] * min(max(inside, Fraction(0)), Fraction(1))

    return lambda start, end: below(Fraction(end)) - below(Fraction(start))


def _check_cells(attribute: Attribute, cells: RecordedCells) -> None:
    """Check that cells are disjoint parts of the domain."""
    name, (low, high) = attribute.name, cells.extent
    real = attribute.size is None
    if cells.form in (("runs", "listed") if real else ("even",)):
        raise CertificateError(f"cells of the form {cells.form!r} do not fit the attribute {name!r}")
    if cells.starts is None:
        ends = np.array([low, high])
        if low > high or (not real and (ends != np.floor(ends)).any()):
            raise CertificateError(f"the cells of {name!r} are invalid")
        holding = int(high) - int(low) + 1
        if cells.form == "runs" and (cells.values < 1 or cells.count != -(-holding // cells.values)):
            raise CertificateError(f"the cells of {name!r} leave gaps")
    elif cells.ends is None:
        if len(np.unique(cells.starts)) != cells.count or (cells.starts != np.floor(cells.starts)).any():
            raise CertificateError(f"the cells of {name!r} are not different values")
    else:
        gap = 0 if real else 1
        if (cells.starts > cells.ends).any() or (cells.starts[1:] != cells.ends[:-1] + gap).any():
            raise CertificateError(f"the cells of {name!r} leave gaps or overlap")
        if not real and (cells.starts != np.floor(cells.starts)).any():
            raise CertificateError(f"the cells of {name!r} are invalid")
        if cells.weights is None:
            raise CertificateError(f"the cells of {name!r} have different widths, and their weights are not listed")
    if low < attribute.first or high > attribute.last:
        raise CertificateError(f"the cells of {name!r} reach beyond its domain")


def _population_distance(axis: DomainAxis, marginal: Marginal | UniformMarginal | None) -> Fraction:
    """Compute the exact total variation distance between the cells' masses and a population on their range."""
    cells, attribute, (low, high) = axis.cells, axis.attribute, axis.cells.extent
    if isinstance(marginal, UniformMarginal):
        marginal = None
    if cells.weights is None and marginal is None:
        return Fraction(0)
    mass = _mass_function(attribute, marginal, low, high)
    if attribute.size is None and low == high:
        return Fraction(0)
    if cells.count > MAX_CELLS:
        raise CertificateError(f"{cells.count:,} cells of {attribute.name!r} are too many to compare with a population")
    if cells.form == "even":
        span = Fraction(cells.last) - Fraction(cells.first)
        borders = [Fraction(cells.first) + span * i / cells.count for i in range(cells.count + 1)]
        each = [mass(a, b) for a, b in itertools.pairwise(borders)]
    else:
        starts, ends = (array.tolist() for array in cells.entries(np.arange(cells.count)))
        each = [mass(start, end) for start, end in zip(starts, ends, strict=True)]
    # In integer multiples of 2**-128, each rounded by less than one: exact sums of all fractions would take minutes.
    parts = [int(part * SCALE) for part in each]
    part_sum = sum(parts)
    if part_sum <= 0:
        raise CertificateError(
            f"no one in the population has a value of {attribute.name!r} that the certificate covers"
        )
    weights = (np.diff(axis.before(np.arange(cells.count + 1))) if cells.weights is None else cells.weights).tolist()
    total = sum(weights)
    # Twice the distance. A bound on the rounding is added at the end.
    difference = sum(
        abs(weight * SCALE // total - part * SCALE // part_sum) for weight, part in zip(weights, parts, strict=True)
    )
    return Fraction(difference + 8 * (len(parts) + 1) ** 2, 2 * SCALE)
