"""Schema with rules and a link, for tests of plausible counterparts: the counterpart of a husband is a wife."""

import itertools

import numpy as np

from support import small_schema

SCHEMA = small_schema(
    grade=(0, 3),
    sex="f m *",
    role="child husband wife widow",
    origin="a b c *",
    rules=["role == husband -> sex == m", "role in {wife, widow} -> sex == f", "role == husband -> grade > 0"],
    links=[{"when": "sex", "move": "role", "rows": [{"m": "husband", "f": "wife"}]}],
).with_encodings({"role": "one-hot"})

CHILD, HUSBAND, WIFE, WIDOW = range(4)
EVERYBODY = np.array(list(itertools.product(range(4), range(2), range(4), range(3))), dtype=float)


def possible(person: np.ndarray) -> bool:
    grade, sex, role, _ = person.astype(int).tolist()
    if role == HUSBAND and (sex == 0 or grade == 0):
        return False
    return not (role in (WIFE, WIDOW) and sex == 1)
