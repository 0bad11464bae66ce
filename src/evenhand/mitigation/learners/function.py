"""Any model, trained by the user's own function."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

from evenhand.core.interrupts import InterruptGuard
from evenhand.core.text import summarize_error
from evenhand.errors import EvenhandError, ModelError, OptionError
from evenhand.mitigation.learners.dense import TrainedNetwork, plain_layers, write_npz
from evenhand.mitigation.learners.estimator import ENDINGS, write_object
from evenhand.mitigation.learners.learner import file_ending, label_values, training_frame
from evenhand.mitigation.learners.module import write_module
from evenhand.mitigation.split import TrainingSet
from evenhand.models.additive.network import AdditiveNetwork
from evenhand.models.blackbox.torch_module import TorchModule
from evenhand.models.importing import import_object
from evenhand.models.load import load_model
from evenhand.models.scorer import Scorer
from evenhand.schema.schema import Schema

EVERY_ENDING = (".npz", *ENDINGS, ".pt2", ".pt", ".pth", ".json", ".ubj", ".txt")


@dataclass(frozen=True, eq=False)
class FunctionLearner:
    """A function of the user's: ``fit(frame, labels)`` gives a model, any that ``models.load`` takes as an object.

    The frame holds the schema's attributes in the data's own words, then its passthrough columns, and is of the data's
    own type; the labels are an array of the words in the target column. A function that takes ``seed`` is called with
    ``seed=...``; one that draws random numbers without it is not repeatable.

    Attributes:
        function: what is called.
        schema: what individuals are.
        like: the user's data, as a template for frames.
        called: the function's name, for a reader.
        made: what it gave, to be written.
    """

    function: Callable[..., Any]
    schema: Schema
    like: Any
    called: str
    made: WeakKeyDictionary[Any, Any] = field(default_factory=WeakKeyDictionary)

    @classmethod
    def of(cls, fit: str | Callable[..., Any], schema: Schema, *, like: Any) -> FunctionLearner:
        """From a function or ``module:function``.

        Raises:
            OptionError: it is not a function.
            ModelError: there is no such module or name, or importing it fails.
        """
        function = import_object(fit) if isinstance(fit, str) and ":" in fit else fit
        if not callable(function):
            raise OptionError(
                f"{fit!r} is not a function that trains a model",
                location="`fit=`",
                hint="write module:function; it is called as fit(frame, labels) and gives the model",
            )
        called = fit if isinstance(fit, str) else str(getattr(fit, "__name__", type(fit).__name__))
        return cls(function, schema, like, called)

    @property
    def name(self) -> str:
        """What is trained and how, for a reader."""
        return f"trained by {self.called}"

    takes_weights: ClassVar[bool] = False

    @property
    def endings(self) -> tuple[str, ...]:
        """Endings of files that its models can be written to, each by some kind of model."""
        return EVERY_ENDING

    def fit(self, training_set: TrainingSet, *, seed: int) -> Scorer:
        """Return what the function makes of these people.

        Raises:
            ModelError: the function fails, or what it gives is not a model over the schema.
        """
        more = {"seed": seed} if _takes_seed(self.function) else {}
        try:
            with InterruptGuard():
                model = self.function(training_frame(training_set), label_values(training_set), **more)
        except EvenhandError:
            raise
        except Exception as error:
            raise ModelError(
                f"it fails: {summarize_error(error)}",
                location=self.called,
                hint="it is called as fit(frame, labels): the attributes in the data's own words, and the labels",
            ) from error
        if isinstance(model, str | Path) or model is None:
            raise ModelError(
                f"it gave {model!r} instead of a model", location=self.called, hint="return the model itself"
            )
        scorer = load_model(model, self.schema, like=self.like)
        # A network is written from its own numbers; a scorer of the user's own may have no hash, and no file either.
        if not isinstance(scorer, AdditiveNetwork) and isinstance(scorer, Hashable):
            self.made[scorer] = model
        return scorer

    def save(self, scorer: Scorer, path: Path) -> tuple[Path, ...]:
        """Write one of its models: a network as ``.npz``, a PyTorch model as ``.pt2``, trees as their library does.

        Any other object is written as ``.skops``, ``.joblib`` or ``.pkl``.

        Raises:
            OptionError: its kind is not written so.
        """
        if isinstance(scorer, AdditiveNetwork):
            file_ending(path, (".npz",))
            write_npz(scorer.dense if isinstance(scorer, TrainedNetwork) else plain_layers(scorer), path)
            return (path,)
        model = self.made.get(scorer) if isinstance(scorer, Hashable) else None
        if model is None:
            raise ModelError("this model was not made here", location=scorer.name)
        booster = getattr(model, "save_model", None) if type(model).__name__ == "Booster" else None
        if isinstance(scorer, TorchModule):
            write_module(scorer, path, file_ending(path, (".pt2", ".pt", ".pth")))
        elif booster is not None:
            file_ending(path, (".json", ".ubj") if hasattr(model, "save_raw") else (".txt",))
            booster(str(path))
        else:
            try:
                write_object(model, path, ENDINGS)
            except EvenhandError:
                raise
            except Exception as error:
                raise ModelError(f"it cannot be written: {summarize_error(error)}", location=scorer.name) from error
        return (path,)


def _takes_seed(function: Callable[..., Any]) -> bool:
    try:
        return "seed" in inspect.signature(function).parameters
    except (TypeError, ValueError):  # some functions of compiled libraries do not say
        return False
