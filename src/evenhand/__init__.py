"""Evenhand keeps automated decisions even-handed: test, certify, mitigate and enforce fairness of any model.

Three lines give a first result::

    import evenhand

    result = evenhand.audit(model, people, target="income", protected=["sex"])
    print(result)

The verbs ``audit``, ``audit_predictions``, ``audit_rankings``, ``audit_language_model``, ``compare``, ``certify``,
``search``, ``find_subgroups``, ``mitigate``, ``synthesize_shield`` and ``assess_generator`` take what users of
scikit-learn and fairlearn hold; the packages hold what they are made of.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from evenhand import doors, version

if TYPE_CHECKING:
    from evenhand import (
        auditing,
        certification,
        checker,
        datasets,
        dossier,
        errors,
        genai,
        groups,
        individual,
        llm,
        metrics,
        mitigation,
        models,
        monitoring,
        population,
        proposals,
        schema,
        service,
        shields,
        stats,
        subgroups,
        testing,
        view,
    )
    from evenhand.errors import EvenhandError
    from evenhand.schema import Attribute, Schema, Target
    from evenhand.verbs import (
        assess_generator,
        audit,
        audit_language_model,
        audit_predictions,
        audit_rankings,
        certify,
        compare,
        find_subgroups,
        mitigate,
        search,
        synthesize_shield,
    )

__version__ = version.read_version(__path__[0])

__all__ = [
    "Attribute",
    "EvenhandError",
    "Schema",
    "Target",
    "__version__",
    "assess_generator",
    "audit",
    "audit_language_model",
    "audit_predictions",
    "audit_rankings",
    "auditing",
    "certification",
    "certify",
    "checker",
    "compare",
    "datasets",
    "dossier",
    "errors",
    "find_subgroups",
    "genai",
    "groups",
    "individual",
    "llm",
    "metrics",
    "mitigate",
    "mitigation",
    "models",
    "monitoring",
    "population",
    "proposals",
    "schema",
    "search",
    "service",
    "shields",
    "stats",
    "subgroups",
    "synthesize_shield",
    "testing",
    "view",
]

__getattr__, __dir__ = doors.open_when_used(__name__)
