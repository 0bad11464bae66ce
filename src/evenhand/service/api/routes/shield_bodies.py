"""Bodies of requests to shields and of their responses."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from evenhand.service.api.error_handlers import ErrorAnswer

MAX_BATCH = 1_000
"""Maximum number of decisions in a batch."""


MAX_ID_LENGTH = 190
"""Maximum length of an ID."""

ID_PATTERN = (
    "^[^\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e007f]+$"
)
"""Pattern of IDs. Control characters separate IDs of labels from those of decisions. Invisible characters and changes
of direction could make different IDs look equal."""


def _id_to_text(value: object) -> object:
    """Convert an ID to text. A whole number is the same ID as its digits."""
    is_integer = isinstance(value, int) and not isinstance(value, bool) and -(10**100) < value < 10**100
    text = str(value) if is_integer else value
    if not isinstance(text, str) or not 1 <= len(text) <= MAX_ID_LENGTH or not re.fullmatch(ID_PATTERN, text):
        raise ValueError(
            f"an id is a whole number, or a text of 1 to {MAX_ID_LENGTH} characters, none for control, none invisible"
        )
    return text


def _check_bit(value: object) -> object:
    if value.__class__ is not int:
        raise ValueError("this is neither 0 nor 1")
    return value


Id: TypeAlias = Annotated[
    str,
    BeforeValidator(_id_to_text, json_schema_input_type=str | int),
    Field(min_length=1, max_length=MAX_ID_LENGTH, pattern=ID_PATTERN),
]

Bit: TypeAlias = Annotated[Literal[0, 1], BeforeValidator(_check_bit, json_schema_input_type=Literal[0, 1])]


class _RequestBody(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _check_size(cls, body: object) -> object:
        # Describing a hundred thousand faults would delay all other requests by seconds.
        if isinstance(body, dict) and len(body) > 10:
            raise ValueError("these are too many entries")
        return body


class DecisionRequest(_RequestBody):
    """One individual."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"id": "application 1", "group": "women", "recommendation": 0}]}
    )

    id: Annotated[Id, Field(description="Unique ID. A repeated request gets the same answer.")]
    group: Annotated[str, Field(max_length=200, description="Name of the group.")]
    recommendation: Annotated[Bit, Field(description="Recommendation of the model: 1 to accept, 0 to reject.")]
    cost: Annotated[
        float | None,
        Field(ge=0, strict=True, description="Cost of an override; required if the plan has several costs."),
    ] = None


class BatchRequest(_RequestBody):
    """Several individuals in the order of their decisions."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "decisions": [
                        {"id": 1, "group": "women", "recommendation": 0},
                        {"id": 2, "group": "men", "recommendation": 1},
                    ]
                }
            ]
        }
    )

    decisions: Annotated[list[DecisionRequest], Field(min_length=1, max_length=MAX_BATCH)]


class LabelRequest(_RequestBody):
    """True label of a decided individual."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"id": "application 1", "label": 1}]})

    id: Annotated[Id, Field(description="ID of the decision.")]
    label: Annotated[Bit, Field(description="1 if accepting would have been right.")]


class CertificateBody(BaseModel):
    """Guarantee for the future, and its assumption."""

    kind: Literal["shield-certificate"]
    property: str
    kappa: str
    step: int
    horizon: int
    period: int
    bias: float
    bias_shielded: float
    bias_unshielded: float
    open_labels: int
    expired_labels: Annotated[
        int,
        Field(description="Decisions whose label did not come within the configured wait; not counted. Absent if 0."),
    ] = 0
    bound: Annotated[
        float | None, Field(description="Bound of the bias at the end of this period. Null: no guarantee.")
    ]
    bound_exact: str | None
    attained: Annotated[bool, Field(description="Whether some future attains the bound.")]
    bound_later: Annotated[float | None, Field(description="At the end of every later period; null: no guarantee.")]
    how: Annotated[str, Field(description="Why the bound holds, or why there is none.")]
    how_later: Annotated[
        str | None, Field(description="The same of the later bound; null: no later period follows.")
    ] = None
    advisory: bool
    assumption: str | None
    assumption_held: bool | None


class DecisionAnswer(BaseModel):
    """Decision."""

    id: str
    decision: Bit
    intervened: bool
    reason: Literal["followed", "accepted", "rejected", "would-accept", "would-reject", "unguarded"]
    explanation: str
    guarded: Annotated[bool, Field(description="Whether the shield decided; false only where when_down is pass.")]
    guaranteed: Annotated[bool, Field(description="Whether the period is certain to end fair, with all before it.")]
    bias: Annotated[float | None, Field(description="Current bias. Null for unguarded decisions.")]
    certificate: CertificateBody | None
    number: Annotated[int | None, Field(description="Number of the entry in the log. Null: there is none yet.")]


class BatchDecision(DecisionAnswer):
    """A decision of a batch."""

    repeated: bool


class BatchError(ErrorAnswer):
    """Error for one individual of a batch."""

    id: str


class BatchAnswer(BaseModel):
    """One result for each individual, in their order."""

    results: list[BatchDecision | BatchError]


class LabelAnswer(BaseModel):
    """Guarantee with the label."""

    id: str
    bias: float
    certificate: CertificateBody
    number: int


class ShieldSummary(BaseModel):
    """Shield and its state."""

    name: str
    kind: str
    property: str
    kappa: str
    horizon: int
    groups: list[str]
    largest_cost: float
    cost_needed: bool
    labels: Annotated[bool, Field(description="Whether labels follow the decisions.")]
    advisory: bool
    when_down: Literal["refuse", "pass"]
    digest: Annotated[str, Field(description="Digest of the policy.")]
    number: Annotated[int, Field(description="Number of the last entry in the log.")]
    hash: Annotated[str, Field(description="Hash of that entry.")]
    bias: float
    bound: float | None
    interventions: int
    cost: Annotated[float, Field(description="Total cost of all overrides.")]
    certificate: CertificateBody


class ShieldDetails(ShieldSummary):
    """Shield with all of its counters."""

    counters: dict[str, Any]


class ShieldList(BaseModel):
    """All shields that are served."""

    shields: list[ShieldSummary]
