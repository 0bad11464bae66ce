"""How individuals are distributed: uniformly, attribute by attribute, as the data, or as people who can exist."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
