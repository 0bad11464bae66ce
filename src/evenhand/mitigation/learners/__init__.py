"""Models that can be trained again, one module per kind."""

from evenhand.mitigation.learners.choose import find_learner
from evenhand.mitigation.learners.learner import Learner, ResumableLearner

__all__ = ["Learner", "ResumableLearner", "find_learner"]
