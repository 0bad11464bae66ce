"""Which population stands behind a name: one place, so that every analysis means the same by it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

from evenhand.errors import OptionError
from evenhand.population.independent import ProductPopulation, product_of_marginals, uniform_population
from evenhand.population.mixture import MixturePopulation, fit_mixture, uniform_mixture
from evenhand.schema import People, Schema

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
