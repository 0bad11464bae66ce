"""PyTorch modules and exported programs as black boxes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from evenhand.core.typing import Floats
from evenhand.errors import ModelError
from evenhand.models import replies
from evenhand.models.blackbox.questions import plain_numbers, probe_individuals, refusal_error
from evenhand.models.outputs import OutputKind, OutputReading, check_finite, read_outputs, reference_people
from evenhand.models.replies import Reply, ReplyingScorer
from evenhand.models.scorer import ask_in_batches
from evenhand.schema.attribute import Value
from evenhand.schema.schema import Schema

UNREAD = OutputReading("score", "not read yet")


@dataclass(frozen=True, eq=False)
class TorchModule(ReplyingScorer):
    """A network that takes plain numbers, one input per attribute by its encoding.

    One output is of the favourable label; several are one per label, in the order of the target's ``values``. Their
    values decide whether they are probabilities (see ``evenhand.models.outputs``).

    Attributes:
        schema: what its individuals are.
        source: the module or exported program as it was given.
        classes: the labels, in the order of the outputs; a single output speaks for the second.
        favourable: position of the favourable label in ``classes``.
        name: how to call it in a report.
        run: what is called.
        reading: the meaning of the outputs.
        rows: the number of individuals that a program exported for a fixed number takes at once.
        caution: assumptions about its outputs, for reports.
    """

    schema: Schema
    source: Any
    classes: tuple[Value, ...]
    favourable: int
    name: str
    run: Callable[[Any], Any]
    reading: OutputReading
    rows: int | None = None
    caution: str = ""

    @property
    def label_only(self) -> bool:
        """Whether the outputs are labels."""
        return self.reading.label_only

    def reply(self, individuals: Floats) -> Reply:
        """Return the scores and labels with one run."""
        return self.reading.reply(self.outputs(individuals), self.classes, 1, location=self.name)

    def outputs(self, individuals: Floats) -> Floats:
        """Return what the network gives, shape (n, outputs)."""
        if np.isnan(individuals).any():
            raise ModelError(
                "an individual has a missing value, and a network has no input for that",
                location=self.name,
                hint="say `missing: drop` for the attribute in the schema",
            )
        asked = plain_numbers(self.schema, individuals, location=self.name)
        given = ask_in_batches(self._call, asked, self.rows)
        outputs = given[:, None] if given.ndim == 1 else given
        if outputs.ndim != 2 or len(outputs) != len(individuals):
            raise ModelError(
                f"asked about {len(individuals)} individuals, the network gave outputs of shape {given.shape}",
                location=self.name,
            )
        check_finite(outputs, location=self.name)
        return outputs

    def _call(self, asked: Floats) -> Floats:
        import torch

        kind, device = input_type(self.source)
        try:
            with torch.inference_mode(), evaluation_mode(self.run):
                given = self.run(torch.as_tensor(asked, dtype=kind, device=device))
        except Exception as error:
            raise refusal_error(error, location=self.name) from error
        if isinstance(given, tuple | list) and len(given) == 1:
            given = given[0]
        if not isinstance(given, torch.Tensor):
            raise ModelError(f"the network gave a {type(given).__name__}, not one tensor", location=self.name)
        return np.asarray(given.to("cpu", torch.float64).numpy())


def wrap_module(
    source: Any, schema: Schema, *, data: Any = None, name: str | None = None, output: OutputKind | None = None
) -> TorchModule:
    """Wrap a ``torch.nn.Module`` (asked in evaluation mode) or a ``torch.export.ExportedProgram``.

    Args:
        source: the module or program.
        schema: what its individuals are.
        data: data frame on which the outputs are looked at, besides the domain of the schema.
        name: how to call it in a report.
        output: meaning of its outputs; None to decide it by their values.

    Raises:
        ModelError: its inputs do not fit the schema or its outputs the target, or it was exported in training mode; or
            the meaning of its outputs is open.
    """
    import torch

    name = name or type(source).__name__
    rows: int | None = None
    run = source
    if isinstance(source, torch.export.ExportedProgram):
        rows, run = _program_rows(source, name), source.module()
    scorer = TorchModule(schema, source, ("", ""), 1, name, run, UNREAD, rows)
    scorer.outputs(probe_individuals(schema))
    people = reference_people(schema, data)
    outputs = scorer.outputs(people.individuals)
    classes, favourable = replies.labels_of_outputs(schema, outputs.shape[1], location=name)
    reading = read_outputs(outputs, people.truth, classes, 1, favourable, stated=output, location=name)
    caution = reading.describe(classes[1]) if outputs.shape[1] == 1 else ""
    return TorchModule(schema, source, classes, favourable, name, run, reading, rows, caution)


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
                "the program was exported in training mode: it draws or measures something new at every call",
                location=name,
                hint="call .eval() on the module before torch.export.export",
            )
    rows = _input_node(program).meta["val"].shape[0]
    return rows if isinstance(rows, int) else None


def _input_node(program: Any) -> Any:
    wanted = program.graph_signature.user_inputs[0]
    return next(node for node in program.graph.nodes if node.op == "placeholder" and node.name == wanted)


def input_type(source: Any) -> tuple[Any, Any]:
    """Return the number type and the device of what a network takes."""
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
    """Put a module into evaluation mode, and back to what it was."""
    training = [module for module in run.modules() if module.training]
    for module in training:
        module.training = False
    try:
        yield
    finally:
        for module in training:
            module.training = True
