"""What is asked: every template about one person of each group, names in rotation, both sides with the same seed.

A trial is one template with one person of each of some groups. Where a question is about one person, it takes as many
questions as there are groups. Where a question ranks candidates, as many questions too: the order of the records stays
and the persons move through it, so that each of them has each record and each place once (a Latin square). What a
record or a place is worth then cancels between the groups.
"""

from __future__ import annotations

import math
from typing import NamedTuple, Protocol

import numpy as np

from evenhand.core.typing import Floats, Integers

CHOICE, REFUSED, UNREADABLE, CUT_OFF, FAILED = range(5)
"""Kinds of answers; the last is none at all."""


class QuestionBatch(NamedTuple):
    """Questions to a model, each about c persons: one, or all that are ranked.

    Attributes:
        template: the row of the data, shape (n,).
        group, name: who stands at each place, shape (n, c).
        record: which of the template's records stands there, shape (n, c); 0 where a template is one record.
        draw: how often the same question was asked before, shape (n,).
        seed: for the model's random numbers, shape (n,).
    """

    template: Integers
    group: Integers
    name: Integers
    record: Integers
    draw: Integers
    seed: Integers


class AnswerBatch(NamedTuple):
    """Answers to a batch of questions.

    Attributes:
        value: the outcome of each person, NaN without one, shape (n, c).
        kind: of each answer, shape (n,).
    """

    value: Floats
    kind: Integers


class Respondent(Protocol):
    """Who is asked: a language model with its templates and people, or a simulated one."""

    @property
    def templates(self) -> int:
        """How many templates there are."""
        ...

    @property
    def names(self) -> tuple[int, ...]:
        """How many names, or wordings, each group has."""
        ...

    @property
    def ranks(self) -> bool:
        """Whether a question ranks one candidate of every group."""
        ...

    def ask(self, batch: QuestionBatch) -> AnswerBatch:
        """Return the answers, in the order of the questions."""
        ...


class Trials(NamedTuple):
    """Templates, each with one person of w groups.

    Attributes:
        template, seed: shape (n,).
        group, name, order: who, and for rankings at which record, shape (n, w).
    """

    template: Integers
    group: Integers
    name: Integers
    order: Integers
    seed: Integers


class TrialOutcomes(NamedTuple):
    """The outcome of every person of every trial, NaN without one, and the kind of the answer, each of shape (n, w)."""

    value: Floats
    kind: Integers


class Design:
    """Which names meet which templates.

    The names of a group are used equally often, and none twice in a template before all were used there.

    Args:
        templates: how many there are.
        names: how many names each group has.
        seed: same seed, same trials.
    """

    def __init__(self, templates: int, names: tuple[int, ...], seed: int = 0) -> None:
        self.templates, self.names, self.seed = templates, names, seed
        self._shuffled: dict[tuple[int, int], tuple[Integers, Integers]] = {}

    def sweep(self, number: int) -> Trials:
        """Return the trials of one sweep: every template once, with a person of every group."""
        every, groups = np.arange(self.templates), np.arange(len(self.names))
        return self.trials(every, np.tile(groups, (self.templates, 1)), np.full(self.templates, number))

    def trials(self, template: Integers, group: Integers, sweep: Integers) -> Trials:
        """Return trials with the names that these templates get in some sweeps.

        Args:
            template, sweep: shape (n,).
            group: shape (n, w).
        """
        used = np.unique(sweep)
        where = np.searchsorted(used, sweep)
        names = np.stack([self.names_in(int(number)) for number in used])
        seeds, orders = zip(*(self._chance(int(number), group.shape[1]) for number in used), strict=True)
        return Trials(
            template,
            group,
            names[where[:, None], template[:, None], group],
            np.stack(orders)[where, template],
            np.stack(seeds)[where, template],
        )

    def again(self, trials: Trials) -> Trials:
        """Return the same trials with other seeds: the same questions, asked again."""
        return trials._replace(seed=np.random.default_rng([self.seed, 3]).integers(2**31, size=len(trials.seed)))

    def names_in(self, sweep: int) -> Integers:
        """Return which name each template has in a sweep for each group, shape (templates, groups).

        In sweep k the template at position p has the name ``k T + k // (N / gcd(T, N)) + p`` modulo N: the sweeps lay
        the names around a circle without gaps, so that after each of them no name was used more than once more often
        than another, and a template meets all N before one comes again. Positions and names are shuffled for each
        group, and every N sweeps; every second group goes around the other way, so that pairs of names change too.
        """
        columns = []
        for group, count in enumerate(self.names):
            cycle, k = divmod(sweep, count)
            position, name = self._shuffles(group, cycle)
            step = k * self.templates + k // (count // math.gcd(self.templates, count))
            columns.append(name[(position + (-step if group % 2 else step)) % count])
        return np.stack(columns, axis=1)

    def _shuffles(self, group: int, cycle: int) -> tuple[Integers, Integers]:
        """Return the templates' positions and the names' order in a cycle of sweeps."""
        if (group, cycle) not in self._shuffled:
            rng = np.random.default_rng([self.seed, 0, group, cycle])
            self._shuffled[group, cycle] = rng.permutation(self.templates), rng.permutation(self.names[group])
        return self._shuffled[group, cycle]

    def _chance(self, sweep: int, width: int) -> tuple[Integers, Integers]:
        """Return the seed and the order of records of every template in a sweep."""
        rng = np.random.default_rng([self.seed, 1, sweep])
        seeds = rng.integers(2**31, size=self.templates)
        return seeds, rng.permuted(np.tile(np.arange(width), (self.templates, 1)), axis=1)


class Interviewer:
    """Asks the questions of trials, and counts them.

    Args:
        respondent: who is asked.
        excluded: whether an answer that is no choice has no outcome; otherwise it is the least favourable one, 0.
    """

    def __init__(self, respondent: Respondent, *, excluded: bool = False) -> None:
        self.respondent, self.excluded = respondent, excluded
        self.calls = 0
        self._asked: dict[bytes, int] = {}

    def ask(self, trials: Trials) -> TrialOutcomes:
        """Return the outcomes of trials. A question that was asked before gets the next draw."""
        batch = self.questions(trials)
        self.calls += len(batch.template)
        value, kind = self.respondent.ask(batch)
        if not self.excluded:
            value = np.where(((kind != CHOICE) & (kind != FAILED))[:, None], 0.0, value)
        n, w = trials.group.shape
        if not self.respondent.ranks:
            return TrialOutcomes(value.reshape(n, w), kind.reshape(n, w))
        turn, person = np.arange(w)[:, None], np.arange(w)
        worst = np.tile(kind.reshape(n, w).max(axis=1)[:, None], (1, w))
        return TrialOutcomes(value.reshape(n, w, w)[:, turn, (person - turn) % w].mean(axis=1), worst)

    def questions(self, trials: Trials) -> QuestionBatch:
        """Return the questions of trials, each with its draw."""
        n, w = trials.group.shape
        template, seed = np.repeat(trials.template, w), np.repeat(trials.seed, w)
        if self.respondent.ranks:
            # In turn r the person at place s is the one of number s + r.
            here = (np.arange(w) + np.arange(w)[:, None]) % w
            group, name = (part[:, here].reshape(n * w, w) for part in (trials.group, trials.name))
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
