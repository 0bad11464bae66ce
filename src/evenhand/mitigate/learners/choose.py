"""How any model is trained again: by its kind."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from evenhand.errors import ModelError
from evenhand.mitigate.learners.learner import Learner
from evenhand.models import AdditiveNetwork, load
from evenhand.models.estimator import Estimator
from evenhand.models.load import STORED, stored_object
from evenhand.models.torch_module import TorchModule
from evenhand.schema import Schema

Fit = Callable[..., Any]


def learner_of(
    source: Any, schema: Schema, *, like: Any = None, trust: bool = False, fit: str | Fit | None = None
) -> Learner:
    """How a model is trained again.

    Args:
        source: as ``models.load`` takes it.
        schema: what its individuals are.
        like: the user's data, as a template for frames.
        trust: allow files that can run code when they are loaded.
        fit: the user's own training, a function or ``module:function``; whatever the model is, it is then used.

    Raises:
        ModelError: it cannot be read, or nobody but the user knows how it is trained.
        TrustError: loading it could run code, and it is not trusted.
        MissingExtraError: a library that it needs is not installed.
    """
    path = Path(source) if isinstance(source, str | Path) and Path(source).is_file() else None
    ending = None if path is None else path.suffix.lower()
    if path is not None and ending in STORED:
        source = stored_object(path, trust=trust)
    given = load(source, schema, like=like, trust=trust, name=None if path is None else path.name)
    if isinstance(given, Estimator):
        from evenhand.mitigate.learners.estimator import EstimatorLearner

        return EstimatorLearner(given, ending)
    if isinstance(given, AdditiveNetwork) and path is not None and ending in (".h5", ".keras"):
        from evenhand.mitigate.learners.keras_dense import KerasLearner

        return KerasLearner.of(path, given)
    if isinstance(given, AdditiveNetwork):
        from evenhand.mitigate.learners.dense import DenseLearner

        return DenseLearner(given)
    if isinstance(given, TorchModule):
        from evenhand.mitigate.learners.module import ModuleLearner

        return ModuleLearner(given, ending)
    raise ModelError(
        f"a {type(given).__name__} cannot be trained again here",
        where=given.name,
        mend="train it with your own function: --fit module:function (in Python: fit=function)",
    )
