"""Black boxes that are Python functions: a data frame or an array in, labels or numbers out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from evenhand.core.typing import Floats
from evenhand.models import replies
from evenhand.models.blackbox.base import (
    LoadRequest,
    RowLabelModel,
    ask_reference_rows,
    settle_input,
    settle_outputs,
)
from evenhand.models.replies import (
    Answers,
    MatchedLabels,
    Reply,
    ReplyingScorer,
    ask_model,
    match_labels,
    reply_once,
    target_labels,
)
from evenhand.models.scorer import BATCH_ROWS, Scorer, WrappedScorer


@dataclass(frozen=True, eq=False, kw_only=True)
class FunctionModel(RowLabelModel):
    """A function of a batch of individuals.

    It returns one label, one number for the favourable label, or one number per label in the order of the target's
    ``values``. Whether numbers are probabilities is inferred from their values (see
    ``evenhand.models.outputs``). A bound ``predict_proba`` returns numbers in the order of ``classes_``.
    """

    can_vary: ClassVar[bool] = True

    def ask_rows(self, rows: Any) -> Answers:
        """Call the function once."""
        self.ledger.charge(len(rows))
        answer = self.call(self.model, rows)
        return replies.read_answers(answer, len(rows), self.classes, self.favourable, location=self.name)


def wrap_function(function: Callable[[Any], Any], request: LoadRequest) -> FunctionModel:
    """Wrap a function. Try a data frame of the data's values first, then an array of numbers.

    Args:
        function: Function of individuals that returns labels or numbers (see ``FunctionModel``).
        request: Schema, data and options. Encoding by the schema must not change the decisions.

    Raises:
        ModelError: The function fails with both forms, its answers cannot be read, or their meaning is ambiguous.
    """
    schema = request.schema
    name = request.name or str(getattr(function, "__name__", type(function).__name__))
    own = getattr(getattr(function, "__self__", None), "classes_", None)
    if own is not None and getattr(function, "__name__", "") == "predict_proba":
        labels = match_labels(schema, np.asarray(own).tolist(), location=name)
    else:
        labels = MatchedLabels(*target_labels(schema), guessed=False)
    model = settle_input(
        FunctionModel(
            schema=schema,
            name=name,
            model=function,
            like=request.like,
            ledger=request.ledger,
            **labels._asdict(),
        ),
        ("frame", "numbers"),
        {},
        untyped=request.untyped,
    )
    assert model.probed is not None  # settle_input probes the model
    outputs = model.probed.outputs
    if outputs is None:
        request.refuse_output(name)
        return model
    _, outputs, truth = ask_reference_rows(model, model.ledger, outputs, request.like)
    return settle_outputs(model, outputs, truth, request.output)


class RememberingScorer(ReplyingScorer, WrappedScorer):
    """Model wrapper that caches answers in memory."""

    def __init__(self, model: Scorer) -> None:
        self.model = model
        self._answers: dict[bytes, Floats] = {}

    def reply(self, individuals: Floats) -> Reply:
        """Query scores and labels, each distinct individual only once."""
        return reply_once(self, individuals, self._answers, partial(ask_model, self.model), batch=BATCH_ROWS)


def remember_answers(scorer: Scorer) -> Scorer:
    """Add a cache to functions. Endpoints already have one; other models need none."""
    return RememberingScorer(scorer) if isinstance(scorer, FunctionModel) else scorer
