"""Acceptance with a probability, and the lot of everybody, drawn from what they are apart from what is protected.

A model that is audited must give the same person the same answer, also when asked again, so
everybody's lot is fixed. Rates of groups are then those that a method has worked out, while two people who differ in
protected attributes alone hold the same lot and flip only if the method treats them unlike. A threshold at a half in
its place would not be a mixture any more: the rates, and with them the parity, would be lost.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.errors import DataError, MissingExtraError, OptionError
from evenhand.mitigation.candidate import MitigationTask, Trial, accuracy, measure_all, remaining_share
from evenhand.mitigation.learners.estimator import write_object
from evenhand.mitigation.metrics import SubgroupGapMetric
from evenhand.models.scorer import Scorer, change_templates
from evenhand.schema.attribute import Value
from evenhand.schema.people import People, decode, encode
from evenhand.schema.schema import Schema
from evenhand.subgroups.rules import Rules, find_members


class AcceptanceProbability(Protocol):
    """The probability with which individuals (n, attributes) are given the favourable label, shape (n,)."""

    def __call__(self, individuals: Floats) -> Floats: ...


@dataclass(frozen=True, eq=False)
class RandomizedClassifier:
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
    chance: AcceptanceProbability
    seed: int
    label_only: bool = False

    def scores(self, individuals: Floats) -> Floats:
        """Return the probability of either label, shape (n, 2)."""
        chance = np.clip(self.chance(individuals), 0.0, 1.0)
        columns = (1 - chance, chance) if self.favourable == 1 else (chance, 1 - chance)
        return np.stack(columns, axis=1)

    def predict(self, individuals: Floats) -> Integers:
        """Return the label that the lot gives, shape (n,)."""
        accepted = self.chance(individuals) > draw_thresholds(self.schema, individuals, seed=self.seed)
        return np.where(accepted, self.favourable, 1 - self.favourable).astype(np.int64)


def draw_thresholds(schema: Schema, individuals: Floats, *, seed: int) -> Floats:
    """Everybody's lot, at least 0 and below 1, shape (n,): the same for all that differ in protected attributes alone.

    Bits of the entries are mixed as in SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number
    generators", OOPSLA 2014).
    """
    open_to_all = [i for i, attribute in enumerate(schema.attributes) if not attribute.protected]
    first = _mix_bits(np.array([seed], dtype=np.uint64))[0]
    state: NDArray[np.uint64] = np.full(len(individuals), first, dtype=np.uint64)
    for column in open_to_all:
        entries = individuals[:, column] + 0.0  # minus zero is zero
        entries = np.where(np.isnan(entries), np.nan, entries)  # one way to be missing
        state = _mix_bits(state ^ np.ascontiguousarray(entries).view(np.uint64))
    return np.asarray((state >> np.uint64(11)).astype(np.float64) / 2**53)


def _mix_bits(state: NDArray[np.uint64]) -> NDArray[np.uint64]:
    state = state + np.uint64(0x9E3779B97F4A7C15)
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(state ^ (state >> np.uint64(31)))


class ScorerEstimator:
    """What is written to a file: a scorer that looks like a scikit-learn classifier of data frames.

    No row of the data is kept with it: passthrough columns are those of the frame that it is asked with.

    Attributes:
        scorer: what answers.
        constant: attribute -> what stands in its place for everybody: its column is not looked at, and may be missing.
        schema: what the columns of a frame mean that it is asked with.
    """

    def __init__(self, scorer: Scorer, without: Sequence[str] = ()) -> None:
        self.scorer = change_templates(scorer, lambda like: like[:0])
        first = np.array([[attribute.domain()[0] for attribute in scorer.schema.attributes]], dtype=np.float64)
        row = decode(scorer.schema.model_copy(update={"passthrough": ()}), first)
        self.constant = {name: row[name][0] for name in without}
        asks_in_frames = self.scorer is not scorer
        passthrough = scorer.schema.passthrough if asks_in_frames else ()
        self.schema = scorer.schema.model_copy(update={"passthrough": passthrough})
        names = [name for name in self.schema.columns if name not in without]
        self.classes_ = np.array(scorer.classes)
        self.feature_names_in_ = np.array(names, dtype=object)
        self.n_features_in_ = len(names)

    def predict(self, frame: Any) -> NDArray[Any]:
        """Return the label of each row of a frame in the data's own words."""
        scorer, individuals = self._ask_about(frame)
        return np.asarray(self.classes_[scorer.predict(individuals)])

    def predict_proba(self, frame: Any) -> Floats:
        """Return the probability of each label."""
        scorer, individuals = self._ask_about(frame)
        return scorer.scores(individuals)

    def _ask_about(self, frame: Any) -> tuple[Scorer, Floats]:
        import narwhals as nw

        table = nw.from_native(frame, eager_only=True)
        told = table.with_columns(*(nw.lit(value).alias(name) for name, value in self.constant.items())).to_native()
        scorer = change_templates(self.scorer, lambda like: told) if self.schema.carries_rows else self.scorer
        return scorer, encode(self.schema, told).individuals


