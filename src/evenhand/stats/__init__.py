"""Statistical methods: quantities with their kind of evidence, confidence intervals and tests."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
