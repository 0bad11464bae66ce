"""Counterfactual logit pairing: the same person gets the same logit under every protected assignment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evenhand.mitigate.training.losses.boxes import check_protected, draw_assignments, draw_people, variants
from evenhand.mitigate.training.losses.loss import Batch, Task
from evenhand.mitigate.training.network import Network

if TYPE_CHECKING:
    import torch

ASSIGNMENTS = 4
"""Protected assignments of each person that are compared at every step, drawn anew where there are more."""

DRAWN = 0.5
"""People drawn besides those of a batch, as a share of them."""

GROWN = 0.5
"""Share of the steps after which the penalty has its full weight."""


class LogitPairing:
    """The mean squared difference of a person's logits between protected assignments, everything else unchanged.

    Every pair of up to four different assignments counts, drawn for each person of the batch and for others drawn from
    the domain: who is treated alike needs no label, and between the people of the data a network may do as it likes.
    The penalty grows from nothing to its full weight. Pulled at with all its weight from the first step, a network that
    relies on what is protected forgets more than that.

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
        """Mean over people and pairs of assignments of the squared difference of logits, as grown by this step."""
        import torch

        task = self._task
        others = draw_people(task.schema, batch.individuals, int(DRAWN * len(batch.individuals)), task.generator)
        growth = min(1.0, (batch.step + 1) / (GROWN * task.steps))
        return growth * self.apart(network, torch.cat([batch.individuals, others]))

    def apart(self, network: Network, individuals: torch.Tensor) -> torch.Tensor:
        """The same for some people (n, attributes), whatever the step."""
        task = self._task
        n = len(individuals)
        assignments = draw_assignments(task.schema, task.protected, n, ASSIGNMENTS, task.generator)
        asked = variants(individuals, self._positions, assignments)
        answers = network.logits(network.encode(asked.flatten(0, 1))).reshape(n, -1)
        k = answers.shape[1]
        # Over pairs of k numbers, the mean squared difference is twice their unbiased variance.
        return 2 * answers.var(dim=1, unbiased=True).mean() if k > 1 else answers.new_zeros(())
