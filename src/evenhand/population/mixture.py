"""A population of people who can exist: strata of the protected attributes, crossed with latent classes.

    P(h, u) = sum_z pi_z P(h | z) prod_b P(u_b | z)

The hub h is one attribute: the joint values, as seen, of what is protected and of all that is linked to it or shares a
rule with it. A block b is one attribute too: the joint values, as seen, of attributes that share a rule or a
dependency. Everybody drawn obeys the rules, as each rule is about the hub alone or about one block alone.
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
"""What a population fitted to data is called in reports."""
UNIFORM_RULES = "everyone in the domain who obeys the schema's rules, uniformly"
"""What the uniform population of people who can exist is called in reports."""
MAX_LISTED = 1_000_000
"""Joint values of attributes that share rules, at most, where all are listed."""
CLASSES = (1, 2, 4, 8)
"""Numbers of latent classes to choose from, by the likelihood of people held out."""
HELD_OUT = 0.3
"""Share of the people who are held out for that."""
MAX_FITTED = 100_000
"""People that a mixture is fitted to; of more, so many drawn at random."""
BINNED_VALUES, BINS = 24, 16
"""A number with more values than this acts through so many bins of about equal mass; a value as heavy as a bin is one
by itself. Inside a bin, values are distributed alike in all classes."""


@dataclass(frozen=True)
class JointDistribution:
    """The joint distribution of several attributes in each latent class: a table of those values that occur.

    Attributes:
        columns: positions of the attributes.
        values: joint entries, shape (values, columns).
        masses: shape (classes, values), each row adding up to 1 (to 0 where no one is in a class).
    """

    columns: tuple[int, ...]
    values: Floats
    masses: Floats


@dataclass(frozen=True)
class MixturePopulation:
    """Strata crossed with latent classes: people who obey every dependency and rule.

    Attributes:
        name: how to call it in a report.
        schema: what its individuals are.
        weights: mass of each latent class, shape (classes,).
        hub: the protected attributes, and what goes with them.
        blocks: other attributes that share a rule or a dependency.
        marginals: of each remaining attribute, in schema order, its distribution in each class.
        rows: rows of the data that individuals may carry (see ``carry_rows``).
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
        return tuple(_list_singles(self.schema, [table.columns for table in (self.hub, *self.blocks)]))

    def sample(self, n: int, rng: np.random.Generator) -> Floats:
        """Draw n individuals, shape (n, attributes)."""
        drawn = np.empty((n, len(self.schema.attributes)))
        latent = rng.choice(len(self.weights), n, p=self.weights / self.weights.sum())
        for z in range(len(self.weights)):
            rows = np.flatnonzero(latent == z)
            for table in (self.hub, *self.blocks):
                running = np.cumsum(table.masses[z])
                chosen = np.searchsorted(running, rng.random(len(rows)) * running[-1], side="right")
                drawn[rows[:, None], list(table.columns)] = table.values[chosen]
            for column, marginal in zip(self.singles, self.marginals, strict=True):
                drawn[rows, column] = marginal[z].sample(len(rows), rng)
        return carry_rows(self.schema, drawn, self.rows, rng)


def strata_of(schema: Schema, protected: Sequence[str] | None = None) -> tuple[tuple[int, ...], ...]:
    """Return the attributes that only occur together, as columns: the hub first, then the blocks.

    Attributes that share a rule or a dependency belong together, and so do those that share one with them. The hub is
    the group of what is protected and of what moves with it.

    Raises:
        EvenhandError: nothing is protected, or an attribute is unknown.
    """
    groups = [set(counterparts_of(schema, protected).hub)]
    groups += [set(rule.columns) for rule in schema.constraints if len(rule.columns) > 1]
    groups += [{relation.source, relation.column} for relation in schema.determined]
    joined: list[set[int]] = []
    for group in groups:
        touching = [other for other in joined if other & group]
        joined = [group.union(*touching), *(other for other in joined if other not in touching)]
    hub = next(group for group in joined if groups[0] <= group)
    blocks = sorted(tuple(sorted(group)) for group in joined if group is not hub)
    return (tuple(sorted(hub)), *blocks)


