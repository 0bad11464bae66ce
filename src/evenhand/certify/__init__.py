"""Certification: for which share of everybody a network provably decides the same, whatever is protected."""

from evenhand.certify.result import Certificate, Counterexample, Estimate, Moment, Region, Slice
from evenhand.certify.run import Config, run, warm_up

__all__ = ["Certificate", "Config", "Counterexample", "Estimate", "Moment", "Region", "Slice", "run", "warm_up"]
