"""Bodies of requests to shields and of their responses."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from evenhand.service.api.error_handlers import ErrorAnswer

MAX_BATCH = 1_000
"""Decisions in a batch, at most."""


MAX_ID_LENGTH = 190
"""Characters of an id."""

ID_PATTERN = (
    "^[^\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e007f]+$"
)
"""No control characters, which also keeps ids of labels apart from those of decisions; none that turn the direction of
writing or are not seen, by which two ids could look the same."""


def _id_to_text(given: object) -> object:
    """Return an id as a text: a whole number is the same id as its digits."""
    whole = isinstance(given, int) and not isinstance(given, bool) and -(10**100) < given < 10**100
    text = str(given) if whole else given
    if not isinstance(text, str) or not 1 <= len(text) <= MAX_ID_LENGTH or not re.fullmatch(ID_PATTERN, text):
        raise ValueError(
            f"an id is a whole number, or a text of 1 to {MAX_ID_LENGTH} characters, none for control, none invisible"
        )
    return text


def _check_bit(given: object) -> object:
    if given.__class__ is not int:
        raise ValueError("this is neither 0 nor 1")
    return given


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
    def _few(cls, given: object) -> object:
        # A hundred thousand faults take seconds to write down, during which no other request is answered.
        if isinstance(given, dict) and len(given) > 10:
            raise ValueError("these are too many entries")
        return given


class DecisionRequest(_RequestBody):
    """One individual."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"id": "application 1", "group": "women", "recommendation": 0}]}
    )

    id: Annotated[Id, Field(description="Yours; asked again under it, the answer is the same.")]
    group: Annotated[str, Field(max_length=200, description="The name of its group.")]
    recommendation: Annotated[Bit, Field(description="Of the model: 1 to accept, 0 to reject.")]
    cost: Annotated[
        float | None, Field(ge=0, strict=True, description="Of deciding otherwise; needed if the plan has several.")
    ] = None


class BatchRequest(_RequestBody):
    """Several individuals, who are decided on in this order."""

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
    """The truth about an individual that was decided on."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"id": "application 1", "label": 1}]})

    id: Annotated[Id, Field(description="That of the decision.")]
    label: Annotated[Bit, Field(description="1 if accepting would have been right.")]


class CertificateBody(BaseModel):
    """What is guaranteed from here on, and on which assumption."""

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
    bound: Annotated[float | None, Field(description="Of the bias at the end of this period; null: no guarantee.")]
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
    """What was decided."""

    id: str
    decision: Bit
    intervened: bool
    reason: Literal["followed", "accepted", "rejected", "would-accept", "would-reject", "unguarded"]
    explanation: str
    guarded: Annotated[bool, Field(description="Whether the shield decided; false only where when_down is pass.")]
    guaranteed: Annotated[bool, Field(description="Whether the period is certain to end fair, with all before it.")]
    bias: Annotated[float | None, Field(description="Of the decisions so far; null: not known, as it is unguarded.")]
    certificate: CertificateBody | None
    number: Annotated[int | None, Field(description="Of the entry in the log; null: there is none yet.")]


class BatchDecision(DecisionAnswer):
    """A decision of a batch."""

    repeated: bool


class BatchError(ErrorAnswer):
    """An individual of a batch that could not be decided on; the others were."""

    id: str


class BatchAnswer(BaseModel):
    """One result for each individual, in their order."""

    results: list[BatchDecision | BatchError]


class LabelAnswer(BaseModel):
    """What is guaranteed with the label."""

    id: str
    bias: float
    certificate: CertificateBody
    number: int


class ShieldSummary(BaseModel):
    """A shield and where it stands."""

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
    digest: Annotated[str, Field(description="Of the policy.")]
    number: Annotated[int, Field(description="Of the last entry in the log.")]
    hash: Annotated[str, Field(description="Of that entry.")]
    bias: float
    bound: float | None
    interventions: int
    cost: Annotated[float, Field(description="What all overrides have cost.")]
    certificate: CertificateBody


class ShieldDetails(ShieldSummary):
    """A shield and everything that it counts."""

    counters: dict[str, Any]


class ShieldList(BaseModel):
    """All shields that are served."""

    shields: list[ShieldSummary]
