"""The inside of a model, where it has one that certification can use."""

from __future__ import annotations

import dataclasses
import inspect
from typing import TYPE_CHECKING, Any

import numpy as np

from evenhand.core.http import redact_url
from evenhand.errors import ModelError, NotAdditiveError
from evenhand.models.additive.network import AdditiveNetwork
from evenhand.models.blackbox.estimator import EstimatorModel
from evenhand.models.blackbox.function import import_object
from evenhand.models.blackbox.number_model import NumberModel
from evenhand.models.blackbox.onnx_model import OnnxModel
from evenhand.models.blackbox.torch_module import TorchModule
from evenhand.models.load import OBJECT_NAME, is_path, is_url, load_model, load_regressor
from evenhand.models.outputs import OutputKind
from evenhand.models.regressor import Regressor
from evenhand.models.scorer import Scorer, find_caution, unwrap_scorer
from evenhand.population.independent import uniform_population
from evenhand.schema.schema import Schema

if TYPE_CHECKING:
    from evenhand.models.trees.ensemble import TreeEnsemble

COMPARED_PEOPLE = 1000
"""People drawn from the domain on whom the inside and the outside of a model are compared."""


def load_white_box(
    source: Any,
    schema: Schema,
    *,
    like: Any = None,
    trust: bool = False,
    name: str | None = None,
    untyped: bool = False,
    output: OutputKind | None = None,
) -> AdditiveNetwork | TreeEnsemble:
    """Return the inside of whatever ``load_model`` takes; what can only answer is refused before it is asked anything.

    Raises:
        NotAdditiveError: as ``extract_white_box``.
        EvenhandError: as ``load_model``.
    """
    refuse_opaque(source)
    if schema.target.is_number:
        return extract_white_box(load_regressor(source, schema, like=like, trust=trust, name=name, untyped=untyped))
    scorer = load_model(source, schema, like=like, trust=trust, name=name, untyped=untyped, output=output)
    return extract_white_box(scorer)


def refuse_opaque(source: Any) -> None:
    """Refuse an endpoint or a function as a white box, without a question that might cost something.

    Raises:
        NotAdditiveError: it is one.
    """
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
        f"certification needs the inside of the model: this one only answers questions ({kind})",
        location=name,
        hint="give the model's file, or ask it: evenhand audit, evenhand search",
    )


def extract_white_box(scorer: Scorer | Regressor) -> AdditiveNetwork | TreeEnsemble:
    """Return a model as an additive network, or as decision trees: what certification needs.

    Args:
        scorer: any model, of labels or of a number. It stays what it is; the white box answers for it.

    Raises:
        NotAdditiveError: it cannot be written so; the message says why, and what that rules out.
        MissingExtraError: reading it needs a library that is not installed.
    """
    if getattr(scorer, "is_white_box", False):
        return scorer  # type: ignore[return-value]  # identified by the attribute: the class of trees loads Numba
    try:
        white_box = _read_white_box(scorer)
        if isinstance(scorer, Scorer):
            if (white_box.classes, white_box.favourable) != (scorer.classes, scorer.favourable):
                raise NotAdditiveError(f"its labels read {white_box.classes} inside and {scorer.classes} outside")
            _check_same_decisions(white_box, scorer)
    except ModelError as error:
        raise NotAdditiveError(
            f"certification needs the inside of the model: {error.message}; everything else still runs",
            location=scorer.name,
            hint=None if isinstance(error, NotAdditiveError) else error.hint,
        ) from None
    return dataclasses.replace(white_box, name=scorer.name, caution=find_caution(scorer))


def _check_same_decisions(network: AdditiveNetwork | TreeEnsemble, scorer: Scorer) -> None:
    """Make sure that the model was not misread; rounding in single precision may turn a close decision."""
    people = uniform_population(scorer.schema).sample(COMPARED_PEOPLE, np.random.default_rng(0))
    differ = int((network.predict(people) != scorer.predict(people)).sum())
    if differ > COMPARED_PEOPLE // 100:
        raise NotAdditiveError(
            f"read from the inside, it decides {differ} of {COMPARED_PEOPLE} people differently than when asked"
        )


def _output_kind(scorer: OnnxModel | TorchModule) -> str | None:
    return None if scorer.reading is None else scorer.reading.kind


def _read_white_box(scorer: Scorer | Regressor) -> AdditiveNetwork | TreeEnsemble:
    if isinstance(scorer, EstimatorModel | NumberModel):
        from evenhand.models.readers.estimators import read_estimator

        return read_estimator(scorer)
    if isinstance(scorer, OnnxModel):
        from evenhand.models.readers.onnx_graph import read_onnx

        return read_onnx(scorer.source, scorer.schema, kind=_output_kind(scorer))
    if isinstance(scorer, TorchModule):
        from evenhand.models.readers.torch_graph import read_torch

        return read_torch(scorer.source, scorer.schema, name=scorer.name, kind=_output_kind(scorer))
    raise NotAdditiveError(f"this one only answers questions ({type(unwrap_scorer(scorer)).__name__})")
