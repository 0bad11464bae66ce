"""What a fairness loss is: a penalty that is added to the error of a batch, and how it may look at the network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from evenhand.errors import OptionError
from evenhand.mitigate.training.encoding import Encoding
from evenhand.mitigate.training.network import Network
from evenhand.schema import Schema

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, eq=False)
class Task:
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
    encoding: Encoding
    groups: int
    generator: torch.Generator
    steps: int


@dataclass(frozen=True, eq=False)
class Batch:
    """The people of one step.

    Attributes:
        individuals: as ``People.individuals``, float64, shape (n, attributes). ``network.encode`` makes features of
            these and of any others made from them, such as the same people with other protected values.
        features: encoded individuals, float32, shape (n, width).
        labels: 1 for those who truly have the favourable label, else 0, float32, shape (n,).
        groups: the group of each, 0 to ``Task.groups`` - 1, or -1 for nobody's (too few people), shape (n,).
        step: which step it is, from 0.
    """

    individuals: torch.Tensor
    features: torch.Tensor
    labels: torch.Tensor
    groups: torch.Tensor
    step: int


class Loss(Protocol):
    """What a network is taught besides being right: it minimises ``error + strength * penalty``.

    A loss is made anew for every training, told the task once by ``prepare``, then asked for its ``penalty`` at every
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
        sweep: strengths from weak to strong, to choose from on a validation part and to draw a frontier.
    """

    default: float
    sweep: tuple[float, ...]

    def prepare(self, task: Task, network: Network) -> list[torch.Tensor]:
        """Get ready; tensors to be trained along with the network (an adversary's), if any."""
        ...

    def penalty(self, network: Network, batch: Batch, logits: torch.Tensor) -> torch.Tensor:
        """What the batch costs in unfairness, a differentiable number; 0 is perfectly fair."""
        ...


def check_groups(task: Task, what: str) -> None:
    """Refuse a penalty that has nobody to compare.

    Raises:
        OptionError: there are not two groups.
    """
    if task.groups < 2:
        raise OptionError(
            f"{what} compares groups, and among the people learnt from there are not two",
            mend="name protected attributes: --protected NAME (in Python: protected=, or group= for the fit)",
        )
