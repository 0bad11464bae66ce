"""The default method: everybody counted, every rule set looked at, chance accounted for by permutations."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evenhand.errors import OptionError
from evenhand.schema import People
from evenhand.subgroup import deep
from evenhand.subgroup.candidates import Counted, count, of_rule_sets
from evenhand.subgroup.cells import cut, cut_entries
from evenhand.subgroup.chance import Maxima
from evenhand.subgroup.config import Config
from evenhand.subgroup.family import Family, family
from evenhand.subgroup.findings import judged, listed
from evenhand.subgroup.floors import Floors, floors
from evenhand.subgroup.judge import Asked, asked
from evenhand.subgroup.measures import Outcome
from evenhand.subgroup.result import Cells, Refused, SubgroupResult
from evenhand.subgroup.standing import ON_TOP, Lot, Standing, stand
from evenhand.subgroup.tabulate import Table, tabulate

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

LARGE = 1 << 16
"""Families whose cube has more counts than this go through the depth-first search, whose kernels then pay for their
compilation."""

MOST = 1 << 20
"""What it does not know is counted by the cube up to this many."""

STOPPED = {"time": "Time was up", "user": "It was stopped"}


@dataclass(frozen=True)
class Looked:
    """What a look at some people gave.

    Attributes:
        lot, standing: the rule sets and what is known of them.
        tested, found: how many groups of people were looked at, and stand out.
        counted: the family counted; None where it was too large for that.
        whole: whether all of the family was looked at.
        notes: what a reader must know of that.
    """

    lot: Lot
    standing: Standing
    tested: int
    found: int
    counted: Counted | None
    whole: bool = True
    notes: tuple[str, ...] = ()


def examine(
    people: People,
    ask: Callable[[], Outcome],
    config: Config,
    *,
    progress: Callable[[str, float], None] | None = None,
    deadline: float | None = None,
) -> SubgroupResult:
    """Search for subgroups whose outcomes differ.

    Args:
        people: everybody.
        ask: gives the outcomes; called once, after what makes no sense was refused.
        config: the settings.
        progress: called with what is being done and the share done.
        deadline: on the clock of ``time.perf_counter``.

    Raises:
        EvenhandError: the options make no sense.
    """
    started = time.perf_counter()
    names = people.schema.protected if config.attributes is None else config.attributes
    cuts, codes = cut(people, names, config.bins)
    stratum = _strata(people, names, config)
    conditions = asked(people, config.judged)
    rules = family(cuts, config.depth)
    _check(rules, config)
    outcome = ask()
    rows, rng = outcome.concerned, np.random.default_rng(config.seed)
    inside = np.array([one.inside[rows] for one in conditions], dtype=bool).reshape(len(conditions), len(rows)).T

    def table(where: Ints, asked_about: Bools) -> Table:
        return tabulate(
            codes[rows[where]],
            outcome.values[where],
            counted=outcome.counted,
            asked=asked_about,
            stratum=None if stratum is None else stratum[rows[where]],
        )

    look = _Look(rules, config, rng, deadline, progress or (lambda what, share: None))
    notes: list[str] = []
    if config.split:
        shuffled = rng.permutation(len(rows))
        first, second = np.sort(shuffled[: len(rows) // 2]), np.sort(shuffled[len(rows) // 2 :])
        chosen = look.at_all(table(first, np.zeros((len(first), 0), bool)))
        measured = table(second, inside[second])
        refused = _refused(measured, conditions, look.floors(measured))
        looked = look.again(measured, chosen, _kept(measured, refused))
        notes.append(
            f"{chosen.found:,} rule sets were chosen on {len(first):,} people and measured on the {len(second):,} "
            f"others: the plain intervals need no adjustment for the search."
        )
    else:
        measured = table(np.arange(len(rows)), inside)
        refused = _refused(measured, conditions, look.floors(measured))
        looked = look.at_all(measured, _kept(measured, refused))
    standing = looked.standing
    interrupted = standing.stopped is not None or not looked.whole
    notes += _notes(looked, rules, config)
    better = -1 if config.measure == "false-negative" else 1
    return SubgroupResult(
        method="exact",
        measure=config.measure,
        against=config.against,
        control=config.control,
        confidence=config.confidence,
        critical=standing.critical,
        margin=config.margin,
        support=config.support,
        least_people=config.least_people,
        people=measured.people,
        rate=float(measured.values.mean()) if measured.people else 0.0,
        rule_sets=rules.size,
        tested=looked.tested,
        found=looked.found,
        attributes=tuple(Cells(name=one.attribute, cells=one.names, ordered=one.ordered) for one in cuts),
        findings=listed(
            looked.lot, standing, most=config.most, margin=config.margin, better=better, counted=looked.counted
        ),
        judged=judged(conditions, refused, looked.lot, standing),
        per=config.per,
        split=config.split,
        interrupted=interrupted,
        notes=tuple(notes),
        seed=config.seed,
        seconds=time.perf_counter() - started,
    )


@dataclass(frozen=True)
class _Look:
    """One family looked at under one set of settings."""

    family: Family
    config: Config
    rng: np.random.Generator
    deadline: float | None
    say: Callable[[str, float], None]

    def floors(self, table: Table) -> Floors:
        return floors(self.config.support, self.config.least_people, table.people)

    def at_all(self, table: Table, asked_about: Bools | None = None) -> Looked:
        """Look at every rule set of the family, and at those asked about (asked, occupied cells)."""
        extra = np.zeros((0, len(table.cells.sizes)), dtype=bool) if asked_about is None else asked_about
        if self.family.cube > LARGE and self.config.control == "max-t" and self.config.against == "rest":
            return self._deep(table, extra)
        self.say("counting", 0.0)
        counted = count(self.family, table, self.floors(table))
        lot = Lot(self.family, table, counted.candidates, extra)
        standing = self._stand(lot)
        number = len(counted.candidates)
        tested, found = int(standing.known[:number].sum()), int(standing.found[:number].sum())
        return Looked(lot, standing, tested, found, counted)

    def again(self, table: Table, chosen: Looked, asked_about: Bools) -> Looked:
        """Look at what stood out among some people, once more among others."""
        rows = np.flatnonzero(chosen.standing.found[: len(chosen.lot.candidates)])
        floor = Floors(1, self.config.least_people)
        again = of_rule_sets(self.family, table, chosen.lot.candidates.at(rows), floor)
        lot = Lot(self.family, table, again, asked_about)
        standing = self._stand(lot)
        found = int(standing.found[: len(again)].sum())
        return Looked(lot, standing, len(again), found, chosen.counted, chosen.whole, chosen.notes)

    def _stand(self, lot: Lot, drawn: Maxima | None = None) -> Standing:
        return stand(
            lot,
            self.config,
            self.rng,
            better=-1 if self.config.measure == "false-negative" else 1,
            drawn=drawn,
            deadline=self.deadline,
            progress=lambda share: self.say("permuting", share),
        )

    def _deep(self, table: Table, asked_about: Bools) -> Looked:
        limits = self.floors(table)
        self.say("preparing (the first use on a machine compiles for some seconds)", 0.0)
        deep.prepare()
        happened = deep.outcomes(table, self.config.permutations, self.rng)
        found = deep.search(
            self.family,
            table,
            happened,
            least=max(limits.share, limits.people),
            least_rest=max(limits.share, limits.people),
            confidence=self.config.confidence,
            margin=self.config.margin,
            keep=ON_TOP,
            time_limit=None if self.deadline is None else max(self.deadline - time.perf_counter(), 0.1),
            seed=self.config.seed,
            progress=lambda share: self.say("permuting", share),
        )
        lot = Lot(self.family, table, deep.listed(self.family, table, found), asked_about)
        whole = found.stop == "done"
        largest = np.maximum(found.maxima, deep.largest(table, happened, asked_about))
        standing = self._stand(lot, Maxima(largest, None if whole else found.stop))
        return Looked(lot, standing, found.tested, found.standing, None, whole, _unseen(found))


def _check(rules: Family, config: Config) -> None:
    """Refuse what cannot be done together."""
    if config.against == "best" and (config.per is not None or config.control != "max-t"):
        raise OptionError(
            "the best other group is chosen by its rate, which only the max-t control without a control variable "
            "accounts for",
            mend="compare with the rest, or use control max-t without per",
        )
    if rules.cube > MOST and (config.against == "best" or config.control != "max-t"):
        raise OptionError(
            f"a cube of {rules.cube:,} counts is too large for control by {config.control} against the "
            f"{config.against}",
            mend="take fewer attributes or bins, or compare with the rest by max-t",
        )


def _strata(people: People, names: Sequence[str], config: Config) -> Ints | None:
    """The stratum of everybody by the control variable."""
    if config.per is None:
        return None
    if config.per in names:
        raise OptionError(
            f"{config.per!r} cannot be both a sensitive attribute and what is controlled for",
            mend="name another control variable, or leave it out of the attributes",
        )
    entries = people.individuals[:, people.schema.position(config.per)]
    _, codes = cut_entries(people.schema[config.per], entries, config.bins)
    return np.unique(codes, return_inverse=True)[1].astype(np.int64)


def _refused(table: Table, conditions: Sequence[Asked], limits: Floors) -> dict[int, Refused]:
    """Which rule sets asked about nothing can be said about, by position."""
    found = {}
    for position, (one, (size, rest)) in enumerate(zip(conditions, table.asked_sizes(), strict=True)):
        reason = limits.reason(size, rest)
        if reason is not None:
            found[position] = Refused(rules=one.rules, words=one.words, size=size, rest=rest, reason=reason)
    return found


def _kept(table: Table, refused: dict[int, Refused]) -> Bools:
    """Which occupied cells the other rule sets asked about hold, shape (asked, cells)."""
    rows = table.asked()
    return rows[[position for position in range(len(rows)) if position not in refused]]


def _unseen(found: deep.Deep) -> tuple[str, ...]:
    """What a depth-first search leaves open."""
    notes = []
    if found.stop != "done":
        seen = f"{found.looked_at:,} of {found.rule_sets:,} rule sets"
        notes.append(f"{STOPPED[found.stop]} after {seen}, the shortest first; what is said holds for those.")
    if not found.counted:
        notes.append("How many different groups were looked at and stand out is estimated, to about 0.1 %.")
    return tuple(notes)


def _notes(looked: Looked, rules: Family, config: Config) -> list[str]:
    notes = list(looked.notes)
    standing = looked.standing
    if standing.stopped is not None and looked.whole:
        done = f"{STOPPED[standing.stopped]} after {standing.permutations:,} of {config.permutations:,} permutations"
        notes.append(f"{done}; what is said holds for those.")
    if looked.tested == 0:
        notes.append(
            f"No rule set holds {config.support:.0%} of the people and at least {config.least_people} on both sides, "
            "so nothing was looked at.".replace("%", " %")
        )
    if config.per is not None:
        notes.append(f"Rates are averages over the values of {config.per}, and compare people who share it.")
    if any(cut.missing for cut in rules.cuts):
        notes.append('People whose value is missing are a value of their own, "missing".')
    return notes
