"""The given model beside new ones, on people whom no method looked at."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from evenhand.mitigate.candidate import Candidate
from evenhand.mitigate.config import Config
from evenhand.mitigate.harms import FlipHarm, GapHarm, Harm
from evenhand.mitigate.result import CandidateResult, Change, Line
from evenhand.mitigate.split import Split
from evenhand.models import Scorer, predict
from evenhand.schema import People
from evenhand.stats import observed_rate
from evenhand.stats.paired import PairedCells, contrast, mcnemar, paired_difference

Bools = NDArray[np.bool_]


def compare(
    given: Scorer,
    candidates: Sequence[Candidate],
    split: Split,
    harms: Sequence[Harm],
    *,
    config: Config,
    progress: Callable[[str, float], None] | None = None,
) -> tuple[CandidateResult, ...]:
    """Every candidate beside the given model, line by line, on the test people."""
    return tuple(_candidate(given, candidate, split.test, harms, config) for candidate in candidates)


def _candidate(
    given: Scorer, candidate: Candidate, test: People, harms: Sequence[Harm], config: Config
) -> CandidateResult:
    confidence = 1 - (1 - config.confidence) / (1 + len(harms))
    right = [_right(scorer, test) for scorer in (given, candidate.scorer)]
    lines = [_paired("performance", "accuracy", "", "accuracy", *right, "up", config.confidence, confidence)]
    for harm in harms:
        if isinstance(harm, FlipHarm):
            flips = [harm.flips(scorer, test) for scorer in (given, candidate.scorer)]
            of = " x ".join(harm.protected)
            lines.append(
                _paired("asked", "violation_rate", of, harm.words, *flips, "down", config.confidence, confidence)
            )
        else:
            lines.append(_gap(harm, given, candidate.scorer, test, config.confidence, confidence))
    return CandidateResult(
        method=candidate.method, words=candidate.words, control=candidate.control, lines=tuple(lines),
        trials=candidate.trials, interrupted=candidate.interrupted, notes=candidate.notes,
    )  # fmt: skip


def _right(scorer: Scorer, people: People) -> Bools:
    values = people.schema.target.values
    assert people.labels is not None and values is not None
    labels = np.array([values.index(label) for label in scorer.classes])[predict(scorer, people.individuals)]
    return np.asarray(labels == people.labels)


def _paired(part, name, of, words, before: Bools, after: Bools, better_if, confidence, adjusted) -> Line:
    n, gained, lost = len(before), int((after & ~before).sum()), int((before & ~after).sum())
    low, high = paired_difference(gained, lost, n, adjusted)
    change = Change(value=(gained - lost) / n, low=low, high=high, confidence=adjusted, p=mcnemar(gained, lost), n=n,
                    method="Tango's score interval and McNemar's exact test")  # fmt: skip
    first, second = (observed_rate(int(x.sum()), n, confidence=confidence) for x in (before, after))
    return Line(part=part, name=name, of=of, words=words, before=first, after=second, change=change,
                better_if=better_if, verdict=_verdict(change, better_if))  # fmt: skip


def _gap(harm: GapHarm, given: Scorer, new: Scorer, test: People, confidence, adjusted) -> Line:
    from evenhand.stats import Observed, newcombe

    inside = harm.inside(test)
    answers = [predict(scorer, test.individuals) == scorer.favourable for scorer in (given, new)]
    cells = PairedCells.count(inside.astype(np.int64), *answers, 2)
    sizes = []
    for yes in answers:
        gap = abs(float(yes[inside].mean() - yes[~inside].mean()))
        low, high = newcombe(yes[inside].sum(), inside.sum(), yes[~inside].sum(), (~inside).sum(), confidence)
        sizes.append(Observed(value=gap, n=len(test), low=max(0, min(abs(low), abs(high)) if low * high > 0 else 0),
                              high=max(abs(low), abs(high)), confidence=confidence, method="Newcombe"))  # fmt: skip
    low, high = contrast(cells, [-1, 1], [-1, 1], adjusted)
    change = Change(value=sizes[1].value - sizes[0].value, low=-1, high=1, confidence=adjusted, n=len(test), method="")
    return Line(part="asked", name="subgroup_gap", of=harm.words.removeprefix("the gap of "), words=harm.words,
                before=sizes[0], after=sizes[1], change=change, better_if="down", verdict=_verdict(change, "down"))  # fmt: skip


def _verdict(change: Change, better_if):
    if change.low <= 0 <= change.high:
        return "within noise"
    return "better" if (change.low > 0) == (better_if == "up") else "worse"
