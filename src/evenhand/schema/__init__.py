"""Data schema: attributes, domains, encodings, who is protected, what is decided."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
