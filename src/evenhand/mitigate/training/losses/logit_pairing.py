"""Counterfactual logit pairing: the same person gets the same logit under every protected assignment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evenhand.mitigate.training.losses.boxes import check_protected, draw_assignments, variants
from evenhand.mitigate.training.losses.loss import Batch, Task
from evenhand.mitigate.training.network import Network

if TYPE_CHECKING:
    import torch

ASSIGNMENTS = 4
"""Protected assignments of each person that are compared at every step, drawn anew where there are more."""


class LogitPairing:
    """The mean squared difference of a person's logits between protected assignments, everything else unchanged.

    Every pair of up to four different assignments, drawn for each person of the batch, counts.

    Source: Garg et al.: Counterfactual Fairness in Text Classification through Robustness, AIES 2019; Kannan, Kurakin,
    Goodfellow: Adversarial Logit Pairing, 2018.
    """

    default = 3.0
    sweep: tuple[float, ...] = (0.3, 1.0, 3.0, 10.0, 30.0)

    def prepare(self, task: Task, network: Network) -> list[torch.Tensor]:
        """Remember what is protected; nothing of its own is trained.

        Raises:
            OptionError: no attribute is protected.
        """
        check_protected(task.protected, "logit pairing")
        self._task = task
        self._positions = task.schema.positions(task.protected)
        return []

    def penalty(self, network: Network, batch: Batch, logits: torch.Tensor) -> torch.Tensor:
        """Mean over people and pairs of assignments of the squared difference of logits."""
        task = self._task
        n = len(batch.individuals)
        assignments = draw_assignments(task.schema, task.protected, n, ASSIGNMENTS, task.generator)
        asked = variants(batch.individuals, self._positions, assignments)
        answers = network.logits(network.encode(asked.flatten(0, 1))).reshape(n, -1)
        k = answers.shape[1]
        # Over pairs of k numbers, the mean squared difference is twice their unbiased variance.
        return 2 * answers.var(dim=1, unbiased=True).mean() if k > 1 else answers.new_zeros(())
