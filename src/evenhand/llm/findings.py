"""Templates and names that are treated differently: screened in the sweeps, and confirmed by fresh questions.

The largest of many observed differences is biased upwards. Therefore the most conspicuous templates and names are asked
about again, and only the fresh answers are tested. They did not influence the selection, so they are unbiased (Cox, "A
note on data-splitting for the evaluation of significance levels", Biometrika 1975).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from evenhand.core.typing import Floats, Integers
from evenhand.llm.design import Design, Interviewer, TrialOutcomes, Trials
from evenhand.llm.estimates import AnswerTable
from evenhand.stats.paired import mcnemar
from evenhand.stats.permutation import adjusted_p, holm

FLIPS = 999
"""Number of random sign vectors for the test without fresh questions."""


class Suspect(NamedTuple):
    """Template or name that was conspicuous in the sweeps.

    Attributes:
        groups: Group 1 and group 0. For a name, both are its own group.
        number: Number of the template, or of the name in its group.
    """

    groups: tuple[int, int]
    number: int


class Confirmation(NamedTuple):
    """Pairs about a suspect: fresh pairs, or those of the sweeps if no fresh ones can be asked.

    Attributes:
        suspect: Template or name.
        trials, outcomes: Trials and their outcomes. The first side is group 1, or the name.
        p: p-value of no difference, adjusted for all tests.
    """

    suspect: Suspect
    trials: Trials
    outcomes: TrialOutcomes
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


def suspect_names(table: AnswerTable, names: tuple[int, ...], limit: int) -> list[Suspect]:
    """Select the names whose outcomes differ most from those of their group in the same templates.

    The score is the mean deviation of a name times the square root of its number of uses.
    """
    scores, owners = [], []
    for group, count in enumerate(names):
        value, name = table.value[:, group], table.name[:, group]
        deviation = value - _row_means(value)[:, None]
        present = ~np.isnan(deviation)
        total = np.bincount(name[present], weights=deviation[present], minlength=count)
        uses = np.bincount(name[present], minlength=count)
        scores.append(np.abs(total) / np.sqrt(np.maximum(uses, 1)) if count > 1 else np.zeros(count))
        owners += [Suspect((group, group), index) for index in range(count)]
    return [owners[position] for position in _find_largest(np.concatenate(scores), limit)]


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


def name_trials(suspects: Sequence[Suspect], design: Design, pairs: int) -> list[Trials]:
    """Build fresh trials that compare each suspected name with the other names of its group in rotating templates."""
    trials = []
    for suspect in suspects:
        group = suspect.groups[0]
        rng = np.random.default_rng([design.seed, 2, group, suspect.number])
        references = np.setdiff1d(np.arange(design.names[group]), [suspect.number])
        template, reference = (_rotate(rng, count, pairs) for count in (design.templates, len(references)))
        name = np.stack([np.full(pairs, suspect.number), references[reference]], axis=1)
        order = rng.permuted(np.tile([0, 1], (pairs, 1)), axis=1)
        seed = rng.integers(2**31, size=pairs)
        trials.append(Trials(template, np.full((pairs, 2), group), name, order, seed))
    return trials


def confirm(suspects: Sequence[Suspect], trials: Sequence[Trials], interviewer: Interviewer) -> list[Confirmation]:
    """Ask all fresh trials, and test each suspect by the exact sign test, adjusted by Holm's method.

    Returns:
        One confirmation per suspect, by ascending p-value.
    """
    if not suspects:
        return []
    answers = interviewer.ask(Trials(*map(np.concatenate, zip(*trials, strict=True))))
    ends = np.cumsum([len(trial.template) for trial in trials])[:-1]
    outcomes = list(map(TrialOutcomes, np.split(answers.value, ends), np.split(answers.kind, ends)))
    for i, (suspect, trial) in enumerate(zip(suspects, trials, strict=True)):
        if trial.group.shape[1] > 2:  # a ranking of all groups
            groups, (value, kind) = list(suspect.groups), outcomes[i]
            outcomes[i] = TrialOutcomes(value[:, groups], kind[:, groups])
    p = holm([mcnemar(*_better(outcome.value)) for outcome in outcomes])
    confirmations = map(Confirmation, suspects, trials, outcomes, p.tolist())
    return sorted(confirmations, key=lambda confirmation: confirmation.p)


def clear_templates(
    table: AnswerTable, comparisons: Sequence[tuple[int, int]], design: Design, limit: int, *, ranks: bool
) -> list[Confirmation]:
    """Test the templates with the sweeps only, if no fresh questions can be asked.

    Args:
        table: Answers of the sweeps.
        comparisons: Compared groups.
        design: Assignment of names to templates.
        limit: Maximum number of templates.
        ranks: Whether a question is about all groups.

    Returns:
        Templates by ascending p-value, adjusted for all templates and comparisons.
    """
    differences = np.concatenate([table.value[:, a] - table.value[:, b] for a, b in comparisons])
    p = sign_flip_p(differences, np.random.default_rng([design.seed, 4]))
    confirmations = []
    for position in np.argsort(p, kind="stable")[:limit]:
        suspect = Suspect(comparisons[position // len(table.value)], int(position) % len(table.value))
        (trials,) = template_trials([suspect], design, table.value.shape[2], 0, ranks=ranks)
        groups = list(suspect.groups)
        outcomes = TrialOutcomes(table.value[suspect.number, groups].T, table.kind[suspect.number, groups].T)
        confirmations.append(Confirmation(suspect, trials, outcomes, float(p[position])))
    return confirmations


def sign_flip_p(differences: Floats, rng: np.random.Generator) -> Floats:
    """Compute the adjusted p-value of each template without fresh questions.

    If a template treats its groups equally, the answers of each pair are exchangeable. The signs of all differences are
    therefore drawn at random, and the largest ``|sum d| / sqrt(sum d^2)`` over all templates is recorded (max-t:
    Westfall & Young, "Resampling-Based Multiple Testing", 1993). This test is less powerful than fresh questions.

    Args:
        differences: Differences of pairs, or NaN, shape (templates, pairs).
        rng: Random generator of the signs.
    """
    filled = np.nan_to_num(differences)
    scale = np.sqrt((filled**2).sum(axis=1))
    scaled = filled / np.where(scale > 0, scale, 1.0)[:, None]
    maxima = [
        np.abs((scaled * rng.choice([-1.0, 1.0], size=scaled.shape)).sum(axis=1)).max(initial=0.0) for _ in range(FLIPS)
    ]
    return adjusted_p(scaled.sum(axis=1), maxima)


def _rotate(rng: np.random.Generator, count: int, length: int) -> Integers:
    """Draw numbers below ``count`` in random order, without repetition until all are used."""
    return np.concatenate([rng.permutation(count) for _ in range(-(-length // count))])[:length]


def _better(value: Floats) -> tuple[int, int]:
    return int((value[:, 0] > value[:, 1]).sum()), int((value[:, 0] < value[:, 1]).sum())


def _row_means(values: Floats) -> Floats:
    """Compute the mean of each row, ignoring NaN; 0 for an empty row."""
    return np.asarray(np.nansum(values, axis=1) / np.maximum((~np.isnan(values)).sum(axis=1), 1))


def _find_largest(scores: Floats, limit: int) -> list[int]:
    """Find the positions of the largest positive scores, in descending order."""
    order = np.argsort(-scores, kind="stable")[:limit]
    return [int(position) for position in order if scores[position] > 0]
