"""Black boxes of PyTorch: modules and TorchScript."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from evenhand.core.typing import Floats
from evenhand.errors import ModelError
from evenhand.models import replies
from evenhand.models.blackbox.base import (
    LabelModel,
    LoadRequest,
    plain_numbers,
    probe_individuals,
    refusal_error,
    settle_outputs,
)
from evenhand.models.outputs import reference_people
from evenhand.models.replies import Answers, check_finite
from evenhand.models.scorer import refuse_missing
from evenhand.schema.attribute import Attribute


@dataclass(frozen=True, eq=False, kw_only=True)
class TorchModule(LabelModel):
    """Network that takes encoded attributes as numbers. A single output refers to the favourable label; several outputs
    follow the order of the target's ``values``. Whether they are probabilities is inferred from their values (see
    ``evenhand.models.outputs``).

    Attributes:
        source: The module.
    """

    source: Any

    @property
    def encoded_attributes(self) -> Sequence[Attribute]:
        """Attributes that the network receives as encoded numbers."""
        return self.schema.attributes

    def ask(self, individuals: Floats) -> Answers:
        """Compute the outputs of the network."""
        refuse_missing(individuals, self.name)
        inputs = plain_numbers(self.schema, individuals, location=self.name)
        array = self._call(inputs)
        outputs = array[:, None] if array.ndim == 1 else array
        if outputs.ndim != 2 or len(outputs) != len(individuals):
            raise ModelError(
                f"the network returned shape {array.shape} for {len(individuals)} individuals",
                location=self.name,
            )
        check_finite(outputs, location=self.name)
        return Answers(None, outputs)

    def _call(self, inputs: Floats) -> Floats:
        import torch

        tensors = (*self.source.parameters(), *self.source.buffers())
        like = next((tensor for tensor in tensors if tensor.is_floating_point()), torch.empty(0, dtype=torch.float32))
        try:
            with torch.inference_mode(), _evaluation_mode(self.source):
                outputs = self.source(torch.as_tensor(inputs, dtype=like.dtype, device=like.device))
        except Exception as error:
            raise refusal_error(error, location=self.name) from error
        if isinstance(outputs, tuple | list) and len(outputs) == 1:
            outputs = outputs[0]
        if not isinstance(outputs, torch.Tensor):
            raise ModelError(
                f"expected a single tensor from the network, got a {type(outputs).__name__}", location=self.name
            )
        return np.asarray(outputs.to("cpu", torch.float64).numpy())


def wrap_module(source: Any, request: LoadRequest) -> TorchModule:
    """Wrap a ``torch.nn.Module``, which is queried in evaluation mode.

    Args:
        source: The module.
        request: Schema and options. The outputs are inspected on the data, in addition to the domain of the schema.

    Raises:
        ModelError: Its inputs do not fit the schema or its outputs the target; or the meaning of its outputs is
            ambiguous.
    """
    schema, name = request.schema, request.name or type(source).__name__
    module = TorchModule(schema=schema, name=name, source=source)
    module.ask(probe_individuals(schema))
    people = reference_people(schema, request.like)
    outputs = module.ask(people.individuals).outputs
    assert outputs is not None  # a network returns only numbers
    classes, favourable = replies.labels_of_outputs(schema, outputs.shape[1], location=name)
    return settle_outputs(
        replace(module, classes=classes, favourable=favourable), outputs, people.truth, request.output
    )


@contextmanager
def _evaluation_mode(run: Any) -> Iterator[None]:
    """Put a module into evaluation mode and restore its mode on exit."""
    training = [module for module in run.modules() if module.training]
    for module in training:
        module.training = False
    try:
        yield
    finally:
        for module in training:
            module.training = True
