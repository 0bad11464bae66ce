"""Performance and group metrics: selection rates, error rates and calibration of every group, and the gaps."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
