"""Fairlearn's exponentiated gradient and threshold optimizer, as candidates beside the others.

Both answer with a probability: a person is accepted by lot. A model that is audited must give the same person the same
answer, and whoever is retried must not become luckier, so everybody's lot is fixed: it is drawn from what the person
is apart from the protected attributes (`lots`). Rates of groups are then those that the method has worked out, while
two people who differ in protected attributes alone hold the same lot and flip only if the method treats them unlike.
A threshold at a half in its place would be no mixture any more: the rates, and with them the parity, would be lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from evenhand.errors import DataError, MissingExtraError, OptionError
from evenhand.mitigate.candidate import Candidate, Situation, Trial
from evenhand.mitigate.choice import accuracy, remaining, sizes
from evenhand.mitigate.harms import GapHarm
from evenhand.models import Scorer, favourable_score
from evenhand.schema import People, Schema, Value, encode
from evenhand.subgroup import Rules
from evenhand.subgroup.members import members

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]

LEAST = 10
"""People with either label that a group needs; smaller groups are taken together."""

CUTS = 3
"""Ranges, with about as many people in each, that a number is cut into to make groups of it."""

BOUNDS = (0.01, 0.05)
"""Differences in rates that are tried as the bound of the exponentiated gradient; 0.01 is fairlearn's own."""

ROUNDS = 50
"""Of the exponentiated gradient at most, as fairlearn's own."""

RANDOMISED = (
    "fairlearn's answers are drawn at random; here the draw is fixed by what a person is apart from the protected "
    "attributes, so that the same person always gets the same answer"
)
TRUSTED = "a .joblib file runs code when it is read: it is taken with --trust alone"


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


@dataclass(frozen=True, eq=False)
class Groups:
    """Whose rates are made alike.

    Attributes:
        schema: of the individuals.
        rules: of subgroups; who is in which of them makes the group.
        ends: without rules: protected attribute -> upper ends of the ranges it is cut into; None: its own values.
        known: codes of the groups that are large enough, ascending.
        others: the group of everybody else, a position in ``known`` or one behind.
        words: what the groups are, for a reader.
    """

    schema: Schema
    rules: tuple[Rules, ...]
    ends: dict[str, Floats | None]
    known: Ints
    others: int
    words: str

    @classmethod
    def of(cls, people: People, harms: Sequence[object]) -> Groups:
        """By the subgroups among the harms, else by the joint values of the protected attributes.

        Raises:
            DataError: fewer than two groups have `LEAST` people with either label.
        """
        schema = people.schema
        rules = tuple(harm.rules for harm in harms if isinstance(harm, GapHarm))
        ends = {} if rules else {name: _ends(people, name) for name in schema.protected}
        words = "inside and outside the subgroup" if rules else f"by {' x '.join(schema.protected)}"
        draft = cls(schema, rules, ends, np.empty(0, dtype=np.int64), 0, words)
        codes, favourable = draft._codes(people.individuals), people.favourable
        values = np.unique(codes)
        enough = np.array([_enough(favourable[codes == value]) for value in values], dtype=np.bool_)
        known = values[enough]
        rest = ~np.isin(codes, known)
        pooled = _enough(favourable[rest])
        if len(known) + pooled < 2:
            raise DataError(
                f"fewer than two groups {words} have {LEAST} people with either label: there is nothing to make alike",
                mend="give more people, or protect other attributes",
            )
        largest = int(np.argmax([np.sum(codes == value) for value in known])) if len(known) else 0
        return replace(draft, known=known, others=len(known) if pooled else largest)

    def __call__(self, individuals: Floats) -> Ints:
        """The group of each individual (n, attributes), shape (n,)."""
        codes = self._codes(individuals)
        place = np.minimum(np.searchsorted(self.known, codes), max(len(self.known) - 1, 0))
        here = self.known[place] == codes if len(self.known) else np.zeros(len(codes), dtype=np.bool_)
        return np.where(here, place, self.others)

    def _codes(self, individuals: Floats) -> Ints:
        code = np.zeros(len(individuals), dtype=np.int64)
        if self.rules:
            people = People(self.schema, individuals, None, np.arange(len(individuals)), 0, None)
            for rules in self.rules:
                code = 2 * code + members(people, rules)
            return code
        for name, ends in self.ends.items():
            entries = individuals[:, self.schema.position(name)]
            count = len(self.schema[name].domain()) if ends is None else len(ends) + 1
            own = entries if ends is None else np.searchsorted(ends, entries).astype(np.float64)
            code = (count + 1) * code + np.where(np.isnan(entries), count, own).astype(np.int64)
        return code


