from .independent import DataPopulation, ProductPopulation, product_of_marginals, uniform_population
from .mixture import JointDistribution, MixturePopulation, choose_population, fit_mixture

__all__ = [
    "DataPopulation",
    "JointDistribution",
    "MixturePopulation",
    "ProductPopulation",
    "choose_population",
    "fit_mixture",
    "product_of_marginals",
    "uniform_population",
]
