"""One mitigation: split the people, read what was found, learn, and compare on people not used before."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from evenhand.core.text import format_percent
from evenhand.core.typing import Progress, ignore_progress
from evenhand.errors import BudgetError, DataError, EvenhandError
from evenhand.mitigation.candidate import (
    ROUNDING,
    Candidate,
    MitigationTask,
    accuracy,
    accuracy_bar,
    measure_all,
    remaining_share,
)
from evenhand.mitigation.comparison import SAMPLES, compare_candidates, flip_sets
from evenhand.mitigation.config import MitigationConfig
from evenhand.mitigation.findings import Findings
from evenhand.mitigation.known_people import (
    KNOWN,
    count_overlap,
    describe_left_out,
    drop_test_profiles,
    explain_control,
)
from evenhand.mitigation.learners.choose import find_learner
from evenhand.mitigation.learners.learner import Learner
from evenhand.mitigation.methods.registry import BY_GROUP, FROM_FINDINGS, check_ending, load_methods
from evenhand.mitigation.methods.retrain import relabelled_rows, sampled_rows
from evenhand.mitigation.metrics import FairnessMetric, FlipMetric, GroupGapMetric, SubgroupGapMetric
from evenhand.mitigation.result import CandidateResult, MitigationResult, SplitSizes
from evenhand.mitigation.split import Split, TrainingSet, put_in_one_table, split_people
from evenhand.models.blackbox.function import remember_answers
from evenhand.models.ledger import QuestionLedger, find_ledger
from evenhand.models.noise import CHECKED
from evenhand.models.outputs import FIRST_QUESTIONS
from evenhand.models.scorer import Scorer, find_caution
from evenhand.models.subject import Subject
from evenhand.schema.people import People
from evenhand.schema.schema import Schema

COMPARING = 0.9
"""Share of the work that is done when the comparison begins, as the progress bar shows it."""


@dataclass(frozen=True, eq=False)
class Mitigation:
    """New models, and what they changed.

    Attributes:
        result: every candidate beside the given model, on the test people.
        candidates: the new models in the order of the methods, then the control.
        given: the given model as it was asked, with what a black box answered.
    """

    result: MitigationResult
    candidates: tuple[Candidate, ...]
    given: Scorer

    def save(self, path: Path | str) -> tuple[Path, ...]:
        """Write the first candidate's model; the files written, none where nothing better was found.

        Raises:
            EvenhandError: such a model is not written to such a file.
        """
        return () if self.result.chosen is None else self.candidates[0].save(Path(path))


def mitigate(
    subject: Subject,
    config: MitigationConfig | None = None,
    *,
    test: People | None = None,
    test_name: str = "test",
    out: Path | None = None,
    progress: Progress | None = None,
    **settings: Any,
) -> Mitigation:
    """Mitigate what was found about a model.

    Args:
        subject: the model, and people with true labels, who are split into training, validation and test sets.
        config: settings.
        test: other people to compare on; all of the subject's are then for training and validation.
        test_name: how to call them.
        out: where the first method's model is going to be saved: refused before any work if it cannot be.
        progress: called as work goes on.
        settings: fields of ``MitigationConfig`` by name, in place of those in ``config``.

    Returns:
        The new models and the comparison. An interrupt (Ctrl-C) or the time limit leaves what is best by then.

    Raises:
        EvenhandError: the model, the people, the findings or the settings cannot be used.
        KeyboardInterrupt: it was interrupted before there was any model.
    """
    config = MitigationConfig.of(config, settings)
    if test is not None:
        subject, test = put_in_one_table(subject, test)
    if config.as_published:
        subject = replace(subject, people=without_rules(subject.people))
        test = None if test is None else without_rules(test)
    ledger = find_ledger(subject.model) or subject.ledger
    with ledger.within(config.budget):
        return _mitigate(subject, config, test, test_name, out, progress or ignore_progress)


def forecast_queries(people: People, config: MitigationConfig, *, test: People | None = None) -> int:
    """Return how many individuals a mitigation without a budget asks a black box about at most, each once.

    Everybody, and under every assignment of what is protected everybody and the individuals drawn from the population;
    some people again, to see whether it answers differently each time; and where a method learns from what was found,
    those profiles, the ones that it searches for besides, and people who are like those of the subgroups.

    Raises:
        DataError: the findings cannot be read.
        OptionError: there are too many joint assignments.
    """
    schema = people.schema.without_rules() if config.as_published else people.schema
    found = Findings.read(config.findings, schema)
    asked = [one.protected for one in select_metrics(found, schema, config) if isinstance(one, FlipMetric)]
    twice = 2 if schema.constrains_people else 1
    variants = twice * sum(len(schema.assignments(one)) for one in flip_sets(schema, asked))
    everybody = len(people) + (0 if test is None else len(test))
    # Some are asked about twice, and everybody in whom subgroups are searched for if the answers differ.
    rows = FIRST_QUESTIONS + 2 * everybody + CHECKED + variants * (everybody + SAMPLES)
    if any(method in FROM_FINDINGS for method in config.methods):
        most = max(1, int(config.share * len(people)))
        for one in found.profiles:
            unit = len(schema.assignments(one.protected))
            rows += unit * len(one.individuals) + relabelled_rows(config.rounds, unit, most)
        rows += sampled_rows(config.start, most) * len(found.subgroups[: config.subgroups])
    return rows


def without_rules(people: People) -> People:
    """Return people as if the schema did not say who can exist."""
    return replace(people, schema=people.schema.without_rules())


def _mitigate(
    subject: Subject, config: MitigationConfig, test: People | None, test_name: str, out: Path | None, say: Progress
) -> Mitigation:
    started = time.perf_counter()
    wanted = load_methods(config.methods)
    people = subject.people
    ledger = find_ledger(subject.model) or subject.ledger
    before = ledger.settled
    say("loading the model", 0.0)
    given = remember_answers(subject.scorer)
    found = Findings.read(config.findings, people.schema)
    if config.findings and not found:
        raise DataError(
            "nothing was found to train on: no profile, and no subgroup that is significant after adjustment",
            location=", ".join(found.sources),
            hint="records of people are left out of these results: repeat the search with `show_people=True`"
            if found.people_left_out
            else None,
        )
    learner = _find_learner(subject, config.fit, needed=any(one in FROM_FINDINGS for one in wanted))
    if out is not None:
        check_ending(next(iter(wanted)), out, given, learner)
    parts = split_people(people, seed=config.seed, test=test)
    unknown_people = len(people) + (0 if test is None else len(test)) - parts.size
    require_budget(find_ledger(given), parts)
    right = accuracy(given, parts.validation)  # first of all: what is trained must not be lost for a spent budget
    found, test_data = drop_test_profiles(found, parts)
    task = MitigationTask(
        given=given,
        learner=learner,
        split=parts,
        findings=found,
        harms=select_metrics(found, people.schema, config),
        config=config,
        progress=say,
    )
    deadline = None if config.time_limit is None else started + config.time_limit
    candidates: list[Candidate] = []
    interrupted = False
    if any(one in FROM_FINDINGS for one in wanted):
        control = _train_control(task)
        task = replace(task, plain=control.scorer)
        unknown = str(getattr(learner, "caution", ""))
    else:
        control, unknown = None, ""
    notes = [note for note in (find_caution(given), unknown, KNOWN if test is None else "") if note]
    if test is not None and 2 * (alike := count_overlap(parts)) > len(parts.test):
        notes.append(
            f"{alike:,} of the {len(parts.test):,} people of the test set are, label and all, like people of the "
            "training or validation set. If they are the same, nothing here was kept aside."
        )
    if left_out := describe_left_out(people.schema, unknown_people):
        notes.append(left_out)
    if people.schema.passthrough:
        notes.append(
            f"Passthrough columns ({', '.join(people.schema.passthrough)}) are given to models that take data frames, "
            "and to your own training function. Instances that are added have those of a person of the training set, "
            "drawn at random."
        )
    if test_data:
        same = "profile found is that of a person" if test_data == 1 else "profiles found are those of people"
        notes.append(
            f"{test_data:,} {same} of the test set; no model is trained on {'it' if test_data == 1 else 'these'}."
        )
    for number, (one, method) in enumerate(wanted.items()):
        left = len(wanted) - number
        until = None if deadline is None else time.perf_counter() + (deadline - time.perf_counter()) / left
        try:
            candidate = method(
                replace(task, deadline=until, progress=_scale_progress(say, number / len(wanted), 1 / len(wanted)))
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
            notes.append(f"{one} is not there to compare with: {error.message}.")
            continue
        candidates.append(candidate)
        if candidate.interrupted and (until is None or time.perf_counter() < until):
            interrupted = True  # somebody does not want to wait for the others
            break
    if control is not None:
        candidates.append(control)
    try:
        say("comparing", COMPARING)
        compared = compare_candidates(
            given,
            candidates,
            parts,
            task.harms,
            config=config,
            progress=lambda what, share: say(what, COMPARING + (1 - COMPARING) * share),
        )
    except KeyboardInterrupt:
        interrupted = True  # what takes long is left out, and what is written is compared all the same
        del candidates[1:]
        compared = compare_candidates(
            given, candidates, parts, task.harms, config=MitigationConfig.of(config, {"certify_effort": 0})
        )
    if test is None and control is not None:
        compared, caveat = explain_control(parts, control, compared)
        notes += [caveat] if caveat else []
    incumbent = Incumbent.of(task, right, None if control is None else control.scorer)
    compared = tuple(incumbent.judge(one) for one in compared)
    result = MitigationResult(
        table_reading=people.reading,
        test_reading=None if test is None else test.reading,
        model=given.name,
        data=subject.data_name,
        test_data=None if test is None else test_name,
        favourable=str(given.classes[given.favourable]),
        people=SplitSizes(train=len(parts.train), validation=len(parts.validation), test=len(parts.test)),
        harms=tuple(harm.words for harm in task.harms),
        sources=found.sources,
        confidence=config.confidence,
        accuracy_loss=config.accuracy_loss,
        candidates=compared,
        chosen=next((one.method for one in compared[:1] if not one.rejected), None),
        queries=ledger.sent - before,
        interrupted=interrupted
        or any(made.interrupted for made in candidates)
        or any(made.interrupted for made in compared),
        notes=tuple(notes),
        seed=config.seed,
        seconds=time.perf_counter() - started,
    )
    ledger.settle()
    return Mitigation(result, tuple(candidates), given)


def require_budget(ledger: QuestionLedger | None, parts: Split) -> None:
    """Refuse a budget that does not pay for a comparison of people as they are, before anything is trained.

    Raises:
        BudgetError: it does not.
    """
    needed = len(parts.validation) + len(parts.test)
    if ledger is not None and needed > ledger.left:
        raise BudgetError(
            f"the budget of {ledger.budget:,} rows does not pay for the {needed:,} people of the validation and test "
            "sets",
            location="`budget=`",
            hint="give a larger budget, or fewer people",
        )


def select_metrics(found: Findings, schema: Schema, config: MitigationConfig) -> tuple[FairnessMetric, ...]:
    """Return what is measured: every set of protected attributes and every subgroup that is mended.

    A method that makes groups fare alike is judged by groups: where no subgroup was found, by those of the protected
    attributes together. Where nothing was found, other methods are judged by decisions that flip with these.
    """
    flips = tuple(FlipMetric(one.protected) for one in found.profiles)
    gaps: tuple[FairnessMetric, ...] = tuple(
        SubgroupGapMetric(one.rules) for one in found.subgroups[: config.subgroups]
    )
    by_group = [method in BY_GROUP for method in config.methods]
    if not found and not all(by_group):
        flips = (FlipMetric(schema.protected),)
    if not gaps and any(by_group):
        gaps = (GroupGapMetric(schema.protected),)
    return flips + gaps


def _find_learner(subject: Subject, fit: Any, *, needed: bool) -> Learner | None:
    people = subject.people
    try:
        return find_learner(
            subject.model, people.schema, like=people.frame, trust=subject.trust, fit=fit, given=subject.scorer
        )
    except EvenhandError:
        if needed or fit is not None:
            raise
        return None


def _train_control(task: MitigationTask) -> Candidate:
    """Return the same learner, nothing added: what retraining changes by itself."""
    learner = task.learner
    assert learner is not None
    task.progress("retraining, with nothing added", 0.0)
    scorer = learner.fit(TrainingSet.plain(task.split.train), seed=task.config.seed)
    return Candidate(
        method="refit",
        words=f"{learner.name}, with nothing added",
        scorer=scorer,
        save=lambda path: learner.save(scorer, path),
        control=True,
    )


def _scale_progress(say: Progress, start: float, share: float) -> Progress:
    return lambda what, done: say(what, COMPARING * (start + share * done))


# Whether a new model takes the given one's place: the given model is a candidate as well, the one that costs nothing.
#
# The validation set decides, as it decides everything else. The test set can only object: a model is not written that
# the comparison itself calls worse.


@dataclass(frozen=True)
class Incumbent:
    """The given model as candidate 0.

    Attributes:
        accuracy: on the validation set.
        harms: what each harm measures there; None where a budget does not pay for it.
        plain: accuracy there of its kind retrained with nothing added; None where there is no such model.
        accuracy_loss: accuracy that may be lost; infinite where the strength was fixed, which accepts its price.
        people: size of the validation set.
    """

    accuracy: float
    harms: tuple[float, ...] | None
    plain: float | None
    accuracy_loss: float
    people: int

    @classmethod
    def of(cls, task: MitigationTask, right: float, control: Scorer | None) -> Incumbent:
        """Measure the given model, of which it is known how often it is right, and the control where there is one."""
        people = task.split.validation
        try:
            harms = measure_all(task.given, people, task.harms)
        except BudgetError:
            harms = None
        plain = None if control is None else accuracy(control, people)
        loss = math.inf if task.config.strength is not None else task.config.accuracy_loss
        return cls(right, harms, plain, loss, len(people))

    def judge(self, candidate: CandidateResult) -> CandidateResult:
        """Return a compared candidate with the reason why the given model is kept, where it is."""
        if candidate.control:
            return candidate
        reason = self._validation_reason(candidate) or self._objection(candidate)
        return candidate.model_copy(update={"rejected": reason})

    def _required_accuracy(self, candidate: CandidateResult) -> float:
        """Return the accuracy on the validation set that a candidate must reach: see ``accuracy_bar``."""
        alone = [trial.accuracy for trial in candidate.trials if (trial.setting, trial.value) == ("strength", 0)]
        plain = alone[0] if alone else self.accuracy if self.plain is None else self.plain
        return accuracy_bar(self.accuracy, plain, self.accuracy_loss)

    def _validation_reason(self, candidate: CandidateResult) -> str:
        chosen = next((trial for trial in candidate.trials if trial.chosen), None)
        if chosen is None or self.harms is None:
            return ""
        left, given = (remaining_share(harms, self.harms, self.people) for harms in (chosen.harms, self.harms))
        if left >= given - ROUNDING:
            return "on the validation set it leaves no less of what was to be reduced than the given model"
        required = self._required_accuracy(candidate)
        if chosen.accuracy < required - ROUNDING:
            return (
                f"on the validation set it is right about {format_percent(chosen.accuracy)}, less than the "
                f"{format_percent(required)} that the allowed loss of accuracy leaves"
            )
        return ""

    def _objection(self, candidate: CandidateResult) -> str:
        """Return what the comparison on the test set says against a candidate."""
        asked = [line for line in candidate.lines if line.part == "asked"]
        worse = [line.words for line in asked if line.verdict == "worse"]
        if worse:
            return f"on the test set it is worse in what was to be reduced: {', '.join(worse)}"
        allowed = self.accuracy - self._required_accuracy(candidate)
        right = candidate.line("accuracy")
        if right is not None and right.change is not None and right.change.high < -allowed:
            return (
                f"on the test set it clearly loses more accuracy than allowed: {100 * -right.change.value:.1f} points, "
                f"{100 * -right.change.high:.1f} at least"
            )
        costs = [line.words for line in candidate.lines if line.part == "performance" and line.verdict == "worse"]
        if costs and not any(line.verdict == "better" for line in asked):
            return (
                f"on the test set it is worse in {' and '.join(costs)}, and better beyond noise in nothing that was to "
                "be reduced"
            )
        return ""
