"""DiffDP: the gap between the groups' mean scores."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evenhand.mitigate.training.losses.loss import Batch, Task, check_groups
from evenhand.mitigate.training.network import Network

if TYPE_CHECKING:
    import torch


class DiffDP:
    """How far each group's mean score lies from everybody else's, on average over the groups.

    With two groups it is the distance of their mean scores. Every group counts alike, however small.

    Source: Chuang, Mroueh: Fair Mixup: Fairness via Interpolation, ICLR 2021 (gap regularisation), for two groups.
    """

    default = 1.0
    sweep: tuple[float, ...] = (0.1, 0.3, 0.5, 1.0, 2.0)

    def prepare(self, task: Task, network: Network) -> list[torch.Tensor]:
        """Nothing to get ready.

        Raises:
            OptionError: there are not two groups to compare.
        """
        check_groups(task, "DiffDP")
        return []

    def penalty(self, network: Network, batch: Batch, logits: torch.Tensor) -> torch.Tensor:
        """The mean gap, 0 to 1; 0 where the batch holds one group only."""
        import torch

        return mean_gap(torch.sigmoid(logits), batch.groups)


def mean_gap(scores: torch.Tensor, groups: torch.Tensor) -> torch.Tensor:
    """Mean over the groups of how far a group's mean score lies from everybody else's."""
    import torch

    known = groups >= 0
    scores, groups = scores[known], groups[known]
    if len(scores) == 0 or bool((groups == groups[0]).all()):
        return scores.new_zeros(())
    member = torch.nn.functional.one_hot(groups)
    member = member[:, member.any(dim=0)].to(scores.dtype)
    sizes = member.sum(dim=0)
    sums = scores @ member
    return (sums / sizes - (scores.sum() - sums) / (len(scores) - sizes)).abs().mean()
