"""Models that can be trained again, one module per kind."""

from evenhand.mitigate.learners.choose import learner_of
from evenhand.mitigate.learners.learner import Learner, Resuming

__all__ = ["Learner", "Resuming", "learner_of"]
