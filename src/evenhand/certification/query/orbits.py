"""Questions about people who can exist, each compared with their plausible counterparts.

A person is (h, u). The hub h contains the protected attributes and all attributes linked to them, and determines the
counterparts. An orbit contains all people whose counterparts have the same joint values of the hub. It is one question,
in which these values replace the protected assignments. A latent class z of the population is one product of
independent attributes u, the same in every orbit, so that

    P(a set B of u, in orbit o) = sum_z w_oz m_z(B),    w_oz = pi_z P(h in o | z).

With conditions on u, w_oz is multiplied by the class's mass that satisfies them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenhand.certification.query.cells import Cells, JointValues, cells_of_joint, list_held
from evenhand.certification.query.question import NormalForm, Query
from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.errors import OptionError
from evenhand.models.additive.network import AdditiveNetwork, CurveTerm, StepTerm
from evenhand.population.independent import Marginal, UniformMarginal
from evenhand.population.mixture import JointDistribution, MixturePopulation
from evenhand.schema.attribute import Attribute
from evenhand.schema.counterparts import counterparts_of
from evenhand.schema.subdomain import Subdomain

if TYPE_CHECKING:
    from evenhand.models.trees.ensemble import TreeEnsemble

MAX_ORBITS = 4096
"""Maximum number of orbits."""


class ClassMasses(NamedTuple):
    """Masses of boxes in each latent class of one orbit.

    Attributes:
        weights: Share of all people, shape (classes,).
        before: Weight of the cells before each, by class; attributes one after the other, shape (cells + attributes,).
        totals: Weight of all cells, by class, shape (attributes,).
        first: Index of the first cell of each attribute, shape (attributes,).
    """

    weights: Floats
    before: Sequence[Floats]
    totals: Sequence[Floats]
    first: Integers

    def of(self, low: NDArray[np.integer], high: NDArray[np.integer]) -> Floats:
        """Compute the share of all people in each box and class, shape (boxes, classes)."""
        begins, stop = self.first + low, self.first + high + 1
        masses = [
            weight * ((cumulative[stop] - cumulative[begins]) / total).prod(axis=1)
            for weight, cumulative, total in zip(self.weights, self.before, self.totals, strict=True)
        ]
        return np.stack(masses, axis=1)

    @classmethod
    def of_cells(cls, by_class: Sequence[tuple[Cells, ...]]) -> ClassMasses:
        """Compute the masses for classes of equal weight, which differ only in the masses of their cells."""
        counts = np.array([cells.count for cells in by_class[0]], dtype=np.int64)
        cumulative = [
            np.concatenate([np.zeros(0), *(cells.before(np.arange(cells.count + 1)) for cells in own)])
            for own in by_class
        ]
        return cls(
            np.full(len(by_class), 1 / len(by_class)),
            [weight.astype(np.float64) for weight in cumulative],
            [np.array([float(cells.total) for cells in own]) for own in by_class],
            np.cumsum(counts + 1) - counts - 1,
        )

    def weighed(self, weights: Floats) -> ClassMasses:
        """Replace the weights of the classes (classes,), and remove classes without weight."""
        present = np.flatnonzero(weights > 0).tolist()
        cumulative, totals = ([arrays[z] for z in present] for arrays in (self.before, self.totals))
        return ClassMasses(weights[present], cumulative, totals, self.first)


@dataclass(frozen=True)
class Orbit:
    """People who are compared under the same joint values of the hub, for trees only those of one latent class.

    Attributes:
        query: Question whether the label is the same under these values, with the mixed marginals of the classes.
        classes: The same question with the marginals of each latent class.
        numbers: Numbers of these classes. A class has the same cells in every orbit.
        masses: Masses of boxes in each of these classes.
        values: Joint values of the hub, shape (values, hub). ``query`` has only those with different effects.
        where: Description of the values.
    """

    query: Query
    classes: tuple[Query, ...]
    numbers: tuple[int, ...]
    masses: ClassMasses
    values: Floats
    where: Mapping[str, str]

    @property
    def weights(self) -> Floats:
        """Share of all people by latent class, shape (classes,)."""
        return self.masses.weights

    @property
    def mass(self) -> float:
        """Share of all people."""
        return float(self.weights.sum())

    def point_masses(self) -> Floats:
        """Compute the share of all people of each point, shape (points,)."""
        masses = (w * query.point_masses() for w, query in zip(self.weights, self.classes, strict=True))
        return np.asarray(sum(masses))


@dataclass(frozen=True)
class OrbitQuestion:
    """Question about all orbits of a population.

    Attributes:
        protected: Names of the protected attributes.
        hub: Names of all attributes of the hub.
        orbits: Orbits with at least two joint values.
        no_counterpart: Share of people without a plausible counterpart.
        population: Name of the distribution.
    """

    protected: tuple[str, ...]
    hub: tuple[str, ...]
    orbits: tuple[Orbit, ...]
    no_counterpart: float
    population: str

    @property
    def moved(self) -> tuple[str, ...]:
        """Names of the attributes that change with the protected ones."""
        varied = [np.ptp(orbit.values, axis=0) > 0 for orbit in self.orbits]
        changing = zip(self.hub, np.any(varied, axis=0), strict=True)
        return tuple(name for name, changes in changing if changes and name not in self.protected)

    @property
    def query(self) -> Query:
        """Question of the heaviest orbit, for the settings that all orbits share."""
        return self.orbits[0].query

    @property
    def constant(self) -> bool:
        """Whether the varied attributes have no effect on the model, so that everyone is treated fairly."""
        return all(orbit.query.constant for orbit in self.orbits)

    @property
    def points(self) -> int:
        """Number of cell combinations of all orbits."""
        return sum(orbit.query.points for orbit in self.orbits)

    @property
    def questions(self) -> int:
        """Maximum number of queries to the model about one person."""
        return max(orbit.query.questions for orbit in self.orbits)

    @property
    def distance(self) -> float:
        """Bound on the total variation distance between the population and the integer weights in use."""
        return sum(
            float(weight) * query.distance
            for orbit in self.orbits
            for weight, query in zip(orbit.weights, orbit.classes, strict=True)
        )


def orbit_question_of(
    network: AdditiveNetwork | TreeEnsemble,
    protected: Sequence[str] | None,
    population: MixturePopulation,
    *,
    where: Sequence[str] = (),
    threshold: float | None = None,
    bands: Sequence[float] = (),
) -> OrbitQuestion:
    """Bring a question about plausible counterparts to normal form; see ``query_of`` for the arguments.

    Raises:
        OptionError: As for ``query_of``; or the population's strata do not determine the counterparts, or there are too
            many orbits.
        SchemaError: A name is unknown.
    """
    schema = network.schema
    names = tuple(dict.fromkeys(schema.protected if protected is None else protected))
    if population.schema.names != schema.names:
        raise OptionError("the population and the model have different attributes")
    form = _form_of(network, where=where, threshold=threshold, bands=bands)
    hub = tuple(schema.names[i] for i in population.hub.columns)
    name = population.name + (f", where {form.asked}" if form.asked else "")
    shares = _class_shares(form.asked, population)
    allowed = _allowed_values(form.asked, population.hub, schema.attributes)
    weights = shares[:, None] * population.hub.masses * allowed
    if not weights.sum() > 0:
        raise OptionError(
            "no one in the population meets the conditions", hint="widen them, or use the uniform population"
        )
    weights /= weights.sum()
    orbits, no_counterpart = [], 0.0
    living = np.flatnonzero(weights.sum(axis=1) > 0)
    singles = SingleMasses.of(form, population)
    by_class = [_class_cells(form, population, np.eye(len(weights))[z], singles) for z in living]
    masses = ClassMasses.of_cells(by_class)
    for values, members in _compared_values(form, names, population, allowed):
        own = weights[living][:, members].sum(axis=1)
        if not own.sum() > 0:
            continue
        if len(values) < 2:
            no_counterpart += float(own.sum())
            continue
        where_values = _describe_values(hub, values, schema.attributes, population.hub.columns)
        # Bounds of trees include the masses, so each class is bounded by itself.
        for part in [own] if isinstance(network, AdditiveNetwork) else np.diag(own)[own > 0]:
            pooled = np.zeros(len(weights))
            pooled[living] = part
            query = form.query(hub, values, _class_cells(form, population, pooled / pooled.sum(), singles), name)
            numbers = tuple(np.flatnonzero(part > 0).tolist())
            classes = tuple(replace(query, cells=by_class[number]) for number in numbers)
            orbits.append(Orbit(query, classes, numbers, masses.weighed(part), values, where_values))
    if not orbits:
        raise OptionError(
            f"no one has a plausible counterpart: with another {', '.join(names)} all break a rule or a condition",
            hint="add links between values to the schema, or ask as published: `as_published=True`",
        )
    if len(orbits) > MAX_ORBITS:
        raise OptionError(
            f"{', '.join(hub)} have so many joint values that {len(orbits):,} questions would be needed, more than "
            f"{MAX_ORBITS:,}",
            hint="protect fewer attributes at once, bin a number, or ask as published: `as_published=True`",
        )
    orbits.sort(key=lambda orbit: -orbit.mass)
    return OrbitQuestion(names, hub, tuple(orbits), no_counterpart, name)


def _form_of(model: AdditiveNetwork | TreeEnsemble, **options: Any) -> NormalForm:
    """Bring the model to normal form. That of trees is used in the same way."""
    if isinstance(model, AdditiveNetwork):
        return NormalForm.of(model, **options)
    from evenhand.certification.bounds.trees.question import TreeForm

    return TreeForm.of(model, **options)  # type: ignore[return-value]


def _allowed_values(subdomain: Subdomain | None, table: JointDistribution, attributes: Sequence[Attribute]) -> Booleans:
    """Check which joint values satisfy the conditions, shape (values,)."""
    allowed = np.ones(len(table.values), dtype=np.bool_)
    for k, column in enumerate(table.columns):
        if subdomain is not None:
            entries = table.values[:, k]
            runs = subdomain.runs(attributes[column])
            allowed &= np.logical_or.reduce([(entries >= low) & (entries <= high) for low, high in runs])
    return allowed


def _class_shares(subdomain: Subdomain | None, population: MixturePopulation) -> Floats:
    """Compute the mass of each class among people whose attributes outside the hub satisfy the conditions."""
    attributes = population.schema.attributes
    shares = population.weights.copy()
    for table in population.blocks:
        shares *= table.masses @ _allowed_values(subdomain, table, attributes)
    for column, marginals in zip(population.singles, population.marginals, strict=True):
        if subdomain is not None and attributes[column].name in subdomain.allowed:
            lows, highs = np.array(subdomain.runs(attributes[column])).T
            shares *= [float(marginal.mass_between(lows, highs).sum()) / marginal.total for marginal in marginals]
    return shares


class SingleMasses(NamedTuple):
    """Distributions of the attributes outside hub and blocks.

    Attributes:
        like: Distribution of each attribute in one class, whose cells all classes share.
        lived: Cells of each with mass, shape (lived,).
        masses: Mass of each by class, shape (classes, lived).
        held: Values of each that get cells. None: all. A capital gain of up to 99,999 may have only a hundred values
            with mass.
    """

    like: tuple[Marginal | UniformMarginal, ...]
    lived: tuple[Integers, ...]
    masses: tuple[Floats, ...]
    held: tuple[Floats | None, ...]

    @classmethod
    def of(cls, form: NormalForm, population: MixturePopulation) -> SingleMasses:
        """Compute the distributions of a population, for one question."""
        rows: list[tuple[Marginal | UniformMarginal, Integers, Floats, Floats | None]] = []
        for column, marginals in zip(population.singles, population.marginals, strict=True):
            attribute = population.schema.attributes[column]
            tabulated = [marginal for marginal in marginals if isinstance(marginal, Marginal)]
            if not tabulated:
                rows.append((marginals[0], np.empty(0, dtype=np.int64), np.empty((0, 0)), None))
                continue
            masses = np.stack([marginal.masses for marginal in tabulated])
            highest = masses.max(axis=0)
            lived = np.flatnonzero(highest > 0)
            listed = not isinstance(form.parts[column], StepTerm | CurveTerm)
            runs = form.asked.runs(attribute) if form.asked else ((attribute.first, attribute.last),)
            values = list_held(replace(tabulated[0], masses=highest), runs) if listed else None
            rows.append((tabulated[0], lived, masses[:, lived], values))
        return cls(*zip(*rows, strict=True)) if rows else cls((), (), (), ())


def _class_cells(
    form: NormalForm, population: MixturePopulation, shares: Floats, singles: SingleMasses
) -> tuple[Cells, ...]:
    """Build the cells of all attributes outside the hub, for a mixture of the classes with these shares (classes,)."""
    attributes = population.schema.attributes
    cells = []
    for column, like, lived, masses, values in zip(population.singles, *singles, strict=True):
        if isinstance(like, Marginal):
            mixed = np.zeros(len(like.masses))
            mixed[lived] = shares @ masses
            like = replace(like, masses=mixed)
        cells.append(form.cells(column, like, values))
    for table in population.blocks:
        allowed = np.flatnonzero(_allowed_values(form.asked, table, attributes))
        joint = JointValues(tuple(attributes[i] for i in table.columns), table.columns, table.values[allowed])
        cells.append(cells_of_joint(joint, [form.parts[i] for i in table.columns], (shares @ table.masses)[allowed]))
    return tuple(cells)


def _compared_values(
    form: NormalForm, names: tuple[str, ...], population: MixturePopulation, allowed: Booleans
) -> list[tuple[Floats, list[int]]]:
    """List the compared joint values of the hub, each with the indices of the population's values among them."""
    schema, columns = population.schema, list(population.hub.columns)
    counterparts = counterparts_of(schema, names)
    if not set(counterparts.hub) <= set(columns):
        raise OptionError(
            f"the population does not say how {', '.join(schema.names[i] for i in counterparts.hub)} occur together",
            hint="fit it with these attributes protected",
        )
    # The counterparts depend only on the hub; missing values break no rule.
    people = np.full((len(population.hub.values), len(schema.attributes)), np.nan)
    people[:, columns] = population.hub.values
    moved, plausible = counterparts.of(people)
    inside = [form.asked.runs(schema.attributes[i]) if form.asked else None for i in columns]
    for i, runs in zip(columns, inside, strict=True):
        if runs is not None:
            entries = moved[:, :, i]
            plausible &= np.logical_or.reduce([(entries >= low) & (entries <= high) for low, high in runs])
    groups: dict[tuple[tuple[float, ...], ...], list[int]] = {}
    for member in np.flatnonzero(allowed):
        compared = {tuple(row) for row in moved[member][plausible[member]][:, columns].tolist()}
        groups.setdefault(tuple(sorted(compared | {tuple(population.hub.values[member].tolist())})), []).append(
            int(member)
        )
    return [(np.array(compared), members) for compared, members in groups.items()]


def _describe_values(
    hub: tuple[str, ...], values: Floats, attributes: Sequence[Attribute], columns: Sequence[int]
) -> dict[str, str]:
    """Describe joint values: for each attribute of the hub the values that occur."""
    return {
        name: ", ".join(attributes[column].text(entry) for entry in np.unique(values[:, k]))
        for k, (name, column) in enumerate(zip(hub, columns, strict=True))
    }
