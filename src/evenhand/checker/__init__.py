"""Independent checker of certificate files, in exact arithmetic and without code shared with the prover."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
