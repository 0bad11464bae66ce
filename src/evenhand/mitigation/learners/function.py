"""Models trained by a user-defined function."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

from evenhand.core.interrupts import InterruptGuard
from evenhand.core.text import summarize_error
from evenhand.errors import EvenhandError, ModelError, OptionError
from evenhand.mitigation.learners.dense import save_network
from evenhand.mitigation.learners.estimator import ENDINGS, write_object
from evenhand.mitigation.learners.learner import file_ending, label_values, training_frame
from evenhand.mitigation.split import TrainingSet
from evenhand.models.additive.network import AdditiveNetwork
from evenhand.models.blackbox.torch_module import TorchModule
from evenhand.models.importing import import_object
from evenhand.models.load import load_model
from evenhand.models.scorer import Scorer
from evenhand.schema.schema import Schema


@dataclass(frozen=True, eq=False)
class FunctionLearner:
    """Learner that calls a user-defined function: ``fit(frame, labels)`` returns any model that ``models.load`` takes.

    The frame has the attributes of the schema with the values of the data, then the passthrough columns. It has the
    type of the user's data. The labels are an array with the values of the target column. A function with a parameter
    ``seed`` is called with ``seed=...``. Without this parameter, a function that draws random numbers is not
    reproducible.

    Attributes:
        function: Training function.
        schema: Data schema.
        like: The user's data, a template for data frames.
        called: Name of the function.
        models: Models returned by the function, kept for writing.
    """

    function: Callable[..., Any]
    schema: Schema
    like: Any
    called: str
    models: WeakKeyDictionary[Any, Any] = field(default_factory=WeakKeyDictionary)

    takes_weights: ClassVar[bool] = False
    endings: ClassVar[tuple[str, ...]] = (".npz", *ENDINGS, ".pt", ".pth", ".json", ".ubj", ".txt")

    @classmethod
    def of(cls, fit: str | Callable[..., Any], schema: Schema, *, like: Any) -> FunctionLearner:
        """Create a learner from a function or ``module:function``.

        Raises:
            OptionError: It is not a function.
            ModelError: The module or name does not exist, or importing it fails.
        """
        function = import_object(fit) if isinstance(fit, str) and ":" in fit else fit
        if not callable(function):
            raise OptionError(
                f"expected a training function, got {fit!r}",
                location="`fit=`",
                hint="write module:function. it is called as fit(frame, labels) and returns the model",
            )
        name = fit if isinstance(fit, str) else str(getattr(fit, "__name__", type(fit).__name__))
        return cls(function, schema, like, name)

    @property
    def name(self) -> str:
        """Description of the training."""
        return f"trained by {self.called}"

    def fit(self, training_set: TrainingSet, *, seed: int) -> Scorer:
        """Train a model with the function.

        Raises:
            ModelError: The function fails, or does not return a model for the schema.
        """
        options = {}
        with suppress(TypeError, ValueError):  # some compiled functions have no signature
            options = {"seed": seed} if "seed" in inspect.signature(self.function).parameters else {}
        try:
            with InterruptGuard():
                model = self.function(training_frame(training_set), label_values(training_set), **options)
        except EvenhandError:
            raise
        except Exception as error:
            raise ModelError(
                f"the training function failed: {summarize_error(error)}",
                location=self.called,
                hint="it is called as fit(frame, labels), and the frame contains the original values of the attributes",
            ) from error
        if isinstance(model, str | Path) or model is None:
            raise ModelError(f"expected a model, got {model!r}", location=self.called, hint="return the model itself")
        scorer = load_model(model, self.schema, like=self.like)
        # A network is written from its weights. A scorer that cannot be hashed cannot be written to a file.
        if not isinstance(scorer, AdditiveNetwork) and isinstance(scorer, Hashable):
            self.models[scorer] = model
        return scorer

    def save(self, scorer: Scorer, path: Path) -> tuple[Path, ...]:
        """Write a network as ``.npz``, a PyTorch model as ``.pt``, and trees in their library's format.

        All other objects are written as ``.skops``, ``.joblib`` or ``.pkl``.

        Raises:
            OptionError: The model cannot be written to such a file.
        """
        if isinstance(scorer, AdditiveNetwork):
            file_ending(path, (".npz",))
            return save_network(scorer, path)
        model = self.models.get(scorer) if isinstance(scorer, Hashable) else None
        if model is None:
            raise ModelError("expected a model from this learner, got a different model", location=scorer.name)
        try:
            if isinstance(scorer, TorchModule):
                import torch

                file_ending(path, (".pt", ".pth"))
                torch.save(scorer.source, path)
            elif type(model).__name__ == "Booster" and hasattr(model, "save_model"):
                file_ending(path, (".json", ".ubj") if hasattr(model, "save_raw") else (".txt",))
                model.save_model(str(path))
            else:
                write_object(model, path, ENDINGS)
        except EvenhandError:
            raise
        except Exception as error:
            message = f"the model cannot be written: {summarize_error(error)}"
            raise ModelError(message, location=scorer.name) from error
        return (path,)