@dataclass(frozen=True)
class SaveScorer:
    """How a scorer without a format of its own is written: as ``ScorerEstimator``, to a .joblib or .pkl file.

    Attributes:
        scorer: what is written. without: attributes that it does not look at.
    """

    scorer: Scorer
    without: tuple[str, ...] = ()

    def __call__(self, path: Path) -> tuple[Path, ...]:
        import pickle

        try:
            write_object(ScorerEstimator(self.scorer, self.without), path, (".joblib", ".pkl"))
        except (pickle.PicklingError, TypeError, AttributeError) as error:
            path.unlink(missing_ok=True)
            raise OptionError(
                f"the given model is part of the new one, and cannot be written with it: {error}",
                location=str(path),
                hint="write another method's model: name that method first",
            ) from None
        return (path,)


LEAST = 10
"""People with either label that a group needs; smaller groups are taken together."""


CUTS = 3
"""Ranges, with about as many people in each, that a number is cut into to make groups of it."""


@dataclass(frozen=True, eq=False)
class ConstrainedGroups:
    """Whose rates are made alike.

    Attributes:
        schema: of the individuals.
        rules: of subgroups; who is in which of them makes the group.
        ends: without rules: protected attribute -> upper ends of the ranges it is cut into; None: its own values.
        known: codes of the groups that are large enough, ascending.
        others: the group of everybody else, a position in ``known`` or one behind.
        words: what the groups are, for a reader.
        labels: what each group is called, in the order of their positions.
    """

    schema: Schema
    rules: tuple[Rules, ...]
    ends: dict[str, Floats | None]
    known: Integers
    others: int
    words: str
    labels: tuple[str, ...] = ()

    @classmethod
    def of(cls, people: People, harms: Sequence[object]) -> ConstrainedGroups:
        """By the subgroups among the harms, else by the joint values of the protected attributes.

        Raises:
            DataError: fewer than two groups have `LEAST` people with either label.
        """
        schema = people.schema
        rules = tuple(harm.rules for harm in harms if isinstance(harm, SubgroupGapMetric))
        ends = {} if rules else {name: _range_ends(people, name) for name in schema.protected}
        words = "inside and outside the subgroup" if rules else f"by {' x '.join(schema.protected)}"
        draft = cls(schema, rules, ends, np.empty(0, dtype=np.int64), 0, words)
        codes, favourable = draft._codes(people.individuals), people.favourable
        values = np.unique(codes)
        enough = np.array([_has_enough(favourable[codes == value]) for value in values], dtype=np.bool_)
        known = values[enough]
        rest = ~np.isin(codes, known)
        pooled = _has_enough(favourable[rest])
        if len(known) + pooled < 2:
            raise DataError(
                f"fewer than two groups {words} have {LEAST} people with either label: there is nothing to make alike",
                hint="give more people, or protect other attributes",
            )
        largest = int(np.argmax([np.sum(codes == value) for value in known])) if len(known) else 0
        firsts = [people.individuals[int(np.argmax(codes == value))] for value in known]
        labels = (*map(draft._label, firsts), *(["others"] if pooled else []))
        return replace(draft, known=known, others=len(known) if pooled else largest, labels=labels)

    def __call__(self, individuals: Floats) -> Integers:
        """Return the group of each individual (n, attributes), shape (n,)."""
        codes = self._codes(individuals)
        place = np.minimum(np.searchsorted(self.known, codes), max(len(self.known) - 1, 0))
        here = self.known[place] == codes if len(self.known) else np.zeros(len(codes), dtype=np.bool_)
        return np.where(here, place, self.others)

    def _label(self, individual: Floats) -> str:
        """Return what the group of an individual is called."""
        if self.rules:
            return "inside" if self._codes(individual[None])[0] else "outside"
        words = []
        for name, ends in self.ends.items():
            entry = float(individual[self.schema.position(name)])
            if ends is None or np.isnan(entry):
                words.append(self.schema[name].text(entry))
                continue
            place = int(np.searchsorted(ends, entry))
            low, high = (f"{ends[i]:g}" if 0 <= i < len(ends) else "" for i in (place - 1, place))
            words.append(
                f"{name} above {low}"
                if not high
                else f"{name} up to {high}"
                if not low
                else f"{name} above {low}, up to {high}"
            )
        return " x ".join(words)

    def _codes(self, individuals: Floats) -> Integers:
        code = np.zeros(len(individuals), dtype=np.int64)
        if self.rules:
            people = People(self.schema, individuals, None, np.arange(len(individuals)), 0, None)
            for rules in self.rules:
                code = 2 * code + find_members(people, rules)
            return code
        for name, ends in self.ends.items():
            entries = individuals[:, self.schema.position(name)]
            count = len(self.schema[name].domain()) if ends is None else len(ends) + 1
            own = entries if ends is None else np.searchsorted(ends, entries).astype(np.float64)
            code = (count + 1) * code + np.where(np.isnan(entries), count, own).astype(np.int64)
        return code


