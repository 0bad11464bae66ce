"""Ask a model in sweeps until the gaps are precise enough, then confirm the most conspicuous findings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from evenhand.core.time_limit import NEVER, TimeLimit
from evenhand.core.typing import Integers
from evenhand.errors import BudgetError, OptionError
from evenhand.llm.config import LanguageModelConfig
from evenhand.llm.design import Design, Interviewer, Outcomes, Respondent, Trials
from evenhand.llm.estimates import AnswerTable, estimate_gap
from evenhand.llm.findings import Confirmation, confirm, suspect_templates
from evenhand.llm.result import StopReason
from evenhand.llm.stopping import DecisionRule, PrecisionRule
from evenhand.stats.multiway import MultiwayMean

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
        stopped_by: Reason why the audit ended.
        templates: Results of fresh questions about templates.
        affordable: Whether fresh questions were asked.
        calls: Total number of questions.
    """

    table: AnswerTable
    sweeps: int
    looks: int
    levels: tuple[float, ...]
    stopped_by: StopReason
    templates: list[Confirmation]
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
    """Ask until the gaps are precise enough, then ask about the most conspicuous templates again.

    Args:
        respondent: Respondent to ask.
        plan: Plan of the questions.
        config: Settings, with values for ``half_width``, ``calls`` and ``seed``.
        report: Called after each sweep.
        limit: Time limit, checked after each sweep.
        min_sweeps: Number of sweeps before the audit may stop for precision.

    Raises:
        OptionError: There are too few calls for two sweeps.
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
    sweeps: list[tuple[Trials, Outcomes]] = []
    again: Outcomes | None = None
    reason: StopReason = "sweeps" if max_sweeps == config.sweeps else "calls"

    def estimate() -> tuple[list[MultiwayMean | None], list[MultiwayMean]]:
        """Estimate the current gaps. The second list contains the same estimates, or is empty if any gap is unknown."""
        table = tabulate(sweeps, again, respondent.names, plan.cluster)
        gaps = [estimate_gap(table.pair(pair)) for pair in plan.comparisons]
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
    templates: list[Confirmation] = []
    fresh = fresh and not limit.passed()
    table = tabulate(sweeps, again, respondent.names, plan.cluster)
    if fresh:
        suspects = suspect_templates(table, plan.comparisons, config.findings)
        try:
            templates = confirm(suspects, design, config.finding_pairs, len(sweeps), interviewer)
        except BudgetError:
            fresh = False
        except KeyboardInterrupt:
            fresh, reason = False, "interrupt"
    return AskedAnswers(table, len(sweeps), rule.looks, levels, reason, templates, fresh, interviewer.calls)


def tabulate(
    sweeps: list[tuple[Trials, Outcomes]],
    again: Outcomes | None,
    names: tuple[int, ...],
    cluster: Integers | None = None,
) -> AnswerTable:
    """Combine the answers of all sweeps into one table. For the arguments, see ``AnswerTable``."""
    value, kind, name = (
        np.stack(parts, axis=2)
        for parts in zip(*((outcome.value, outcome.kind, trials.name) for trials, outcome in sweeps), strict=True)
    )
    return AnswerTable(value, kind, name, names, cluster, again)


class AffordedCalls(NamedTuple):
    """Questions allowed by the limit on calls.

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
        OptionError: There are too few calls for two sweeps.
    """
    assert config.calls is not None
    sweep = respondent.templates * len(respondent.names)
    sides = len(respondent.names) if respondent.ranks else 2
    fresh = sides * config.findings * config.finding_pairs
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
