"""Run both tables: every data set and environment, again and again with people parted anew."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from evenhand.errors import LimitError
from evenhand.reproduce.mitigation import cases, subgroups
from evenhand.reproduce.mitigation.cases import Case
from evenhand.reproduce.mitigation.result import Mended, MitigationTables
from evenhand.reproduce.mitigation.settings import Settings
from evenhand.reproduce.shields import classifiers, environments
from evenhand.reproduce.shields.measured import described
from evenhand.reproduce.shields.result import Trained

Progress = Callable[[str, float], None]

EFFORT = {"census": 40.0, "bank": 30.0, "german": 4.0, "compas": 8.0, "law": 15.0, "crime": 12.0}
"""About how long a case takes, an environment with one classifier being 1: to show progress by."""


def run(
    settings: Settings | None = None,
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
        >>> quick = evenhand.reproduce.mitigation.Settings.of(quick=True)
        >>> found = evenhand.reproduce.mitigation.run(quick, only=["german"])  # doctest: +SKIP
    """
    started = time.perf_counter()
    settings = Settings() if settings is None else settings
    what = cases.chosen(only)
    left_out: dict[str, str] = {}
    names: tuple[str, ...] = ()
    if what.environments:
        names, others = classifiers.at_hand(settings.classifiers)
        left_out |= others
    todo: list[tuple[float, Case | tuple[environments.Environment, str], int]] = [
        *((EFFORT[case.name], case, number) for case in what.cases for number in range(settings.runs)),
        *((1.0, (one, name), number) for one in what.environments for name in names for number in range(settings.runs)),
    ]
    total, done = sum(effort for effort, _, _ in todo), 0.0
    mended: list[Mended] = []
    trained: list[Trained] = []
    interrupted = False
    say = progress or _unwatched
    try:
        say("reading the data sets", 0.0)
        people = {case.name: cases.load(case, data_home=data_home) for case in what.cases}
        data = {
            name: environments.load(name, data_home=data_home) for name in {one.dataset for one in what.environments}
        }
        for effort, one, number in todo:
            if isinstance(one, Case):
                mended.append(
                    subgroups.mend(
                        one, people[one.name], settings, run=number, seed=seed,
                        progress=_within(say, done / total, effort / total),
                    )
                )  # fmt: skip
            else:
                environment, name = one
                say(f"{environment.name}: training {name}", done / total)
                began = time.perf_counter()
                sample = environments.sample(environment, data[environment.dataset], seed=seed + number)
                classifier = classifiers.train(name, sample, layers=settings.layers, seed=seed + number)
                trained.append(described(classifier, time.perf_counter() - began))
            done += effort
    except (KeyboardInterrupt, subgroups.Stopped):
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


def _within(say: Progress, start: float, share: float) -> Progress:
    return lambda what, done: say(what, min(start + share * done, 1.0))


def _unwatched(what: str, share: float) -> None:
    """Progress that nobody watches."""