def _enough(favourable: NDArray[np.bool_]) -> bool:
    return bool(favourable.sum() >= LEAST and (~favourable).sum() >= LEAST)


def _ends(people: People, name: str) -> Floats | None:
    if people.schema[name].kind not in ("integer", "real"):
        return None
    entries = people.individuals[:, people.schema.position(name)]
    return np.unique(np.nanquantile(entries, [i / CUTS for i in range(1, CUTS)], method="lower"))


def exponentiated_gradient(situation: Situation) -> Candidate:
    """A mixture of models, trained on weights that make the groups' rates alike.

    Trained is the given model if it is a scikit-learn classifier that takes weights, else a logistic regression. What
    it comes to on the validation part chooses among `BOUNDS` of the difference in rates.

    Raises:
        MissingExtraError: fairlearn is not installed.
        DataError: there are more labels than two, or no two groups to compare.

    Source: Agarwal, Beygelzimer, Dudik, Langford, Wallach: A reductions approach to fair classification, ICML 2018.
    """
    _fairlearn()
    from fairlearn.reductions import DemographicParity, ExponentiatedGradient
    from threadpoolctl import threadpool_limits

    train, given = situation.split.train, situation.given
    _two(given)
    groups = Groups.of(train, situation.harms)
    base, words = _base(situation)
    group, label = groups(train.individuals), train.favourable.astype(np.int64)
    made: list[ByLot] = []
    interrupted = False
    try:
        with threadpool_limits(1):  # sums must not depend on how many cores there are
            for i, bound in enumerate(BOUNDS):
                situation.progress(f"exponentiated gradient, difference at most {bound:g}", i / len(BOUNDS))
                if made and situation.deadline is not None and _now() > situation.deadline:
                    interrupted = True
                    break
                reduction = ExponentiatedGradient(
                    base, DemographicParity(difference_bound=bound), eps=bound, max_iter=ROUNDS
                )
                with _fairlearns_own():
                    reduction.fit(train.individuals, label, sensitive_features=group)
                weights = np.asarray(reduction.weights_.sort_index(), dtype=np.float64)
                parts = [(float(w), reduction.predictors_[i]) for i, w in enumerate(weights) if w > 0]
                made.append(_by_lot(situation, "exponentiated gradient", Mixture(tuple(parts))))
    except KeyboardInterrupt:
        interrupted = True
        if not made:
            raise
    best, trials = _chosen(situation, made, BOUNDS, "bound")
    return Candidate(
        method="exponentiated-gradient",
        words=f"fairlearn's exponentiated gradient over {words}, rates {groups.words} at most {BOUNDS[best]:g} apart",
        scorer=made[best],
        save=_Save(made[best]),
        trials=trials,
        interrupted=interrupted,
        notes=(RANDOMISED, TRUSTED),
    )


def threshold_optimizer(situation: Situation) -> Candidate:
    """The given model with thresholds of its own for every group, so that the groups' rates are alike.

    Thresholds are learnt on the validation part, whose scores are not those of people learnt from.

    Raises:
        MissingExtraError: fairlearn is not installed.
        DataError: there are more labels than two, or no two groups to compare.

    Source: Hardt, Price, Srebro: Equality of opportunity in supervised learning, NIPS 2016.
    """
    _fairlearn()
    from fairlearn.postprocessing import ThresholdOptimizer

    given, people = situation.given, situation.split.validation
    _two(given)
    situation.progress("threshold optimizer", 0.0)
    groups = Groups.of(people, situation.harms)
    optimizer = ThresholdOptimizer(
        estimator=_asked(given), constraints="demographic_parity", prefit=True, predict_method="predict_proba"
    )
    group = groups(people.individuals)
    with _fairlearns_own():
        optimizer.fit(people.individuals, people.favourable.astype(np.int64), sensitive_features=group)
    learnt = optimizer.interpolated_thresholder_.interpolation_dict
    cuts = {
        int(name): tuple(
            (float(p), operation.operator, float(operation.threshold))
            for p, operation in ((one.p0, one.operation0), (one.p1, one.operation1))
        )
        for name, one in learnt.items()
    }
    made = _by_lot(situation, "threshold optimizer", Thresholds(given, groups, cuts))
    _, trials = _chosen(situation, [made], (0.0,), "difference")
    return Candidate(
        method="threshold-optimizer",
        words=f"fairlearn's threshold optimizer: the given model, a threshold for each group, {groups.words}",
        scorer=made,
        save=_Save(made),
        trials=trials,
        notes=(
            "it must be told who is in which group to decide, so decisions can flip with protected attributes more "
            "often than before",
            RANDOMISED,
            TRUSTED,
        ),
    )


