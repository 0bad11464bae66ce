"""Search for individual discriminatory instances: profiles whose decision flips with a protected attribute."""

from evenhand.individual.search.methods import METHODS, Options
from evenhand.individual.search.replay import replay
from evenhand.individual.search.result import Example, SearchResult, ViolationRate
from evenhand.individual.search.run import run
from evenhand.individual.search.save import save_table, save_tests
from evenhand.individual.search.space import Space

__all__ = [
    "METHODS",
    "Example",
    "Options",
    "SearchResult",
    "Space",
    "ViolationRate",
    "replay",
    "run",
    "save_table",
    "save_tests",
]
