"""What a network is taught besides being right, one module per method."""

from evenhand.mitigation.training.losses.loss import LOSSES, FairnessLoss, TrainingBatch, TrainingTask, load_loss

__all__ = ["LOSSES", "FairnessLoss", "TrainingBatch", "TrainingTask", "load_loss"]
