"""Networks trained to be fair: losses, the loop, a scikit-learn-style estimator (needs the extra ``torch``)."""

from evenhand.mitigate.training.fair_classifier import FairClassifier

__all__ = ["FairClassifier"]
