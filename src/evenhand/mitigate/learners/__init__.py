"""Models that can be trained again, one module per kind."""

from evenhand.mitigate.learners.choose import learner_of
from evenhand.mitigate.learners.learner import Learner

__all__ = ["Learner", "learner_of"]
