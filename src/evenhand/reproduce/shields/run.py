"""Run the paper's experiments: every environment, classifier, property, threshold, shield and cost."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from evenhand.core import Document
from evenhand.errors import LimitError
from evenhand.reproduce.shields import classifiers, environments
from evenhand.reproduce.shields.charts import plot_reproduction
from evenhand.reproduce.shields.classifiers import describe_classifier
from evenhand.reproduce.shields.record import (
    DYNAMIC,
    DYNAMIC_SOFT,
    DYNAMIC_STRICT,
    FINITE,
    PERIODIC,
    PUBLISHED_COSTS,
    STATIC_BW,
    STATIC_FAIR,
    ClassifierRecord,
    Costs,
    PropertyName,
    ReproductionRecord,
    SettingRuns,
    ShieldExperimentSettings,
)
from evenhand.reproduce.shields.tables import settings_frame
from evenhand.reproduce.shields.wording import build_document
from evenhand.shields import (
    ArrivalSource,
    EmptyGroupRule,
    FairnessProperty,
    Inputs,
    PlanKind,
    ShieldPlan,
    TerminalKind,
    WelfareBounds,
    simulate_runs,
)
from evenhand.typing import Integers, Progress
from evenhand.workers import Workforce, fingerprint_of

if TYPE_CHECKING:
    import altair as alt
    import pandas as pd


class Reproduction(ReproductionRecord):
    """The experiments of a paper, run again: printed, tabulated and plotted."""

    def document(self) -> Document:
        """Return the tables, published figures beside ours."""
        return build_document(self)

    def to_frame(self) -> pd.DataFrame:
        """Return one row per setting: what it is, shares of fair runs, mean interventions, cost and utility loss."""
        return settings_frame(self)

    def plot(self) -> alt.TopLevelMixin:
        """Plot normalised bias with and without shields, utility loss by environment, share of fair runs by period."""
        return plot_reproduction(self)


KINDS: dict[str, tuple[PlanKind, TerminalKind]] = {
    FINITE: ("finite", "strict"),
    STATIC_FAIR: ("static-fair", "strict"),
    STATIC_BW: ("static-bw", "strict"),
    DYNAMIC: ("dynamic", "exempt"),
    DYNAMIC_STRICT: ("dynamic", "strict"),
    DYNAMIC_SOFT: ("dynamic", "soft"),
}
"""Name of a shield -> its kind, and what the ends of its periods are worth."""


@dataclass(frozen=True)
class ExperimentSetting:
    """One cell to be."""

    property: PropertyName
    kappa: str
    shield: str
    costs: Costs
    empty_group: str

    def expected_seconds(self) -> float:
        """About how long it takes, to show progress by: counters of labels are one more, dynamic shields many."""
        base = 1.0 if self.property == "demographic_parity" else 10.0
        return base * (1.0 if self.shield == FINITE else 40.0 if "Dynamic" in self.shield else 1.5)


def reproduce_shields(
    settings: ShieldExperimentSettings | None = None,
    *,
    only: Sequence[str] = (),
    data_home: str | Path | None = None,
    seed: int = 0,
    workforce: Workforce | None = None,
    progress: Progress | None = None,
) -> Reproduction:
    """Train the classifiers, synthesise the shields, and let both decide on the people they were not trained on.

    Shields of one environment, property and threshold decide on equal arrivals, so that they can be compared.

    Args:
        settings: what is run; by default all of the paper.
        only: data sets (``adult``) or environments (``adult:race``); all unless given.
        data_home: folder of data sets that are not bundled (COMPAS, Bank); they are fetched if they are not there.
        seed: the same seed gives the same result.
        workforce: workers who run the settings, which are the same with any; classifiers are trained here.
        progress: called with what is being done and the share that is done.

    Raises:
        OptionError: an option makes no sense.
        MissingExtraError: only classifiers are asked for that need PyTorch, and it is not installed.
        FetchError: a data set is not there and cannot be fetched.
        LimitError: interrupted before there was any result.

    Example:
        >>> import evenhand
        >>> quick = evenhand.reproduce.shields.ShieldExperimentSettings.of(quick=True, runs=5)
        >>> found = evenhand.reproduce.shields.reproduce_shields(quick, only=["german"])  # doctest: +SKIP
    """
    started = time.perf_counter()
    settings = ShieldExperimentSettings() if settings is None else settings
    chosen = environments.choose_environments(only)
    names, left_out = classifiers.available_classifiers(settings.classifiers)
    todo = {name: list(plan_settings(settings, periodic=name == names[0])) for name in names}
    pairs = [(one, name) for one in chosen for name in names]
    total = sum(setting.expected_seconds() for _, name in pairs for setting in todo[name])
    trained: list[ClassifierRecord] = []
    cells: list[SettingRuns] = []
    later: list[tuple[classifiers.TrainedClassifier, ExperimentSetting]] = []
    done = 0.0
    interrupted = False
    advance = progress or (lambda what, share: None)
    try:
        advance("reading the data sets", 0.0)
        data = {name: environments.load_dataset(name, data_home=data_home) for name in {one.dataset for one in chosen}}
        for environment, name in pairs:
            advance(f"{environment.name}: training {name}", done / total)
            began = time.perf_counter()
            people = environments.sample_environment(environment, data[environment.dataset], seed=seed)
            classifier = classifiers.train_classifier(name, people, layers=settings.layers, seed=seed)
            trained.append(describe_classifier(classifier, time.perf_counter() - began))
            if workforce is not None:
                later += [(classifier, setting) for setting in todo[name]]
                continue
            for setting in todo[name]:
                advance(f"{environment.name}: {setting.shield}, {setting.property}, {setting.kappa}", done / total)
                cells.append(_run_setting(classifier, setting, settings, seed))
                done += setting.expected_seconds()
        if workforce is not None:
            task = _Experiments(tuple(later), settings, seed)
            found, ended = workforce.compute(task, len(later), progress)
            cells, interrupted = list(found.values()), ended.interrupted or bool(ended.given_up)
            if not cells:
                raise KeyboardInterrupt
    except (KeyboardInterrupt, LimitError):  # the latter from a simulation that was interrupted
        interrupted = True
        if not cells:
            raise LimitError("the reproduction was stopped before any setting was complete") from None
    return Reproduction(
        seed=seed,
        seconds=time.perf_counter() - started,
        settings=settings,
        environments=tuple(one.name for one in chosen),
        classifiers=tuple(trained),
        cells=tuple(cells),
        wanted=sum(len(todo[name]) for _, name in pairs),
        left_out=left_out,
        interrupted=interrupted,
    )


def plan_settings(settings: ShieldExperimentSettings, *, periodic: bool = True) -> Iterator[ExperimentSetting]:
    """Yield all settings of one classifier in one environment; periodic ones, if any, with the paper's costs alone."""
    kept: list[PropertyName] = ["demographic_parity", "equal_opportunity"]
    for name, kappa, empty_group in product(kept, settings.kappas, settings.empty_groups):
        for costs in settings.costs:
            yield ExperimentSetting(name, kappa, FINITE, costs, empty_group)
        for shield in PERIODIC if periodic else ():
            yield ExperimentSetting(name, kappa, shield, PUBLISHED_COSTS, empty_group)


