"""The search methods: each is one function in a module of its own, called by the name it has in ``METHODS``."""

from evenhand.individual.search.methods.choice import METHODS, Options, Search, method

__all__ = ["METHODS", "Options", "Search", "method"]
