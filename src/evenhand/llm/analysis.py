"""The audit of a language model: ask, estimate, confirm."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from evenhand.core.progress import ignore_progress
from evenhand.core.reading import TableReading
from evenhand.core.time_limit import TimeLimit
from evenhand.core.typing import Progress
from evenhand.errors import OptionError
from evenhand.llm.asking import AskingPlan, ask_sweeps
from evenhand.llm.config import LanguageModelConfig
from evenhand.llm.estimates import AnswerTable
from evenhand.llm.interview import Interview, open_interview
from evenhand.llm.numbers import AuditNumbers
from evenhand.llm.result import LanguageModelAudit, ServiceUsage
from evenhand.stats.multiway import MultiwayMean


class AuditTable(NamedTuple):
    """All answers of an audit, by which two audits are compared.

    Attributes:
        answers: of the sweeps.
        plan: what was asked about.
        names: how many names each group has.
    """

    answers: AnswerTable
    plan: AskingPlan
    names: tuple[int, ...]


class BatchFiles(NamedTuple):
    """Files by which a provider answers many questions at once, in place of one by one.

    Attributes:
        batch_in: results of a batch, as a provider wrote them; they are kept among the answers first.
        batch_out: where the next questions are written instead of asking them.
    """

    batch_in: Path | None = None
    batch_out: Path | None = None


def audit_language_model(
    model: Any,
    people: Any,
    config: LanguageModelConfig | None = None,
    *,
    answers: Path | str | None = None,
    batch: BatchFiles | None = None,
    data_name: str = "data",
    progress: Progress | None = None,
    **settings: Any,
) -> LanguageModelAudit:
    """Audit a language model: gaps between groups of people, beyond its own noise and that of names.

    Args:
        model: the file of a language model (``evenhand.models.ScreeningFile``), its path, or its entries as a mapping.
        people: a data frame whose rows are templates, or a list of texts, which the prompt calls ``text``.
        config: the settings; what they leave open is as the file's plan says.
        answers: a file that keeps every answer, so that a run that was cut short goes on and pays for none twice.
        batch: files of batches, in place of questions one by one; they need ``answers``.
        data_name: what the rows are called.
        progress: called with what is being done and the share done, 0 to 1.
        settings: fields of ``LanguageModelConfig`` by name, in place of those in ``config``.

    Returns:
        The audit. An interrupt (Ctrl-C) after the first sweep leaves what was found before it.

    Raises:
        OptionError: the file or a setting makes no sense, or the calls do not suffice for two sweeps.
        BudgetError: the budget ended before the first sweep did.
        LimitError: questions wait in the file ``batch_out`` of the batch.
        FetchError: the service is down.

    Examples:
        >>> from evenhand.testing import FakeChat
        >>> model = {
        ...     "prompt": "{{ person.name }}, {{ years }} years as clerk. Invite? Answer yes or no.",
        ...     "answers": {"choices": ["yes", "no"], "favourable": "yes"},
        ...     "people": {"names": "bertrand-mullainathan", "compare": [["white man", "black man"]]},
        ... }
        >>> with FakeChat(0.5) as chat:
        ...     model["service"] = {"url": chat.url, "model": "fake"}
        ...     found = audit_language_model(model, [{"years": 3}, {"years": 9}], sweeps=3, findings=0)
        >>> found.usage.calls, found.stopped_by
        (16, 'sweeps')
    """
    config = LanguageModelConfig.of(config, settings)
    limit = TimeLimit.after(config.time_limit)
    interview = open_interview(model, people, config, answers=answers, data_name=data_name)
    batch = batch or BatchFiles()
    interview.batch = batch.batch_out
    with interview.model as asked:
        if any(batch) and answers is None and asked.file.kept_answers is None:
            raise OptionError("batches need a file that keeps their answers", hint="`answers=FILE`")
        if batch.batch_in is not None:
            asked.read_batch(batch.batch_in)
        return run_interview(interview, limit, progress=progress)


def run_interview(
    interview: Interview, limit: TimeLimit, *, least: int = 2, progress: Progress | None = None
) -> LanguageModelAudit:
    """Ask, estimate and confirm. Run again, what was asked before is remembered.

    Args:
        interview: who is asked about what.
        limit: time limit.
        least: sweeps before it may stop for precision.
        progress: as for ``audit_language_model``.
    """
    started = time.perf_counter()
    config, file = interview.config, interview.model.file
    say = progress or ignore_progress
    plan = AskingPlan(
        interview.comparisons,
        interview.codes("cluster"),
        excluded=file.refused == "excluded",
        twice=file.outcome != "score",
    )
    scenarios = interview.codes("scenario")

    def report(sweep: int, last: int, gaps: Sequence[MultiwayMean | None]) -> None:
        widths = [f"{one.half_width(config.confidence):.3f}" for one in gaps if one is not None]
        say(f"sweep {sweep} of at most {last}; half-widths {', '.join(widths) or 'unknown'}", sweep / last)

    say("asking", 0.0)
    # A majority takes several calls to a question.
    questions = config.model_copy(update={"calls": (config.calls or 0) // file.consensus})
    asked = ask_sweeps(interview, plan, questions, report=report, limit=limit, least=least)
    found, level = AuditNumbers(interview, asked, plan), 1 - config.confidence
    templates = [found.template(one) for one in asked.templates if one.p <= level]
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
        comparisons=found.comparisons(scenarios),
        groups=tuple(found.group(g) for g in range(len(interview.groups))),
        noise=found.noise(),
        template_findings=tuple(sorted(templates, key=lambda one: -abs(one.gap))),
        name_findings=tuple(found.name(one) for one in asked.names if one.p <= level),
        tested=len(asked.templates) + len(asked.names),
        sweeps=asked.sweeps,
        looks=asked.looks,
        goal=config.goal,
        stopped_by=asked.stopped_by,
        usage=ServiceUsage(**interview.model.spent._asdict()),
        names=interview.card,
        cautions=tuple(found.cautions()),
        interrupted=asked.stopped_by == "interrupt",
        settings=config.model_dump(mode="json", exclude_none=True, exclude={"at_once"}),
        table=AuditTable(asked.table, plan, interview.names),
        seed=config.seed or 0,
        time_limited=limit.decided,
        seconds=time.perf_counter() - started,
    )
