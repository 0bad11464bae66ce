"""Design of the questions: each template with one person per group, rotating names, and the same seed for all groups.

A trial is one template with one person of each of several groups. If a question is about a single person, a trial has
one question per group. If a question ranks candidates, a trial also has one question per group: the order of the
records is fixed, and the persons rotate, so that each person has each record and each position once (a Latin square).
The effects of records and positions then cancel between groups.
"""

from __future__ import annotations

import math
from typing import NamedTuple, Protocol

import numpy as np

from evenhand.core.typing import Floats, Integers

CHOICE, REFUSED, UNREADABLE, CUT_OFF, FAILED = range(5)
"""Kinds of answers. ``FAILED`` means that there was no answer."""


class QuestionBatch(NamedTuple):
    """Questions to a model, each about c persons: one person, or all ranked candidates.

    Attributes:
        template: Template of each question, shape (n,).
        group, name: Group and name of the person at each position, shape (n, c).
        record: Record of the template at each position, shape (n, c). 0 if a template is a single record.
        draw: Number of earlier repetitions of the same question, shape (n,).
        seed: Seed for the random numbers of the model, shape (n,).
    """

    template: Integers
    group: Integers
    name: Integers
    record: Integers
    draw: Integers
    seed: Integers


class Outcomes(NamedTuple):
    """Outcomes of a batch of questions, or of trials.

    Attributes:
        value: Outcome of each person, or NaN, shape (n, c).
        kind: Kind of each answer, shape (n,) for questions and (n, c) for trials.
    """

    value: Floats
    kind: Integers


class Respondent(Protocol):
    """A language model with its templates and people, or a simulation of one."""

    @property
    def templates(self) -> int:
        """Number of templates."""

    @property
    def names(self) -> tuple[int, ...]:
        """Number of names, or wordings, of each group."""

    @property
    def ranks(self) -> bool:
        """Whether a question ranks one candidate of every group."""

    def ask(self, batch: QuestionBatch) -> Outcomes:
        """Ask a batch of questions."""


class Trials(NamedTuple):
    """Templates with one person of each of w groups.

    Attributes:
        template, seed: Template and seed of each trial, shape (n,).
        group, name: Group and name of each person, shape (n, w).
        order: Order of the records for rankings, shape (n, w).
    """

    template: Integers
    group: Integers
    name: Integers
    order: Integers
    seed: Integers


