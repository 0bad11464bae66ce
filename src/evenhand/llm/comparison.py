"""Two language models, or two prompts, asked the same questions: what changed between them, in pairs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from evenhand.core.document import Document
from evenhand.core.progress import ignore_progress
from evenhand.core.result import Result, ResultNumber
from evenhand.core.result_part import ResultPart
from evenhand.core.time_limit import TimeLimit
from evenhand.core.typing import Floats, Integers, Progress
from evenhand.errors import OptionError
from evenhand.llm.analysis import run_interview
from evenhand.llm.config import LanguageModelConfig
from evenhand.llm.interview import Interview, open_interview
from evenhand.llm.numbers import METHOD, POPULATION, TOO_FEW
from evenhand.llm.result import GroupGap, LanguageModelAudit, ServiceUsage
from evenhand.models.language.answer_store import question_key
from evenhand.stats.level import bonferroni
from evenhand.stats.multiway import multiway_mean
from evenhand.stats.quantity import Estimated, Quantity, Unknown, quantity_value

if TYPE_CHECKING:
    import pandas as pd

ChangeVerdict: TypeAlias = Literal["better", "worse", "no clear change", "unknown"]
"""Whether a gap became smaller or larger for certain; in conditions ``llm.better`` and ``llm.worse``."""

Families: TypeAlias = tuple[list[Integers], list[Integers]]
"""What answers share: templates with their clusters, and names; each of shape (templates, sweeps)."""


class GapChange(ResultPart):
    """The gap between two groups before and after.

    Attributes:
        group_1, group_0: the groups.
        before, after: the gap of each model over the sweeps that both finished.
        change: after minus before, paired: the same templates, names and seeds; for templates and names like these.
        sum: after plus before; with the change it says whether the gap became smaller whichever group is better off.
        verdict: ``better`` where the gap's size became smaller for certain, ``worse`` where it became larger.
    """

    group_1: str
    group_0: str
    before: Quantity
    after: Quantity
    change: Quantity
    sum: Quantity
    verdict: ChangeVerdict

    @property
    def name(self) -> str:
        """The two groups, as in ``white woman against black woman``."""
        return f"{self.group_1} against {self.group_0}"


class OutcomeChange(ResultPart):
    """What is answered about one group on average, before and after.

    Attributes:
        group: its name.
        before, after: the mean outcome, such as the favourable rate.
        change: after minus before, paired.
    """

    group: str
    before: Quantity
    after: Quantity
    change: Quantity


class LanguageModelComparison(Result):
    """Two language models, or two prompts for one, asked the same questions.

    Attributes:
        before, after: the audit of each.
        sweeps: sweeps that both finished and that are compared.
        changes: of each gap; their intervals hold together.
        outcomes: of each group's mean outcome; their intervals hold together.
        confidence: of all intervals of ``changes`` together, and of all of ``outcomes``.
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
        """Whether somebody stopped it."""
        return self.before.interrupted or self.after.interrupted

    @property
    def usage(self) -> tuple[ServiceUsage, ServiceUsage]:
        """What was asked of each model."""
        return self.before.usage, self.after.usage

    def count(self, verdict: str) -> int:
        """Return how many gaps have a verdict."""
        return sum(one.verdict == verdict for one in self.changes)

    def numbers(self) -> Iterator[ResultNumber]:
        """Yield the number of gaps that got better and worse."""
        for verdict in ("better", "worse"):
            yield ResultNumber("llm", verdict, "", float(self.count(verdict)))

    def document(self) -> Document:
        """Return what changed: gaps, mean outcomes, calls."""
        return self._write_document("evenhand.llm.comparison_wording")

    def to_frame(self) -> pd.DataFrame:
        """Return one row per number: what, of whom, before, after, change, low, high, verdict."""
        import pandas as pd

        rows: list[dict[str, Any]] = [_row("gap", one.name, one, one.verdict) for one in self.changes]
        rows += [_row("mean outcome", one.group, one, "") for one in self.outcomes]
        return pd.DataFrame(rows)


