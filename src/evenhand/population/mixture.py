"""Dependency-aware populations of plausible people: strata of the protected attributes, crossed with latent classes.

    P(h, u) = sum_z pi_z P(h | z) prod_b P(u_b | z)

The hub h is a joint attribute: the observed combinations of the protected attributes and of all attributes that are
linked to them or share a rule with them. A block b is a joint attribute of others that share a rule or a dependency.
All individuals obey the rules, because each rule involves only the hub or only one block.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.errors import OptionError
from evenhand.population.independent import (
    Marginal,
    ProductPopulation,
    UniformMarginal,
    carry_rows,
    estimate_marginal,
    product_of_marginals,
    uniform_population,
)
from evenhand.schema.attribute import Attribute
from evenhand.schema.counterparts import counterparts_of
from evenhand.schema.people import People
from evenhand.schema.schema import Schema

if TYPE_CHECKING:
    from scipy.sparse import csr_array


DEPENDENT_POPULATION = "dependency-aware, as in the data: only people who obey the schema's rules"
"""Name of the population fitted to data in reports."""
UNIFORM_RULES = "everyone in the domain who obeys the schema's rules, uniformly"
"""Name of the uniform population of plausible people in reports."""
MAX_LISTED = 1_000_000
"""Maximum number of joint values of attributes that share rules."""
CLASSES = (1, 2, 4, 8)
"""Candidate numbers of latent classes, selected by the likelihood of held-out people."""
HELD_OUT = 0.3
"""Share of held-out people."""
MAX_FITTED = 100_000
"""Maximum number of people for fitting. Larger data sets are subsampled."""
BINNED_VALUES, BINS = 24, 16
"""Numbers with more than ``BINNED_VALUES`` values are grouped into ``BINS`` bins of approximately equal mass. A value
whose mass is at least that of a bin has its own bin. Within a bin, all classes have the same distribution."""


@dataclass(frozen=True)
class JointDistribution:
    """Joint distribution of several attributes in each latent class, as a table of the values that occur.

    Attributes:
        columns: Positions of the attributes.
        values: Joint entries, shape (values, columns).
        masses: Masses of the values in each class, shape (classes, values). Each row sums to 1, or to 0 for an empty
            class.
    """

    columns: tuple[int, ...]
    values: Floats
    masses: Floats


@dataclass(frozen=True)
class MixturePopulation:
    """Strata crossed with latent classes; all individuals obey the dependencies and rules of the schema.

    Attributes:
        name: Name in reports.
        schema: Schema of the individuals.
        weights: Mass of each latent class, shape (classes,).
        hub: Protected attributes, with all attributes that are linked to them or share a rule with them.
        blocks: Other attributes that share a rule or a dependency.
        marginals: Distribution of each remaining attribute in each class, in schema order.
        rows: Data rows that supply the passthrough columns (see ``carry_rows``).
    """

    name: str
    schema: Schema
    weights: Floats
    hub: JointDistribution
    blocks: tuple[JointDistribution, ...]
    marginals: tuple[tuple[Marginal | UniformMarginal, ...], ...]
    rows: Integers | None = None

    @property
    def singles(self) -> tuple[int, ...]:
        """Positions of the attributes of ``marginals``."""
        return tuple(_list_singles(self.schema, [joint.columns for joint in (self.hub, *self.blocks)]))

    def sample(self, n: int, rng: np.random.Generator) -> Floats:
        """Draw n individuals, shape (n, attributes)."""
        individuals = np.empty((n, len(self.schema.attributes)))
        latent = rng.choice(len(self.weights), n, p=self.weights / self.weights.sum())
        for z in range(len(self.weights)):
            rows = np.flatnonzero(latent == z)
            for joint in (self.hub, *self.blocks):
                sums = np.cumsum(joint.masses[z])
                chosen = np.searchsorted(sums, rng.random(len(rows)) * sums[-1], side="right")
                individuals[rows[:, None], list(joint.columns)] = joint.values[chosen]
            for column, marginal in zip(self.singles, self.marginals, strict=True):
                individuals[rows, column] = marginal[z].sample(len(rows), rng)
        return carry_rows(self.schema, individuals, self.rows, rng)


def strata_of(schema: Schema, protected: Sequence[str] | None = None) -> tuple[tuple[int, ...], ...]:
    """Group the positions of attributes with a joint distribution: first the hub, then the blocks.

    Attributes are in the same group if they are connected by rules or dependencies. The hub is the group of the
    protected attributes and of those linked to them.

    Raises:
        EvenhandError: There is no protected attribute, or an attribute is unknown.
    """
    groups = [set(counterparts_of(schema, protected).hub)]
    groups += [set(rule.columns) for rule in schema.constraints if len(rule.columns) > 1]
    groups += [{relation.source, relation.column} for relation in schema.determined]
    components: list[set[int]] = []
    for group in groups:
        connected = [component for component in components if component & group]
        components = [group.union(*connected), *(item for item in components if item not in connected)]
    hub = next(component for component in components if groups[0] <= component)
    blocks = sorted(tuple(sorted(component)) for component in components if component is not hub)
    return (tuple(sorted(hub)), *blocks)


def fit_mixture(
    people: People,
    protected: Sequence[str] | None = None,
    *,
    classes: Sequence[int] = CLASSES,
    seed: int = 0,
) -> MixturePopulation:
    """Fit strata crossed with latent classes to the people who obey the rules.

    With one class and no rules, the population is that of ``product_of_marginals``, except for the joint distribution
    of the hub.

    Args:
        people: Data. People with a missing value in the hub are ignored. Other missing values are uninformative about
            the class.
        protected: Attributes that define the strata. Default: the protected attributes of the schema.
        classes: Candidate numbers of latent classes, selected by the likelihood of held-out people.
        seed: Random seed.

    Raises:
        OptionError: There is no protected attribute, no one obeys the rules, or an attribute has no value.
    """
    schema, individuals = people.schema, people.individuals
    groups = strata_of(schema, protected)
    usable = schema.obeys_rules(individuals) & ~np.isnan(individuals[:, list(groups[0])]).any(axis=1)
    rows = np.flatnonzero(usable)
    if not len(rows):
        raise OptionError(
            "no one in the data obeys the rules of the schema, so no population can be fitted",
            hint="correct the rules, or ignore them with `as_published=True`",
        )
    rng = np.random.default_rng(seed)
    if len(rows) > MAX_FITTED:
        rows = np.sort(rng.choice(rows, MAX_FITTED, replace=False))
    individuals = individuals[rows]
    tables, coded = code_people(schema, groups, individuals)
    fitted = choose_classes(coded, classes, rng)
    masses = [table.masses(chances) for table, chances in zip(tables, fitted.chances, strict=True)]
    hub, *blocks = map(JointDistribution, groups, [table.values for table in tables], masses)
    singles = zip(_list_singles(schema, groups), masses[len(groups) :], tables[len(groups) :], strict=True)
    return MixturePopulation(
        name=DEPENDENT_POPULATION,
        schema=schema,
        weights=fitted.weights,
        hub=hub,
        blocks=tuple(blocks),
        marginals=tuple(
            tuple(Marginal(schema.attributes[i], row, listed=table.listed) for row in rows)
            for i, rows, table in singles
        ),
        rows=people.rows if schema.carries_rows else None,
    )


def code_people(
    schema: Schema, groups: Sequence[tuple[int, ...]], individuals: Floats
) -> tuple[list[ValueTable], CodedPeople]:
    """Convert individuals to codes for latent classes, with the table of values of each code.

    Args:
        schema: Schema of the individuals.
        groups: Columns with a joint code. All other columns have their own codes, which follow in order.
        individuals: Individuals, shape (n, attributes).
    """
    tables = [ValueTable.of_joint(schema, columns, individuals) for columns in groups]
    tables += [ValueTable.of_attribute(schema.attributes[i], individuals[:, i]) for i in _list_singles(schema, groups)]
    sizes = np.array([table.size for table in tables], dtype=np.int64)
    return tables, CodedPeople(np.stack([table.codes for table in tables], axis=1), sizes)


def _list_singles(schema: Schema, groups: Sequence[tuple[int, ...]]) -> list[int]:
    """Return the columns outside all groups."""
    grouped = {column for columns in groups for column in columns}
    return [i for i in range(len(schema.attributes)) if i not in grouped]


def uniform_mixture(schema: Schema, protected: Sequence[str] | None = None) -> MixturePopulation:
    """Build the population in which all individuals of the domain that obey the rules are equally likely.

    Args:
        schema: Schema with the domain and the rules.
        protected: As for ``fit_mixture``.

    Raises:
        OptionError: There is no protected attribute, no individual obeys the rules, or there are more than
            ``MAX_LISTED`` joint values.
    """
    groups = strata_of(schema, protected)
    hub, *blocks = [_list_possible(schema, columns) for columns in groups]
    uniform = uniform_population(schema).marginals
    marginals = [(uniform[i],) for i in _list_singles(schema, groups)]
    return MixturePopulation(UNIFORM_RULES, schema, np.ones(1), hub, tuple(blocks), tuple(marginals))


def _list_possible(schema: Schema, columns: tuple[int, ...]) -> JointDistribution:
    """List the joint values of the given attributes that obey the rules, with equal masses."""
    attributes = [schema.attributes[i] for i in columns]
    names = ", ".join(attribute.name for attribute in attributes)
    sizes = [attribute.size for attribute in attributes]
    count = math.prod(size or MAX_LISTED + 1 for size in sizes)
    if count > MAX_LISTED:
        raise OptionError(
            f"{names} share rules and have {'infinitely many' if None in sizes else format(count, ',')} joint values, "
            f"more than {MAX_LISTED:,}",
            hint="use the population of the data (`population=data`), bin a number, or remove a rule",
        )
    grids = np.meshgrid(*(attribute.domain() for attribute in attributes), indexing="ij")
    people = np.full((count, len(schema.attributes)), np.nan)
    people[:, list(columns)] = np.stack([grid.ravel() for grid in grids], axis=1)
    values = people[schema.obeys_rules(people)][:, list(columns)]
    if not len(values):
        raise OptionError(f"no values of {names} obey the rules of the schema", hint="correct the rules")
    return JointDistribution(columns, values, np.full((1, len(values)), 1 / len(values)))


def choose_classes(coded: CodedPeople, classes: Sequence[int], rng: np.random.Generator) -> LatentClasses:
    """Fit the number of latent classes with the highest likelihood of held-out people.

    The final fit uses all people and starts from the classes fitted without the held-out people, so it converges in a
    few steps.
    """
    shuffled = rng.permutation(len(coded.codes))
    out = int(HELD_OUT * len(shuffled))
    if len(classes) == 1 or not out:
        return fit_latent_classes(coded, classes[0], rng)
    held_out, training = coded.at(shuffled[:out]), coded.at(shuffled[out:])
    fits = [fit_latent_classes(training, number, rng) for number in classes]
    likelihoods = [fit.log_likelihood(held_out, unseen=1 / len(shuffled)).mean() for fit in fits]
    best = int(np.argmax(likelihoods))
    return fit_latent_classes(coded, classes[best], rng, start=fits[best])


@dataclass(frozen=True)
class ValueTable:
    """Values of one attribute, or joint values of several, and their codes in latent classes.

    Attributes:
        codes: Code of each person, or -1 if missing, shape (n,).
        values: Joint entries, shape (values, columns). Empty for a single attribute, whose values are its cells.
        code: Code of each value, shape (values,).
        share: Probability of each value given its code, equal in all classes, shape (values,).
        listed: Values that occur in the data, for a single attribute with a large domain.
    """

    codes: Integers
    values: Floats
    code: Integers
    share: Floats
    listed: Floats | None = None

    @property
    def size(self) -> int:
        """Number of codes."""
        return int(self.code.max()) + 1

    def masses(self, chances: Floats) -> Floats:
        """Compute the mass of each value in each class, given the probability of each code, shape (classes, values)."""
        return chances[:, self.code] * self.share

    @classmethod
    def of_attribute(cls, attribute: Attribute, entries: Floats) -> ValueTable:
        """Build the table of one attribute, whose values are its cells and whose codes are their bins."""
        marginal, code = _bin_cells(attribute, entries)
        code_masses = np.bincount(code, weights=marginal.masses)[code]
        codes = np.full(len(entries), -1, dtype=np.int64)
        present = ~np.isnan(entries)
        codes[present] = code[marginal.cells_of(entries[present])]
        share = np.divide(marginal.masses, code_masses, out=np.zeros(len(code)), where=code_masses > 0)
        return cls(codes, np.zeros((0, 1)), code, share, marginal.listed)

    @classmethod
    def of_joint(cls, schema: Schema, columns: Sequence[int], individuals: Floats) -> ValueTable:
        """Build the table of several attributes from the people without a missing value in them."""
        entries = individuals[:, list(columns)]
        present = ~np.isnan(entries).any(axis=1)
        if not present.any():
            names = ", ".join(schema.attributes[i].name for i in columns)
            raise OptionError(f"no row of the data has a value for each of {names}")
        values, positions, counts = np.unique(entries[present], axis=0, return_inverse=True, return_counts=True)
        bins = np.empty(values.shape, dtype=np.int64)
        for k, i in enumerate(columns):
            marginal, code = _bin_cells(schema.attributes[i], individuals[:, i])
            bins[:, k] = code[marginal.cells_of(values[:, k])]
        code = np.unique(bins, axis=0, return_inverse=True)[1].reshape(-1)
        codes = np.full(len(entries), -1, dtype=np.int64)
        codes[present] = code[positions.reshape(-1)]
        return cls(codes, values, code, counts / np.bincount(code, weights=counts)[code])


def _bin_cells(attribute: Attribute, entries: Floats) -> tuple[Marginal, Integers]:
    """Estimate the distribution of an attribute, and group its cells into bins, shape (cells,)."""
    marginal = estimate_marginal(attribute, entries)
    masses = marginal.masses
    if len(masses) <= BINNED_VALUES or not attribute.ordered:
        return marginal, np.arange(len(masses))
    heavy: Booleans = masses >= 1 / BINS
    light = np.where(heavy, 0.0, masses)
    middle = (np.cumsum(light) - light / 2) / max(light.sum(), np.finfo(np.float64).tiny)
    bins = np.minimum(np.floor(BINS * middle), BINS - 1)
    bins[heavy] = BINS + np.arange(int(heavy.sum()))
    return marginal, np.unique(bins, return_inverse=True)[1].astype(np.int64)


# Latent classes: a mixture of classes with independent attributes, fitted by EM.
#
#     P(x) = sum_z pi_z prod_g P(x_g | z)
#
# (Goodman, "Exploratory latent structure analysis using both identifiable and unidentifiable models", Biometrika 1974;
# Dempster, Laird and Rubin, "Maximum likelihood from incomplete data via the EM algorithm", JRSS B 1977.) A group g is
# one attribute, or several with a joint distribution. It has finitely many codes.


PRIOR_PEOPLE = 1.0
"""Number of people, distributed as in the data, added to each class. All codes thus have a positive mass."""
MAX_STEPS = 200
"""Maximum number of EM steps."""
MIN_PROGRESS = 3e-4
"""Increase of the mean log-likelihood, in nats per person, below which EM stops. Further steps only overfit: with 1e-5
they take three times as long, without any gain on held-out people of the Adult data."""


@dataclass(frozen=True)
class CodedPeople:
    """People as one code per group of attributes.

    Attributes:
        codes: Codes, -1 if missing, shape (n, groups).
        sizes: Number of codes of each group, shape (groups,).
    """

    codes: Integers
    sizes: Integers

    def at(self, rows: Integers) -> CodedPeople:
        """Select people by row."""
        return CodedPeople(self.codes[rows], self.sizes)

    @property
    def borders(self) -> Integers:
        """Offsets of the groups in the concatenation of their codes, shape (groups + 1,)."""
        return np.concatenate([[0], np.cumsum(self.sizes)])

    def indicators(self) -> csr_array:
        """One-hot encode the codes of all groups, shape (n, codes); a missing code is all zeros."""
        from scipy.sparse import csr_array

        present = self.codes >= 0
        positions = (self.codes + self.borders[:-1])[present]
        ends = np.concatenate([[0], np.cumsum(present.sum(axis=1))])
        return csr_array((np.ones(len(positions)), positions, ends), shape=(len(self.codes), int(self.sizes.sum())))


@dataclass(frozen=True)
class LatentClasses:
    """Fitted mixture of latent classes.

    Attributes:
        weights: Mass of each class, shape (classes,).
        chances: Probability of each code in each class, per group, shape (classes, codes).
        progress: Objective after each EM step, in nats per person: mean log-likelihood plus log-prior.
    """

    weights: Floats
    chances: tuple[Floats, ...]
    progress: tuple[float, ...]

    def log_likelihood(self, coded: CodedPeople, *, unseen: float) -> Floats:
        """Compute the log-likelihood of each person in nats, shape (n,).

        Args:
            coded: People. Missing codes are ignored.
            unseen: Probability of a code with mass 0 in all classes.
        """
        chances = np.concatenate(self.chances, axis=1)
        chances = np.where(chances.max(axis=0) > 0, chances, unseen)
        return _log_sum(_log_joint(coded.indicators(), self.weights, chances))


def fit_latent_classes(
    coded: CodedPeople,
    classes: int,
    rng: np.random.Generator,
    *,
    start: LatentClasses | None = None,
) -> LatentClasses:
    """Fit latent classes by EM.

    The first group has no prior, so codes that do not occur in a class have mass 0 there.

    Args:
        coded: At least one person.
        classes: Number of classes.
        rng: Random generator that draws the central people of the initial classes.
        start: Initial classes. Default: one class around each randomly drawn person.
    """
    indicators, borders = coded.indicators(), coded.borders
    totals = np.asarray(indicators.sum(axis=0), dtype=np.float64)
    prior = np.zeros_like(totals)
    for begin, end in pairwise(borders[1:]):
        if totals[begin:end].sum() > 0:
            prior[begin:end] = PRIOR_PEOPLE * totals[begin:end] / totals[begin:end].sum()
    if start is None:
        # The membership of a person in a class increases with the number of codes shared with its central person.
        centres = rng.choice(len(coded.codes), classes, replace=classes > len(coded.codes))
        joint = np.asarray((indicators @ indicators[centres].T).todense(), dtype=np.float64)
    else:
        joint = _log_joint(indicators, start.weights, np.concatenate(start.chances, axis=1))
    memberships = np.exp(joint - _log_sum(joint)[:, None])
    progress: list[float] = []
    while True:
        # M step: class frequencies weighted by the memberships, plus the prior pseudo-counts.
        weights = memberships.mean(axis=0)
        chances = np.asarray(indicators.T @ memberships).T + prior
        for begin, end in pairwise(borders):
            sums = chances[:, begin:end].sum(axis=1, keepdims=True)
            chances[:, begin:end] /= np.where(sums > 0, sums, 1.0)
        # E step: membership of each person in each class, by Bayes' theorem.
        joint = _log_joint(indicators, weights, chances)
        likelihood = _log_sum(joint)
        memberships = np.exp(joint - likelihood[:, None])
        log_prior = float((prior * np.log(np.where(prior > 0, chances, 1.0))).sum())
        progress.append((float(likelihood.sum()) + log_prior) / len(likelihood))
        if len(progress) == MAX_STEPS or (len(progress) > 1 and progress[-1] - progress[-2] < MIN_PROGRESS):
            break
    groups = tuple(chances[:, begin:end] for begin, end in pairwise(borders))
    return LatentClasses(weights, groups, tuple(progress))


def _log_joint(indicators: csr_array, weights: Floats, chances: Floats) -> Floats:
    """Compute log pi_z + sum_g log P(x_g | z), shape (n, classes)."""
    tiny = np.finfo(np.float64).tiny
    logs = np.log(np.maximum(chances, tiny)).T
    return np.asarray(indicators @ logs + np.log(np.maximum(weights, tiny)))


def _log_sum(joint: Floats) -> Floats:
    """Compute the logarithm of the sum of exponentials of each row, shape (n,)."""
    maxima = np.maximum.reduce(list(joint.T))  # faster than along short rows
    return np.asarray(maxima + np.log(np.exp(joint - maxima[:, None]).sum(axis=1)))


# Selection of a population by name, shared by all analyses.


PopulationKind: TypeAlias = Literal["data", "uniform", "independent"]


def choose_population(
    kind: PopulationKind,
    source: People | Schema,
    protected: Sequence[str] | None = None,
    *,
    as_published: bool = False,
) -> ProductPopulation | MixturePopulation:
    """Build a simulated population by name.

    If the schema has rules, the populations ``data`` and ``uniform`` only contain people who obey them. Otherwise, and
    with ``as_published``, attributes are independent.

    Args:
        kind: ``data`` (distributed as in the data), ``uniform`` (over the domain) or ``independent`` (independent
            attributes, each distributed as in the data, without rules).
        source: Data, or only the schema for ``uniform``.
        protected: Attributes that define the strata. Default: the protected attributes of the schema.
        as_published: Whether to ignore the rules.

    Raises:
        OptionError: The population requires data, no one in the data obeys the rules, or an attribute has no value.
    """
    schema = source.schema if isinstance(source, People) else source
    ruled = schema.constrains_people and not as_published and kind != "independent"
    if kind == "uniform":
        return uniform_mixture(schema, protected) if ruled else uniform_population(schema)
    if not isinstance(source, People):
        raise OptionError(f"population {kind!r} requires data, got only a schema")
    return fit_mixture(source, protected) if ruled else product_of_marginals(source)
