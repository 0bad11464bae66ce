"""Settings of searches for people and in texts."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from pydantic import field_validator

from evenhand.core.config import Config, setting
from evenhand.errors import OptionError

SAMPLES = 4096
"""Default number of individuals drawn for each counterfactual flip rate."""


@runtime_checkable
class SeedPeople(Protocol):
    """Array of seeds. This is a protocol so that reading options does not import NumPy."""

    def __array__(self) -> Any:
        """Return the seeds, shape (n, attributes)."""


class SearchConfig(Config):
    """Settings of a search for people.

    ``seeds`` is a number (default: 100) or an array of individuals, shape (n, attributes). With a budget, the method
    starts again from new seeds until the budget is spent. The budget covers all queries: those during loading, for
    rates, search and confirmation, and retries after failures. The time limit covers everything except confirmation.
    """

    protected: tuple[str, ...] | None = setting(
        None, "attributes whose joint values are compared; default: those of the schema"
    )
    method: str = setting("frontier", "search method; see the documentation")
    seeds: int | SeedPeople | None = setting(None, "people to start from")
    local: int = setting(100, "number of moves around each profile found", ge=0)
    budget: int | None = setting(None, "maximum number of individuals queried", ge=1)
    time_limit: float | None = setting(None, "time limit", unit="seconds", gt=0)
    constraints: tuple[str, ...] = setting((), "condition on every plausible profile, such as 'age >= 16'")
    allow_infeasible: bool = setting(False, "also report profiles with values that never occur together in the data")
    as_published: bool = setting(
        False, "change only the protected attributes, ignoring the rules of the schema and the evidence in the data"
    )
    samples: int = setting(SAMPLES, "individuals drawn for each flip rate; 0 skips the rates", ge=0)
    confidence: float = setting(0.95, "confidence level of the rates' intervals", gt=0, lt=1)
    most_examples: int = setting(20, "profiles shown in full", ge=0)
    seed: int = setting(0, "same seed, same result", ge=0)

    @field_validator("seeds", mode="before")
    @classmethod
    def _check_seeds(cls, seeds: Any) -> Any:
        if getattr(seeds, "shape", None) == ():
            seeds = int(seeds)  # a NumPy integer
        if isinstance(seeds, int) and seeds < 1:
            raise OptionError(f"a search needs at least one seed, not {seeds}")
        return seeds


class TextSearchConfig(Config):
    """Settings of a search in texts. At the time limit, the findings so far are returned."""

    examples: int = setting(100, "number of findings to keep, one per text and category, widest gap first", ge=0)
    budget: int | None = setting(None, "maximum number of texts queried", ge=2)
    time_limit: float | None = setting(None, "time limit", unit="seconds", gt=0)
    confidence: float = setting(0.95, "confidence level of the intervals", gt=0, lt=1)
    labels: tuple[Any, ...] | None = setting(None, "labels in the order of the model's scores, if it names none")
    favourable: Any = setting(None, "label whose score is compared; default: the last label")
