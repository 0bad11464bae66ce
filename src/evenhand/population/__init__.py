"""How individuals are distributed: uniformly, attribute by attribute, as the data, or as people who can exist."""

from evenhand.population.independent import (
    UNIFORM_POPULATION,
    DataPopulation,
    Marginal,
    Population,
    ProductPopulation,
    UniformMarginal,
    carry_rows,
    normalize_masses,
    product_of_marginals,
    uniform_population,
)
from evenhand.population.mixture import (
    JointDistribution,
    MixturePopulation,
    PopulationKind,
    choose_population,
    fit_mixture,
    uniform_mixture,
)

__all__ = [
    "UNIFORM_POPULATION",
    "DataPopulation",
    "JointDistribution",
    "Marginal",
    "MixturePopulation",
    "Population",
    "PopulationKind",
    "ProductPopulation",
    "UniformMarginal",
    "carry_rows",
    "choose_population",
    "fit_mixture",
    "normalize_masses",
    "product_of_marginals",
    "uniform_mixture",
    "uniform_population",
]
