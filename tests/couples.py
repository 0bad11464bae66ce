"""Schema with rules and a link, for tests of plausible counterparts: the counterpart of a husband is a wife."""

from __future__ import annotations

import itertools

import numpy as np

from evenhand.schema import Schema

SCHEMA = Schema.parse(
    {
        "target": {"name": "hired", "favourable": "yes", "values": ["no", "yes"]},
        "attributes": [
            {"name": "grade", "kind": "integer", "lower": 0, "upper": 3},
            {"name": "sex", "kind": "categorical", "values": ["f", "m"], "protected": True},
            {
                "name": "role",
                "kind": "categorical",
                "values": ["child", "husband", "wife", "widow"],
                "encoding": "one-hot",
            },
            {"name": "origin", "kind": "categorical", "values": ["a", "b", "c"], "protected": True},
        ],
        "rules": ["role == husband -> sex == m", "role in {wife, widow} -> sex == f", "role == husband -> grade > 0"],
        "links": [{"when": "sex", "move": "role", "rows": [{"m": "husband", "f": "wife"}]}],
    }
)
CHILD, HUSBAND, WIFE, WIDOW = range(4)
EVERYBODY = np.array(list(itertools.product(range(4), range(2), range(4), range(3))), dtype=float)


def possible(person: np.ndarray) -> bool:
    grade, sex, role, _ = person.astype(int).tolist()
    if role == HUSBAND and (sex == 0 or grade == 0):
        return False
    return not (role in (WIFE, WIDOW) and sex == 1)
