"""Training loop with batches, Adam and a decreasing learning rate. Equal seeds give bitwise equal results."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from evenhand.core.typing import Floats
from evenhand.errors import ModelError
from evenhand.mitigation.learners.dense import descend, deterministic_torch
from evenhand.mitigation.training.encoding import FeatureEncoding
from evenhand.mitigation.training.losses.loss import FairnessLoss, TrainingBatch, TrainingPlan
from evenhand.mitigation.training.network import TrainableNetwork

if TYPE_CHECKING:
    import torch

PHASES = 3
"""Number of phases of a training run. The learning rate is divided by 10 after each phase."""


@dataclass(frozen=True)
class StepRecord:
    """Cross-entropy and penalty of one batch. The penalty is not multiplied by the strength."""

    error: float
    penalty: float


def train_network(
    plan: TrainingPlan,
    encoding: FeatureEncoding,
    *,
    hidden: Sequence[int],
    loss: FairnessLoss,
    start: Sequence[tuple[Floats, Floats]] | None = None,
    each: Callable[[int], None] | None = None,
) -> tuple[list[tuple[Floats, Floats]], tuple[StepRecord, ...]]:
    """Minimise ``error + strength * penalty`` over batches with Adam.

    Rows are shuffled in each epoch, and an incomplete last batch is skipped. After an interrupt or at the deadline, the
    current weights are returned.

    Args:
        plan: Data and parameters.
        encoding: Encoding of individuals as features.
        hidden: Number of units of each hidden layer.
        loss: Fairness loss.
        start: Initial weight and bias of each layer, instead of random ones with ``hidden`` units.
        each: Function called with the number of each step, from 1.

    Returns:
        Weight and bias of each layer in float64, and the records of all complete steps.

    Raises:
        ModelError: The weights became infinite.
    """
    with deterministic_torch(plan.seed):
        import torch

        generator = torch.Generator().manual_seed(plan.seed)
        network = (
            TrainableNetwork.fresh(encoding, hidden, generator)
            if start is None
            else TrainableNetwork.of(encoding, start)
        )
        optimiser = torch.optim.Adam([*network.tensors, *loss.prepare(plan, network, generator)], lr=plan.learning_rate)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: 0.1 ** (PHASES * step // plan.steps))
        history: list[StepRecord] = []

        def compute_loss(batch: TrainingBatch) -> torch.Tensor:
            logits = network.logits(batch.features)
            error = torch.nn.functional.binary_cross_entropy_with_logits(logits, batch.labels)
            penalty = loss.penalty(network, batch, logits)
            history.append(StepRecord(float(error.detach()), float(penalty.detach())))
            return error + plan.strength * penalty

        complete, weights = 0, _copy_tensors(network)
        # Weights are copied after each step, so that an interrupt within a step does not change them.
        try:
            for _ in descend(optimiser, schedule, _draw_batches(plan, encoding, generator), compute_loss):
                complete, weights = complete + 1, _copy_tensors(network)
                if each is not None:
                    each(complete)
        except KeyboardInterrupt:
            pass
    if not all(np.isfinite(array).all() for array in weights):
        raise ModelError(
            "training made the weights infinite",
            hint=f"lower the strength ({plan.strength:g}) or the learning rate ({plan.learning_rate:g})",
        )
    return list(zip(weights[::2], weights[1::2], strict=True)), tuple(history[:complete])


def _copy_tensors(network: TrainableNetwork) -> list[Floats]:
    return [tensor.detach().numpy().astype(np.float64) for tensor in network.tensors]


def _draw_batches(plan: TrainingPlan, encoding: FeatureEncoding, generator: torch.Generator) -> Iterator[TrainingBatch]:
    """Draw batches until all steps are done or the deadline has passed."""
    import torch

    individuals = torch.from_numpy(np.ascontiguousarray(plan.individuals, dtype=np.float64))
    features = torch.from_numpy(encoding.features(plan.individuals))
    labels = torch.from_numpy(plan.labels.astype(np.float32))
    groups = torch.from_numpy(plan.groups.astype(np.int64))
    size = min(plan.batch_size, len(features))
    order = torch.empty(0, dtype=torch.int64)
    for step in range(plan.steps):
        if len(order) < size:
            order = torch.randperm(len(features), generator=generator)
        rows, order = order[:size], order[size:]
        if plan.deadline is not None and time.perf_counter() > plan.deadline:
            return
        yield TrainingBatch(individuals[rows], features[rows], labels[rows], groups[rows], step)
