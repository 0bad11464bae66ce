"""The declared search space, walked through: every candidate as a source of scores and a rule."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.mitigation.alternatives.config import Family, GapName
from evenhand.mitigation.alternatives.gaps import CONDITIONS
from evenhand.mitigation.alternatives.rules import (
    AcceptanceRule,
    GroupCutoffs,
    OwnDecision,
    RuleInputs,
    Tilt,
    tilt_features,
)
from evenhand.mitigation.alternatives.sources import FOLDS, STRENGTHS, ScoreSource

TILTED_STRENGTHS = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0)
"""Strengths of reweighing whose scores are tilted as well."""

WEIGHTS = tuple(tenth / 10 for tenth in range(1, 10))
"""Probabilities with which a lot decides by thresholds that close the gap."""


@dataclass(frozen=True, eq=False)
class CandidateRecipe:
    """A candidate.

    Attributes:
        method: its family, or ``given`` or ``refit``. recipe: what was done, in words.
        settings: its numbers by name. source, rule: what it decides with.
        cross_fitted: its decisions about the validation people, shape (n,), where the rule was fitted on their labels:
            those of rules that were fitted without them.
    """

    method: str
    recipe: str
    settings: dict[str, float]
    source: ScoreSource
    rule: AcceptanceRule
    cross_fitted: Booleans | None = None

    def accepts_known(self, known: RuleInputs) -> Booleans:
        """Return decisions about the validation people, none made by a rule that was fitted on one's own label."""
        return self.rule.accepts(known) if self.cross_fitted is None else self.cross_fitted

    @property
    def keeps_format(self) -> bool:
        """Whether it is a model of the given one's kind, written as such."""
        return self.source.save is not None and isinstance(self.rule, OwnDecision)


