"""Paired comparison of two language models, or of two prompts, on the same questions."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from evenhand.core.document import Document
from evenhand.core.result import Result, ResultNumber
from evenhand.core.result_part import ResultPart
from evenhand.core.time_limit import TimeLimit
from evenhand.core.typing import Progress, ignore_progress
from evenhand.errors import OptionError
from evenhand.llm.analysis import run_interview
from evenhand.llm.config import LanguageModelConfig
from evenhand.llm.estimates import AnswerTable, PairedAnswers, estimate_gap, to_quantity
from evenhand.llm.interview import Interview, open_interview
from evenhand.llm.model import question_key
from evenhand.llm.result import GroupGap, GroupPair, LanguageModelAudit
from evenhand.stats.level import bonferroni
from evenhand.stats.quantity import Quantity, Unknown, quantity_value

if TYPE_CHECKING:
    import pandas as pd

ChangeVerdict: TypeAlias = Literal["better", "worse", "no clear change", "unknown"]
"""Whether a gap decreased or increased significantly; also used in the conditions ``llm.better`` and ``llm.worse``."""


class GapChange(GroupPair):
    """Change of the gap between two groups.

    Attributes:
        before, after: Gap of each model over the sweeps that both completed.
        change: After minus before, paired by templates, names and seeds.
        sum: After plus before. Together with the change, it determines whether the absolute gap decreased.
        verdict: ``better`` if the absolute gap decreased significantly, ``worse`` if it increased significantly.
    """

    before: Quantity
    after: Quantity
    change: Quantity
    sum: Quantity
    verdict: ChangeVerdict


class OutcomeChange(ResultPart):
    """Change of the mean outcome of one group.

    Attributes:
        group: Name of the group.
        before, after: Mean outcome, such as the favourable rate.
        change: After minus before, paired.
    """

    group: str
    before: Quantity
    after: Quantity
    change: Quantity


class LanguageModelComparison(Result):
    """Comparison of two language models, or of two prompts, on the same questions.

    Attributes:
        before, after: Audits of both models.
        sweeps: Number of compared sweeps, which both audits completed.
        changes: Change of each gap, with simultaneous intervals.
        outcomes: Change of the mean outcome of each group, with simultaneous intervals.
        confidence: Simultaneous confidence level of ``changes``, and of ``outcomes``.
    """

    chart = "llm.draw_language_changes"
    kind: Literal["llm-comparison"] = "llm-comparison"
    before: LanguageModelAudit
    after: LanguageModelAudit
    sweeps: int
    changes: tuple[GapChange, ...]
    outcomes: tuple[OutcomeChange, ...]
    confidence: float

    @property
    def interrupted(self) -> bool:
        """Whether one of the audits was interrupted."""
        return self.before.interrupted or self.after.interrupted

    def numbers(self) -> Iterator[ResultNumber]:
        """Yield the number of gaps that decreased and that increased significantly."""
        for verdict in ("better", "worse"):
            yield ResultNumber("llm", verdict, "", float(sum(change.verdict == verdict for change in self.changes)))

    def document(self) -> Document:
        """Build the report: gaps, mean outcomes and calls."""
        return self._write_document("evenhand.llm.comparison_wording")

    def to_frame(self) -> pd.DataFrame:
        """Return a data frame with one row per gap and per mean outcome."""
        import pandas as pd

        rows: list[dict[str, Any]] = [_row("gap", change.name, change, change.verdict) for change in self.changes]
        rows += [_row("mean outcome", outcome.group, outcome, "") for outcome in self.outcomes]
        return pd.DataFrame(rows)


def _row(number: str, name: str, item: GapChange | OutcomeChange, verdict: str) -> dict[str, Any]:
    ends = {end: getattr(item.change, end, None) for end in ("low", "high")}
    values = {part: quantity_value(getattr(item, part)) for part in ("before", "after", "change")}
    return {"number": number, "of": name} | values | ends | {"verdict": verdict}


def compare_language_models(
    before: Any,
    after: Any,
    people: Any,
    config: LanguageModelConfig | None = None,
    *,
    answers: Path | None = None,
    data_name: str = "data",
    progress: Progress | None = None,
    **settings: Any,
) -> LanguageModelComparison:
    """Ask two models the same questions, and test whether the gaps between groups decreased.

    Templates, names, their order and seeds are equal for both models, so their common variation cancels in the change.

    Args:
        before, after: Models, as for ``audit_language_model``. Both files must name the same groups.
        people: Data, as for ``audit_language_model``.
        config: Settings of both audits. Limits on calls and money apply to each audit. If the models require different
            numbers of sweeps, the larger number is used for both. ``goal`` and ``findings`` are ignored.
        answers: File that stores the answers of both models.
        data_name: Name of the data.
        progress: Called with the current step and the completed share, from 0 to 1.
        settings: Fields of ``LanguageModelConfig`` by name, which override those of ``config``.

    Raises:
        OptionError: The files compare different groups.
        EvenhandError: As for ``audit_language_model``.
    """
    started = time.perf_counter()
    config = LanguageModelConfig.of(config, settings)
    record_progress = progress or ignore_progress

    def part(name: str, start: float) -> Progress:
        return lambda step, share: record_progress(f"{name}: {step}", start + share / 2)

    config = config.model_copy(update={"goal": "precision", "findings": 0})
    seconds = config.time_limit
    old_interview = open_interview(before, people, config, answers=answers, data_name=data_name)
    config = config.model_copy(update={"seed": old_interview.config.seed})
    new_interview = open_interview(after, people, config, answers=answers, data_name=data_name)

    def run(interview: Interview, min_sweeps: int, progress: Progress) -> LanguageModelAudit:
        return run_interview(interview, TimeLimit(seconds), min_sweeps=min_sweeps, progress=progress)

    with old_interview.model, new_interview.model:
        _check_comparable(old_interview, new_interview, answers)
        old = run(old_interview, 2, part("before", 0.0))
        new = run(new_interview, old.sweeps, part("after", 0.5))
        if new.sweeps > old.sweeps and not new.interrupted:
            old = run(old_interview, new.sweeps, part("before", 0.5))
    return pair_audits(old, new, config.confidence, time.perf_counter() - started)


def _check_comparable(a: Interview, b: Interview, answers: Path | None) -> None:
    """Check that two models can answer the same questions, and that the answer file distinguishes them."""
    if (a.groups, a.people, a.comparisons) != (b.groups, b.people, b.comparisons):
        raise OptionError(
            f"expected the same groups and names in both models, got {', '.join(a.groups)} and {', '.join(b.groups)}",
            location=f"{b.model.file.name}, people",
            hint="give both files the same `people`",
        )
    files = old, new = a.model.file, b.model.file
    scales = [(file.outcome in ("rate", "score") or file.outcome, file.answers.range) for file in files]
    reversed_scale = old.outcome == "number" and old.answers.worst != new.answers.worst
    if scales[0] != scales[1] or reversed_scale:
        raise OptionError(
            f"answers read as {old.answers.read} and as {new.answers.read} are not on the same scale",
            location=f"{new.name}, answers",
            hint="give both files the same `read`, `range` and `favourable`",
        )
    requests = [(file.service.model_copy(update={"url": ""}), file.prompt, file.system) for file in files]
    same = requests[0] == requests[1] and old.service.url != new.service.url
    if same and question_key(old.service.url, {}, 0) == question_key(new.service.url, {}, 0):
        path = answers or (old.kept_answers if old.kept_answers == new.kept_answers else None)
        if path is not None:
            raise OptionError(
                f"{path} cannot distinguish the answers of {old.service.url} from those of {new.service.url}",
                location=f"{new.name}, service.model",
                hint="give the models different names, or store the answers of each model in a separate file",
            )


def pair_audits(
    before: LanguageModelAudit, after: LanguageModelAudit, confidence: float, seconds: float = 0.0
) -> LanguageModelComparison:
    """Compare two audits that asked the same questions in this process."""
    old: AnswerTable = before.table
    new: AnswerTable = after.table
    names = [group.group for group in before.groups]
    sweeps = min(old.value.shape[2], new.value.shape[2])
    assert np.array_equal(old.name[:, :, :sweeps], new.name[:, :, :sweeps]), "both audits asked about the same names"
    first, second = (
        table._replace(
            value=table.value[:, :, :sweeps], kind=table.kind[:, :, :sweeps], name=table.name[:, :, :sweeps], again=None
        )
        for table in (old, new)
    )
    gap_level, level = (bonferroni(confidence, len(part)) for part in (before.comparisons, before.groups))
    changes = []
    for gap in before.comparisons:
        pair = names.index(gap.group_1), names.index(gap.group_0)
        changes.append(_gap_change(gap, first.pair(pair), second.pair(pair), gap_level))
    outcomes = [
        OutcomeChange(group=name, **_estimates(first.outcomes(g), second.outcomes(g), level))
        for g, name in enumerate(names)
    ]
    return LanguageModelComparison(
        before=before,
        after=after,
        sweeps=sweeps,
        changes=tuple(changes),
        outcomes=tuple(outcomes),
        confidence=confidence,
        seed=before.seed,
        seconds=seconds,
    )


def _gap_change(gap: GroupGap, old: PairedAnswers, new: PairedAnswers, level: float) -> GapChange:
    """Estimate the change of one gap.

    ``|new| < |old|`` is equivalent to ``(new - old) (new + old) < 0``: change and sum have opposite signs. Each of the
    two cases is an intersection of two one-sided hypotheses, so the decrease is significant if both intervals exclude 0
    (Berger, "Multiparameter hypothesis testing and acceptance sampling", Technometrics 1982).
    """
    estimates = _estimates(old, new, level)
    both = new._replace(first=new.difference, second=-old.difference)
    total = to_quantity(estimate_gap(both, reach=2.0), level)
    signs = [_sign(estimates["change"]), _sign(total)]
    verdict: ChangeVerdict = "no clear change"
    if isinstance(estimates["change"], Unknown) or isinstance(total, Unknown):
        verdict = "unknown"
    elif all(signs):
        verdict = "better" if signs[0] != signs[1] else "worse"
    return GapChange(group_1=gap.group_1, group_0=gap.group_0, **estimates, sum=total, verdict=verdict)


def _sign(quantity: Quantity) -> int:
    """Return 1 or -1 if an interval is above or below 0, otherwise 0."""
    low, high = (getattr(quantity, end, 0.0) for end in ("low", "high"))
    return int(low > 0) - int(high < 0)


def _estimates(old: PairedAnswers, new: PairedAnswers, level: float) -> dict[str, Quantity]:
    """Estimate the old and new mean differences and their change."""
    change = new._replace(first=new.difference, second=old.difference)
    gaps = {"before": estimate_gap(old), "after": estimate_gap(new), "change": estimate_gap(change, reach=2.0)}
    return {name: to_quantity(gap, level) for name, gap in gaps.items()}
