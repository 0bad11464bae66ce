"""Which rule sets are listed, in what order, and what is said of each."""

from __future__ import annotations

from collections import Counter

import numpy as np
from numpy.typing import NDArray

from evenhand.subgroup.candidates import Counted
from evenhand.subgroup.cells import Cut
from evenhand.subgroup.judge import Asked
from evenhand.subgroup.nesting import parents
from evenhand.subgroup.result import Finding, Refused
from evenhand.subgroup.rules import Rules, RuleSet, words
from evenhand.subgroup.standing import ON_TOP, Lot, Standing

Ints = NDArray[np.int64]

SAID = 5
"""Other descriptions of the same people that are listed."""


def listed(
    lot: Lot, standing: Standing, *, most: int, margin: float, better: int, counted: Counted | None = None
) -> tuple[Finding, ...]:
    """The findings in order: the clearest that stand on their own, what they explain, and then what does not stand out.

    Args:
        lot, standing: the rule sets and what is known of them.
        most: how many.
        margin: a refinement that moves the rate by less says nothing new.
        better: 1 if a higher value is better for people, else -1.
        counted: the family, to tell other descriptions of the same people.
    """
    number = len(lot.candidates)
    known = standing.closely[standing.closely < number]
    known = known[standing.known[known]]
    order = known[np.lexsort((-np.abs(standing.z[known]), -standing.certain[known]))]
    stands = order[standing.found[order]]
    nested = stands[:ON_TOP]
    above = np.full(number, -1, dtype=np.int64)
    if len(nested):
        up = parents(
            lot.family,
            lot.candidates.at(nested),
            better * standing.gap[nested],
            standing.certain[nested],
            critical=standing.critical,
            margin=margin,
            counted=lot.table.counted,
        )
        above[nested] = np.where(up >= 0, nested[np.maximum(up, 0)], -1)
    kept: list[int] = nested[above[nested] < 0][:most].tolist()
    inside = set(kept)
    # Those explained are listed where the one above them is; it may be explained itself, so go round until none is new.
    # The findings above take turns, or a single one could fill the list with what it explains.
    waiting = _in_turns(nested[above[nested] >= 0], above)
    while len(kept) < most and (new := [i for i in waiting if above[i] in inside and i not in inside]):
        kept += new[: most - len(kept)]
        inside.update(kept)
    kept += order[~standing.found[order]][: most - len(kept)].tolist()
    place = {int(i): position for position, i in enumerate(order.tolist())}
    kept.sort(key=place.__getitem__)
    position = {i: at for at, i in enumerate(kept)}
    every = {cut.attribute: cut.names for cut in lot.family.cuts}
    found = []
    for i in kept:
        chosen = lot.candidates.chosen[i]
        rules = lot.family.describe(chosen)
        alike = counted.same(lot.family, chosen, SAID) if counted is not None and lot.candidates.copies[i] > 1 else ()
        found.append(
            finding(
                standing,
                i,
                rules,
                words(rules, every),
                lot.family.cuts,
                counted=lot.table.counted,
                under=position.get(int(above[i])),
                same=tuple(RuleSet(rules=lot.family.describe(row)) for row in alike),
                others=int(lot.candidates.copies[i]) - 1,
            )
        )
    return tuple(found)


def _in_turns(explained: Ints, above: Ints) -> list[int]:
    """The clearest of each finding above, then the second of each, and so on."""
    turn: Counter[int] = Counter()
    turns = []
    for i in explained.tolist():
        turns.append(turn[int(above[i])])
        turn[int(above[i])] += 1
    return explained[np.argsort(turns, kind="stable")].tolist() if turns else []


def finding(
    standing: Standing,
    i: int,
    rules: Rules,
    said: str,
    cuts: tuple[Cut, ...],
    *,
    counted: bool,
    under: int | None = None,
    same: tuple[RuleSet, ...] = (),
    others: int = 0,
) -> Finding:
    """What is known of one rule set, in the words of its rules."""
    groups, rates = standing.groups.at(np.array([i])), standing.rates
    part = groups.compared[0]
    versus = None
    if standing.versus is not None:
        cells = zip(cuts, standing.versus[i], strict=True)
        versus = RuleSet(
            rules={cut.attribute: cut.rule(np.arange(len(cut.names)) == cell) for cut, cell in cells if cell >= 0}
        )
    return Finding(
        rules=rules,
        words=said,
        size=round(float(groups.size[0][part].sum())),
        rest=round(float(groups.rest[0][part].sum())),
        positives=round(float(groups.total[0][part].sum())) if counted else None,
        rest_positives=round(float(groups.rest_total[0][part].sum())) if counted else None,
        rate=float(rates[0][i]),
        rest_rate=float(rates[1][i]),
        gap=float(standing.gap[i]),
        low=float(standing.low[i]),
        high=float(standing.high[i]),
        plain_low=float(standing.plain_low[i]),
        plain_high=float(standing.plain_high[i]),
        z=float(standing.z[i]),
        adjusted_p=float(standing.p[i]),
        found=bool(standing.found[i]),
        under=under,
        same=same,
        others=others,
        versus=versus,
    )


def judged(
    conditions: tuple[Asked, ...], refused: dict[int, Refused], lot: Lot, standing: Standing
) -> tuple[Finding | Refused, ...]:
    """What is said of each rule set that was asked about, in the order of asking.

    Args:
        conditions: the rule sets.
        refused: by position, those that nothing is said about.
        lot, standing: the others, after the candidates.
    """
    answers: list[Finding | Refused] = []
    at = len(lot.candidates)
    for position, one in enumerate(conditions):
        if position in refused:
            answers.append(refused[position])
            continue
        if standing.known[at]:
            answers.append(finding(standing, at, one.rules, one.words, lot.family.cuts, counted=lot.table.counted))
        else:
            size, rest = int(standing.groups.size[at].sum()), lot.table.people
            answers.append(
                Refused(
                    rules=one.rules,
                    words=one.words,
                    size=size,
                    rest=rest - size,
                    reason="no other group is large enough to compare it with",
                )
            )
        at += 1
    return tuple(answers)
