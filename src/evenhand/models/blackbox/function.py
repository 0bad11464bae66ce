"""Any Python function as a black box: frame or array in, labels or scores out."""

from __future__ import annotations

import importlib
import importlib.machinery
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from evenhand.core.typing import Floats, Integers
from evenhand.errors import ModelError
from evenhand.models.blackbox.questions import (
    InputForm,
    check_same_people,
    describe_retry,
    model_input,
    probe_individuals,
    refusal_error,
    summarize_error,
)
from evenhand.models.blackbox.type_search import settle_types, with_caution
from evenhand.models.column_types import AS_READ, ColumnTypes
from evenhand.models.ledger import QuestionLedger, ask_model
from evenhand.models.outputs import (
    OutputKind,
    OutputReading,
    check_finite,
    describe_guess,
    first_reading,
    refuse_stated,
    settle_outputs,
)
from evenhand.models.replies import (
    MatchedLabels,
    Reply,
    ReplyingScorer,
    match_labels,
    numeric_outputs,
    read_reply,
    target_labels,
)
from evenhand.models.scorer import BATCH_ROWS, Scorer, WrappedScorer, ask_once
from evenhand.schema.attribute import Value
from evenhand.schema.schema import Schema


@dataclass(frozen=True, eq=False)
class FunctionModel(ReplyingScorer):
    """A function of a batch of individuals.

    It replies with one label per individual, or one number for the favourable label, or one number per label, in the
    order of the target's ``values`` in the schema. Their values decide whether they are probabilities (see
    ``evenhand.models.outputs``). A bound ``predict_proba`` replies in the order of its own ``classes_``.

    Attributes:
        schema: what its individuals are.
        function: what is called.
        classes: the labels, in the order of the scores.
        favourable: position of the favourable label in ``classes``.
        name: how to call it in a report.
        like: a frame whose type and column types it is asked with.
        form: ``frame``, or ``numbers`` for a function that takes an array.
        label_only: whether it replies with labels.
        reading: the meaning of numbers that it replies with; None until it is settled.
        types: Types of the columns of a text table that it expects.
        ledger: counts the individuals that it was called with.
        caution: what a reader must know about how it is asked.
    """

    schema: Schema
    function: Callable[[Any], Any]
    classes: tuple[Value, ...]
    favourable: int
    name: str
    like: Any
    form: InputForm
    label_only: bool = False
    reading: OutputReading | None = None
    types: ColumnTypes = AS_READ
    ledger: QuestionLedger = field(default_factory=QuestionLedger, repr=False)
    caution: str = ""

    can_vary: ClassVar[bool] = True

    def reply(self, individuals: Floats) -> Reply:
        """Return the scores and labels with one call."""
        return self.read(self.answer(individuals), len(individuals))

    def answer(self, individuals: Floats) -> Any:
        """Return the function's reply about individuals."""
        asked = model_input(self.schema, individuals, self.form, like=self.like, types=self.types, location=self.name)
        return self._call(asked, len(individuals))

    def decide(self, frame: Any) -> Integers:
        """Return the labels of a frame's rows without going through the schema, shape (n,)."""
        return self._reply_frame(frame).labels

    def answer_frame(self, frame: Any) -> Floats:
        """Return labels and scores of a frame's rows without going through the schema, shape (n, 1 + classes)."""
        reply = self._reply_frame(frame)
        return np.column_stack([reply.labels, reply.scores])

    def _reply_frame(self, frame: Any) -> Reply:
        import narwhals as nw

        table = nw.from_native(frame, eager_only=True).select(list(self.schema.columns))
        return self.read(self._call(self.types.convert(table.to_native(), self.name), len(table)), len(table))

    def _call(self, asked: Any, n: int) -> Any:
        self.ledger.charge(n)
        try:
            return self.function(asked)
        except Exception as error:
            raise refusal_error(error, location=self.name, asked=asked) from error

    def read(self, reply: Any, n: int) -> Reply:
        """Return the scores and labels of the function's reply about n individuals."""
        outputs = numeric_outputs(reply, n, self.classes, location=self.name)
        if outputs is None:
            return read_reply(reply, n, self.classes, self.favourable, location=self.name)
        check_finite(outputs, location=self.name)
        reading = self.reading or first_reading(outputs, self.classes)
        return reading.reply(outputs, self.classes, self.favourable, location=self.name)


