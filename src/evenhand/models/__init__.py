"""What can be asked of a model, and how any model becomes something that can be asked."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from evenhand.models.additive import AdditiveNetwork, Affine, Line, Part, Steps, Table, from_dense
from evenhand.models.load import load
from evenhand.models.scorer import Scorer, checked_scores, favourable_score, predict
from evenhand.models.white_box import white_box

if TYPE_CHECKING:
    from evenhand.models.trees import TreeEnsemble

__all__ = [
    "AdditiveNetwork",
    "Affine",
    "Line",
    "Part",
    "Scorer",
    "Steps",
    "Table",
    "TreeEnsemble",
    "checked_scores",
    "favourable_score",
    "from_dense",
    "load",
    "predict",
    "white_box",
]


def __getattr__(name: str) -> Any:
    if name == "TreeEnsemble":  # brings compiled kernels
        return importlib.import_module("evenhand.models.trees").TreeEnsemble
    raise AttributeError(f"module 'evenhand.models' has no attribute {name!r}")
