"""Preparation shared by mitigations and searches for alternatives: model, learner, held-out data and query budget."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evenhand.core.result import Result
from evenhand.errors import EvenhandError, ModelError
from evenhand.mitigation.config import StudyConfig
from evenhand.mitigation.learners.learner import Learner
from evenhand.mitigation.split import SHARES, Split, split_people
from evenhand.models.additive.network import AdditiveNetwork
from evenhand.models.blackbox.estimator import EstimatorModel
from evenhand.models.replies import find_ledger
from evenhand.models.scorer import Scorer, find_caution
from evenhand.models.subject import Subject
from evenhand.schema.people import People

SEEN = (
    "The original model may have been trained on the test set. Then it looks better here than it is, and so do models "
    "that use its weights or scores, while retrained models have not seen these people. Subgroups may also have been "
    "found among them, so that their gaps look wider before the mitigation. Hold out people that the model never saw, "
    "and compare the models on them."
)
"""Note shown if there is no separate test set."""


class ComparedResult(Result):
    """Base class of results on held-out data.

    Attributes:
        model: Name of the original model.
        data: Name of the data.
        test_data: Name of the separate test set. None if the test set is a part of ``data``.
        favourable: Favourable label.
        confidence: Simultaneous confidence level of all intervals.
        accuracy_loss: Allowed loss of accuracy.
        queries: Number of distinct individuals that a black box was queried for. 0 for a model read from a file.
        interrupted: Whether an interrupt or the time limit ended the analysis.
        notes: Notes.
    """

    model: str
    data: str
    test_data: str | None = None
    favourable: str
    confidence: float
    accuracy_loss: float
    queries: int = 0
    interrupted: bool = False
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Study:
    """Model and people of a comparison on held-out data.

    Attributes:
        subject: Model and people.
        model: Original model.
        learner: Learner for the same kind of model, or None.
        split: Training, validation and test sets.
        test: Separate test set, or None.
        notes: Notes.
    """

    subject: Subject
    model: Scorer
    learner: Learner | None
    split: Split
    test: People | None
    notes: tuple[str, ...]

    @classmethod
    def prepare(
        cls,
        subject: Subject,
        model: Scorer,
        test: People | None,
        config: StudyConfig,
        *,
        shares: tuple[float, float, float] = SHARES,
        require_learner: bool = False,
    ) -> Study:
        """Find the learner and split the people.

        Raises:
            EvenhandError: The people cannot be split, or a learner is required and there is none.
        """
        people, path = subject.people, subject.model
        schema = people.schema
        learner = None
        try:
            ending = Path(path).suffix.lower() if isinstance(path, str | Path) else ""
            learner = find_learner(subject.scorer, like=people.frame, fit=config.fit, ending=ending)
        except EvenhandError:
            if require_learner or config.fit is not None:
                raise
        split = split_people(people, seed=config.seed, test=test, shares=shares)
        notes = [find_caution(model), "" if test is not None else SEEN]
        left_out = len(people) + (0 if test is None else len(test))
        left_out -= len(split.train) + len(split.validation) + len(split.test)
        if left_out:
            notes.append(
                f"{left_out:,} people whose {' or '.join(schema.protected)} is unknown are left out: no new model is "
                "trained or tested on them."
            )
        if schema.passthrough:
            notes.append(
                f"Passthrough columns ({', '.join(schema.passthrough)}) are passed to models that take data frames and "
                "to training functions, and are also needed for predictions of a new model. Instances added for "
                "training get those of a random person of the training set."
            )
        return cls(subject, model, learner, split, test, tuple(filter(None, notes)))

    def result_fields(self, test_name: str, config: StudyConfig) -> dict[str, Any]:
        """Return the fields of a result that describe the model, the data and the settings."""
        return {
            **config.model_dump(include={"confidence", "accuracy_loss", "seed"}),
            "table_reading": self.subject.people.reading,
            "test_reading": None if self.test is None else self.test.reading,
            "model": self.model.name,
            "data": self.subject.data_name,
            "test_data": None if self.test is None else test_name,
            "favourable": str(self.model.classes[self.model.favourable]),
        }


def find_learner(
    model: Scorer, *, like: Any = None, fit: str | Callable[..., Any] | None = None, ending: str = ""
) -> Learner:
    """Find the learner of a model.

    Scikit-learn estimators and compatible classes, such as the classifiers of XGBoost and LightGBM, are refitted. Dense
    networks (``.npz``, ``.h5``, ``.keras``) continue from their weights. All other models need ``fit``.

    Args:
        model: Model.
        like: The user's data, a template for data frames.
        fit: Training function, or ``module:function``, called as ``fit(frame, labels)``. It returns a model. If set, it
            is used for every kind of model.
        ending: Extension of the model's file, preferred for new files.

    Raises:
        ModelError: The model needs ``fit``.
        OptionError: ``fit`` is not a function.
    """
    if fit is not None:
        from evenhand.mitigation.learners.function import FunctionLearner

        return FunctionLearner.of(fit, model.schema, like=like)
    if isinstance(model, EstimatorModel):
        from evenhand.mitigation.learners.estimator import EstimatorLearner

        return EstimatorLearner(model, ending)
    if isinstance(model, AdditiveNetwork):
        from evenhand.mitigation.learners.dense import DenseLearner

        return DenseLearner.of(model)
    raise ModelError(
        "this model cannot be retrained: it is neither an estimator nor a dense network",
        location=model.name,
        hint="name its training function: `fit=module:function`, called as fit(frame, labels)",
    )


@contextmanager
def limit_queries(subject: Subject, budget: int | None) -> Iterator[Callable[[], int]]:
    """Limit the number of queries, and yield a function that counts the queries."""
    ledger = find_ledger(subject.model) or subject.ledger
    before = ledger.settled
    with ledger.within(budget):
        yield lambda: ledger.sent - before
    ledger.settle()
