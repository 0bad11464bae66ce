"""Mitigate what was found: retrain on it, or train fairly, and prove the difference."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
