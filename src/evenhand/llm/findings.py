"""Templates for which two groups are treated differently: screened in the sweeps, and confirmed by fresh questions.

The largest of many observed differences is biased upwards. Therefore the most conspicuous templates are asked about
again, and only the fresh answers are tested. They did not influence the selection, so they are unbiased (Cox, "A
note on data-splitting for the evaluation of significance levels", Biometrika 1975).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from evenhand.core.typing import Floats
from evenhand.llm.design import Design, Interviewer, Outcomes, Trials
from evenhand.llm.estimates import AnswerTable
from evenhand.stats.paired import mcnemar
from evenhand.stats.permutation import holm


class Suspect(NamedTuple):
    """Template that was conspicuous in the sweeps.

    Attributes:
        groups: Group 1 and group 0.
        number: Number of the template.
    """

    groups: tuple[int, int]
    number: int


class Confirmation(NamedTuple):
    """Fresh pairs about a suspect.

    Attributes:
        suspect: The template.
        trials, outcomes: Trials and their outcomes. The first side is group 1.
        p: p-value of no difference, adjusted for all tests.
    """

    suspect: Suspect
    trials: Trials
    outcomes: Outcomes
    p: float

    @property
    def better(self) -> tuple[int, int]:
        """Number of pairs in which the first and the second side had the better outcome."""
        return _better(self.outcomes.value)


def suspect_templates(table: AnswerTable, comparisons: Sequence[tuple[int, int]], count: int) -> list[Suspect]:
    """Select the templates with the largest mean differences over all comparisons."""
    value = table.value
    means = np.stack([_row_means(value[:, a] - value[:, b]) for a, b in comparisons])
    positions = _find_largest(np.abs(means.ravel()), count)
    return [Suspect(comparisons[position // len(value)], position % len(value)) for position in positions]


def template_trials(
    suspects: Sequence[Suspect], design: Design, pairs: int, sweep: int, *, ranks: bool
) -> list[Trials]:
    """Build fresh trials of each suspected template, with its next names.

    Args:
        suspects: Suspected templates.
        design: Assignment of names to templates.
        pairs: Number of pairs per suspect.
        sweep: Number of the next sweep.
        ranks: Whether a question is about all groups.
    """
    if not suspects:
        return []
    numbers, all_groups = np.arange(sweep, sweep + pairs), tuple(range(len(design.names)))
    groups = np.repeat([all_groups if ranks else suspect.groups for suspect in suspects], pairs, axis=0)
    templates = np.repeat([suspect.number for suspect in suspects], pairs)
    trials = design.trials(templates, groups, np.tile(numbers, len(suspects)))
    return [Trials(*parts) for parts in zip(*(np.split(part, len(suspects)) for part in trials), strict=True)]


def confirm(suspects: Sequence[Suspect], trials: Sequence[Trials], interviewer: Interviewer) -> list[Confirmation]:
    """Ask all fresh trials, and test each suspect by the exact sign test, adjusted by Holm's method.

    Returns:
        One confirmation per suspect, by ascending p-value.
    """
    if not suspects:
        return []
    answers = interviewer.ask(Trials(*map(np.concatenate, zip(*trials, strict=True))))
    ends = np.cumsum([len(trial.template) for trial in trials])[:-1]
    outcomes = list(map(Outcomes, np.split(answers.value, ends), np.split(answers.kind, ends)))
    for i, (suspect, trial) in enumerate(zip(suspects, trials, strict=True)):
        if trial.group.shape[1] > 2:  # a ranking of all groups
            groups, (value, kind) = list(suspect.groups), outcomes[i]
            outcomes[i] = Outcomes(value[:, groups], kind[:, groups])
    p = holm([mcnemar(*_better(outcome.value)) for outcome in outcomes])
    confirmations = map(Confirmation, suspects, trials, outcomes, p.tolist())
    return sorted(confirmations, key=lambda confirmation: confirmation.p)


def _better(value: Floats) -> tuple[int, int]:
    return int((value[:, 0] > value[:, 1]).sum()), int((value[:, 0] < value[:, 1]).sum())


def _row_means(values: Floats) -> Floats:
    """Compute the mean of each row, ignoring NaN; 0 for an empty row."""
    return np.asarray(np.nansum(values, axis=1) / np.maximum((~np.isnan(values)).sum(axis=1), 1))


def _find_largest(scores: Floats, limit: int) -> list[int]:
    """Find the positions of the largest positive scores, in descending order."""
    order = np.argsort(-scores, kind="stable")[:limit]
    return [int(position) for position in order if scores[position] > 0]
