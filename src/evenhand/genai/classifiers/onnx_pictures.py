"""Classification of pictures by local ONNX models.

The layout of colours and the size of pictures are read from the model where possible. The labels, the kind of scores
and the scaling of colours must be stated: a model whose pictures are preprocessed differently than in training gives
wrong answers without an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.core.text import summarize_error
from evenhand.errors import MissingExtraError, ModelError, OptionError
from evenhand.genai.backends.generator import Item
from evenhand.genai.backends.pictures import Pixels, decode_picture, fit_pixels, import_pillow
from evenhand.genai.spec.pipeline_config import UNSCALED, PictureHead, PictureLayout

_TYPES = {
    "tensor(float)": np.float32,
    "tensor(float16)": np.float16,
    "tensor(double)": np.float64,
    "tensor(uint8)": np.uint8,
}

_ROUNDING = 0.01
"""Tolerance of probabilities outside 0 to 1, because of rounding in models with low precision."""


@dataclass(frozen=True)
class _HeadReader:
    """Head with its running model, and the properties read from the model."""

    group: str
    head: PictureHead
    session: Any
    output: str
    layout: PictureLayout
    size: tuple[int, int]
    dtype: Any

    @property
    def preparation(self) -> tuple[Any, ...]:
        """Key of the prepared input. Heads with equal keys share one run of their model."""
        head = self.head
        return (id(self.session), self.layout, self.size, head.fit, head.range, head.mean, head.std, head.colours)


class OnnxPictures:
    """Classifier of pictures by ONNX models. Heads with the same model and preparation share one run.

    Args:
        groups: Output of a model by concept group.
        folder: Folder of relative paths.

    Raises:
        OptionError: There is no group.
        ModelError: A file is not an ONNX model of pictures, or its outputs do not match the labels.
        MissingExtraError: onnxruntime or Pillow is not installed.
    """

    def __init__(self, groups: Mapping[str, PictureHead], *, folder: str | Path | None = None) -> None:
        if not groups:
            raise OptionError("a picture classifier requires at least one concept group")
        import_pillow()
        sessions: dict[Path, Any] = {}
        self._runs: dict[tuple[Any, ...], list[_HeadReader]] = {}
        for group, head in groups.items():
            path = (Path(folder or ".") / head.file).resolve()
            if path not in sessions:
                sessions[path] = _open_model(path)
            reader = _build_reader(group, head, sessions[path], name=path.name)
            self._runs.setdefault(reader.preparation, []).append(reader)
        self._groups = tuple(groups)

    def classify(self, item: Item) -> dict[str, str | None]:
        """Return the most probable value of each group. None if there is a tie or it is below the threshold.

        Raises:
            DataError: The item is not a picture that can be decoded.
            ModelError: A model failed, or its scores are not probabilities.
        """
        probabilities = self.probabilities(item)
        values: dict[str, str | None] = dict.fromkeys(self._groups)
        for reader in chain.from_iterable(self._runs.values()):
            own = probabilities[reader.group]
            best = max(own.values())
            likely = [value for value, probability in own.items() if probability == best]
            if len(likely) == 1 and best >= reader.head.threshold:
                values[reader.group] = likely[0]
        return values

    def probabilities(self, item: Item) -> dict[str, dict[str, float]]:
        """Compute the probability of each value by group. Raises the errors of ``classify``."""
        pixels = decode_picture(item)
        probabilities: dict[str, dict[str, float]] = {}
        for readers in self._runs.values():
            answers = _run_model(readers[0], pixels, list(dict.fromkeys(reader.output for reader in readers)))
            probabilities |= {
                reader.group: _probabilities_by_value(reader, answers[reader.output]) for reader in readers
            }
        return probabilities


# ---- the file


def _open_model(path: Path) -> Any:
    """Load a model."""
    try:
        import onnxruntime
    except ImportError:
        raise MissingExtraError(
            "onnxruntime", extra="onnx", purpose="to classify pictures with an ONNX model"
        ) from None
    if not path.is_file():
        raise ModelError("there is no such file", location=str(path))
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"], enable_fallback=0)
    except Exception as error:
        raise ModelError(
            f"onnxruntime cannot run it: {summarize_error(error)}",
            location=path.name,
            hint="the file may be truncated, or newer than onnxruntime",
        ) from error


def _build_reader(group: str, head: PictureHead, session: Any, *, name: str) -> _HeadReader:
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
        raise ModelError(
            f"the model takes {shape[0]} pictures at once", location=name, hint="export it with a batch size of 1"
        )
    dtype = _TYPES[inputs[0].type]
    if dtype is np.uint8 and (head.range, head.mean, head.std) != UNSCALED:
        raise ModelError("range, mean and std do not apply to a model that takes colours as bytes", location=name)
    layout = _detect_layout(head, shape, name)
    size = _detect_size(head, shape[2:] if layout == "nchw" else shape[1:3], name)
    return _HeadReader(group, head, session, _choose_output(head, session, name), layout, size, dtype)


def _detect_layout(head: PictureHead, shape: list[int | None], name: str) -> PictureLayout:
    axes: dict[PictureLayout, int | None] = {"nchw": shape[1], "nhwc": shape[3]}
    layouts = [layout for layout, colours in axes.items() if colours == 3] if head.layout is None else [head.layout]
    if len(layouts) != 1 or axes[layouts[0]] not in (3, None):
        raise ModelError(
            f"the axis of colours is unclear for pictures {shape} with layout {head.layout}",
            location=name,
            hint="set layout: nchw or nhwc",
        )
    return layouts[0]


def _detect_size(head: PictureHead, sides: list[int | None], name: str) -> tuple[int, int]:
    sizes = []
    for side, stated in zip(sides, head.size or (None, None), strict=True):
        if side is not None and stated not in (side, None):
            raise ModelError(
                f"the model's pictures are {sides[0]} x {sides[1]}, and size is {head.size}", location=name
            )
        sizes.append(side or stated)
    height, width = sizes
    if height is None or width is None:
        raise ModelError(
            "the model does not state the size of its pictures",
            location=name,
            hint="set the size used in training, such as size: 224",
        )
    return height, width


def _choose_output(head: PictureHead, session: Any, name: str) -> str:
    widths: dict[str, int | None] = {entry.name: _score_width(entry.shape) for entry in session.get_outputs()}
    fits = [len(head.labels), *([1] if len(head.labels) == 2 else [])]
    outputs = [output for output, width in widths.items() if width in (*fits, None) and head.output in (output, None)]
    # An output of the right width is preferred to outputs of unknown width.
    outputs = [output for output in outputs if widths[output] is not None] or outputs
    if len(outputs) != 1:
        listed = ", ".join(f"{output} ({'?' if width is None else width})" for output, width in widths.items())
        named = f" named {head.output!r}" if head.output else ""
        raise ModelError(
            f"{len(outputs)} outputs of the model{named} can have the scores of {len(head.labels)} labels",
            location=name,
            hint=f"name one as output, and as many labels as it has scores: {listed}",
        )
    return outputs[0]


def _score_width(shape: list[Any]) -> int | None:
    """Compute the number of scores per picture. None if the model does not state it."""
    sizes = shape[1:]
    return prod(sizes) if all(isinstance(size, int) and size >= 1 for size in sizes) else None


# ---- a picture


def _run_model(reader: _HeadReader, pixels: Pixels, outputs: list[str]) -> dict[str, NDArray[Any]]:
    head = reader.head
    picture = fit_pixels(pixels, reader.size, head.fit)
    colours: NDArray[Any] = picture
    if reader.dtype is not np.uint8:
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
        raise ModelError(f"{reader.output!r} returned {scores.size} scores for {len(labels)} labels", location=name)
    if not np.isfinite(scores).all():
        raise ModelError(f"{reader.output!r} returned scores that are not numbers", location=name)
    if reader.head.scores == "softmax" and not single:
        powers = np.exp(scores - scores.max())
        scores = powers / powers.sum()
    elif reader.head.scores != "probabilities":
        scores = 1 / (1 + np.exp(-np.clip(scores, -500, 500)))
    if scores.min() < -_ROUNDING or scores.max() > 1 + _ROUNDING:
        raise ModelError(
            f"{reader.output!r} returned scores from {scores.min():.3g} to {scores.max():.3g}, not probabilities",
            location=name,
            hint="set scores: softmax or sigmoid",
        )
    probabilities = dict.fromkeys(reader.head.values, 0.0)
    for label, probability in zip(labels, (1 - scores[0], scores[0]) if single else scores, strict=True):
        if label is not None:
            probabilities[label] += float(probability)
    return probabilities
