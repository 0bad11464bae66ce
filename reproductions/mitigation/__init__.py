"""The mitigation tables of two papers: TestSGD's retraining, and the classifiers behind Fairness Shields."""

from reproductions.mitigation.record import (
    CASES,
    ExperimentCase,
    MitigatedModel,
    MitigationExperimentSettings,
    MitigationRun,
)
from reproductions.mitigation.run import MitigationTables, reproduce_mitigation

__all__ = [
    "CASES",
    "ExperimentCase",
    "MitigatedModel",
    "MitigationExperimentSettings",
    "MitigationRun",
    "MitigationTables",
    "reproduce_mitigation",
]
