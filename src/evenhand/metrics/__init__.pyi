from .fair_threshold import BoundNotMetWarning, FairnessThreshold
from .scorers import make_fairness_scorer

__all__ = ["BoundNotMetWarning", "FairnessThreshold", "make_fairness_scorer"]
