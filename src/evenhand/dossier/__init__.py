"""Dossiers for auditors and regulators: every number by the rule's own formula, from people, outcomes and results."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
