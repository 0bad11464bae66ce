"""Search for discriminated subgroups of texts: those that speak of somebody, against those that speak of others."""

from evenhand.subgroup.text.config import Config
from evenhand.subgroup.text.result import Effect, Flips, TextSubgroups
from evenhand.subgroup.text.run import run

__all__ = ["Config", "Effect", "Flips", "TextSubgroups", "run"]
