"""Penalties on what a decision owes to the protected attributes alone: logit pairing and certified training."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evenhand.errors import OptionError
from evenhand.mitigation.training.losses.boxes import (
    assign_protected,
    bound_linearly,
    bound_pair,
    draw_assignments,
    draw_boxes,
    draw_people,
)
from evenhand.mitigation.training.losses.loss import TrainingBatch, TrainingTask
from evenhand.mitigation.training.network import TrainableNetwork

if TYPE_CHECKING:
    import torch

ASSIGNMENTS = 4
"""Protected assignments of each person that are compared at every step, redrawn if there are more."""

DRAWN = 0.5
"""People drawn besides those of a batch, as a share of them."""

GROWN = 0.5
"""Share of the steps after which a penalty has its full weight, and boxes are as large as they get."""


class _ProtectedPenalty:
    """Remembers what is protected."""

    name: str

    def prepare(self, task: TrainingTask, network: TrainableNetwork) -> list[torch.Tensor]:
        """Remember what is protected; nothing of its own is trained.

        Raises:
            OptionError: no attribute is protected.
        """
        if not task.protected:
            raise OptionError(
                f"{self.name} compares protected assignments, and no attribute is protected",
                hint="name protected attributes",
            )
        self._task = task
        self._positions = task.schema.positions(task.protected)
        return []

    def _growth(self, step: int) -> float:
        """Return the weight of this step, from nothing to 1."""
        return min(1.0, (step + 1) / (GROWN * self._task.steps))


class LogitPairing(_ProtectedPenalty):
    """The mean squared difference of a person's logits between protected assignments, everything else unchanged.

    Every pair of up to four different assignments counts, drawn for each person of the batch and for others drawn from
    the domain: who is treated alike needs no label, and between the people of the data a network may do as it likes.
    The penalty grows from nothing to its full weight. Pulled at with all its weight from the first step, a network that
    relies on what is protected forgets more than that.

    Source: Garg et al.: Counterfactual Fairness in Text Classification through Robustness, AIES 2019; Kannan, Kurakin,
    Goodfellow: Adversarial Logit Pairing, 2018.
    """

    name = "logit pairing"
    default = 3.0
    sweep: tuple[float, ...] = (0.3, 1.0, 3.0, 10.0, 30.0)

    def penalty(self, network: TrainableNetwork, batch: TrainingBatch, logits: torch.Tensor) -> torch.Tensor:
        """Mean over people and pairs of assignments of the squared difference of logits, as grown by this step."""
        import torch

        task = self._task
        others = draw_people(task.schema, batch.individuals, int(DRAWN * len(batch.individuals)), task.generator)
        return self._growth(batch.step) * self.logit_spread(network, torch.cat([batch.individuals, others]))

    def logit_spread(self, network: TrainableNetwork, individuals: torch.Tensor) -> torch.Tensor:
        """Return the same for some people (n, attributes), whatever the step."""
        task = self._task
        n = len(individuals)
        assignments = draw_assignments(task.schema, task.protected, n, ASSIGNMENTS, task.generator)
        asked = assign_protected(individuals, self._positions, assignments)
        answers = network.logits(network.encode(asked.flatten(0, 1))).reshape(n, -1)
        k = answers.shape[1]
        # Over pairs of k numbers, the mean squared difference is twice their unbiased variance.
        return 2 * answers.var(dim=1, unbiased=True).mean() if k > 1 else answers.new_zeros(())


BOXES = 128
"""Boxes of each step."""


class Certified(_ProtectedPenalty):
    """The width of the band around the decision boundary that the certifier would leave open, over random boxes.

    A person in a box is decided if the linear functions below and above the logit have the same sign under every
    assignment. Where the logit is farther from 0 than the bound on its difference between two assignments plus the gap
    between the functions, that holds. So both are made small: the bound on the difference anywhere in the box, and the
    gap at a person in it. Boxes are redrawn at every step around people of the kind that certificates are about, and
    grow from single persons to the whole domain.

    A network whose decisions ignore what is protected costs nothing but the gap. The gap does not depend on that: it is
    the number of ways in which units can be on or off in a box, and small for networks that are easy to analyse.

    Source: our own; it has in common with certified robustness (Gowal et al. 2019, Zhang et al. 2020, see ``boxes``)
    that bounds are trained through.
    """

    name = "certified training"
    default = 0.1
    sweep: tuple[float, ...] = (0.01, 0.03, 0.1, 0.3, 1.0)

    def penalty(self, network: TrainableNetwork, batch: TrainingBatch, logits: torch.Tensor) -> torch.Tensor:
        """Return the mean width over the boxes of this step, in units of the logit."""
        task, layers = self._task, network.layers
        growth = self._growth(batch.step)
        people = draw_people(task.schema, batch.individuals, BOXES, task.generator)
        boxes = draw_boxes(task.encoding, self._positions, people, growth, task.generator)
        assignments = draw_assignments(task.schema, task.protected, BOXES, 2, task.generator)
        if assignments.shape[1] < 2:
            return logits.new_zeros(())
        asked = network.encode(assign_protected(people, self._positions, assignments).flatten(0, 1)).unflatten(
            0, (BOXES, 2)
        )
        protected = asked.clone()
        for i, block in enumerate(task.encoding.blocks):
            if i not in self._positions:
                protected[:, :, block.columns] = 0
        found = bound_pair(layers, boxes, protected)
        width = found.difference.mean()
        if len(layers) > 1:
            weight, bias = layers[0]
            functions, first = bound_linearly(layers, found.intervals), asked @ weight + bias
            width = width + (functions.upper(first) - functions.lower(first)).mean()
        return width * growth
