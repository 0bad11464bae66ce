"""The shape that every engine has: configuration, expressions, result; below every engine."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
