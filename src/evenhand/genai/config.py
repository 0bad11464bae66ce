"""Settings of assessments: of what a generator shows, and of how often a classifier is right."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

from evenhand.core.config import Config, setting

BiasMethod: TypeAlias = Literal["judged", "estimated"]
"""How it is known which prompts fix a value: by their words, or by repeating them."""


class AssessmentConfig(Config):
    """Settings of an assessment of a generator, besides the specifications."""

    ways: int | None = setting(None, "coverage of combinations of so many groups; by default 2", ge=2)
    inherent: BiasMethod | None = setting(
        None, "judge neutral prompts by themselves too; which these are is judged by their words, or estimated"
    )
    bar: float = setting(0.95, "a prompt fixes a value that it shows at least so often", ge=0.5, lt=1)
    error: float = setting(0.05, "that any estimated verdict about a prompt is wrong, at most", gt=0, lt=0.5)
    repetitions: int = setting(200, "items per prompt that estimates may take", ge=1)
    confidence: float = setting(0.95, "confidence level of every interval", gt=0, lt=1)


class ConfusionConfig(Config):
    """Settings of a count of how often a classifier is right.

    ``repeated`` is one number for every value, or one for each in their order.
    """

    true: str = setting("true", "column of the true values; empty: unknown; none: it shows no value")
    said: str = setting("said", "column of what the classifier says; empty or none: it cannot tell")
    values: tuple[str, ...] | None = setting(None, "the values of the group, like female,male; else all in the file")
    conditions: Mapping[str, str] | None = setting(None, "only items with this value, like asked=leader")
    repeated: int | tuple[int, ...] | None = setting(
        None, "deadlines whose worth is asked for: 6; or one for each value: 5,6,6,9"
    )
    tolerated: float = setting(0.05, "share of wrong labels up to which a deadline is guaranteed", ge=0, lt=1)
    confidence: float = setting(0.95, "confidence level of all intervals together", gt=0, lt=1)
