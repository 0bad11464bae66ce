"""Shields and the guard of generators as a service: one ASGI application, its store and its log."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
