"""The mitigation tables of two papers: TestSGD's retraining, and the classifiers behind Fairness Shields."""

from evenhand.reproduce.mitigation.cases import CASES, Case
from evenhand.reproduce.mitigation.result import Mended, MitigationTables, Model
from evenhand.reproduce.mitigation.run import run
from evenhand.reproduce.mitigation.settings import Settings

__all__ = ["CASES", "Case", "Mended", "MitigationTables", "Model", "Settings", "run"]
