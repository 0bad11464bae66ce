"""What can be asked of a model, and how any model becomes something that can be asked."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
