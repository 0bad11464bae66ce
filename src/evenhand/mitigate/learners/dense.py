"""Dense networks, trained on from the weights they have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from evenhand.errors import ModelError
from evenhand.mitigate.learners.answers import wanted
from evenhand.mitigate.learners.dense_training import Dense, Floats, plain_steps, train
from evenhand.mitigate.learners.saving import ending_of
from evenhand.mitigate.lesson import Lesson
from evenhand.models import AdditiveNetwork, Line, Scorer, Table, from_dense
from evenhand.models.questions import numbers
from evenhand.schema import Affine, Attribute


@dataclass(frozen=True)
class TrainedNetwork(AdditiveNetwork):
    """A network with the dense layers it was made of: (weights (inputs, outputs), bias (outputs,)) in order."""

    dense: tuple[tuple[Floats, Floats], ...] = ()


@dataclass(frozen=True, eq=False)
class DenseLearner:
    """The same network, trained on from its own weights (see ``dense_training``), in float64.

    Attributes:
        given: a network that takes each attribute by its encoding, as a ``.npz`` file holds it.
        layers: its dense layers.
    """

    given: AdditiveNetwork
    layers: tuple[tuple[Floats, Floats], ...]

    @classmethod
    def of(cls, given: AdditiveNetwork) -> DenseLearner:
        """For a network that takes each attribute by its encoding.

        Raises:
            ModelError: it sees an attribute in another way.
        """
        return cls(given, tuple(plain_layers(given)))

    @property
    def name(self) -> str:
        """What is trained and how, for a reader."""
        return "a dense network, trained on from its own weights"

    @property
    def endings(self) -> tuple[str, ...]:
        """Endings of files that its models can be written to."""
        return (".npz",)

    def fit(self, lesson: Lesson, *, seed: int) -> Scorer:
        """The network after some epochs on these people.

        Raises:
            ModelError: somebody has a missing value, for which the network has no input.
            MissingExtraError: PyTorch is not installed.
        """
        given = self.given
        inputs = inputs_of(given, lesson)
        steps = train(plain_steps(self.layers), inputs, wanted(lesson, given), seed=seed, where=given.name)
        return of_layers(given, [(step.weights, step.bias) for step in steps if isinstance(step, Dense)])

    def onward(self, scorer: Scorer) -> DenseLearner:
        """The same, training on from a network that it made."""
        if not isinstance(scorer, TrainedNetwork):
            raise ModelError("this network was not trained here", where=scorer.name)
        return DenseLearner(self.given, scorer.dense)

    def save(self, scorer: Scorer, path: Path) -> tuple[Path, ...]:
        """Write one of its networks as ``W0, b0, W1, b1, ...``."""
        ending_of(path, self.endings)
        if not isinstance(scorer, AdditiveNetwork):
            raise ModelError("this is no dense network", where=scorer.name)
        write_npz(scorer.dense if isinstance(scorer, TrainedNetwork) else plain_layers(scorer), path)
        return (path,)


def inputs_of(given: Scorer, lesson: Lesson) -> Floats:
    """Everybody in a lesson as the numbers that a network takes, shape (n + m, inputs).

    Raises:
        ModelError: somebody has a missing value.
    """
    inputs = numbers(given.schema, lesson.individuals, where=given.name)
    if np.isnan(inputs).any():
        raise ModelError(
            "somebody has a missing value, and a network has no input for that",
            where=given.name,
            mend="say `missing: drop` for the attribute in the schema",
        )
    return inputs


def of_layers(given: AdditiveNetwork, layers: Sequence[tuple[Floats, Floats | None]]) -> TrainedNetwork:
    """A network with the schema, labels and name of another, and these layers."""
    dense = tuple((weights, np.zeros(weights.shape[1]) if bias is None else bias) for weights, bias in layers)
    made = from_dense(given.schema, list(dense), classes=given.classes, favourable=given.favourable, name=given.name)
    return TrainedNetwork(
        made.schema, made.parts, made.bias, made.layers, made.classes, made.favourable, made.name, dense=dense
    )


def write_npz(layers: Sequence[tuple[Floats, Floats]], path: Path) -> None:
    """Write layers as ``models.npz`` reads them."""
    arrays = {f"{kind}{i}": array for i, layer in enumerate(layers) for kind, array in zip("Wb", layer, strict=True)}
    with path.open("wb") as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]  # the stubs take every keyword for a flag


def plain_layers(network: AdditiveNetwork) -> list[tuple[Floats, Floats]]:
    """(weights (inputs, outputs), bias (outputs,)) of a network that takes each attribute by its encoding.

    Raises:
        ModelError: it sees an attribute in another way than the schema says.
    """
    blocks, bias = [], network.bias
    for attribute, part in zip(network.schema.attributes, network.parts, strict=True):
        if isinstance(part, Line):
            scaled = attribute.encoding if isinstance(attribute.encoding, Affine) else Affine()
            block, rest = (part.slope * scaled.scale)[None], part.intercept + part.slope * scaled.offset
        elif isinstance(part, Table) and attribute.encoding == "one-hot":
            block, rest = part.rows, np.zeros(part.rows.shape[1])
        elif isinstance(part, Table):
            block, rest = _slope(attribute.inputs(attribute.domain())[:, 0], part.rows)
            straight = attribute.inputs(attribute.domain()) @ block + rest
            if np.abs(straight - part.rows).max() > 1e-9 * max(1.0, np.abs(part.rows).max()):
                raise _unlike(network, attribute)
        else:
            raise _unlike(network, attribute)
        blocks.append(block)
        bias = bias + rest
    return [(np.concatenate(blocks), bias), *((layer.weights, layer.bias) for layer in network.layers)]


def _slope(seen: Floats, rows: Floats) -> tuple[Floats, Floats]:
    """The line through two rows of a table over the numbers seen for its values: (1, units) and (units,)."""
    differ = np.flatnonzero(seen != seen[0])
    if len(differ) == 0:
        return np.zeros((1, rows.shape[1])), rows[0]
    other = differ[0]
    slope = (rows[other] - rows[0]) / (seen[other] - seen[0])
    return slope[None], rows[0] - seen[0] * slope


def _unlike(network: AdditiveNetwork, attribute: Attribute) -> ModelError:
    return ModelError(
        f"the network sees {attribute.name!r} through a table of its own, and only dense layers are trained on",
        where=network.name,
        mend="train it with your own function: --fit module:function (in Python: fit=function)",
    )
