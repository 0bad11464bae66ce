"""Populations: uniform, with independent attributes, as in the data, or dependency-aware."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
