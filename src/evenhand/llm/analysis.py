"""Audit a language model: ask, estimate and confirm."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from evenhand.core.reading import TableReading
from evenhand.core.time_limit import TimeLimit
from evenhand.core.typing import Progress, ignore_progress
from evenhand.llm.asking import AskingPlan, ask_sweeps
from evenhand.llm.config import LanguageModelConfig
from evenhand.llm.interview import Interview, open_interview
from evenhand.llm.numbers import AuditNumbers
from evenhand.llm.result import LanguageModelAudit
from evenhand.stats.multiway import MultiwayMean


def audit_language_model(
    model: Any,
    people: Any,
    config: LanguageModelConfig | None = None,
    *,
    answers: Path | str | None = None,
    data_name: str = "data",
    progress: Progress | None = None,
    **settings: Any,
) -> LanguageModelAudit:
    """Audit a language model for gaps between groups, beyond the noise of the model and of names.

    Args:
        model: Model file (``evenhand.llm.ScreeningFile``), its path, or its entries as a mapping.
        people: Data frame whose rows are templates, or a list of texts, available as ``text`` in the prompt.
        config: Settings. Unset fields are taken from the plan of the model file.
        answers: File that stores all answers, so that an interrupted run can be continued without paying twice.
        data_name: Name of the data.
        progress: Called with the current step and the completed share, from 0 to 1.
        settings: Fields of ``LanguageModelConfig`` by name, which override those of ``config``.

    Returns:
        The audit. After an interrupt (Ctrl-C), it contains the results of the completed sweeps.

    Raises:
        OptionError: The file or a setting is invalid, or there are too few calls for two sweeps.
        BudgetError: The budget was exhausted during the first sweep.
        FetchError: The service is unavailable.

    Examples:
        >>> from evenhand.testing import FakeChat
        >>> model = {
        ...     "prompt": "{{ person.name }}, {{ years }} years as clerk. Invite? Answer yes or no.",
        ...     "answers": {"choices": ["yes", "no"], "favourable": "yes"},
        ...     "people": {"names": "bertrand-mullainathan", "compare": [["white man", "black man"]]},
        ... }
        >>> with FakeChat(0.5) as chat:
        ...     model["service"] = {"url": chat.url, "model": "fake"}
        ...     audit = audit_language_model(model, [{"years": 3}, {"years": 9}], sweeps=3, findings=0)
        >>> audit.usage.calls, audit.stopped_by
        (16, 'sweeps')
    """
    config = LanguageModelConfig.of(config, settings)
    limit = TimeLimit(config.time_limit)
    interview = open_interview(model, people, config, answers=answers, data_name=data_name)
    with interview.model:
        return run_interview(interview, limit, progress=progress)


def run_interview(
    interview: Interview, limit: TimeLimit, *, min_sweeps: int = 2, progress: Progress | None = None
) -> LanguageModelAudit:
    """Ask, estimate and confirm. A repeated run reuses the answers of the previous one.

    Args:
        interview: Model, templates and people.
        limit: Time limit.
        min_sweeps: Number of sweeps before the audit may stop for precision.
        progress: As for ``audit_language_model``.
    """
    started = time.perf_counter()
    config, file = interview.config, interview.model.file
    record_progress = progress or ignore_progress
    plan = AskingPlan(
        interview.comparisons,
        interview.clusters(),
        excluded=file.refused == "excluded",
        twice=file.outcome != "score",
    )
    scenarios = interview.labels("scenario")

    def report(sweep: int, max_sweeps: int, gaps: Sequence[MultiwayMean | None]) -> None:
        widths = [f"{gap.half_width(config.confidence):.3f}" for gap in gaps if gap is not None]
        record_progress(
            f"sweep {sweep} of at most {max_sweeps}; half-widths {', '.join(widths) or 'unknown'}", sweep / max_sweeps
        )

    record_progress("asking", 0.0)
    # A majority vote takes several calls per question.
    questions = config.model_copy(update={"calls": (config.calls or 0) // file.consensus})
    answers = ask_sweeps(interview, plan, questions, report=report, limit=limit, min_sweeps=min_sweeps)
    numbers, level = AuditNumbers(interview, answers, scenarios), 1 - config.confidence
    templates = [numbers.template(confirmation) for confirmation in answers.templates if confirmation.p <= level]
    used = sum(map(len, interview.rows))
    return LanguageModelAudit(
        table_reading=TableReading(
            rows=interview.total,
            used=used,
            left_out={"not drawn as templates": interview.total - used} if used < interview.total else {},
        ),
        file=file.name,
        model=file.service.model,
        service=file.service.url,
        data=interview.data_name,
        outcome=file.outcome,
        favourable=(file.answers.favourable or "") if file.answers.choices else "",
        refused_as=file.refused,
        templates=interview.templates,
        rows=interview.total,
        comparisons=numbers.comparisons(),
        groups=tuple(numbers.group(g) for g in range(len(interview.groups))),
        noise=numbers.noise(),
        template_findings=tuple(sorted(templates, key=lambda template: -abs(template.gap))),
        tested=len(answers.templates),
        sweeps=answers.sweeps,
        looks=answers.looks,
        goal=config.goal,
        stopped_by=answers.stopped_by,
        usage=interview.model.spent,
        names=interview.card,
        cautions=tuple(numbers.cautions()),
        interrupted=answers.stopped_by == "interrupt",
        settings=config.model_dump(mode="json", exclude_none=True, exclude={"at_once"}),
        table=answers.table,
        seed=config.seed or 0,
        time_limited=limit.decided,
        seconds=time.perf_counter() - started,
    )
