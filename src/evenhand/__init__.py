"""Evenhand keeps automated decisions even-handed: test, certify, mitigate and enforce fairness of any model.

Three lines give a first result::

    import evenhand

    data = evenhand.datasets.load("adult")
    print(evenhand.audit.run(model, data.frame, schema=data.schema))
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from evenhand import (
        audit,
        certify,
        checker,
        datasets,
        errors,
        genai,
        groups,
        individual,
        mitigate,
        models,
        population,
        report,
        reproduce,
        schema,
        service,
        shield,
        stats,
        subgroup,
        texts,
    )
    from evenhand.errors import EvenhandError
    from evenhand.schema import Attribute, Schema, Target

__version__ = "0.1.0"

# Parts are imported when first used: `import evenhand` must not pay for scikit-learn or pandas.
_PARTS = frozenset(
    {"audit", "certify", "checker", "datasets", "errors", "genai", "groups", "individual", "mitigate", "models",
     "population", "report", "reproduce", "schema", "service", "shield", "stats", "subgroup", "texts"}
)  # fmt: skip
_NAMES = {
    "Attribute": "evenhand.schema",
    "EvenhandError": "evenhand.errors",
    "Schema": "evenhand.schema",
    "Target": "evenhand.schema",
}

__all__ = [
    "Attribute",
    "EvenhandError",
    "Schema",
    "Target",
    "__version__",
    "audit",
    "certify",
    "checker",
    "datasets",
    "errors",
    "genai",
    "groups",
    "individual",
    "mitigate",
    "models",
    "population",
    "report",
    "reproduce",
    "schema",
    "service",
    "shield",
    "stats",
    "subgroup",
    "texts",
]


def __getattr__(name: str) -> Any:
    if name in _PARTS:
        return importlib.import_module(f"evenhand.{name}")
    if name in _NAMES:
        return getattr(importlib.import_module(_NAMES[name]), name)
    raise AttributeError(f"module 'evenhand' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
