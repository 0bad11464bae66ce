"""Certified training: what the certifier could not decide becomes small."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evenhand.mitigate.training.losses.bounds import linear, pair
from evenhand.mitigate.training.losses.boxes import (
    check_protected,
    draw_assignments,
    draw_boxes,
    draw_people,
    variants,
)
from evenhand.mitigate.training.losses.loss import Batch, Task
from evenhand.mitigate.training.network import Network

if TYPE_CHECKING:
    import torch

BOXES = 128
"""Boxes of each step."""

GROWN = 0.5
"""Share of the steps after which boxes are as large as they get."""


class Certified:
    """The width of the band around the decision boundary that the certifier would leave open, over random boxes.

    A person in a box is decided if the linear functions below and above the logit have the same sign under every
    assignment. Where the logit is farther from 0 than the bound on its difference between two assignments plus the gap
    between the functions, that holds. So both are made small: the bound on the difference anywhere in the box, and the
    gap at a person in it. Boxes are drawn anew at every step around people of the kind that certificates are about, and
    grow from single persons to the whole domain.

    A network whose decisions ignore what is protected costs nothing but the gap. The gap does not depend on that: it is
    the number of ways in which units can be on or off in a box, and small for networks that are easy to analyse.

    Source: our own; it has in common with certified robustness (Gowal et al. 2019, Zhang et al. 2020, see ``bounds``)
    that bounds are trained through.
    """

    default = 0.1
    sweep: tuple[float, ...] = (0.01, 0.03, 0.1, 0.3, 1.0)

    def prepare(self, task: Task, network: Network) -> list[torch.Tensor]:
        """Remember what is protected; nothing of its own is trained.

        Raises:
            OptionError: no attribute is protected.
        """
        check_protected(task.protected, "certified training")
        self._task = task
        self._positions = task.schema.positions(task.protected)
        return []

    def penalty(self, network: Network, batch: Batch, logits: torch.Tensor) -> torch.Tensor:
        """Mean width over the boxes of this step, in units of the logit."""
        task, layers = self._task, network.layers
        growth = min(1.0, (batch.step + 1) / (GROWN * task.steps))
        people = draw_people(task.schema, batch.individuals, BOXES, task.generator)
        boxes = draw_boxes(task.encoding, self._positions, people, growth, task.generator)
        assignments = draw_assignments(task.schema, task.protected, BOXES, 2, task.generator)
        if assignments.shape[1] < 2:
            return logits.new_zeros(())
        asked = network.encode(variants(people, self._positions, assignments).flatten(0, 1)).unflatten(0, (BOXES, 2))
        protected = asked.clone()
        for i, block in enumerate(task.encoding.blocks):
            if i not in self._positions:
                protected[:, :, block.columns] = 0
        found = pair(layers, boxes, protected)
        width = found.difference.mean()
        if len(layers) > 1:
            weight, bias = layers[0]
            functions, first = linear(layers, found.intervals), asked @ weight + bias
            width = width + (functions.upper(first) - functions.lower(first)).mean()
        return width * growth
