"""Ask a model in sweeps until the gaps are precise enough, then confirm the most conspicuous findings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

import numpy as np

from evenhand.core.time_limit import NEVER, TimeLimit
from evenhand.core.typing import Integers
from evenhand.errors import BudgetError, OptionError
from evenhand.llm.config import LanguageModelConfig
from evenhand.llm.design import Design, Interviewer, Respondent, TrialOutcomes, Trials
from evenhand.llm.estimates import AnswerTable, estimate_gap
from evenhand.llm.findings import (
    Confirmation,
    clear_templates,
    confirm,
    name_trials,
    suspect_names,
    suspect_templates,
    template_trials,
)
from evenhand.llm.stopping import DecisionRule, PrecisionRule
from evenhand.stats.multiway import MultiwayMean

NAME_PAIRS = 70
"""Number of fresh pairs per suspected name. Many are required, because the other names of the group vary."""

StopReason = Literal["half-width", "names", "decided", "sweeps", "calls", "budget", "time", "interrupt"]

Report = Callable[[int, int, Sequence[MultiwayMean | None]], None]
"""Function called after each sweep with its number, the maximum number of sweeps, and the current gaps."""


class AskingPlan(NamedTuple):
    """Plan of the questions.

    Attributes:
        comparisons: Pairs of groups (group 1, group 0).
        cluster: Cluster of each template, shape (templates,). None means independent templates.
        excluded: Whether to exclude answers that are not a choice.
        twice: Whether to repeat the first sweep, to measure the noise of the model.
    """

    comparisons: Sequence[tuple[int, int]]
    cluster: Integers | None = None
    excluded: bool = False
    twice: bool = True


class AskedAnswers(NamedTuple):
    """All answers of an audit.

    Attributes:
        table: Answers of the sweeps.
        sweeps: Number of completed sweeps.
        looks: Number of times that the gaps were evaluated.
        levels: Confidence level of the interval of each gap.
        stopped_by: Reason for the end. ``budget`` means the limit of calls or money of the service.
        templates, names: Results of fresh questions about templates and names.
        affordable: Whether fresh questions were asked. Otherwise, ``templates`` are based on the sweeps.
        calls: Total number of questions.
    """

    table: AnswerTable
    sweeps: int
    looks: int
    levels: tuple[float, ...]
    stopped_by: StopReason
    templates: list[Confirmation]
    names: list[Confirmation]
    affordable: bool
    calls: int


def ask_sweeps(
    respondent: Respondent,
    plan: AskingPlan,
    config: LanguageModelConfig,
    *,
    report: Report | None = None,
    limit: TimeLimit = NEVER,
    min_sweeps: int = 2,
) -> AskedAnswers:
    """Ask until the gaps are precise enough, then ask about the most conspicuous templates and names again.

    Args:
        respondent: Respondent to ask.
        plan: Plan of the questions.
        config: Settings, with values for ``half_width``, ``calls`` and ``seed``.
        report: Called after each sweep.
        limit: Time limit, checked after each sweep.
        min_sweeps: Number of sweeps before the audit may stop for precision.

    Raises:
        OptionError: The calls do not suffice for two sweeps.
        BudgetError: The budget of the service was exhausted during the first sweep.
    """
    assert config.half_width is not None
    assert config.seed is not None
    design = Design(respondent.templates, respondent.names, config.seed)
    interviewer = Interviewer(respondent, excluded=plan.excluded)
    afforded = afford_calls(respondent, config, twice=plan.twice)
    max_sweeps, fresh = afforded.sweeps, bool(afforded.fresh)
    rule = (
        PrecisionRule(config.half_width, config.confidence, min_sweeps)
        if config.goal == "precision"
        else DecisionRule(config.threshold, config.confidence, len(plan.comparisons))
    )
    sweeps: list[tuple[Trials, TrialOutcomes]] = []
    again: TrialOutcomes | None = None
    reason: StopReason = "sweeps" if max_sweeps == config.sweeps else "calls"

    def estimate() -> tuple[list[MultiwayMean | None], list[MultiwayMean]]:
        """Estimate the current gaps, and return them again without None if none is unknown."""
        table = tabulate(sweeps, again)
        gaps = [estimate_gap(table.pair(pair, respondent.names, plan.cluster)) for pair in plan.comparisons]
        estimates = [gap for gap in gaps if gap is not None]
        return gaps, estimates if len(estimates) == len(gaps) else []

    try:
        while len(sweeps) < max_sweeps:
            trials = design.sweep(len(sweeps))
            sweeps.append((trials, interviewer.ask(trials)))
            if len(sweeps) == 1 and plan.twice:
                again = interviewer.ask(design.again(trials))
            gaps, estimates = estimate()
            if report is not None:
                report(len(sweeps), max_sweeps, gaps)
            stop = rule.stop(estimates, len(sweeps), max_sweeps) if estimates else None
            if stop is not None or limit.passed():
                reason = stop or "time"
                break
    except (BudgetError, KeyboardInterrupt) as error:
        if not sweeps:
            raise
        reason, fresh = "budget" if isinstance(error, BudgetError) else "interrupt", False
    _, estimates = estimate()
    levels = rule.levels(estimates, len(sweeps), max_sweeps) if estimates else ()
    fresh = fresh and not limit.passed()
    answers = AskedAnswers(
        tabulate(sweeps, again), len(sweeps), rule.looks, levels, reason, [], [], fresh, interviewer.calls
    )
    if fresh:
        answers = _ask_fresh_questions(answers, design, interviewer, plan, config)
    if answers.affordable or not config.findings:
        return answers
    templates = clear_templates(answers.table, plan.comparisons, design, config.findings, ranks=respondent.ranks)
    return answers._replace(templates=templates)


def _ask_fresh_questions(
    answers: AskedAnswers, design: Design, interviewer: Interviewer, plan: AskingPlan, config: LanguageModelConfig
) -> AskedAnswers:
    """Ask fresh questions about the most conspicuous templates and names, and add the results."""
    ranks = interviewer.respondent.ranks
    templates = suspect_templates(answers.table, plan.comparisons, config.findings)
    # If all groups are ranked together, names of one group can only be compared if there are two positions.
    name_findings = config.name_findings if not ranks or len(design.names) == 2 else 0
    names = suspect_names(answers.table, design.names, name_findings)
    trials = [
        *template_trials(templates, design, config.finding_pairs, answers.sweeps, ranks=ranks),
        *name_trials(names, design, NAME_PAIRS),
    ]
    try:
        confirmations = confirm([*templates, *names], trials, interviewer)
    except BudgetError:
        return answers._replace(affordable=False, calls=interviewer.calls)
    except KeyboardInterrupt:
        return answers._replace(affordable=False, calls=interviewer.calls, stopped_by="interrupt")
    return answers._replace(
        templates=[item for item in confirmations if item.suspect.groups[0] != item.suspect.groups[1]],
        names=[item for item in confirmations if item.suspect.groups[0] == item.suspect.groups[1]],
        calls=interviewer.calls,
    )


def tabulate(sweeps: list[tuple[Trials, TrialOutcomes]], again: TrialOutcomes | None) -> AnswerTable:
    """Combine the answers of all sweeps into one table."""
    value, kind, name = (
        np.stack(parts, axis=2)
        for parts in zip(*((outcome.value, outcome.kind, trials.name) for trials, outcome in sweeps), strict=True)
    )
    return AnswerTable(value, kind, name, again)


class AffordedCalls(NamedTuple):
    """Questions allowed by a limit of calls.

    Attributes:
        sweep: Number of questions per sweep.
        sweeps: Maximum number of sweeps.
        again: Number of questions to repeat the first sweep.
        fresh: Number of fresh questions about the most conspicuous findings. 0 if they are disabled or not affordable.
    """

    sweep: int
    sweeps: int
    again: int
    fresh: int

    @property
    def most(self) -> int:
        """Maximum total number of questions."""
        return self.sweeps * self.sweep + self.again + self.fresh


def afford_calls(respondent: Respondent, config: LanguageModelConfig, *, twice: bool) -> AffordedCalls:
    """Allocate the calls to at least two sweeps, and to fresh questions if all of them are affordable.

    Raises:
        OptionError: The calls do not suffice for two sweeps.
    """
    assert config.calls is not None
    sweep = respondent.templates * len(respondent.names)
    sides = len(respondent.names) if respondent.ranks else 2
    fresh = sides * config.findings * config.finding_pairs + 2 * config.name_findings * NAME_PAIRS
    # Fresh questions are reserved first, unless too few calls remain for two sweeps.
    for reserved in (fresh, 0):
        sweeps = (config.calls - reserved) // sweep - twice
        if sweeps >= 2:
            return AffordedCalls(sweep, min(sweeps, config.sweeps), twice * sweep, reserved)
    raise OptionError(
        f"expected at least {(2 + twice) * sweep:,} calls for two sweeps over {respondent.templates:,} templates, got "
        f"{config.calls:,}",
        location="`calls=`",
        hint="allow more calls, or use fewer templates",
    )
