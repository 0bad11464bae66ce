"""Settings of group metrics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from pydantic import field_validator

from evenhand.core.config import Assignments, Config, setting
from evenhand.groups.breakdown import SMALL
from evenhand.schema.table import list_names


class GroupConfig(Config):
    """Settings of group metrics. Only bootstraps are random."""

    protected: tuple[str, ...] | None = setting(
        None, "attributes to group by, each separately and all jointly; by default those of the schema"
    )
    confidence: float = setting(0.95, "confidence level of every interval", gt=0, lt=1)
    min_group_size: int = setting(
        SMALL,
        "smallest denominator of a rate that is compared between groups; groups below it are not assessable",
        ge=1,
    )
    reference: Assignments = setting(
        (), "compare all other groups with this one, such as sex=Male, instead of the highest with the lowest"
    )
    thresholds: bool = setting(
        False, "compute accuracy, selection rates and gaps at all score thresholds, with simultaneous bands"
    )
    keep_decisions: bool = setting(
        False,
        "keep the decision and the score of each person, so that another audit of the same people is compared with "
        "shorter intervals",
    )
    seed: int = setting(0, "random seed of bootstraps", ge=0)

    def with_default(self, protected: Sequence[str]) -> Self:
        """Return a copy that groups by the given attributes, unless attributes are set."""
        return self if self.protected is not None else self.model_copy(update={"protected": tuple(protected)})

    @field_validator("protected")
    @classmethod
    def _check_protected(cls, names: tuple[str, ...] | None) -> tuple[str, ...] | None:
        return None if names is None else list_names(names, "protected")
