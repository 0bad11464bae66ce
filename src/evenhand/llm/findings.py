"""Which templates and names are treated differently: screened in the sweeps, confirmed by fresh questions.

What looks worst among many looks worse than it is. So the most conspicuous are asked about again, and the fresh answers
alone are tested: they were not chosen by, so they are not biased (Cox, "A note on data-splitting for the evaluation of
significance levels", Biometrika 1975).
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
"""Draws of signs for the test without fresh questions."""


class Suspect(NamedTuple):
    """A template, or a name, that was conspicuous in the sweeps.

    Attributes:
        groups: group 1 and group 0; for a name its own group twice.
        number: of the template, or of the name in its group.
    """

    groups: tuple[int, int]
    number: int


class Confirmation(NamedTuple):
    """Pairs about a suspect: fresh ones, or where they cannot be asked those of the sweeps.

    Attributes:
        suspect: whom about.
        trials, outcomes: what was asked and came back; the first side is group 1, or the name.
        p: of no difference, adjusted for all that were tested.
    """

    suspect: Suspect
    trials: Trials
    outcomes: TrialOutcomes
    p: float

    @property
    def better(self) -> tuple[int, int]:
        """In how many pairs the first and the second side had the better outcome."""
        return _better(self.outcomes.value)


def suspect_templates(table: AnswerTable, comparisons: Sequence[tuple[int, int]], most: int) -> list[Suspect]:
    """Return the templates with the widest mean differences, of all comparisons together."""
    value = table.value
    means = np.stack([_means(value[:, one] - value[:, other]) for one, other in comparisons])
    return [
        Suspect(comparisons[place // len(value)], place % len(value)) for place in _largest(np.abs(means.ravel()), most)
    ]


def suspect_names(table: AnswerTable, names: tuple[int, ...], most: int) -> list[Suspect]:
    """Return the names whose outcomes differ most from those of their group in the same templates.

    A name's mean deviation times the root of its uses: names are used about equally often.
    """
    scores, owners = [], []
    for group, count in enumerate(names):
        value, name = table.value[:, group], table.name[:, group]
        apart = value - _means(value)[:, None]
        known = ~np.isnan(apart)
        total = np.bincount(name[known], weights=apart[known], minlength=count)
        uses = np.bincount(name[known], minlength=count)
        scores.append(np.abs(total) / np.sqrt(np.maximum(uses, 1)) if count > 1 else np.zeros(count))
        owners += [Suspect((group, group), index) for index in range(count)]
    return [owners[place] for place in _largest(np.concatenate(scores), most)]


def template_trials(
    suspects: Sequence[Suspect], design: Design, pairs: int, sweep: int, *, ranks: bool
) -> list[Trials]:
    """Return fresh trials of each suspected template, with the names that come next in it.

    Args:
        suspects: what is asked about.
        design: which names come next.
        pairs: for each suspect.
        sweep: the first that was not asked.
        ranks: whether a question is about all groups.
    """
    if not suspects:
        return []
    numbers, every = np.arange(sweep, sweep + pairs), tuple(range(len(design.names)))
    groups = np.repeat([every if ranks else one.groups for one in suspects], pairs, axis=0)
    together = design.trials(
        np.repeat([one.number for one in suspects], pairs), groups, np.tile(numbers, len(suspects))
    )
    return [Trials(*parts) for parts in zip(*(np.split(part, len(suspects)) for part in together), strict=True)]


def name_trials(suspects: Sequence[Suspect], design: Design, pairs: int) -> list[Trials]:
    """Return fresh trials of each suspected name with others of its group, in templates and with others in rotation."""
    found = []
    for one in suspects:
        rng = np.random.default_rng([design.seed, 2, one.groups[0], one.number])
        others = np.setdiff1d(np.arange(design.names[one.groups[0]]), [one.number])
        template, other = (_rotate(rng, count, pairs) for count in (design.templates, len(others)))
        name = np.stack([np.full(pairs, one.number), others[other]], axis=1)
        order = rng.permuted(np.tile([0, 1], (pairs, 1)), axis=1)
        seed = rng.integers(2**31, size=pairs)
        found.append(Trials(template, np.full((pairs, 2), one.groups[0]), name, order, seed))
    return found


def confirm(suspects: Sequence[Suspect], trials: Sequence[Trials], interviewer: Interviewer) -> list[Confirmation]:
    """Ask the fresh trials, all together, and test each suspect by the exact sign test, adjusted by Holm's method.

    Returns:
        One for each suspect, the clearest first.
    """
    if not suspects:
        return []
    asked = interviewer.ask(Trials(*map(np.concatenate, zip(*trials, strict=True))))
    ends = np.cumsum([len(one.template) for one in trials])[:-1]
    outcomes = list(map(TrialOutcomes, np.split(asked.value, ends), np.split(asked.kind, ends)))
    for at, (one, trial) in enumerate(zip(suspects, trials, strict=True)):
        if trial.group.shape[1] > 2:  # a ranking of all groups
            both, (value, kind) = list(one.groups), outcomes[at]
            outcomes[at] = TrialOutcomes(value[:, both], kind[:, both])
    p = holm([mcnemar(*_better(one.value)) for one in outcomes])
    found = map(Confirmation, suspects, trials, outcomes, p.tolist())
    return sorted(found, key=lambda one: one.p)


def clear_templates(
    table: AnswerTable, comparisons: Sequence[tuple[int, int]], design: Design, most: int, *, ranks: bool
) -> list[Confirmation]:
    """Return templates that differ clearly in the sweeps alone, where no fresh questions can be asked.

    Args:
        table: the answers of the sweeps.
        comparisons: groups compared.
        design: which names were asked about.
        most: so many at most.
        ranks: whether a question is about all groups.

    Returns:
        The clearest first, with p-values adjusted for all templates and comparisons.
    """
    differences = np.concatenate([table.value[:, one] - table.value[:, other] for one, other in comparisons])
    p = sign_flip_p(differences, np.random.default_rng([design.seed, 4]))
    found = []
    for place in np.argsort(p, kind="stable")[:most]:
        one = Suspect(comparisons[place // len(table.value)], int(place) % len(table.value))
        (trials,) = template_trials([one], design, table.value.shape[2], 0, ranks=ranks)
        both = list(one.groups)
        outcomes = TrialOutcomes(table.value[one.number, both].T, table.kind[one.number, both].T)
        found.append(Confirmation(one, trials, outcomes, float(p[place])))
    return found


def sign_flip_p(differences: Floats, rng: np.random.Generator) -> Floats:
    """Return a p-value of each template without fresh questions, adjusted for their number.

    If a template's groups are treated alike, either side of a pair could have had either answer. So the signs of all
    differences are drawn at random, and each time the largest ``|sum d| / sqrt(sum d^2)`` of all templates is noted
    (max-t: Westfall & Young, "Resampling-Based Multiple Testing", 1993). Weaker than asking afresh.

    Args:
        differences: of pairs, NaN where there is none, shape (templates, pairs).
        rng: draws the signs.
    """
    filled = np.nan_to_num(differences)
    scale = np.sqrt((filled**2).sum(axis=1))
    scaled = filled / np.where(scale > 0, scale, 1.0)[:, None]
    maxima = [
        np.abs((scaled * rng.choice([-1.0, 1.0], size=scaled.shape)).sum(axis=1)).max(initial=0.0) for _ in range(FLIPS)
    ]
    return adjusted_p(scaled.sum(axis=1), maxima)


def _rotate(rng: np.random.Generator, count: int, many: int) -> Integers:
    """Return so many numbers below ``count``, each once in random order before one comes again."""
    return np.concatenate([rng.permutation(count) for _ in range(-(-many // count))])[:many]


def _better(value: Floats) -> tuple[int, int]:
    return int((value[:, 0] > value[:, 1]).sum()), int((value[:, 0] < value[:, 1]).sum())


def _means(values: Floats) -> Floats:
    """Return the mean of each row, 0 where it has none."""
    return np.asarray(np.nansum(values, axis=1) / np.maximum((~np.isnan(values)).sum(axis=1), 1))


def _largest(scores: Floats, most: int) -> list[int]:
    """Return the positions of the largest scores above 0, the largest first."""
    order = np.argsort(-scores, kind="stable")[:most]
    return [int(place) for place in order if scores[place] > 0]
