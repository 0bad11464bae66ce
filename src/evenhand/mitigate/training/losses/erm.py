"""Empirical risk: nothing but being right."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evenhand.mitigate.training.losses.loss import Batch, Task
from evenhand.mitigate.training.network import Network

if TYPE_CHECKING:
    import torch


class EmpiricalRisk:
    """No penalty at all: what the others are compared with."""

    default = 0.0
    sweep: tuple[float, ...] = (0.0,)

    def prepare(self, task: Task, network: Network) -> list[torch.Tensor]:
        """Nothing to get ready."""
        return []

    def penalty(self, network: Network, batch: Batch, logits: torch.Tensor) -> torch.Tensor:
        """Always 0."""
        return logits.new_zeros(())
