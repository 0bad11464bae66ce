"""The field's data sets by name, each with its schema, and reading tables of people in general."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
