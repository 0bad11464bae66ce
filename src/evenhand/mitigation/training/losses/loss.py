"""Protocol of fairness losses, which add a penalty to the error of a batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.errors import OptionError
from evenhand.mitigation.training.network import TrainableNetwork

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, eq=False)
class TrainingPlan:
    """Data and parameters of a training run.

    Attributes:
        individuals: Training set, shape (n, attributes).
        labels: Whether the true label is favourable, shape (n,).
        groups: Group of each individual, -1 for none, shape (n,).
        protected: Names of the protected attributes.
        steps: Number of batches.
        batch_size: Number of rows per batch.
        learning_rate: Learning rate of the first third of the steps. It is divided by 10 in each of the following
            thirds.
        strength: Weight of the penalty.
        seed: Seed of the initial weights and of the order of the rows.
        deadline: Time by ``time.perf_counter()`` at which training stops. None for no limit.
    """

    individuals: Floats
    labels: Booleans
    groups: Integers
    protected: tuple[str, ...]
    steps: int
    batch_size: int
    learning_rate: float
    strength: float
    seed: int
    deadline: float | None = None

    @property
    def group_count(self) -> int:
        """Number of groups."""
        return int(self.groups.max(initial=-1)) + 1


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
    - ``network.encoding.blocks``, the columns and scaling of each attribute. An unseen attribute has no columns.

    Attributes:
        default: Default strength.
        sweep: Candidate strengths, from weak to strong.
    """

    default: float
    sweep: tuple[float, ...]

    def prepare(self, plan: TrainingPlan, network: TrainableNetwork, generator: torch.Generator) -> list[torch.Tensor]:
        """Prepare the training, and return further tensors to train, such as a decoder."""

    def penalty(self, network: TrainableNetwork, batch: TrainingBatch, logits: torch.Tensor) -> torch.Tensor:
        """Compute the unfairness of a batch as a differentiable number, 0 if it is perfectly fair."""


def check_groups(plan: TrainingPlan, name: str) -> None:
    """Check that there are two groups to compare.

    Raises:
        OptionError: There are fewer.
    """
    if plan.group_count < 2:
        raise OptionError(
            f"{name} compares groups, but the training set has fewer than two",
            hint="name protected attributes: `protected=NAME` (or sensitive_features= in fit)",
        )


class EmpiricalRisk:
    """Loss without a penalty, the baseline of all others."""

    default = 0.0
    sweep: tuple[float, ...] = (0.0,)

    def prepare(self, plan: TrainingPlan, network: TrainableNetwork, generator: torch.Generator) -> list[torch.Tensor]:
        """Prepare nothing."""
        return []

    def penalty(self, network: TrainableNetwork, batch: TrainingBatch, logits: torch.Tensor) -> torch.Tensor:
        """Return 0."""
        return logits.new_zeros(())
