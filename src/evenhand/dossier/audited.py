"""Dossier of the audited people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from evenhand.core.typing import Booleans
from evenhand.dossier.analysis import compile_dossier
from evenhand.dossier.config import DossierConfig
from evenhand.dossier.result import DataFile, DossierName, DossierResult
from evenhand.errors import OptionError
from evenhand.schema.attribute import Attribute
from evenhand.schema.people import People
from evenhand.schema.table import word_of

OUTCOME = "favourable decision"
"""Name of the column of decisions. A suffix is added if the data already have a column with this name."""


def compile_audited(
    people: People,
    selected: Booleans,
    frame: Any,
    *,
    protected: Sequence[str],
    dossiers: Sequence[DossierName] = ("ll144",),
    data_name: str = "data",
) -> DossierResult:
    """Compile a dossier of the audited people. People who are excluded from the audit have no outcome.

    The categories are those of the protected attributes in the data. Values that the schema declares as unknown
    belong to no category. Fields that a person must fill in are left open.

    Args:
        people: People of the audit.
        selected: Whether each person gets the favourable decision, shape (n,).
        frame: Data as read, including excluded rows. ``people.rows`` are rows of it.
        protected: Attributes of the tables. Those without categories are omitted.
        dossiers: Documents to compile.
        data_name: Name of the data.

    Raises:
        OptionError: No protected attribute has categories.
        DossierError: The people or the outcomes do not permit a dossier; ``code`` states why.
    """
    import narwhals as nw
    import pandas as pd

    schema = people.schema
    attributes = [schema[name] for name in protected if schema[name].values is not None]
    if not attributes:
        raise OptionError(
            f"a dossier requires a protected attribute with categories, got {', '.join(protected)}",
            hint="compile it from data with categories: evenhand dossier DATA",
        )
    table = nw.from_native(frame, eager_only=True)
    columns: dict[str, Any] = {attribute.name: table.get_column(attribute.name).to_list() for attribute in attributes}
    column = OUTCOME
    while column in columns:
        column += " made"
    outcome = np.full(len(table), "", dtype=object)
    outcome[people.rows] = np.where(selected, "1", "0")
    columns[column] = outcome
    unknown = dict.fromkeys(
        ["", "Unknown", *(str(word) for attribute in attributes for word in attribute.unknown or ())]
    )
    config = DossierConfig.model_validate(
        {
            "outcome": {"column": column},
            "attributes": {
                attribute.name: {
                    "column": attribute.name,
                    "categories": _list_categories(attribute, columns[attribute.name], unknown),
                }
                for attribute in attributes
            },
            "unknown": list(unknown),
        }
    )
    return compile_dossier(pd.DataFrame(columns), config, dossiers=dossiers, data=DataFile(name=data_name))


def _list_categories(attribute: Attribute, cells: Iterable[Any], unknown: Iterable[str]) -> list[str]:
    """List the categories of an attribute that occur in the given cells, sorted."""
    words = {word_of(cell) for cell in cells}
    return sorted({word_of(value) for value in attribute.values or ()} & words - {*unknown})
