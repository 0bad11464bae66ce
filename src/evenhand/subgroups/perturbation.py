"""Published perturbation of TestSGD: one attribute of a person moved by the smallest step."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from evenhand.core.typing import Floats
from evenhand.schema.schema import Schema

WHOLE_STEP = 1.0
"""Step of an integer, and of a category by its position in the schema (published default)."""

DECIMAL_STEP = 0.01
"""Step of a real number in its own unit (published default)."""


class Perturbation:
    """Move one random attribute that is not sensitive by one step, up or down with equal probability.

    Values are clipped to their domain, and missing values stay missing. Sensitive attributes are never changed, so that
    a perturbed person belongs to the same groups. If all attributes are sensitive, people are not perturbed.

    Source: Zhang et al., "TestSGD: interpretable testing of neural networks against subtle group discrimination" (TOSEM
    2023), section 4.3.

    Args:
        schema: Columns of an individual.
        sensitive: Attributes that are never changed.
    """

    def __init__(self, schema: Schema, sensitive: Collection[str]) -> None:
        columns = [i for i, attribute in enumerate(schema.attributes) if attribute.name not in sensitive]
        attributes = [schema.attributes[i] for i in columns]
        self.columns = np.array(columns, dtype=np.int64)
        self.steps = np.array([DECIMAL_STEP if attribute.kind == "real" else WHOLE_STEP for attribute in attributes])
        self.first = np.array([attribute.first for attribute in attributes])
        self.last = np.array([attribute.last for attribute in attributes])

    def __call__(self, individuals: Floats, rng: np.random.Generator) -> Floats:
        """Perturb each individual once, (n, attributes)."""
        perturbed = individuals.copy()
        if len(self.columns):
            moved = rng.integers(0, len(self.columns), size=len(perturbed))
            direction = rng.choice(np.array([-1.0, 1.0]), size=len(perturbed))
            entries = np.arange(len(perturbed)), self.columns[moved]
            steps = direction * self.steps[moved]
            perturbed[entries] = np.clip(perturbed[entries] + steps, self.first[moved], self.last[moved])
        return perturbed
