"""Target of a decision: one favourable label, several labels, ordinal labels, or a number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from pydantic import AliasChoices, BaseModel, ConfigDict, Field, StrictStr, model_validator

from evenhand.core.reading import OutcomeReading
from evenhand.errors import OptionError, SchemaError
from evenhand.schema.arrays import check_type
from evenhand.schema.attribute import Value
from evenhand.schema.table import list_values
from evenhand.schema.words import word_of

TargetKind: TypeAlias = Literal["label", "labels", "ordinal", "number"]

NEITHER = "neither"
"""Favourable value of a target without a favourable label or direction."""

DIRECTIONS = ("higher", "lower", NEITHER)
"""Favourable directions of a number."""


class Target(BaseModel):
    """Decided label or number.

    Attributes:
        name: Column of the true label or number.
        kind: ``label`` compares the favourable label with all others; ``labels`` compares each label with the others;
            ``ordinal`` labels have an order; ``number`` is a quantity such as a price or a score.
        favourable: Favourable label. For ``ordinal``: the first or the last of ``values``. For ``labels``:
            ``neither``. For ``number``: ``higher``, ``lower`` or ``neither`` (unspecified).
        values: All labels; for ``ordinal`` worst first or best first. Default: ``favourable`` and all other labels in
            the data. Not allowed for ``number``.
        unit: Unit of a number, such as ``EUR``.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: StrictStr
    kind: TargetKind = "label"
    favourable: Value = Field(validation_alias=AliasChoices("favourable", "favorable"))
    values: tuple[Value, ...] | None = None
    unit: StrictStr | None = None

    @model_validator(mode="before")
    @classmethod
    def _fill_favourable(cls, data: Any) -> Any:
        """Set ``favourable`` to ``neither`` by default for a number or several labels."""
        if isinstance(data, dict) and data.get("kind") in ("number", "labels") and "favorable" not in data:
            return {"favourable": NEITHER} | data
        return data

    @model_validator(mode="after")
    def _check_consistency(self) -> Target:
        if self.kind == "number":
            if self.favourable not in DIRECTIONS:
                raise ValueError(f"favourable of a number is {', '.join(DIRECTIONS)}, got {self.favourable!r}")
            if self.values is not None:
                raise ValueError("values require a target of labels, got kind number")
            return self
        if self.unit is not None:
            raise ValueError("a unit requires `kind: number`")
        if self.values is not None and len(self.values) < 2:
            raise ValueError(f"values must have at least two labels, got {list(self.values)}")
        if self.kind == "labels" and self.favourable != NEITHER:
            raise ValueError(f"`kind: labels` takes no favourable label, got {self.favourable!r}: use `kind: label`")
        if self.kind != "labels" and self.values is not None and self.favourable not in self.values:
            raise ValueError(f"favourable {self.favourable!r} is not among the labels {list_values(self.values)}")
        if self.kind == "ordinal":
            if self.values is None:
                raise ValueError("an ordinal target needs its `values`, in order")
            if self.favourable not in (self.values[0], self.values[-1]):
                raise ValueError(
                    f"favourable {self.favourable!r} of an ordinal target must be the first or the last of its values "
                    f"{list_values(self.values)}"
                )
        return self

    @property
    def is_number(self) -> bool:
        """Whether the target is a number."""
        return self.kind == "number"

    def describe(self, name: str | None = None) -> OutcomeReading:
        """Describe the favourable values. If ``name`` is passed, it replaces the column name."""
        column = name or self.name
        if self.favourable == NEITHER:
            return OutcomeReading(column=column)
        unfavourable = tuple(word_of(value) for value in self.values or () if value != self.favourable)
        return OutcomeReading(column=column, favourable=(word_of(self.favourable),), unfavourable=unfavourable)

    def require_labels(self, analysis: str) -> None:
        """Check that the target has a favourable label.

        Raises:
            SchemaError: The target is a number, or no label is favourable.
        """
        if self.kind == "labels":
            raise SchemaError(
                f"{analysis} compares a favourable label with all others, and no label of {self.name!r} is favourable",
                hint="name the favourable label, and use `kind=label`",
            )
        if self.is_number:
            raise SchemaError(
                f"{analysis} compares labels, and the target {self.name!r} is a number",
                hint="convert the number to classes first, for example above and below a threshold",
            )


@dataclass(frozen=True)
class OutcomeRole:
    """Description of the outcome column without a schema.

    Attributes:
        kind: ``label``, ``labels``, ``ordinal`` or ``number``. Default: inferred, see ``infer_kind``.
        order: Labels of an ordinal outcome, worst first.
        unit: Unit of a number.
    """

    kind: TargetKind | None = None
    order: Sequence[Value] | None = None
    unit: str | None = None

    def __post_init__(self) -> None:
        """Check the arguments.

        Raises:
            OptionError: The kind is unknown, the order is not a list of at least two labels, or an argument does not
                apply to the kind.
        """
        kinds = get_args(TargetKind)
        check_type("kind", self.kind, str, f"one of {', '.join(kinds)}")
        check_type("order", self.order, Sequence | np.ndarray, "a list of labels, worst first")
        if self.kind is not None and self.kind not in kinds:
            raise OptionError(
                f"expected kind {', '.join(kinds)}, got {self.kind!r}",
                hint="remove `kind=` to infer it from the labels",
            )
        if self.order is None:
            return
        if isinstance(self.order, str) or len(self.order) < 2:
            raise OptionError(
                f"expected an order of at least two labels, worst first, got {self.order!r}",
                hint="order=['low', 'high']",
            )
        if self.kind in ("labels", "number"):
            hint = "remove one; labels with an order have `kind=ordinal`"
            raise OptionError(f"expected `kind={self.kind}` or `order=`, got both", hint=hint)
        object.__setattr__(self, "order", tuple(self.order))
