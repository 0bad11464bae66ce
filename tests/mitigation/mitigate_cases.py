"""Small people and models whose every decision is known."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from evenhand.schema import People, Schema
from support import small_schema

SCHEMA = small_schema(
    target="credit",
    job="none NA clerk",
    owner=[True, False],
    rooms=(1, 9),
    income=(0.0, 1.23456789),
    age={"kind": "ordinal", "edges": [18, 30, 50, 90]},
    sex="female male *",
    race=[1, 2, 3],
).with_protected(["sex", "race"])


@dataclass(frozen=True)
class Decider:
    """A model that is a function of individuals: the score of the favourable label."""

    schema: Schema
    score: Callable[[Any], Any]
    classes: tuple[Any, ...] = ("no", "yes")
    favourable: int = 1
    label_only: bool = False
    name: str = "a decider"

    def scores(self, individuals):
        yes = np.asarray(self.score(individuals), dtype=np.float64)
        return np.stack([1 - yes, yes], axis=1)

    def predict(self, individuals):
        return (np.asarray(self.score(individuals)) > 0.5).astype(np.int64)


def population(schema, n, seed, labels=None):
    """People drawn uniformly, labelled by a function of the individuals."""
    rng = np.random.default_rng(seed)
    rows = np.stack(
        [
            rng.uniform(one.first, one.last, n) if one.kind == "real" else rng.integers(one.first, one.last + 1, n)
            for one in schema.attributes
        ],
        axis=1,
    ).astype(np.float64)
    found = None if labels is None else np.asarray(labels(rows), dtype=np.int64)
    return People(schema, rows, found, np.arange(n), None)
