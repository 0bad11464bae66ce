"""What a fairness loss is: a penalty that is added to the error of a batch, and how it may look at the network."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Protocol

from evenhand.errors import OptionError
from evenhand.mitigation.training.encoding import FeatureEncoding
from evenhand.mitigation.training.network import TrainableNetwork
from evenhand.schema.schema import Schema

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, eq=False)
class TrainingTask:
    """What is learnt, before the first step.

    Attributes:
        schema: what the individuals are.
        protected: names of the attributes a decision must not depend on.
        encoding: how individuals become features.
        groups: how many groups there are.
        generator: the random numbers of the training; a loss that draws any draws them from it.
        steps: how many steps there will be, for a loss that grows into its task.
    """

    schema: Schema
    protected: tuple[str, ...]
    encoding: FeatureEncoding
    groups: int
    generator: torch.Generator
    steps: int


@dataclass(frozen=True, eq=False)
class TrainingBatch:
    """The people of one step.

    Attributes:
        individuals: as ``People.individuals``, float64, shape (n, attributes). ``network.encode`` makes features of
            these and of any others made from them, such as the same people with other protected values.
        features: encoded individuals, float32, shape (n, width).
        labels: 1 for those who truly have the favourable label, else 0, float32, shape (n,).
        groups: the group of each, 0 to ``Task.groups`` - 1, or -1 for no group (too few people), shape (n,).
        step: which step it is, from 0.
    """

    individuals: torch.Tensor
    features: torch.Tensor
    labels: torch.Tensor
    groups: torch.Tensor
    step: int


class FairnessLoss(Protocol):
    """What a network is taught besides being right: it minimises ``error + strength * penalty``.

    Every training makes a new loss, tells it the task once by ``prepare``, then asks for its ``penalty`` at every
    step. Through the network it can reach

    - ``network.logits(features)`` and ``network.logits(network.encode(individuals))``, differentiable, shape (n,);
      positive means favourable. The batch's own logits are handed over, so that they are computed once;
    - ``network.layers``, the (weight (inputs, outputs), bias (outputs,)) tensors of each affine layer, ReLU between
      them: what bounds are pushed through;
    - ``task.encoding``: which columns of the features an attribute fills (``blocks[i]``) and how a number is scaled
      (``blocks[i].offset`` and ``scale``); a box of individuals becomes a box of features with it. An attribute that
      the network does not see fills none.

    Attributes:
        default: the strength where none is named.
        sweep: strengths from weak to strong, to choose from on a validation part.
    """

    default: float
    sweep: tuple[float, ...]

    def prepare(self, task: TrainingTask, network: TrainableNetwork) -> list[torch.Tensor]:
        """Prepare, and return the tensors to train along with the network (an adversary's), if any."""
        ...

    def penalty(self, network: TrainableNetwork, batch: TrainingBatch, logits: torch.Tensor) -> torch.Tensor:
        """Return what the batch costs in unfairness, a differentiable number; 0 is perfectly fair."""
        ...


def check_groups(task: TrainingTask, what: str) -> None:
    """Refuse a penalty that has no people to compare.

    Raises:
        OptionError: there are not two groups.
    """
    if task.groups < 2:
        raise OptionError(
            f"{what} compares groups, and in the training set there are not two",
            hint="name protected attributes: `protected=NAME` (or sensitive_features= for the fit)",
        )


LOSSES: dict[str, str] = {
    "erm": "loss:EmpiricalRisk",
    "diffdp": "group_penalties:diffdp",
    "gap": "group_penalties:diffdp",
    "hsic": "group_penalties:hsic",
    "laftr": "laftr:LAFTR",
    "prejudice-remover": "group_penalties:prejudice_remover",
    "logit-pairing": "counterfactual:LogitPairing",
    "certified": "counterfactual:Certified",
}
"""Where the loss of each method stands, below this package."""


def load_loss(method: str) -> FairnessLoss:
    """Return a fresh loss.

    Raises:
        OptionError: there is no such method.
    """
    if method not in LOSSES:
        raise OptionError(f"there is no method {method!r} of training", hint=f"one of: {', '.join(LOSSES)}")
    module, _, name = LOSSES[method].partition(":")
    made: FairnessLoss = getattr(import_module(f"{__package__}.{module}"), name)()
    return made


class EmpiricalRisk:
    """No penalty at all: what the others are compared with."""

    default = 0.0
    sweep: tuple[float, ...] = (0.0,)

    def prepare(self, task: TrainingTask, network: TrainableNetwork) -> list[torch.Tensor]:
        """Prepare nothing."""
        return []

    def penalty(self, network: TrainableNetwork, batch: TrainingBatch, logits: torch.Tensor) -> torch.Tensor:
        """Always 0."""
        return logits.new_zeros(())
