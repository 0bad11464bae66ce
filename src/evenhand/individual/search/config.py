"""Settings of searches for people and in texts."""

from __future__ import annotations

from typing import Any

from evenhand.core.config import Config, setting

SAMPLES = 4096
"""Default number of individuals drawn for each counterfactual flip rate."""


class SearchConfig(Config):
    """Settings of a search for people.

    By default, there are 100 seeds, and with a budget the method starts again from new seeds until the budget is spent.
    The budget covers all queries: those during loading, for rates, search and confirmation, and retries after failures.
    The time limit covers everything except confirmation.
    """

    protected: tuple[str, ...] | None = setting(
        None, "attributes whose joint values are compared; default: those of the schema"
    )
    method: str = setting("frontier", "search method; see the documentation")
    seeds: int | None = setting(None, "number of people to start from", ge=1)
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


class TextSearchConfig(Config):
    """Settings of a search in texts. At the time limit, the findings so far are returned."""

    examples: int = setting(100, "number of findings to keep, one per text and category, widest gap first", ge=0)
    budget: int | None = setting(None, "maximum number of texts queried", ge=2)
    time_limit: float | None = setting(None, "time limit", unit="seconds", gt=0)
    confidence: float = setting(0.95, "confidence level of the intervals", gt=0, lt=1)
    labels: tuple[Any, ...] | None = setting(None, "labels in the order of the model's scores, if it names none")
    favourable: Any = setting(None, "label whose score is compared; default: the last label")
