"""What people read of a search: which attributes matter, which kinds of people were found, how varied they are."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict


class Share(BaseModel):
    """One value of an attribute, or a range: how common it is among the found profiles and in the data."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    value: str
    found: float
    data: float | None


class AttributeReading(BaseModel):
    """What one unprotected attribute has to do with the findings.

    Attributes:
        name: the attribute.
        differs: how far its distribution among the found profiles is from that in the data: the share of profiles that
            would have to change (total variation distance), 0 to 1. None without data.
        sensitive: for how many of the profiles tried the pair is decided alike as soon as this attribute has the value
            of somebody else in the data. None if not asked.
        tried: of how many profiles that is the share.
        shares: values or ranges.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    differs: float | None
    sensitive: float | None
    tried: int
    shares: tuple[Share, ...]


class KindOfPeople(BaseModel):
    """Profiles that are alike.

    Attributes:
        size, share: how many of all profiles are nearest to this kind's representative.
        common: attribute -> value or range that at least two in three of them have, and fewer in the data.
        gap: the median score gap among them.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    size: int
    share: float
    common: dict[str, str]
    gap: float


class Reading(BaseModel):
    """A search for people to read. All numbers are counts over the profiles found, which are no random sample.

    Attributes:
        attributes: those that matter most first.
        kinds: largest first; the representative of each is at the same place in ``SearchResult.representatives``.
        gaps: profiles by score gap, in 20 equal steps from 0 to 1.
        diversity: the mean distance (Gower) between two profiles, 0 to 1; None with fewer than two.
        covered, clusters: how many of the data's clusters have a profile nearest to them, of how many.
        distance: the median distance of the profiles looked at to the nearest person in the data; None without data.
        looked_at: profiles that kinds, distances and diversity were computed from: the first by validity and gap.
        scale: what the distances are.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    attributes: tuple[AttributeReading, ...]
    kinds: tuple[KindOfPeople, ...]
    gaps: tuple[int, ...]
    diversity: float | None
    covered: int | None
    clusters: int | None
    distance: float | None
    looked_at: int
    scale: Literal["Gower"] = "Gower"
