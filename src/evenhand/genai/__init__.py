"""Conditional fairness of generative AI: values that must appear among the requested items, and their enforcement."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
