"""Penalties on the dependence between scores and groups: DiffDP, HSIC, Prejudice Remover.

Each is a measure of scores (n,) and groups (n,) that is 0 where the groups are treated alike. People without a group
(-1) are left out; where there is nothing to compare, a measure is 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from evenhand.mitigation.training.losses.loss import TrainingBatch, TrainingTask, check_groups
from evenhand.mitigation.training.network import TrainableNetwork

if TYPE_CHECKING:
    import torch

GROUP_SCALE = 1 - math.exp(-1)
"""What a Gaussian kernel of width 1 takes off between groups numbered 0 and 1; so all groups are equally far apart."""

SMALLEST = 1e-6
"""Shares are kept this far from 0 and 1, where their logarithm has no bound."""


@dataclass(frozen=True)
class GroupPenalty:
    """A measure of scores and groups as a loss; see ``FairnessLoss`` for ``default`` and ``sweep``."""

    name: str
    measure: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
    default: float
    sweep: tuple[float, ...]

    def prepare(self, task: TrainingTask, network: TrainableNetwork) -> list[torch.Tensor]:
        """Check that there are two groups; nothing of its own is trained.

        Raises:
            OptionError: there are not two groups to compare.
        """
        check_groups(task, self.name)
        return []

    def penalty(self, network: TrainableNetwork, batch: TrainingBatch, logits: torch.Tensor) -> torch.Tensor:
        """Return the measure on the batch, at least 0."""
        import torch

        return self.measure(torch.sigmoid(logits), batch.groups)


def diffdp() -> GroupPenalty:
    """Return DiffDP: the gap between the groups' mean scores, 0 to 1."""
    return GroupPenalty("DiffDP", mean_gap, 1.0, (0.1, 0.3, 0.5, 1.0, 2.0))


def hsic() -> GroupPenalty:
    """Return HSIC: how far the scores are from being independent of the group."""
    return GroupPenalty("HSIC", hsic_criterion, 100.0, (3.0, 10.0, 30.0, 100.0, 300.0))


def prejudice_remover() -> GroupPenalty:
    """Return Prejudice Remover: what the decision says about the group."""
    return GroupPenalty("Prejudice Remover", mutual_information, 10.0, (0.3, 1.0, 3.0, 10.0, 30.0))


def mean_gap(scores: torch.Tensor, groups: torch.Tensor) -> torch.Tensor:
    """Return the mean over the groups of how far a group's mean score lies from everybody else's.

    With two groups it is the distance of their mean scores. Every group counts alike, however small.

    Source: Chuang, Mroueh: Fair Mixup: Fairness via Interpolation, ICLR 2021 (gap regularisation), for two groups.
    """
    known = groups >= 0
    scores, groups = scores[known], groups[known]
    if len(scores) == 0 or bool((groups == groups[0]).all()):
        return scores.new_zeros(())
    member = one_hot_members(groups, scores)
    sizes = member.sum(dim=0)
    sums = scores @ member
    return (sums / sizes - (scores.sum() - sums) / (len(scores) - sizes)).abs().mean()


def hsic_criterion(scores: torch.Tensor, groups: torch.Tensor) -> torch.Tensor:
    """Return the Hilbert-Schmidt independence criterion of scores and groups: ``tr(K H L H) / (n - 1)^2``.

    K holds ``exp(-(p_i - p_j)^2)`` of the scores, L the same of the groups, in which any two different groups are as
    far from each other as 0 is from 1; H takes the means off. It is 0 only where scores are distributed alike in all
    groups, not only alike on average.

    Source: Gretton et al.: Measuring Statistical Dependence with Hilbert-Schmidt Norms, ALT 2005; as a penalty
    Pérez-Suay et al.: Fair Kernel Learning, ECML PKDD 2017.
    """
    import torch

    known = groups >= 0
    scores, groups = scores[known], groups[known]
    n = len(scores)
    if n < 2:
        return scores.new_zeros(())
    kernel = torch.exp(-((scores[:, None] - scores) ** 2))
    # L = constant + GROUP_SCALE * G G^T with G one-hot, so that the trace is a sum over the groups.
    member = torch.nn.functional.one_hot(groups).to(scores.dtype)
    centred = member - member.mean(dim=0)
    return GROUP_SCALE * ((kernel @ centred) * centred).sum() / (n - 1) ** 2


def mutual_information(scores: torch.Tensor, groups: torch.Tensor) -> torch.Tensor:
    """Return the mutual information of decision and group, in nats, a decision being as likely as its score says.

    It is per person, as the error is; the published index is the same, added up over the people.

    Source: Kamishima, Akaho, Asoh, Sakuma: Fairness-Aware Classifier with Prejudice Remover Regularizer, ECML PKDD
    2012, section 3.2.
    """
    known = groups >= 0
    scores, groups = scores[known], groups[known]
    if len(scores) == 0:
        return scores.new_zeros(())
    member = one_hot_members(groups, scores)
    sizes = member.sum(dim=0)
    within = ((scores @ member) / sizes).clamp(SMALLEST, 1 - SMALLEST)
    overall = (within * sizes).sum() / sizes.sum()
    divergence = within * (within / overall).log() + (1 - within) * ((1 - within) / (1 - overall)).log()
    return (sizes / sizes.sum()) @ divergence


def one_hot_members(groups: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """Return who belongs to which of the groups that occur, shape (n, occurring groups), in the type of ``like``."""
    import torch

    member = torch.nn.functional.one_hot(groups)
    return member[:, member.any(dim=0)].to(like.dtype)
