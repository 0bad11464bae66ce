"""Compute the numbers of a language-model audit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from evenhand.core.text import format_percent
from evenhand.core.typing import Booleans, Floats
from evenhand.llm.asking import AskedAnswers
from evenhand.llm.design import CUT_OFF, FAILED, REFUSED, UNREADABLE
from evenhand.llm.estimates import PairedAnswers, estimate_flips, estimate_gap, estimate_gap_here, to_quantity
from evenhand.llm.findings import Confirmation
from evenhand.llm.interview import Interview
from evenhand.llm.prompts import plain_row
from evenhand.llm.result import (
    MUCH_MISSING,
    ConfirmedTemplate,
    GroupGap,
    GroupOutcome,
    ScenarioGap,
)
from evenhand.stats.level import bonferroni
from evenhand.stats.multiway import MultiwayMean
from evenhand.stats.permutation import holm
from evenhand.stats.proportion import observed_rate
from evenhand.stats.quantity import Quantity, Unknown

UNREAD = (UNREADABLE, CUT_OFF)
"""Kinds of answers without a value."""

MANY = 0.1
"""Share of unread answers above which a caution warns that a gap says little about decisions."""


class AuditNumbers:
    """Numbers of an audit, computed from all answers.

    Args:
        interview: Model, templates and people.
        answers: All answers.
        scenarios: Scenario of each template. None without scenarios.
    """

    def __init__(self, interview: Interview, answers: AskedAnswers, scenarios: list[str] | None) -> None:
        self.interview, self.answers, self.scenarios, self.config = interview, answers, scenarios, interview.config

    def comparisons(self) -> tuple[GroupGap, ...]:
        """Compare all pairs of groups."""
        tables = [self.answers.table.pair(pair) for pair in self.interview.comparisons]
        gaps = [estimate_gap(table) for table in tables]
        level = bonferroni(self.config.confidence, len(tables))
        levels = self.answers.levels or (level,) * len(tables)
        p, scenes = self._adjusted_p(gaps), self._scenarios(tables)
        return tuple(self._comparison(c, tables[c], gaps[c], levels[c], p[c], scenes[c]) for c in range(len(tables)))

    def _comparison(
        self,
        number: int,
        pairs: PairedAnswers,
        gap: MultiwayMean | None,
        level: float,
        p: float | None,
        scenarios: tuple[ScenarioGap, ...],
    ) -> GroupGap:
        """Compare one pair of groups, with intervals at the given level."""
        a, b = self.interview.comparisons[number]
        names = self.interview.names
        refused = self.answers.table.pair((a, b), refused=True)
        kind = self.answers.table.kind
        unread = np.where(kind == FAILED, np.nan, np.isin(kind, UNREAD))
        unreadable = self.answers.table._replace(value=unread, again=None).pair((a, b))
        choices = self.interview.model.file.outcome in ("rate", "score")
        return GroupGap(
            group_1=self.interview.groups[a],
            group_0=self.interview.groups[b],
            names_1=names[a],
            names_0=names[b],
            templates=self.interview.templates,
            pairs=int((~np.isnan(pairs.difference)).sum()),
            gap=self._in_units(to_quantity(gap, level, -1.0, 1.0)),
            gap_here=self._in_units(estimate_gap_here(pairs, level)),
            p=p,
            refusal_gap=to_quantity(estimate_gap(refused), level, -1.0, 1.0),
            unreadable_gap=to_quantity(estimate_gap(unreadable), level, -1.0, 1.0),
            flips=estimate_flips(pairs, level) if choices else None,
            scenarios=scenarios,
        )

    def _in_units(self, quantity: Quantity, origin: float = 0.0) -> Quantity:
        """Convert a share of the range to the unit of the answers, which is negative if low numbers are favourable.

        Args:
            quantity: Difference, or mean, as a share of the range.
            origin: 0 for a difference; the worst number for a mean.
        """
        if isinstance(quantity, Unknown):
            return quantity
        value, *ends = (self.interview.unit * getattr(quantity, name) + origin for name in ("value", "low", "high"))
        return quantity.model_copy(update={"value": value, "low": min(ends), "high": max(ends)})

    def _scenarios(self, tables: Sequence[PairedAnswers]) -> list[tuple[ScenarioGap, ...]]:
        """Estimate the gaps of all comparisons by scenario, with simultaneous intervals."""
        if self.scenarios is None:
            return [()] * len(tables)
        labels = np.array(self.scenarios)
        rows = {label: np.flatnonzero(labels == label) for label in dict.fromkeys(self.scenarios)}
        level = bonferroni(self.config.confidence, len(tables) * len(rows))
        gaps = [estimate_gap(table.select(part)) for table in tables for part in rows.values()]
        scenarios = [
            ScenarioGap(
                scenario=label,
                gap=self._in_units(to_quantity(gap, level, -1.0, 1.0)),
                templates=len(rows[label]),
                p=p,
            )
            for label, gap, p in zip(list(rows) * len(tables), gaps, self._adjusted_p(gaps), strict=True)
        ]
        return [tuple(scenarios[c * len(rows) : (c + 1) * len(rows)]) for c in range(len(tables))]

    def _adjusted_p(self, gaps: Sequence[MultiwayMean | None]) -> list[float | None]:
        """Compute p-values for no gap, adjusted by Holm's method. None for unknown gaps and after a decision."""
        if self.config.goal != "precision":
            return [None] * len(gaps)
        adjusted = iter(holm([gap.p for gap in gaps if gap is not None]).tolist())
        return [None if gap is None else next(adjusted) for gap in gaps]

    def group(self, number: int) -> GroupOutcome:
        """Summarise the answers about a group in the sweeps."""
        table, confidence = self.answers.table, self.config.confidence
        kind = table.kind[:, number]
        calls = int((kind != FAILED).sum())
        refused, unreadable, cut_off = (
            observed_rate(int((kind == code).sum()), calls, confidence, if_empty="no question was answered")
            for code in (REFUSED, UNREADABLE, CUT_OFF)
        )
        mean = estimate_gap(table.outcomes(number))
        return GroupOutcome(
            group=self.interview.groups[number],
            names=self.interview.names[number],
            calls=calls,
            mean=self._in_units(to_quantity(mean, confidence, 0.0, 1.0), self.interview.model.file.answers.worst),
            refused=refused,
            unreadable=unreadable,
            cut_off=cut_off,
            failed=int((kind == FAILED).sum()),
        )

    def noise(self) -> Quantity:
        """Estimate the share of repeated questions with different answers."""
        again = self.answers.table.again
        if again is None:
            return Unknown(reason="probabilities were read, so no question was repeated")
        value, repeated = self.answers.table.value[:, :, 0], again.value
        present = ~np.isnan(value) & ~np.isnan(repeated)
        different = int((value != repeated)[present].sum())
        return observed_rate(
            different, int(present.sum()), self.config.confidence, if_empty="no question was answered twice"
        )

    def template(self, confirmation: Confirmation) -> ConfirmedTemplate:
        """Describe a confirmed template, with the fresh pair that has the largest difference as an example."""
        (a, b), interview = confirmation.suspect.groups, self.interview
        value, trials = confirmation.outcomes.value, confirmation.trials
        means = np.nanmean(value, axis=0)
        example = int(np.nanargmax((value[:, 0] - value[:, 1]) * np.sign(means[0] - means[1])))
        template, seed = int(trials.template[example]), int(trials.seed[example])
        sides = []
        for group in (a, b):
            position = int(np.flatnonzero(trials.group[example] == group)[0])
            sides.append(interview.side(template, group, int(trials.name[example, position]), seed))
        scenario = "" if self.scenarios is None else self.scenarios[template]
        low = interview.model.file.answers.worst
        better = confirmation.better
        return ConfirmedTemplate(
            group_1=interview.groups[a],
            group_0=interview.groups[b],
            template=interview.positions[template],
            row={
                name: value if value is None or isinstance(value, str | int | float | bool) else str(value)
                for name, value in plain_row(interview.rows[template][0]).items()
            },
            scenario=scenario,
            pairs=len(value),
            mean_1=low + interview.unit * float(means[0]),
            mean_0=low + interview.unit * float(means[1]),
            better_1=better[0],
            better_0=better[1],
            p=confirmation.p,
            side_1=sides[0],
            side_0=sides[1],
        )

    def _bounds(self, kinds: tuple[int, ...]) -> Iterator[str]:
        """Yield the worst-case bounds of each gap, with answers of the given kinds treated as unknown."""
        value, kind = self.answers.table.value, self.answers.table.kind
        for pair in map(list, self.interview.comparisons):
            unknown = np.isin(kind[:, pair], kinds)
            ends = sorted(self.interview.unit * end for end in _worst_case(value[:, pair], unknown))
            a, b = (self.interview.groups[group] for group in pair)
            yield (
                f"For any values of these answers, the gap of {a} against {b} for these templates and names "
                f"lies between {ends[0]:+.3f} and {ends[1]:+.3f}."
            )

    def cautions(self) -> Iterator[str]:
        """Yield warnings about missing and unread answers, with worst-case bounds of the gaps."""
        kind = self.answers.table.kind
        failed = int((kind == FAILED).sum())
        if failed:
            share = f"{failed:,} of {kind.size:,} questions ({format_percent(failed / kind.size)})"
            yield f"{share} have no answer and are excluded from all numbers."
        if failed > MUCH_MISSING * kind.size:
            yield from self._bounds((FAILED,))
        unread = np.isin(kind, UNREAD)
        if unread.sum() > MUCH_MISSING * kind.size:
            counted = "are left out" if self.interview.model.file.refused == "excluded" else "count as unfavourable"
            groups = ", ".join(
                f"{format_percent(unread[:, number].mean())} about {group}"
                for number, group in enumerate(self.interview.groups)
            )
            share = f"{unread.sum():,} of {kind.size:,} answers ({format_percent(unread.mean())})"
            text = [f"{share} could not be read or were cut off, and {counted}: {groups}.", *self._bounds(UNREAD)]
            text += ["A gap says little about decisions."] if unread.mean() > MANY else []
            yield " ".join(text)
        if self.config.findings and not self.answers.affordable:
            yield (
                "Fresh questions about the templates that differed most could not be asked, so no template is "
                "confirmed. Allow more calls, money or time."
            )


def _worst_case(value: Floats, unknown: Booleans) -> tuple[float, float]:
    """Compute the smallest and the largest possible gap for these templates and names, over all unknown answers.

    Args:
        value: Outcomes, shape (templates, 2, sweeps).
        unknown: Whether each answer is unknown, of the same shape.
    """
    ends = []
    for substitutes in ((0.0, 1.0), (1.0, 0.0)):
        filled = np.where(unknown, np.array(substitutes)[None, :, None], value)
        ends.append(float(np.nanmean(filled[:, 0] - filled[:, 1])))
    return ends[0], ends[1]
