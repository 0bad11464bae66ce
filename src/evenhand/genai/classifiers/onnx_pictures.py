"""Pictures classified by ONNX models in files, on this machine.

What a graph says of itself is read off it: where the colours stand, the size of its pictures, and whether its scores
are probabilities. The rest has to be said, above all the labels and how colours become numbers: a model that is shown
its pictures in another way than it was trained with answers all the same, and wrongly.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
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
"""Operators that change the shape of their input and not its numbers."""

_SUMS = frozenset({"Add", "Conv", "Gemm", "GlobalAveragePool", "LogSoftmax", "MatMul", "ReduceMean"})
"""Operators whose results, at the end of a graph, are made for a softmax."""

_ROUNDING = 0.01
"""A probability may be so far outside of 0 to 1 and be one, as models with small numbers round."""


_AS_IT_IS = ((0.0, 1.0), (0.0, 0.0, 0.0), (1.0, 1.0, 1.0))


class PictureHead(BaseModel):
    """How one concept group is read from a model.

    Attributes:
        file: the ONNX file.
        labels: what each of its scores stands for, in their order: a value of the concept group, as often as needed
            (the probabilities are added), or None for what is not a value. One score for two labels is the second's.
        output: the output that has the scores; by default the only one of that width.
        scores: ``probabilities``, or numbers that ``softmax`` or, each by itself, ``sigmoid`` makes probabilities of;
            by default as the graph ends.
        threshold: below this probability it cannot tell.
        size: height and width of its pictures, or one number for both, where the graph leaves them open.
        layout: ``nchw`` (colours before rows) or ``nhwc``; by default where the graph has an axis of three.
        fit: how a picture of another shape is fitted: ``stretch``, ``cover`` (its middle) or ``contain`` (on black).
        range: what black and white become.
        mean: subtracted from red, green and blue, in that range.
        std: what they are divided by then.
        colours: ``rgb``, or ``bgr`` where blue stands first.
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
    range: tuple[float, float] = _AS_IT_IS[0]
    mean: tuple[float, float, float] = _AS_IT_IS[1]
    std: tuple[float, float, float] = _AS_IT_IS[2]
    colours: Literal["rgb", "bgr"] = "rgb"

    @model_validator(mode="before")
    @classmethod
    def _one_size(cls, given: Any) -> Any:
        if isinstance(given, Mapping) and isinstance(given.get("size"), int):
            return {**given, "size": (given["size"], given["size"])}
        return given

    @model_validator(mode="after")
    def _check_consistency(self) -> PictureHead:
        values = [label for label in self.labels if label is not None]
        if not values:
            raise ValueError("labels names no value")
        if self.scores == "sigmoid" and len(set(values)) < len(values):
            raise ValueError("scores that are sigmoids, each by itself, do not add up: name every value once")
        if min(self.std) <= 0:
            raise ValueError("std must be above 0")
        if self.size is not None and min(self.size) < 1:
            raise ValueError("size must be 1 or more")
        return self

    @property
    def values(self) -> tuple[str, ...]:
        """The values that it can name."""
        return tuple(dict.fromkeys(label for label in self.labels if label is not None))


@dataclass(frozen=True)
class _HeadReader:
    """A head, the running model and what was read off it."""

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
        """What the model's input depends on, apart from the picture; equal for heads that one run serves."""
        head = self.head
        return (id(self.session), self.layout, self.size, head.fit, head.range, head.mean, head.std, head.colours)


