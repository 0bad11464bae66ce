"""Any Python function as a black box: frame or array in, labels or scores out."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.errors import ModelError
from evenhand.models.labels import match_labels
from evenhand.models.questions import Form, check_same_people, first_line, probes, question, refusal
from evenhand.models.replies import Reply, read_reply, target_labels
from evenhand.schema import Schema, Value


@dataclass(frozen=True, eq=False)
class Function:
    """A function of a batch of individuals.

    It replies with one label per individual, or one score from 0 to 1 of the favourable label (given above 1/2), or one
    score per label, in the order of the target's ``values`` in the schema. A bound ``predict_proba`` replies in the
    order of its own ``classes_``.

    Attributes:
        schema: what its individuals are.
        function: what is called.
        classes: the labels, in the order of the scores.
        favourable: position of the favourable label in ``classes``.
        name: how to call it in a report.
        like: a frame whose type and column types it is asked with.
        form: ``frame``, or ``numbers`` for a function that takes an array.
        label_only: whether it replies with labels.
    """

    schema: Schema
    function: Callable[[Any], Any]
    classes: tuple[Value, ...]
    favourable: int
    name: str
    like: Any
    form: Form
    label_only: bool = False

    def scores(self, individuals: NDArray[np.float64]) -> NDArray[np.float64]:
        """Scores, or labels one-hot, shape (n, classes).

        Raises:
            ModelError: the function fails, or its reply is none.
        """
        return self.ask(individuals).scores

    def predict(self, individuals: NDArray[np.float64]) -> NDArray[np.int64]:
        """Labels as positions in ``classes``, shape (n,).

        Raises:
            ModelError: the function fails, or its reply is none.
        """
        return self.ask(individuals).labels

    def ask(self, individuals: NDArray[np.float64]) -> Reply:
        """Scores and labels with one call."""
        asked = question(self.schema, individuals, self.form, like=self.like, where=self.name)
        return self._call(asked, len(individuals))

    def decide(self, frame: Any) -> NDArray[np.int64]:
        """Labels of a frame's rows without going through the schema, shape (n,)."""
        import narwhals as nw

        table = nw.from_native(frame, eager_only=True).select(list(self.schema.names))
        return self._call(table.to_native(), len(table)).labels

    def _call(self, asked: Any, n: int) -> Reply:
        try:
            reply = self.function(asked)
        except Exception as error:
            raise refusal(error, where=self.name) from error
        return read_reply(reply, n, self.classes, self.favourable, where=self.name)


def from_function(
    function: Callable[[Any], Any], schema: Schema, *, like: Any = None, name: str | None = None
) -> Function:
    """Wrap a function. It is tried with a data frame in the data's own words, then with an array of plain numbers.

    Args:
        function: takes individuals, gives labels or scores (see ``Function``).
        schema: what the columns mean.
        like: the user's data: its frame type is kept, and the function must decide the same about these people before
            and after they went through the schema.
        name: how to call it in a report.

    Raises:
        ModelError: it fails with both, or its reply is none.
    """
    name = name or str(getattr(function, "__name__", type(function).__name__))
    known = getattr(getattr(function, "__self__", None), "classes_", None)
    per_class = known is not None and getattr(function, "__name__", "") == "predict_proba"
    classes, favourable = (
        match_labels(schema, np.asarray(known).tolist(), where=name) if per_class else target_labels(schema)
    )
    people = probes(schema)
    refused: list[ModelError] = []
    for form in ("frame", "numbers"):
        scorer = Function(schema, function, classes, favourable, name, like, form)
        try:
            label_only = scorer.ask(people).label_only
        except ModelError as error:
            refused.append(error)
            continue
        scorer = Function(schema, function, classes, favourable, name, like, form, label_only)
        if form == "frame" and like is not None:
            check_same_people(scorer.decide, schema, like, where=name)
        return scorer
    raise ModelError(
        f"asked with a data frame: {refused[0].what}; asked with an array of {schema.width} columns: {refused[1].what}",
        where=name,
        mend=refused[0].mend,
    )


def from_import(source: str) -> Any:
    """The object that ``module:name`` means; the current directory is searched too, as by ``python -m``.

    Raises:
        ModelError: there is no such module or name, or importing it fails.
    """
    module, _, attribute = source.partition(":")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    importlib.invalidate_caches()
    try:
        found: Any = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not (module == error.name or module.startswith(f"{error.name}.")):
            raise _broken(source, module, error) from error
        raise ModelError(
            f"there is no module {error.name!r}",
            where=source,
            mend="write module:function, with the module's file in the current directory or installed",
        ) from None
    except (Exception, SystemExit) as error:
        raise _broken(source, module, error) from error
    for part in attribute.split("."):
        if not hasattr(found, part):
            names = [name for name in dir(found) if not name.startswith("_") and _answers(getattr(found, name))]
            raise ModelError(
                f"there is no {part!r} in {module}",
                where=source,
                mend=f"it has: {', '.join(sorted(names)[:12]) or 'nothing to call'}",
            )
        found = getattr(found, part)
    return found


def _answers(candidate: Any) -> bool:
    return callable(candidate) or hasattr(candidate, "predict")


def _broken(source: str, module: str, error: BaseException) -> ModelError:
    return ModelError(
        f"importing {module} fails: {first_line(error)}", where=source, mend=f"try: python -c 'import {module}'"
    )
