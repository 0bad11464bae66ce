"""How often the label flips between people who differ in a protected attribute: the counterfactual flip rate.

As published, an individual discriminatory instance is a person whose label differs under some other assignment of the
protected attributes, everything else unchanged (Galhotra, Brun & Meliou, "Fairness testing", ESEC/FSE 2017,
causal discrimination; Aggarwal et al., ESEC/FSE 2019). The counterfactual flip rate is their share.

Where the schema has rules, people are compared with plausible counterparts instead: linked attributes move along (a
husband becomes a wife), and combinations that break a rule are not compared. Then both rates are counted.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np
from pydantic import field_validator

from evenhand.core.config import Config, setting
from evenhand.core.time_limit import TimeLimit
from evenhand.core.typing import Booleans, Floats, Integers, Progress
from evenhand.errors import BudgetError, OptionError
from evenhand.individual.flips import (
    COMPARED,
    Decisions,
    Variants,
    build_variants,
    compare,
    find_flips,
    find_real,
    keep_apart,
    merge_by_unprotected,
)
from evenhand.individual.noise import (
    ASKED_AGAIN,
    ConfirmedFlips,
    FlipNoise,
    NoiseRecorder,
    confirm_flips,
    first_difference,
)
from evenhand.individual.result import (
    Assignment,
    CounterpartRate,
    FlipRate,
    IndividualResult,
    Profile,
)
from evenhand.models.ledger import ask_people, find_ledger
from evenhand.models.noise import CHECKED, FreshScorer, RepeatCheck, can_vary, check_noise
from evenhand.models.scorer import Scorer, favourable_score
from evenhand.population.independent import Population
from evenhand.schema.attribute import Value
from evenhand.schema.people import People
from evenhand.schema.schema import Schema
from evenhand.stats.proportion import estimated_rate, observed_rate
from evenhand.stats.quantity import Estimated, Quantity

CHUNK, TIMED_CHUNK = 65_536, 8192
"""Maximum number of individuals per question, without and with a time limit, which is checked between questions."""

MAX_CHUNK_ENTRIES = 4_000_000
"""Maximum number of entries of the individuals of one question."""


CHECK_SHARE = 0.1
"""Of a time limit no more than this goes into asking some people twice, if that takes more than one batch."""

COUNT_SHARE = 0.75
"""Share of a time limit for first answers, if flips are asked about again."""

RESERVED_ROUNDS = 2
"""Rounds of new answers about each flip that a budget reserves."""

SPARE = 4
"""Candidates per example: those that do not repeat, or are drawn and coincide with a person in the data, are dropped.
"""


class FlipConfig(Config):
    """Settings of the counterfactual flip rate.

    With a time limit, what is not reached is left out, and what is begun is estimated from the people reached, in
    random order.
    """

    protected: tuple[str, ...] = setting(..., "attributes to vary, each alone and then all together")
    samples: int = setting(20_000, "individuals drawn from the population", ge=1)
    examples: int = setting(6, "profiles kept per set of protected attributes", ge=0)
    confidence: float = setting(0.95, "confidence level of every interval", gt=0, lt=1)
    time_limit: float | None = setting(None, "for all rates together", unit="seconds")
    repeats: int = setting(
        1, "answers per person and protected value, the majority decides; for models that can answer differently", ge=1
    )
    budget: int | None = setting(None, "individuals that a black box may be asked about, for all rates together", ge=1)
    as_published: bool = setting(False, "change the protected attribute alone, whatever rules the schema has")
    seed: int = setting(0, "same seed, same result", ge=0)

    @field_validator("protected")
    @classmethod
    def _require_protected(cls, protected: tuple[str, ...]) -> tuple[str, ...]:
        if not protected:
            raise OptionError("no protected attribute to vary", hint="name at least one: `protected=NAME`")
        return protected


@dataclass(frozen=True)
class FlipCount:
    """What the model said about the people reached.

    Attributes:
        people: how many were reached.
        published: whose decision flips when nothing but the protected attributes changes.
        flips: of ``compared``, whose decision flips between plausible counterparts.
        compared: who obeys the schema's rules and has a plausible counterpart.
        breaking: how many break a rule.
        implausible: of ``published``, how many flip only where some of the people compared break a rule.
        queries: individuals that were asked about.
        complete, interrupted: whether all were reached, and whether somebody stopped it.
        violators: one individual per distinct one who flips (between plausible counterparts), (n, attributes).
        published_check, check: how many of ``published`` and ``flips`` repeat; None for a model that cannot vary.
    """

    people: int
    published: int
    flips: int
    compared: int
    breaking: int
    implausible: int
    queries: int
    complete: bool
    interrupted: bool
    violators: Floats
    published_check: RepeatCheck | None
    check: RepeatCheck | None


def measure_flips(
    scorer: Scorer,
    people: People,
    population: Population,
    config: FlipConfig | None = None,
    *,
    white_box: Scorer | None = None,
    progress: Progress | None = None,
    **settings: Any,
) -> IndividualResult:
    """Measure the counterfactual flip rate of the people in the data and of a population, with the clearest examples.

    Args:
        scorer: the model.
        people: everybody is asked about (once per protected assignment), within the time limit.
        population: where further individuals are drawn from.
        config: the settings; ``protected`` must be among them.
        white_box: the inside of the model. It answers most questions if it decides some people, drawn at random and
            given every protected assignment, exactly like the model (see ``flips``); the scores of examples are
            always the model's own.
        progress: called with what is being done and the share done, 0 to 1.
        settings: fields of ``FlipConfig`` by name, in place of those in ``config``.

    Raises:
        OptionError: a protected attribute has one value, or there are too many joint assignments.
    """
    started = time.perf_counter()
    config = FlipConfig.of(config, settings)
    rng = np.random.default_rng(config.seed)
    if config.as_published:
        people = replace(people, schema=people.schema.without_rules())
    sampled = population.sample(config.samples, rng)
    order = rng.permutation(len(people))
    shuffled = people.individuals[order]
    sets: list[tuple[str, ...]] = [(name,) for name in config.protected]
    if len(config.protected) > 1:
        sets.append(config.protected)
    for protected in sets:
        people.schema.assignments(protected)  # refuse all that is wrong before anything is asked
    limit, allowance = TimeLimit.after(config.time_limit), _Allowance(scorer, config.budget)
    rates: list[FlipRate] = []
    examples: list[Profile] = []
    parts: list[tuple[tuple[str, ...], Literal["data", "population"]]] = [
        (protected, source) for protected in sets for source in ("data", "population")
    ]
    noise, interrupted = None, False
    reached: list[Floats] = []
    try:
        decisions = compare(scorer, white_box, _some_variants(people, (shuffled, sampled), config.protected))
        if decisions.white_box is None:
            most = int(min(CHECKED, CHECK_SHARE * allowance.left / 2))
            noise = check_noise(
                scorer, shuffled, most=most, confidence=config.confidence, limit=limit.share(CHECK_SHARE)
            )
        if noise is not None and (noise.noisy or config.repeats > 1):
            decisions = Decisions(FreshScorer(scorer, config.repeats))
    except KeyboardInterrupt:
        decisions, parts, interrupted = Decisions(scorer), [], True
    for step, (protected, source) in enumerate(parts):
        if progress is not None:
            progress(f"flips with {' x '.join(protected)}, {source}", step / len(parts))
        share = 1 / (len(parts) - step)
        recorder = NoiseRecorder(decisions.model, rng) if isinstance(decisions.model, FreshScorer) else None
        everybody = shuffled if source == "data" else sampled
        known = everybody[_are_known(people.schema, everybody, protected)]
        answered = _count_flips(
            decisions,
            people,
            known,
            protected,
            limit.share(share),
            allowance.share(share),
            recorder,
            config.confidence,
        )
        if answered.people > 0:
            reached.append(known)
            rate = _flip_rate(source, answered, protected, people, population, config)
            rate = rate.model_copy(update={"unknown": len(everybody) - len(known)})
            if recorder is not None:
                sampled_from = rate.population if isinstance(rate.rate, Estimated) else None
                beside = recorder.result(people.schema, protected, config.confidence, sampled_from)
                rate = rate.model_copy(update={"noise": beside})
            rates.append(rate)
            wanted = config.examples - sum(set(profile.better.values) == set(protected) for profile in examples)
            with suppress(BudgetError):  # what is known of them is no longer to be had
                examples += _clearest_examples(decisions, people, answered, protected, source, config, wanted)
        interrupted = answered.interrupted
        if interrupted:
            break
    if not interrupted and any(rate.unrepeated for rate in rates):
        rates = [
            rate
            if rate.noise is not None
            else rate.model_copy(
                update={"noise": _measure_noise(decisions, people, individuals, rate, allowance, rng, config)}
            )
            for rate, individuals in zip(rates, reached, strict=True)
        ]
    return IndividualResult(
        rates=tuple(rates),
        examples=tuple(examples),
        interrupted=interrupted,
        counted_with="model" if decisions.white_box is None else "white box",
        compared=decisions.compared,
        noise=noise,
        seed=config.seed,
        time_limited=limit.decided,
        seconds=time.perf_counter() - started,
    )


def _some_variants(people: People, sources: Sequence[Floats], protected: Sequence[str]) -> Floats:
    """Return the first individuals of each source under all joint assignments, at most ``COMPARED`` or one each."""
    assignments, columns = people.schema.assignments(protected), people.schema.positions(protected)
    each = max(1, COMPARED // (len(sources) * len(assignments)))
    distinct = merge_by_unprotected(np.concatenate([source[:each] for source in sources]), columns)
    return build_variants(distinct.individuals, columns, assignments)


def _are_known(schema: Schema, individuals: Floats, protected: Sequence[str]) -> Booleans:
    """Return of which individuals (n, attributes) no protected value is declared unknown, shape (n,)."""
    declared = [schema.position(name) for name in protected if schema[name].unknown is not None]
    return np.asarray(~np.isnan(individuals[:, declared]).any(axis=1))


class _Allowance:
    """How many individuals a model may still be asked about: what the budget and the model's own ledger allow."""

    def __init__(self, scorer: Scorer, rows: float | None) -> None:
        self._scorer, self._ledger = scorer, find_ledger(scorer)
        self._until = np.inf if rows is None or self._ledger is None else self._ledger.sent + rows

    @property
    def left(self) -> float:
        return np.inf if self._ledger is None else min(self._until - self._ledger.sent, self._ledger.left)

    def share(self, part: float) -> _Allowance:
        """Return a part of what is left."""
        return _Allowance(self._scorer, self.left * part)


