"""ONNX models as black boxes, run by onnxruntime.

The graph names the attribute of each input and, in some models, the labels. The values of the scores decide whether
they are probabilities (see ``evenhand.models.outputs``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.core.typing import Floats, Integers
from evenhand.errors import EvenhandError, MissingExtraError, ModelError
from evenhand.models import replies
from evenhand.models.blackbox.questions import probe_individuals, refusal_error, summarize_error
from evenhand.models.outputs import OutputKind, OutputReading, check_finite, read_outputs, reference_people
from evenhand.models.readers.onnx_signature import (
    OnnxOutputs,
    attribute_for_input,
    check_inputs,
    find_outputs,
    input_feeds,
    input_layout,
)
from evenhand.models.replies import Reply, ReplyingScorer, match_labels, same_label
from evenhand.models.scorer import ask_in_batches
from evenhand.schema.attribute import Value
from evenhand.schema.schema import Schema


@dataclass(frozen=True, eq=False)
class OnnxModel(ReplyingScorer):
    """An ONNX model. It takes one tensor with all attributes, or one input per attribute, by name.

    One tensor of numbers gets each attribute by its encoding in the schema; one of strings gets the data's own words.
    An input of its own gets the attribute's word or number as it stands in the data, or, where the input is numeric and
    the values are words, the number that the encoding gives. Labels are the model's own where it gives them; else the
    scores decide.

    Attributes:
        schema: what its individuals are.
        source: the file, or its content.
        classes: the labels, in the order of the scores.
        favourable: position of the favourable label in ``classes``.
        name: how to call it in a report.
        session: the running model.
        reads: its outputs with labels and scores.
        reading: the meaning of its scores; None without scores.
        rows: the number of individuals that a model exported for a fixed number takes at once.
        guessed: whether the model answers with numbers that are not labels of the target.
        caution: assumptions about its outputs, for reports.
    """

    schema: Schema
    source: Path | bytes
    classes: tuple[Value, ...]
    favourable: int
    name: str
    session: Any
    reads: OnnxOutputs
    reading: OutputReading | None = None
    rows: int | None = None
    guessed: bool = False
    caution: str = ""

    @property
    def label_only(self) -> bool:
        """Whether the model gives labels and nothing else."""
        return self.reading is None or (self.reading.label_only and self.reads.label is None)

    def reply(self, individuals: Floats) -> Reply:
        """Return the scores and labels with one run."""
        labels, raw = self.run(individuals)
        if self.reading is None:
            return replies.label_reply(labels, len(self.classes))
        reply = self.reading.reply(raw, self.classes, 1, location=self.name)
        return reply if self.reads.label is None else Reply(reply.scores, labels, False)

    def run(self, individuals: Floats) -> tuple[Integers, Floats]:
        """Return positions of labels (0 without a label output), shape (n,), and raw scores, shape (n, scores).

        Raises:
            ModelError: the model fails, or gives scores that are not finite.
        """
        given = ask_in_batches(self._run, individuals, self.rows)
        labels, raw = given[:, 0].astype(np.int64), given[:, 1:]
        check_finite(raw, location=self.name)
        return labels, raw

    def _run(self, individuals: Floats) -> Floats:
        """Return label positions (0 if the model gives none) and raw scores, shape (n, 1 + scores)."""
        asked = input_feeds(self.session, self.schema, individuals, self.name)
        wanted = [name for name in (self.reads.label, self.reads.score) if name is not None]
        try:
            given = dict(zip(wanted, self.session.run(wanted, asked), strict=True))
        except Exception as error:
            raise refusal_error(error, location=self.name) from error
        n = len(individuals)
        positions, scores = np.zeros(n, dtype=np.int64), np.empty((n, 0))
        if self.reads.label is not None:
            positions = self._positions(np.asarray(given[self.reads.label]), n)
        if self.reads.score is not None:
            scores = self._raw_scores(given[self.reads.score], n)
        return np.column_stack([positions, scores])

    def _positions(self, labels: NDArray[Any], n: int) -> Integers:
        labels = labels.reshape(-1)
        if self.reads.position and len(labels) == n and ((labels >= 0) & (labels < len(self.classes))).all():
            return labels.astype(np.int64)
        if self.reads.names is None and self.guessed and np.isin(labels, (0, 1)).all() and len(labels) == n:
            return np.where(labels == 1, self.favourable, 1 - self.favourable).astype(np.int64)
        if self.reads.names is None:
            return replies.read_reply(labels, n, self.classes, self.favourable, location=self.name).labels
        position = {name: i for i, name in enumerate(self.reads.names)}
        kinds, inverse = np.unique(labels, return_inverse=True)
        unknown = [label for label in kinds.tolist() if label not in position]
        if unknown or len(labels) != n:
            raise ModelError(
                f"the model gave {len(labels)} labels for {n} individuals, among them {kinds.tolist()[:5]}; its own "
                f"classes are {list(position)}",
                location=self.name,
            )
        return np.array([position[label] for label in kinds.tolist()], dtype=np.int64)[inverse]

    def _raw_scores(self, scores: Any, n: int) -> Floats:
        if isinstance(scores, list):
            scores = [[row[name] for name in self.reads.names or sorted(row)] for row in scores]
        array = np.asarray(scores, dtype=np.float64)
        array = array.reshape(n, -1) if array.size and (n == 1 or array.shape[0] == n) else array
        if array.ndim != 2 or array.shape[0] != n:
            raise ModelError(f"the model gave scores of shape {array.shape} for {n} individuals", location=self.name)
        return array


def open_onnx(
    source: Path | bytes,
    schema: Schema,
    *,
    data: Any = None,
    name: str | None = None,
    output: OutputKind | None = None,
) -> OnnxModel:
    """Open an ONNX model.

    Args:
        source: a file, or its content.
        schema: what its individuals are.
        data: data frame on which the outputs are looked at, besides the domain of the schema.
        name: how to call it in a report.
        output: meaning of its scores; None to decide it by their values.

    Raises:
        ModelError: it is damaged, takes other inputs than the schema describes, or gives other labels; or the meaning
            of its scores is open.
        MissingExtraError: onnx or onnxruntime is not installed.
    """
    name = name or (source.name if isinstance(source, Path) else "ONNX model")
    try:
        import onnxruntime
    except ImportError:
        raise MissingExtraError("onnxruntime", extra="onnx", purpose="to run an ONNX model") from None
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(
            str(source) if isinstance(source, Path) else source,
            options,
            providers=["CPUExecutionProvider"],
            enable_fallback=0,  # which would print
        )
        reads = find_outputs(_read_graph(source), session, name)
        check_inputs(session, schema, name)
        rows = _fixed_batch_size(session, schema)
    except EvenhandError:
        raise
    except Exception as error:
        raise ModelError(
            f"onnxruntime cannot run it: {summarize_error(error)}",
            location=name,
            hint="the file may be truncated, or newer than onnxruntime: export it again, with an older opset",
        ) from error
    guessed = False
    if reads.names is not None:
        classes, favourable, guessed = match_labels(schema, reads.names, location=name)
    else:
        classes, favourable = replies.target_labels(schema)
        guessed = reads.position or (_gives_numbers(session, reads.label) and _lacks_zero_one(classes))
    scorer = OnnxModel(schema, source, classes, favourable, name, session, reads, rows=rows, guessed=guessed)
    if reads.score is None:
        scorer.reply(probe_individuals(schema))
        return scorer
    people = reference_people(schema, data)
    labels, scores = scorer.run(people.individuals)
    count = scores.shape[1]
    if reads.names is None:
        classes, favourable = replies.labels_of_outputs(schema, count, location=name)
    if count != len(classes) and not (count == 1 and len(classes) == 2):
        raise ModelError(f"the model gives {count} scores for its {len(classes)} labels", location=name)
    scorer = replace(scorer, classes=classes, favourable=favourable)
    if reads.label is not None:
        return _explain_labels(scorer, labels, scores)
    truth = people.truth if reads.names is None else np.full_like(people.truth, -1)
    reading = read_outputs(scores, truth, classes, 1, favourable, stated=output, location=name)
    return replace(scorer, reading=reading, caution=reading.describe(classes[1]) if count == 1 else "")


def _gives_numbers(session: Any, label: str | None) -> bool:
    """Return whether the output with the labels holds numbers."""
    kinds = {output.name: output.type for output in session.get_outputs()}
    return kinds.get(label) not in (None, "tensor(string)", "tensor(bool)")


def _lacks_zero_one(classes: Sequence[Value]) -> bool:
    """Return whether there are two labels, neither of which is 0 or 1."""
    return len(classes) == 2 and not any(same_label(number, label) for number in (0, 1) for label in classes)


def _explain_labels(scorer: OnnxModel, labels: Integers, scores: Floats) -> OnnxModel:
    """Return a model that gives labels beside scores, with a reading of the scores that explains the labels.

    Margins of another order than the labels, as of a support vector machine exported by skl2onnx, are left out.
    """
    evidence = "the labels that the model gives"
    for reading in (OutputReading("probability", evidence), OutputReading("score", evidence)):
        try:
            explained = reading.reply(scores, scorer.classes, 1, location=scorer.name).labels
        except ModelError:
            continue
        if np.array_equal(explained, labels) or (scores.shape[1] > 1 and reading.kind == "probability"):
            return replace(scorer, reading=reading)
    return replace(scorer, reads=replace(scorer.reads, score=None))


def _read_graph(source: Path | bytes) -> Any:
    try:
        import onnx
    except ImportError:
        raise MissingExtraError("onnx", extra="onnx", purpose="to read an ONNX model") from None
    if isinstance(source, bytes):
        return onnx.load_model_from_string(source).graph
    return onnx.load(str(source), load_external_data=False).graph


def _fixed_batch_size(session: Any, schema: Schema) -> int | None:
    inputs = session.get_inputs()
    shape = inputs[0].shape
    if len(inputs) == 1 and attribute_for_input(inputs[0].name, schema) is None and input_layout(shape, schema.width):
        return 1
    return shape[0] if shape and isinstance(shape[0], int) else None
