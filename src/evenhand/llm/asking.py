"""Ask a model sweep by sweep until enough is known, within a number of calls; then about what was conspicuous."""

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
"""Fresh pairs about each suspected name: what one name does is mixed with the names that it is compared with."""

StopReason = Literal["half-width", "names", "decided", "sweeps", "calls", "budget", "time", "interrupt"]

Report = Callable[[int, int, Sequence[MultiwayMean | None]], None]
"""Called after each sweep with its number, how many there can be, and the gaps so far."""


class AskingPlan(NamedTuple):
    """What is to be asked about.

    Attributes:
        comparisons: pairs of groups, group 1 and group 0.
        cluster: the cluster of each template, shape (templates,); None: templates are independent.
        excluded: whether answers that are no choice are left out.
        twice: whether the first sweep is asked again, to measure the model's own noise.
    """

    comparisons: Sequence[tuple[int, int]]
    cluster: Integers | None = None
    excluded: bool = False
    twice: bool = True


class AskedAnswers(NamedTuple):
    """All that was asked and answered.

    Attributes:
        table: answers of the sweeps; trials: what the first of them asked.
        sweeps, looks: how many were finished, and how often the gaps were looked at.
        levels: the level at which the interval of each gap is to be built.
        stopped_by: why no further sweep was asked; ``budget``: the service's own limit of calls or money was reached.
        templates, names: what was asked about afresh.
        affordable: whether fresh questions could be asked; else the templates are those that the sweeps show clearly.
        calls: questions asked in all.
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
    least: int = 2,
) -> AskedAnswers:
    """Ask until the gaps are known well enough, then about the templates and names that were most conspicuous.

    Args:
        respondent: who is asked.
        plan: what about.
        config: when to stop; ``half_width``, ``calls`` and ``seed`` are given.
        report: told about every sweep.
        limit: of time, looked at after every sweep.
        least: sweeps before it may stop for precision.

    Raises:
        OptionError: the calls do not suffice for two sweeps.
        BudgetError: the service's budget ended before the first sweep did.
    """
    assert config.half_width is not None
    assert config.seed is not None
    design = Design(respondent.templates, respondent.names, config.seed)
    interviewer = Interviewer(respondent, excluded=plan.excluded)
    afforded = afford_calls(respondent, config, twice=plan.twice)
    last, fresh = afforded.sweeps, bool(afforded.fresh)
    rule = (
        PrecisionRule(config.half_width, config.confidence, least)
        if config.goal == "precision"
        else DecisionRule(config.threshold, config.confidence, len(plan.comparisons))
    )
    done: list[tuple[Trials, TrialOutcomes]] = []
    again: TrialOutcomes | None = None
    reason: StopReason = "sweeps" if last == config.sweeps else "calls"

    def estimate() -> tuple[list[MultiwayMean | None], list[MultiwayMean]]:
        """Return the gaps so far, and again if all of them are known."""
        table = tabulate(done, again)
        gaps = [estimate_gap(table.pair(one, respondent.names, plan.cluster)) for one in plan.comparisons]
        known = [gap for gap in gaps if gap is not None]
        return gaps, known if len(known) == len(gaps) else []

    try:
        while len(done) < last:
            trials = design.sweep(len(done))
            done.append((trials, interviewer.ask(trials)))
            if len(done) == 1 and plan.twice:
                again = interviewer.ask(design.again(trials))
            gaps, known = estimate()
            if report is not None:
                report(len(done), last, gaps)
            stop = rule.stop(known, len(done), last) if known else None
            if stop is not None or limit.passed():
                reason = stop or "time"
                break
    except (BudgetError, KeyboardInterrupt) as error:
        if not done:
            raise
        reason, fresh = "budget" if isinstance(error, BudgetError) else "interrupt", False
    _, known = estimate()
    levels = rule.levels(known, len(done), last) if known else ()
    fresh = fresh and not limit.passed()
    asked = AskedAnswers(tabulate(done, again), len(done), rule.looks, levels, reason, [], [], fresh, interviewer.calls)
    if fresh:
        asked = _ask_afresh(asked, design, interviewer, plan, config)
    if asked.affordable or not config.findings:
        return asked
    clear = clear_templates(asked.table, plan.comparisons, design, config.findings, ranks=respondent.ranks)
    return asked._replace(templates=clear)


def _ask_afresh(
    asked: AskedAnswers, design: Design, interviewer: Interviewer, plan: AskingPlan, config: LanguageModelConfig
) -> AskedAnswers:
    """Return what was asked, with fresh questions about the most conspicuous templates and names."""
    ranks = interviewer.respondent.ranks
    templates = suspect_templates(asked.table, plan.comparisons, config.findings)
    # Where all groups are ranked together, names of one group meet only if there are two places.
    many = config.name_findings if not ranks or len(design.names) == 2 else 0
    names = suspect_names(asked.table, design.names, many)
    trials = [
        *template_trials(templates, design, config.finding_pairs, asked.sweeps, ranks=ranks),
        *name_trials(names, design, NAME_PAIRS),
    ]
    try:
        found = confirm([*templates, *names], trials, interviewer)
    except BudgetError:
        return asked._replace(affordable=False, calls=interviewer.calls)
    except KeyboardInterrupt:
        return asked._replace(affordable=False, calls=interviewer.calls, stopped_by="interrupt")
    return asked._replace(
        templates=[one for one in found if one.suspect.groups[0] != one.suspect.groups[1]],
        names=[one for one in found if one.suspect.groups[0] == one.suspect.groups[1]],
        calls=interviewer.calls,
    )


def tabulate(done: list[tuple[Trials, TrialOutcomes]], again: TrialOutcomes | None) -> AnswerTable:
    """Return the answers of all sweeps as one table."""
    value, kind, name = (
        np.stack(parts, axis=2)
        for parts in zip(*((outcome.value, outcome.kind, trials.name) for trials, outcome in done), strict=True)
    )
    return AnswerTable(value, kind, name, again)


class AffordedCalls(NamedTuple):
    """What a limit of calls allows.

    Attributes:
        sweep: questions of one sweep.
        sweeps: how many of them, at most.
        again: questions to ask the first one again.
        fresh: questions about what was most conspicuous; 0 where they are not affordable, or none are wanted.
    """

    sweep: int
    sweeps: int
    again: int
    fresh: int

    @property
    def most(self) -> int:
        """Questions in all, at most."""
        return self.sweeps * self.sweep + self.again + self.fresh


def afford_calls(respondent: Respondent, config: LanguageModelConfig, *, twice: bool) -> AffordedCalls:
    """Return what the calls allow: sweeps, at least two, and fresh questions if all of them are affordable.

    Raises:
        OptionError: the calls do not suffice for two sweeps.
    """
    assert config.calls is not None
    sweep = respondent.templates * len(respondent.names)
    sides = len(respondent.names) if respondent.ranks else 2
    fresh = sides * config.findings * config.finding_pairs + 2 * config.name_findings * NAME_PAIRS
    # Fresh questions are set aside first; where too few calls are left for two sweeps, there are none.
    for reserved in (fresh, 0):
        last = (config.calls - reserved) // sweep - twice
        if last >= 2:
            return AffordedCalls(sweep, min(last, config.sweeps), twice * sweep, reserved)
    raise OptionError(
        f"expected at least {(2 + twice) * sweep:,} calls for two sweeps over {respondent.templates:,} templates, got "
        f"{config.calls:,}",
        location="`calls=`",
        hint="allow more calls, or take fewer templates",
    )
