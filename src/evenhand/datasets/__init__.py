"""Standard fairness data sets with their schemas, and readers for tables of people."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
