"""What fairness costs: one network per strength of the penalty, its accuracy beside its unfairness."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from evenhand.core import Block, Column, Document, Figure, Heading, Note, Result, ResultPart, Table, TableRow, Text
from evenhand.errors import LimitError, OptionError
from evenhand.individual import find_flips, labels_by_assignment
from evenhand.mitigation.candidate import accuracy
from evenhand.mitigation.config import FrontierConfig
from evenhand.mitigation.split import Split, split_people
from evenhand.mitigation.training.encoding import joint_groups
from evenhand.mitigation.training.losses import load_loss
from evenhand.models import Scorer, predict_labels
from evenhand.schema import People
from evenhand.stats import (
    Observed,
    Proved,
    Quantity,
    Unknown,
    auc,
    format_quantity,
    largest_difference_of_proportions,
    observed_rate,
    quantity_value,
    show_quantity,
)
from evenhand.text import format_count, format_decimal, format_level, format_percent
from evenhand.typing import Progress

if TYPE_CHECKING:
    import pandas as pd

    from evenhand.mitigation.training.fair_classifier import FairClassifier


GAP = "widest of all pairs, square and add"


def trace_frontier(
    people: People | Split,
    method: str,
    config: FrontierConfig | None = None,
    *,
    given: Scorer | None = None,
    data_name: str = "data",
    test_data: str | None = None,
    progress: Progress | None = None,
    **settings: Any,
) -> FrontierResult:
    """Train one network per strength and measure each on a test set.

    Nothing is chosen here: every strength is shown, so the numbers on the people kept aside are what they seem.

    Args:
        people: with true labels, or a split of them; the train part is trained on, the test part measured on.
        method: of `FairClassifier`.
        config: strengths, networks, confidence, time limit.
        given: a model to draw beside them.
        data_name, test_data: how to call the people; other people, where the test part is such.
        progress: called with what is being done and the share of the work done, 0 to 1.
        settings: fields of ``FrontierConfig`` by name, in place of those in ``config``.

    Raises:
        EvenhandError: the method, a strength or the people cannot be used.
        LimitError: time was up, or somebody stopped it, before there was any network.
    """
    from evenhand.mitigation.training.candidates import RECIPES, SMALL, SMALL_STEPS
    from evenhand.mitigation.training.fair_classifier import FairClassifier

    started = time.perf_counter()
    config = FrontierConfig.of(config, settings)
    deadline = None if config.time_limit is None else started + config.time_limit
    teacher = load_loss(method)
    # Unless strengths are given, 0 is among them: the network without a penalty is what the others are compared with.
    wanted = tuple(dict.fromkeys((0.0, *teacher.sweep) if config.strengths is None else config.strengths))
    if not wanted:
        raise OptionError("a frontier needs at least one strength")
    parts = people if isinstance(people, Split) else split_people(people, seed=config.seed)
    if not parts.train.schema.protected:
        raise OptionError("no attribute is protected", hint="name at least one: `protected=NAME`")
    recipe = RECIPES[method]
    sees = recipe.sees_protected if config.sees_protected is None else config.sees_protected
    parameters: dict[str, Any] = {"hidden": SMALL, "steps": SMALL_STEPS} if recipe.by_person else {}
    chosen = {name: getattr(config, name) for name in ("hidden", "steps", "batch_size")}
    parameters |= {name: value for name, value in chosen.items() if value is not None}
    measure = _PointMeter(parts.test, config.confidence)
    points: list[FrontierPoint] = []
    stopped = False
    for number, strength in enumerate(wanted):
        model = FairClassifier(
            method, strength=strength, schema=parts.train.schema, sees_protected=sees, seed=config.seed, **parameters
        )
        model, done = _fit_model(model, parts.train, deadline, progress, number, len(wanted))
        stopped = not done
        if stopped:
            break
        points.append(measure.point(model.network_, strength, blind=not sees))
    if not points:
        raise LimitError("no network was trained before it was stopped", hint="give it more time: `time_limit=SECONDS`")
    return FrontierResult(
        table_reading=parts.train.reading,
        test_reading=parts.test.reading if test_data else None,
        method=method,
        data=data_name,
        test_data=test_data,
        favourable=str(parts.train.schema.target.favourable),
        protected=parts.train.schema.protected,
        sees_protected=sees,
        train=len(parts.train),
        test=len(parts.test),
        confidence=config.confidence,
        points=_mark_frontier(points),
        given=None if given is None else measure.point(given, None),
        interrupted=stopped,
        seed=config.seed,
        seconds=time.perf_counter() - started,
    )


def _fit_model(
    model: FairClassifier,
    people: People,
    deadline: float | None,
    progress: Progress | None,
    number: int,
    of: int,
) -> tuple[FairClassifier, bool]:
    """Return the trained network, and whether training was completed."""
    from evenhand.mitigation.training.candidates import EVERY, true_labels

    def each(step: int) -> None:
        if progress is not None and step % EVERY == 0:
            progress(f"training with strength {model.strength:g}", (number + step / model.steps) / of)

    model.fit(people.individuals, true_labels(people), deadline=deadline, each=each)
    return model, not model.interrupted_


class _PointMeter:
    """Accuracy, AUC, gap and flips on the same people."""

    def __init__(self, people: People, confidence: float) -> None:
        self._people = people
        self._confidence = confidence
        self._schema = people.schema
        self._groups = joint_groups(self._schema, people.individuals, self._schema.protected)

    def point(self, model: Scorer, strength: float | None, *, blind: bool = False) -> FrontierPoint:
        """Return everything about one model."""
        people, n = self._people, len(self._people)
        favoured = predict_labels(model, people.individuals) == model.favourable
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
            value=float((k / n).max() - (k / n).min()),
            n=int(n.sum()),
            low=low,
            high=high,
            confidence=self._confidence,
            method=GAP,
        )

    def _flips(self, model: Scorer) -> Quantity:
        names = self._schema.protected
        try:
            assignments = self._schema.assignments(names)
        except OptionError as error:
            return Unknown(reason=error.message)
        labels = labels_by_assignment(model, self._people.individuals, self._schema.positions(names), assignments)
        return observed_rate(int(find_flips(labels).sum()), len(labels), self._confidence)


def _mark_frontier(points: list[FrontierPoint]) -> tuple[FrontierPoint, ...]:
    """Return points that no other beats: none is as accurate and as fair, and better in one of the two."""

    def beaten(one: FrontierPoint) -> bool:
        return any(
            other.place[0] >= one.place[0] and other.place[1] <= one.place[1] and other.place != one.place
            for other in points
        )

    return tuple(point.model_copy(update={"on_frontier": not beaten(point)}) for point in points)


# The answer of a frontier: a point per strength.


class FrontierPoint(ResultPart):
    """One network.

    Attributes:
        strength: of the penalty; None: a given model, not trained here.
        accuracy: the share of people who are given their true label.
        auc: how well scores put people with the favourable label above the others.
        gap: the largest difference between two groups' shares of favourable decisions.
        flips: the share of people whose decision flips with the protected attributes, everything else unchanged.
        favoured: the share of people who are given the favourable label.
        on_frontier: whether no other strength is as accurate and has as small a gap, and is better in one of the two.
    """

    strength: float | None
    accuracy: Quantity
    auc: Quantity
    gap: Quantity
    flips: Quantity
    favoured: Quantity
    on_frontier: bool = False

    @property
    def place(self) -> tuple[float, float]:
        """Accuracy and gap as they stand in the chart; an unknown gap counts as the widest."""
        gap = quantity_value(self.gap)
        return quantity_value(self.accuracy) or 0.0, 1.0 if gap is None else gap


class FrontierResult(Result):
    """What fairness costs by one method: accuracy beside unfairness, on a test set.

    Attributes:
        method: how the networks were trained.
        data: how to call the data.
        test_data: how to call other people, where such are measured on; None: some of ``data``, kept aside.
        favourable: the label a person would want.
        protected: names of the protected attributes; their joint values are the groups, small ones taken together.
        sees_protected: whether the networks were given them.
        train, test: sizes of the training and the test set.
        confidence: of every interval.
        points: one per strength, in the order they were trained.
        given: the model that they are compared with, if there is one.
        interrupted: whether somebody stopped it, or time was up, before all strengths were trained.
    """

    kind: Literal["frontier"] = "frontier"
    method: str
    data: str
    test_data: str | None = None
    favourable: str
    protected: tuple[str, ...]
    sees_protected: bool
    train: int
    test: int
    confidence: float
    points: tuple[FrontierPoint, ...]
    given: FrontierPoint | None = None
    interrupted: bool = False

    def document(self) -> Document:
        """Return accuracy beside unfairness, one row per strength."""
        return _build_document(self)

    def to_frame(self) -> pd.DataFrame:
        """Return one row per strength, the given model last."""
        import pandas as pd

        rows = []
        for point in (*self.points, *((self.given,) if self.given is not None else ())):
            row: dict[str, object] = {"strength": point.strength, "on_frontier": point.on_frontier}
            for name in ("accuracy", "auc", "gap", "flips", "favoured"):
                quantity: Quantity = getattr(point, name)
                row |= {
                    name: quantity_value(quantity),
                    f"{name}_low": getattr(quantity, "low", quantity_value(quantity)),
                    f"{name}_high": getattr(quantity, "high", quantity_value(quantity)),
                    f"{name}_words": format_quantity(quantity, percent=name != "auc"),
                }
            rows.append(row)
        return pd.DataFrame(rows)


COLUMNS = {
    "accuracy": "accuracy",
    "auc": "area under the ROC curve",
    "gap": "largest gap between groups",
    "flips": "decisions that flip",
    "favoured": "given the favourable label",
}
"""Fields of a point, as people read them."""

LIMITS = (
    "Every strength is shown and none is chosen, so each number is unbiased. If you pick the best one by this page, "
    "measure it again on others: these people decided the choice.",
    "Neighbouring points whose intervals overlap may well stand in the other order among other people.",
    "The given model may know the people it is measured on from its training; the networks do not.",
)


NEAR = 0.01
"""Accuracies this close to the highest are compared by their gaps."""


def _finding(result: FrontierResult) -> Iterator[Text]:
    """Yield how small the gap gets for little accuracy, in a sentence."""
    known = [
        (accuracy, gap, point)
        for point in result.points
        if (accuracy := quantity_value(point.accuracy)) is not None and (gap := quantity_value(point.gap)) is not None
    ]
    if not known:
        return
    best = max(known, key=lambda one: one[0])
    least = min((one for one in known if one[0] >= best[0] - NEAR), key=lambda one: one[1])
    said = f"The most accurate network is right for {format_percent(best[0])}, with a gap of {format_decimal(best[1])}."
    if least is not best:
        said += (
            f" Within a point of that, the gap is smallest at strength {least[2].strength:g}: "
            f"{format_decimal(least[1])}, right for {format_percent(least[0])}."
        )
    yield Text(said, role="finding")


def _build_document(result: FrontierResult) -> Document:
    test = f"people of {result.test_data}" if result.test_data else "others"
    blocks: list[Block] = []
    if result.interrupted:
        blocks.append(Note("Stopped early: not all strengths were trained.", "caution"))
    blocks += _finding(result)
    blocks.append(
        Figure(
            "frontier",
            "Each point a network, named by its strength, with the intervals of both numbers. Filled, and joined by "
            "the line: on the frontier. Square: the given model.",
            result,
        )
    )
    points = (*result.points, *((result.given,) if result.given is not None else ()))
    blocks.append(
        Table(
            f"Observed on {format_count(result.test, 'person', 'people')} unless it says otherwise, with "
            f"{format_level(result.confidence)} intervals of each number alone; on the frontier: no other strength is "
            "as accurate with as small a gap and better in one of both",
            (
                Column("strength"),
                Column("on the frontier"),
                *(Column(words, numeric=True) for words in COLUMNS.values()),
            ),
            tuple(
                TableRow(
                    (
                        "given model" if point.strength is None else f"{point.strength:g}",
                        "yes" if point.on_frontier else "",
                        *(show_quantity(getattr(point, name), name) for name in COLUMNS),
                    )
                )
                for point in points
            ),
            usual="observed",
        )
    )
    blocks += [Heading("Limits", detail=True), Text(items=LIMITS)]
    return Document(
        f"Accuracy and unfairness by {result.method}",
        f"One network for each strength of the penalty, trained on {format_count(result.train, 'person', 'people')} of "
        f"{result.data} and measured on {result.test:,} {test}. Groups by "
        f"{' x '.join(result.protected)}, which the networks {'are' if result.sees_protected else 'are not'} given.",
        tuple(blocks),
        brand="Evenhand mitigation",
        made=result.provenance,
        readings=result.readings,
    )
