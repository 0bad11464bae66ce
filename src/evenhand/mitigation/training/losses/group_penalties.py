"""Penalties on the dependence between scores and groups: DiffDP, HSIC, Prejudice Remover.

Each is a measure of scores (n,) and groups (n,) that is 0 if all groups are treated equally. People without a group
(-1) are ignored. A measure of fewer than two groups is 0.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from evenhand.mitigation.training.losses.loss import TrainingBatch, TrainingPlan, check_groups
from evenhand.mitigation.training.network import TrainableNetwork

if TYPE_CHECKING:
    import torch

GROUP_SCALE = 1 - math.exp(-1)
"""Kernel distance between two different groups, equal for all pairs."""

SMALLEST = 1e-6
"""Minimum distance of rates from 0 and 1, since the logarithm is unbounded there."""


Measure: TypeAlias = "Callable[[torch.Tensor, torch.Tensor], torch.Tensor]"


def over_members(measure: Measure) -> Measure:
    """Restrict a measure to people with a group."""

    @functools.wraps(measure)
    def measure_members(scores: torch.Tensor, groups: torch.Tensor) -> torch.Tensor:
        members = groups >= 0
        return measure(scores[members], groups[members]) if bool(members.any()) else scores.new_zeros(())

    return measure_members


@dataclass
class GroupPenalty:
    """Measure of scores and groups as a loss. See ``FairnessLoss`` for ``default`` and ``sweep``."""

    name: str
    measure: Measure
    default: float
    sweep: tuple[float, ...]

    def prepare(self, plan: TrainingPlan, network: TrainableNetwork, generator: torch.Generator) -> list[torch.Tensor]:
        """Check that there are two groups. No additional tensors are trained.

        Raises:
            OptionError: There are fewer than two groups.
        """
        check_groups(plan, self.name)
        return []

    def penalty(self, network: TrainableNetwork, batch: TrainingBatch, logits: torch.Tensor) -> torch.Tensor:
        """Compute the measure of a batch."""
        import torch

        return self.measure(torch.sigmoid(logits), batch.groups)


@over_members
def mean_gap(scores: torch.Tensor, groups: torch.Tensor) -> torch.Tensor:
    """Average the distances between the mean score of each group and that of all other people.

    With two groups, it is the distance between their means. All groups count equally.

    References:
        Chuang, Mroueh, "Fair Mixup: Fairness via Interpolation", ICLR 2021 (gap regularisation), for two groups.
    """
    if bool((groups == groups[0]).all()):
        return scores.new_zeros(())
    members = one_hot_members(groups, scores)
    sizes = members.sum(dim=0)
    sums = scores @ members
    return (sums / sizes - (scores.sum() - sums) / (len(scores) - sizes)).abs().mean()


@over_members
def hsic_criterion(scores: torch.Tensor, groups: torch.Tensor) -> torch.Tensor:
    """Compute the Hilbert-Schmidt independence criterion: ``tr(K H L H) / (n - 1)^2``.

    K contains ``exp(-(p_i - p_j)^2)`` of the scores, L the same for the groups, where any two groups are at distance 1,
    and H removes the means. It is 0 only if the scores have the same distribution in all groups.

    References:
        Gretton et al., "Measuring Statistical Dependence with Hilbert-Schmidt Norms", ALT 2005. As a penalty:
        Pérez-Suay et al., "Fair Kernel Learning", ECML PKDD 2017.
    """
    import torch

    n = len(scores)
    if n < 2:
        return scores.new_zeros(())
    kernel = torch.exp(-((scores[:, None] - scores) ** 2))
    # L = constant + GROUP_SCALE * G G^T with one-hot G, so the trace is a sum over the groups.
    members = torch.nn.functional.one_hot(groups).to(scores.dtype)
    centred = members - members.mean(dim=0)
    return GROUP_SCALE * ((kernel @ centred) * centred).sum() / (n - 1) ** 2


@over_members
def mutual_information(scores: torch.Tensor, groups: torch.Tensor) -> torch.Tensor:
    """Compute the mutual information of decision and group in nats, where a score is the probability of acceptance.

    It is a mean over people, like the error. The published index is the sum.

    References:
        Kamishima, Akaho, Asoh, Sakuma, "Fairness-Aware Classifier with Prejudice Remover Regularizer", ECML PKDD 2012,
        section 3.2.
    """
    members = one_hot_members(groups, scores)
    sizes = members.sum(dim=0)
    within = ((scores @ members) / sizes).clamp(SMALLEST, 1 - SMALLEST)
    overall = (within * sizes).sum() / sizes.sum()
    divergence = within * (within / overall).log() + (1 - within) * ((1 - within) / (1 - overall)).log()
    return (sizes / sizes.sum()) @ divergence


def one_hot_members(groups: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """Build the one-hot membership of the groups that occur, shape (n, groups), with the type of ``like``."""
    import torch

    members = torch.nn.functional.one_hot(groups)
    return members[:, members.any(dim=0)].to(like.dtype)
