"""Classification of pictures by local ONNX models.

The layout of colours, the size of pictures and the kind of scores are read from the graph where possible. The labels
and the scaling of colours must be stated: a model whose pictures are prepared differently than in its training still
answers, but wrongly.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, model_validator

from evenhand.core.config import check_configuration
from evenhand.core.text import summarize_error
from evenhand.errors import MissingExtraError, ModelError, OptionError
from evenhand.genai.backends.generator import Item
from evenhand.genai.backends.pictures import FitMethod, Pixels, decode_picture, fit_pixels

PictureLayout: TypeAlias = Literal["nchw", "nhwc"]
ScoreKind: TypeAlias = Literal["probabilities", "softmax", "sigmoid"]

_TYPES = {
    "tensor(float)": np.float32,
    "tensor(float16)": np.float16,
    "tensor(double)": np.float64,
    "tensor(uint8)": np.uint8,
}

_PROBABILITIES = frozenset(
    {"Sigmoid", "Softmax", "LinearClassifier", "TreeEnsembleClassifier", "SVMClassifier", "Normalizer", "ZipMap"}
)
"""Operators whose results are probabilities."""

_SHAPING = frozenset(
    {"Cast", "Clip", "Concat", "Flatten", "Gather", "Identity", "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze"}
)
"""Operators that change the shape of their input, but not its numbers."""

_SUMS = frozenset({"Add", "Conv", "Gemm", "GlobalAveragePool", "LogSoftmax", "MatMul", "ReduceMean"})
"""Operators whose results, at the end of a graph, are intended for a softmax."""

_ROUNDING = 0.01
"""Tolerance of probabilities outside 0 to 1, since models with low precision round."""

_UNSCALED = ((0.0, 1.0), (0.0, 0.0, 0.0), (1.0, 1.0, 1.0))
"""Range, mean and standard deviation without scaling."""


class PictureHead(BaseModel):
    """Output of a model that classifies one concept group.

    Attributes:
        file: ONNX file.
        labels: Label of each score: a value of the concept group, or None if it is not a value. The probabilities of
            repeated values are added. With two labels, a single score is that of the second.
        output: Name of the output of the scores. Default: the only output of that width.
        scores: ``probabilities``, or scores that are converted by ``softmax`` or, each by itself, ``sigmoid``.
            Default: derived from the end of the graph.
        threshold: Minimum probability. Below it, the value is unknown.
        size: Height and width of pictures, or one number for both. Default: that of the graph.
        layout: ``nchw`` (colours before rows) or ``nhwc``. Default: derived from the axis of size 3.
        fit: Fit of pictures of another shape: ``stretch``, ``cover`` (the centre) or ``contain`` (on black).
        range: Numbers of black and white.
        mean: Numbers subtracted from red, green and blue, in that range.
        std: Divisors of the results.
        colours: ``rgb``, or ``bgr`` if blue is first.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    file: Path
    labels: tuple[str | None, ...] = Field(min_length=2)
    output: str | None = None
    scores: ScoreKind | None = None
    threshold: float = Field(0.5, ge=0, le=1)
    size: tuple[int, int] | None = None
    layout: PictureLayout | None = None
    fit: FitMethod = "stretch"
    range: tuple[float, float] = _UNSCALED[0]
    mean: tuple[float, float, float] = _UNSCALED[1]
    std: tuple[float, float, float] = _UNSCALED[2]
    colours: Literal["rgb", "bgr"] = "rgb"

    @model_validator(mode="before")
    @classmethod
    def _expand_size(cls, entries: Any) -> Any:
        if isinstance(entries, Mapping) and isinstance(entries.get("size"), int):
            return {**entries, "size": (entries["size"], entries["size"])}
        return entries

    @model_validator(mode="after")
    def _check_consistency(self) -> PictureHead:
        values = [label for label in self.labels if label is not None]
        if not values:
            raise ValueError("labels names no value")
        if self.scores == "sigmoid" and len(set(values)) < len(values):
            raise ValueError("sigmoid scores do not add up: name every value once")
        if min(self.std) <= 0:
            raise ValueError("std must be above 0")
        if self.size is not None and min(self.size) < 1:
            raise ValueError("size must be 1 or more")
        return self

    @property
    def values(self) -> tuple[str, ...]:
        """Values that it can name."""
        return tuple(dict.fromkeys(label for label in self.labels if label is not None))


