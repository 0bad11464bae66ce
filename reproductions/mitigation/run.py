"""Run both tables: every data set and environment, repeatedly, each time with a new split of the people."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter

from evenhand.core import Document
from evenhand.datasets import Dataset
from evenhand.errors import LimitError
from evenhand.schema import People
from evenhand.typing import Progress
from evenhand.workers import Workforce, fingerprint_of
from reproductions.mitigation import subgroups
from reproductions.mitigation.record import (
    ExperimentCase,
    MitigationExperimentSettings,
    MitigationRecord,
    MitigationRun,
    choose_experiments,
    load_people,
)
from reproductions.mitigation.tables import models_frame
from reproductions.mitigation.wording import build_document
from reproductions.shields import classifiers, environments
from reproductions.shields.classifiers import ClassifierRecord, describe_classifier

if TYPE_CHECKING:
    import pandas as pd


class MitigationTables(MitigationRecord):
    """The mitigation tables of two papers, made again: printed and tabulated."""

    def document(self) -> Document:
        """Return both tables, published figures beside ours."""
        return build_document(self)

    def to_frame(self) -> pd.DataFrame:
        """Return one row per model of the first table: accuracy and rates on everybody they were counted on."""
        return models_frame(self)


EFFORT = {"census": 40.0, "bank": 30.0, "german": 4.0, "compas": 8.0, "law": 15.0, "crime": 12.0}
"""About how long a case takes, an environment with one classifier being 1: to show progress by."""


def reproduce_mitigation(
    settings: MitigationExperimentSettings | None = None,
    *,
    only: Sequence[str] = (),
    data_home: str | Path | None = None,
    seed: int = 0,
    workforce: Workforce | None = None,
    progress: Progress | None = None,
) -> MitigationTables:
    """Train networks, mend their widest subgroups, and train the classifiers of the shields paper.

    Args:
        settings: what is run; by default everything.
        only: tables (``subgroups``, ``classifiers``), data sets (``adult``) or environments (``adult:race``).
        data_home: folder of data sets that are not bundled; they are fetched if they are not there.
        seed: the same seed gives the same result.
        workforce: workers who train the networks and classifiers, which are the same with any.
        progress: called with what is being done and the share that is done.

    Raises:
        OptionError: an option makes no sense.
        FetchError: a data set is not there and cannot be fetched.
        MissingExtraError: only classifiers are to be trained that need PyTorch, and it is not installed.
        LimitError: interrupted before there was any result.

    Example:
        >>> import evenhand
        >>> quick = reproductions.mitigation.MitigationExperimentSettings.of(quick=True)
        >>> found = reproductions.mitigation.reproduce_mitigation(quick, only=["german"])  # doctest: +SKIP
    """
    started = time.perf_counter()
    settings = MitigationExperimentSettings() if settings is None else settings
    what = choose_experiments(only)
    left_out: dict[str, str] = {}
    names: tuple[str, ...] = ()
    if what.environments:
        names, others = classifiers.available_classifiers(settings.classifiers)
        left_out |= others
    todo: list[_Entry] = [
        *(_Entry(case, None, number) for case in what.cases for number in range(settings.runs)),
        *(_Entry(one, name, number) for one in what.environments for name in names for number in range(settings.runs)),
    ]
    total, done = sum(entry.effort for entry in todo), 0.0
    found: list[MitigationRun | ClassifierRecord] = []
    interrupted = False
    say = progress or (lambda what, share: None)
    try:
        say("reading the data sets", 0.0)
        people = {case.name: load_people(case, data_home=data_home) for case in what.cases}
        data = {
            name: environments.load_dataset(name, data_home=data_home)
            for name in sorted({one.dataset for one in what.environments})
        }
        task = _Trainings(tuple(todo), people, data, settings, seed)
        if workforce is not None:
            results, ended = workforce.compute(task, len(todo), progress)
            found, interrupted = list(results.values()), ended.interrupted or bool(ended.given_up)
            if not found:
                raise KeyboardInterrupt
        for entry in todo if workforce is None else ():
            found.append(task.train(entry, _scale_progress(say, done / total, entry.effort / total)))
            done += entry.effort
    except (KeyboardInterrupt, subgroups.MethodInterrupted):
        interrupted = True
        if not found:
            raise LimitError("the reproduction was stopped before anything was complete") from None
    return MitigationTables(
        seed=seed,
        seconds=time.perf_counter() - started,
        settings=settings,
        mended=tuple(one for one in found if isinstance(one, MitigationRun)),
        classifiers=tuple(one for one in found if isinstance(one, ClassifierRecord)),
        wanted=len(todo),
        left_out=left_out,
        notes={case.dataset: case.note for case in what.cases if case.note}
        | {one.name: one.note for one in what.environments if one.note},
        interrupted=interrupted,
    )


@dataclass(frozen=True)
class _Entry:
    """A run of one row of the tables: a data set whose network is mended, or an environment's classifier."""

    of: ExperimentCase | environments.Environment
    classifier: str | None
    number: int

    @property
    def effort(self) -> float:
        return EFFORT[self.of.name] if isinstance(self.of, ExperimentCase) else 1.0


@dataclass(frozen=True)
class _Trainings:
    """Entries of the tables with the people of their data sets, each a unit of work."""

    entries: tuple[_Entry, ...]
    people: dict[str, People]
    data: dict[str, Dataset]
    settings: MitigationExperimentSettings
    seed: int
    kind = "training"

    @property
    def fingerprint(self) -> str:
        which = [[entry.of.name, entry.classifier, entry.number] for entry in self.entries]
        people = [array for one in self.people.values() for array in (one.individuals, one.labels)]
        rows = [one.frame.to_csv() for one in self.data.values()]
        return fingerprint_of("mitigation", which, self.settings.model_dump(mode="json"), self.seed, *people, *rows)

    def run(self, unit: int) -> MitigationRun | ClassifierRecord:
        return self.train(self.entries[unit], lambda what, share: None)

    def train(self, entry: _Entry, say: Progress) -> MitigationRun | ClassifierRecord:
        """Return what came of one entry."""
        if isinstance(entry.of, ExperimentCase):
            people = self.people[entry.of.name]
            return subgroups.mitigate_widest(
                entry.of, people, self.settings, run=entry.number, seed=self.seed, progress=say
            )
        assert entry.classifier is not None
        say(f"{entry.of.name}: training {entry.classifier}", 0.0)
        began, own = time.perf_counter(), self.seed + entry.number
        sample = environments.sample_environment(entry.of, self.data[entry.of.dataset], seed=own)
        trained = classifiers.train_classifier(entry.classifier, sample, layers=self.settings.layers, seed=own)
        return describe_classifier(trained, time.perf_counter() - began)

    def pack(self, result: MitigationRun | ClassifierRecord) -> dict[str, NDArray[Any]]:
        return {"json": np.frombuffer(result.model_dump_json().encode(), dtype=np.uint8)}

    def unpack(self, arrays: dict[str, NDArray[Any]]) -> MitigationRun | ClassifierRecord:
        found: MitigationRun | ClassifierRecord = _RECORD.validate_json(arrays["json"].tobytes())
        return found


_RECORD: TypeAdapter[MitigationRun | ClassifierRecord] = TypeAdapter(MitigationRun | ClassifierRecord)


def _scale_progress(say: Progress, start: float, share: float) -> Progress:
    return lambda what, done: say(what, min(start + share * done, 1.0))
