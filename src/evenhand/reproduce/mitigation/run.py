"""Run both tables: every data set and environment, repeatedly, each time with a new split of the people."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from evenhand.core import Document
from evenhand.errors import LimitError
from evenhand.reproduce.mitigation import subgroups
from evenhand.reproduce.mitigation.charts import plot_mitigation_tables
from evenhand.reproduce.mitigation.record import (
    ExperimentCase,
    MitigationExperimentSettings,
    MitigationRecord,
    MitigationRun,
    choose_experiments,
    load_people,
)
from evenhand.reproduce.mitigation.tables import models_frame
from evenhand.reproduce.mitigation.wording import build_document
from evenhand.reproduce.shields import classifiers, environments
from evenhand.reproduce.shields.classifiers import ClassifierRecord, describe_classifier
from evenhand.typing import Progress

if TYPE_CHECKING:
    import altair as alt
    import pandas as pd


class MitigationTables(MitigationRecord):
    """The mitigation tables of two papers, made again: printed, tabulated and plotted."""

    def document(self) -> Document:
        """Return both tables, published figures beside ours."""
        return build_document(self)

    def to_frame(self) -> pd.DataFrame:
        """Return one row per model of the first table: accuracy and rates on everybody they were counted on."""
        return models_frame(self)

    def plot(self) -> alt.TopLevelMixin:
        """Plot gaps before and after by data set and method; gaps and accuracy of the classifiers."""
        return plot_mitigation_tables(self)


EFFORT = {"census": 40.0, "bank": 30.0, "german": 4.0, "compas": 8.0, "law": 15.0, "crime": 12.0}
"""About how long a case takes, an environment with one classifier being 1: to show progress by."""


def reproduce_mitigation(
    settings: MitigationExperimentSettings | None = None,
    *,
    only: Sequence[str] = (),
    data_home: str | Path | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> MitigationTables:
    """Train networks, mend their widest subgroups, and train the classifiers of the shields paper.

    Args:
        settings: what is run; by default everything.
        only: tables (``subgroups``, ``classifiers``), data sets (``adult``) or environments (``adult:race``).
        data_home: folder of data sets that are not bundled; they are fetched if they are not there.
        seed: the same seed gives the same result.
        progress: called with what is being done and the share that is done.

    Raises:
        OptionError: an option makes no sense.
        FetchError: a data set is not there and cannot be fetched.
        MissingExtraError: only classifiers are to be trained that need PyTorch, and it is not installed.
        LimitError: interrupted before there was any result.

    Example:
        >>> import evenhand
        >>> quick = evenhand.reproduce.mitigation.MitigationExperimentSettings.of(quick=True)
        >>> found = evenhand.reproduce.mitigation.reproduce_mitigation(quick, only=["german"])  # doctest: +SKIP
    """
    started = time.perf_counter()
    settings = MitigationExperimentSettings() if settings is None else settings
    what = choose_experiments(only)
    left_out: dict[str, str] = {}
    names: tuple[str, ...] = ()
    if what.environments:
        names, others = classifiers.available_classifiers(settings.classifiers)
        left_out |= others
    todo: list[tuple[float, ExperimentCase | tuple[environments.Environment, str], int]] = [
        *((EFFORT[case.name], case, number) for case in what.cases for number in range(settings.runs)),
        *((1.0, (one, name), number) for one in what.environments for name in names for number in range(settings.runs)),
    ]
    total, done = sum(effort for effort, _, _ in todo), 0.0
    mended: list[MitigationRun] = []
    trained: list[ClassifierRecord] = []
    interrupted = False
    say = progress or (lambda what, share: None)
    try:
        say("reading the data sets", 0.0)
        people = {case.name: load_people(case, data_home=data_home) for case in what.cases}
        data = {
            name: environments.load_dataset(name, data_home=data_home)
            for name in {one.dataset for one in what.environments}
        }
        for effort, one, number in todo:
            if isinstance(one, ExperimentCase):
                mended.append(
                    subgroups.mitigate_widest(
                        one, people[one.name], settings, run=number, seed=seed,
                        progress=_scale_progress(say, done / total, effort / total),
                    )
                )  # fmt: skip
            else:
                environment, name = one
                say(f"{environment.name}: training {name}", done / total)
                began = time.perf_counter()
                sample = environments.sample_environment(environment, data[environment.dataset], seed=seed + number)
                classifier = classifiers.train_classifier(name, sample, layers=settings.layers, seed=seed + number)
                trained.append(describe_classifier(classifier, time.perf_counter() - began))
            done += effort
    except (KeyboardInterrupt, subgroups.MethodInterrupted):
        interrupted = True
        if not mended and not trained:
            raise LimitError("the reproduction was stopped before anything was complete") from None
    return MitigationTables(
        seed=seed,
        seconds=time.perf_counter() - started,
        settings=settings,
        mended=tuple(mended),
        classifiers=tuple(trained),
        wanted=len(todo),
        left_out=left_out,
        notes={case.dataset: case.note for case in what.cases if case.note}
        | {one.name: one.note for one in what.environments if one.note},
        interrupted=interrupted,
    )


def _scale_progress(say: Progress, start: float, share: float) -> Progress:
    return lambda what, done: say(what, min(start + share * done, 1.0))
