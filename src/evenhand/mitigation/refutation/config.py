"""Settings of a refutation."""

from __future__ import annotations

from typing import Literal, TypeAlias

from evenhand.core.config import Config, setting

RuleFamily: TypeAlias = Literal["any", "linear", "scorecard", "tree"]
"""Family of rules: any decisions by cell, also randomised; a threshold on a weighted sum of the features, with real
weights or with integer points from -5 to 5; a decision tree."""

POINTS = 5
"""Maximum absolute points of a feature in a scorecard."""


class RefutationConfig(Config):
    """Settings of a refutation."""

    family: RuleFamily = setting("linear", "family of rules")
    accuracy: float | None = setting(
        None, "accuracy that a rule must reach, as a share; by default that of the original model", gt=0, le=1
    )
    depth: int = setting(2, "depth of a tree", ge=1, le=3)
    max_parts: int | None = setting(
        None,
        "maximum number of parts that the proof for linear rules or scorecards is divided into; by default 60,000 "
        "divided by the number of cells of people with equal features",
        ge=1,
    )
    time_limit: float | None = setting(
        None, "time limit of the proof; the bound proved by then is kept", unit="seconds", gt=0
    )
    seed: int = setting(0, "random seed", ge=0)