def fit_mixture(
    people: People,
    protected: Sequence[str] | None = None,
    *,
    classes: Sequence[int] = CLASSES,
    seed: int = 0,
) -> MixturePopulation:
    """Fit strata crossed with latent classes to the people who obey the rules.

    With one class and no rules, attributes are independent and distributed as in the data
    (``product_of_marginals``), but for the hub's, which stay together.

    Args:
        people: the data. Who misses a value of the hub is left out; another missing value tells nothing of the class.
        protected: the attributes that strata are made of, with all that goes with them; by default those that the
            schema marks.
        classes: numbers of latent classes to choose from, by the likelihood of people held out.
        seed: same seed, same result.

    Raises:
        OptionError: nothing is protected, no one obeys the rules, or an attribute has no value.
    """
    schema, individuals = people.schema, people.individuals
    groups = strata_of(schema, protected)
    usable = schema.obeys_rules(individuals) & ~np.isnan(individuals[:, list(groups[0])]).any(axis=1)
    rows = np.flatnonzero(usable)
    if not len(rows):
        raise OptionError(
            "no one in the data obeys the rules of the schema, so there are no people to go by",
            hint="correct the rules, or leave them out: `as_published=True`",
        )
    rng = np.random.default_rng(seed)
    if len(rows) > MAX_FITTED:
        rows = np.sort(rng.choice(rows, MAX_FITTED, replace=False))
    individuals = individuals[rows]
    tables, coded = code_people(schema, groups, individuals)
    fitted = choose_classes(coded, classes, rng)
    masses = [table.masses(chances) for table, chances in zip(tables, fitted.chances, strict=True)]
    hub, *blocks = [
        JointDistribution(columns, table.values, found)
        for columns, table, found in zip(groups, tables, masses, strict=False)
    ]
    return MixturePopulation(
        name=DEPENDENT_POPULATION,
        schema=schema,
        weights=fitted.weights,
        hub=hub,
        blocks=tuple(blocks),
        marginals=tuple(
            tuple(Marginal(schema.attributes[i], own, listed=table.listed) for own in found)
            for i, found, table in zip(
                _list_singles(schema, groups), masses[len(groups) :], tables[len(groups) :], strict=True
            )
        ),
        rows=people.rows if schema.carries_rows else None,
    )


def code_people(
    schema: Schema, groups: Sequence[tuple[int, ...]], individuals: Floats
) -> tuple[list[ValueTable], CodedPeople]:
    """Return people as latent classes see them, and the values that stand behind the codes.

    Args:
        schema: what the columns mean.
        groups: columns that only occur together; every other column is one by itself, and they follow in order.
        individuals: shape (n, attributes).
    """
    tables = [ValueTable.of_joint(schema, columns, individuals) for columns in groups]
    tables += [ValueTable.of_attribute(schema.attributes[i], individuals[:, i]) for i in _list_singles(schema, groups)]
    sizes = np.array([table.size for table in tables], dtype=np.int64)
    return tables, CodedPeople(np.stack([table.codes for table in tables], axis=1), sizes)


def _list_singles(schema: Schema, groups: Sequence[tuple[int, ...]]) -> list[int]:
    """Return the columns that are in no group."""
    together = {column for columns in groups for column in columns}
    return [i for i in range(len(schema.attributes)) if i not in together]


def uniform_mixture(schema: Schema, protected: Sequence[str] | None = None) -> MixturePopulation:
    """Return the population in which everybody in the domain who obeys the rules is equally likely.

    Args:
        schema: its domain and its rules.
        protected: as for ``fit_mixture``.

    Raises:
        OptionError: nothing is protected, no one obeys the rules, or too many joint values would have to be listed.
    """
    groups = strata_of(schema, protected)
    hub, *blocks = [_list_possible(schema, columns) for columns in groups]
    uniform = uniform_population(schema).marginals
    marginals = [(uniform[i],) for i in _list_singles(schema, groups)]
    return MixturePopulation(UNIFORM_RULES, schema, np.ones(1), hub, tuple(blocks), tuple(marginals))


