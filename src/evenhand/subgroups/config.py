"""Settings of a search for subgroups, of people and of texts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Self, TypeAlias

from pydantic import model_validator

from evenhand.core.config import Config, setting
from evenhand.errors import OptionError

Measure: TypeAlias = Literal["favourable", "false-negative", "false-positive", "score"]
NumberMeasure: TypeAlias = Literal["mean", "residual", "absolute-error"]
"""What is compared where a number is decided; with a level, ``above``: how often it is above that."""

Control: TypeAlias = Literal["max-t", "BY", "none"]
Against: TypeAlias = Literal["rest", "best"]
Method: TypeAlias = Literal["exact", "sampled", "themis", "linear"]
Compared: TypeAlias = Literal["others", "all"]
By: TypeAlias = Literal["group", "term"]
LEAST_BEYOND = 2
"""Permutations beyond the critical value, at least: with fewer they cannot show the confidence."""

TextMethod: TypeAlias = Literal["exact", "sampled"]


class FamilyTestSettings(Config):
    """How many rule sets are tested together, and which of them are kept."""

    confidence: float = setting(0.95, "confidence level of all intervals taken together", gt=0, lt=1)
    control: Control = setting("max-t", "multiple-testing correction: of any false finding, of their share, or none")
    permutations: int = setting(1000, "permutations for max-t")
    most: int = setting(200, "findings kept", ge=1)
    time_limit: float | None = setting(None, "stop after so many seconds", unit="seconds", gt=0)
    seed: int = setting(0, "same seed, same result", ge=0)

    @model_validator(mode="after")
    def _check_permutations(self) -> Self:
        needed = LEAST_BEYOND / (1 - self.confidence)
        if self.control == "max-t" and self.permutations < needed:
            raise OptionError(
                f"{self.permutations} permutations cannot show a confidence of {self.confidence:g}",
                hint=f"at least {needed:.0f}; 1000 by default",
            )
        return self


class SharedSettings(FamilyTestSettings):
    """Settings of every search for subgroups by labels or scores, whatever the data."""

    measure: Measure = setting(
        "favourable",
        "what is compared: rate of the favourable label, error rate among those who deserve it or not, mean score "
        "(of a number that is decided: mean, residual or absolute-error)",
    )
    margin: float = setting(
        0.05,
        "a gap whose adjusted interval lies within plus or minus this does not count (of a number: in its unit, by "
        "default 0.05 standard deviations)",
        ge=0,
        lt=1,
    )


class RuleSettings(Config):
    """Which subgroups of people are looked at, and with whom they are compared."""

    attributes: tuple[str, ...] | None = setting(
        None, "the sensitive attributes; by default those that the schema marks as protected"
    )
    support: float = setting(0.05, "share of the people concerned that a subgroup holds at least", ge=0, lt=1)
    min_size: int = setting(30, "people inside, and outside, at least", ge=1)
    depth: int | None = setting(None, "attributes in one rule set, at most; by default all", ge=1)
    bins: int = setting(10, "parts of about equally many people that a number is cut into, at most", ge=2)
    judged: tuple[str, ...] = setting((), "judge this subgroup too, like 'age >= 90 and sex == Male'")
    per: str | None = setting(None, "take gaps within each value of this attribute, and average them")
    budget: int | None = setting(None, "ask the model about so many individuals at most, all told", ge=1)


class SubgroupConfig(RuleSettings, SharedSettings):
    """Settings of a search for subgroups of people, besides those that every search has."""

    method: Method = setting("exact", "count everybody, or search by a published method")
    repeats: int = setting(
        1, "answers per person, the majority decides; for models that can answer differently each time", ge=1
    )


class NumberSubgroupConfig(RuleSettings, FamilyTestSettings):
    """Settings of a search for subgroups of people about whom a number is decided, such as a premium."""

    measure: NumberMeasure = setting(
        "mean", "what is compared: the mean number, the mean of decided minus true, or the mean absolute error"
    )
    above: float | None = setting(
        None, "where a number is decided: compare how often it is above this, in place of its mean"
    )
    margin: float | None = setting(
        None,
        "a gap whose adjusted interval lies within plus or minus this does not count: in the unit of the number, by "
        "default 0.05 standard deviations; with a level, a share of people, by default 0.05",
        ge=0,
    )

    @model_validator(mode="after")
    def _check_level(self) -> Self:
        if self.above is not None and self.measure != "mean":
            raise OptionError(
                f"expected a measure or a level, got {self.measure} and above {self.above:g}",
                location="above",
                hint="leave `measure=` out: with a level, shares of people are compared",
            )
        if self.above is not None and self.margin is not None and self.margin >= 1:
            raise OptionError(
                f"expected a margin below 1 where shares of people are compared, got {self.margin:g}",
                location="margin",
                hint="0.05 is 5 points",
            )
        return self


class TextSubgroupConfig(SharedSettings):
    """Settings of a search for subgroups of texts, besides those that every search has.

    The time limit is the time after which the model is asked no more.
    """

    compared: Compared = setting(
        "others", "compare with texts that speak of other groups of the same categories, or with every other text"
    )
    by: By = setting("group", "a rule names a group, whichever of its words a text uses, or a single term")
    depth: int = setting(2, "categories in one rule set, at most", ge=1)
    support: float = setting(0.0, "share of texts that a rule set holds at least", ge=0, lt=1)
    min_texts: int = setting(30, "texts that it holds at least, and that it is compared with", ge=1)
    swaps: int = setting(1000, "texts of each category whose words are swapped, at most; 0 for none", ge=0)
    judged: tuple[Mapping[str, str], ...] = setting(
        (), "rule sets judged besides, category -> group or term; the method 'sampled' samples these alone"
    )
    method: TextMethod = setting("exact", "count every text, or sample as published")
    labels: tuple[Any, ...] | None = setting(None, "labels in the order of the model's scores, if it names none")
    favourable: Any = setting(None, "label whose rate or score is compared; the last unless set")
