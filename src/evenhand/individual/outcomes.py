"""How many different decisions a person can get as protected attributes vary: labels, or bands of a score or number.

Who can get k different decisions is discriminated against k-fold; two or more is the flip rate of the same labels or
bands. Where the schema has rules, people are compared with plausible counterparts, as for flips.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from evenhand.core import (
    Block,
    Column,
    Config,
    Document,
    Metric,
    Result,
    ResultPart,
    Table,
    TableRow,
    check_time,
    setting,
)
from evenhand.errors import OptionError
from evenhand.individual.flips import Variants
from evenhand.models import (
    FreshScorer,
    Regressor,
    RepeatCheck,
    Scorer,
    ask_numbers,
    can_vary,
    favourable_score,
    predict_labels,
)
from evenhand.population import Population
from evenhand.schema import People, Schema
from evenhand.stats import Quantity, confirm_repeats, estimated_rate, observed_rate, show_quantity
from evenhand.text import SIMULATED, join_names
from evenhand.typing import Booleans, Floats, Integers, Progress

if TYPE_CHECKING:
    import pandas as pd

CHUNK = 65_536
"""People asked about at once, under all assignments."""


class OutcomeConfig(Config):
    """Settings of the count of different decisions that a person can get."""

    protected: tuple[str, ...] = setting(..., "attributes to vary, each alone and then all together")
    bands: tuple[float, ...] = setting(
        (), "compare bands of the favourable label's score, or of the number, cut here; without them labels"
    )
    samples: int = setting(20_000, "individuals drawn from the population", ge=1)
    confidence: float = setting(0.95, "confidence level of every interval", gt=0, lt=1)
    as_published: bool = setting(False, "change the protected attribute alone, whatever rules the schema has")
    seed: int = setting(0, "same seed, same result", ge=0)


def check_bands(bands: tuple[float, ...], *, is_number: bool) -> None:
    """Refuse edges that do not cut numbers, or scores, into bands.

    Raises:
        OptionError: they do not increase, or those of a score are not between 0 and 1.
    """
    given = ", ".join(f"{edge:g}" for edge in bands)
    if not all(map(math.isfinite, bands)) or any(low >= high for low, high in itertools.pairwise(bands)):
        raise OptionError(f"expected finite numbers in increasing order, got {given}", location="`bands=`")
    if not is_number and not all(0 < edge < 1 for edge in bands):
        raise OptionError(
            f"expected scores between 0 and 1, got {given}",
            location="`bands=`",
            hint="bands such as 600,700 are of a number: `kind=number`",
        )


class OutcomeCount(ResultPart):
    """How many people of one set can get so many different decisions.

    Attributes:
        over: ``data`` (everybody in the data) or ``population`` (individuals drawn from it).
        population: what it is called.
        protected: the attributes that were changed, jointly.
        n: people compared.
        without: people who have no plausible counterpart, or break a rule of the schema: they are not compared.
        rates: number of different decisions, from 2 on -> share of people who can get at least so many.
        repeats: For how many people the different decisions repeat: only these count. None for a model that cannot
            vary.
    """

    over: Literal["data", "population"]
    population: str
    protected: tuple[str, ...]
    n: int
    without: int
    rates: dict[int, Quantity]
    repeats: RepeatCheck | None = None


class OutcomeResult(Result):
    """How many different decisions people can get, per protected attribute and jointly.

    Attributes:
        what: ``labels`` or ``bands``.
        bands: where these are cut.
        unit: of the number, where bands are of a number and its unit is known.
        counts: over the data and the population, for each set of protected attributes.
    """

    kind: Literal["outcomes"] = "outcomes"
    what: Literal["labels", "bands"]
    bands: tuple[float, ...]
    unit: str | None
    counts: tuple[OutcomeCount, ...]

    def document(self) -> Document:
        """Return the shares of people who can get 2, 3, ... different decisions."""
        return Document(
            f"Individuals: how many different {self.what} they can get",
            "Each person was asked about again with every other value of the protected attributes. "
            + describe_bands(self),
            (*outcome_answers(self), *outcome_count_blocks(self)),
            brand="Evenhand individuals",
            made=self.provenance,
        )

    def to_frame(self) -> pd.DataFrame:
        """One row per set of protected attributes, people and number of decisions."""
        import pandas as pd

        return pd.DataFrame(
            [
                {"protected": join_names(one.protected), "over": one.over, "n": one.n, "least": least}
                | {name: getattr(rate, name, None) for name in ("value", "low", "high")}
                for one in self.counts
                for least, rate in one.rates.items()
            ]
        )


def count_outcomes(
    model: Scorer | Regressor,
    people: People,
    population: Population,
    config: OutcomeConfig | None = None,
    *,
    progress: Progress | None = None,
    **settings: Any,
) -> OutcomeResult:
    """Count how many people can get 2, 3, ... different decisions by another value of the protected attributes.

    Args:
        model: one that decides labels, or a number, of which bands are compared.
        people: everybody is asked about, once per joint value of the protected attributes.
        population: where further individuals are drawn from.
        config: the settings; ``protected`` must be among them.
        progress: called with what is being done and the share done, 0 to 1.
        settings: fields of ``OutcomeConfig`` by name, in place of those in ``config``.

    Raises:
        OptionError: a number is decided and there are no bands; bands of labels without a score, or not between 0 and
            1; a protected attribute has one value.
        BudgetError: the model may not be asked about so many.
    """
    started = time.perf_counter()
    config = OutcomeConfig.of(config, settings)
    say = progress or (lambda what, share: None)
    schema = people.schema.without_rules() if config.as_published else people.schema
    check_bands(config.bands, is_number=schema.target.is_number)
    decide, kinds = _choose_decision(model, config.bands, is_number=schema.target.is_number)
    again = None
    if can_vary(model):
        fresh = model if isinstance(model, Regressor) else FreshScorer(model)
        again, _ = _choose_decision(fresh, config.bands, is_number=schema.target.is_number)
    sampled = population.sample(config.samples, np.random.default_rng(config.seed))
    sets: list[tuple[str, ...]] = [(name,) for name in config.protected]
    if len(config.protected) > 1:
        sets.append(config.protected)
    most = [min(kinds, len(schema.assignments(protected))) for protected in sets]
    counts: list[OutcomeCount] = []
    for step, (protected, highest) in enumerate(zip(sets, most, strict=True)):
        say(f"different decisions by {join_names(protected)}", step / len(sets))
        for over, individuals in (("data", people.individuals), ("population", sampled)):
            different, compared, repeats = _count_different(
                decide, again, kinds, schema, protected, individuals, config.confidence
            )
            n = int(compared.sum())
            rates: dict[int, Quantity] = {}
            for least in range(2, highest + 1):
                reached = int((different[compared] >= least).sum())
                rates[least] = (
                    observed_rate(reached, n, confidence=config.confidence)
                    if over == "data"
                    else estimated_rate(reached, n, population=population.name, confidence=config.confidence)
                )
            counts.append(
                OutcomeCount(
                    over="data" if over == "data" else "population",
                    population="the people in the data" if over == "data" else population.name,
                    protected=protected,
                    n=n,
                    without=len(individuals) - n,
                    rates=rates,
                    repeats=repeats,
                )
            )
    return OutcomeResult(
        what="bands" if config.bands else "labels",
        bands=config.bands,
        unit=schema.target.unit,
        counts=tuple(counts),
        seed=config.seed,
        seconds=time.perf_counter() - started,
    )


def _choose_decision(
    model: Scorer | Regressor, bands: tuple[float, ...], *, is_number: bool
) -> tuple[Callable[[Floats], Integers], int]:
    """Return what is decided about individuals as 0, 1, ..., and how many different decisions there are.

    A number or score at an edge lies in the upper band.
    """
    edges = np.asarray(bands)
    if is_number:
        assert isinstance(model, Regressor)
        if not bands:
            raise OptionError(
                "a number is decided, and different decisions are counted in bands of it",
                location="`bands=`",
                hint="say where they are cut: `bands=600,700`",
            )
        regressor = model
        return lambda asked: np.searchsorted(edges, ask_numbers(regressor, asked), side="right"), len(bands) + 1
    assert isinstance(model, Scorer)
    scorer = model
    if not bands:
        return lambda asked: predict_labels(scorer, asked), len(scorer.classes)
    if scorer.label_only:
        raise OptionError(
            "the model gives labels only, so there are no bands of its score",
            location="`bands=`",
            hint="leave them out: labels are compared",
        )
    return lambda asked: np.searchsorted(edges, favourable_score(scorer, asked), side="right"), len(bands) + 1


def _count_different(
    decide: Callable[[Floats], Integers],
    again: Callable[[Floats], Integers] | None,
    kinds: int,
    schema: Schema,
    protected: tuple[str, ...],
    individuals: Floats,
    confidence: float,
) -> tuple[Integers, Booleans, RepeatCheck | None]:
    """Return how many different decisions each of n people can get, and who is compared, each of shape (n,).

    Different decisions of a model that can vary count only if one assignment for each of them repeats (``again``);
    the third value counts that.
    """
    different = np.zeros(len(individuals), dtype=np.int64)
    compared = np.zeros(len(individuals), dtype=np.bool_)
    rows = max(1, CHUNK // max(1, len(schema.assignments(protected))))
    flips: list[tuple[int, Floats, Integers]] = []
    for at in range(0, len(individuals), rows):
        check_time()
        part = slice(at, at + rows)
        chunk = individuals[part]
        variants = Variants.of(schema, protected, chunk)
        decided = np.full(variants.plausible.shape, -1, dtype=np.int64)
        decided[variants.plausible] = decide(variants.counterparts[variants.plausible])
        different[part] = sum((decided == kind).any(axis=1).astype(np.int64) for kind in range(kinds))
        compared[part] = (variants.plausible.sum(axis=1) > 1) & schema.obeys_rules(chunk)
        if again is None:
            continue
        for row in np.flatnonzero((different[part] > 1) & compared[part]).tolist():
            labels, first = np.unique(decided[row], return_index=True)
            first = first[labels >= 0]
            flips.append((at + row, variants.counterparts[row, first], decided[row, first]))
    if again is None:
        return different, compared, None
    repeated, queries, direction = again, 0, -1

    def repeat(which: Integers) -> Booleans:
        nonlocal queries, direction
        some = [flips[k] for k in which.tolist()]
        asked = np.concatenate([people for _, people, _ in some])
        queries += len(asked)
        same = repeated(asked[::direction])[::direction] == np.concatenate([labels for _, _, labels in some])
        direction = -direction
        ends = np.cumsum([0, *(len(people) for _, people, _ in some)])
        return np.array([same[low:high].all() for low, high in itertools.pairwise(ends.tolist())], dtype=np.bool_)

    repetition = confirm_repeats(repeat, len(flips), confidence=confidence)
    positions = np.array([row for row, _, _ in flips], dtype=np.int64)
    different[positions[~repetition.confirmed]] = 1
    check = RepeatCheck(
        differed=len(flips),
        tested=repetition.tested,
        repeated=int(repetition.confirmed.sum()),
        queries=queries,
        confidence=confidence,
    )
    return different, compared, check


def describe_bands(result: OutcomeResult) -> str:
    """Say what decisions are: labels, or bands and where they are cut."""
    if not result.bands:
        return "Decisions are labels."
    edges = ", ".join(f"{edge:,.10g}" for edge in result.bands)
    return f"Decisions are bands, cut at {edges}{f' {result.unit}' if result.unit else ''}."


def outcome_answers(result: OutcomeResult) -> list[Metric]:
    """Return one answer for each set of protected attributes: who can get two or more different decisions."""
    answers = []
    for protected in dict.fromkeys(one.protected for one in result.counts):
        data, drawn = (one for one in result.counts if one.protected == protected)
        more = [
            f"{least} or more: {show_quantity(rate, 'rate').text}" for least, rate in data.rates.items() if least > 2
        ]
        notes = [*more, f"of {SIMULATED}: {show_quantity(drawn.rates[2], 'rate').text} two or more, estimated"]
        if data.repeats is not None and data.repeats.noise:
            notes.append(data.repeats.sentence)
        if data.without:
            notes.append(f"{data.without:,} people have no plausible counterpart and are not compared")
        answers.append(
            Metric(
                f"can get two or more different {result.what}",
                show_quantity(data.rates[2], "rate", basis=f"of {data.n:,} people in the data"),
                tuple(notes),
                about=join_names(protected),
            )
        )
    return answers


def outcome_count_blocks(result: OutcomeResult) -> Iterator[Block]:
    """Yield the shares of people who can get so many different decisions, as a table."""
    columns = (
        Column("what changes"),
        Column("population"),
        Column("people", numeric=True),
        Column(f"different {result.what}"),
        Column("share who can get them", numeric=True),
    )
    rows = tuple(
        TableRow((join_names(one.protected), one.population, one.n, f"{least} or more", show_quantity(rate, "rate")))
        for one in result.counts
        for least, rate in one.rates.items()
    )
    yield Table(f"How many different {result.what} a person can get. {describe_bands(result)}", columns, rows)
