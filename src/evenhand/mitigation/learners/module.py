"""PyTorch modules and exported programs, which continue to learn from their current weights."""

from __future__ import annotations

import copy
import io
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from evenhand.core.text import summarize_error
from evenhand.errors import EvenhandError, ModelError
from evenhand.mitigation.descent import train_parameters
from evenhand.mitigation.learners.dense import network_inputs
from evenhand.mitigation.learners.learner import OWN_FIT, file_ending, preferred_endings, target_labels
from evenhand.mitigation.split import TrainingSet
from evenhand.models.blackbox.torch_module import TorchModule, input_type
from evenhand.models.load import load_model
from evenhand.models.scorer import Scorer


@dataclass(frozen=True, eq=False)
class ModuleLearner:
    """Learner that trains a copy of a module or program from its own weights.

    Inputs are not standardised: a network for inputs of very different scales learns slowly or not at all. Parameters
    without gradients do not change. A module is trained in training mode (with dropout and batch statistics) on the
    CPU. A program, whose mode is fixed, is trained as it was exported.

    Attributes:
        given: Original model.
        ending: Extension of its file, which is preferred for new files.
    """

    given: TorchModule
    ending: str = ""

    takes_weights: ClassVar[bool] = False

    @property
    def name(self) -> str:
        """Description of the model and its training."""
        kind = "program" if _is_program(self.given.source) else "module"
        return f"a PyTorch {kind}, trained further from its own weights"

    @property
    def endings(self) -> tuple[str, ...]:
        """File extensions that its models can be written to."""
        if _is_program(self.given.source):
            return (".pt2",)
        return preferred_endings((".pt2", ".pt", ".pth"), self.ending)

    def fit(self, training_set: TrainingSet, *, seed: int) -> Scorer:
        """Train a copy of the network.

        Raises:
            ModelError: The network cannot be copied or trained, or a value is missing.
        """
        import torch

        network, reading = self.given, self.given.reading
        assert reading is not None, "the reading is settled when a network is loaded"
        inputs, labels = network_inputs(network, training_set), target_labels(training_set, network)
        try:
            source = _copy_network(network.source)
            program = _is_program(source)
            module = source.module() if program else source
            parameters = [value for value in module.parameters() if value.requires_grad and value.is_floating_point()]
            if not parameters:
                raise ModelError("none of its parameters can be trained", location=network.name, hint=OWN_FIT)
            kind, device = input_type(source)
            batch = torch.as_tensor(inputs, dtype=kind, device=device)
            if not program:
                module.train()
            run = module if network.rows is None else _run_in_blocks(module, network.rows)
            probable = reading.kind == "probability"
            train_parameters(run, parameters, batch, labels, probable=probable, seed=seed, location=network.name)
            if not program:
                module.eval()
        except EvenhandError:
            raise
        except Exception as error:
            raise ModelError(
                f"training the network failed: {summarize_error(error)}", location=network.name, hint=OWN_FIT
            ) from error
        return load_model(source, network.schema, name=network.name, output=reading.output)

    def resume_from(self, scorer: Scorer) -> ModuleLearner:
        """Return a learner that continues from a model of this learner."""
        return replace(self, given=_require_module(scorer))

    def save(self, scorer: Scorer, path: Path) -> tuple[Path, ...]:
        """Write a network as an exported program (``.pt2``) or as a module.

        Raises:
            ModelError: The module cannot be exported.
        """
        ending = file_ending(path, self.endings)
        write_module(_require_module(scorer), path, ending)
        return (path,)


def write_module(scorer: TorchModule, path: Path, ending: str) -> None:
    """Write a module or program as ``.pt2``, or a module as ``.pt`` or ``.pth``."""
    import torch

    source = scorer.source
    try:
        if ending != ".pt2":
            torch.save(source, path)
            return
        if not _is_program(source):
            kind, device = input_type(source)
            example = torch.zeros((2, scorer.schema.width), dtype=kind, device=device)
            source = torch.export.export(source, (example,), dynamic_shapes=({0: torch.export.Dim("people")},))
        torch.export.save(source, path)
    except Exception as error:
        raise ModelError(
            f"the network cannot be written as {ending}: {summarize_error(error)}",
            location=scorer.name,
            hint="use a file name that ends in .pt" if ending == ".pt2" else None,
        ) from error


def _require_module(scorer: Scorer) -> TorchModule:
    if not isinstance(scorer, TorchModule):
        raise ModelError("expected a PyTorch model, got another model", location=scorer.name)
    return scorer


def _is_program(source: Any) -> bool:
    import torch

    return isinstance(source, torch.export.ExportedProgram)


def _copy_network(source: Any) -> Any:
    """Copy a network with its weights."""
    import torch

    if not _is_program(source):
        return copy.deepcopy(source).to("cpu")
    buffer = io.BytesIO()  # a deep copy of an exported program cannot be saved
    torch.export.save(source, buffer)
    buffer.seek(0)
    return torch.export.load(buffer)


def _run_in_blocks(run: Callable[[Any], Any], rows: int) -> Callable[[Any], Any]:
    """Wrap a program with a fixed batch size so that it takes any number of rows."""
    import torch

    def run_batch(batch: Any) -> Any:
        padding = -len(batch) % rows
        padded = torch.cat([batch, batch[-1:].expand(padding, -1)])
        outputs = [run(block) for block in padded.split(rows)]
        single = [output[0] if isinstance(output, tuple | list) else output for output in outputs]
        return torch.cat([output.reshape(rows, -1) for output in single])[: len(batch)]

    return run_batch
