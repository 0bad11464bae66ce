"""Settings of a search for subgroups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

from evenhand.errors import OptionError
from evenhand.subgroup.around import How
from evenhand.subgroup.measures import Measure
from evenhand.subgroup.result import Against, Control, Method


@dataclass(frozen=True)
class Config:
    """Settings of a search for subgroups.

    Attributes:
        attributes: the sensitive attributes; None: those that the schema marks as protected.
        measure: what is compared: ``favourable`` (rate of the favourable label), ``false-negative`` and
            ``false-positive`` (error rates among those who do and do not deserve it), ``score`` (mean score).
        against: with whom: ``rest`` (everybody else) or ``best`` (the best treated other group by the same attributes).
        support: the share of the people concerned that are in a rule set, and outside it, at least.
        least_people: people that are in it, and outside it, at least.
        margin: a gap whose adjusted interval lies within plus or minus this is not called found.
        confidence: of all intervals; 1 - confidence is the error that is controlled.
        control: of the error over everything that is looked at: ``max-t`` (probability of any false finding), ``BY``
            (share of false ones among those found), ``none``.
        permutations: for ``max-t``.
        depth: attributes in one rule set, at most; None: all of them.
        bins: cells that a number is cut into, at most.
        split: choose rule sets on a random half of the people, and measure them on the other.
        judged: conditions such as ``"age >= 90 and sex == Male"`` that are judged besides, in any bins.
        most: findings kept.
        per: an attribute within whose values gaps are taken, and averaged.
        method: ``exact`` counts everybody; the others are published methods to compare with.
        augment: look at the findings (or those judged) around the data too: ``sampled`` (as many samples as the margin
            needs) or ``sequential`` (until the answer is clear, for models whose answers cost money).
        budget: individuals that the model may be asked about around the data; None: no limit.
        time_limit: seconds; None: no limit.
        seed: of all random numbers.
    """

    attributes: tuple[str, ...] | None = None
    measure: Measure = "favourable"
    against: Against = "rest"
    support: float = 0.05
    least_people: int = 30
    margin: float = 0.05
    confidence: float = 0.95
    control: Control = "max-t"
    permutations: int = 1000
    depth: int | None = None
    bins: int = 10
    split: bool = False
    judged: tuple[str, ...] = ()
    most: int = 200
    per: str | None = None
    method: Method = "exact"
    augment: How | None = None
    budget: int | None = None
    time_limit: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("attributes", "judged"):
            if isinstance(given := getattr(self, name), str):
                raise OptionError(f"{name} must be several, not one text", mend=f"write {name}=({given!r},)")
        for name, choices in (("measure", Measure), ("against", Against), ("control", Control), ("method", Method)):
            given, known = getattr(self, name), get_args(choices)
            if given not in known:
                raise OptionError(f"there is no {name} {given!r}", mend=f"one of: {', '.join(known)}")
        if self.augment is not None and self.augment not in get_args(How):
            raise OptionError(f"augment must be one of {', '.join(get_args(How))}, not {self.augment!r}")
        if self.budget is not None and self.augment is None:
            raise OptionError("a budget is for asking around the data", mend="say augment='sequential' too")
        if not 0 < self.confidence < 1:
            raise OptionError(f"confidence must lie between 0 and 1, not {self.confidence:g}", mend="say 0.95")
        for name in ("support", "margin"):
            if not 0 <= getattr(self, name) < 1:
                raise OptionError(f"{name} must be at least 0 and below 1, not {getattr(self, name):g}")
        for name, least in (("least_people", 1), ("bins", 2), ("most", 1), ("depth", 1)):
            given = getattr(self, name)
            if given is not None and given < least:
                raise OptionError(f"{name} must be at least {least}, not {given}")
        if self.time_limit is not None and not self.time_limit > 0:
            raise OptionError(f"the time limit must be positive, not {self.time_limit:g} seconds")
        needed = 2 / (1 - self.confidence)
        if self.control == "max-t" and self.permutations < needed:
            raise OptionError(
                f"{self.permutations} permutations cannot show a confidence of {self.confidence:g}",
                mend=f"at least {needed:.0f}; 1000 by default",
            )
