"""The published perturbation of TestSGD: a person in the data with one attribute moved by the smallest step."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from evenhand.core.typing import Floats
from evenhand.schema.schema import Schema

WHOLE_STEP = 1.0
"""How far an integer moves, and a category by its position in the schema (the published default)."""

DECIMAL_STEP = 0.01
"""How far a real number moves, in the attribute's own unit (the published default)."""


class Perturbation:
    """Moves one attribute that is not sensitive, drawn uniformly, one step up or down with even chances.

    A value that would leave its domain stays, and so does a missing one. Sensitive attributes never move, so a nudged
    person belongs to the same groups. With nothing else to move, everybody stays as they are.

    Source: Zhang and others, "TestSGD: interpretable testing of neural networks against subtle group discrimination"
    (TOSEM 2023), section 4.3.
    """

    def __init__(self, schema: Schema, sensitive: Collection[str]) -> None:
        """What may move.

        Args:
            schema: what the columns of an individual are.
            sensitive: attributes that stay.
        """
        movable = [i for i, attribute in enumerate(schema.attributes) if attribute.name not in sensitive]
        moving = [schema.attributes[i] for i in movable]
        self.columns = np.array(movable, dtype=np.int64)
        self.steps = np.array([DECIMAL_STEP if attribute.kind == "real" else WHOLE_STEP for attribute in moving])
        self.first = np.array([attribute.first for attribute in moving])
        self.last = np.array([attribute.last for attribute in moving])

    def __call__(self, individuals: Floats, rng: np.random.Generator) -> Floats:
        """Each of the individuals (n, attributes) nudged once, as new rows."""
        nudged = individuals.copy()
        if len(self.columns):
            which = rng.integers(0, len(self.columns), size=len(nudged))
            direction = rng.choice(np.array([-1.0, 1.0]), size=len(nudged))
            at = np.arange(len(nudged)), self.columns[which]
            nudged[at] = np.clip(nudged[at] + direction * self.steps[which], self.first[which], self.last[which])
        return nudged