@dataclass(frozen=True)
class _HeadReader:
    """Head with its running model, and the properties read from the graph."""

    group: str
    head: PictureHead
    session: Any
    output: str
    scores: ScoreKind
    layout: PictureLayout
    size: tuple[int, int]
    dtype: Any

    @property
    def preparation(self) -> tuple[Any, ...]:
        """Key of the prepared input. Heads with equal keys share one run of the model."""
        head = self.head
        return (id(self.session), self.layout, self.size, head.fit, head.range, head.mean, head.std, head.colours)


class OnnxPictures:
    """Classifier of pictures by ONNX models. Heads with the same model and preparation share one run.

    Args:
        groups: A ``PictureHead``, or its fields, by concept group.
        folder: Folder of relative paths.

    Raises:
        OptionError: There is no group, or a field is invalid.
        ModelError: A file is not an ONNX model of pictures, or its outputs do not match the labels.
        MissingExtraError: onnx or onnxruntime is not installed.
    """

    def __init__(
        self, groups: Mapping[str, PictureHead | Mapping[str, Any]], *, folder: str | Path | None = None
    ) -> None:
        if not groups:
            raise OptionError("a classifier of pictures needs at least one concept group")
        sessions: dict[Path, Any] = {}
        self._readers = []
        for group, entries in groups.items():
            head = entries if isinstance(entries, PictureHead) else read_head(entries, group)
            path = (Path(folder or ".") / head.file).resolve()
            if path not in sessions:
                sessions[path] = _open_model(path)
            self._readers.append(_build_reader(group, head, *sessions[path], name=path.name))

    @property
    def groups(self) -> dict[str, tuple[str, ...]]:
        """Values that it can name by concept group."""
        return {reader.group: reader.head.values for reader in self._readers}

    def classify(self, item: Item) -> dict[str, str | None]:
        """Return the most probable value of each group. None if it is tied or below the threshold.

        Raises:
            DataError: The item is not a picture that can be decoded.
            ModelError: A model failed, or its scores are not probabilities.
            MissingExtraError: The picture requires Pillow, which is not installed.
        """
        values: dict[str, str | None] = {}
        for reader, probabilities in zip(self._readers, self._probabilities(item), strict=True):
            best = max(probabilities.values())
            likely = [value for value, probability in probabilities.items() if probability == best]
            values[reader.group] = likely[0] if len(likely) == 1 and best >= reader.head.threshold else None
        return values

    def probabilities(self, item: Item) -> dict[str, dict[str, float]]:
        """Compute the probability of each value by group. Raises the errors of ``classify``."""
        return dict(zip((reader.group for reader in self._readers), self._probabilities(item), strict=True))

    def _probabilities(self, item: Item) -> list[dict[str, float]]:
        pixels = decode_picture(item)
        runs: dict[tuple[Any, ...], dict[str, NDArray[Any]]] = {}
        probabilities = []
        for reader in self._readers:
            if reader.preparation not in runs:
                outputs = [other.output for other in self._readers if other.preparation == reader.preparation]
                runs[reader.preparation] = _run_model(reader, pixels, list(dict.fromkeys(outputs)))
            probabilities.append(_probabilities_by_value(reader, runs[reader.preparation][reader.output]))
        return probabilities


def read_head(entries: Mapping[str, Any], location: str, hints: Mapping[str, str] | None = None) -> PictureHead:
    """Check the fields of a head.

    Raises:
        OptionError: A field is missing, unknown or invalid.
    """
    return check_configuration(
        lambda: PictureHead.model_validate(entries), PictureHead, location=location, hints=hints or {}
    )


