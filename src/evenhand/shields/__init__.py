"""Fairness shields: guaranteed group fairness over every run of decisions, at minimum cost."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
