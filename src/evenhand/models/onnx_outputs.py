"""What the outputs of an ONNX graph are: labels, and scores that are probabilities or logits of those labels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from evenhand.errors import ModelError

SCORES = ("tensor(float)", "tensor(double)", "tensor(float16)", "seq(map(")

PROBABILITIES = frozenset(
    {"Sigmoid", "Softmax", "LinearClassifier", "TreeEnsembleClassifier", "SVMClassifier", "Normalizer", "ZipMap"}
)
SHAPING = frozenset({"Cast", "Clip", "Concat", "Flatten", "Gather", "Identity", "Reshape", "Slice", "Squeeze",
                     "Transpose", "Unsqueeze"})  # fmt: skip


@dataclass(frozen=True)
class Outputs:
    """Where a graph gives what.

    Attributes:
        label: name of the output with the labels, if any.
        score: name of the output with the scores, if any.
        names: the labels in the order of the scores, where the graph says them.
        position: whether the label output gives positions, not labels.
        probable: whether a single score is a probability, else a logit.
    """

    label: str | None
    score: str | None
    names: tuple[Any, ...] | None
    position: bool
    probable: bool


def read_outputs(graph: Any, session: Any, name: str) -> Outputs:
    """Find labels and scores among a graph's outputs, and what the graph says about them.

    Raises:
        ModelError: there are several candidates for either.
    """
    labels = [out.name for out in session.get_outputs() if not out.type.startswith(SCORES)]
    scores = [out.name for out in session.get_outputs() if out.type.startswith(SCORES)]
    if len(scores) > 1:
        scores = [score for score in scores if "prob" in score.lower()] or scores
    if len(labels) > 1 or len(scores) > 1:
        raise ModelError(
            f"the model gives several outputs: {', '.join((*labels, *scores))}",
            where=name,
            mend="export it with its labels, its scores, or both",
        )
    label, score = labels[0] if labels else None, scores[0] if scores else None
    made = {output: node for node in graph.node for output in node.output}
    names: tuple[Any, ...] | None = None
    position = False
    for node in (*_chain(made, label), *_chain(made, score)):
        names = names or _label_names(node, graph)
        position = position or (node.op_type == "ArgMax" and names is None)
    end = next((node.op_type for node in _chain(made, score) if node.op_type not in SHAPING), "")
    return Outputs(label, score, names, position and label is not None, end in PROBABILITIES)


def _chain(made: dict[str, Any], output: str | None) -> Iterator[Any]:
    """The nodes that lead to an output, last first; where several values meet, the one that carries the answer."""
    while output in made:
        node = made[output]
        yield node
        # ArrayFeatureExtractor looks positions up in labels; Concat ends with the second class
        inputs = [source for source in node.input if source in made]
        if not inputs:
            return
        output = inputs[-1] if node.op_type in ("ArrayFeatureExtractor", "Concat") else inputs[0]


def _label_names(node: Any, graph: Any) -> tuple[Any, ...] | None:
    for attribute in node.attribute:
        if attribute.name.startswith("classlabels") and (attribute.strings or attribute.ints):
            return tuple(word.decode() for word in attribute.strings) or tuple(attribute.ints)
    if node.op_type in ("ArrayFeatureExtractor", "Gather"):
        from onnx import numpy_helper

        for tensor in graph.initializer:
            if tensor.name == node.input[0]:
                values = numpy_helper.to_array(tensor).reshape(-1).tolist()
                return tuple(value.decode() if isinstance(value, bytes) else value for value in values)
    return None
