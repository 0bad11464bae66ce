"""Black boxes of ONNX, run by onnxruntime.

The graph names the attribute of each input and, in some models, the labels. Whether scores are probabilities is
inferred from their values (see ``evenhand.models.outputs``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.core.text import summarize_error
from evenhand.core.typing import Floats, Integers
from evenhand.errors import EvenhandError, MissingExtraError, ModelError
from evenhand.models import replies
from evenhand.models.blackbox.base import LabelModel, LoadRequest, probe_individuals, refusal_error, settle_outputs
from evenhand.models.outputs import OutputReading, reference_people
from evenhand.models.readers.onnx_signature import (
    OnnxOutputs,
    attribute_for_input,
    check_inputs,
    encoded_attributes,
    find_outputs,
    input_feeds,
    input_layout,
)
from evenhand.models.replies import Answers, MatchedLabels, check_finite, match_labels, same_label
from evenhand.models.scorer import ask_in_batches
from evenhand.schema.attribute import Attribute


@dataclass(frozen=True, eq=False, kw_only=True)
class OnnxModel(LabelModel):
    """An ONNX model. It takes one tensor with all attributes, or one named input per attribute. A numeric tensor
    receives encoded attributes; a string tensor receives the data's values. A single-attribute input receives the
    value, or its code if the input is numeric and the values are strings. Labels are the model's own, if any; otherwise
    they follow from the scores.

    Attributes:
        source: File, or its content.
        session: Inference session.
        reads: Names of the label and score outputs.
        rows: Batch size of a model exported with a fixed batch size.
    """

    source: Path | bytes
    session: Any
    reads: OnnxOutputs
    rows: int | None = None

    @property
    def output_class(self) -> int:
        """Position of the label that a single score refers to."""
        return 1

    @property
    def encoded_attributes(self) -> Sequence[Attribute]:
        """Attributes that the model receives as encoded numbers."""
        return encoded_attributes(self.session, self.schema)

    def ask(self, individuals: Floats) -> Answers:
        """Run the model once and return its labels and scores, if any.

        Raises:
            ModelError: The model fails or returns non-finite scores.
        """
        results = ask_in_batches(self._run, individuals, self.rows)
        check_finite(results[:, 1:], location=self.name)
        return Answers(
            None if self.reads.label is None else results[:, 0].astype(np.int64),
            None if self.reads.score is None else results[:, 1:],
        )

    def _run(self, individuals: Floats) -> Floats:
        """Run the model and return label positions (0 without labels) and scores, shape (n, 1 + scores)."""
        feeds = input_feeds(self.session, self.schema, individuals, self.name)
        names = [name for name in (self.reads.label, self.reads.score) if name is not None]
        try:
            results = dict(zip(names, self.session.run(names, feeds), strict=True))
        except Exception as error:
            raise refusal_error(error, location=self.name) from error
        n = len(individuals)
        positions, scores = np.zeros(n, dtype=np.int64), np.empty((n, 0))
        if self.reads.label is not None:
            positions = self._positions(np.asarray(results[self.reads.label]), n)
        if self.reads.score is not None:
            scores = self._raw_scores(results[self.reads.score], n)
        return np.column_stack([positions, scores])

    def _positions(self, labels: NDArray[Any], n: int) -> Integers:
        labels = labels.reshape(-1)
        if self.reads.position and len(labels) == n and ((labels >= 0) & (labels < len(self.classes))).all():
            return labels.astype(np.int64)
        if self.reads.names is None and self.guessed and np.isin(labels, (0, 1)).all() and len(labels) == n:
            return np.where(labels == 1, self.favourable, 1 - self.favourable).astype(np.int64)
        if self.reads.names is None:
            return replies.read_labels(labels, n, self.classes, self.favourable, location=self.name)
        return replies.find_positions(labels, self.reads.names, n, location=self.name)

    def _raw_scores(self, scores: Any, n: int) -> Floats:
        if isinstance(scores, list):
            scores = [[row[name] for name in self.reads.names or sorted(row)] for row in scores]
        array = np.asarray(scores, dtype=np.float64)
        array = array.reshape(n, -1) if array.size and (n == 1 or array.shape[0] == n) else array
        if array.ndim != 2 or array.shape[0] != n:
            raise ModelError(
                f"the model returned scores of shape {array.shape} for {n} individuals", location=self.name
            )
        return array


def open_onnx(source: Path | bytes, request: LoadRequest) -> OnnxModel:
    """Open an ONNX model.

    Args:
        source: File, or its content.
        request: Schema and options. The outputs are inspected on the data, in addition to the domain of the schema.

    Raises:
        ModelError: The model is damaged, or its inputs or labels do not match the schema; or the
            meaning of its scores is ambiguous.
        MissingExtraError: onnx or onnxruntime is not installed.
    """
    schema = request.schema
    name = request.name or (source.name if isinstance(source, Path) else "ONNX model")
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
            enable_fallback=0,  # onnxruntime would otherwise print warnings
        )
        reads = find_outputs(_read_graph(source), session, name)
        check_inputs(session, schema, name)
        first, shape = session.get_inputs()[0].name, session.get_inputs()[0].shape
        rows = shape[0] if shape and isinstance(shape[0], int) else None
        one_tensor = len(session.get_inputs()) == 1 and attribute_for_input(first, schema) is None
        rows = 1 if one_tensor and input_layout(shape, schema.width) else rows
    except EvenhandError:
        raise
    except Exception as error:
        raise ModelError(
            f"onnxruntime cannot run the model: {summarize_error(error)}",
            location=name,
            hint="the file may be truncated, or newer than onnxruntime: export it again, with an older opset",
        ) from error
    if reads.names is not None:
        labels = match_labels(schema, reads.names, location=name)
    else:
        classes, favourable = replies.target_labels(schema)
        kinds = {output.name: output.type for output in session.get_outputs()}
        gives_numbers = kinds.get(reads.label) not in (None, "tensor(string)", "tensor(bool)")
        lists_numbers = any(same_label(number, label) for number in (0, 1) for label in classes)
        guessed = reads.position or (gives_numbers and len(classes) == 2 and not lists_numbers)
        labels = MatchedLabels(classes, favourable, guessed)
    model = OnnxModel(
        schema=schema,
        name=name,
        source=source,
        session=session,
        reads=reads,
        rows=rows,
        labelled=reads.label is not None,
        **labels._asdict(),
    )
    if reads.score is None:
        model.ask(probe_individuals(schema))
        return model
    people = reference_people(schema, request.like)
    answers = model.ask(people.individuals)
    assert answers.outputs is not None  # find_outputs ensures an output with scores
    count = answers.outputs.shape[1]
    if reads.names is None:
        classes, favourable = replies.labels_of_outputs(schema, count, location=name)
        model = replace(model, classes=classes, favourable=favourable)
    if count != len(model.classes) and not (count == 1 and len(model.classes) == 2):
        raise ModelError(f"the model returns {count} scores for its {len(model.classes)} labels", location=name)
    if answers.labels is not None:
        return _explain_labels(model, answers.labels, answers.outputs)
    truth = people.truth if reads.names is None else np.full_like(people.truth, -1)
    return settle_outputs(model, answers.outputs, truth, request.output)


def _explain_labels(model: OnnxModel, labels: Integers, scores: Floats) -> OnnxModel:
    """Interpret scores consistently with the label output. Margins in a different order, as from support vector
    machines exported by skl2onnx, are dropped.
    """
    evidence = "the labels returned by the model"
    for reading in (OutputReading("probability", evidence), OutputReading("score", evidence)):
        try:
            explained = reading.reply(scores, model.classes, model.output_class, location=model.name).labels
        except ModelError:
            continue
        if np.array_equal(explained, labels) or (scores.shape[1] > 1 and reading.kind == "probability"):
            return replace(model, reading=reading)
    return replace(model, reads=replace(model.reads, score=None))


def _read_graph(source: Path | bytes) -> Any:
    try:
        import onnx
    except ImportError:
        raise MissingExtraError("onnx", extra="onnx", purpose="to read an ONNX model") from None
    if isinstance(source, bytes):
        return onnx.load_model_from_string(source).graph
    return onnx.load(str(source), load_external_data=False).graph
