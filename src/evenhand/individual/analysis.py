"""Measurement of counterfactual flip rates over the people in the data and over a population (see ``flips``)."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np
from pydantic import field_validator

from evenhand.core.config import Config, setting
from evenhand.core.time_limit import TimeLimit
from evenhand.core.typing import Floats, Integers, Progress, ignore_progress
from evenhand.errors import BudgetError, OptionError
from evenhand.individual.flips import (
    MAX_CHUNK_ENTRIES,
    DistinctProfiles,
    FlipAnswers,
    FlipRate,
    Variants,
    attribute_sets,
    build_variants,
    confirm_flips,
    find_real,
    find_widest_pairs,
    merge_by_unprotected,
)
from evenhand.individual.noise import NoiseRecorder, rate_of
from evenhand.individual.result import IndividualResult, Profile, describe_pair
from evenhand.individual.white_box import WhiteBoxScorer, compare_labels
from evenhand.models.noise import CHECKED, FreshScorer, RepeatCheck, can_vary, check_noise
from evenhand.models.replies import QuestionLedger, ask_people, find_ledger
from evenhand.models.scorer import Scorer, favourable_score, predict_labels
from evenhand.population.independent import Population
from evenhand.schema.people import People
from evenhand.schema.schema import Schema

Source: TypeAlias = Literal["data", "population"]

CHUNK, TIMED_CHUNK = 65_536, 8192
"""Maximum number of individuals per query, without and with a time limit, which is checked between queries."""

MAX_COMPARED, MAX_COMPARED_ENTRIES = 10_000, 1_000_000
"""Maximum number of individuals, and of their entries, used to compare the model with the white box."""

CHECK_SHARE = 0.1
"""Fraction of the time limit for the noise check, if it takes more than one batch."""

COUNT_SHARE = 0.75
"""Fraction of the time limit for the first answers if flips are queried again."""

MAX_EXAMPLE_QUERIES = 65_536
"""Maximum number of variants whose scores are queried to select examples."""

SPARE = 4
"""Number of candidates per example. Some are dropped: they do not repeat, or are sampled and reveal a real person."""

RESERVED_ROUNDS = 2
"""Number of rounds of repeated queries per flip that a budget reserves."""


class VariationConfig(Config):
    """Settings of analyses that vary protected attributes."""

    protected: tuple[str, ...] = setting(..., "attributes to vary, first one at a time and then jointly")
    samples: int = setting(20_000, "individuals drawn from the population", ge=1)
    examples: int = setting(6, "examples per set of protected attributes", ge=0)
    confidence: float = setting(0.95, "confidence level of every interval", gt=0, lt=1)
    as_published: bool = setting(False, "change only the protected attribute, ignoring the rules of the schema")
    seed: int = setting(0, "same seed, same result", ge=0)

    @field_validator("protected")
    @classmethod
    def _require_protected(cls, protected: tuple[str, ...]) -> tuple[str, ...]:
        if not protected:
            raise OptionError("no protected attribute to vary", hint="name at least one: `protected=NAME`")
        return protected


class FlipConfig(VariationConfig):
    """Settings of the counterfactual flip rate.

    If the time limit is reached, the last rates are not measured. A truncated rate is estimated from the people
    processed so far, in random order.
    """

    time_limit: float | None = setting(None, "time limit for all rates together", unit="seconds")
    repeats: int = setting(
        1, "answers per person and protected value; the majority counts (for models whose answers vary)", ge=1
    )
    budget: int | None = setting(None, "maximum number of individuals queried, for all rates together", ge=1)


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
        scorer: The model.
        people: The people. Each is queried once per protected assignment, within the time limit.
        population: Population that further individuals are drawn from.
        config: The settings, including ``protected``.
        white_box: White box of the model. It answers most queries if it reproduces the model's decisions on a random
            sample of people under every protected assignment (see ``white_box``). Scores of examples always come from
            the model.
        progress: Called with a description of the current step and the completed fraction.
        settings: Fields of ``FlipConfig`` that replace those of ``config``.

    Raises:
        OptionError: A protected attribute has one value, or there are too many joint assignments.
    """
    started = time.perf_counter()
    config = FlipConfig.of(config, settings)
    progress = progress or ignore_progress
    rng = np.random.default_rng(config.seed)
    if config.as_published:
        people = replace(people, schema=people.schema.without_rules())
    sampled = population.sample(config.samples, rng)
    individuals: dict[Source, Floats] = {"data": people.individuals[rng.permutation(len(people))]}
    individuals["population"] = sampled
    sets = attribute_sets(config.protected)
    for protected in sets:
        people.schema.assignments(protected)  # refuse invalid sets before the first query
    limit, left = TimeLimit(config.time_limit), _allowance(scorer, config.budget)
    parts: list[tuple[tuple[str, ...], Source]] = [(names, source) for names in sets for source in individuals]
    noise, interrupted = None, False
    model, front = scorer, None
    try:
        front = compare_labels(scorer, white_box, _some_variants(people, individuals, config.protected))
        if front is None:
            noise = check_noise(
                scorer,
                individuals["data"],
                most=int(min(CHECKED, CHECK_SHARE * left() / 2)),
                confidence=config.confidence,
                limit=limit.share(CHECK_SHARE),
            )
        if noise is not None and (noise.noisy or config.repeats > 1):
            model = FreshScorer(scorer, config.repeats)
    except KeyboardInterrupt:
        parts, interrupted = [], True
    meter = FlipMeter(model, front, people.schema, config.confidence, rng)
    names: dict[Source, str] = {"data": f"the {len(people):,} people in the data", "population": population.name}
    rates: list[FlipRate] = []
    examples: list[Profile] = []
    for step, (protected, source) in enumerate(parts):
        progress(f"flips with {' x '.join(protected)}, {source}", step / len(parts))
        share = 1 / (len(parts) - step)
        rows = individuals[source]
        declared = [people.schema.position(name) for name in protected if people.schema[name].unknown is not None]
        known = rows[~np.isnan(rows[:, declared]).any(axis=1)] if declared else rows
        rate, violators, interrupted = meter.count(
            known,
            protected,
            over=source,
            population=names[source],
            limit=limit.share(share),
            left=_allowance(scorer, left() * share),
        )
        if rate is not None:
            rates.append(rate.model_copy(update={"unknown": len(rows) - len(known)}))
        if interrupted:
            break
        with suppress(BudgetError):  # the budget does not cover scores of examples
            shown = sum(set(item.better.values) == set(protected) for item in examples)
            examples += meter.find_clearest(people, protected, violators, source, config.examples - shown)
    return IndividualResult(
        rates=tuple(rates),
        examples=tuple(examples),
        counterparts=people.schema.constrains_people,
        interrupted=interrupted,
        counted_with="model" if front is None else "white box",
        compared=0 if front is None else front.compared,
        noise=noise,
        seed=config.seed,
        time_limited=limit.decided,
        seconds=time.perf_counter() - started,
    )


