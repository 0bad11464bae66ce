"""Logit pairing, a penalty on the effect of the protected attributes on a decision."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from evenhand.errors import OptionError
from evenhand.mitigation.training.losses.loss import TrainingBatch, TrainingPlan
from evenhand.mitigation.training.network import TrainableNetwork
from evenhand.schema.schema import Schema

if TYPE_CHECKING:
    import torch

ASSIGNMENTS = 4
"""Maximum number of protected assignments compared for each person. They are redrawn at each step."""

DRAWN = 0.5
"""Number of people drawn in addition to a batch, as a share of the batch."""

GROWN = 0.5
"""Share of the steps after which the penalty has its full weight."""

MAX_DISTINCT = 4096
"""Maximum number of assignments that are drawn without repetition. With more, repetitions are unlikely."""


class LogitPairing:
    """Mean squared difference of the logits of a person under different protected assignments.

    All pairs of up to four assignments count, for each person of the batch and for people drawn from the domain. These
    need no label, and cover the space between the training data. The penalty grows to its full weight, since a full
    weight from the start makes a network that relies on protected attributes forget more than this reliance.

    References:
        Garg et al., "Counterfactual Fairness in Text Classification through Robustness", AIES 2019; Kannan, Kurakin,
        Goodfellow, "Adversarial Logit Pairing", 2018.
    """

    default = 3.0
    sweep: tuple[float, ...] = (0.3, 1.0, 3.0, 10.0, 30.0)

    def prepare(self, plan: TrainingPlan, network: TrainableNetwork, generator: torch.Generator) -> list[torch.Tensor]:
        """Store the protected attributes. No additional tensors are trained.

        Raises:
            OptionError: No attribute is protected.
        """
        if not plan.protected:
            raise OptionError(
                "logit pairing compares protected assignments, but no attribute is protected",
                hint="name protected attributes",
            )
        self._plan, self._generator = plan, generator
        self._positions = network.encoding.schema.positions(plan.protected)
        return []

    def penalty(self, network: TrainableNetwork, batch: TrainingBatch, logits: torch.Tensor) -> torch.Tensor:
        """Compute the mean squared difference of logits, times the weight of the step."""
        import torch

        drawn = int(DRAWN * len(batch.individuals))
        sampled = draw_people(network.encoding.schema, batch.individuals, drawn, self._generator)
        growth = min(1.0, (batch.step + 1) / (GROWN * self._plan.steps))
        return growth * self.logit_spread(network, torch.cat([batch.individuals, sampled]))

    def logit_spread(self, network: TrainableNetwork, individuals: torch.Tensor) -> torch.Tensor:
        """Compute the mean squared difference of logits for individuals (n, attributes)."""
        n, schema = len(individuals), network.encoding.schema
        assignments = draw_assignments(schema, self._plan.protected, n, ASSIGNMENTS, self._generator)
        variants = individuals[:, None].repeat(1, assignments.shape[1], 1)
        variants[:, :, list(self._positions)] = assignments
        logits = network.logits(network.encode(variants.flatten(0, 1))).reshape(n, -1)
        # Over pairs of k numbers, the mean squared difference is twice their unbiased variance.
        return 2 * logits.var(dim=1, unbiased=True).mean() if logits.shape[1] > 1 else logits.new_zeros(())


def draw_assignments(
    schema: Schema, protected: Sequence[str], n: int, limit: int, generator: torch.Generator
) -> torch.Tensor:
    """Draw different protected assignments for each of n people, shape (n, at most ``limit``, protected)."""
    import torch

    attributes = [schema[name] for name in protected]
    sizes = [attribute.size or 1 for attribute in attributes]
    total = math.prod(sizes)
    if total <= MAX_DISTINCT:
        order = torch.rand((n, total), generator=generator).topk(min(limit, total), dim=1).indices
    else:
        order = torch.randint(total, (n, limit), generator=generator)
    columns = []
    for attribute, size in zip(attributes, sizes, strict=True):
        columns.append(order % size + attribute.first)
        order = order // size
    return torch.stack(columns, dim=2).to(torch.float64)


def draw_people(schema: Schema, individuals: torch.Tensor, n: int, generator: torch.Generator) -> torch.Tensor:
    """Draw people near the training data and from the whole domain, shape (n, attributes).

    One third are people of the batch. One third combine attributes of different people of the batch, as in the product
    of marginals. One third are uniform over the domain.
    """
    import torch

    people = individuals[torch.randint(len(individuals), (n,), generator=generator)].clone()
    third = n // 3
    for i, attribute in enumerate(schema.attributes):
        people[third : 2 * third, i] = individuals[torch.randint(len(individuals), (third,), generator=generator), i]
        spread = torch.rand(n - 2 * third, generator=generator, dtype=torch.float64)
        if attribute.size is None:
            people[2 * third :, i] = attribute.first + spread * (attribute.last - attribute.first)
        else:
            people[2 * third :, i] = attribute.first + (spread * attribute.size).floor()
    return people
