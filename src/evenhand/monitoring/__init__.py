"""Monitors of decisions as they are made, with intervals and alarms that are valid at any time."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
