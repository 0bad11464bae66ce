"""Certification: for which share of everybody a network provably decides the same, whatever is protected."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
