"""Gradients of white boxes: of an additive network by hand, of a PyTorch module by autograd."""

from __future__ import annotations

from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from evenhand.errors import NotAdditiveError, OptionError
from evenhand.individual.search.network import Inside
from evenhand.individual.search.space import Space
from evenhand.models import AdditiveNetwork, Scorer, white_box
from evenhand.models.batches import in_batches
from evenhand.schema import Attribute

Floats: TypeAlias = NDArray[np.float64]


class Gradients(Protocol):
    """How the predicted label's probability, or its cross-entropy, changes along every unprotected attribute."""

    def gradient(self, unprotected: Floats, which: NDArray[np.int64], *, loss: bool) -> Floats:
        """Of profiles (n, U), each under one assignment (n,): shape (n, U)."""
        ...


def gradients_of(scorer: Scorer, space: Space, inside: Inside | None) -> Gradients:
    """What gives a model's gradients.

    Args:
        inside: where the model is an additive network itself.

    Raises:
        OptionError: the model has none, such as trees or an endpoint.
    """
    if inside is not None:
        return inside
    if isinstance(scorer, AdditiveNetwork):
        return Inside(scorer, space)
    try:
        network = white_box(scorer)
        if isinstance(network, AdditiveNetwork):
            return Inside(network, space)
    except NotAdditiveError:
        pass  # a PyTorch module has gradients whatever it is made of
    if type(scorer).__name__ == "TorchModule":
        return TorchGradients(scorer, space)
    raise OptionError(
        f"{scorer.name} has no gradients ({type(scorer).__name__}), and this method climbs along them",
        where="--method",
        mend="maft estimates them from answers alone; the default method needs none",
    )


class TorchGradients:
    """Gradients by autograd, one backward pass for the whole batch; the module is asked in evaluation mode."""

    def __init__(self, scorer: Any, space: Space) -> None:
        self._scorer = scorer
        self._space = space

    def gradient(self, unprotected: Floats, which: NDArray[np.int64], *, loss: bool) -> Floats:
        """As ``Gradients`` says."""
        rows = self._space.rows_as(unprotected, which)
        by_input = in_batches(
            lambda inputs: self._by_input(inputs, loss=loss), self._scorer.schema.inputs(rows), self._scorer.rows
        )
        return self._along_attributes(by_input, rows)

    def _by_input(self, inputs: Floats, *, loss: bool) -> Floats:
        """Derivatives by the inputs (n, width), shape (n, width)."""
        import torch

        from evenhand.models.torch_module import evaluating, input_type

        kind, device = input_type(self._scorer.source)
        taken = torch.as_tensor(inputs, dtype=kind, device=device).requires_grad_(True)
        with evaluating(self._scorer.run):
            outputs = self._scorer.run(taken)
        outputs = outputs[0] if isinstance(outputs, tuple | list) else outputs
        outputs = outputs.reshape(len(inputs), -1).to(torch.float64)
        if outputs.shape[1] == 1:
            positive = outputs[:, 0] if self._scorer.probable else torch.sigmoid(outputs[:, 0])
            scores = torch.stack([1 - positive, positive], dim=1)
        else:
            scores = outputs if self._scorer.probable else torch.softmax(outputs, dim=1)
        predicted = scores.max(dim=1).values
        wanted = -torch.log(predicted) if loss else predicted
        (found,) = torch.autograd.grad(wanted.sum(), taken)
        return np.asarray(found.to("cpu", torch.float64).numpy())

    def _along_attributes(self, by_input: Floats, rows: Floats) -> Floats:
        """Derivatives by the inputs (n, width) as derivatives by the unprotected entries (n, U)."""
        starts = np.concatenate([[0], np.cumsum([attribute.width for attribute in self._space.schema.attributes])])
        gradient = np.empty((len(rows), self._space.width))
        for i, column in enumerate(self._space.columns):
            attribute = self._space.attributes[i]
            rises = _rise(attribute, float(self._space.step[i]), rows[:, column])
            gradient[:, i] = (by_input[:, starts[column] : starts[column + 1]] * rises).sum(axis=1)
        return gradient


def _rise(attribute: Attribute, step: float, entries: Floats) -> Floats:
    """How an attribute's inputs change around entries (n,), shape (n, width)."""
    above = np.minimum(entries + step, attribute.last)
    below = np.maximum(entries - step, attribute.first)
    return np.asarray((attribute.inputs(above) - attribute.inputs(below)) / np.maximum(above - below, 1e-300)[:, None])