class OnnxPictures:
    """Looks at pictures with ONNX models. One run of a model serves all concept groups that are read from it alike.

    Args:
        groups: by concept group, how it is read: a ``PictureHead``, or its fields.
        folder: where files that are named by a relative path lie.

    Raises:
        OptionError: no group, or fields that make no sense.
        ModelError: a file is not an ONNX model, takes no pictures, or its outputs do not fit the labels.
        MissingExtraError: onnx or onnxruntime is not installed.
    """

    def __init__(
        self, groups: Mapping[str, PictureHead | Mapping[str, Any]], *, folder: str | Path | None = None
    ) -> None:
        if not groups:
            raise OptionError("a classifier of pictures needs at least one concept group")
        sessions: dict[Path, Any] = {}
        self._readers = []
        for group, given in groups.items():
            head = given if isinstance(given, PictureHead) else _check_head(group, given)
            path = (Path(folder or ".") / head.file).resolve()
            if path not in sessions:
                sessions[path] = _open_model(path)
            self._readers.append(_build_reader(group, head, *sessions[path], name=path.name))

    @property
    def groups(self) -> dict[str, tuple[str, ...]]:
        """The values that it can name, by concept group."""
        return {reader.group: reader.head.values for reader in self._readers}

    def classify(self, item: Item) -> dict[str, str | None]:
        """Return the value of every group; None where no value is as probable as its threshold.

        Raises:
            DataError: the item is not a picture, or cannot be decoded.
            ModelError: a model failed, or its scores are not probabilities.
            MissingExtraError: the picture needs Pillow, which is not installed.
        """
        return {
            reader.group: _choose_value(found, reader.head.threshold)
            for reader, found in zip(self._readers, self._probabilities(item), strict=True)
        }

    def probabilities(self, item: Item) -> dict[str, dict[str, float]]:
        """Return the probability of each value, by group, for choosing thresholds. Raises as ``classify`` does."""
        return dict(zip((reader.group for reader in self._readers), self._probabilities(item), strict=True))

    def _probabilities(self, item: Item) -> list[dict[str, float]]:
        pixels = decode_picture(item)
        runs: dict[tuple[Any, ...], dict[str, NDArray[Any]]] = {}
        found = []
        for reader in self._readers:
            if reader.preparation not in runs:
                wanted = [other.output for other in self._readers if other.preparation == reader.preparation]
                runs[reader.preparation] = _run_model(reader, pixels, list(dict.fromkeys(wanted)))
            found.append(_probabilities_by_value(reader, runs[reader.preparation][reader.output]))
        return found


def _choose_value(found: Mapping[str, float], threshold: float) -> str | None:
    best = max(found, key=lambda value: found[value])
    tied = sum(probability == found[best] for probability in found.values()) > 1
    return None if tied or found[best] < threshold else best


def _check_head(group: str, given: Mapping[str, Any]) -> PictureHead:
    return check_configuration(lambda: PictureHead.model_validate(given), PictureHead, location=group)


# ---- the file


def _open_model(path: Path) -> tuple[Any, Any]:
    """Return the running model and its graph."""
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
    given = session.get_inputs()
    if len(given) != 1 or given[0].type not in _TYPES or len(given[0].shape) != 4:
        inputs = ", ".join(f"{one.name}: {one.type} {one.shape}" for one in given)
        raise ModelError(
            f"the model takes no pictures alone: {inputs}",
            location=name,
            hint="It must have one input (pictures, 3, height, width) or (pictures, height, width, 3).",
        )
    shape = [size if isinstance(size, int) and size > 0 else None for size in given[0].shape]
    if shape[0] not in (None, 1):
        raise ModelError(f"the model takes {shape[0]} pictures at once", location=name, hint="export it for one")
    if given[0].type == "tensor(uint8)" and (head.range, head.mean, head.std) != _AS_IT_IS:
        raise ModelError("the model takes colours as bytes: range, mean and std have no place", location=name)
    layout = _detect_layout(head, shape, name)
    size = _detect_size(head, shape[2:] if layout == "nchw" else shape[1:3], name)
    output = _choose_output(head, session, name)
    scores: ScoreKind = head.scores or _detect_scores(graph, output, name)
    return _HeadReader(group, head, session, output, scores, layout, size, _TYPES[given[0].type])


def _detect_layout(head: PictureHead, shape: list[int | None], name: str) -> PictureLayout:
    places: dict[PictureLayout, int | None] = {"nchw": shape[1], "nhwc": shape[3]}
    if head.layout is not None:
        if places[head.layout] not in (3, None):
            raise ModelError(f"the model's pictures are {shape}, which is not {head.layout}", location=name)
        return head.layout
    fitting: list[PictureLayout] = [layout for layout, colours in places.items() if colours == 3]
    if len(fitting) != 1:
        raise ModelError(
            f"where its colours stand cannot be seen from its pictures {shape}",
            location=name,
            hint="say layout: nchw or nhwc",
        )
    return fitting[0]


def _detect_size(head: PictureHead, sides: list[int | None], name: str) -> tuple[int, int]:
    wanted = head.size or (None, None)
    found = []
    for side, asked in zip(sides, wanted, strict=True):
        if side is not None and asked not in (side, None):
            raise ModelError(
                f"the model's pictures are {sides[0]} x {sides[1]}, not {wanted[0]} x {wanted[1]}", location=name
            )
        known = side or asked
        if known is None:
            raise ModelError(
                "the model leaves the size of its pictures open",
                location=name,
                hint="say the size that it was trained with, as size: 224",
            )
        found.append(known)
    return found[0], found[1]


