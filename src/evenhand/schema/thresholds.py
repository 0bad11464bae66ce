"""Decisions by a score: favourable from a threshold on, the same for all, or one for each value of an attribute."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from evenhand.errors import OptionError
from evenhand.schema.schema import Schema
from evenhand.text import suggest_name
from evenhand.typing import Booleans, Floats

PERCENT = 100.0
"""The end of scores that look like percentages or points."""

MOST_VALUES = 100
"""An attribute with more values than this has no thresholds by value."""

FORM = "a number, or one for a group beside it: `threshold=0.5`, `threshold=sex=Female:0.4`"


class Thresholds(BaseModel):
    """From which score on the favourable decision is given.

    Attributes:
        default: for everybody who has none of their own; None where each value of the attribute has one.
        attribute: by which thresholds differ; None where there is one for all.
        own: value of that attribute -> its threshold.
        low_is_good: whether people are selected up to the threshold, as by a risk score, in place of from it on.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    default: float | None = None
    attribute: str | None = None
    own: dict[str, float] = Field(default_factory=dict)
    low_is_good: bool = False

    @classmethod
    def parse(cls, given: Any) -> Self:
        """Return thresholds from a number, a text such as ``"0.5"`` or ``"sex=Female:0.4"``, or several of these.

        Raises:
            OptionError: one is neither, is given twice, or thresholds differ by more than one attribute.
        """
        if isinstance(given, cls):
            return given
        if isinstance(given, Mapping):
            try:
                return cls(**given)
            except ValidationError:
                raise OptionError(f"expected a number, or several, as `threshold=`, got {given!r}") from None
        several = given if isinstance(given, Sequence | np.ndarray) and not isinstance(given, str) else [given]
        default: float | None = None
        attribute: str | None = None
        own: dict[str, float] = {}
        for one in several:
            about, _, number = str(one).rpartition(":")
            threshold = _read_number(number, one)
            if not about:
                if default is not None:
                    raise OptionError(f"expected one threshold for everybody, got {default:g} and {threshold:g}")
                default = threshold
                continue
            name, equals, value = about.partition("=")
            if not equals or not name.strip() or not value.strip():
                raise OptionError(f"expected {FORM}; got {one!r}", hint="write ATTRIBUTE=VALUE:NUMBER")
            name, value = name.strip(), value.strip()
            if attribute not in (None, name):
                raise OptionError(
                    f"expected thresholds by one attribute, got {attribute} and {name}",
                    hint="a person would have two thresholds: write one audit for each attribute",
                )
            if value in own:
                raise OptionError(f"expected one threshold for {name} {value}, got {own[value]:g} and {threshold:g}")
            attribute, own[value] = name, threshold
        if default is None and not own:
            raise OptionError(f"expected {FORM}; got none")
        return cls(default=default, attribute=attribute, own=own)

    @property
    def uses_protected(self) -> bool:
        """Whether people with the same score are decided differently by an attribute of theirs."""
        return len({*self.own.values(), *({self.default} - {None})}) > 1

    @property
    def values(self) -> tuple[float, ...]:
        """Every threshold there is, each once, in order."""
        return tuple(sorted({*self.own.values(), *([] if self.default is None else [self.default])}))

    def describe(self) -> str:
        """Return from (or up to) where people are selected: ``0.4 for sex Female, 0.5 for everybody else``."""
        parts = [f"{threshold:g} for {self.attribute} {value}" for value, threshold in self.own.items()]
        if self.default is not None:
            parts.append(f"{self.default:g} for everybody else" if parts else f"{self.default:g}")
        return ", ".join(parts)

    def select(self, scores: Floats, schema: Schema, individuals: Floats) -> Booleans:
        """Return who is selected: a score of at least the threshold, or at most where low is good, shape (n,).

        Args:
            scores: shape (n,).
            schema: of the people; ``check_schema`` has been asked.
            individuals: the people, shape (n, attributes).
        """
        sign = -1 if self.low_is_good else 1
        otherwise = sign * math.inf if self.default is None else self.default
        if self.attribute is None:
            return np.asarray(sign * scores >= sign * otherwise)
        attribute = schema[self.attribute]
        entries, code = np.unique(individuals[:, schema.position(self.attribute)], return_inverse=True)
        limits = np.array([self.own.get(attribute.text(entry), otherwise) for entry in entries.tolist()])
        return np.asarray(sign * scores >= sign * limits[code])

    def check_schema(self, schema: Schema) -> None:
        """Refuse an attribute or a value that the schema does not have, and values that have no threshold.

        Raises:
            OptionError: there is one.
        """
        if self.attribute is None:
            return
        if self.attribute not in schema.names:
            hint = f"{suggest_name(self.attribute, schema.names)}the attributes are: {', '.join(schema.names)}"
            raise OptionError(f"there is no attribute {self.attribute!r}", location="`threshold=`", hint=hint)
        attribute = schema[self.attribute]
        if attribute.size is None or attribute.size > MOST_VALUES:
            raise OptionError(
                f"{self.attribute!r} has too many values for thresholds of their own",
                location="`threshold=`",
                hint="make it ordinal with `edges: [...]` in the schema",
            )
        known = [attribute.text(entry) for entry in attribute.domain().tolist()]
        for value in self.own:
            if value not in known:
                hint = f"{suggest_name(value, known)}the values are: {', '.join(known)}"
                raise OptionError(f"{self.attribute} has no value {value!r}", location="`threshold=`", hint=hint)
        without = [value for value in known if value not in self.own]
        if self.default is None and without:
            raise OptionError(
                f"{self.attribute} {', '.join(without)} has no threshold",
                location="`threshold=`",
                hint="add one for everybody else, such as `threshold=0.5`",
            )

    def check_scale(self, scores: Floats) -> None:
        """Refuse thresholds that are not on the scale of the scores; scores are never rescaled silently.

        Raises:
            OptionError: scores of 0 to 100 and a threshold below 1, or scores of 0 to 1 and a threshold above.
        """
        low, high = float(scores.min()), float(scores.max())
        seen = f"the scores lie between {low:g} and {high:g}, and the threshold is"
        for threshold in self.values:
            if 0 < threshold < 1 and looks_like_points(scores):
                raise OptionError(
                    f"{seen} {threshold:g}",
                    location="`threshold=`",
                    hint=f"scores are not rescaled: give the threshold on their scale, such as "
                    f"`threshold={PERCENT * threshold:g}` of 0 to 100, or divide the scores yourself",
                )
            if threshold > 1 and low >= 0 and high <= 1:
                own = f", such as `threshold={threshold / PERCENT:g}`" if threshold <= PERCENT else ""
                raise OptionError(
                    f"{seen} {threshold:g}: {'every' if self.low_is_good else 'no'} person would be selected",
                    location="`threshold=`",
                    hint=f"give the threshold on the scale of the scores{own}",
                )


def looks_like_points(scores: Floats) -> bool:
    """Return whether scores look like percentages or points, 0 to 100, and not like probabilities."""
    return len(scores) > 0 and bool(scores.min() >= 0 and 1 < scores.max() <= PERCENT)


def describe_scale(scores: Floats) -> str:
    """Return what was seen of scores that are not probabilities, and how to go on."""
    seen = f"the scores are not probabilities: some lie outside 0 to 1 (seen: {scores.min():g} to {scores.max():g})"
    return f"{seen}; if they are percentages, divide them by 100" if looks_like_points(scores) else seen


def _read_number(text: str, given: Any) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise OptionError(f"expected {FORM}; got {given!r}", location="`threshold=`")
    return number