@dataclass(frozen=True, eq=False)
class Mixture:
    """Models by the weight with which each is asked.

    Attributes:
        parts: weights, and models of which ``predict`` gives 1 for the favourable label.
    """

    parts: tuple[tuple[float, Any], ...]

    def __call__(self, individuals: Floats) -> Floats:
        total = sum(weight for weight, _ in self.parts)
        found = np.zeros(len(individuals))
        for weight, model in self.parts:
            found += weight / total * np.asarray(model.predict(individuals), dtype=np.float64)
        return found


@dataclass(frozen=True, eq=False)
class Thresholds:
    """A model and, for every group, two thresholds of its score with their probabilities.

    Attributes:
        given: the model.
        groups: who is in which.
        cuts: group -> probability, ``>`` or ``<``, threshold; twice.
    """

    given: Scorer
    groups: Groups
    cuts: dict[int, tuple[tuple[float, str, float], ...]]

    def __call__(self, individuals: Floats) -> Floats:
        scores, group = favourable_score(self.given, individuals), self.groups(individuals)
        found = np.zeros(len(individuals))
        for own, cuts in self.cuts.items():
            here = group == own
            for p, operator, threshold in cuts:
                beyond = scores[here] > threshold if operator == ">" else scores[here] < threshold
                found[here] += p * beyond
        return found


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
class _Save:
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


