"""The loop that trains: batches, Adam, a falling learning rate; the same bits for the same seed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.errors import ModelError
from evenhand.mitigation.descent import deterministic_torch
from evenhand.mitigation.training.encoding import FeatureEncoding
from evenhand.mitigation.training.losses.loss import FairnessLoss, TrainingBatch, TrainingTask
from evenhand.mitigation.training.network import TrainableNetwork

if TYPE_CHECKING:
    import torch

FALLS = 3
"""Parts of a training with a rate each: every one a tenth of the rate before."""


@dataclass(frozen=True)
class StepRecord:
    """What one step saw: the error (cross entropy) and the penalty of its batch, the latter without its strength."""

    error: float
    penalty: float


@dataclass(frozen=True, eq=False)
class TrainingPlan:
    """What is trained on, and for how long.

    Attributes:
        individuals: shape (n, attributes).
        labels: whether each truly has the favourable label, shape (n,).
        groups: the group of each, -1 for no group, shape (n,).
        steps: batches learnt from.
        batch_size: people in each.
        learning_rate: of the first third of the steps; it is a tenth of it in the second, a hundredth in the last.
        strength: of the penalty.
        seed: of the first weights and of the order of people.
        deadline: by ``time.perf_counter()``, when to stop; None: no limit.
    """

    individuals: Floats
    labels: Booleans
    groups: Integers
    steps: int
    batch_size: int
    learning_rate: float
    strength: float
    seed: int
    deadline: float | None = None


@dataclass(frozen=True, eq=False)
class TrainedLayers:
    """A trained network.

    Attributes:
        layers: (weight, bias) of each affine layer in float64.
        history: one entry per step.
        interrupted: whether it was stopped before the last step; the weights are those reached by then.
    """

    layers: list[tuple[Floats, Floats]]
    history: tuple[StepRecord, ...]
    interrupted: bool


def train_network(
    course: TrainingPlan,
    encoding: FeatureEncoding,
    *,
    hidden: Sequence[int],
    loss: FairnessLoss,
    protected: tuple[str, ...],
    start: Sequence[tuple[Floats, Floats]] | None = None,
    each: Callable[[int], None] | None = None,
) -> TrainedLayers:
    """Train a network: ``error + strength * penalty`` by Adam, batch by batch.

    People are shuffled, and again when all have been seen; a last batch with too few of them is left out. Stopped by
    the keyboard or the deadline, it comes back with what it has.

    Args:
        course: on whom, and for how long.
        encoding: how they become features.
        hidden: units of each hidden layer.
        loss: what is taught besides being right.
        protected: names of the protected attributes, for the loss.
        start: (weights, bias) of each layer to begin with, in place of random ones in ``hidden`` layers.
        each: called after every step with its number, from 1.

    Raises:
        ModelError: the weights grew beyond all numbers.
    """
    with deterministic_torch(course.seed):
        import torch

        generator = torch.Generator().manual_seed(course.seed)
        network = (
            TrainableNetwork.fresh(encoding, hidden, generator)
            if start is None
            else TrainableNetwork.of(encoding, start)
        )
        groups = int(course.groups.max(initial=-1)) + 1
        task = TrainingTask(encoding.schema, protected, encoding, groups, generator, course.steps)
        optimiser = torch.optim.Adam([*network.tensors, *loss.prepare(task, network)], lr=course.learning_rate)
        history: list[StepRecord] = []
        interrupted = False
        kept = [tensor.detach().clone() for tensor in network.tensors]
        try:
            for step, batch in enumerate(_draw_batches(course, encoding, generator)):
                if course.deadline is not None and time.perf_counter() > course.deadline:
                    interrupted = True
                    break
                for setting in optimiser.param_groups:
                    setting["lr"] = course.learning_rate * 0.1 ** (FALLS * step // course.steps)
                logits = network.logits(batch.features)
                error = torch.nn.functional.binary_cross_entropy_with_logits(logits, batch.labels)
                penalty = loss.penalty(network, batch, logits)
                optimiser.zero_grad()
                (error + course.strength * penalty).backward()
                optimiser.step()
                # A step is whole or did not happen, whenever somebody presses the keys.
                kept = [tensor.detach().clone() for tensor in network.tensors]
                history.append(StepRecord(float(error.detach()), float(penalty.detach())))
                if each is not None:
                    each(step + 1)
        except KeyboardInterrupt:
            interrupted = True
        arrays = [tensor.numpy().astype(np.float64) for tensor in kept]
    if not all(np.isfinite(array).all() for array in arrays):
        raise ModelError(
            "the weights grew beyond all numbers while the network was trained",
            hint=f"lower the strength ({course.strength:g}) or the learning rate ({course.learning_rate:g})",
        )
    return TrainedLayers(list(zip(arrays[::2], arrays[1::2], strict=True)), tuple(history), interrupted)


def _draw_batches(
    course: TrainingPlan, encoding: FeatureEncoding, generator: torch.Generator
) -> Iterator[TrainingBatch]:
    import torch

    individuals = torch.from_numpy(np.ascontiguousarray(course.individuals, dtype=np.float64))
    features = torch.from_numpy(encoding.features(course.individuals))
    labels = torch.from_numpy(course.labels.astype(np.float32))
    groups = torch.from_numpy(course.groups.astype(np.int64))
    size = min(course.batch_size, len(features))
    waiting = torch.empty(0, dtype=torch.int64)
    for step in range(course.steps):
        if len(waiting) < size:
            waiting = torch.randperm(len(features), generator=generator)
        rows, waiting = waiting[:size], waiting[size:]
        yield TrainingBatch(individuals[rows], features[rows], labels[rows], groups[rows], step)
