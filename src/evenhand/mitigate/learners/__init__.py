"""Models that can be trained again, one module per kind."""

from evenhand.mitigate.learners.learner import Learner

__all__ = ["Learner"]
