"""Mitigation: split the people, read the findings, train new models and compare them on the test set."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from evenhand.core.text import format_percent
from evenhand.core.typing import Progress, ignore_progress
from evenhand.errors import BudgetError, DataError, EvenhandError
from evenhand.individual.flips import attribute_sets
from evenhand.mitigation.candidate import ROUNDING, Candidate, Incumbent, MitigationTask, accuracy, measure_all
from evenhand.mitigation.comparison import compare_candidates
from evenhand.mitigation.config import MitigationConfig
from evenhand.mitigation.findings import Findings, count_overlap, drop_test_profiles
from evenhand.mitigation.methods import retrain
from evenhand.mitigation.methods.registry import BY_GROUP, FROM_FINDINGS, check_ending, load_methods
from evenhand.mitigation.metrics import FairnessMetric, FlipMetric, GroupGapMetric, SubgroupGapMetric
from evenhand.mitigation.result import CandidateResult, MitigationResult, SplitSizes
from evenhand.mitigation.split import TrainingSet, put_in_one_table
from evenhand.mitigation.study import Study, limit_queries
from evenhand.models.blackbox.function import remember_answers
from evenhand.models.noise import CHECKED
from evenhand.models.outputs import FIRST_QUESTIONS
from evenhand.models.replies import find_ledger
from evenhand.models.scorer import Scorer
from evenhand.models.subject import Subject
from evenhand.schema.people import People
from evenhand.schema.schema import Schema

COMPARING = 0.9
"""Progress at which the comparison starts."""


@dataclass(frozen=True, eq=False)
class Mitigation:
    """New models and their comparison.

    Attributes:
        result: Comparison on the test set.
        candidates: New models in the order of the methods, then the control.
        given: Original model, with the answers of a black box.
    """

    result: MitigationResult
    candidates: tuple[Candidate, ...]
    given: Scorer

    def save(self, path: Path | str) -> tuple[Path, ...]:
        """Write the model of the first candidate, and return the files. None if the original model is kept.

        Raises:
            EvenhandError: The model cannot be written to this file.
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
    """Mitigate the unfairness found in a model.

    Args:
        subject: Model, and people with true labels, who are split into training, validation and test sets.
        config: Settings.
        test: Separate test set. All people of the subject are then split into training and validation sets.
        test_name: Name of the separate test set.
        out: File for the model of the first method. It is checked before training that the file can be written.
        progress: Progress callback.
        settings: Fields of ``MitigationConfig``, which override those in ``config``.

    Returns:
        The new models and the comparison. After an interrupt (Ctrl-C) or the time limit, the best models so far.

    Raises:
        EvenhandError: The model, the people, the findings or a setting is invalid.
        KeyboardInterrupt: The run was interrupted before any model was trained.
    """
    started = time.perf_counter()
    config = MitigationConfig.of(config, settings)
    if test is not None:
        subject, test = put_in_one_table(subject, test)
    if config.as_published:
        subject = replace(subject, people=_without_rules(subject.people))
        test = None if test is None else _without_rules(test)
    with limit_queries(subject, config.budget) as count_queries:
        run = _Run(subject, config, test, out, progress or ignore_progress, started)
        run.train()
        results = run.compare()
        result = MitigationResult(
            **run.study.result_fields(test_name, config),
            people=SplitSizes(
                train=len(run.task.split.train),
                validation=len(run.task.split.validation),
                test=len(run.task.split.test),
            ),
            harms=tuple(metric.words for metric in run.task.harms),
            sources=run.task.findings.sources,
            candidates=results,
            chosen=next((leading.method for leading in results[:1] if not leading.rejected), None),
            queries=count_queries(),
            interrupted=run.interrupted
            or any(candidate.interrupted for candidate in run.candidates)
            or any(part.interrupted for part in results),
            notes=tuple(run.notes),
            seconds=time.perf_counter() - started,
        )
    return Mitigation(result, tuple(run.candidates), run.study.model)


def forecast_queries(people: People, config: MitigationConfig, *, test: People | None = None) -> int:
    """Bound the number of distinct individuals for which a mitigation without a budget queries a black box.

    The bound includes all people under every protected assignment, repeated queries that detect noise and, for
    retraining, the findings, the profiles of further searches and the neighbours of subgroups.

    Raises:
        DataError: The findings cannot be read.
        OptionError: There are too many joint assignments.
    """
    schema = people.schema.without_rules() if config.as_published else people.schema
    findings = Findings.read(config.findings, schema)
    metrics = select_metrics(findings, schema, config)
    sets = {*attribute_sets(schema.protected)}.union(
        metric.protected for metric in metrics if isinstance(metric, FlipMetric)
    )
    factor = 2 if schema.constrains_people else 1
    variants = factor * sum(len(schema.assignments(protected)) for protected in sets)
    size = len(people) + (0 if test is None else len(test))
    # Some rows are queried twice. If the model is noisy, the validation set is queried again for the search.
    rows = FIRST_QUESTIONS + 2 * size + CHECKED + variants * size
    if any(method in FROM_FINDINGS for method in config.methods):
        rows += retrain.forecast_queries(findings, schema, config, len(people))
    return rows


