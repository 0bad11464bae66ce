"""Evenhand keeps automated decisions even-handed: test, certify, mitigate and enforce fairness of any model.

Three lines give a first result::

    import evenhand

    result = evenhand.audit(model, people, target="income", protected=["sex"])
    print(result)

The verbs ``audit``, ``audit_predictions``, ``audit_rankings``, ``audit_language_model``, ``compare``, ``certify``,
``search``, ``find_subgroups``, ``mitigate``, ``synthesize_shield`` and ``assess_generator`` accept fitted models and
data frames. The packages contain their building blocks.
"""

from __future__ import annotations

import lazy_loader

from evenhand.core import version

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
__version__ = version.read_version(__path__[0])