def _asked(scorer: Scorer) -> Any:
    """The given model, as fairlearn asks one that is fitted."""
    from sklearn.base import BaseEstimator

    class Given(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
        def __sklearn_is_fitted__(self) -> bool:
            return True

        def fit(self, individuals: Floats, labels: Ints) -> Any:
            return self  # fairlearn looks whether there is such a method

        def predict_proba(self, individuals: Floats) -> Floats:
            score = favourable_score(scorer, individuals)
            return np.stack([1 - score, score], axis=1)

    return Given()


class _OnFrames:
    """A scikit-learn classifier, fitted and asked in the way the given one is asked."""

    def __init__(self, model: Any, ask: Callable[[Floats], Any], weights: str) -> None:
        self.model, self.ask, self.weights = model, ask, weights

    def fit(self, individuals: Floats, labels: Ints, sample_weight: Floats) -> _OnFrames:
        import warnings

        from sklearn.base import clone
        from sklearn.exceptions import ConvergenceWarning

        self.model = clone(self.model)
        with warnings.catch_warnings():
            # Some of the weights are extreme; a model that has not settled is one more of the mixture.
            warnings.simplefilter("ignore", ConvergenceWarning)
            self.model.fit(self.ask(individuals), np.asarray(labels), **{self.weights: np.asarray(sample_weight)})
        return self

    def predict(self, individuals: Floats) -> Ints:
        return np.asarray(self.model.predict(self.ask(individuals)), dtype=np.int64)


@dataclass(frozen=True)
class _Ask:
    """How a scikit-learn model wants its people."""

    schema: Schema
    form: Any
    like: Any
    columns: tuple[str, ...] | None
    name: str

    def __call__(self, individuals: Floats) -> Any:
        from evenhand.models.questions import question

        return question(
            self.schema, individuals, self.form, like=self.like, columns=self.columns, where=self.name
        )  # fmt: skip


@dataclass(frozen=True)
class _Encoded:
    """Numbers by mean and deviation of the people trained on, values one column each; missing is a column too."""

    schema: Schema
    mean: Floats
    deviation: Floats

    def __call__(self, individuals: Floats) -> Floats:
        parts = []
        for i, attribute in enumerate(self.schema.attributes):
            column = individuals[:, i]
            missing = np.isnan(column)
            if attribute.kind == "categorical":
                parts.append((column[:, None] == attribute.domain()[None]).astype(np.float64))
            else:
                parts.append(np.where(missing, 0.0, (column - self.mean[i]) / self.deviation[i])[:, None])
            if attribute.missing == "keep":
                parts.append(missing[:, None].astype(np.float64))
        return np.concatenate(parts, axis=1)


def _base(situation: Situation) -> tuple[_OnFrames, str]:
    """What the reduction trains, and what it is."""
    from sklearn.base import BaseEstimator
    from sklearn.linear_model import LogisticRegression

    from evenhand.models.estimator import Estimator

    given, schema, seed = situation.given, situation.split.train.schema, situation.config.seed
    if isinstance(given, Estimator) and isinstance(given.model, BaseEstimator):
        weights = _weights(given.model)
        if weights is not None:
            like = given.like if given.like is None else given.like[:0]
            ask = _Ask(schema, given.form, like, given.columns, given.name)
            return _OnFrames(_seeded(given.model, seed), ask, weights), type(given.model).__name__
    individuals = situation.split.train.individuals
    mean, deviation = np.nanmean(individuals, axis=0), np.nanstd(individuals, axis=0)
    encoded = _Encoded(schema, mean, np.where(deviation > 0, deviation, 1.0))
    return _OnFrames(LogisticRegression(max_iter=200), encoded, "sample_weight"), "a logistic regression"


def _weights(model: Any) -> str | None:
    """The argument of ``fit`` that takes weights; None where there is none."""
    from sklearn.pipeline import Pipeline
    from sklearn.utils.validation import has_fit_parameter

    prefix = ""
    while isinstance(model, Pipeline):
        prefix += f"{model.steps[-1][0]}__"
        model = model.steps[-1][1]
    return f"{prefix}sample_weight" if has_fit_parameter(model, "sample_weight") else None


def _seeded(model: Any, seed: int) -> Any:
    """A copy, not fitted, that draws its random numbers from the seed."""
    from sklearn.base import clone

    model = clone(model)
    unset = {
        name: seed for name, value in model.get_params().items() if name.endswith("random_state") and value is None
    }
    return model.set_params(**unset)


def _by_lot(situation: Situation, name: str, chance: Chance) -> ByLot:
    given = situation.given
    return ByLot(given.schema, given.classes, given.favourable, name, chance, situation.config.seed)


def _chosen(
    situation: Situation, made: Sequence[ByLot], values: Sequence[float], setting: str
) -> tuple[int, tuple[Trial, ...]]:
    """Which to take: on the validation part, the least harm among those that lose little enough accuracy.

    Where none does, the most accurate.
    """
    people, harms = situation.split.validation, situation.harms
    before = sizes(situation.given, people, harms)
    found = [(accuracy(scorer, people), sizes(scorer, people, harms)) for scorer in made]
    least = accuracy(situation.given, people) - situation.config.accuracy_loss
    allowed = [i for i, (right, _) in enumerate(found) if right >= least - 1e-9]
    best = (
        min(allowed, key=lambda i: (remaining(found[i][1], before, len(people)), -found[i][0]))
        if allowed
        else max(range(len(found)), key=lambda i: found[i][0])
    )
    return best, tuple(
        Trial(setting=setting, value=value, accuracy=right, harms=harm, chosen=i == best)
        for i, (value, (right, harm)) in enumerate(zip(values, found, strict=False))
    )


def _two(given: Scorer) -> None:
    if len(given.classes) != 2:
        raise DataError(
            f"the model decides between {len(given.classes)} labels; fairlearn's methods know two",
            where=given.name,
            mend="leave these methods out",
        )


def _now() -> float:
    import time

    return time.perf_counter()


@contextmanager
def _fairlearns_own() -> Iterator[None]:
    """What fairlearn is told by its own libraries about versions to come is not for our readers."""
    import warnings

    with warnings.catch_warnings():
        for kind in (DeprecationWarning, FutureWarning):
            warnings.filterwarnings("ignore", category=kind, module=r"fairlearn\.")
        yield


def _fairlearn() -> None:
    try:
        import fairlearn  # noqa: F401
    except ImportError:
        raise MissingExtraError("fairlearn", extra="fairlearn", purpose="for fairlearn's methods") from None