def select_metrics(findings: Findings, schema: Schema, config: MitigationConfig) -> tuple[FairnessMetric, ...]:
    """Select the metrics: one per set of protected attributes and per subgroup of the findings.

    Methods that reduce gaps between groups are also measured by such gaps: those of the subgroups in the findings or,
    if there are none, those of the protected attributes. Without findings, all other methods are measured by
    counterfactual flips.
    """
    flips = tuple(FlipMetric(profiles.protected) for profiles in findings.profiles)
    gaps: tuple[FairnessMetric, ...] = tuple(map(SubgroupGapMetric, findings.subgroups[: config.subgroups]))
    by_group = [method in BY_GROUP for method in config.methods]
    if not findings and not all(by_group):
        flips = (FlipMetric(schema.protected),)
    if not gaps and any(by_group):
        gaps = (GroupGapMetric(schema.protected),)
    return flips + gaps


def _without_rules(people: People) -> People:
    return replace(people, schema=people.schema.without_rules())


class _Run:
    """Mitigation in progress: study, task of the methods, and trained models with the control at the end."""

    def __init__(
        self,
        subject: Subject,
        config: MitigationConfig,
        test: People | None,
        out: Path | None,
        progress: Progress,
        started: float,
    ) -> None:
        self.methods = load_methods(config.methods)
        self.control: Candidate | None = None
        self.candidates: list[Candidate] = []
        self.interrupted = False
        schema = subject.people.schema
        progress("loading the model", 0.0)
        model = remember_answers(subject.scorer)
        findings = Findings.read(config.findings, schema)
        if config.findings and not findings:
            raise DataError(
                "expected findings to train on, got no profiles and no subgroups that are significant after adjustment",
                location=", ".join(findings.sources),
                hint="records of people are left out of these results: repeat the search with `show_people=True`"
                if findings.people_left_out
                else None,
            )
        retrains = any(name in FROM_FINDINGS for name in self.methods)
        self.study = study = Study.prepare(subject, model, test, config, require_learner=retrains)
        if out is not None:
            check_ending(next(iter(self.methods)), out, model, study.learner)
        needed, ledger = len(study.split.validation) + len(study.split.test), find_ledger(model)
        if ledger is not None and needed > ledger.left:
            raise BudgetError(
                f"the budget of {ledger.budget:,} rows does not cover the validation and test sets of {needed:,} "
                "people",
                location="`budget=`",
                hint="raise the budget, or pass fewer people",
            )
        self.accuracy = accuracy(model, study.split.validation)  # before training, in case the budget is exhausted
        findings, leaking = drop_test_profiles(findings, study.split)
        self.notes = [*study.notes, *_data_notes(study, leaking)]
        self.deadline = None if config.time_limit is None else started + config.time_limit
        self.task = MitigationTask(
            given=model,
            learner=study.learner,
            split=study.split,
            findings=findings,
            harms=select_metrics(findings, schema, config),
            config=config,
            progress=progress,
        )
        if retrains:  # without changes too, which shows the effect of retraining alone
            learner = study.learner
            assert learner is not None, "retraining requires a learner"
            progress("retraining without changes", 0.0)
            scorer = learner.fit(TrainingSet.plain(study.split.train), seed=config.seed)
            self.control = Candidate(
                method="refit",
                words=f"{learner.name}, without added instances",
                scorer=scorer,
                save=lambda path: learner.save(scorer, path),
                control=True,
            )
            self.task = replace(self.task, plain=scorer)

    def train(self) -> None:
        """Run the methods. Each method gets an equal share of the remaining time."""
        methods = self.methods
        for number, (name, method) in enumerate(methods.items()):
            until = self.deadline
            if until is not None:
                now = time.perf_counter()
                until = now + (until - now) / (len(methods) - number)
            progress = _scale_progress(self.task.progress, COMPARING * number / len(methods), COMPARING / len(methods))
            try:
                candidate = method(replace(self.task, deadline=until, progress=progress))
            except KeyboardInterrupt:
                if not self.candidates:
                    raise
                self.interrupted = True
                break
            except EvenhandError as error:
                # A failure of a later method must not discard the first model.
                if not self.candidates:
                    raise
                self.notes.append(f"{name} failed and is not compared: {error.message}.")
                continue
            self.candidates.append(candidate)
            if candidate.interrupted and (until is None or time.perf_counter() < until):
                self.interrupted = True  # an interrupt also skips all further methods
                break
        if self.control is not None:
            self.candidates.append(self.control)

    def compare(self) -> tuple[CandidateResult, ...]:
        """Compare the candidates on the test set, and decide between the original model and each of them.

        After an interrupt, only the first one is compared, without certificates.
        """
        task, people = self.task, self.task.split.validation
        compare = partial(compare_candidates, task.given, self.candidates, task.split, task.harms)
        try:
            task.progress("comparing", COMPARING)
            progress = _scale_progress(task.progress, COMPARING, 1 - COMPARING)
            results = compare(config=task.config, progress=progress)
        except KeyboardInterrupt:
            self.interrupted = True
            del self.candidates[1:]
            results = compare(config=MitigationConfig.of(task.config, {"certify_effort": 0}))
        try:
            harms = measure_all(task.given, people, task.harms)
        except BudgetError:
            harms = None
        loss = math.inf if task.config.strength is not None else task.config.accuracy_loss
        incumbent = Incumbent(self.accuracy, harms, loss, len(people))
        plain = None if self.control is None else accuracy(self.control.scorer, people)
        return tuple(judge_candidate(incumbent, plain, result) for result in results)