def wrap_function(
    function: Callable[[Any], Any],
    schema: Schema,
    *,
    like: Any = None,
    name: str | None = None,
    ledger: QuestionLedger | None = None,
    untyped: bool = False,
    output: OutputKind | None = None,
) -> FunctionModel:
    """Wrap a function. It is tried with a data frame in the data's own words, then with an array of plain numbers.

    Args:
        function: takes individuals, gives labels or scores (see ``Function``).
        schema: what the columns mean.
        like: the user's data: its frame type is kept, and the function must decide the same about these people before
            and after they went through the schema.
        name: how to call it in a report.
        ledger: counts whom it is asked about; by default a new one.
        untyped: Whether ``like`` is a text table. The types of its columns are then found by asking the function.
        output: meaning of numbers that it replies with; None to decide it by their values.

    Raises:
        ModelError: it fails with both, or its reply cannot be read, or the meaning of its numbers is open.
    """
    name = name or str(getattr(function, "__name__", type(function).__name__))
    known = getattr(getattr(function, "__self__", None), "classes_", None)
    # The bound ``predict_proba`` of an estimator: its columns follow the estimator's own order of labels.
    per_class = known is not None and getattr(function, "__name__", "") == "predict_proba"
    classes, favourable, guessed = (
        match_labels(schema, np.asarray(known).tolist(), location=name)
        if per_class
        else MatchedLabels(*target_labels(schema), guessed=False)
    )
    people = probe_individuals(schema)
    refused: list[ModelError] = []
    for form in ("frame", "numbers"):
        scorer = FunctionModel(
            schema, function, classes, favourable, name, like, form, ledger=ledger or QuestionLedger()
        )
        try:
            if form == "frame" and untyped:
                scorer = settle_types(
                    scorer, {}, like, probe=lambda box: box.reply(people), answers=FunctionModel.answer_frame
                )
            answer = scorer.answer(people)
            scorer = replace(scorer, label_only=scorer.read(answer, len(people)).label_only)
        except ModelError as error:
            refused.append(error)
            continue
        outputs = numeric_outputs(answer, len(people), classes, location=name)
        if outputs is None:
            refuse_stated(output, name)
        else:
            scorer = _settle_reading(scorer, outputs, output, guessed=guessed)
        if form == "frame" and like is not None:
            check_same_people(scorer.decide, schema, like, location=name)
        return with_caution(scorer, describe_retry(form, "frame", refused[0])) if refused else scorer
    raise ModelError(
        f"asked with a data frame: {refused[0].message}; "
        f"asked with an array of {schema.width} columns: {refused[1].message}",
        location=name,
        hint=refused[0].hint,
    )


def _settle_reading(
    scorer: FunctionModel, outputs: Floats, output: OutputKind | None, *, guessed: bool
) -> FunctionModel:
    """Return a function with the meaning of its numbers, of which it gave some (n, k) for individuals of the domain."""

    def ask(individuals: Floats) -> Floats | None:
        answer = scorer.answer(individuals)
        scorer.read(answer, len(individuals))
        return numeric_outputs(answer, len(individuals), scorer.classes, location=name)

    name, classes, favourable = scorer.name, scorer.classes, scorer.favourable
    settled = settle_outputs(
        outputs, ask, scorer.schema, scorer.like, scorer.ledger.left, classes, favourable, stated=output, location=name
    )
    reading = settled.reading
    caution = reading.describe(classes[favourable]) if outputs.shape[1] == 1 else ""
    if guessed:
        scores = reading.reply(settled.outputs, classes, favourable, location=name).scores[:, favourable]
        caution = describe_guess(
            classes[favourable],
            scores,
            settled.truth,
            number=favourable,
            ordered=classes == scorer.schema.target.values,
            location=name,
        )
    return with_caution(replace(scorer, reading=reading, label_only=reading.label_only), caution)


