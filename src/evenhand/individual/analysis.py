"""How often the label flips between people who differ in a protected attribute: the counterfactual flip rate.

As published, an individual discriminatory instance is a person whose label differs under some other assignment of the
protected attributes, everything else unchanged (Galhotra, Brun & Meliou, "Fairness testing", ESEC/FSE 2017,
causal discrimination; Aggarwal et al., ESEC/FSE 2019). The counterfactual flip rate is their share.

Where the schema has rules, people are compared with plausible counterparts instead: linked attributes move along (a
husband becomes a wife), and combinations that break a rule are not compared. Then both rates are counted.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np
from pydantic import field_validator

from evenhand.core import Config, TimeLimit, WorkClock, setting
from evenhand.errors import BudgetError, OptionError
from evenhand.individual.flips import (
    COMPARED,
    Decisions,
    Variants,
    build_variants,
    compare,
    find_flips,
    keep_apart,
    merge_by_unprotected,
)
from evenhand.individual.noise import ANSWERS, NoiseRecorder, confirm_flips
from evenhand.individual.result import (
    Assignment,
    CounterpartRate,
    FlipRate,
    IndividualResult,
    Profile,
    WeightedFlipRate,
)
from evenhand.models import CHECKED, FreshScorer, Scorer, check_noise, favourable_score, find_ledger
from evenhand.population import Population
from evenhand.schema import People, PeopleWeights, Schema, Value
from evenhand.stats import (
    Estimated,
    Observed,
    Quantity,
    Unknown,
    clopper_pearson,
    effective_counts,
    estimated_rate,
    freedom_ratio,
    observed_rate,
    replicate_counts,
)
from evenhand.typing import Booleans, Floats, Integers, Progress

CHUNK = 65_536
"""Individuals asked about between two looks at the clock."""


WEIGHTED = "Clopper-Pearson, of effective sample sizes (weights; Korn-Graubard)"

CHECK_SHARE = 0.1
"""Of a time limit no more than this goes into asking some people twice, if that takes more than one batch."""


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
        flags: what was found of each person reached, see ``PersonFlips``, shape (people, 5).
        violators: one individual per distinct one who flips (between plausible counterparts), (n, attributes).
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
    flags: Booleans
    violators: Floats


def measure_flips(
    scorer: Scorer,
    people: People,
    population: Population,
    config: FlipConfig | None = None,
    *,
    weights: PeopleWeights | None = None,
    white_box: Scorer | None = None,
    progress: Progress | None = None,
    clock: WorkClock | None = None,
    **settings: Any,
) -> IndividualResult:
    """Measure the counterfactual flip rate of the people in the data and of a population, with the clearest examples.

    Args:
        scorer: the model.
        people: everybody is asked about (once per protected assignment), within the time limit.
        population: where further individuals are drawn from.
        config: the settings; ``protected`` must be among them.
        weights: how much each person in the data counts in a weighted rate beside the unweighted one.
        white_box: the inside of the model. It answers most questions if it decides some people, drawn at random and
            given every protected assignment, exactly like the model (see ``flips``); the scores of examples are
            always the model's own.
        progress: called with what is being done and the share done, 0 to 1.
        clock: by which the time limit is told; one made of ``IndividualResult.work`` repeats that run.
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
    timer = WorkClock.start(clock, config)
    limit, allowance = timer.limit(config.time_limit), _Allowance(scorer, config.budget)
    rates: list[FlipRate] = []
    examples: list[Profile] = []
    parts: list[tuple[tuple[str, ...], Literal["data", "population"]]] = [
        (protected, source) for protected in sets for source in ("data", "population")
    ]
    noise, interrupted = None, False
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
        has_values = _are_known(people.schema, everybody, protected)
        known = everybody[has_values]
        answered = _count_flips(
            decisions,
            people,
            known,
            protected,
            limit.share(share),
            allowance.share(share),
            recorder,
        )
        if answered.people > 0:
            rate = _flip_rate(source, answered, protected, people, population, config)
            rate = rate.model_copy(update={"unknown": len(everybody) - len(known)})
            if weights is not None and source == "data" and recorder is None:
                counted = weights.at(order[has_values][: answered.people])
                rate = rate.model_copy(update={"weighted": _weigh_rate(rate, answered, counted, config.confidence)})
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
    return IndividualResult(
        rates=tuple(rates),
        examples=tuple(examples),
        interrupted=interrupted,
        counted_with="model" if decisions.white_box is None else "white box",
        compared=decisions.compared,
        noise=noise,
        seed=config.seed,
        work=timer.work(),
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


def _count_flips(
    decisions: Decisions,
    people: People,
    individuals: Floats,
    protected: Sequence[str],
    limit: TimeLimit,
    allowance: _Allowance,
    recorder: NoiseRecorder | None,
) -> FlipCount:
    schema = people.schema
    m = len(schema.assignments(protected))
    if recorder is not None:  # a noisy model's answers about two people who are alike are two answers
        distinct = keep_apart(individuals)
    else:
        # Who differs in the protected attributes alone has the same variants as published, but another counterpart.
        distinct = merge_by_unprotected(individuals, [] if schema.constrains_people else schema.positions(protected))
    # An endpoint takes few individuals per request: time is looked after between requests.
    rows = max(1, min(CHUNK, int(getattr(decisions.model, "batch", CHUNK))) // m)
    found = np.zeros((len(distinct.individuals), len(PersonFlips._fields)), dtype=np.bool_)
    answers = 1 if recorder is None else recorder.scorer.answers
    at = queries = 0
    interrupted = False

    # With rules, people have counterparts besides the published variants; a noisy model is asked once more about each.
    each = m * (2 if schema.constrains_people else 1)
    if isinstance(decisions.model, FreshScorer):
        each *= decisions.model.answers + 1

    def decide(asked: Floats) -> Integers:
        nonlocal queries
        queries += len(asked) * answers
        return decisions.labels(asked)

    try:
        while at < len(found) and not (at and limit.passed()):
            affordable = int(min(rows, allowance.left / each))
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
            found[at : at + len(chunk)] = np.stack(counted, axis=1)
            at += len(chunk)
    except BudgetError:
        pass  # further tries after failures cost more than was foreseen
    except KeyboardInterrupt:
        interrupted = True
    complete = at >= len(found)
    # Only people before the first one not asked about: these are a random draw, in which no one was preferred.
    reached = len(individuals) if complete else int(distinct.first[at])
    flags = found[distinct.of[:reached]]
    counts: list[int] = flags.sum(axis=0).tolist()
    return FlipCount(
        **dict(zip(PersonFlips._fields, counts, strict=True)),
        people=reached,
        queries=queries,
        complete=complete,
        interrupted=interrupted,
        flags=flags,
        violators=distinct.individuals[PersonFlips(*found.T).flips],
    )


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
    )


def _weigh_rate(rate: FlipRate, answered: FlipCount, weights: PeopleWeights, confidence: float) -> WeightedFlipRate:
    """Return the headline's rate of the people reached, weighted."""
    flags, w = PersonFlips(*answered.flags.T), weights.values
    compared, flips = (
        (np.ones_like(flags.published), flags.published)
        if rate.counterfactual is None
        else (flags.compared, flags.flips)
    )
    below, above = ((w[kept].sum(keepdims=True), (w[kept] ** 2).sum(keepdims=True)) for kept in (compared, flips))
    size, n = float(below[0][0] ** 2 / max(below[1][0], 1e-300)), int(compared.sum())
    if below[0][0] <= 0:
        unknown = Unknown(reason="no one who was compared has a weight")
        return WeightedFlipRate(by=weights.name, rate=unknown, effective_size=0.0)
    k, effective = effective_counts(below, above, np.array([n]))
    method, replicates = WEIGHTED, weights.replicates
    if replicates is not None:
        role, (top, bottom) = replicates.role, (replicates.values[kept].sum(axis=0)[None] for kept in (flips, compared))
        k, effective, _ = replicate_counts((k, effective), np.array([n]), (top, bottom), role.factor)
        ratio = freedom_ratio(effective, role.freedom, confidence)
        k, effective = k * ratio, effective * ratio
        method = f"Clopper-Pearson, of effective sample sizes ({role.description}; Korn-Graubard)"
    low, high = clopper_pearson(k, effective, confidence)
    ends = {"value": float(k[0] / effective[0]), "low": float(low[0]), "high": float(high[0]), "n": n}
    shown: Quantity
    if answered.complete:
        shown = Observed(confidence=confidence, method=method, **ends)
    else:
        shown = Estimated(confidence=confidence, method=method, population=rate.population, **ends)
    return WeightedFlipRate(by=weights.name, rate=shown, effective_size=size)


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
    if isinstance(model, FreshScorer):
        # A flip between single answers may be noise. Asking again costs no more than the count of flips did.
        kept = kept[: answered.queries // (ANSWERS * variants.plausible.shape[1])]
        confirmed = confirm_flips(
            model, variants.counterparts[kept], variants.plausible[kept], confidence=config.confidence
        )
        kept = kept[confirmed.kept]
        variants, labels = variants[kept], confirmed.labels[confirmed.kept]
        scores = confirmed.scores[confirmed.kept][:, :, model.favourable]
    else:
        variants = variants[kept]
        _, labels = variants.labels(decisions.labels)
        scores = np.full(labels.shape, np.nan)
        scores[variants.plausible] = favourable_score(model, variants.counterparts[variants.plausible])
    return find_clearest(
        schema,
        schema.positions(protected),
        AssignmentDecisions(looked_at[kept], variants.counterparts, variants.plausible, labels, scores),
        classes=model.classes,
        most=most,
        source=source,
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
    schema: Schema,
    columns: Sequence[int],
    decisions: AssignmentDecisions,
    *,
    classes: tuple[Value, ...],
    most: int,
    source: Literal["data", "population"],
) -> list[Profile]:
    """Return the ``most`` individuals whose best and worst treated variants lie furthest apart.

    Args:
        columns: positions of the protected attributes.
        decisions: of the model under each assignment.
    """
    _, _, compared, labels, scores = decisions
    width = len(schema.attributes)  # without the row of the data that everybody may carry
    individuals, variants = decisions.individuals[:, :width], decisions.variants[:, :, :width]
    rows = np.arange(len(individuals))
    better = np.argmax(np.where(compared, scores, -np.inf), axis=1)
    other = compared & (labels != labels[rows, better][:, None])
    # Worst among those with another label: a lower score with the same label is not a flip.
    worse = np.argmin(np.where(other, scores, np.inf), axis=1)
    gaps = scores[rows, better] - scores[rows, worse]
    order = np.argsort(-gaps, kind="stable")[:most]
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

    return [profile(row) for row in order.tolist()]
