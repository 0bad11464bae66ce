"""A dossier of the people that an audit is about, so that both say the same of them."""

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
from evenhand.schema.words import word_of

OUTCOME = "favourable decision"
"""The column of decisions, beside those of the people; its name is made longer where they have such a column."""


def compile_audited(
    people: People,
    selected: Booleans,
    frame: Any,
    *,
    protected: Sequence[str],
    dossiers: Sequence[DossierName] = ("ll144",),
    data_name: str = "data",
) -> DossierResult:
    """Return a dossier of the people of an audit, those included whom it left out: they have no outcome.

    Categories are those of the protected attributes as they stand in the data; what the schema declares as unknown is
    unknown. What only people can say is open.

    Args:
        people: whom the audit was about.
        selected: who of them is given the favourable decision, shape (n,).
        frame: the data as they were read, with those whom the audit left out; ``people.rows`` are rows of it.
        protected: attributes that tables are made by; those without categories are left out.
        dossiers: which documents are wanted.
        data_name: what the data is called.

    Raises:
        OptionError: no protected attribute has categories.
        DossierError: people or outcomes do not allow it; ``code`` says why.
    """
    import narwhals as nw
    import pandas as pd

    schema = people.schema
    attributes = [schema[name] for name in protected if schema[name].values is not None]
    if not attributes:
        raise OptionError(
            f"a dossier needs a protected attribute with categories, got {', '.join(protected)}",
            hint="write it from data with categories: evenhand dossier DATA",
        )
    given = nw.from_native(frame, eager_only=True)
    columns: dict[str, Any] = {one.name: given.get_column(one.name).to_list() for one in attributes}
    column = OUTCOME
    while column in columns:
        column += " made"
    outcome = np.full(len(given), "", dtype=object)
    outcome[people.rows] = np.where(selected, "1", "0")
    columns[column] = outcome
    unknown = dict.fromkeys(["", "Unknown", *(str(word) for one in attributes for word in one.unknown or ())])
    config = DossierConfig.model_validate(
        {
            "outcome": {"column": column},
            "attributes": {
                one.name: {"column": one.name, "categories": _list_categories(one, columns[one.name], unknown)}
                for one in attributes
            },
            "unknown": list(unknown),
        }
    )
    return compile_dossier(pd.DataFrame(columns), config, dossiers=dossiers, data=DataFile(name=data_name))


def _list_categories(attribute: Attribute, cells: Iterable[Any], unknown: Iterable[str]) -> list[str]:
    """Return the categories of an attribute that occur among cells, sorted."""
    words = {word_of(cell) for cell in cells}
    return sorted({word_of(value) for value in attribute.values or ()} & words - {*unknown})
