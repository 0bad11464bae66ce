"""Individuals whose decision flips with a protected attribute: how many there are, and who."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
