"""Rules, dependencies and links that data suggest for a schema, with their evidence, for review by a person."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