def _list_possible(schema: Schema, columns: tuple[int, ...]) -> JointDistribution:
    """Return the joint values of some attributes that break no rule among them, uniformly distributed."""
    attributes = [schema.attributes[i] for i in columns]
    names = ", ".join(attribute.name for attribute in attributes)
    sizes = [attribute.size for attribute in attributes]
    listed = math.prod(size or MAX_LISTED + 1 for size in sizes)
    if listed > MAX_LISTED:
        raise OptionError(
            f"{names} share rules and have {'endless' if None in sizes else format(listed, ',')} joint values, more "
            f"than {MAX_LISTED:,}",
            hint="measure by the people in the data (`population=data`), bin a number, or leave a rule out",
        )
    grids = np.meshgrid(*(attribute.domain() for attribute in attributes), indexing="ij")
    people = np.full((listed, len(schema.attributes)), np.nan)
    people[:, list(columns)] = np.stack([grid.ravel() for grid in grids], axis=1)
    values = people[schema.obeys_rules(people)][:, list(columns)]
    if not len(values):
        raise OptionError(f"no values of {names} obey the rules of the schema", hint="correct the rules")
    return JointDistribution(columns, values, np.full((1, len(values)), 1 / len(values)))


def choose_classes(coded: CodedPeople, classes: Sequence[int], rng: np.random.Generator) -> LatentClasses:
    """Fit the number of latent classes that makes people held out most likely; the first group gets no prior.

    Everybody is then fitted from the classes that the others gave, which takes a few steps.
    """
    shuffled = rng.permutation(len(coded.codes))
    out = int(HELD_OUT * len(shuffled))
    if len(classes) == 1 or not out:
        return fit_latent_classes(coded, classes[0], rng, exact=(0,))
    held_out, rest = coded.at(shuffled[:out]), coded.at(shuffled[out:])
    fits = [fit_latent_classes(rest, number, rng, exact=(0,)) for number in classes]
    likelihoods = [fit.log_likelihood(held_out, least=1 / len(shuffled)).mean() for fit in fits]
    best = int(np.argmax(likelihoods))
    return fit_latent_classes(coded, classes[best], rng, exact=(0,), start=fits[best])


