"""Small worlds for tests: people with known attributes, and models that are a line of code."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from evenhand.schema import Schema, encode
from support import small_schema

CLASSES = {"kind": "ordinal", "values": ["low", "middle", "high"], "protected": True}
SCHEMA = small_schema(
    target="loan", sex="f m", race="a b c", age=(18, 77), income=(0, 9), debt=(0.0, 1.0), job="x y z"
).with_protected(["sex", "race", "age"])


@dataclass
class Decider:
    """A model from a function of rows to "favourable or not"; remembers what it was asked."""

    decide: Callable[[NDArray[np.float64]], NDArray[np.bool_]]
    schema: Schema = SCHEMA
    name: str = "decider"
    label_only: bool = True
    favourable: int = 1
    asked: list[NDArray[np.float64]] = field(default_factory=list)

    @property
    def classes(self):
        return self.schema.target.values

    def predict(self, individuals):
        self.asked.append(individuals.copy())
        return self.decide(individuals).astype(np.int64)

    def scores(self, individuals):
        return np.eye(2)[self.predict(individuals)]

    @property
    def questions(self):
        return np.concatenate(self.asked) if self.asked else np.empty((0, len(self.schema.names)))


def people(n, seed=0, *, schema=SCHEMA, truth=False):
    """People whose attributes are independent and uniform."""
    rng = np.random.default_rng(seed)
    columns = {}
    for attribute in schema.attributes:
        if attribute.values is not None:
            columns[attribute.name] = rng.choice(np.array(attribute.values), n)
        elif attribute.kind == "integer":
            columns[attribute.name] = rng.integers(int(attribute.first), int(attribute.last) + 1, n)
        else:
            columns[attribute.name] = attribute.first + (attribute.last - attribute.first) * rng.random(n)
    if truth:
        columns[schema.target.name] = rng.choice(["no", "yes"], n)
    return encode(schema, pd.DataFrame(columns))
