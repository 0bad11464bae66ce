"""Settings of a search for subgroups of texts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from evenhand.errors import OptionError
from evenhand.subgroup.measures import Measure
from evenhand.subgroup.result import Control

Compared: TypeAlias = Literal["others", "all"]
By: TypeAlias = Literal["group", "term"]
TextMethod: TypeAlias = Literal["exact", "sampled"]


@dataclass(frozen=True)
class Config:
    """Settings of a search for subgroups of texts.

    Attributes:
        measure: what is compared: ``favourable`` (rate of the favourable label), ``false-negative`` and
            ``false-positive`` (error rates among texts whose true label is and is not favourable), ``score``.
        compared: with which texts: ``others`` (those that speak of other groups of the same categories), or ``all``
            (every other text, also those that speak of nobody: the published definition).
        by: what a rule names: a ``group``, whichever of its words a text uses, or a single ``term``.
        depth: categories in one rule set, at most.
        support: the share of texts that a rule set holds at least.
        least_texts: texts that it holds at least, and that it is compared with.
        margin: a gap whose adjusted interval lies within plus or minus this is not called found.
        confidence: of all intervals; 1 - confidence is the error that is controlled.
        control: of the error over everything that is looked at: ``max-t`` (probability of any false finding), ``BY``
            (share of false ones among those found), ``none``.
        permutations: for ``max-t``.
        swaps: texts of each category whose words are swapped, at most, drawn at random if there are more; 0: none.
        examples: texts kept whose decision some swap changes, those with the widest gap between scores first.
        judged: rule sets that are judged besides, category -> group or term.
        most: findings kept.
        method: ``exact`` counts every text; ``sampled`` is the published method, to compare with.
        time_limit: seconds after which the model is asked no more; None: no limit.
        seed: of all random numbers.
    """

    measure: Measure = "favourable"
    compared: Compared = "others"
    by: By = "group"
    depth: int = 2
    support: float = 0.0
    least_texts: int = 30
    margin: float = 0.05
    confidence: float = 0.95
    control: Control = "max-t"
    permutations: int = 1000
    swaps: int = 1000
    examples: int = 100
    judged: tuple[Mapping[str, str], ...] = ()
    most: int = 200
    method: TextMethod = "exact"
    time_limit: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        choices = {"measure": Measure, "compared": Compared, "by": By, "control": Control, "method": TextMethod}
        for name, known in choices.items():
            if (given := getattr(self, name)) not in get_args(known):
                raise OptionError(f"there is no {name} {given!r}", mend=f"one of: {', '.join(get_args(known))}")
        if not 0 < self.confidence < 1:
            raise OptionError(f"confidence must lie between 0 and 1, not {self.confidence:g}", mend="say 0.95")
        for name in ("support", "margin"):
            if not 0 <= getattr(self, name) < 1:
                raise OptionError(f"{name} must be at least 0 and below 1, not {getattr(self, name):g}")
        for name, least in (("depth", 1), ("least_texts", 1), ("swaps", 0), ("examples", 0), ("most", 1)):
            if (given := getattr(self, name)) < least:
                raise OptionError(f"{name} must be at least {least}, not {given}")
        if self.time_limit is not None and not self.time_limit > 0:
            raise OptionError(f"the time limit must be positive, not {self.time_limit:g} seconds")
        needed = 2 / (1 - self.confidence)
        if self.control == "max-t" and self.permutations < needed:
            raise OptionError(
                f"{self.permutations} permutations cannot show a confidence of {self.confidence:g}",
                mend=f"at least {needed:.0f}; 1000 by default",
            )
