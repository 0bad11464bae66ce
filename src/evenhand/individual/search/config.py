"""Settings of a search, of people and of texts."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from pydantic import field_validator

from evenhand.core.config import Config, setting
from evenhand.errors import OptionError

SAMPLES = 4096
"""Individuals drawn for each counterfactual flip rate."""


@runtime_checkable
class SeedPeople(Protocol):
    """People to start from, as an array; told by what it can do, so that options do not wait for NumPy."""

    def __array__(self) -> Any:
        """Return the people, shape (n, attributes)."""


class SearchConfig(Config):
    """Settings of a search for people.

    ``seeds`` may also be the people themselves, an array of shape (n, attributes). Left out, it is 100; with a budget
    the method begins again with others until the budget is spent. The budget is a ceiling for all that is asked: trying
    the model when it is loaded, rates, search, confirmation of what was found, and further tries after failures. The
    time limit is for everything but confirmation.
    """

    protected: tuple[str, ...] | None = setting(
        None, "attributes whose joint values are compared; by default those that the schema marks"
    )
    method: str = setting("frontier", "how to search; see the documentation")
    seeds: int | SeedPeople | None = setting(None, "people to start from")
    local: int = setting(100, "moves around each profile found", ge=0)
    h: float = setting(1.0, "for maft: how far apart it asks about slopes, in steps", gt=0, allow_inf_nan=False)
    budget: int | None = setting(None, "ask the model about so many individuals at most, all told", ge=1)
    time_limit: float | None = setting(None, "stop after so many seconds", unit="seconds", gt=0)
    constraints: tuple[str, ...] = setting((), "holds for every plausible profile, like 'age >= 16'")
    allow_infeasible: bool = setting(False, "also report profiles with values that never occur together")
    as_published: bool = setting(
        False, "change the protected attributes alone, whatever rules the schema has and whatever the data say of them"
    )
    samples: int = setting(SAMPLES, "individuals drawn for each flip rate; 0 measures none", ge=0)
    confidence: float = setting(0.95, "confidence level of the rates' intervals", gt=0, lt=1)
    most_examples: int = setting(20, "profiles shown in full", ge=0)
    seed: int = setting(0, "same seed, same result", ge=0)
    resume: Path | None = setting(None, "keep every answer in this file, and go on from what is in it")

    @field_validator("seeds", mode="before")
    @classmethod
    def _check_seeds(cls, seeds: Any) -> Any:
        if getattr(seeds, "shape", None) == ():
            seeds = int(seeds)  # a NumPy integer
        if isinstance(seeds, int) and seeds < 1:
            raise OptionError(f"a search needs at least one seed, not {seeds}")
        return seeds


class TextSearchConfig(Config):
    """Settings of a search in texts. What was found until the time limit is the result."""

    examples: int = setting(100, "findings kept, widest gap between scores first, one per text and category", ge=0)
    budget: int | None = setting(None, "texts that the model may be asked about, at most", ge=2)
    time_limit: float | None = setting(None, "stop after so many seconds", unit="seconds", gt=0)
    confidence: float = setting(0.95, "confidence level of the intervals", gt=0, lt=1)
    labels: tuple[Any, ...] | None = setting(None, "labels in the order of the model's scores, if it names none")
    favourable: Any = setting(None, "label whose score is compared; the last unless set")


class NumberSearchConfig(Config):
    """Settings of a search for the largest change of a number."""

    protected: tuple[str, ...] | None = setting(
        None, "attributes whose joint values are compared; by default those that the schema marks"
    )
    tolerance: float = setting(0.0, "count people whose number changes by more than this", ge=0)
    budget: int = setting(20_000, "ask the model about so many individuals at most, all told", ge=2)
    time_limit: float | None = setting(None, "stop after so many seconds", unit="seconds", gt=0)
    most_examples: int = setting(20, "profiles shown in full", ge=0)
    as_published: bool = setting(
        False, "change the protected attributes alone, whatever rules the schema has and whatever the data say of them"
    )
    seed: int = setting(0, "same seed, same result", ge=0)