@dataclass(frozen=True, eq=False)
class SearchSpace:
    """What proposals are made for.

    Attributes:
        against: the gap. families: which are searched.
        group, favourable: of the validation people, shape (n,); groups: how many groups there are.
        fold: which of ``FOLDS`` each is in, shape (n,).
        membership: cross-fitted probability of each group, shape (n, groups); None where nothing is tilted.
        tells_group: whether a rule may be told the group. seed: of everything drawn.
    """

    against: GapName
    families: tuple[Family, ...]
    group: Integers
    favourable: Booleans
    groups: int
    fold: Integers
    membership: Floats | None
    tells_group: bool
    seed: int

    def propose(self, sources: Sequence[ScoreSource]) -> Iterator[CandidateRecipe]:
        """Yield every candidate of these sources, the given model first."""
        for source in sources:
            settings = {} if source.strength is None else {"strength": source.strength}
            yield CandidateRecipe(source.name, describe_source(source), settings, source, OwnDecision())
        # The given model may read what is to be hidden: then what is made of it is made of the one asked alike.
        scored = [one for one in sources if one.name != "given" or not any(two.name == "untold" for two in sources)]
        scored = [one for one in scored if not one.scorer.label_only]
        for source in scored:
            if "tilt" in self.families and (source.strength is None or source.strength in TILTED_STRENGTHS):
                yield from self._tilt(source, told=False)
        for source in scored if self.tells_group else ():
            if source.strength:
                continue
            if "thresholds" in self.families:
                yield from self._tilt(source, told=True)
                yield from self._free_thresholds(source)
            if "lot" in self.families and source.strength is None:
                yield from self._lots(source)

    def _evidence(self, source: ScoreSource) -> RuleInputs:
        return source.known._replace(group=self.group, membership=self.membership)

    def _tilt(self, source: ScoreSource, *, told: bool) -> Iterator[CandidateRecipe]:
        conditions = CONDITIONS[self.against]
        shares = np.array(
            [
                np.bincount(self.group, weights=None if one is None else self.favourable == one, minlength=self.groups)
                / len(self.group)
                for one in conditions
            ]
        )
        rng = np.random.default_rng([self.seed, 63])
        path = tilt_path(self._evidence(source), conditions, shares, told=told, rng=rng)
        for number, (words, rule) in enumerate(path):
            settings = {"step": float(number)} | ({} if source.strength is None else {"strength": source.strength})
            method = "thresholds" if told else "reweigh x tilt" if source.strength else "tilt"
            kind = "thresholds of one price per group" if told else "tilted without being told the group"
            yield CandidateRecipe(method, f"{describe_source(source)}, {kind}, {words}", settings, source, rule)

    def _cutoffs(self, source: ScoreSource) -> list[tuple[str, GroupCutoffs, list[GroupCutoffs]]]:
        """Return free thresholds for every step, in words, of all people, and of all people but each fold."""
        known, conditions = self._evidence(source), CONDITIONS[self.against]

        def path(rows: Integers) -> list[tuple[str, GroupCutoffs]]:
            return list(
                threshold_path(known.at(rows), self.group[rows], self.favourable[rows], conditions, self.groups)
            )

        whole = path(np.arange(len(self.group)))
        parts = [path(np.flatnonzero(self.fold != one)) or whole for one in range(FOLDS if whole else 0)]
        return [(words, rule, [part[step][1] for part in parts]) for step, (words, rule) in enumerate(whole)]

    def _cross_fit(self, source: ScoreSource, rules: Sequence[AcceptanceRule]) -> Booleans:
        """Return decisions about everybody by the rule fitted without the fold that they are in, shape (n,)."""
        known = self._evidence(source)
        return np.stack([rule.accepts(known) for rule in rules])[self.fold, np.arange(len(self.fold))]

    def _free_thresholds(self, source: ScoreSource) -> Iterator[CandidateRecipe]:
        for number, (words, rule, parts) in enumerate(self._cutoffs(source)):
            by_lot = ", some by lot" if rule.is_random else ""
            recipe = f"{describe_source(source)}, free thresholds by group{by_lot}, {words}"
            settings = {"step": float(number)}
            yield CandidateRecipe("thresholds", recipe, settings, source, rule, self._cross_fit(source, parts))

    def _lots(self, source: ScoreSource) -> Iterator[CandidateRecipe]:
        for _, closing, parts in self._cutoffs(source)[-1:]:
            for weight in WEIGHTS:
                rule, *others = (GroupCutoffs(one.cuts, weight) for one in (closing, *parts))
                words = f"{describe_source(source)}, thresholds that close the gap for a lot of {100 * weight:.0f} %"
                yield CandidateRecipe("lot", words, {"weight": weight}, source, rule, self._cross_fit(source, others))


def describe_source(source: ScoreSource) -> str:
    """Return what a source is, in words."""
    if source.name == "untold":
        return "the given model, told the same about everybody"
    if source.strength is None:
        return "the given model"
    if source.strength == 0:
        return "fitted again with nothing changed"
    return f"fitted again, reweighed with strength {source.strength:g}"


def describe_space(families: Sequence[Family], *, tells_group: bool, fits: bool) -> tuple[str, ...]:
    """Return the declared search space, a sentence for each family."""
    found = ["given: the model as it is, candidate 0"]
    if fits:
        found.append("refit: its kind fitted again with nothing changed")
        if "reweigh" in families:
            found.append(
                "reweigh: its kind fitted by weights (P(group) P(label) / P(group, label))^strength, strengths "
                f"{', '.join(f'{one:g}' for one in STRENGTHS[1:])}"
            )
    if "tilt" in families:
        tilted = "given" + (" and fitted models" if fits else "")
        strengths = ", ".join(f"{one:g}" for one in TILTED_STRENGTHS[1:])
        also = f" and of strengths {strengths}" if fits and "reweigh" in families else ""
        found.append(
            f"tilt: scores of the {tilted}{also}, accepted where the gain exceeds the price of the learnt probability "
            f"of each group, {len(LEVELS) + len(BEYOND)} steps"
        )
    if "thresholds" in families:
        found.append(
            f"thresholds: one price per group, {len(LEVELS) + len(BEYOND)} steps, and free thresholds for every group, "
            f"{len(LEVELS)} steps"
        )
    if "lot" in families:
        found.append(f"lot: thresholds that close the gap for a fixed lot of people, {len(WEIGHTS)} probabilities")
    if not tells_group:
        found = [one for one in found if not one.startswith(("thresholds:", "lot:"))]
        found.append("left out, because they must be told the group when they decide: thresholds, lot")
    if fits:
        found.append(f"scores and free thresholds are cross-fitted in {FOLDS} parts of the validation people")
    return tuple(found)


