"""Search for individual discriminatory instances: people and texts decided differently for what is protected alone."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
