"""ONNX models as black boxes, run by onnxruntime.

Three things are read off the graph, since a running model does not say them: which input is which attribute, what its
labels are called, and whether a score is a probability or a logit.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.errors import EvenhandError, MissingExtraError, ModelError
from evenhand.models import replies
from evenhand.models.blackbox.questions import probe_individuals, refusal_error, summarize_error
from evenhand.models.readers.onnx_signature import OnnxOutputs, check_inputs, input_feeds, read_outputs
from evenhand.models.replies import Reply, match_labels
from evenhand.models.scorer import ask_in_batches
from evenhand.schema import Schema, Value
from evenhand.typing import Floats, Integers


@dataclass(frozen=True, eq=False)
class OnnxModel:
    """An ONNX model. It takes one tensor with all attributes, or one input per attribute, by name.

    One tensor of numbers gets each attribute by its encoding in the schema; one of strings gets the data's own words.
    An input of its own gets the attribute's word or number as it stands in the data, or, where the input is numeric and
    the values are words, the number that the encoding gives. Labels are the model's own where it gives them; a lone
    score decides for the second label above 1/2 (a logit: above 0).

    Attributes:
        schema: what its individuals are.
        source: the file, or its content.
        classes: the labels, in the order of the scores.
        favourable: position of the favourable label in ``classes``.
        name: how to call it in a report.
        session: the running model.
        reads: where it gives what.
        softmax: whether its several scores are logits.
        rows: the number of individuals that a model exported for a fixed number takes at once.
    """

    schema: Schema
    source: Path | bytes
    classes: tuple[Value, ...]
    favourable: int
    name: str
    session: Any
    reads: OnnxOutputs
    softmax: bool = False
    rows: int | None = None

    @property
    def label_only(self) -> bool:
        """Whether the model gives labels and nothing else."""
        return self.reads.score is None

    def scores(self, individuals: Floats) -> Floats:
        """Return probabilities (of logits: their sigmoid or softmax), shape (n, classes).

        Raises:
            ModelError: the model fails, or gives no scores.
        """
        return self.reply(individuals).scores

    def predict(self, individuals: Floats) -> Integers:
        """Return the model's own labels where it gives them, as positions in ``classes``, shape (n,).

        Raises:
            ModelError: the model fails, or gives no labels.
        """
        return self.reply(individuals).labels

    def reply(self, individuals: Floats) -> Reply:
        """Return the scores and labels with one run."""
        given = ask_in_batches(self._run, individuals, self.rows)
        labels, raw = given[:, 0].astype(np.int64), given[:, 1:]
        if not np.isfinite(raw).all():
            row = int(np.argmax(~np.isfinite(raw).all(axis=1)))
            raise ModelError(
                f"the model gave {raw[row].tolist()} for individual {row + 1} of a batch", location=self.name
            )
        if raw.shape[1] == 0:
            return replies.label_reply(labels, len(self.classes))
        if raw.shape[1] == 1:
            second = raw[:, 0] if self.reads.probable else replies.sigmoid(raw[:, 0])
            scores = np.stack([1 - second, second], axis=1)
            decided = raw[:, 0] > (0.5 if self.reads.probable else 0.0)
        else:
            scores = replies.softmax(raw) if self.softmax else raw
            decided = np.argmax(raw, axis=1)
        reply = replies.score_reply(scores, len(self.classes), location=self.name)
        return Reply(reply.scores, decided.astype(np.int64) if self.reads.label is None else labels, False)

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
        array = array.reshape(n, -1) if array.size and array.shape[0] == n else array
        if array.ndim != 2 or array.shape[0] != n:
            raise ModelError(f"the model gave scores of shape {array.shape} for {n} individuals", location=self.name)
        return array


def open_onnx(source: Path | bytes, schema: Schema, *, name: str | None = None) -> OnnxModel:
    """Open an ONNX model.

    Args:
        source: a file, or its content.
        schema: what its individuals are.
        name: how to call it in a report.

    Raises:
        ModelError: it is damaged, takes other inputs than the schema describes, or gives other labels.
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
        reads = read_outputs(_read_graph(source), session, name)
        rows = _fixed_batch_size(session)
        check_inputs(session, schema, name)
    except EvenhandError:
        raise
    except Exception as error:
        raise ModelError(
            f"onnxruntime cannot run it: {summarize_error(error)}",
            location=name,
            hint="the file may be truncated, or newer than onnxruntime: export it again, with an older opset",
        ) from error
    if reads.names is not None:
        classes, favourable = match_labels(schema, reads.names, location=name)
    else:
        classes, favourable = replies.target_labels(schema)
    scorer = OnnxModel(schema, source, classes, favourable, name, session, reads, rows=rows)
    people = probe_individuals(schema)
    given = ask_in_batches(scorer._run, people, rows)
    labels, outputs = given[:, 0], given[:, 1:]
    count = outputs.shape[1]
    if count and reads.names is None:
        classes, favourable = replies.labels_of_outputs(schema, count, location=name)
    if count not in (0, len(classes)) and not (count == 1 and len(classes) == 2):
        raise ModelError(f"the model gives {count} scores for its {len(classes)} labels", location=name)
    softmax = count > 1 and bool((outputs < 0).any() or np.abs(outputs.sum(axis=1) - 1).max() > replies.SUM_TOLERANCE)
    if softmax and reads.label is not None and not np.array_equal(np.argmax(outputs, axis=1), labels):
        # margins of another order than the labels, as of a support vector machine exported by skl2onnx
        reads = replace(reads, score=None)
    scorer = OnnxModel(schema, source, classes, favourable, name, session, reads, softmax, rows)
    scorer.reply(people)
    return scorer


def _read_graph(source: Path | bytes) -> Any:
    try:
        import onnx
    except ImportError:
        raise MissingExtraError("onnx", extra="onnx", purpose="to read an ONNX model") from None
    if isinstance(source, bytes):
        return onnx.load_model_from_string(source).graph
    return onnx.load(str(source), load_external_data=False).graph


def _fixed_batch_size(session: Any) -> int | None:
    shape = session.get_inputs()[0].shape
    return shape[0] if shape and isinstance(shape[0], int) else None
