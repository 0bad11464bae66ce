"""Mitigation of findings: retraining, fair training, and the search for or refutation of alternatives."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