def _has_enough(favourable: Booleans) -> bool:
    return bool(favourable.sum() >= LEAST and (~favourable).sum() >= LEAST)


def _range_ends(people: People, name: str) -> Floats | None:
    if people.schema[name].kind not in ("integer", "real"):
        return None
    entries = people.individuals[:, people.schema.position(name)]
    return np.unique(np.nanquantile(entries, [i / CUTS for i in range(1, CUTS)], method="lower"))


# What both of fairlearn's methods need: the library, two labels, a choice on the validation part.

RANDOMISED = (
    "fairlearn's answers are drawn at random; here the draw is fixed by what a person is apart from the protected "
    "attributes, so that the same person always gets the same answer"
)


TRUSTED = "a .joblib file runs code when it is read: it is taken only where it is trusted"


def require_fairlearn() -> None:
    """Refuse to go on without the library.

    Raises:
        MissingExtraError: it is not installed.
    """
    try:
        import fairlearn  # noqa: F401 - only whether it is installed
    except ImportError:
        raise MissingExtraError("fairlearn", extra="fairlearn", purpose="for fairlearn's methods") from None


@contextmanager
def silence_warnings() -> Iterator[None]:
    """Silence the warnings about future versions that fairlearn gets from its own libraries."""
    import warnings

    with warnings.catch_warnings():
        for kind in (DeprecationWarning, FutureWarning):
            warnings.filterwarnings("ignore", category=kind, module=r"fairlearn\.")
        yield


def require_two_labels(given: Scorer) -> None:
    """Refuse a model that decides between more.

    Raises:
        DataError: it does.
    """
    if len(given.classes) != 2:
        raise DataError(
            f"expected a model of two labels, got one that decides between {len(given.classes)}",
            location=given.name,
            hint="choose methods for several labels, such as retrain",
        )


def make_randomized(task: MitigationTask, name: str, chance: AcceptanceProbability) -> RandomizedClassifier:
    """Return a scorer that decides by lot between the labels of the given model."""
    given = task.given
    return RandomizedClassifier(given.schema, given.classes, given.favourable, name, chance, task.config.seed)


def choose_trial(
    task: MitigationTask, made: Sequence[RandomizedClassifier], values: Sequence[float], setting: str
) -> tuple[int, tuple[Trial, ...]]:
    """Return which to take: on the validation part, the least harm among those that lose little enough accuracy.

    Where none does, the most accurate.
    """
    people, harms = task.split.validation, task.harms
    before = measure_all(task.given, people, harms)
    found = [(accuracy(scorer, people), measure_all(scorer, people, harms)) for scorer in made]
    least = accuracy(task.given, people) - task.config.accuracy_loss
    allowed = [i for i, (right, _) in enumerate(found) if right >= least - 1e-9]
    best = (
        min(allowed, key=lambda i: (remaining_share(found[i][1], before, len(people)), -found[i][0]))
        if allowed
        else max(range(len(found)), key=lambda i: found[i][0])
    )
    return best, tuple(
        Trial(setting=setting, value=value, accuracy=right, harms=harm, chosen=i == best)
        for i, (value, (right, harm)) in enumerate(zip(values, found, strict=False))
    )