# ---- the file


def _open_model(path: Path) -> tuple[Any, Any]:
    """Load a model, and return its session and graph."""
    try:
        import onnx
        import onnxruntime
    except ImportError as error:
        missing = error.name or "onnxruntime"
        raise MissingExtraError(missing, extra="onnx", purpose="to classify pictures with an ONNX model") from None
    if not path.is_file():
        raise ModelError("there is no such file", location=str(path))
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(
            str(path), options, providers=["CPUExecutionProvider"], enable_fallback=0
        )
        return session, onnx.load(str(path), load_external_data=False).graph
    except Exception as error:
        raise ModelError(
            f"onnxruntime cannot run it: {summarize_error(error)}",
            location=path.name,
            hint="the file may be truncated, or newer than onnxruntime",
        ) from error


def _build_reader(group: str, head: PictureHead, session: Any, graph: Any, *, name: str) -> _HeadReader:
    inputs = session.get_inputs()
    if len(inputs) != 1 or inputs[0].type not in _TYPES or len(inputs[0].shape) != 4:
        listed = ", ".join(f"{entry.name}: {entry.type} {entry.shape}" for entry in inputs)
        raise ModelError(
            f"expected a model with one input of pictures, got {listed}",
            location=name,
            hint="use a model whose input is (pictures, 3, height, width) or (pictures, height, width, 3)",
        )
    shape = [size if isinstance(size, int) and size > 0 else None for size in inputs[0].shape]
    if shape[0] not in (None, 1):
        raise ModelError(f"the model takes {shape[0]} pictures at once", location=name, hint="export it for one")
    dtype = _TYPES[inputs[0].type]
    if dtype is np.uint8 and (head.range, head.mean, head.std) != _UNSCALED:
        raise ModelError("range, mean and std do not apply to a model that takes colours as bytes", location=name)
    layout = _detect_layout(head, shape, name)
    size = _detect_size(head, shape[2:] if layout == "nchw" else shape[1:3], name)
    output = _choose_output(head, session, name)
    return _HeadReader(
        group, head, session, output, head.scores or _detect_scores(graph, output, name), layout, size, dtype
    )


def _detect_layout(head: PictureHead, shape: list[int | None], name: str) -> PictureLayout:
    axes: dict[PictureLayout, int | None] = {"nchw": shape[1], "nhwc": shape[3]}
    if head.layout is not None:
        if axes[head.layout] not in (3, None):
            raise ModelError(f"the model's pictures are {shape}, which is not {head.layout}", location=name)
        return head.layout
    layouts: list[PictureLayout] = [layout for layout, colours in axes.items() if colours == 3]
    if len(layouts) != 1:
        raise ModelError(
            f"the axis of colours is unclear for pictures {shape}", location=name, hint="say layout: nchw or nhwc"
        )
    return layouts[0]


def _detect_size(head: PictureHead, sides: list[int | None], name: str) -> tuple[int, int]:
    size = []
    for side, stated in zip(sides, head.size or (None, None), strict=True):
        if side is not None and stated not in (side, None):
            stated_size = " x ".join(map(str, head.size or ()))
            raise ModelError(f"the model's pictures are {sides[0]} x {sides[1]}, not {stated_size}", location=name)
        if (length := side or stated) is None:
            raise ModelError(
                "the model leaves the size of its pictures open",
                location=name,
                hint="say the size of its training, as size: 224",
            )
        size.append(length)
    return size[0], size[1]


