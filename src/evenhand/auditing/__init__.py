"""Audits of models and of recorded decisions, their comparison, and conditions on their numbers."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
