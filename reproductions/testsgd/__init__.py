"""TestSGD (ACM TOSEM 2023): rule sets whose people, or texts, a network treats differently; all tables of the paper."""

from reproductions.testsgd.paper import PAPER

__all__ = ["PAPER"]
