"""Protocol of fairness losses, which add a penalty to the error of a batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from evenhand.errors import OptionError
from evenhand.mitigation.training.encoding import FeatureEncoding
from evenhand.mitigation.training.network import TrainableNetwork
from evenhand.schema.schema import Schema

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, eq=False)
class TrainingTask:
    """Properties of a training run that are known before the first step.

    Attributes:
        schema: Data schema.
        protected: Names of the protected attributes.
        encoding: Encoding of individuals as features.
        groups: Number of groups.
        generator: Random number generator of the training run.
        steps: Number of steps, for penalties that grow.
    """

    schema: Schema
    protected: tuple[str, ...]
    encoding: FeatureEncoding
    groups: int
    generator: torch.Generator
    steps: int


@dataclass(frozen=True, eq=False)
class TrainingBatch:
    """Batch of one step.

    Attributes:
        individuals: Individuals, float64, shape (n, attributes). ``network.encode`` encodes them, and any variant of
            them, such as the same people with other protected values.
        features: Encoded individuals, float32, shape (n, width).
        labels: 1 for favourable true labels, otherwise 0, float32, shape (n,).
        groups: Group of each individual, -1 for none, shape (n,).
        step: Number of the step, from 0.
    """

    individuals: torch.Tensor
    features: torch.Tensor
    labels: torch.Tensor
    groups: torch.Tensor
    step: int


class FairnessLoss(Protocol):
    """Loss of a training run, which minimises ``error + strength * penalty``.

    Each training run creates a loss, calls ``prepare`` once and ``penalty`` at each step. The penalty can use

    - ``network.logits(features)`` and ``network.logits(network.encode(individuals))``, differentiable, shape (n,). The
      logits of the batch are passed in;
    - ``network.layers``, the weight (inputs, outputs) and bias (outputs,) of each layer, with ReLU between the layers;
    - ``task.encoding.blocks``, the columns and scaling of each attribute. An unseen attribute has no columns.

    Attributes:
        default: Default strength.
        sweep: Candidate strengths, from weak to strong.
    """

    default: float
    sweep: tuple[float, ...]

    def prepare(self, task: TrainingTask, network: TrainableNetwork) -> list[torch.Tensor]:
        """Prepare the training, and return further tensors to train, such as a decoder."""

    def penalty(self, network: TrainableNetwork, batch: TrainingBatch, logits: torch.Tensor) -> torch.Tensor:
        """Compute the unfairness of a batch as a differentiable number, 0 if it is perfectly fair."""


def check_groups(task: TrainingTask, name: str) -> None:
    """Check that there are two groups to compare.

    Raises:
        OptionError: There are fewer.
    """
    if task.groups < 2:
        raise OptionError(
            f"{name} compares groups, but the training set has fewer than two",
            hint="name protected attributes: `protected=NAME` (or sensitive_features= in fit)",
        )


class EmpiricalRisk:
    """Loss without a penalty, the baseline of all others."""

    default = 0.0
    sweep: tuple[float, ...] = (0.0,)

    def prepare(self, task: TrainingTask, network: TrainableNetwork) -> list[torch.Tensor]:
        """Prepare nothing."""
        return []

    def penalty(self, network: TrainableNetwork, batch: TrainingBatch, logits: torch.Tensor) -> torch.Tensor:
        """Return 0."""
        return logits.new_zeros(())
