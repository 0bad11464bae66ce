"""Language models that decide about people: what they answer about each group, beyond their own noise."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
