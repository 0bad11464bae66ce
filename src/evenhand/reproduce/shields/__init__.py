"""Fairness Shields (AAAI 2025): shields with a bounded horizon and periodic ones, on four data sets."""

from evenhand.reproduce.shields.classifiers import CLASSIFIERS
from evenhand.reproduce.shields.environments import ENVIRONMENTS, Environment
from evenhand.reproduce.shields.record import ClassifierRecord, SettingRuns, ShieldExperimentSettings
from evenhand.reproduce.shields.run import Reproduction, reproduce_shields

__all__ = [
    "CLASSIFIERS",
    "ENVIRONMENTS",
    "ClassifierRecord",
    "Environment",
    "Reproduction",
    "SettingRuns",
    "ShieldExperimentSettings",
    "reproduce_shields",
]
