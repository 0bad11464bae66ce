"""PyTorch modules and exported programs, trained on from the weights they have."""

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
from evenhand.mitigation.learners.learner import file_ending, target_labels
from evenhand.mitigation.split import TrainingSet
from evenhand.models.blackbox.torch_module import TorchModule, input_type
from evenhand.models.load import load_model
from evenhand.models.scorer import Scorer

OWN_FIT = "train it with your own function: `fit=module:function`"


@dataclass(frozen=True, eq=False)
class ModuleLearner:
    """A copy of a module or program, trained on from its own weights (see ``descent``) on what it is asked with.

    Its inputs are taken as they are: a network that was trained on numbers of very different sizes learns slowly, or
    not at all. Parameters that need no gradient stay. A module is trained in training mode (dropout drops, batch
    normalisations measure again), on the processor; a program, whose mode is fixed, as it was exported.

    Attributes:
        given: the model.
        ending: of the file it came from; its models are offered to be written so first.
    """

    given: TorchModule
    ending: str = ""

    @property
    def name(self) -> str:
        """What is trained and how, for a reader."""
        kind = "program" if _is_program(self.given.source) else "module"
        return f"a PyTorch {kind}, trained on from its own weights"

    takes_weights: ClassVar[bool] = False

    @property
    def endings(self) -> tuple[str, ...]:
        """Endings of files that its models can be written to."""
        if _is_program(self.given.source):
            return (".pt2",)
        return tuple(sorted((".pt2", ".pt", ".pth"), key=lambda ending: ending != self.ending))

    def fit(self, training_set: TrainingSet, *, seed: int) -> Scorer:
        """Return the network after some epochs on these people.

        Raises:
            ModelError: it cannot be copied or trained, or somebody has a missing value.
        """
        import torch

        given, reading = self.given, self.given.reading
        assert reading is not None  # it is settled when a network is loaded
        inputs, labels = network_inputs(given, training_set), target_labels(training_set, given)
        try:
            source = _copy_network(given.source)
            run = source.module() if _is_program(source) else source
            trained = [tensor for tensor in run.parameters() if tensor.requires_grad and tensor.is_floating_point()]
            if not trained:
                raise ModelError("none of its parameters can be trained", location=given.name, hint=OWN_FIT)
            kind, device = input_type(source)
            seen = torch.as_tensor(inputs, dtype=kind, device=device)
            if not _is_program(source):
                run.train()
            step = run if given.rows is None else _run_in_blocks(run, given.rows)
            probable = reading.kind == "probability"
            train_parameters(step, trained, seen, labels, probable=probable, seed=seed, location=given.name)
            if not _is_program(source):
                run.eval()
        except EvenhandError:
            raise
        except Exception as error:
            raise ModelError(
                f"the network cannot be trained on: {summarize_error(error)}", location=given.name, hint=OWN_FIT
            ) from error
        return load_model(source, given.schema, name=given.name, output=reading.output)

    def resume_from(self, scorer: Scorer) -> ModuleLearner:
        """Return the same, training on from a model that it made."""
        if not isinstance(scorer, TorchModule):
            raise ModelError("this is not a PyTorch model", location=scorer.name)
        return replace(self, given=scorer)

    def save(self, scorer: Scorer, path: Path) -> tuple[Path, ...]:
        """Write one of its networks: an exported program (``.pt2``) or the module itself.

        Raises:
            ModelError: the module cannot be exported.
        """
        ending = file_ending(path, self.endings)
        if not isinstance(scorer, TorchModule):
            raise ModelError("this is not a PyTorch model", location=scorer.name)
        write_module(scorer, path, ending)
        return (path,)


def write_module(scorer: TorchModule, path: Path, ending: str) -> None:
    """Write a module or program to a ``.pt2`` file, or a module to ``.pt`` or ``.pth``."""
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
            hint="try a file that ends in .pt" if ending == ".pt2" else None,
        ) from error


def _is_program(source: Any) -> bool:
    import torch

    return isinstance(source, torch.export.ExportedProgram)


def _copy_network(source: Any) -> Any:
    """Return the same network with weights of its own."""
    import torch

    if not _is_program(source):
        return copy.deepcopy(source).to("cpu")
    written = io.BytesIO()  # a deep copy of a program cannot be saved again
    torch.export.save(source, written)
    written.seek(0)
    return torch.export.load(written)


def _run_in_blocks(run: Callable[[Any], Any], rows: int) -> Callable[[Any], Any]:
    """Return a program that takes a fixed number of people at once, for any number of them."""
    import torch

    def of_batch(batch: Any) -> Any:
        short = -len(batch) % rows
        filled = torch.cat([batch, batch[-1:].expand(short, -1)])
        given = [run(block) for block in filled.split(rows)]
        outputs = [out[0] if isinstance(out, tuple | list) else out for out in given]
        return torch.cat([out.reshape(rows, -1) for out in outputs])[: len(batch)]

    return of_batch