def _measure_noise(
    decisions: Decisions,
    people: People,
    individuals: Floats,
    rate: FlipRate,
    allowance: _Allowance,
    rng: np.random.Generator,
    config: FlipConfig,
) -> FlipNoise | None:
    """Return the noise of a model that seemed to repeat its answers; None if no budget is left for it."""
    recorder = NoiseRecorder(FreshScorer(decisions.model, config.repeats), rng)
    each = 2 * len(people.schema.assignments(rate.protected)) * config.repeats
    some = individuals[: int(min(ASKED_AGAIN, allowance.left // each))]
    variants = Variants.of(people.schema, rate.protected, some)
    variants = variants[np.flatnonzero(variants.plausible.sum(axis=1) > 1)]
    labels = np.zeros(variants.plausible.shape, dtype=np.int64)
    with suppress(BudgetError):
        labels[variants.plausible] = recorder.scorer.predict(variants.counterparts[variants.plausible])
        recorder.add(variants.counterparts, labels, variants.plausible)
    sampled_from = rate.population if isinstance(rate.rate, Estimated) else None
    return recorder.result(people.schema, rate.protected, config.confidence, sampled_from)


def _count_flips(
    decisions: Decisions,
    people: People,
    individuals: Floats,
    protected: Sequence[str],
    limit: TimeLimit,
    allowance: _Allowance,
    recorder: NoiseRecorder | None,
    confidence: float,
) -> FlipCount:
    schema = people.schema
    m = len(schema.assignments(protected))
    if recorder is not None:  # a noisy model's answers about two people who are alike are two answers
        distinct = keep_apart(individuals)
    else:
        # Who differs in the protected attributes alone has the same variants as published, but another counterpart.
        distinct = merge_by_unprotected(individuals, [] if schema.constrains_people else schema.positions(protected))
    # An endpoint takes few individuals per request: time is looked after between requests.
    most = CHUNK if limit.moment is None else TIMED_CHUNK
    most = min(most, MAX_CHUNK_ENTRIES // len(schema.attributes), int(getattr(decisions.model, "batch", CHUNK)))
    rows = max(1, most // m)
    flags = np.zeros((len(distinct.individuals), len(PersonFlips._fields)), dtype=np.bool_)
    answers = 1 if recorder is None else recorder.scorer.answers
    at = queries = 0
    interrupted = False
    varies = decisions.white_box is None and can_vary(decisions.model)
    counting = limit.share(COUNT_SHARE) if varies else limit
    singles = [_SingleFlips() for _ in range(1 + schema.constrains_people)]

    # With rules, people have counterparts besides the published variants; a noisy model is asked once more about each.
    each = m * len(singles)
    if isinstance(decisions.model, FreshScorer):
        each *= decisions.model.answers + 1
    reserve = 2 * RESERVED_ROUNDS * answers if varies else 0

    def decide(asked: Floats) -> Integers:
        nonlocal queries
        queries += len(asked) * answers
        return decisions.labels(asked)

    try:
        while at < len(flags) and not (at and counting.passed()):
            reserved = reserve * sum(map(len, singles))
            affordable = int(min(rows, (allowance.left - reserved) / (each + reserve * len(singles))))
            if affordable < 1:
                break
            chunk = distinct.individuals[at : at + affordable]
            variants = Variants.of(schema, protected, chunk)
            published, counterparts = variants.labels(decide)
            counted = _compare_variants(schema, chunk, variants, published, counterparts)
            if recorder is not None:
                at_hand = np.flatnonzero(counted.compared)
                kept = variants[at_hand]
                recorder.add(kept.counterparts, counterparts[at_hand], kept.plausible)
            if varies:
                singles[0].add(at, counted.published, variants.published, published, np.ones_like(variants.plausible))
                if schema.constrains_people:
                    singles[1].add(at, counted.flips, variants.counterparts, counterparts, variants.plausible)
            flags[at : at + len(chunk)] = np.stack(counted, axis=1)
            at += len(chunk)
    except BudgetError:
        pass  # further tries after failures cost more than was foreseen
    except KeyboardInterrupt:
        interrupted = True
    single = flags.copy()
    again = 0
    if varies:
        try:
            for number, flips in enumerate(singles):
                confirmed, counts = flips.confirm(decisions.model, confidence, allowance, limit)
                again += counts.queries
                at = min([at, *flips.rows[counts.tested : counts.tested + 1].tolist()])
                columns = slice(0, 2) if len(singles) == 1 else slice(number, number + 1)
                flags[flips.rows[~confirmed], columns] = False
            flags[:, 4] &= flags[:, 0]
        except BudgetError:
            at = min([at, *(int(flips.rows[0]) for flips in singles if len(flips))])
        except KeyboardInterrupt:
            at, interrupted = 0, True
    flags[at:] = False
    complete = at >= len(flags)
    # Only people before the first one not asked about: these are a random draw, in which no one was preferred.
    reached = len(individuals) if complete else int(distinct.first[at])
    of = distinct.of[:reached]
    totals: list[int] = flags[of].sum(axis=0).tolist()

    def check(column: int) -> RepeatCheck | None:
        if not varies:
            return None
        differed = int(single[of, column].sum())
        return RepeatCheck(
            differed=differed, tested=differed, repeated=totals[column], queries=again, confidence=confidence
        )

    return FlipCount(
        **dict(zip(PersonFlips._fields, totals, strict=True)),
        people=reached,
        queries=queries,
        complete=complete,
        interrupted=interrupted,
        violators=distinct.individuals[PersonFlips(*flags.T).flips],
        published_check=check(0),
        check=check(1),
    )


class _SingleFlips:
    """Flips between single answers, to be confirmed.

    Attributes:
        rows: Positions of the people who flip, increasing, shape (n,).
    """

    def __init__(self) -> None:
        self.rows: Integers = np.zeros(0, dtype=np.int64)
        self._sides: list[Floats] = []
        self._labels: list[Integers] = []

    def __len__(self) -> int:
        return len(self.rows)

    def add(self, at: int, flips: Booleans, variants: Floats, labels: Integers, compared: Booleans) -> None:
        """Add people who flip.

        Args:
            at: Position of the first person.
            flips: Whether each person flips, shape (n,).
            variants: Variants of each, shape (n, m, attributes).
            labels: Labels of the variants, shape (n, m).
            compared: Variants that are compared, shape (n, m).
        """
        rows = np.flatnonzero(flips)[:, None]
        pairs = first_difference(labels[flips], compared[flips])
        self.rows = np.concatenate([self.rows, at + rows[:, 0]])
        self._sides.append(variants[rows, pairs])
        self._labels.append(labels[rows, pairs])

    def confirm(
        self, scorer: Scorer, confidence: float, allowance: _Allowance, limit: TimeLimit
    ) -> tuple[Booleans, RepeatCheck]:
        """Return which flips repeat, shape (n,), and the counts."""
        if not self._sides:
            return np.zeros(0, dtype=np.bool_), RepeatCheck(
                differed=0, tested=0, repeated=0, queries=0, confidence=confidence
            )
        sides, labels = np.concatenate(self._sides), np.concatenate(self._labels)
        found = confirm_flips(scorer, sides, labels, confidence=confidence, left=lambda: allowance.left, limit=limit)
        return found.confirmed, found.check


class PersonFlips(NamedTuple):
    """What is counted, each of shape (n,): see ``FlipCount``."""

    published: Booleans
    flips: Booleans
    compared: Booleans
    breaking: Booleans
    implausible: Booleans


def _compare_variants(
    schema: Schema, individuals: Floats, variants: Variants, published: Integers, counterparts: Integers
) -> PersonFlips:
    flips = find_flips(published)
    if not schema.constrains_people:
        none = np.zeros_like(flips)
        return PersonFlips(flips, flips, np.ones_like(flips), none, none)
    obeying = schema.obeys_rules(individuals)
    compared = obeying & (variants.plausible.sum(axis=1) > 1)
    possible = schema.obeys_rules(variants.published.reshape(-1, individuals.shape[1])).reshape(published.shape)
    return PersonFlips(
        published=flips,
        flips=compared & find_flips(counterparts, variants.plausible),
        compared=compared,
        breaking=~obeying,
        implausible=flips & ~find_flips(published, possible),
    )


def _flip_rate(
    source: Literal["data", "population"],
    answered: FlipCount,
    protected: tuple[str, ...],
    people: People,
    population: Population,
    config: FlipConfig,
) -> FlipRate:
    if source == "population":
        name = population.name
    else:
        name = "the people in the data" if answered.complete else f"the {len(people):,} people in the data"

    def share(flips: int, n: int) -> Quantity:
        if source == "data" and answered.complete:
            return observed_rate(flips, n, confidence=config.confidence)
        return estimated_rate(flips, n, population=name, confidence=config.confidence)

    counterfactual = None
    if people.schema.constrains_people:
        counterfactual = CounterpartRate(
            rate=share(answered.flips, answered.compared),
            flips=answered.flips,
            n=answered.compared,
            without=answered.people - answered.compared - answered.breaking,
            breaking=answered.breaking,
            implausible=answered.implausible,
            repeats=answered.check,
        )
    return FlipRate(
        over=source,
        population=name,
        protected=protected,
        counterfactual=counterfactual,
        rate=share(answered.published, answered.people),
        flips=answered.published,
        n=answered.people,
        queries=answered.queries,
        repeats=answered.published_check,
    )


def _clearest_examples(
    decisions: Decisions,
    people: People,
    answered: FlipCount,
    protected: Sequence[str],
    source: Literal["data", "population"],
    config: FlipConfig,
    most: int,
) -> list[Profile]:
    schema = people.schema
    looked_at = answered.violators[: max(most, CHUNK // len(schema.assignments(protected)))]
    if len(looked_at) == 0 or most <= 0 or answered.interrupted:
        return []
    variants = Variants.of(schema, protected, looked_at)
    # Counterparts of each other are one pair.
    kept = merge_by_unprotected(variants.representatives, []).first
    model = decisions.model
    varies = decisions.white_box is None and can_vary(model)
    if isinstance(model, FreshScorer):
        kept = kept[: SPARE * most]
    variants = variants[kept]
    scores = np.full(variants.plausible.shape, np.nan)
    if varies:
        reply = ask_people(model, variants.counterparts[variants.plausible])
        labels = np.zeros(scores.shape, dtype=np.int64)
        labels[variants.plausible], scores[variants.plausible] = reply.labels, reply.scores[:, model.favourable]
    else:
        _, labels = variants.labels(decisions.labels)
        scores[variants.plausible] = favourable_score(model, variants.counterparts[variants.plausible])
    return find_clearest(
        people,
        protected,
        AssignmentDecisions(looked_at[kept], variants.counterparts, variants.plausible, labels, scores),
        classes=model.classes,
        most=most,
        source=source,
        confirm=partial(confirm_flips, model, confidence=config.confidence) if varies else None,
    )


# The clearest examples: pairs with the widest score gap, each with different unprotected attributes.


class AssignmentDecisions(NamedTuple):
    """What a model says of individuals under every assignment of the protected attributes.

    Attributes:
        individuals: shape (n, attributes), each decided differently under some two assignments.
        variants: who they are under each, shape (n, m, attributes).
        compared: which of these are compared, shape (n, m).
        labels, scores: the model's labels and favourable scores, shape (n, m).
    """

    individuals: Floats
    variants: Floats
    compared: Booleans
    labels: Integers
    scores: Floats


def find_clearest(
    people: People,
    protected: Sequence[str],
    decisions: AssignmentDecisions,
    *,
    classes: tuple[Value, ...],
    most: int,
    source: Literal["data", "population"],
    confirm: Callable[[Floats, Integers], ConfirmedFlips] | None = None,
) -> list[Profile]:
    """Return the ``most`` individuals whose best and worst treated variants lie furthest apart.

    Args:
        people: The people in the data.
        protected: Attributes that vary.
        decisions: of the model under each assignment.
        classes: Labels of the model.
        most: Maximum number of profiles.
        source: Where the individuals are from. Drawn ones that tell about a person in the data are left out.
        confirm: Ask about the two sides of pairs and their labels again; None for a model that cannot vary.
    """
    schema = people.schema
    columns = schema.positions(protected)
    _, _, compared, labels, scores = decisions
    width = len(schema.attributes)  # without the row of the data that everybody may carry
    individuals, variants = decisions.individuals[:, :width], decisions.variants[:, :, :width]
    rows = np.arange(len(individuals))
    better = np.argmax(np.where(compared, scores, -np.inf), axis=1)
    other = compared & (labels != labels[rows, better][:, None])
    # Worst among those with another label: a lower score with the same label is not a flip.
    worse = np.argmin(np.where(other, scores, np.inf), axis=1)
    gaps = scores[rows, better] - scores[rows, worse]
    order = np.argsort(-gaps, kind="stable")
    order = order[other[order].any(axis=1)][: SPARE * most]
    if confirm is not None:
        pairs = np.stack([worse, better], axis=1)[order]
        again = confirm(decisions.variants[order[:, None], pairs], labels[order[:, None], pairs])
        scores[order[:, None], pairs] = again.scores
        gaps[order] = again.scores[:, 1] - again.scores[:, 0]
        order = order[again.confirmed]
        order = order[np.argsort(-gaps[order], kind="stable")]
    if source == "population":
        order = order[~find_real(people, protected, variants[order], compared[order])]
    changed = variants[rows, better] != variants[rows, worse]
    changed &= ~np.isnan(individuals)

    def values(row: int, which: int, chosen: Iterable[int]) -> dict[str, str]:
        return {schema.names[i]: schema.attributes[i].text(variants[row, which, i]) for i in chosen}

    def assignment(row: int, which: int) -> Assignment:
        return Assignment(
            values=values(row, which, columns),
            moved=values(row, which, (i for i in np.flatnonzero(changed[row]).tolist() if i not in columns)),
            label=str(classes[labels[row, which]]),
            score=float(scores[row, which]),
        )

    def profile(row: int) -> Profile:
        same = [i for i in np.flatnonzero(~changed[row]).tolist() if i not in columns]
        own = np.argmax((variants[row][:, columns] == individuals[row, columns]).all(axis=1))
        return Profile(
            unprotected=values(row, better[row], same),
            worse=assignment(row, int(worse[row])),
            better=assignment(row, int(better[row])),
            disagreeing=int((compared[row] & (labels[row] != labels[row, own])).sum()),
            gap=float(gaps[row]),
            source=source,
        )

    return [profile(row) for row in order[:most].tolist()]