def _data_notes(study: Study, leaking: int) -> list[str]:
    """Note overlapping sets and findings that occur in the test set."""
    notes = []
    test = study.split.test
    if study.test is not None and 2 * (overlap := count_overlap(study.split)) > len(test):
        notes.append(
            f"{overlap:,} of the {len(test):,} people in the test set have the same values and label as people "
            "in the training or validation set. If they are the same people, the test set is not held out."
        )
    if leaking:
        profiles = "1 profile of the findings is" if leaking == 1 else f"{leaking:,} profiles of the findings are"
        notes.append(f"{profiles} in the test set, and not used for training.")
    return notes


def _scale_progress(progress: Progress, start: float, share: float) -> Progress:
    return lambda action, done: progress(action, start + share * done)


def judge_candidate(incumbent: Incumbent, plain: float | None, candidate: CandidateResult) -> CandidateResult:
    """Add the reason for keeping the original model, if there is one.

    The validation set decides, as for all other choices. The test set can only veto: a model is not written if it is
    worse on the test set.

    Args:
        incumbent: Original model.
        plain: Accuracy of the model retrained without changes, if available.
        candidate: Comparison of the new model.
    """
    if candidate.control:
        return candidate
    # For networks, the trial with strength 0 is the control.
    controls = [trial.accuracy for trial in candidate.trials if (trial.setting, trial.value) == ("strength", 0)]
    controls += [incumbent.accuracy if plain is None else plain]
    required = incumbent.required_accuracy(controls[0])
    reason = _find_reason(incumbent, required, candidate) or _find_objection(incumbent.accuracy - required, candidate)
    return candidate.model_copy(update={"rejected": reason})


def _find_reason(incumbent: Incumbent, required: float, candidate: CandidateResult) -> str:
    """Find a reason on the validation set for keeping the original model. Empty if there is none."""
    chosen = next((trial for trial in candidate.trials if trial.chosen), None)
    if chosen is None or incumbent.harms is None:
        return ""
    new, original = map(incumbent.remaining_share, (chosen.harms, incumbent.harms))
    if new >= original - ROUNDING:
        return "it does not reduce the metrics on the validation set"
    if chosen.accuracy < required - ROUNDING:
        return (
            f"its accuracy on the validation set is {format_percent(chosen.accuracy)}, less than the "
            f"{format_percent(required)} required by the allowed loss of accuracy"
        )
    return ""


def _find_objection(allowed: float, candidate: CandidateResult) -> str:
    """Find a reason on the test set for keeping the original model. Empty if there is none."""
    metrics = [line for line in candidate.lines if line.part == "asked"]
    worse = [line.words for line in metrics if line.verdict == "worse"]
    if worse:
        return f"on the test set it is worse in a metric to reduce: {', '.join(worse)}"
    share = candidate.line("accuracy")
    if share is not None and share.change is not None and share.change.high < -allowed:
        return (
            f"on the test set it loses significantly more accuracy than allowed: {100 * -share.change.value:.1f} "
            f"points, {100 * -share.change.high:.1f} at least"
        )
    costs = [line.words for line in candidate.lines if line.part == "performance" and line.verdict == "worse"]
    if costs and not any(line.verdict == "better" for line in metrics):
        return f"on the test set it is worse in {' and '.join(costs)}, and significantly better in no metric"
    return ""
