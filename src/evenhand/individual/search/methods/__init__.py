"""The search methods: each is one function in a module of its own, called by the name it has in ``METHODS``."""

from evenhand.individual.search.methods.choice import METHODS, MethodOptions, SearchMethod, load_method

__all__ = ["METHODS", "MethodOptions", "SearchMethod", "load_method"]
