"""Search for discriminated subgroups: all rule sets over sensitive attributes, with statistics that hold."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
