"""Prejudice Remover: what the decision says about the group."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evenhand.mitigate.training.losses.loss import Batch, Task, check_groups
from evenhand.mitigate.training.network import Network

if TYPE_CHECKING:
    import torch

SMALLEST = 1e-6
"""Shares are kept this far from 0 and 1, where their logarithm has no bound."""


class PrejudiceRemover:
    """The mutual information between decision and group, in nats, a decision being as likely as its score says.

    It is per person, as the error is; the published index is the same, added up over the people.

    Source: Kamishima, Akaho, Asoh, Sakuma: Fairness-Aware Classifier with Prejudice Remover Regularizer, ECML PKDD
    2012, section 3.2.
    """

    default = 10.0
    sweep: tuple[float, ...] = (0.3, 1.0, 3.0, 10.0, 30.0)

    def prepare(self, task: Task, network: Network) -> list[torch.Tensor]:
        """Nothing to get ready.

        Raises:
            OptionError: there are not two groups to compare.
        """
        check_groups(task, "Prejudice Remover")
        return []

    def penalty(self, network: Network, batch: Batch, logits: torch.Tensor) -> torch.Tensor:
        """The mutual information on the batch, at least 0."""
        import torch

        return mutual_information(torch.sigmoid(logits), batch.groups)


def mutual_information(scores: torch.Tensor, groups: torch.Tensor) -> torch.Tensor:
    """Mutual information of a decision with these probabilities (n,) and the group (n,), in nats.

    People of nobody's group (-1) are left out; with nobody else it is 0.
    """
    import torch

    known = groups >= 0
    scores, groups = scores[known], groups[known]
    if len(scores) == 0:
        return scores.new_zeros(())
    member = torch.nn.functional.one_hot(groups)
    member = member[:, member.any(dim=0)].to(scores.dtype)
    sizes = member.sum(dim=0)
    within = ((scores @ member) / sizes).clamp(SMALLEST, 1 - SMALLEST)
    overall = (within * sizes).sum() / sizes.sum()
    divergence = within * (within / overall).log() + (1 - within) * ((1 - within) / (1 - overall)).log()
    return (sizes / sizes.sum()) @ divergence
