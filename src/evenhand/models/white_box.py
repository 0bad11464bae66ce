"""White boxes: models in the forms required for certification."""

from __future__ import annotations

import dataclasses
import inspect
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from evenhand.core.http import redact_url
from evenhand.errors import ModelError, NotAdditiveError
from evenhand.models.additive.network import AdditiveNetwork
from evenhand.models.blackbox.base import LoadOptions, LoadRequest
from evenhand.models.blackbox.estimator import EstimatorModel, NumberModel
from evenhand.models.blackbox.onnx_model import OnnxModel
from evenhand.models.blackbox.torch_module import TorchModule
from evenhand.models.importing import import_object
from evenhand.models.load import OBJECT_NAME, is_path, is_url, open_model
from evenhand.models.scorer import Regressor, Scorer, find_caution, unwrap_scorer
from evenhand.population.independent import uniform_population
from evenhand.schema.schema import Schema

if TYPE_CHECKING:
    from evenhand.models.trees.ensemble import TreeEnsemble

COMPARED_PEOPLE = 1000
"""Number of individuals drawn from the domain to compare a white box with its model."""


def load_white_box(source: Any, schema: Schema, **options: Unpack[LoadOptions]) -> AdditiveNetwork | TreeEnsemble:
    """Load a model as a white box. Endpoints and functions are rejected before any query.

    Raises:
        NotAdditiveError: as ``extract_white_box``.
        EvenhandError: as ``load_model``.
    """
    refuse_opaque(source)
    if not schema.target.is_number:
        schema.target.require_labels("this analysis")
    return extract_white_box(open_model(source, LoadRequest(schema, **options)))


def refuse_opaque(source: Any) -> None:
    """Reject endpoints and functions with a NotAdditiveError, without a query that may cost money."""
    name = str(source if isinstance(source, str) else getattr(source, "__name__", "model"))
    if isinstance(source, str) and is_url(source):
        name, kind = redact_url(source), "an HTTP endpoint"
    else:
        kind = "a function"
        if isinstance(source, str) and not is_path(source) and OBJECT_NAME.fullmatch(source):
            source = import_object(source)
        if not inspect.isroutine(source):
            return
    raise NotAdditiveError(
        f"{kind} cannot be certified, since its computation is unknown",
        location=name,
        hint="give the model's file, or use evenhand audit or evenhand search",
    )


def extract_white_box(scorer: Scorer | Regressor) -> AdditiveNetwork | TreeEnsemble:
    """Convert a model to an additive network or decision trees for certification.

    Args:
        scorer: Classifier or regressor; it is not changed.

    Raises:
        NotAdditiveError: the model cannot be converted; the message names the reason and the consequence.
        MissingExtraError: a library for reading it is not installed.
    """
    if getattr(scorer, "is_white_box", False):
        return scorer  # type: ignore[return-value]  # identified by the attribute: the class of trees loads Numba
    try:
        white_box = _read_white_box(scorer)
        if isinstance(scorer, Scorer):
            if (white_box.classes, white_box.favourable) != (scorer.classes, scorer.favourable):
                raise NotAdditiveError(
                    f"the white box has the labels {white_box.classes}, but the model has {scorer.classes}"
                )
            # Close decisions may differ by single-precision rounding.
            people = uniform_population(scorer.schema).sample(COMPARED_PEOPLE, np.random.default_rng(0))
            different = int((white_box.predict(people) != scorer.predict(people)).sum())
            if different > COMPARED_PEOPLE // 100:
                raise NotAdditiveError(
                    f"the white box and the model decide differently for {different} of {COMPARED_PEOPLE} individuals"
                )
    except ModelError as error:
        raise NotAdditiveError(
            f"the model cannot be certified: {error.message}; all other analyses still run",
            location=scorer.name,
            hint=None if isinstance(error, NotAdditiveError) else error.hint,
        ) from None
    return dataclasses.replace(white_box, name=scorer.name, caution=find_caution(scorer))


def _read_white_box(scorer: Scorer | Regressor) -> AdditiveNetwork | TreeEnsemble:
    if isinstance(scorer, EstimatorModel | NumberModel):
        from evenhand.models.readers.estimators import read_estimator

        return read_estimator(scorer)
    if isinstance(scorer, OnnxModel | TorchModule):
        kind = None if scorer.reading is None else scorer.reading.kind
        if isinstance(scorer, OnnxModel):
            from evenhand.models.readers.onnx_graph import read_onnx

            return read_onnx(scorer.source, scorer.schema, kind=kind)
        from evenhand.models.readers.torch_layers import read_torch

        return read_torch(scorer.source, scorer.schema, name=scorer.name, kind=kind)
    raise NotAdditiveError(f"the computation of a {type(unwrap_scorer(scorer)).__name__} is unknown")
