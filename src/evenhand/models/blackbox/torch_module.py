"""Black boxes of PyTorch: modules and exported programs."""

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
from evenhand.models.replies import Answers
from evenhand.models.scorer import ask_in_batches, check_finite
from evenhand.schema.attribute import Attribute


@dataclass(frozen=True, eq=False, kw_only=True)
class TorchModule(LabelModel):
    """Network that takes encoded attributes as numbers. A single output refers to the favourable label; several outputs
    follow the order of the target's ``values``. Whether they are probabilities is inferred from their values (see
    ``evenhand.models.outputs``).

    Attributes:
        source: Original module or exported program.
        run: Callable module.
        rows: Batch size of a program exported with a fixed batch size.
    """

    source: Any
    run: Any
    rows: int | None = None

    @property
    def encoded_attributes(self) -> Sequence[Attribute]:
        """Attributes that the network receives as encoded numbers."""
        return self.schema.attributes

    def ask(self, individuals: Floats) -> Answers:
        """Return the outputs of the network."""
        if np.isnan(individuals).any():
            raise ModelError(
                "an individual has a missing value, which the network does not accept",
                location=self.name,
                hint="set `missing: drop` for the attribute in the schema",
            )
        inputs = plain_numbers(self.schema, individuals, location=self.name)
        array = ask_in_batches(self._call, inputs, self.rows)
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

        kind, device = input_type(self.source)
        try:
            with torch.inference_mode(), evaluation_mode(self.run):
                outputs = self.run(torch.as_tensor(inputs, dtype=kind, device=device))
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
    """Wrap a ``torch.nn.Module`` (queried in evaluation mode) or a ``torch.export.ExportedProgram``.

    Args:
        source: Module or program.
        request: Schema and options. The outputs are inspected on the data, in addition to the domain of the schema.

    Raises:
        ModelError: Its inputs do not fit the schema or its outputs the target, or it was exported in training mode; or
            the meaning of its outputs is ambiguous.
    """
    import torch

    schema, name = request.schema, request.name or type(source).__name__
    rows, run = None, source
    if isinstance(source, torch.export.ExportedProgram):
        rows, run = _program_rows(source, name), source.module()
    module = TorchModule(schema=schema, name=name, source=source, run=run, rows=rows)
    module.ask(probe_individuals(schema))
    people = reference_people(schema, request.like)
    outputs = module.ask(people.individuals).outputs
    assert outputs is not None  # a network returns only numbers
    classes, favourable = replies.labels_of_outputs(schema, outputs.shape[1], location=name)
    return settle_outputs(
        replace(module, classes=classes, favourable=favourable), outputs, people.truth, request.output
    )


def _program_rows(program: Any, name: str) -> int | None:
    inputs = program.graph_signature.user_inputs
    if len(inputs) != 1:
        raise ModelError(f"the program takes {len(inputs)} inputs; expected one tensor of plain numbers", location=name)
    for node in program.graph.nodes:
        operation = str(node.target)
        training = (operation.startswith("aten.dropout") and node.args[2:3] == (True,)) or (
            operation.startswith("aten.batch_norm") and node.args[5:6] == (True,)
        )
        if training:
            raise ModelError(
                "the program was exported in training mode: its answers change between calls",
                location=name,
                hint="call .eval() on the module before torch.export.export",
            )
    rows = _input_node(program).meta["val"].shape[0]
    return rows if isinstance(rows, int) else None


def _input_node(program: Any) -> Any:
    name = program.graph_signature.user_inputs[0]
    return next(node for node in program.graph.nodes if node.op == "placeholder" and node.name == name)


def input_type(source: Any) -> tuple[Any, Any]:
    """Return the data type and the device of a network's input."""
    import torch

    if isinstance(source, torch.export.ExportedProgram):
        value = _input_node(source).meta["val"]
        return value.dtype, value.device
    for tensor in (*source.parameters(), *source.buffers()):
        if tensor.is_floating_point():
            return tensor.dtype, tensor.device
    return torch.float32, torch.device("cpu")


@contextmanager
def evaluation_mode(run: Any) -> Iterator[None]:
    """Put a module into evaluation mode and restore its mode on exit."""
    training = [module for module in run.modules() if module.training]
    for module in training:
        module.training = False
    try:
        yield
    finally:
        for module in training:
            module.training = True
