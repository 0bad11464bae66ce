"""The inside of a model, where it has one that certification can use."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np

from evenhand.errors import ModelError, NotAdditiveError
from evenhand.models.additive import AdditiveNetwork
from evenhand.models.estimator import Estimator
from evenhand.models.onnx_runtime import OnnxModel
from evenhand.models.scorer import Scorer
from evenhand.models.torch_module import TorchModule
from evenhand.population import uniform

if TYPE_CHECKING:
    from evenhand.models.trees import TreeEnsemble

COMPARED = 1000
"""People drawn from the domain on whom the inside and the outside of a model are compared."""


def white_box(scorer: Scorer) -> AdditiveNetwork | TreeEnsemble:
    """A model as an additive network, or as decision trees: what certification needs.

    Args:
        scorer: any model. It stays what it is; the white box answers for it.

    Raises:
        NotAdditiveError: it cannot be written so; the message says why, and what that rules out.
        MissingExtraError: reading it needs a library that is not installed.
    """
    if isinstance(scorer, AdditiveNetwork) or type(scorer).__name__ == "TreeEnsemble":
        return scorer  # type: ignore[return-value]
    try:
        network = _read(scorer)
        if network.classes != scorer.classes or network.favourable != scorer.favourable:
            raise NotAdditiveError(f"its labels read {network.classes} inside and {scorer.classes} outside")
        _check_same_decisions(network, scorer)
    except ModelError as error:
        raise NotAdditiveError(
            f"certification needs the inside of the model: {error.what}; everything else still runs",
            where=scorer.name,
            mend=None if isinstance(error, NotAdditiveError) else error.mend,
        ) from None
    return dataclasses.replace(network, name=scorer.name)


def _check_same_decisions(network: AdditiveNetwork | TreeEnsemble, scorer: Scorer) -> None:
    """Make sure that the model was not misread; rounding in single precision may turn a close decision."""
    people = uniform(scorer.schema).sample(COMPARED, np.random.default_rng(0))
    differ = int((network.predict(people) != scorer.predict(people)).sum())
    if differ > COMPARED // 100:
        raise NotAdditiveError(
            f"read from the inside, it decides {differ} of {COMPARED} people differently than when asked"
        )


def _read(scorer: Scorer) -> AdditiveNetwork | TreeEnsemble:
    if isinstance(scorer, Estimator):
        from evenhand.models.tree_pipeline import from_tree_pipeline

        trees = from_tree_pipeline(scorer)
        if trees is not None:
            return trees
        from evenhand.models.sklearn_tables import from_sklearn

        return from_sklearn(scorer.model, scorer.schema, like=scorer.like, name=scorer.name)
    if isinstance(scorer, OnnxModel):
        from evenhand.models.onnx_graph import from_onnx

        return from_onnx(scorer.source, scorer.schema)
    if isinstance(scorer, TorchModule):
        from evenhand.models.torch_graph import from_torch

        return from_torch(scorer.source, scorer.schema, name=scorer.name)
    kind = type(scorer).__name__
    raise NotAdditiveError(f"this one only answers questions ({kind})")