def _row(what: str, name: str, one: GapChange | OutcomeChange, verdict: str) -> dict[str, Any]:
    ends = {end: getattr(one.change, end, None) for end in ("low", "high")}
    values = {part: quantity_value(getattr(one, part)) for part in ("before", "after", "change")}
    return {"number": what, "of": name} | values | ends | {"verdict": verdict}


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
    """Ask two models the same questions, and tell whether the gaps between groups became smaller.

    Templates, names, their order and seeds are the same for both, so that what they have in common cancels in the
    change.

    Args:
        before, after: two models, as for ``audit_language_model``; their files name the same groups.
        people: the rows of data, as there.
        config: the settings of both audits; limits of calls and money are for each of them. Both are asked as many
            sweeps as the one that needs more of them; ``goal`` and ``findings`` are not used.
        answers: a file that keeps every answer, of both.
        data_name: what the rows are called.
        progress: called with what is being done and the share done, 0 to 1.
        settings: fields of ``LanguageModelConfig`` by name, in place of those in ``config``.

    Raises:
        OptionError: the two files compare different groups.
        EvenhandError: as for ``audit_language_model``.
    """
    started = time.perf_counter()
    config = LanguageModelConfig.of(config, settings)
    say = progress or ignore_progress

    def part(name: str, first: float) -> Progress:
        return lambda what, share: say(f"{name}: {what}", first + share / 2)

    config = config.model_copy(update={"goal": "precision", "findings": 0, "name_findings": 0})
    seconds = config.time_limit
    first = open_interview(before, people, config, answers=answers, data_name=data_name)
    config = config.model_copy(update={"seed": first.config.seed})
    second = open_interview(after, people, config, answers=answers, data_name=data_name)
    with first.model, second.model:
        _check_alike(first, second, answers)
        found = run_interview(first, TimeLimit.after(seconds), progress=part("before", 0.0))
        other = run_interview(second, TimeLimit.after(seconds), least=found.sweeps, progress=part("after", 0.5))
        if other.sweeps > found.sweeps and not other.interrupted:
            found = run_interview(first, TimeLimit.after(seconds), least=other.sweeps, progress=part("before", 0.5))
    return pair_audits(found, other, config.confidence, time.perf_counter() - started)


def _check_alike(first: Interview, second: Interview, answers: Path | None) -> None:
    """Refuse models that cannot be asked the same, or whose answers a file does not tell apart."""
    if (first.groups, first.people, first.comparisons) != (second.groups, second.people, second.comparisons):
        raise OptionError(
            f"expected the same groups and names in both models, got {', '.join(first.groups)} and "
            f"{', '.join(second.groups)}",
            location=f"{second.model.file.name}, people",
            hint="give both files the same `people`",
        )
    one, other = first.model.file, second.model.file
    scales = [(file.outcome in ("rate", "score") or file.outcome, file.answers.range) for file in (one, other)]
    turned = one.outcome == "number" and one.answers.worst != other.answers.worst
    if scales[0] != scales[1] or turned:
        raise OptionError(
            f"answers read as {one.answers.read} and as {other.answers.read} are not on the same scale",
            location=f"{other.name}, answers",
            hint="give both files the same `read`, `range` and `favourable`",
        )
    asked = [(file.service.model_copy(update={"url": ""}), file.prompt, file.system) for file in (one, other)]
    same = asked[0] == asked[1] and one.service.url != other.service.url
    if same and question_key(one.service.url, {}, 0) == question_key(other.service.url, {}, 0):
        kept = answers or (one.kept_answers if one.kept_answers == other.kept_answers else None)
        if kept is not None:
            raise OptionError(
                f"{kept} does not tell the answers of {one.service.url} from those of {other.service.url}",
                location=f"{other.name}, service.model",
                hint="call the models differently, or keep the answers of each in a file of its own",
            )