def _choose_output(head: PictureHead, session: Any, name: str) -> str:
    widths: dict[str, int | None] = {entry.name: _score_width(entry.shape) for entry in session.get_outputs()}
    listed = ", ".join(f"{output} ({'?' if width is None else width})" for output, width in widths.items())
    fits = [len(head.labels), *([1] if len(head.labels) == 2 else [])]
    if head.output is not None:
        if head.output not in widths:
            raise ModelError(f"the model has no output {head.output!r}", location=name, hint=f"it has: {listed}")
        if widths[head.output] not in (*fits, None):
            raise ModelError(
                f"output {head.output!r} has {widths[head.output]} scores for {len(head.labels)} labels", location=name
            )
        return head.output
    outputs = [output for output, width in widths.items() if width in fits]
    outputs = outputs or [output for output, width in widths.items() if width is None]
    if len(outputs) != 1:
        raise ModelError(
            f"{len(outputs)} outputs of the model could have the scores of {len(head.labels)} labels",
            location=name,
            hint=f"name one as output, and as many labels as it has scores: {listed}",
        )
    return outputs[0]


def _score_width(shape: list[Any]) -> int | None:
    """Compute the number of scores per picture. None if it is open."""
    sizes = shape[1:]
    return prod(sizes) if all(isinstance(size, int) and size >= 1 for size in sizes) else None


def _detect_scores(graph: Any, output: str, name: str) -> ScoreKind:
    """Derive the kind of scores from the last operator of a graph."""
    nodes = {result: node for node in graph.node for result in node.output}
    while output in nodes and nodes[output].op_type in _SHAPING:
        output = nodes[output].input[0]
    end = nodes[output].op_type if output in nodes else "nothing"
    if end in _PROBABILITIES:
        return "probabilities"
    if end in _SUMS:
        return "softmax"
    raise ModelError(
        f"the graph ends in {end}, which does not determine the kind of its scores",
        location=name,
        hint="say scores: probabilities, softmax or sigmoid",
    )


# ---- a picture


def _run_model(reader: _HeadReader, pixels: Pixels, outputs: list[str]) -> dict[str, NDArray[Any]]:
    head = reader.head
    picture = fit_pixels(pixels, reader.size, head.fit)
    if reader.dtype is np.uint8:
        colours = np.rint(picture)
    else:
        low, high = head.range
        colours = (low + (high - low) / 255 * picture - np.asarray(head.mean)) / np.asarray(head.std)
    if head.colours == "bgr":
        colours = colours[:, :, ::-1]
    if reader.layout == "nchw":
        colours = colours.transpose(2, 0, 1)
    feed = {reader.session.get_inputs()[0].name: np.ascontiguousarray(colours[None], dtype=reader.dtype)}
    try:
        answers = reader.session.run(outputs, feed)
    except Exception as error:
        raise ModelError(f"onnxruntime cannot run it: {summarize_error(error)}", location=head.file.name) from error
    return dict(zip(outputs, answers, strict=True))


def _probabilities_by_value(reader: _HeadReader, answer: NDArray[Any]) -> dict[str, float]:
    labels, name = reader.head.labels, reader.head.file.name
    scores = np.asarray(answer, dtype=np.float64).reshape(-1)
    single = scores.size == 1 and len(labels) == 2
    if scores.size != len(labels) and not single:
        raise ModelError(f"{reader.output!r} gave {scores.size} scores for {len(labels)} labels", location=name)
    if not np.isfinite(scores).all():
        raise ModelError(f"{reader.output!r} gave scores that are not numbers", location=name)
    if reader.scores == "softmax" and not single:
        powers = np.exp(scores - scores.max())
        scores = powers / powers.sum()
    elif reader.scores != "probabilities":
        scores = 1 / (1 + np.exp(-np.clip(scores, -500, 500)))
    if scores.min() < -_ROUNDING or scores.max() > 1 + _ROUNDING:
        raise ModelError(
            f"{reader.output!r} gave scores from {scores.min():.3g} to {scores.max():.3g}, which are not probabilities",
            location=name,
            hint="say scores: softmax or sigmoid",
        )
    probabilities = dict.fromkeys(reader.head.values, 0.0)
    for label, probability in zip(labels, (1 - scores[0], scores[0]) if single else scores, strict=True):
        if label is not None:
            probabilities[label] += float(probability)
    return probabilities
