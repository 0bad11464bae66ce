"""The main job: everything that can be said about one model and the people it decides about."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