# Linear programs for the best rules at every size of the gap: prices of a tilt, thresholds of the groups.


PEOPLE = 2_000
"""People that prices are worked out on: drawn at random where there are more."""

LEVELS = (0.95, 0.9, 0.85, 0.8, 0.75, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.0)
"""Gaps aimed at, as shares of the gap of the model itself: close together where little accuracy is lost."""

BEYOND = (1.25, 1.5, 2.0)
"""How far prices go beyond those that close the gap as the model sees it: it may see less of it than there is."""

CUTS = 80
"""Thresholds that each group chooses among, at equal shares of its people."""


class _Solution(NamedTuple):
    amounts: Floats
    prices: Floats
    gap: float


def _maximise(gain: Floats, rates: Floats, blocks: int, most: float, extra: Any = None) -> _Solution:
    """Maximise ``gain x`` over x in [0, 1] so that within each block of rows of ``rates x`` all differ by ``most``.

    One free number per block is its lowest rate. The prices are the multipliers of the rows: by how much a wider range
    would raise the gain, with the sign of the end that binds; they add up to 0 in each block.

    Args:
        gain: shape (variables,). rates: shape (blocks * groups, variables), or sparse.
        extra: rows of x that add up to 1 each, or None.
    """
    from scipy.optimize import linprog
    from scipy.sparse import csr_array, hstack, vstack

    rows, groups = rates.shape[0], rates.shape[0] // blocks
    lowest = np.kron(np.eye(blocks), np.ones((groups, 1)))
    above = hstack([csr_array(rates), -csr_array(lowest)])  # rate - lowest <= most
    below = -above  # lowest - rate <= 0
    equal = {}
    if extra is not None:
        equal = {
            "A_eq": hstack([csr_array(extra), csr_array((extra.shape[0], blocks))]),
            "b_eq": np.ones(extra.shape[0]),
        }
    found = linprog(
        -np.concatenate([gain, np.zeros(blocks)]),
        A_ub=vstack([above, below]).tocsr(),
        b_ub=np.concatenate([np.full(rows, most), np.zeros(rows)]),
        bounds=[(0, 1)] * len(gain) + [(None, None)] * blocks,
        method="highs",
        **equal,
    )
    marginals = -np.asarray(found.ineqlin.marginals)
    amounts = np.asarray(found.x[: len(gain)])
    return _Solution(amounts, marginals[:rows] - marginals[rows:], most)


def _widest(rates: Floats, blocks: int) -> float:
    return float(np.ptp(rates.reshape(blocks, -1), axis=1).max())


def tilt_path(
    known: RuleInputs, conditions: tuple[bool | None, ...], shares: Floats, *, told: bool, rng: np.random.Generator
) -> Iterator[tuple[str, Tilt]]:
    """Yield tilts that narrow the gap more and more, with a word for how far.

    The prices are the multipliers of the program that gains the most, ``mean((2 p - 1) z)`` over decisions z, with
    rates at most so far apart. Rates are what the scores and the groups' probabilities make of them.

    Args:
        known: about people whose scores were not learnt from their own labels.
        conditions, shares, told: as in ``Tilt``.
        rng: draws the people that prices are worked out on, where there are more than ``PEOPLE``.
    """
    n = len(known.score)
    some = rng.permutation(n)[:PEOPLE]
    features = tilt_features(known, conditions, shares, told=told)[some] / len(some)
    gain = (2 * known.score[some] - 1) / len(some)
    widest = _widest(features.T @ (gain > 0), len(conditions))

    def tilted(prices: Floats) -> Tilt:
        # Acceptance pays 2 p - 1 there and p - 1/2 here.
        return Tilt(conditions, prices.reshape(len(conditions), -1) / 2, shares, told)

    prices = np.zeros(features.shape[1])
    for level in LEVELS if widest > 0 else ():
        prices = _maximise(gain, features.T, len(conditions), level * widest).prices
        yield f"towards {level:.0%} of the gap".replace("%", " %"), tilted(prices)
    for factor in BEYOND if prices.any() else ():
        yield f"{factor:g} times the prices that close it", tilted(factor * prices)