def _choose_output(head: PictureHead, session: Any, name: str) -> str:
    widths: dict[str, int | None] = {one.name: _score_width(one.shape) for one in session.get_outputs()}
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
    fitting = [output for output, width in widths.items() if width in fits]
    fitting = fitting or [output for output, width in widths.items() if width is None]
    if len(fitting) != 1:
        raise ModelError(
            f"{len(fitting)} outputs of the model could have the scores of {len(head.labels)} labels",
            location=name,
            hint=f"name one as output, and as many labels as it has scores: {listed}",
        )
    return fitting[0]


def _score_width(shape: list[Any]) -> int | None:
    """Return the scores per picture: what all axes but the first come to."""
    width = 1
    for size in shape[1:]:
        if not isinstance(size, int) or size < 1:
            return None
        width *= size
    return width


def _detect_scores(graph: Any, output: str, name: str) -> ScoreKind:
    """Return what a graph makes of its last weighted sums."""
    made = {given: node for node in graph.node for given in node.output}
    while output in made and made[output].op_type in _SHAPING:
        output = made[output].input[0]
    end = made[output].op_type if output in made else "nothing"
    if end in _PROBABILITIES:
        return "probabilities"
    if end in _SUMS:
        return "softmax"
    raise ModelError(
        f"the graph ends in {end}, which does not say what its scores are",
        location=name,
        hint="say scores: probabilities, softmax or sigmoid",
    )


# ---- a picture


def _run_model(reader: _HeadReader, pixels: Pixels, outputs: list[str]) -> dict[str, NDArray[Any]]:
    head = reader.head
    picture = fit_pixels(pixels, reader.size, head.fit)
    if head.colours == "bgr":
        # Mean and deviation are said of red, green and blue, so only what goes in is turned round.
        mean, std, picture = head.mean[::-1], head.std[::-1], picture[:, :, ::-1]
    else:
        mean, std = head.mean, head.std
    if reader.dtype is np.uint8:
        given = np.rint(picture)
    else:
        low, high = head.range
        given = (low + (high - low) / 255 * picture - np.asarray(mean)) / np.asarray(std)
    if reader.layout == "nchw":
        given = given.transpose(2, 0, 1)
    feed = {reader.session.get_inputs()[0].name: np.ascontiguousarray(given[None], dtype=reader.dtype)}
    try:
        answers = reader.session.run(outputs, feed)
    except Exception as error:
        raise ModelError(f"onnxruntime cannot run it: {summarize_error(error)}", location=head.file.name) from error
    return dict(zip(outputs, answers, strict=True))


def _probabilities_by_value(reader: _HeadReader, answer: NDArray[Any]) -> dict[str, float]:
    labels = reader.head.labels
    raw = np.asarray(answer, dtype=np.float64).reshape(-1)
    if raw.size not in (len(labels), 1) or (raw.size == 1 and len(labels) != 2):
        raise ModelError(
            f"{reader.output!r} gave {raw.size} scores for {len(labels)} labels", location=reader.head.file.name
        )
    if not np.isfinite(raw).all():
        raise ModelError(f"{reader.output!r} gave scores that are not numbers", location=reader.head.file.name)
    alone = raw.size == 1
    if reader.scores == "softmax" and not alone:
        powers = np.exp(raw - raw.max())
        raw = powers / powers.sum()
    elif reader.scores != "probabilities":
        raw = 1 / (1 + np.exp(-np.clip(raw, -500, 500)))
    if raw.min() < -_ROUNDING or raw.max() > 1 + _ROUNDING:
        raise ModelError(
            f"{reader.output!r} gave scores from {raw.min():.3g} to {raw.max():.3g}, no probabilities",
            location=reader.head.file.name,
            hint="say scores: softmax or sigmoid",
        )
    each = np.array([1 - raw[0], raw[0]]) if alone else raw
    found = dict.fromkeys(reader.head.values, 0.0)
    for label, probability in zip(labels, each, strict=True):
        if label is not None:
            found[label] += float(probability)
    return found


__all__ = ["OnnxPictures", "PictureHead", "PictureLayout", "ScoreKind"]
