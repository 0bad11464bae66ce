"""For pipelines of scikit-learn: gaps between groups as scorers, and a threshold that keeps a gap below a bound."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
