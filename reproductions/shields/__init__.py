"""Fairness Shields (AAAI 2025): shields with a bounded horizon and periodic ones, on four data sets."""

from reproductions.shields.classifiers import CLASSIFIERS, ClassifierRecord
from reproductions.shields.environments import ENVIRONMENTS, Environment
from reproductions.shields.paper import PAPER

__all__ = ["CLASSIFIERS", "ENVIRONMENTS", "PAPER", "ClassifierRecord", "Environment"]
