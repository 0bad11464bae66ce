"""What a network is taught besides being right, one module per method."""

from evenhand.mitigate.training.losses.loss import Batch, Loss, Task
from evenhand.mitigate.training.losses.registry import LOSSES, loss

__all__ = ["LOSSES", "Batch", "Loss", "Task", "loss"]