def pair_audits(
    before: LanguageModelAudit, after: LanguageModelAudit, confidence: float, seconds: float = 0.0
) -> LanguageModelComparison:
    """Compare two audits that asked the same questions in this process.

    Raises:
        OptionError: they compare different groups, or other templates or names.
    """
    one, other = before.table, after.table
    groups = [[group.group for group in audit.groups] for audit in (before, after)]
    if groups[0] != groups[1] or one.answers.value.shape[0] != other.answers.value.shape[0] or one.names != other.names:
        raise OptionError(
            f"expected the same groups, names and rows in both models, got {', '.join(groups[0])} and "
            f"{', '.join(groups[1])}",
            hint="give both files the same `people`, and the same seed and templates",
        )
    sweeps = min(one.answers.value.shape[2], other.answers.value.shape[2])
    if not np.array_equal(one.answers.name[:, :, :sweeps], other.answers.name[:, :, :sweeps]):
        raise OptionError("expected the same names in the same rows of both audits", hint="give both the same seed")
    values = [each.answers.value[:, :, :sweeps] for each in (one, other)]
    names = one.answers.name[:, :, :sweeps]
    level = bonferroni(confidence, len(before.comparisons))
    each = bonferroni(confidence, len(before.groups))
    scenes = [np.broadcast_to(np.arange(len(names))[:, None], (len(names), sweeps))]
    if one.plan.cluster is not None:
        scenes.append(np.broadcast_to(one.plan.cluster[:, None], (len(names), sweeps)))
    sampled = [[names[:, g]] if many > 1 else [] for g, many in enumerate(one.names)]
    changes = [
        _gap_change(
            found,
            values[0][:, a] - values[0][:, b],
            values[1][:, a] - values[1][:, b],
            (scenes, sampled[a] + sampled[b]),
            level,
        )
        for found, (a, b) in zip(before.comparisons, one.plan.comparisons, strict=True)
    ]
    outcomes = [
        OutcomeChange(group=group.group, **_estimates(values[0][:, g], values[1][:, g], (scenes, sampled[g]), each))
        for g, group in enumerate(before.groups)
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


def _gap_change(found: GroupGap, before: Floats, after: Floats, families: Families, level: float) -> GapChange:
    """Return the change of one gap.

    ``|after| < |before|`` is the same as ``(after - before) (after + before) < 0``: change and sum have opposite signs.
    Each way for that to hold is an intersection of two one-sided statements, so it is certain where both intervals
    leave out 0 (Berger, "Multiparameter hypothesis testing and acceptance sampling", Technometrics 1982).
    """
    estimates = _estimates(before, after, families, level)
    total = _estimate(after + before, families, level, reach=2.0)
    signs = [_sign(estimates["change"]), _sign(total)]
    verdict: ChangeVerdict = "no clear change"
    if isinstance(estimates["change"], Unknown) or isinstance(total, Unknown):
        verdict = "unknown"
    elif all(signs):
        verdict = "better" if signs[0] != signs[1] else "worse"
    return GapChange(group_1=found.group_1, group_0=found.group_0, **estimates, sum=total, verdict=verdict)


def _sign(quantity: Quantity) -> int:
    """Return 1 or -1 where an interval lies above or below 0, else 0."""
    low, high = (getattr(quantity, end, 0.0) for end in ("low", "high"))
    return int(low > 0) - int(high < 0)


def _estimates(before: Floats, after: Floats, families: Families, level: float) -> dict[str, Quantity]:
    """Return before, after and change of outcomes or differences, each of shape (templates, sweeps)."""
    parts = {"before": before, "after": after, "change": after - before}
    return {name: _estimate(values, families, level, reach=1.0 + (name == "change")) for name, values in parts.items()}


def _estimate(values: Floats, families: Families, level: float, *, reach: float) -> Quantity:
    """Return the mean of values for templates and names like these, shape (templates, sweeps)."""
    known = ~np.isnan(values)
    shared = [[codes[known] for codes in family] for family in families if family]
    if any(len(np.unique(codes)) < 2 for family in shared for codes in family):
        return TOO_FEW
    mean = multiway_mean(values[known], shared, reach=reach)
    low, high = mean.interval(level)
    return Estimated(
        value=mean.mean, low=low, high=high, confidence=level, n=mean.n, population=POPULATION, method=METHOD
    )
