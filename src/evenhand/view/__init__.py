"""What people see: screens, pages, charts. The only place that knows colours and the words of the screen."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
