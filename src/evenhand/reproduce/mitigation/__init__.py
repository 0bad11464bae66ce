"""The mitigation tables of two papers: TestSGD's retraining, and the classifiers behind Fairness Shields."""

from evenhand.reproduce.mitigation.record import (
    CASES,
    ExperimentCase,
    MitigatedModel,
    MitigationExperimentSettings,
    MitigationRun,
)
from evenhand.reproduce.mitigation.run import MitigationTables, reproduce_mitigation

__all__ = [
    "CASES",
    "ExperimentCase",
    "MitigatedModel",
    "MitigationExperimentSettings",
    "MitigationRun",
    "MitigationTables",
    "reproduce_mitigation",
]
