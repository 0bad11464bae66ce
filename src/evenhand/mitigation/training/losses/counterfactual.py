"""Penalties on the effect of the protected attributes on a decision: logit pairing and certified training."""

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
"""Maximum number of protected assignments compared for each person. They are redrawn at each step."""

DRAWN = 0.5
"""Number of people drawn in addition to a batch, as a share of the batch."""

GROWN = 0.5
"""Share of the steps after which a penalty has its full weight, and boxes have their full size."""


class _ProtectedPenalty:
    """Base class with the protected attributes."""

    name: str

    def prepare(self, task: TrainingTask, network: TrainableNetwork) -> list[torch.Tensor]:
        """Store the protected attributes. No additional tensors are trained.

        Raises:
            OptionError: No attribute is protected.
        """
        if not task.protected:
            raise OptionError(
                f"{self.name} compares protected assignments, but no attribute is protected",
                hint="name protected attributes",
            )
        self._task = task
        self._positions = task.schema.positions(task.protected)
        return []

    def _growth(self, step: int) -> float:
        """Compute the relative weight of a step, which grows from 0 to 1."""
        return min(1.0, (step + 1) / (GROWN * self._task.steps))


class LogitPairing(_ProtectedPenalty):
    """Mean squared difference of the logits of a person under different protected assignments.

    All pairs of up to four assignments count, for each person of the batch and for people drawn from the domain. These
    need no label, and cover the space between the training data. The penalty grows to its full weight, since a network
    that relies on protected attributes forgets more than that under the full weight.

    References:
        Garg et al., "Counterfactual Fairness in Text Classification through Robustness", AIES 2019; Kannan, Kurakin,
        Goodfellow, "Adversarial Logit Pairing", 2018.
    """

    name = "logit pairing"
    default = 3.0
    sweep: tuple[float, ...] = (0.3, 1.0, 3.0, 10.0, 30.0)

    def penalty(self, network: TrainableNetwork, batch: TrainingBatch, logits: torch.Tensor) -> torch.Tensor:
        """Compute the mean squared difference of logits, times the weight of the step."""
        import torch

        task = self._task
        sampled = draw_people(task.schema, batch.individuals, int(DRAWN * len(batch.individuals)), task.generator)
        return self._growth(batch.step) * self.logit_spread(network, torch.cat([batch.individuals, sampled]))

    def logit_spread(self, network: TrainableNetwork, individuals: torch.Tensor) -> torch.Tensor:
        """Compute the mean squared difference of logits for individuals (n, attributes)."""
        task = self._task
        n = len(individuals)
        assignments = draw_assignments(task.schema, task.protected, n, ASSIGNMENTS, task.generator)
        variants = assign_protected(individuals, self._positions, assignments)
        logits = network.logits(network.encode(variants.flatten(0, 1))).reshape(n, -1)
        # Over pairs of k numbers, the mean squared difference is twice their unbiased variance.
        return 2 * logits.var(dim=1, unbiased=True).mean() if logits.shape[1] > 1 else logits.new_zeros(())


BOXES = 128
"""Number of boxes per step."""


class Certified(_ProtectedPenalty):
    """Width of the band around the decision boundary that the certifier would leave undecided, over random boxes.

    A person in a box is decided if the linear functions below and above the logit have the same sign under all
    assignments. This holds if the distance of the logit from 0 exceeds the bound on its difference between two
    assignments plus the gap between the functions. Both are minimised: the bound over the whole box, and the gap at one
    person. Boxes are redrawn at each step around people drawn as in certificates, and grow from single people
    to the whole domain.

    A network that ignores the protected attributes has only the gap as its penalty. The gap depends on the number of
    units that can be on or off in a box, and is small for networks that are easy to analyse.

    This penalty is our own. Like certified robust training (Gowal et al. 2019, Zhang et al. 2020, see ``boxes``), it
    differentiates bounds.
    """

    name = "certified training"
    default = 0.1
    sweep: tuple[float, ...] = (0.01, 0.03, 0.1, 0.3, 1.0)

    def penalty(self, network: TrainableNetwork, batch: TrainingBatch, logits: torch.Tensor) -> torch.Tensor:
        """Compute the mean width over the boxes of this step, in units of the logit."""
        task, layers = self._task, network.layers
        growth = self._growth(batch.step)
        people = draw_people(task.schema, batch.individuals, BOXES, task.generator)
        boxes = draw_boxes(task.encoding, self._positions, people, growth, task.generator)
        assignments = draw_assignments(task.schema, task.protected, BOXES, 2, task.generator)
        if assignments.shape[1] < 2:
            return logits.new_zeros(())
        variants = assign_protected(people, self._positions, assignments)
        features = network.encode(variants.flatten(0, 1)).unflatten(0, (BOXES, 2))
        protected = features.clone()
        for i, block in enumerate(task.encoding.blocks):
            if i not in self._positions:
                protected[:, :, block.columns] = 0
        bounds = bound_pair(layers, boxes, protected)
        width = bounds.difference.mean()
        if len(layers) > 1:
            weight, bias = layers[0]
            functions, units = bound_linearly(layers, bounds.intervals), features @ weight + bias
            width = width + (functions.upper(units) - functions.lower(units)).mean()
        return width * growth
