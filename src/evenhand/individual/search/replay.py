"""Ask another model about profiles that were found before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from evenhand import models
from evenhand.schema import Schema, encode


def replay(
    model: Any,
    schema: Schema | Mapping[str, Any],
    profiles: Sequence[Mapping[str, Any]],
    protected: Sequence[str],
    *,
    trust: bool = False,
) -> list[dict[str, str]]:
    """What a model decides about profiles under every protected assignment.

    Args:
        model: anything that ``evenhand.models.load`` takes.
        schema: what the columns mean, as a ``Schema`` or as plain data.
        profiles: one row per profile: unprotected attribute -> value, as in the data.
        protected: attributes whose joint assignments are compared.
        trust: allow model files that can run code when loaded.

    Returns:
        For each profile: assignment in words, like ``"sex=Female, race=Black"`` -> label.

    Raises:
        EvenhandError: a profile is outside the schema's domain, or the model cannot be asked.
    """
    import pandas as pd

    if not isinstance(schema, Schema):
        schema = Schema.parse(dict(schema))
    assignments = schema.assignments(protected)
    columns = schema.positions(protected)
    rest = [name for name in schema.names if name not in protected]
    unprotected = schema.model_copy(update={"attributes": tuple(schema[name] for name in rest)})
    people = encode(Schema.parse(unprotected.model_dump()), pd.DataFrame(list(profiles)), where="profiles")
    rows = np.empty((len(profiles) * len(assignments), len(schema.attributes)))
    rows[:, schema.positions(rest)] = np.repeat(people.individuals, len(assignments), axis=0)
    rows[:, columns] = np.tile(assignments, (len(profiles), 1))
    scorer = models.load(model, schema, trust=trust)
    labels = models.predict(scorer, rows).reshape(len(profiles), len(assignments))
    words = [
        ", ".join(f"{name}={schema[name].text(entry)}" for name, entry in zip(protected, assignment, strict=True))
        for assignment in assignments
    ]
    return [{word: str(scorer.classes[label]) for word, label in zip(words, row, strict=True)} for row in labels]
