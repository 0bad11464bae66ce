"""Fairness Shields (AAAI 2025): shields with a bounded horizon and periodic ones, on four data sets."""

from evenhand.reproduce.shields.classifiers import CLASSIFIERS, ClassifierRecord
from evenhand.reproduce.shields.environments import ENVIRONMENTS, Environment
from evenhand.reproduce.shields.paper import PAPER

__all__ = ["CLASSIFIERS", "ENVIRONMENTS", "PAPER", "ClassifierRecord", "Environment"]