@dataclass(frozen=True)
class ValueTable:
    """The values of one attribute, or joint values of several, and the codes that latent classes see them by.

    Attributes:
        codes: of each person, -1 where missing, shape (n,).
        values: joint entries, shape (values, columns); empty for a single attribute, whose values are its cells.
        code: of each value, shape (values,).
        share: chance of each value given its code, the same in all classes, shape (values,).
        listed: of a single attribute with a wide domain, the values that anybody has: its cells.
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
        """Return the mass of each value in each class, from that of each code, shape (classes, values)."""
        return chances[:, self.code] * self.share

    @classmethod
    def of_attribute(cls, attribute: Attribute, entries: Floats) -> ValueTable:
        """Return the table of one attribute: its cells, and their bins."""
        marginal, code = _bins_of_cells(attribute, entries)
        held = np.bincount(code, weights=marginal.masses)[code]
        codes = np.full(len(entries), -1, dtype=np.int64)
        known = ~np.isnan(entries)
        codes[known] = code[marginal.cells_of(entries[known])]
        share = np.divide(marginal.masses, held, out=np.zeros(len(held)), where=held > 0)
        return cls(codes, np.zeros((0, 1)), code, share, marginal.listed)

    @classmethod
    def of_joint(cls, schema: Schema, columns: Sequence[int], individuals: Floats) -> ValueTable:
        """Return the table of several attributes: the joint values of people who miss none of them."""
        entries = individuals[:, list(columns)]
        known = ~np.isnan(entries).any(axis=1)
        if not known.any():
            names = ", ".join(schema.attributes[i].name for i in columns)
            raise OptionError(f"no one in the data has values of all of {names}")
        values, place, counts = np.unique(entries[known], axis=0, return_inverse=True, return_counts=True)
        seen = np.empty(values.shape, dtype=np.int64)
        for k, i in enumerate(columns):
            marginal, code = _bins_of_cells(schema.attributes[i], individuals[:, i])
            seen[:, k] = code[marginal.cells_of(values[:, k])]
        code = np.unique(seen, axis=0, return_inverse=True)[1].reshape(-1)
        codes = np.full(len(entries), -1, dtype=np.int64)
        codes[known] = code[place.reshape(-1)]
        return cls(codes, values, code, counts / np.bincount(code, weights=counts)[code])


def _bins_of_cells(attribute: Attribute, entries: Floats) -> tuple[Marginal, Integers]:
    """Return the distribution of an attribute, and the bin of each of its cells, shape (cells,)."""
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


# Latent classes: a mixture in which people of one class have independent attributes, fitted by EM.
#
#     P(x) = sum_z pi_z prod_g P(x_g | z)
#
# (Goodman, "Exploratory latent structure analysis using both identifiable and unidentifiable models", Biometrika 1974;
# Dempster, Laird and Rubin, "Maximum likelihood from incomplete data via the EM algorithm", JRSS B 1977.) A group g is
# an attribute, or several that only occur together; it takes one of finitely many codes.


PRIOR_PEOPLE = 1.0
"""People, distributed as everybody, that are added to each class: codes never seen in it keep a little mass."""
MAX_STEPS = 200
LEAST_PROGRESS = 3e-4
"""EM ends where a step raises the mean log-likelihood, in nats per person, by less than this. Steps after that fit the
people better, but not others: with 1e-5 they take three times as long and gain nothing on adults held out."""


@dataclass(frozen=True)
class CodedPeople:
    """People as one code per group of attributes.

    Attributes:
        codes: shape (n, groups), -1 where missing.
        sizes: number of codes of each group, shape (groups,).
    """

    codes: Integers
    sizes: Integers

    def at(self, rows: Integers) -> CodedPeople:
        """Return some of the people."""
        return CodedPeople(self.codes[rows], self.sizes)

    @property
    def borders(self) -> Integers:
        """Where the codes of each group begin, when all groups are put in a row, shape (groups + 1,)."""
        return np.concatenate([[0], np.cumsum(self.sizes)])

    def indicators(self) -> csr_array:
        """Return the codes as zeros and ones, shape (n, codes of all groups); a missing one is all zeros."""
        from scipy.sparse import csr_array

        known = self.codes >= 0
        places = (self.codes + self.borders[:-1])[known]
        ends = np.concatenate([[0], np.cumsum(known.sum(axis=1))])
        return csr_array((np.ones(len(places)), places, ends), shape=(len(self.codes), int(self.sizes.sum())))


@dataclass(frozen=True)
class LatentClasses:
    """A fitted mixture.

    Attributes:
        weights: mass of each class, shape (classes,).
        chances: per group, chance of each code in each class, shape (classes, codes).
        progress: what EM maximises after each step, in nats per person: the mean log-likelihood, and that of the
            prior.
    """

    weights: Floats
    chances: tuple[Floats, ...]
    progress: tuple[float, ...]

    def log_likelihood(self, coded: CodedPeople, *, least: float) -> Floats:
        """Return the log-likelihood of each person in nats, shape (n,).

        Args:
            coded: the people; a missing code counts as any.
            least: chance of a code that no class knows.
        """
        chances = np.concatenate(self.chances, axis=1)
        chances = np.where(chances.max(axis=0) > 0, chances, least)
        return _log_sum(_log_joint(coded.indicators(), self.weights, chances))


def fit_latent_classes(
    coded: CodedPeople,
    classes: int,
    rng: np.random.Generator,
    *,
    exact: tuple[int, ...] = (),
    start: LatentClasses | None = None,
) -> LatentClasses:
    """Fit latent classes by EM, from classes around people drawn at random.

    Args:
        coded: the people, one at least.
        classes: how many classes.
        rng: draws the people to start from.
        exact: groups that get no prior: a code that was not seen in a class has no mass there.
        start: so many classes of people coded in the same way, to begin with instead.
    """
    indicators, borders = coded.indicators(), coded.borders
    totals = np.asarray(indicators.sum(axis=0), dtype=np.float64)
    prior = np.zeros_like(totals)
    for group, (begin, end) in enumerate(pairwise(borders)):
        if group not in exact and totals[begin:end].sum() > 0:
            prior[begin:end] = PRIOR_PEOPLE * totals[begin:end] / totals[begin:end].sum()
    if start is None:
        # Everybody belongs to a class the more, the more codes they share with the person it is built around.
        centres = rng.choice(len(coded.codes), classes, replace=classes > len(coded.codes))
        joint = np.asarray((indicators @ indicators[centres].T).todense(), dtype=np.float64)
    else:
        joint = _log_joint(indicators, start.weights, np.concatenate(start.chances, axis=1))
    belonging = np.exp(joint - _log_sum(joint)[:, None])
    progress: list[float] = []
    while True:
        # M step: frequencies in each class, weighted by how much everybody belongs to it, and the prior's people.
        weights = belonging.mean(axis=0)
        chances = np.asarray(indicators.T @ belonging).T + prior
        for begin, end in pairwise(borders):
            held = chances[:, begin:end].sum(axis=1, keepdims=True)
            chances[:, begin:end] /= np.where(held > 0, held, 1.0)
        # E step: how much everybody belongs to each class, by Bayes.
        joint = _log_joint(indicators, weights, chances)
        likelihood = _log_sum(joint)
        belonging = np.exp(joint - likelihood[:, None])
        rewards = float((prior * np.log(np.where(prior > 0, chances, 1.0))).sum())
        progress.append((float(likelihood.sum()) + rewards) / len(likelihood))
        if len(progress) == MAX_STEPS or (len(progress) > 1 and progress[-1] - progress[-2] < LEAST_PROGRESS):
            break
    groups = tuple(chances[:, begin:end] for begin, end in pairwise(borders))
    return LatentClasses(weights, groups, tuple(progress))


def _log_joint(indicators: csr_array, weights: Floats, chances: Floats) -> Floats:
    """Return log pi_z + sum_g log P(x_g | z), shape (n, classes)."""
    tiny = np.finfo(np.float64).tiny
    logs = np.log(np.maximum(chances, tiny)).T
    return np.asarray(indicators @ logs + np.log(np.maximum(weights, tiny)))


def _log_sum(joint: Floats) -> Floats:
    """Return the logarithm of the sum of exponentials of each row, shape (n,)."""
    largest = joint.max(axis=1)
    return np.asarray(largest + np.log(np.exp(joint - largest[:, None]).sum(axis=1)))


# Which population stands behind a name: one place, so that every analysis means the same by it.


PopulationKind: TypeAlias = Literal["data", "uniform", "independent"]


def choose_population(
    kind: PopulationKind,
    source: People | Schema,
    protected: Sequence[str] | None = None,
    *,
    as_published: bool = False,
) -> ProductPopulation | MixturePopulation:
    """Return the simulated population of a name.

    Where the schema says who can exist, ``data`` and ``uniform`` hold only such people. Else, and ``as_published``,
    their attributes are independent.

    Args:
        kind: ``data`` (as in the data), ``uniform`` (over the domain) or ``independent`` (each attribute as in the
            data, independently of all others, whatever the rules say).
        source: the data, or the schema alone for ``uniform``.
        protected: attributes whose joint values are kept as strata; by default those that the schema marks.
        as_published: leave the rules out.

    Raises:
        OptionError: there is no data to go by, no one in it obeys the rules, or an attribute has no distribution.
    """
    schema = source.schema if isinstance(source, People) else source
    ruled = schema.constrains_people and not as_published and kind != "independent"
    if kind == "uniform":
        return uniform_mixture(schema, protected) if ruled else uniform_population(schema)
    if not isinstance(source, People):
        raise OptionError(f"population {kind!r} needs the data")
    return fit_mixture(source, protected) if ruled else product_of_marginals(source)
