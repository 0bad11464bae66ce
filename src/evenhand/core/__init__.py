"""Configuration, results, documents, expressions, HTTP and files: the base of all analyses."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
