"""Acceptance with a probability, and the lot of everybody, drawn from what they are apart from what is protected.

A model that is audited must give the same person the same answer, and whoever is retried must not become luckier, so
everybody's lot is fixed. Rates of groups are then those that a method has worked out, while two people who differ in
protected attributes alone hold the same lot and flip only if the method treats them unlike. A threshold at a half in
its place would be no mixture any more: the rates, and with them the parity, would be lost.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from evenhand.errors import OptionError
from evenhand.schema import Schema, Value, encode

Floats: TypeAlias = NDArray[np.float64]


Ints: TypeAlias = NDArray[np.int64]


class Chance(Protocol):
    """The probability with which individuals (n, attributes) are given the favourable label, shape (n,)."""

    def __call__(self, individuals: Floats) -> Floats: ...


@dataclass(frozen=True, eq=False)
class ByLot:
    """A scorer of two labels that accepts with some probability; everybody's lot is fixed.

    Attributes:
        schema, classes, favourable, name: as of any scorer.
        chance: of the favourable label.
        seed: of the lots.
    """

    schema: Schema
    classes: tuple[Value, ...]
    favourable: int
    name: str
    chance: Chance
    seed: int
    label_only: bool = False

    def scores(self, individuals: Floats) -> Floats:
        """The probability of either label, shape (n, 2)."""
        chance = np.clip(self.chance(individuals), 0.0, 1.0)
        columns = (1 - chance, chance) if self.favourable == 1 else (chance, 1 - chance)
        return np.stack(columns, axis=1)

    def predict(self, individuals: Floats) -> Ints:
        """The label that the lot gives, shape (n,)."""
        accepted = self.chance(individuals) > lots(self.schema, individuals, seed=self.seed)
        return np.where(accepted, self.favourable, 1 - self.favourable).astype(np.int64)


def lots(schema: Schema, individuals: Floats, *, seed: int) -> Floats:
    """Everybody's lot, at least 0 and below 1, shape (n,): the same for all that differ in protected attributes alone.

    Bits of the entries are mixed as in SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number
    generators", OOPSLA 2014).
    """
    open_to_all = [i for i, attribute in enumerate(schema.attributes) if not attribute.protected]
    first = _mixed(np.array([seed], dtype=np.uint64))[0]
    state: NDArray[np.uint64] = np.full(len(individuals), first, dtype=np.uint64)
    for column in open_to_all:
        entries = individuals[:, column] + 0.0  # minus zero is zero
        entries = np.where(np.isnan(entries), np.nan, entries)  # one way to be missing
        state = _mixed(state ^ np.ascontiguousarray(entries).view(np.uint64))
    return np.asarray((state >> np.uint64(11)).astype(np.float64) / 2**53)


def _mixed(state: NDArray[np.uint64]) -> NDArray[np.uint64]:
    state = state + np.uint64(0x9E3779B97F4A7C15)
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(state ^ (state >> np.uint64(31)))


class AsEstimator:
    """What is written to a file: a scorer that looks like a scikit-learn classifier of data frames."""

    def __init__(self, scorer: ByLot) -> None:
        self.scorer = scorer
        self.classes_ = np.array(scorer.classes)
        self.feature_names_in_ = np.array(scorer.schema.names, dtype=object)
        self.n_features_in_ = len(scorer.schema.names)

    def predict(self, frame: Any) -> NDArray[Any]:
        """The label of each row of a frame in the data's own words."""
        return np.asarray(self.classes_[self.scorer.predict(self._individuals(frame))])

    def predict_proba(self, frame: Any) -> Floats:
        """The probability of each label."""
        return self.scorer.scores(self._individuals(frame))

    def _individuals(self, frame: Any) -> Floats:
        return encode(self.scorer.schema, frame).individuals


@dataclass(frozen=True)
class Save:
    """How a scorer that decides by lot is written: as ``AsEstimator``, to a .joblib file alone."""

    scorer: ByLot

    def __call__(self, path: Path) -> tuple[Path, ...]:
        if path.suffix.lower() != ".joblib":
            raise OptionError(
                f"what fairlearn made cannot be written as {path.suffix or 'a file without an ending'}",
                where=str(path),
                mend=f"name it {path.with_suffix('.joblib').name}",
            )
        import pickle

        import joblib

        try:
            joblib.dump(AsEstimator(self.scorer), path)
        except (pickle.PicklingError, TypeError, AttributeError) as error:
            path.unlink(missing_ok=True)
            raise OptionError(
                f"the given model is part of what fairlearn made, and cannot be written with it: {error}",
                where=str(path),
                mend="write another method's model: name that method first",
            ) from None
        return (path,)
