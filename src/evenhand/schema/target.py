"""What is decided about a person: a label that people want or another, several labels, grades, or a number."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from pydantic import AliasChoices, BaseModel, ConfigDict, Field, StrictStr, model_validator

from evenhand.errors import OptionError, SchemaError
from evenhand.schema.arrays import check_type
from evenhand.schema.attribute import Value, find_value

TargetKind: TypeAlias = Literal["label", "labels", "ordinal", "number"]

NEITHER = "neither"
"""What stands for *nothing is favourable*."""

DIRECTIONS = ("higher", "lower", NEITHER)
"""What people may want of a number: more of it, less of it, or it was not said."""

MOST_NUMERIC_LABELS = 10
"""Numbers of more different values than this are taken for a number that is decided, unless something else is said."""


class Target(BaseModel):
    """What is decided about a person.

    Attributes:
        name: the column of the true label, or of the true number.
        kind: ``label``, the favourable one or another; ``labels``, several of which none is the favourable one;
            ``ordinal``, a label in the order of ``values``, worst first or best first; or ``number``, such as a price
            or a score.
        favourable: the label a person would want. Of an ordinal target it is the first or the last of ``values``; of
            ``labels`` it is ``neither``; of a number it is ``higher``, ``lower``, or ``neither`` where it was not said.
        values: all labels. Left out, they are ``favourable`` and everything else the data holds. A number has none.
        unit: what a number is measured in, such as ``EUR``.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: StrictStr
    kind: TargetKind = "label"
    favourable: Value = Field(validation_alias=AliasChoices("favourable", "favorable"))
    values: tuple[Value, ...] | None = None
    unit: StrictStr | None = None

    @model_validator(mode="before")
    @classmethod
    def _say_no_direction(cls, described: Any) -> Any:
        """Enter ``neither`` where a number, or several labels, are described without what people want of them."""
        if isinstance(described, dict) and described.get("kind") in ("number", "labels"):
            return {"favourable": NEITHER} | described if "favorable" not in described else described
        return described

    @model_validator(mode="after")
    def _check_consistency(self) -> Target:
        if self.kind == "number":
            if self.favourable not in DIRECTIONS:
                raise ValueError(f"favourable of a number is one of {', '.join(DIRECTIONS)}, got {self.favourable!r}")
            if self.values is not None:
                raise ValueError("a number has no list of values")
            return self
        if self.unit is not None:
            raise ValueError("a unit belongs to a number: `kind: number`")
        if self.values is not None:
            if len(self.values) < 2:
                raise ValueError("a target needs at least two labels: with one there is no decision to look at")
            if self.kind != "labels" and self.favourable not in self.values:
                raise ValueError(f"favourable {self.favourable!r} is not among the labels {list(self.values)}")
        if self.kind == "labels" and self.favourable != NEITHER:
            raise ValueError(
                f"several labels have no favourable one, got {self.favourable!r}: say `kind: label` for it"
            )
        if self.kind == "ordinal":
            if self.values is None:
                raise ValueError("an ordinal target needs its `values`, in order")
            if self.favourable not in (self.values[0], self.values[-1]):
                raise ValueError(
                    f"favourable {self.favourable!r} of an ordinal target must be the first or the last of its values "
                    f"{list(self.values)}"
                )
        return self

    @property
    def is_number(self) -> bool:
        """Whether a number is decided, and no label."""
        return self.kind == "number"

    def require_labels(self, analysis: str) -> None:
        """Refuse a number where labels are compared, and several labels where one of them is the favourable one.

        Raises:
            SchemaError: a number is decided, or no label is favourable.
        """
        if self.kind == "labels":
            raise SchemaError(
                f"no label of {self.name!r} is favourable, and {analysis} compares one with all others",
                hint="name it, and say `kind=label`",
            )
        if self.is_number:
            raise SchemaError(
                f"the target {self.name!r} is a number, and {analysis} compares labels",
                hint="cut it into classes first, for example above and below a threshold",
            )


@dataclass(frozen=True)
class OutcomeRole:
    """What is said about the column that is decided, where no schema says it.

    Attributes:
        kind: ``label``, ``labels``, ``ordinal`` or ``number``; guessed if left out (see ``guess_kind``).
        order: the labels of an ordinal outcome, worst first.
        unit: what a number is measured in.
    """

    kind: TargetKind | None = None
    order: Sequence[Value] | None = None
    unit: str | None = None

    @classmethod
    def of(cls, kind: str | None = None, order: Sequence[Value] | None = None, unit: str | None = None) -> OutcomeRole:
        """Return what is said, after a look at whether there is such a kind.

        Raises:
            OptionError: there is none, or an order is not a list of two labels at least.
        """
        check_type("kind", kind, str, f"one of {', '.join(get_args(TargetKind))}")
        check_type("order", order, Sequence | np.ndarray, "a list of labels, worst first")
        known = next((one for one in get_args(TargetKind) if one == kind), None)
        if kind is not None and known is None:
            raise OptionError(
                f"expected kind {', '.join(get_args(TargetKind))}, got {kind!r}",
                hint="leave `kind=` out to have it guessed",
            )
        if order is not None and (isinstance(order, str) or len(order) < 2):
            raise OptionError(
                f"expected an order of at least two labels, worst first, got {order!r}",
                hint="order=['low', 'high']",
            )
        if known == "labels" and order is not None:
            raise OptionError("labels in an order are ordinal", hint="leave `kind=labels` out, or `order=`")
        return cls(known, None if order is None else tuple(order), unit)

    def require_no_favourable(self, name: str, favourable: Value | None) -> None:
        """Refuse a favourable label where each of several is compared.

        Raises:
            OptionError: there is one.
        """
        if self.kind == "labels" and favourable is not None:
            raise OptionError(
                f"each label of {name!r} is compared, and none is the favourable one, got {favourable!r}",
                hint="leave `favourable=` out; or say `kind=label`, to compare it with all others",
            )


def guess_kind(labels: Collection[Any], favourable: Value | None, order: Sequence[Value] | None) -> TargetKind:
    """Return what a column of these different labels holds, where it was not said.

    Labels with an order are ordinal. Many different numbers are a number, unless one of them is named as the favourable
    label; a number too is what higher or lower is favourable of.
    """
    if order is not None:
        return "ordinal"
    numeric = all(isinstance(label, int | float) and not isinstance(label, bool) for label in labels)
    directed = favourable in DIRECTIONS and find_value(str(favourable), tuple(labels)) is None
    many = favourable is None and len(labels) > MOST_NUMERIC_LABELS
    return "number" if numeric and (directed or many) else "label"