class RememberingScorer(ReplyingScorer, WrappedScorer):
    """A model that is asked about every individual once; its answers are kept in memory."""

    def __init__(self, model: Scorer) -> None:
        self.model = model
        self._known: dict[bytes, Floats] = {}

    def reply(self, individuals: Floats) -> Reply:
        """Return scores and labels."""

        def ask(rows: Floats) -> Floats:
            reply = ask_model(self.model, rows)
            return np.column_stack([reply.labels, reply.scores])

        answers = ask_once(individuals, self._known, ask, batch=BATCH_ROWS, width=1 + len(self.classes))
        return Reply(answers[:, 1:], answers[:, 0].astype(np.int64), self.label_only)


def remember_answers(scorer: Scorer) -> Scorer:
    """Return a model that is asked about each person once: a function gets a memory, an endpoint has one of its own."""
    return RememberingScorer(scorer) if isinstance(scorer, FunctionModel) else scorer


def import_object(source: str, folder: Path | None = None) -> Any:
    """Import the object that ``module:name`` names.

    Modules are searched in a folder first, and modules of the same names that were imported from other places before do
    not stand in for those in the folder. Afterwards ``sys.path`` and such modules are as they were.

    Args:
        source: Module and name.
        folder: Folder that is searched first. By default the current directory.

    Raises:
        ModelError: There is no such module or name, or importing it fails.
    """
    module, _, attribute = source.partition(":")
    try:
        with _search_first(Path.cwd() if folder is None else folder.absolute()):
            found: Any = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not (module == error.name or module.startswith(f"{error.name}.")):
            raise _import_error(source, module, error) from error
        raise ModelError(
            f"there is no module {error.name!r}",
            location=source,
            hint="write module:function, with the module's file in the current directory or installed",
        ) from None
    except (Exception, SystemExit) as error:
        raise _import_error(source, module, error) from error
    for part in attribute.split("."):
        if not hasattr(found, part):
            names = [name for name in dir(found) if not name.startswith("_") and _is_model(getattr(found, name))]
            raise ModelError(
                f"there is no {part!r} in {module}",
                location=source,
                hint=f"it has: {', '.join(sorted(names)[:12]) or 'nothing to call'}",
            )
        found = getattr(found, part)
    return found


@contextmanager
def _search_first(folder: Path) -> Iterator[None]:
    """Import modules from a folder first, and leave ``sys.path`` and namesakes of its modules as they were."""
    importlib.invalidate_caches()
    own = {name.partition(".")[0] for name in (os.listdir(folder) if folder.is_dir() else [])}
    names = [name for name in own if name in sys.modules and _is_elsewhere(name, str(folder))]
    namesakes = {name: module for name, module in sys.modules.items() if name.partition(".")[0] in names}
    for name in namesakes:
        del sys.modules[name]
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        with suppress(ValueError):  # the module itself may have removed it
            sys.path.remove(str(folder))
        for name in [name for name in sys.modules if name.partition(".")[0] in names]:
            del sys.modules[name]
        sys.modules.update(namesakes)


def _is_elsewhere(name: str, here: str) -> bool:
    """Return whether a module was imported from another file than that of its name in a directory."""
    file = getattr(sys.modules.get(name), "__file__", None)
    found = importlib.machinery.PathFinder.find_spec(name, [here])
    if file is None or found is None or found.origin is None:
        return False
    if name in sys.stdlib_module_names or name == __name__.partition(".")[0]:
        return False
    place = Path(file).resolve()
    return place != Path(found.origin).resolve() and not {"site-packages", "dist-packages"} & set(place.parts)


def _is_model(candidate: Any) -> bool:
    return callable(candidate) or hasattr(candidate, "predict")


def _import_error(source: str, module: str, error: BaseException) -> ModelError:
    return ModelError(
        f"importing {module} fails: {summarize_error(error)}", location=source, hint=f"try: python -c 'import {module}'"
    )
