"""HSIC: how far the scores are from being independent of the group."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from evenhand.mitigate.training.losses.loss import Batch, Task, check_groups
from evenhand.mitigate.training.network import Network

if TYPE_CHECKING:
    import torch

GROUP_SCALE = 1 - math.exp(-1)
"""What a Gaussian kernel of width 1 takes off between groups numbered 0 and 1; so all groups are equally far apart."""


class HSIC:
    """The Hilbert-Schmidt independence criterion between scores and groups: ``tr(K H L H) / (n - 1)^2``.

    K holds ``exp(-(p_i - p_j)^2)`` of the scores, L the same of the groups, in which any two different groups are as
    far from each other as 0 is from 1; H takes the means off. It is 0 only where scores are distributed alike in all
    groups, not only alike on average.

    Source: Gretton et al.: Measuring Statistical Dependence with Hilbert-Schmidt Norms, ALT 2005; as a penalty
    Pérez-Suay et al.: Fair Kernel Learning, ECML PKDD 2017.
    """

    default = 100.0
    sweep: tuple[float, ...] = (3.0, 10.0, 30.0, 100.0, 300.0)

    def prepare(self, task: Task, network: Network) -> list[torch.Tensor]:
        """Nothing to get ready.

        Raises:
            OptionError: there are not two groups to compare.
        """
        check_groups(task, "HSIC")
        return []

    def penalty(self, network: Network, batch: Batch, logits: torch.Tensor) -> torch.Tensor:
        """The criterion's value on the batch, at least 0."""
        import torch

        return criterion(torch.sigmoid(logits), batch.groups)


def criterion(scores: torch.Tensor, groups: torch.Tensor) -> torch.Tensor:
    """HSIC of scores (n,) and groups (n,); people of nobody's group (-1) are left out; 0 with fewer than two."""
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
