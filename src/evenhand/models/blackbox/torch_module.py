"""PyTorch modules and exported programs as black boxes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from evenhand.errors import ModelError
from evenhand.models import replies
from evenhand.models.blackbox.questions import plain_numbers, probe_individuals, refusal_error
from evenhand.models.scorer import ask_in_batches, check_scores
from evenhand.schema import Schema, Value
from evenhand.typing import Floats, Integers

PROBABILITIES = frozenset({"sigmoid", "softmax", "_softmax", "special_expit", "Sigmoid", "Softmax"})
SHAPING = frozenset(
    {"squeeze", "unsqueeze", "view", "reshape", "flatten", "contiguous", "detach", "clone", "to", "float", "double",
     "select", "getitem", "slice", "Flatten", "Unflatten", "Identity", "Dropout", "dropout"}
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class TorchModule:
    """A network that takes plain numbers, one input per attribute by its encoding.

    One output is a logit, favourable above 0, or what a final sigmoid made of it, favourable above 1/2. Several outputs
    are logits, or what a final softmax made of them, one per label in the order of the target's ``values``.

    Attributes:
        schema: what its individuals are.
        source: the module or exported program as it was given.
        classes: the labels, in the order of the outputs; a single output speaks for the second.
        favourable: position of the favourable label in ``classes``.
        name: how to call it in a report.
        run: what is called.
        probable: whether the outputs are probabilities, else logits.
        rows: the number of individuals that a program exported for a fixed number takes at once.
    """

    schema: Schema
    source: Any
    classes: tuple[Value, ...]
    favourable: int
    name: str
    run: Callable[[Any], Any]
    probable: bool
    rows: int | None = None
    label_only: bool = False

    def scores(self, individuals: Floats) -> Floats:
        """Return probabilities (sigmoid or softmax of the logits), shape (n, classes).

        Raises:
            ModelError: a value is missing, or the network fails or gives no numbers.
        """
        outputs = self.outputs(individuals)
        if not self.probable:
            outputs = replies.sigmoid(outputs) if outputs.shape[1] == 1 else replies.softmax(outputs)
        return check_scores(outputs, len(individuals), len(self.classes), model=self.name)

    def predict(self, individuals: Floats) -> Integers:
        """Return the labels as positions in ``classes``, decided on the network's own outputs, shape (n,).

        Raises:
            ModelError: a value is missing, or the network fails or gives no numbers.
        """
        outputs = self.outputs(individuals)
        if outputs.shape[1] == 1:
            return np.asarray(outputs[:, 0] > (0.5 if self.probable else 0.0), dtype=np.int64)
        return np.asarray(np.argmax(outputs, axis=1), dtype=np.int64)

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
        if not np.isfinite(outputs).all():
            row = int(np.argmax(~np.isfinite(outputs).all(axis=1)))
            raise ModelError(
                f"the network gave {outputs[row].tolist()} for individual {row + 1} of a batch", location=self.name
            )
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


def wrap_module(source: Any, schema: Schema, *, name: str | None = None) -> TorchModule:
    """Wrap a ``torch.nn.Module`` (asked in evaluation mode) or a ``torch.export.ExportedProgram``.

    Whether its outputs are probabilities or logits is read off its last operation.

    Raises:
        ModelError: its inputs do not fit the schema or its outputs the target, or it was exported in training mode.
    """
    import torch

    name = name or type(source).__name__
    rows: int | None = None
    if isinstance(source, torch.export.ExportedProgram):
        rows = _program_rows(source, name)
        run, probable = source.module(), _last_operation(source.graph, source.graph_module) in PROBABILITIES
    else:
        run, probable = source, _last_layer_name(source) in PROBABILITIES
    scorer = TorchModule(schema, source, ("", ""), 1, name, run, probable, rows)
    outputs = scorer.outputs(probe_individuals(schema)).shape[1]
    classes, favourable = replies.labels_of_outputs(schema, outputs, location=name)
    return TorchModule(schema, source, classes, favourable, name, run, probable, rows)


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


def _last_layer_name(module: Any) -> str:
    """Return the name of a module's last operation: traced, or else its last part."""
    import torch

    if isinstance(module, torch.jit.ScriptModule):
        return _last_script_operation(module)
    try:
        traced = torch.fx.symbolic_trace(module)
    except Exception:  # a module that branches on its input cannot be traced
        leaves = [part for part in module.modules() if not any(part.children())]
        return str(getattr(leaves[-1], "original_name", type(leaves[-1]).__name__))
    return _last_operation(traced.graph, traced)


def _last_script_operation(module: Any) -> str:
    """Return the name of the operation that made a TorchScript program's output, as ``_last_operation`` does."""
    graph = module.inlined_graph  # kept: its nodes end with it
    made = next(iter(graph.outputs()))
    while True:
        node = made.node()
        name = str(node.kind()).partition("::")[2]
        inputs = list(node.inputs())
        if name not in SHAPING or not inputs:
            return name
        made = inputs[0]


def _last_operation(graph: Any, owner: Any) -> str:
    """Return the name of the operation that made the output, apart from changes of shape or number type."""
    node = next(node for node in graph.nodes if node.op == "output").args[0]
    while True:
        while isinstance(node, tuple | list) and node:
            node = node[0]
        if getattr(node, "op", None) == "call_module":
            name = type(owner.get_submodule(node.target)).__name__
        elif getattr(node, "op", None) in ("call_function", "call_method"):
            # aten operators print as aten.sigmoid.default
            name = str(node.target) if isinstance(node.target, str) else getattr(node.target, "__name__", "")
            name = name.split(".")[0]
        else:
            return ""
        if name not in SHAPING or not node.args:
            return name
        node = node.args[0]
