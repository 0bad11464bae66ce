"""Templates for which two groups are treated differently: screened in the sweeps, and confirmed by fresh questions.

The largest of many observed differences is biased upwards. Therefore the model gets fresh questions about the most
conspicuous templates, and only the fresh answers are tested. They did not influence the selection, so they are unbiased
(Cox, "A note on data-splitting for the evaluation of significance levels", Biometrika 1975).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

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
    """Answers to fresh questions about a suspected template.

    Attributes:
        suspect: The template.
        trials, outcomes: Trials and their outcomes. The first side is group 1.
        p: p-value of the sign test, adjusted for all tests.
    """

    suspect: Suspect
    trials: Trials
    outcomes: Outcomes
    p: float

    @property
    def better(self) -> tuple[int, int]:
        """Number of pairs in which the first and the second side had the better outcome."""
        first, second = self.outcomes.value.T
        return int((first > second).sum()), int((first < second).sum())


def suspect_templates(table: AnswerTable, comparisons: Sequence[tuple[int, int]], count: int) -> list[Suspect]:
    """Select the templates with the largest mean differences over all comparisons, in descending order."""
    suspects, sizes = [], []
    for a, b in comparisons:
        difference = table.value[:, a] - table.value[:, b]
        pairs = (~np.isnan(difference)).sum(axis=1)
        sizes.append(np.abs(np.nansum(difference, axis=1)) / np.maximum(pairs, 1))
        suspects += [Suspect((a, b), template) for template in range(len(difference))]
    size = np.concatenate(sizes)
    order = np.argsort(-size, kind="stable")[:count]
    return [suspects[position] for position in order if size[position] > 0]


def template_trials(suspects: Sequence[Suspect], design: Design, pairs: int, sweep: int, *, ranks: bool) -> Trials:
    """Build fresh trials of suspected templates, one after the other, each with the next names in its rotation.

    Args:
        suspects: Suspected templates.
        design: Assignment of names to templates.
        pairs: Number of pairs per template.
        sweep: Number of the next sweep.
        ranks: Whether a question is about all groups.
    """
    all_groups = tuple(range(len(design.names)))
    groups = np.repeat([all_groups if ranks else suspect.groups for suspect in suspects], pairs, axis=0)
    templates = np.repeat([suspect.number for suspect in suspects], pairs)
    return design.trials(templates, groups, np.tile(np.arange(sweep, sweep + pairs), len(suspects)))


def confirm(
    suspects: Sequence[Suspect], design: Design, pairs: int, sweep: int, interviewer: Interviewer
) -> list[Confirmation]:
    """Ask about fresh pairs, and test each suspected template by the exact sign test, adjusted by Holm's method.

    Args:
        suspects, design, pairs, sweep: As for ``template_trials``.
        interviewer: Sender of the questions.

    Returns:
        One confirmation per suspected template, by ascending p-value.
    """
    if not suspects:
        return []
    ranks = interviewer.respondent.ranks
    trials = template_trials(suspects, design, pairs, sweep, ranks=ranks)
    answers = interviewer.ask(trials)
    confirmations = []
    for number, suspect in enumerate(suspects):
        rows = slice(number * pairs, (number + 1) * pairs)
        value, kind = answers.value[rows], answers.kind[rows]
        if ranks:  # the questions are about all groups
            value, kind = value[:, list(suspect.groups)], kind[:, list(suspect.groups)]
        own_trials = Trials(*(part[rows] for part in trials))
        confirmations.append(Confirmation(suspect, own_trials, Outcomes(value, kind), math.nan))
    p_values = holm([mcnemar(*confirmation.better) for confirmation in confirmations]).tolist()
    adjusted = [confirmation._replace(p=p) for confirmation, p in zip(confirmations, p_values, strict=True)]
    return sorted(adjusted, key=lambda confirmation: confirmation.p)
