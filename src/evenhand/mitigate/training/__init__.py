"""Networks trained to be fair: losses, the loop, a scikit-learn-style estimator (needs the extra ``torch``)."""

from evenhand.mitigate.training.fair_classifier import FairClassifier
from evenhand.mitigate.training.frontier import frontier
from evenhand.mitigate.training.frontier_result import FrontierPoint, FrontierResult

__all__ = ["FairClassifier", "FrontierPoint", "FrontierResult", "frontier"]
