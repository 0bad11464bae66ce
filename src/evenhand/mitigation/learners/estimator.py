"""Scikit-learn estimators and pipelines, and whatever looks like them, refitted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from evenhand.core.interrupts import InterruptGuard
from evenhand.core.text import summarize_error
from evenhand.errors import MissingExtraError, ModelError
from evenhand.mitigation.learners.learner import file_ending, target_labels, training_frame
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
"""What these libraries need, while they fit, to do the same on any machine and to keep silent on standard output."""


@dataclass(frozen=True, eq=False)
class EstimatorLearner:
    """A clone of the estimator, with its own parameters, fitted on what it was fitted on before.

    Fitted on a data frame, it learns from the real people's own rows and from the added instances in the data's words;
    fitted on an array, from the words or the numbers it is asked with. Every ``random_state`` that is None is set from
    the seed. Encoders that take their categories from the data keep those the given model knows: a part of the people
    may lack a rare one. Early stopping, which needs people of its own, gives way to the number of rounds it found.

    Attributes:
        given: the fitted estimator.
        ending: of the file it came from; its models are offered to be written so first.
    """

    given: EstimatorModel
    ending: str = ""

    @property
    def name(self) -> str:
        """What is trained and how, for a reader."""
        return f"{_with_article(type(self.given.model).__name__)}, refitted with its own parameters"

    @property
    def takes_weights(self) -> bool:
        """Whether the estimator is fitted by weights."""
        return weight_argument(self.given.model) is not None

    @property
    def endings(self) -> tuple[str, ...]:
        """Endings of files that its models can be written to."""
        return tuple(sorted(ENDINGS, key=lambda ending: ending != self.ending))

    def fit(self, training_set: TrainingSet, *, seed: int) -> Scorer:
        """Return an estimator of the same kind, fitted on these people.

        Raises:
            ModelError: it cannot be cloned or fitted; the message says what it said.
        """
        from sklearn.base import clone
        from threadpoolctl import threadpool_limits

        given = self.given
        labels = np.asarray(given.model.classes_)[target_labels(training_set, given)]
        asked = self._training_input(training_set)
        try:
            model = clone(given.model)
            keep_categories(given.model, model)
            restore = _fix_randomness(model, given.model, seed)
            weights = {} if training_set.weights is None else {str(weight_argument(model)): training_set.weights}
            with threadpool_limits(limits=1), InterruptGuard():
                model.fit(asked, labels, **weights)
            restore()
        except Exception as error:
            raise ModelError(
                f"the estimator cannot be fitted again: {summarize_error(error)}",
                location=given.name,
                hint="train it with your own function: `fit=module:function`",
            ) from error
        return given.with_estimator(model)

    def save(self, scorer: Scorer, path: Path) -> tuple[Path, ...]:
        """Write one of its estimators: ``.skops`` (runs no code when read), ``.joblib`` or ``.pkl``."""
        if not isinstance(scorer, EstimatorModel):
            raise ModelError("this model was not made by fitting an estimator", location=scorer.name)
        write_object(scorer.model, path, self.endings)
        return (path,)

    def _training_input(self, training_set: TrainingSet) -> Any:
        given = self.given
        if given.form == "numbers":
            return plain_numbers(given.schema, training_set.individuals, location=given.name)
        frame = given.types.convert(training_frame(training_set, given.columns), given.name)
        if given.form == "frame":
            return frame
        import narwhals as nw

        table = nw.from_native(frame, eager_only=True)
        return np.column_stack([np.array(table[name].to_list(), dtype=object) for name in table.columns])


def weight_argument(model: Any) -> str | None:
    """Return the argument of ``fit`` that takes weights; None where there is none."""
    from sklearn.pipeline import Pipeline
    from sklearn.utils.validation import has_fit_parameter

    prefix = ""
    while isinstance(model, Pipeline):
        prefix += f"{model.steps[-1][0]}__"
        model = model.steps[-1][1]
    return f"{prefix}sample_weight" if has_fit_parameter(model, "sample_weight") else None


def write_object(model: Any, path: Path, endings: tuple[str, ...]) -> None:
    """Write a Python object to a ``.skops``, ``.joblib`` or ``.pkl`` file, by its ending."""
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


def keep_categories(given: Any, fresh: Any) -> None:
    """Tell the encoders in a fresh clone the categories that the fitted ones know, where they would look for them."""
    named = (getattr(given, name, None) for name in ("steps", "transformer_list"))
    inside = {name: part for parts in named if isinstance(parts, list) for name, part in parts}
    inside |= {name: part for name, part, _ in getattr(given, "transformers_", None) or ()}
    parameters = fresh.get_params(deep=True)  # pipelines name their steps only so
    for name, part in inside.items():
        if hasattr(parameters.get(name), "get_params"):
            keep_categories(part, parameters[name])
    known = getattr(given, "categories_", None)
    if known is not None and isinstance(parameters.get("categories"), str):
        fresh.set_params(categories=list(known))


def _fix_randomness(model: Any, given: Any, seed: int) -> Callable[[], None]:
    """Fix the random state of a clone's fit; return a function that restores what does not belong to the model."""
    before: list[tuple[Any, dict[str, Any]]] = []
    fitted = _nested_estimators(given)
    for path, part in _nested_estimators(model).items():
        parameters = part.get_params(deep=False)
        passing = dict(DETERMINISTIC_PARAMETERS.get(type(part).__module__.partition(".")[0], {}))
        if {"force_row_wise", "force_col_wise"} & set(parameters):
            passing.pop("force_col_wise", None)
        before.append((part, {key: parameters[key] for key in passing if key in parameters}))
        lasting: dict[str, int | None] = {
            key: seed % LARGEST_SEED
            for key, value in parameters.items()
            if key.endswith("random_state") and value is None
        }
        # No people are held out to stop by: instead it trains as many rounds as the given model used.
        if parameters.get("early_stopping_rounds") is not None:
            best = _best_iteration(fitted.get(path))
            lasting |= {"early_stopping_rounds": None} | ({} if best is None else {"n_estimators": best + 1})
        if passing or lasting:
            part.set_params(**passing, **lasting)

    def restore() -> None:
        for part, parameters in before:
            if parameters:
                part.set_params(**parameters)

    return restore


def _best_iteration(fitted: Any) -> int | None:
    """Return the last round that an estimator of XGBoost uses after early stopping, counted from 0."""
    best = getattr(fitted, "best_iteration", None)
    return None if best is None else int(best)


def _nested_estimators(model: Any) -> dict[str, Any]:
    """Return the estimator and every estimator in it, by the path of their parameters."""
    inside = {path: part for path, part in model.get_params(deep=True).items() if hasattr(part, "get_params")}
    return {"": model} | {path: part for path, part in inside.items() if not isinstance(part, type)}


def _with_article(name: str) -> str:
    return f"{'an' if name[0] in 'AEIOUX' else 'a'} {name}"
