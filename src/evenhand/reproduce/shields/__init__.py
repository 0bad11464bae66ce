"""Fairness Shields (AAAI 2025): shields with a bounded horizon and periodic ones, on four data sets."""

from evenhand.reproduce.shields.classifiers import CLASSIFIERS
from evenhand.reproduce.shields.environments import ENVIRONMENTS, Environment
from evenhand.reproduce.shields.result import Cell, Reproduction, Trained
from evenhand.reproduce.shields.run import run
from evenhand.reproduce.shields.settings import Settings

__all__ = ["CLASSIFIERS", "ENVIRONMENTS", "Cell", "Environment", "Reproduction", "Settings", "Trained", "run"]
