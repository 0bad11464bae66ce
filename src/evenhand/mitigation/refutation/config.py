"""Settings of a refutation."""

from __future__ import annotations

from typing import Literal, TypeAlias

from evenhand.core.config import Config, setting

RuleFamily: TypeAlias = Literal["any", "linear", "tree"]
"""Family of rules: any decisions by cell, including randomised ones; a threshold on a weighted sum of the features;
a decision tree. A bound for linear rules also holds for scorecards, whose weights are integers."""


class RefutationConfig(Config):
    """Settings of a refutation."""

    family: RuleFamily = setting("linear", "family of rules")
    accuracy: float | None = setting(
        None, "accuracy that a rule must reach, as a share; by default that of the original model", gt=0, le=1
    )
    depth: int = setting(2, "depth of a tree", ge=1, le=3)
    max_parts: int | None = setting(
        None,
        "maximum number of parts that the proof for linear rules is divided into; by default 60,000 "
        "divided by the number of cells of people with equal features",
        ge=1,
    )
    time_limit: float | None = setting(
        None, "time limit of the proof; the bound proved by then is kept", unit="seconds", gt=0
    )
    seed: int = setting(0, "random seed", ge=0)