class Design:
    """Assignment of names to templates.

    All names of a group are used equally often, and each template uses all names before it repeats one.

    Args:
        templates: Number of templates.
        names: Number of names of each group.
        seed: Random seed.
    """

    def __init__(self, templates: int, names: tuple[int, ...], seed: int = 0) -> None:
        self.templates, self.names, self.seed = templates, names, seed
        self._shuffled: dict[tuple[int, int], tuple[Integers, Integers]] = {}

    def sweep(self, number: int) -> Trials:
        """Build the trials of one sweep: each template once, with one person of each group."""
        templates, groups = np.arange(self.templates), np.arange(len(self.names))
        return self.trials(templates, np.tile(groups, (self.templates, 1)), np.full(self.templates, number))

    def trials(self, template: Integers, group: Integers, sweep: Integers) -> Trials:
        """Build trials with the names assigned to templates in given sweeps.

        Args:
            template, sweep: Template and sweep of each trial, shape (n,).
            group: Groups of each trial, shape (n, w).
        """
        sweeps, position = np.unique(sweep, return_inverse=True)
        names = np.stack([self.names_in(int(number)) for number in sweeps])
        seeds, orders = zip(*(self._draw_seeds(int(number), group.shape[1]) for number in sweeps), strict=True)
        return Trials(
            template,
            group,
            names[position[:, None], template[:, None], group],
            np.stack(orders)[position, template],
            np.stack(seeds)[position, template],
        )

    def again(self, trials: Trials) -> Trials:
        """Repeat trials with different seeds."""
        return trials._replace(seed=np.random.default_rng([self.seed, 3]).integers(2**31, size=len(trials.seed)))

    def names_in(self, sweep: int) -> Integers:
        """Assign a name of each group to each template in a sweep, shape (templates, groups).

        In sweep k, the template at position p has the name ``k T + k // (N / gcd(T, N)) + p`` modulo N. The sweeps
        traverse the names cyclically without gaps, so that the numbers of uses differ by at most one after each sweep,
        and each template has all N names before one is repeated. Positions and names are shuffled for each group, and
        again after every N sweeps. Every second group uses the opposite direction, so that pairs of names also vary.
        """
        columns = []
        for group, count in enumerate(self.names):
            cycle, k = divmod(sweep, count)
            position, name = self._shuffles(group, cycle)
            step = k * self.templates + k // (count // math.gcd(self.templates, count))
            columns.append(name[(position + (-step if group % 2 else step)) % count])
        return np.stack(columns, axis=1)

    def _shuffles(self, group: int, cycle: int) -> tuple[Integers, Integers]:
        """Shuffle the positions of the templates and the order of the names for a cycle of sweeps."""
        if (group, cycle) not in self._shuffled:
            rng = np.random.default_rng([self.seed, 0, group, cycle])
            self._shuffled[group, cycle] = rng.permutation(self.templates), rng.permutation(self.names[group])
        return self._shuffled[group, cycle]

    def _draw_seeds(self, sweep: int, width: int) -> tuple[Integers, Integers]:
        """Draw the seed and the order of records of each template in a sweep."""
        rng = np.random.default_rng([self.seed, 1, sweep])
        seeds = rng.integers(2**31, size=self.templates)
        return seeds, rng.permuted(np.tile(np.arange(width), (self.templates, 1)), axis=1)


class Interviewer:
    """Asks and counts the questions of trials.

    Args:
        respondent: Respondent to ask.
        excluded: Whether answers that are not a choice are excluded. Otherwise, they have the worst outcome, 0.
    """

    def __init__(self, respondent: Respondent, *, excluded: bool = False) -> None:
        self.respondent, self.excluded = respondent, excluded
        self.calls = 0
        self._asked: dict[bytes, int] = {}

    def ask(self, trials: Trials) -> Outcomes:
        """Ask the questions of trials. A repeated question gets the next draw."""
        batch = self.questions(trials)
        self.calls += len(batch.template)
        value, kind = self.respondent.ask(batch)
        if not self.excluded:
            value = np.where(((kind != CHOICE) & (kind != FAILED))[:, None], 0.0, value)
        n, w = trials.group.shape
        if not self.respondent.ranks:
            return Outcomes(value.reshape(n, w), kind.reshape(n, w))
        turn, person = np.arange(w)[:, None], np.arange(w)
        worst = np.tile(kind.reshape(n, w).max(axis=1)[:, None], (1, w))
        return Outcomes(value.reshape(n, w, w)[:, turn, (person - turn) % w].mean(axis=1), worst)

    def questions(self, trials: Trials) -> QuestionBatch:
        """Build the questions of trials."""
        n, w = trials.group.shape
        template, seed = np.repeat(trials.template, w), np.repeat(trials.seed, w)
        if self.respondent.ranks:
            # In turn r, the person with number s + r is at position s.
            person = (np.arange(w) + np.arange(w)[:, None]) % w
            group, name = (codes[:, person].reshape(n * w, w) for codes in (trials.group, trials.name))
            record = np.repeat(trials.order, w, axis=0)
        else:
            group, name = trials.group.reshape(-1, 1), trials.name.reshape(-1, 1)
            record = np.zeros_like(group)
        draw = np.empty(n * w, dtype=np.int64)
        for index, row in enumerate(np.column_stack([template, group, name, record])):
            key = row.tobytes()
            draw[index] = self._asked.get(key, 0)
            self._asked[key] = int(draw[index]) + 1
        return QuestionBatch(template, group, name, record, draw, seed)
