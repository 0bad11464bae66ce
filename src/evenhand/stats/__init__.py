"""Every statistical formula in one place: numbers that say what they are, and their intervals."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
