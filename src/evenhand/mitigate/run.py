"""One mitigation: split the people, read what was found, learn, and compare on people whom nobody looked at."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from evenhand import models
from evenhand.errors import DataError, EvenhandError
from evenhand.mitigate.candidate import Candidate, Progress, Situation
from evenhand.mitigate.compare import compare
from evenhand.mitigate.config import Config
from evenhand.mitigate.findings import Findings
from evenhand.mitigate.harms import FlipHarm, GapHarm, GroupsHarm, Harm
from evenhand.mitigate.known import KNOWN, apart, met, withheld
from evenhand.mitigate.learners import Learner, learner_of
from evenhand.mitigate.lesson import Lesson
from evenhand.mitigate.methods import BY_GROUP, FROM_FINDINGS, methods, writable
from evenhand.mitigate.result import MitigationResult, Parts
from evenhand.mitigate.split import split
from evenhand.result import Result
from evenhand.schema import People, Schema

COMPARING = 0.9
"""Share of the work that is done when the comparison begins, for whoever watches."""


@dataclass(frozen=True, eq=False)
class Mitigation:
    """New models, and what they changed.

    Attributes:
        result: every candidate beside the given model, on the test people.
        candidates: the new models in the order of the methods, then the control.
    """

    result: MitigationResult
    candidates: tuple[Candidate, ...]

    def save(self, path: Path | str) -> tuple[Path, ...]:
        """Write the first candidate's model; the files written.

        Raises:
            EvenhandError: such a model is not written to such a file.
        """
        return self.candidates[0].save(Path(path))


def run(
    source: Any,
    people: People,
    *,
    findings: Sequence[Path | str | Result] = (),
    test: People | None = None,
    fit: str | Callable[..., Any] | None = None,
    like: Any = None,
    trust: bool = False,
    name: str | None = None,
    data_name: str = "data",
    test_name: str = "test",
    out: Path | None = None,
    config: Config | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Mitigation:
    """Mitigate what was found about a model.

    Args:
        source: the model: an object or a file (see ``evenhand.models.load``).
        people: with true labels; they are split into those learnt from, chosen on, and compared on.
        findings: files of ``evenhand search``, ``subgroups``, ``certify``, ``audit``, or such results.
        test: other people to compare on; all of ``people`` is then learnt from and chosen on.
        fit: how to train such a model where that is not known: ``fit(frame, labels) -> model``, or ``module:function``.
        like: the user's data; a model that takes data frames is asked with frames of its type.
        trust: allow model files that can run code when loaded.
        name, data_name, test_name: how to call the model, the people and the other people.
        out: where the first method's model is going to be saved: refused before any work if it cannot be.
        config: settings.
        progress: called as work goes on.
        options: settings by name, in place of the configuration's.

    Returns:
        The new models and the comparison. An interrupt (Ctrl-C) or the time limit leaves what is best by then.

    Raises:
        EvenhandError: the model, the people, the findings or the settings cannot be used.
        KeyboardInterrupt: it was interrupted before there was any model.
    """
    started = time.perf_counter()
    config = replace(config or Config(), **options)
    say = progress or (lambda what, share: None)
    wanted = methods(config.methods)
    like = people.frame if like is None else like
    say("loading the model", 0.0)
    given = models.load(source, people.schema, like=like, trust=trust, name=name)
    found = Findings.read(findings, people.schema)
    if findings and not found:
        raise DataError(
            "nothing was found that could be learnt from: no profile, and no subgroup that stands out from chance",
            where=", ".join(found.sources),
        )
    learner = _learner(source, people.schema, like, trust, fit, needed=any(one in FROM_FINDINGS for one in wanted))
    if out is not None:
        writable(next(iter(wanted)), out, given, learner)
    parts = split(people, seed=config.seed, test=test)
    found, compared_on = apart(found, parts)
    situation = Situation(
        given=given,
        learner=learner,
        split=parts,
        findings=found,
        harms=harms(found, people.schema, config),
        config=config,
        progress=say,
    )
    deadline = None if config.time_limit is None else started + config.time_limit
    candidates: list[Candidate] = []
    interrupted = False
    if any(one in FROM_FINDINGS for one in wanted):
        control = _control(situation)
        situation = replace(situation, plain=control.scorer)
    else:
        control = None
    notes = [] if test is not None else [KNOWN]
    if test is not None and 2 * (alike := met(parts)) > len(parts.test):
        notes.append(
            f"{alike:,} of the {len(parts.test):,} people compared on are, label and all, like people learnt from or "
            "chosen on. If they are the same, nothing here was kept aside."
        )
    if compared_on:
        notes.append(f"{compared_on:,} profiles found are those of people compared on: nobody learnt from these.")
    for number, (one, method) in enumerate(wanted.items()):
        left = len(wanted) - number
        until = None if deadline is None else time.perf_counter() + (deadline - time.perf_counter()) / left
        try:
            candidate = method(
                replace(situation, deadline=until, progress=_within(say, number / len(wanted), 1 / len(wanted)))
            )
        except KeyboardInterrupt:
            if not candidates:
                raise
            interrupted = True
            break
        except EvenhandError as error:
            # What was made before must not be lost for one of those that it is compared with.
            if not candidates:
                raise
            notes.append(f"{one} is not there to compare with: {error.what}.")
            continue
        candidates.append(candidate)
        if candidate.interrupted and (until is None or time.perf_counter() < until):
            interrupted = True  # somebody does not want to wait for the others
            break
    if control is not None:
        candidates.append(control)
    try:
        say("comparing", COMPARING)
        compared = compare(
            given, candidates, parts, situation.harms, config=config,
            progress=lambda what, share: say(what, COMPARING + (1 - COMPARING) * share),
        )  # fmt: skip
    except KeyboardInterrupt:
        interrupted = True  # what takes long is left out, and what is written is compared all the same
        del candidates[1:]
        compared = compare(given, candidates, parts, situation.harms, config=replace(config, certify_seconds=0))
    result = MitigationResult(
        model=given.name,
        data=data_name,
        compared_on=None if test is None else test_name,
        favourable=str(given.classes[given.favourable]),
        people=Parts(train=len(parts.train), validation=len(parts.validation), test=len(parts.test)),
        harms=tuple(harm.words for harm in situation.harms),
        sources=found.sources,
        confidence=config.confidence,
        accuracy_loss=config.accuracy_loss,
        candidates=compared if test is not None else withheld(compared),
        interrupted=interrupted
        or any(made.interrupted for made in candidates)
        or any(made.interrupted for made in compared),
        notes=tuple(notes),
        seed=config.seed,
        seconds=time.perf_counter() - started,
    )
    return Mitigation(result, tuple(candidates))


def harms(found: Findings, schema: Schema, config: Config) -> tuple[Harm, ...]:
    """What is measured: every set of protected attributes and every subgroup that is mended.

    A method that makes groups fare alike is judged by groups: where no subgroup was found, by those of the protected
    attributes together. Where nothing was found, other methods are judged by decisions that flip with these.
    """
    flips = tuple(FlipHarm(one.protected) for one in found.profiles)
    gaps: tuple[Harm, ...] = tuple(GapHarm(one.rules) for one in found.subgroups[: config.subgroups])
    by_group = [method in BY_GROUP for method in config.methods]
    if not found and not all(by_group):
        flips = (FlipHarm(schema.protected),)
    if not gaps and any(by_group):
        gaps = (GroupsHarm(schema.protected),)
    return flips + gaps


def _learner(source: Any, schema: Schema, like: Any, trust: bool, fit: Any, *, needed: bool) -> Learner | None:
    try:
        return learner_of(source, schema, like=like, trust=trust, fit=fit)
    except EvenhandError:
        if needed or fit is not None:
            raise
        return None


def _control(situation: Situation) -> Candidate:
    """The same learner, nothing added: what retraining changes by itself."""
    learner = situation.learner
    assert learner is not None
    situation.progress("training anew, with nothing added", 0.0)
    scorer = learner.fit(Lesson.plain(situation.split.train), seed=situation.config.seed)
    return Candidate(
        method="refit",
        words=f"{learner.name}, with nothing added",
        scorer=scorer,
        save=lambda path: learner.save(scorer, path),
        control=True,
    )


def _within(say: Progress, start: float, share: float) -> Progress:
    return lambda what, done: say(what, COMPARING * (start + share * done))
