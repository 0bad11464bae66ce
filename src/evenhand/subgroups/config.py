"""Settings of searches for subgroups of people and of texts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Self, TypeAlias

from pydantic import model_validator

from evenhand.core.config import Config, setting
from evenhand.errors import OptionError

Measure: TypeAlias = Literal["favourable", "false-negative", "false-positive", "score"]
NumberMeasure: TypeAlias = Literal["mean", "residual", "absolute-error"]
Control: TypeAlias = Literal["max-t", "none"]
Method: TypeAlias = Literal["exact", "sampled"]
Compared: TypeAlias = Literal["others", "all"]
By: TypeAlias = Literal["group", "term"]

MIN_BEYOND = 2
"""Minimum number of permutations beyond the critical value: with fewer, they cannot support the confidence level."""


class FamilyTestSettings(Config):
    """Multiple testing, and the number of findings."""

    confidence: float = setting(0.95, "confidence level of all intervals together", gt=0, lt=1)
    permutations: int = setting(1000, "number of permutations for the multiple-testing correction (max-t)")
    most: int = setting(200, "maximum number of findings", ge=1)
    time_limit: float | None = setting(None, "time limit in seconds", unit="seconds", gt=0)
    seed: int = setting(0, "seed of the random numbers", ge=0)

    @model_validator(mode="after")
    def _check_permutations(self) -> Self:
        needed = MIN_BEYOND / (1 - self.confidence)
        if self.permutations < needed:
            raise OptionError(
                f"{self.permutations} permutations are too few for a confidence level of {self.confidence:g}",
                hint=f"use at least {needed:.0f} (default: 1000)",
            )
        return self


class SharedSettings(FamilyTestSettings):
    """Settings of searches by labels or scores, for people and texts."""

    measure: Measure = setting(
        "favourable",
        "compared quantity: rate of the favourable label, error rate among people whose true label is favourable or "
        "not, or mean score (for numbers: mean, residual or absolute-error)",
    )
    margin: float = setting(
        0.05,
        "a gap whose adjusted interval lies within plus or minus this is not a finding (for numbers: in their unit; "
        "default: 0.05 standard deviations)",
        ge=0,
        lt=1,
    )


class RuleSettings(FamilyTestSettings):
    """Tested subgroups of people, and the group they are compared with."""

    attributes: tuple[str, ...] | None = setting(
        None, "sensitive attributes; default: the protected attributes of the schema"
    )
    support: float = setting(0.05, "minimum share of the people in a subgroup", ge=0, lt=1)
    min_size: int = setting(30, "minimum number of people inside and outside a subgroup", ge=1)
    depth: int | None = setting(None, "maximum number of attributes in a rule set; default: all", ge=1)
    bins: int = setting(10, "maximum number of bins of a numeric attribute, with about equal numbers of people", ge=2)
    judged: tuple[str, ...] = setting((), "also test this subgroup, such as 'age >= 90 and sex == Male'")
    per: str | None = setting(None, "average the gaps within the values of this attribute")
    budget: int | None = setting(None, "maximum number of individuals sent to the model", ge=1)


class SubgroupConfig(RuleSettings, SharedSettings):
    """Settings of a search for subgroups of people by labels or scores."""

    method: Method = setting("exact", "count all people, or sample around them as published (TestSGD)")
    repeats: int = setting(1, "answers per person, combined by majority vote; for models whose answers vary", ge=1)


class NumberSubgroupConfig(RuleSettings):
    """Settings of a search for subgroups of people by numbers, such as premiums."""

    measure: NumberMeasure = setting(
        "mean", "compared quantity: mean number, mean residual (decided minus true), or mean absolute error"
    )
    above: float | None = setting(None, "for numbers: compare the share above this level instead of the mean")
    margin: float | None = setting(
        None,
        "a gap whose adjusted interval lies within plus or minus this is not a finding: in the unit of the number "
        "(default: 0.05 standard deviations) or, with a level, a share of people (default: 0.05)",
        ge=0,
    )

    @model_validator(mode="after")
    def _check_level(self) -> Self:
        if self.above is not None and self.measure != "mean":
            raise OptionError(
                f"expected a measure or a level, got {self.measure} and above {self.above:g}",
                location="above",
                hint="omit `measure=`: with a level, shares of people are compared",
            )
        if self.above is not None and self.margin is not None and self.margin >= 1:
            raise OptionError(
                f"expected a margin below 1 when shares of people are compared, got {self.margin:g}",
                location="margin",
                hint="0.05 is 5 points",
            )
        return self


class TextSubgroupConfig(SharedSettings):
    """Settings of a search for subgroups of texts. The time limit applies to queries to the model."""

    compared: Compared = setting(
        "others", "compare with texts that mention other groups of the same categories, or with all other texts"
    )
    by: By = setting("group", "a rule names a group, with all of its terms, or a single term")
    depth: int = setting(2, "maximum number of categories in a rule set", ge=1)
    support: float = setting(0.0, "minimum share of the texts in a rule set", ge=0, lt=1)
    min_texts: int = setting(30, "minimum number of texts inside and outside a rule set", ge=1)
    swaps: int = setting(1000, "maximum number of texts per category whose terms are swapped; 0 swaps none", ge=0)
    judged: tuple[Mapping[str, str], ...] = setting((), "also test these rule sets, category -> group or term")
    labels: tuple[Any, ...] | None = setting(None, "labels in the order of the scores, if the model names none")
    favourable: Any = setting(None, "label whose rate or score is compared; default: the last")
