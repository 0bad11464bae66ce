"""Conditional fairness of generative AI: which values must appear among the items asked for, and how it is kept."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
