"""Results of the counterfactual flip rate, with examples."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic import Field

from evenhand.core.document import Document
from evenhand.core.result import Result, ResultNumber
from evenhand.core.result_part import ResultPart
from evenhand.core.typing import Floats
from evenhand.individual.flips import FlipRate
from evenhand.models.noise import NoiseCheck
from evenhand.schema.attribute import Value
from evenhand.schema.schema import Schema

if TYPE_CHECKING:
    import pandas as pd


class Assignment(ResultPart):
    """Decision under one assignment of the protected attributes.

    Attributes:
        values: Value of each protected attribute, as in the data.
        moved: Value of each linked attribute that also changes. All other attributes are unchanged.
        label: Label that the model predicts.
        score: Its favourable score.
    """

    values: dict[str, str]
    moved: dict[str, str] = Field({})
    label: str
    score: float

    @property
    def everything(self) -> dict[str, str]:
        """Protected and linked values."""
        return self.values | self.moved


class Profile(ResultPart):
    """Unprotected attributes of a person, with two assignments that receive different labels or numbers.

    Attributes:
        unprotected: Value of each attribute that stays the same, as in the data.
        worse: Assignment with the lowest favourable score among those whose label differs from that of ``better``.
        better: Assignment with the highest favourable score.
        gap: Difference of the two scores.
        valid: Whether every pair of its values occurs together in the data. None if this was not checked.
        real: Whether the profile reveals a person in the data (see ``find_real``). All others are synthetic.
    """

    unprotected: dict[str, str]
    worse: Assignment
    better: Assignment
    gap: float
    valid: bool | None = None
    real: bool = False

    def row(self) -> dict[str, Any]:
        """Convert the profile to a table row."""
        worse, better = self.worse, self.better
        return (
            self.unprotected
            | worse.moved
            | {f"{name} (worse)": value for name, value in worse.values.items()}
            | {f"{name} (better)": value for name, value in better.everything.items()}
            | {"label (worse)": worse.label, "label (better)": better.label}
            | {"score (worse)": worse.score, "score (better)": better.score, "gap": self.gap}
        )


def describe_pair(
    schema: Schema,
    protected: Sequence[str],
    sides: Floats,
    labels: Sequence[Value],
    scores: Floats,
    *,
    valid: bool | None = None,
    real: bool = False,
) -> Profile:
    """Describe two people as a profile.

    Args:
        schema: Schema of the people.
        protected: Attributes that vary. Other attributes that differ are linked to the protected ones.
        sides: The worse and the better treated person, shape (2, attributes).
        labels: Label of each.
        scores: Favourable score of each, shape (2,).
        valid, real: See ``Profile``.
    """
    sides = sides[:, : len(schema.attributes)]  # without the position of the passthrough row
    differs = (sides[0] != sides[1]) & ~np.isnan(sides).all(axis=0)
    moved = [name for name, differ in zip(schema.names, differs, strict=True) if differ and name not in protected]
    texts = [
        {attribute.name: attribute.text(entry) for attribute, entry in zip(schema.attributes, side, strict=True)}
        for side in sides
    ]
    worse, better = (
        Assignment(
            values={name: text[name] for name in protected},
            moved={name: text[name] for name in moved},
            label=str(label),
            score=float(score),
        )
        for text, label, score in zip(texts, labels, scores, strict=True)
    )
    unprotected = {name: text for name, text in texts[1].items() if name not in (*protected, *moved)}
    gap = float(scores[1] - scores[0])
    return Profile(unprotected=unprotected, worse=worse, better=better, gap=gap, valid=valid, real=real)


class IndividualResult(Result):
    """Counterfactual flip rates by protected attribute and jointly, with the clearest examples.

    Attributes:
        rates: Rates of each protected attribute and of all jointly, over the data and the population.
        examples: Profiles with the widest gap between scores, by entry of ``rates[*].protected``, data first.
        counterparts: Whether the schema has rules or links, so that people were compared with plausible counterparts.
        interrupted: Whether an interrupt stopped the analysis, so that the result is incomplete.
        counted_with: Source of the labels: the model, or its white box, which defers close decisions and missing
            values to the model. Scores of examples always come from the model.
        compared: Number of decisions on which the model and the white box were compared. All agree.
        noise: Result of the noise check (see ``models.check_noise``). None if it was not run.
    """

    chart = "individual.draw_flips"
    kind: Literal["individual"] = "individual"
    rates: tuple[FlipRate, ...]
    examples: tuple[Profile, ...]
    counterparts: bool = False
    interrupted: bool = False
    counted_with: Literal["model", "white box"] = "model"
    compared: int = 0
    noise: NoiseCheck | None = None

    def rate(self, protected: tuple[str, ...], over: Literal["data", "population"]) -> FlipRate | None:
        """Return the rate of these protected attributes over the data or the population, if measured."""
        return next((rate for rate in self.rates if rate.protected == protected and rate.over == over), None)

    def _records_hidden(self) -> dict[str, Any]:
        return {"examples": tuple(example for example in self.examples if not example.real)}

    def numbers(self) -> Iterator[ResultNumber]:
        """Yield the flip rates and their excess over noise."""
        for rate in self.rates:
            prefix, by = "" if rate.over == "data" else "population_", "_x_".join(rate.protected)
            yield ResultNumber(f"{prefix}flip_rate", by, "", rate.rate)
            yield ResultNumber(f"{prefix}excess_flip_rate", by, "", rate.excess)

    def document(self, *, favourable: str | None = None, scores: bool = True) -> Document:
        """Build the document with the rates and the clearest pairs.

        Args:
            favourable: Favourable label, which is marked in pairs.
            scores: Whether the model returns scores.
        """
        return self._write_document("evenhand.individual.wording", favourable, scores)

    def to_frame(self) -> pd.DataFrame:
        """Convert the examples to a table: unprotected attributes, then values, labels and scores of the pair."""
        import pandas as pd

        return pd.DataFrame([example.row() | {"real": example.real} for example in self.examples])
