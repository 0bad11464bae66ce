"""What fairness costs: one network per strength of the penalty, its accuracy beside its unfairness."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from evenhand.errors import LimitError, OptionError
from evenhand.individual.flips import disagree, labels_by_assignment
from evenhand.mitigate.choice import accuracy
from evenhand.mitigate.split import Split, split
from evenhand.mitigate.training.frontier_result import FrontierPoint, FrontierResult
from evenhand.mitigate.training.groups import joint_groups
from evenhand.mitigate.training.losses import loss
from evenhand.models import Scorer, predict
from evenhand.schema import People
from evenhand.stats import (
    Observed,
    Proved,
    Quantity,
    Unknown,
    auc,
    largest_difference_of_proportions,
    observed_rate,
)

if TYPE_CHECKING:
    from evenhand.mitigate.training.fair_classifier import FairClassifier

GAP = "widest of all pairs, square and add"


def frontier(
    people: People | Split,
    method: str,
    *,
    strengths: Sequence[float] | None = None,
    given: Scorer | None = None,
    sees_protected: bool | None = None,
    seed: int = 0,
    confidence: float = 0.95,
    time_limit: float | None = None,
    data_name: str = "data",
    compared_on: str | None = None,
    progress: Callable[[str, float], None] | None = None,
    **parameters: Any,
) -> FrontierResult:
    """Train one network per strength and measure each on people whom none learnt from.

    Nothing is chosen here: every strength is shown, so the numbers on the people kept aside are what they seem.

    Args:
        people: with true labels, or a split of them; the train part is learnt from, the test part measured on.
        method: of `FairClassifier`.
        strengths: of the penalty, tried in this order; None: 0 and the method's own.
        given: a model to draw beside them.
        sees_protected: whether the networks are given the protected attributes; None: as the method's candidates are.
        seed: of the split and of every training.
        confidence: of every interval.
        time_limit: seconds; what was trained by then is shown.
        data_name, compared_on: how to call the people; other people, where the test part is such.
        progress: called with what is being done and the share of the work done, 0 to 1.
        parameters: more parameters of `FairClassifier`, such as ``hidden`` and ``steps``; where not given, those of the
            method's candidates.

    Raises:
        EvenhandError: the method, a strength or the people cannot be used.
        LimitError: time was up, or somebody stopped it, before there was any network.
    """
    from evenhand.mitigate.training.candidates import RECIPES, SMALL, SMALL_STEPS
    from evenhand.mitigate.training.fair_classifier import FairClassifier

    started = time.perf_counter()
    deadline = None if time_limit is None else started + time_limit
    teacher = loss(method)
    wanted = tuple(dict.fromkeys((0.0, *teacher.sweep) if strengths is None else strengths))
    if not wanted:
        raise OptionError("a frontier needs at least one strength")
    parts = people if isinstance(people, Split) else split(people, seed=seed)
    if not parts.train.schema.protected:
        raise OptionError("no attribute is protected", mend="name at least one: --protected NAME")
    sees = RECIPES[method].sees_protected if sees_protected is None else sees_protected
    if RECIPES[method].by_person:
        parameters = {"hidden": SMALL, "steps": SMALL_STEPS} | parameters
    measure = _Measure(parts.test, confidence)
    points: list[FrontierPoint] = []
    stopped = False
    for number, strength in enumerate(wanted):
        model = FairClassifier(
            method, strength=strength, schema=parts.train.schema, sees_protected=sees, seed=seed, **parameters
        )
        model, done = _fit(model, parts.train, deadline, progress, number, len(wanted))
        stopped = not done
        if stopped:
            break
        points.append(measure.point(model.network_, strength, blind=not sees))
    if not points:
        raise LimitError("no network was trained before it was stopped", mend="give it more time: --time-limit")
    return FrontierResult(
        method=method,
        data=data_name,
        compared_on=compared_on,
        favourable=str(parts.train.schema.target.favourable),
        protected=parts.train.schema.protected,
        sees_protected=sees,
        train=len(parts.train),
        test=len(parts.test),
        confidence=confidence,
        points=_with_frontier(points),
        given=None if given is None else measure.point(given, None),
        interrupted=stopped,
        seed=seed,
        seconds=time.perf_counter() - started,
    )


def _fit(
    model: FairClassifier,
    people: People,
    deadline: float | None,
    progress: Callable[[str, float], None] | None,
    number: int,
    of: int,
) -> tuple[FairClassifier, bool]:
    """The trained network, and whether nobody stopped it."""
    from evenhand.mitigate.training.candidates import EVERY, truly

    def each(step: int) -> None:
        if progress is not None and step % EVERY == 0:
            progress(f"training with strength {model.strength:g}", (number + step / model.steps) / of)

    model.fit(people.individuals, truly(people), deadline=deadline, each=each)
    return model, not model.interrupted_


class _Measure:
    """Accuracy, AUC, gap and flips on the same people."""

    def __init__(self, people: People, confidence: float) -> None:
        self._people = people
        self._confidence = confidence
        self._schema = people.schema
        self._groups = joint_groups(self._schema, people.individuals, self._schema.protected)

    def point(self, model: Scorer, strength: float | None, *, blind: bool = False) -> FrontierPoint:
        """Everything about one model."""
        people, n = self._people, len(self._people)
        favoured = predict(model, people.individuals) == model.favourable
        return FrontierPoint(
            strength=strength,
            accuracy=observed_rate(round(accuracy(model, people) * n), n, self._confidence),
            auc=auc(model.scores(people.individuals)[:, model.favourable], people.favourable, self._confidence),
            gap=self._gap(favoured),
            flips=Proved(value=0.0, how="the network is not given what is protected") if blind else self._flips(model),
            favoured=observed_rate(int(favoured.sum()), n, self._confidence),
        )

    def _gap(self, favoured: np.ndarray[Any, np.dtype[np.bool_]]) -> Quantity:
        known = self._groups >= 0
        n = np.bincount(self._groups[known])
        k = np.bincount(self._groups[known], weights=favoured[known])
        if len(n) < 2:
            return Unknown(reason="there are not two groups with people enough")
        low, high = largest_difference_of_proportions(k, n, self._confidence)
        return Observed(
            value=float((k / n).max() - (k / n).min()), n=int(n.sum()), low=low, high=high,
            confidence=self._confidence, method=GAP,
        )  # fmt: skip

    def _flips(self, model: Scorer) -> Quantity:
        names = self._schema.protected
        try:
            assignments = self._schema.assignments(names)
        except OptionError as error:
            return Unknown(reason=error.what)
        labels = labels_by_assignment(model, self._people.individuals, self._schema.positions(names), assignments)
        return observed_rate(int(disagree(labels).sum()), len(labels), self._confidence)


def _with_frontier(points: list[FrontierPoint]) -> tuple[FrontierPoint, ...]:
    """Points that no other beats: none is as accurate and as fair, and better in one of the two."""

    def beaten(one: FrontierPoint) -> bool:
        return any(
            other.place[0] >= one.place[0] and other.place[1] <= one.place[1] and other.place != one.place
            for other in points
        )

    return tuple(point.model_copy(update={"on_frontier": not beaten(point)}) for point in points)