@dataclass(frozen=True)
class _Experiments:
    """Settings with their classifiers, each a unit of work."""

    settings: tuple[tuple[classifiers.TrainedClassifier, ExperimentSetting], ...]
    chosen: ShieldExperimentSettings
    seed: int
    kind = "running settings"

    @property
    def fingerprint(self) -> str:
        which = [[classifier.name, classifier.sample.environment.name, vars(one)] for classifier, one in self.settings]
        scores = {id(classifier): classifier.scores for classifier, _ in self.settings}.values()
        return fingerprint_of("shields paper", which, self.chosen.model_dump(mode="json"), self.seed, *scores)

    def run(self, unit: int) -> SettingRuns:
        return _run_setting(*self.settings[unit], self.chosen, self.seed)

    def pack(self, result: SettingRuns) -> dict[str, NDArray[Any]]:
        return {"json": np.frombuffer(result.model_dump_json().encode(), dtype=np.uint8)}

    def unpack(self, arrays: dict[str, NDArray[Any]]) -> SettingRuns:
        return SettingRuns.model_validate_json(arrays["json"].tobytes())


def _run_setting(
    classifier: classifiers.TrainedClassifier, setting: ExperimentSetting, settings: ShieldExperimentSettings, seed: int
) -> SettingRuns:
    """Synthesise one shield and run it."""
    started = time.perf_counter()
    bounded = setting.shield == FINITE
    people = classifier.sample
    plan = _shield_plan(classifier, setting, settings)
    drawn = np.random.SeedSequence(
        [seed, environments.ENVIRONMENTS.index(people.environment), settings.classifiers.index(classifier.name),
         int(setting.property == "equal_opportunity"), int(1000 * float(setting.kappa)), int(bounded)]
    )  # fmt: skip
    done = simulate_runs(
        plan,
        _draw_arrivals(classifier, setting.costs, settings.cost_bins),
        runs=settings.runs if bounded else settings.periodic_runs,
        periods=1 if bounded else settings.periods,
        seed=int(drawn.generate_state(1)[0]),
    )
    if done.interrupted:
        raise KeyboardInterrupt
    runs = done.runs
    ends = [done.moments.index(plan.horizon * (period + 1)) for period in range(done.periods)]
    return SettingRuns(
        experiment="bounded" if bounded else "periodic",
        dataset=people.environment.dataset,
        attribute=people.environment.attribute,
        classifier=classifier.name,
        property=setting.property,
        kappa=setting.kappa,
        empty_group=setting.empty_group,
        shield=setting.shield,
        costs=setting.costs,
        horizon=plan.horizon,
        periods=done.periods,
        bias=tuple(float(value) for value in np.round(runs.bias, 6)),
        bias_unshielded=tuple(float(value) for value in np.round(runs.bias_unshielded, 6)),
        fair=tuple(bool(value) for value in runs.fair),
        fair_unshielded=tuple(bool(value) for value in runs.fair_unshielded),
        assumed=tuple(bool(value) for value in runs.assumed),
        interventions=tuple(int(value) for value in runs.interventions),
        cost=tuple(float(value) for value in np.round(runs.cost, 6)),
        right=tuple(int(value) for value in runs.right),
        right_unshielded=tuple(int(value) for value in runs.right_unshielded),
        fair_at=tuple(int(value) for value in runs.fair_at[0, ends]),
        fair_at_unshielded=tuple(int(value) for value in runs.fair_at[1, ends]),
        seconds=time.perf_counter() - started,
    )


