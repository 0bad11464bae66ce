"""Rules, dependencies and links that data suggest for a schema, each with its evidence, for a person to review."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