class _Curve(NamedTuple):
    """One group: thresholds, and at each how many are accepted rightly and the rates, shape (conditions, cuts)."""

    thresholds: Floats
    right: Floats
    rates: Floats


def _trace_curve(score: Floats, favourable: Booleans, conditions: Sequence[bool | None], n: int) -> _Curve:
    ascending = np.sort(score)
    middle = (ascending[1:] + ascending[:-1]) / 2
    places = np.unique(np.linspace(0, len(middle) - 1, CUTS).astype(np.int64))
    thresholds = np.unique(np.concatenate([[-1.0, 0.5, 2.0], middle[places]]))
    accepted = score > thresholds[:, None]
    right = (accepted == favourable).sum(axis=1) / n
    among = [np.ones_like(favourable) if one is None else favourable == one for one in conditions]
    return _Curve(thresholds, right, np.array([accepted[:, here].mean(axis=1) for here in among]))


def threshold_path(
    known: RuleInputs, group: Integers, favourable: Booleans, conditions: tuple[bool | None, ...], groups: int
) -> Iterator[tuple[str, GroupCutoffs]]:
    """Yield thresholds for every group that narrow the gap more and more, with a word for how far.

    A program over the groups' curves: each group mixes points of its curve, as many are decided rightly as possible,
    and rates are at most so far apart. Where a single rate is to be alike, a mixture of points is a threshold between
    them; where two are, some of the people between them are decided by lot (Hardt, Price, Srebro, "Equality of
    opportunity in supervised learning", NIPS 2016).

    Args:
        known: about people whose scores were not learnt from their own labels.
        group, favourable: of the same people, shape (n,).
        conditions: as in ``Tilt``.
        groups: how many there are.
    """
    curves = [
        _trace_curve(known.score[group == one], favourable[group == one], conditions, len(group))
        for one in range(groups)
    ]
    from scipy.linalg import block_diag

    rates = np.concatenate([block_diag(*(curve.rates[c] for curve in curves)) for c in range(len(conditions))])
    gain = np.concatenate([curve.right for curve in curves])
    together = block_diag(*(np.ones(len(curve.thresholds)) for curve in curves))
    own = np.concatenate([curve.thresholds == 0.5 for curve in curves])
    widest = _widest(rates @ own, len(conditions))
    ends = np.cumsum([len(curve.thresholds) for curve in curves])[:-1]
    for level in LEVELS if widest > 0 else ():
        mixed = _maximise(gain, rates, len(conditions), level * widest, together).amounts
        cuts = [
            _choose_cuts(curve, amounts, known.score[group == one], favourable[group == one], conditions)
            for one, (curve, amounts) in enumerate(zip(curves, np.split(mixed, ends), strict=True))
        ]
        yield f"{level:.0%} of the gap".replace("%", " %"), GroupCutoffs(tuple(cuts))


def _choose_cuts(
    curve: _Curve, amounts: Floats, score: Floats, favourable: Booleans, conditions: Sequence[bool | None]
) -> tuple[tuple[float, float], ...]:
    """Return the thresholds of one group from the mixture of points on its curve."""
    used = np.flatnonzero(amounts > 1e-9)
    if len(used) > 1 and len(conditions) > 1:
        share = amounts[used] / amounts[used].sum()
        return tuple(zip(map(float, share), map(float, curve.thresholds[used]), strict=True))
    if len(used) == 1:
        return ((1.0, float(curve.thresholds[used[0]])),)
    # One rate alone: the threshold that gives the mixture's rate.
    condition = conditions[0]
    among = np.sort(score if condition is None else score[favourable == condition])
    place = round((1 - float(amounts @ curve.rates[0])) * len(among))
    padded = np.concatenate([[-1.0], among, [2.0]])
    return ((1.0, float((padded[place] + padded[place + 1]) / 2)),)