def _shield_plan(
    classifier: classifiers.TrainedClassifier, setting: ExperimentSetting, settings: ShieldExperimentSettings
) -> ShieldPlan:
    kind, terminal = KINDS[setting.shield]
    kept = FairnessProperty(setting.property, Fraction(setting.kappa), EmptyGroupRule.parse(setting.empty_group))
    bounds = None
    if kind == "static-bw":
        around = WelfareBounds.gap(kept.kappa, round(float(classifier.sample.label.mean()), 3))
        bounds = (around.lower, around.upper)
    return ShieldPlan(
        property=kept,
        inputs=_expected_inputs(classifier, setting, settings.cost_bins),
        horizon=settings.horizons[setting.property] if kind == "finite" else settings.period,
        kind=kind,
        terminal=terminal,
        bounds=bounds,
    )


def _expected_inputs(classifier: classifiers.TrainedClassifier, setting: ExperimentSetting, bins: int) -> Inputs:
    """Return who is expected: with constant costs nothing but the groups' shares, else the classifier's answers to all.

    Labels are expected as often as recommendations to accept, as in the authors' code.
    """
    people = classifier.sample
    groups = people.environment.groups
    if setting.costs == "constant":
        return Inputs(groups=groups, rate=people.rates, accept=(0.5, 0.5), label=(0.5, 0.5))
    decided = classifier.recommendation
    place = _confidence_bin(classifier.scores, bins)
    accept, weights = [], []
    for g in (0, 1):
        accept.append(float(decided[people.group == g].mean()))
        rows = []
        for r in (0, 1):
            counts = np.bincount(place[(people.group == g) & (decided == r)], minlength=bins)
            rows.append(tuple((counts / counts.sum() if counts.sum() else np.full(bins, 1 / bins)).tolist()))
        weights.append((rows[0], rows[1]))
    return Inputs(
        groups=groups,
        rate=people.rates,
        accept=(accept[0], accept[1]),
        label=(accept[0], accept[1]),
        costs=tuple(_bin_centres(bins).tolist()),
        weights=tuple(weights),
    )


def _draw_arrivals(classifier: classifiers.TrainedClassifier, costs: Costs, bins: int) -> ArrivalSource:
    """Return the people the classifier was not trained on, drawn with replacement, with what it recommends."""
    people = classifier.sample
    rows = people.arriving
    paid = (
        np.ones(len(rows))
        if costs == "constant"
        else _bin_centres(bins)[_confidence_bin(classifier.scores[rows], bins)]
    )
    return ArrivalSource(
        name=people.environment.name,
        groups=people.environment.groups,
        group=people.group[rows],
        recommendation=classifier.recommendation[rows],
        cost=paid,
        label=people.label[rows],
        weight=None,
        real=True,
    )


def _confidence_bin(scores: classifiers.Scores, bins: int) -> Integers:
    """Return the bin of the confidence, which is the distance of a score from a half."""
    return np.minimum((np.abs(scores - 0.5) * 2 * bins).astype(np.int64), bins - 1)


def _bin_centres(bins: int) -> classifiers.Scores:
    return (np.arange(bins) + 0.5) / (2 * bins)