def _some_variants(people: People, individuals: dict[Source, Floats], protected: Sequence[str]) -> Floats:
    """Build variants of the first individuals of each source.

    There are at most ``MAX_COMPARED`` variants in total, but at least one individual per source.
    """
    assignments, columns = people.schema.assignments(protected), people.schema.positions(protected)
    variants = min(MAX_COMPARED, MAX_COMPARED_ENTRIES // len(people.schema.attributes))
    n = max(1, variants // (len(individuals) * len(assignments)))
    distinct = merge_by_unprotected(np.concatenate([rows[:n] for rows in individuals.values()]), columns)
    return build_variants(distinct.individuals, columns, assignments)


def _allowance(scorer: Scorer, rows: float | None) -> Callable[[], float]:
    """Return a function that computes the remaining number of individuals within a budget and the model's ledger."""
    ledger = find_ledger(scorer)
    if ledger is None:
        return lambda: np.inf
    until = np.inf if rows is None else ledger.sent + rows
    return lambda: min(until - ledger.sent, ledger.left)


@dataclass(frozen=True)
class FlipMeter:
    """Queries a model about people under protected assignments, and counts flips.

    Attributes:
        model: The model. If its answers are known to vary, a wrapper without a cache.
        front: White box that is queried instead of the model. None if the model itself is queried.
        ledger: Ledger that is charged if the model has none.
    """

    model: Scorer
    front: WhiteBoxScorer | None
    schema: Schema
    confidence: float
    rng: np.random.Generator
    ledger: QuestionLedger | None = None

    def count(
        self,
        individuals: Floats,
        protected: tuple[str, ...],
        *,
        over: Source,
        population: str,
        limit: TimeLimit,
        left: Callable[[], float],
    ) -> tuple[FlipRate | None, Floats, bool]:
        """Count the flips of individuals (n, attributes) in random order, within a time limit and a budget.

        Returns:
            The rate (None if a limit or an interrupt stopped the count before the first person), one individual
            per distinct profile that flips, (n, attributes), and whether an interrupt stopped the count.
        """
        schema, model, confidence = self.schema, self.model, self.confidence
        varies = self.front is None and can_vary(model)  # flips count only if they repeat
        recorder = NoiseRecorder(model, self.rng) if isinstance(model, FreshScorer) else None
        repeats = 1 if recorder is None else recorder.scorer.answers
        m = len(schema.assignments(protected))
        if recorder is not None:  # a noisy model may answer differently for identical people
            positions = np.arange(len(individuals))
            distinct = DistinctProfiles(individuals, positions, positions)
        else:
            # People who differ only in protected attributes share variants, unless they have different counterparts.
            ignored = [] if schema.constrains_people else schema.positions(protected)
            distinct = merge_by_unprotected(individuals, ignored)
        # An endpoint accepts few individuals per request: the time limit is checked between requests.
        max_rows = CHUNK if limit.moment is None else TIMED_CHUNK
        max_rows = min(max_rows, MAX_CHUNK_ENTRIES // len(schema.attributes), int(getattr(model, "batch", CHUNK)))
        rows = max(1, max_rows // m)
        answers = FlipAnswers(schema, protected, distinct.individuals)
        flips = answers.flips
        at = queries = repeated_queries = 0
        interrupted = False
        counting = limit.share(COUNT_SHARE) if varies else limit
        cost = m if recorder is None else m * (repeats + 1)  # a noisy model is queried again
        reserve = 2 * RESERVED_ROUNDS * repeats if varies else 0

        def predict(variants: Floats) -> Integers:
            nonlocal queries
            if self.ledger is not None and find_ledger(model) is None:
                self.ledger.charge(len(variants))
            queries += len(variants) * repeats
            return predict_labels(self.front or model, variants)

        try:
            while at < len(flips) and not (at and counting.passed()):
                reserved = reserve * np.count_nonzero(flips)
                affordable = int(min(rows, (left() - reserved) / (cost + reserve)))
                if affordable < 1:
                    break
                part = slice(at, at + affordable)
                variants, labels = answers.add(part, predict)
                if recorder is not None:
                    compared = answers.compared[part]
                    several = variants[np.flatnonzero(compared)]
                    recorder.add(several.counterparts, labels[compared], several.plausible, flips[part][compared])
                at += len(labels)
        except BudgetError:
            pass  # retries after failures cost more than expected
        except KeyboardInterrupt:
            interrupted = True
        flips[at:] = False
        single = flips.copy()
        try:
            if varies:
                repeated_queries, end = answers.confirm(
                    model, confidence=confidence, ledger=self.ledger, left=left, limit=limit
                )
                at = min(at, end)
        except BudgetError:
            at = min([at, *np.flatnonzero(single)[:1].tolist()])
        except KeyboardInterrupt:
            at, interrupted = 0, True
        flips[at:] = False
        complete = at >= len(flips)
        # Only people before the first unanswered query count: they are a random sample.
        reached = len(individuals) if complete else int(distinct.first[at])
        if reached == 0:
            return None, individuals[:0], interrupted
        of = distinct.of[:reached]
        count, n, breaking, differed = (
            int(mask[of].sum()) for mask in (flips, answers.compared, answers.breaking, single)
        )
        everyone = over == "data" and complete
        if everyone:
            population = "the people in the data"
        sampled_from = None if everyone else population
        check = RepeatCheck(
            differed=differed, tested=differed, repeated=count, queries=repeated_queries, confidence=confidence
        )
        rate = FlipRate(
            over=over,
            population=population,
            protected=protected,
            rate=rate_of(count, n, confidence, sampled_from),
            flips=count,
            n=n,
            without=reached - n - breaking,
            breaking=breaking,
            queries=queries,
            repeats=check if varies else None,
            noise=None if recorder is None else recorder.result(confidence, sampled_from),
        )
        return rate, distinct.individuals[flips], interrupted

    def find_clearest(
        self, people: People, protected: tuple[str, ...], violators: Floats, source: Source, max_examples: int
    ) -> list[Profile]:
        """Select the violators (n, attributes) with the widest gap between scores, once per unprotected attributes.

        Sampled violators that reveal a person in the data are dropped.
        """
        schema, model = self.schema, self.model
        candidates = violators[: max(max_examples, MAX_EXAMPLE_QUERIES // len(schema.assignments(protected)))]
        if len(candidates) == 0 or max_examples <= 0:
            return []
        variants = Variants.of(schema, protected, candidates)
        # People who are counterparts of each other form one pair.
        positions = merge_by_unprotected(variants.representatives, []).first
        if isinstance(model, FreshScorer):
            positions = positions[: SPARE * max_examples]
        variants = variants[positions]
        plausible, counterparts = variants.plausible, variants.counterparts
        scores = np.full(plausible.shape, np.nan)
        labels = np.zeros(scores.shape, dtype=np.int64)
        varies = self.front is None and can_vary(model)
        if varies:
            reply = ask_people(model, counterparts[plausible])
            labels[plausible], scores[plausible] = reply.labels, reply.scores[:, model.favourable]
        else:
            labels[plausible] = predict_labels(self.front or model, counterparts[plausible])
            scores[plausible] = favourable_score(model, counterparts[plausible])
        pairs, gaps, differs = find_widest_pairs(labels, scores, plausible)
        order = np.argsort(-gaps, kind="stable")
        order = order[differs[order]][: SPARE * max_examples]
        at = order[:, None], pairs[order]
        sides, values, decisions = counterparts[at], scores[at], labels[at]
        kept = np.ones(len(order), dtype=np.bool_)
        if varies:
            kept, values, _ = confirm_flips(model, sides, decisions, confidence=self.confidence)
        if source == "population":
            kept &= ~find_real(people, protected, counterparts[order], plausible[order])
        widest = np.argsort(values[:, 0] - values[:, 1], kind="stable")
        return [
            describe_pair(
                schema,
                protected,
                sides[row],
                [model.classes[label] for label in decisions[row]],
                values[row],
                real=source == "data",
            )
            for row in widest[kept[widest]][:max_examples]
        ]
