"""Settings of assessments of generators and classifiers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

from evenhand.core.config import Config, setting

BiasMethod: TypeAlias = Literal["judged", "estimated"]
"""Method for identifying prompts that fix a value: by their words or by repetition."""


class AssessmentConfig(Config):
    """Settings for assessing a generator."""

    ways: int | None = setting(
        None, "number of groups in the combinations whose coverage is computed; default: 2", ge=2
    )
    inherent: BiasMethod | None = setting(
        None, "also assess the items of neutral prompts separately; prompts are judged by their words or by repetition"
    )
    bar: float = setting(0.95, "probability of a value at which a prompt is considered to fix it", ge=0.5, lt=1)
    error: float = setting(0.05, "maximum probability that any estimated verdict on a prompt is wrong", gt=0, lt=0.5)
    repetitions: int = setting(200, "maximum number of items per prompt for estimates", ge=1)
    confidence: float = setting(0.95, "confidence level of each interval", gt=0, lt=1)


class ConfusionConfig(Config):
    """Settings for measuring the errors of a classifier.

    ``repeated`` is one number for all values, or one for each value in order.
    """

    true: str = setting("true", "column of true values; empty: not labelled; none: no value")
    said: str = setting("said", "column of the classifier's labels; empty or none: cannot tell")
    values: tuple[str, ...] | None = setting(None, "values of the group, such as female,male; by default all labels")
    conditions: Mapping[str, str] | None = setting(None, "only items with this value, such as asked=leader")
    repeated: int | tuple[int, ...] | None = setting(
        None, "deadlines to examine: one for all values, such as 6, or one for each value, such as 5,6,6,9"
    )
    tolerated: float = setting(0.05, "maximum share of wrong labels for a deadline to count as guaranteed", ge=0, lt=1)
    confidence: float = setting(0.95, "joint confidence level of all intervals", gt=0, lt=1)
