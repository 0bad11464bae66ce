"""Scikit-learn estimators, pipelines and compatible classes, which are refitted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from evenhand.core.interrupts import InterruptGuard
from evenhand.core.text import summarize_error
from evenhand.errors import MissingExtraError, ModelError
from evenhand.mitigation.learners.learner import OWN_FIT, file_ending, target_labels, training_frame
from evenhand.mitigation.split import TrainingSet
from evenhand.models.blackbox.base import plain_numbers
from evenhand.models.blackbox.estimator import EstimatorModel
from evenhand.models.scorer import Scorer

ENDINGS = (".skops", ".joblib", ".pkl")
LARGEST_SEED = 2**32

DETERMINISTIC_PARAMETERS: dict[str, dict[str, Any]] = {
    "xgboost": {"n_jobs": 1},
    "lightgbm": {"n_jobs": 1, "verbose": -1, "deterministic": True, "force_col_wise": True},
}
"""Parameters, by library, for deterministic training without output."""


@dataclass(frozen=True, eq=False)
class EstimatorLearner:
    """Learner that fits a clone of an estimator with the same parameters and the same kind of input.

    An estimator that was fitted on a data frame receives the original rows, and added instances with the values of
    the data. An estimator that was fitted on an array receives an array of values or numbers, as for predictions. Every
    ``random_state`` of None is set from the seed. Encoders that learn their categories keep those of the original
    model, since a subset of the data may lack a rare category. Early stopping is replaced by the number of rounds at
    which it stopped.

    Attributes:
        given: Fitted estimator.
        ending: Extension of its file, preferred for new files.
    """

    given: EstimatorModel
    ending: str = ""

    @property
    def name(self) -> str:
        """Description of the model and its training."""
        name = type(self.given.model).__name__
        return f"{'an' if name[0] in 'AEIOUX' else 'a'} {name}, refitted with its own parameters"

    @property
    def takes_weights(self) -> bool:
        """Whether the estimator accepts weights."""
        return weight_argument(self.given.model) is not None

    @property
    def endings(self) -> tuple[str, ...]:
        """Supported file extensions of the models."""
        return tuple(sorted(ENDINGS, key=lambda ending: ending != self.ending))

    def fit(self, training_set: TrainingSet, *, seed: int) -> Scorer:
        """Fit a clone of the estimator.

        Raises:
            ModelError: The estimator cannot be cloned or fitted.
        """
        from sklearn.base import clone
        from threadpoolctl import threadpool_limits

        original = self.given
        labels = np.asarray(original.model.classes_)[target_labels(training_set, original)]
        inputs = self._training_input(training_set)
        try:
            model = clone(original.model)
            keep_categories(original.model, model)
            restore = _fix_randomness(model, original.model, seed)
            weights = {} if training_set.weights is None else {str(weight_argument(model)): training_set.weights}
            with threadpool_limits(limits=1), InterruptGuard():
                model.fit(inputs, labels, **weights)
            restore()
        except Exception as error:
            raise ModelError(
                f"refitting the estimator failed: {summarize_error(error)}", location=original.name, hint=OWN_FIT
            ) from error
        return original.with_estimator(model)

    def save(self, scorer: Scorer, path: Path) -> tuple[Path, ...]:
        """Write an estimator as ``.skops`` (runs no code when read), ``.joblib`` or ``.pkl``."""
        assert isinstance(scorer, EstimatorModel), "the estimator was fitted by this learner"
        write_object(scorer.model, path, self.endings)
        return (path,)

    def _training_input(self, training_set: TrainingSet) -> Any:
        model = self.given
        if model.form == "numbers":
            return plain_numbers(model.schema, training_set.individuals, location=model.name)
        frame = model.types.convert(training_frame(training_set, model.columns), model.name)
        if model.form == "frame":
            return frame
        import narwhals as nw

        table = nw.from_native(frame, eager_only=True)
        return np.column_stack([np.array(table[name].to_list(), dtype=object) for name in table.columns])


def weight_argument(model: Any) -> str | None:
    """Return the argument of ``fit`` for weights, or None."""
    from sklearn.pipeline import Pipeline
    from sklearn.utils.validation import has_fit_parameter

    prefix = ""
    while isinstance(model, Pipeline):
        prefix += f"{model.steps[-1][0]}__"
        model = model.steps[-1][1]
    return f"{prefix}sample_weight" if has_fit_parameter(model, "sample_weight") else None


def write_object(model: Any, path: Path, endings: tuple[str, ...]) -> None:
    """Write a Python object as ``.skops``, ``.joblib`` or ``.pkl``, depending on the file extension."""
    ending = file_ending(path, endings)
    if ending == ".skops":
        try:
            import skops.io
        except ImportError:
            raise MissingExtraError("skops", extra="skops", purpose="to write a .skops file") from None
        skops.io.dump(model, path)
    elif ending == ".joblib":
        import joblib

        joblib.dump(model, path)
    else:
        import pickle

        path.write_bytes(pickle.dumps(model))


def keep_categories(fitted: Any, clone: Any) -> None:
    """Set the categories of the encoders in a clone to those of the fitted encoders, unless they are fixed."""
    named = (getattr(fitted, name, None) for name in ("steps", "transformer_list"))
    children = {name: part for parts in named if isinstance(parts, list) for name, part in parts}
    children |= {name: part for name, part, _ in getattr(fitted, "transformers_", None) or ()}
    parameters = clone.get_params(deep=True)  # this is the only way to list the steps of a pipeline by name
    for name, part in children.items():
        if hasattr(parameters.get(name), "get_params"):
            keep_categories(part, parameters[name])
    categories = getattr(fitted, "categories_", None)
    if categories is not None and isinstance(parameters.get("categories"), str):
        clone.set_params(categories=list(categories))


def _fix_randomness(model: Any, fitted: Any, seed: int) -> Callable[[], None]:
    """Make the training of a clone deterministic, and return a function that restores its other parameters."""
    changed: list[tuple[Any, dict[str, Any]]] = []
    originals = _nested_estimators(fitted)
    for path, part in _nested_estimators(model).items():
        parameters = part.get_params(deep=False)
        temporary = dict(DETERMINISTIC_PARAMETERS.get(type(part).__module__.partition(".")[0], {}))
        if {"force_row_wise", "force_col_wise"} & set(parameters):
            temporary.pop("force_col_wise", None)
        changed.append((part, {key: parameters[key] for key in temporary if key in parameters}))
        permanent: dict[str, int | None] = {
            key: seed % LARGEST_SEED
            for key, value in parameters.items()
            if key.endswith("random_state") and value is None
        }
        # No rows are set aside for early stopping. The clone is trained for as many rounds as the fitted model used.
        if parameters.get("early_stopping_rounds") is not None:
            best = getattr(originals.get(path), "best_iteration", None)
            permanent |= {"early_stopping_rounds": None} | ({} if best is None else {"n_estimators": int(best) + 1})
        if temporary or permanent:
            part.set_params(**temporary, **permanent)

    def restore() -> None:
        for part, parameters in changed:
            if parameters:
                part.set_params(**parameters)

    return restore


def _nested_estimators(model: Any) -> dict[str, Any]:
    """Collect the estimator and all estimators in it, by the path of their parameters."""
    children = {path: part for path, part in model.get_params(deep=True).items() if hasattr(part, "get_params")}
    return {"": model} | {path: part for path, part in children.items() if not isinstance(part, type)}
