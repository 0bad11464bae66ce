"""Witness of a refutation as a model."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from evenhand.core.typing import Floats, Integers
from evenhand.errors import OptionError
from evenhand.mitigation.methods.saving import SaveScorer
from evenhand.mitigation.refutation.features import holds
from evenhand.mitigation.refutation.result import RefutationResult
from evenhand.mitigation.refutation.trees import TreeRule, apply_tree, read_tree
from evenhand.schema.attribute import Value
from evenhand.schema.constraint import Constraint, parse_constraint
from evenhand.schema.schema import Schema


@dataclass(frozen=True, eq=False)
class RuleModel:
    """Rule on binary features as a scorer of two labels.

    Attributes:
        schema, classes, favourable, name: As for any scorer.
        features: Conditions.
        weights, threshold: Weights and threshold, or None for a tree.
        tree: Tree, or None.
    """

    schema: Schema
    classes: tuple[Value, ...]
    favourable: int
    name: str
    features: tuple[Constraint, ...]
    weights: tuple[float, ...] | None
    threshold: float
    tree: TreeRule | None
    label_only: bool = True

    def predict(self, individuals: Floats) -> Integers:
        """Predict the label of each individual, shape (n,)."""
        bits = np.stack([holds(condition, individuals) for condition in self.features], axis=1).astype(np.int64)
        if self.weights is not None:
            accepted = bits @ np.array(self.weights) >= self.threshold - 1e-9
        else:
            assert self.tree is not None, "a rule has weights or a tree"
            accepted = apply_tree(self.tree, bits)
        return np.where(accepted, self.favourable, 1 - self.favourable).astype(np.int64)

    def scores(self, individuals: Floats) -> Floats:
        """Return 1 for the predicted label and 0 for the other, shape (n, 2)."""
        return np.asarray(np.eye(2)[self.predict(individuals)])


def save_witness(result: RefutationResult, schema: Schema, path: Path) -> tuple[Path, ...]:
    """Write the witness of a refutation as a model, to a .joblib or .pkl file.

    Raises:
        OptionError: There is no witness, or it consists of decisions by cell.
    """
    witness = result.witness
    if witness is None or (witness.weights is None and witness.tree is None):
        raise OptionError("there is no rule to write", location=str(path))
    classes = tuple(schema.target.values or ())
    features = tuple(parse_constraint(condition, schema.attributes) for condition in result.features.values())
    model = RuleModel(
        schema,
        classes,
        [str(label) for label in classes].index(result.favourable),
        f"{result.family} rule",
        features,
        witness.weights,
        witness.threshold or 0.0,
        None if witness.tree is None else read_tree(witness.tree),
    )
    used = {column for condition in features for column in condition.columns}
    return SaveScorer(model, tuple(name for at, name in enumerate(schema.names) if at not in used))(path)
