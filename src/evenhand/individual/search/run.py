"""One search: how common it is, then the method, then every finding verified on the model again."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from evenhand import models
from evenhand.errors import OptionError
from evenhand.individual.flips import disagree
from evenhand.individual.search.findings import UNASKED, Findings, Found
from evenhand.individual.search.methods import Options
from evenhand.individual.search.methods import method as method_named
from evenhand.individual.search.oracle import IN_CACHE, ROWS, Oracle, Spent
from evenhand.individual.search.rates import measure
from evenhand.individual.search.reading import Read, read, weigh
from evenhand.individual.search.reading.attributes import TRIED
from evenhand.individual.search.remember import Remembered
from evenhand.individual.search.result import Example, SearchResult, ViolationRate, examples
from evenhand.individual.search.space import Space
from evenhand.individual.search.table import Table
from evenhand.models import AdditiveNetwork, Scorer
from evenhand.models.scorer import BATCH
from evenhand.schema import People, Schema

Floats: TypeAlias = NDArray[np.float64]
StoppedBy: TypeAlias = Literal["plan", "budget", "time", "interrupt"]

SEEDS = 100
"""Seeds of the first round, where nobody says how many."""

MOST_SEEDS = 1000
"""Rounds grow to this many, since more seeds at a time make larger and fewer calls to the model."""

SAMPLES = 4096
"""Individuals drawn for each violation rate."""

VERIFIED = 10_000
"""Profiles that are asked about again at a time; an interrupt loses no more than these."""

IDLE_ROUNDS = 5
"""After so many rounds in a row that asked nothing new, a budget is left unspent."""


def run(
    model: Any,
    source: People | Schema,
    *,
    protected: Sequence[str] | None = None,
    method: str = "frontier",
    seeds: int | Floats | None = None,
    local: int = 100,
    h: float = 1.0,
    budget: int | None = None,
    time_limit: float | None = None,
    constraints: Sequence[str] = (),
    anything_goes: bool = False,
    samples: int = SAMPLES,
    confidence: float = 0.95,
    most_examples: int = 20,
    seed: int = 0,
    resume: Path | None = None,
    progress: Callable[[str, float], None] | None = None,
) -> SearchResult:
    """Search for profiles that a model decides differently under some protected assignment.

    Args:
        model: a ``Scorer``, or anything that ``evenhand.models.load`` takes.
        source: the people (seeds, and who could exist), or their schema alone.
        protected: attributes whose joint values are compared; by default those that the schema marks.
        method: one of ``METHODS``.
        seeds: how many people to start from, or the people (n, attributes) themselves. Left out, it is 100; with a
            budget the method begins again with others until the budget is spent.
        local: moves around each profile that the method's global phase finds.
        h: for MAFT, how far apart two questions lie for a slope, in steps of the attribute.
        budget: individuals that the search may ask the model about.
        time_limit: seconds, for everything but the verification.
        constraints: what holds for people who could exist (see ``constraints.constraint``).
        anything_goes: also report profiles whose pairs of values never occur in the data.
        samples: individuals drawn for each violation rate; 0 measures none.
        confidence: of the rates' intervals.
        most_examples: profiles shown in full.
        seed: of all random numbers.
        resume: a file that keeps every answer; a search with the same settings that was cut short goes on from it.
        progress: called with what is being done and the share done, 0 to 1.

    Returns:
        What was found; an interrupt (Ctrl-C) or a limit leaves what was found before.

    Raises:
        EvenhandError: the options make no sense, or the model cannot be asked.
    """
    started = time.perf_counter()
    search = _check(method, seeds, budget, time_limit, confidence)
    options = Options(local=local, h=h)
    space = Space(source, protected, constraints=constraints, anything_goes=anything_goes)
    if isinstance(seeds, np.ndarray):
        seeds = _people(seeds, space.schema)
    scorer: Scorer = models.load(model, space.schema)
    memory = Remembered(scorer, resume) if resume is not None else None
    scorer = memory or scorer
    deadline = None if time_limit is None else started + time_limit
    rng, rate_rng, reading_rng = np.random.default_rng(seed).spawn(3)
    say = progress or (lambda what, share: None)
    findings = Findings(space, len(scorer.classes))
    rates: tuple[ViolationRate, ...] = ()
    stopped_by: StoppedBy = "plan"
    oracle = Oracle(scorer, space, findings, budget=budget, deadline=deadline, progress=_shown(say, method, budget))
    try:
        say("how common it is", 0.0)
        if samples:
            aside = Oracle(scorer, space, Findings(space, len(scorer.classes)), budget=budget, deadline=deadline)
            rates = measure(aside, space, source, rate_rng, samples=samples, confidence=confidence)
        idle, count = 0, SEEDS
        while True:
            chosen = seeds if isinstance(seeds, np.ndarray) else space.seeds(seeds or count, rng)
            if len(chosen) == 0:
                raise OptionError(
                    "nobody was found who satisfies the constraints", mend="loosen them, or give people who do"
                )
            findings.start_from(np.ascontiguousarray(chosen[:, space.columns]))
            before = oracle.queries
            over = search(space, oracle, findings, chosen, rng, options) is False
            idle = idle + 1 if oracle.queries == before else 0
            if over or budget is None or seeds is not None or idle == IDLE_ROUNDS:
                break
            count = _next_count(count, oracle.queries - before, oracle.left)
    except Spent:
        late = deadline is not None and time.perf_counter() > deadline
        stopped_by = "time" if late else "budget"
    except KeyboardInterrupt:
        stopped_by = "interrupt"
    say("verifying", 1.0)
    confirmed, cut_short = verified(scorer, space, findings.found())
    if cut_short:
        stopped_by = "interrupt"
    table = Table(
        schema=space.schema,
        protected=space.protected,
        assignments=space.assignments,
        classes=scorer.classes,
        favourable=scorer.favourable,
        found=confirmed,
        with_data=space.people is not None,
    )
    shown: Read | None = None
    try:
        unhurried = stopped_by in ("plan", "budget") and oracle.left >= 2 * TRIED * space.width
        shown = read(table, space, partial(models.predict, scorer) if unhurried else None, reading_rng)
    except KeyboardInterrupt:
        stopped_by = "interrupt"
    if memory is not None:
        memory.close()
    found = table.found
    return SearchResult(
        method=method,
        protected=space.protected,
        profiles=len(found),
        valid=int(found.valid.sum()) if table.with_data else None,
        given=int(found.given.sum()),
        queries=oracle.queries,
        rate=rates[0] if rates else None,
        rates=rates,
        examples=_examples(table, shown, most_examples),
        reading=None if shown is None else shown.reading,
        representatives=_representatives(table, shown, space),
        interrupted=stopped_by == "interrupt",
        stopped_by=stopped_by,
        remembered=memory.remembered if memory is not None else 0,
        settings={
            "seeds": len(seeds) if isinstance(seeds, np.ndarray) else seeds or SEEDS,
            "local": local,
            "h": h,
            "budget": budget,
            "time_limit": time_limit,
            "constraints": [text.strip() for text in constraints],
            "anything_goes": anything_goes,
            "samples": samples,
        },
        table=table,
        seed=seed,
        seconds=time.perf_counter() - started,
    )


def _examples(table: Table, shown: Read | None, most: int) -> tuple[Example, ...]:
    if shown is None:  # nothing was found, or somebody had no time for the ranking
        rows = np.lexsort((-table.gap, ~table.found.valid))[:most]
        return examples(table, rows, table.gap[rows])
    ranked = shown.ranked[:most]
    return examples(table, ranked.rows, ranked.severity, ranked.distance, ranked.nearest)


def _representatives(table: Table, shown: Read | None, space: Space) -> tuple[Example, ...]:
    if shown is None:
        return ()
    ranked = weigh(table, space, shown.representatives)
    return examples(table, ranked.rows, ranked.severity, ranked.distance, ranked.nearest)


def verified(scorer: Scorer, space: Space, found: Found) -> tuple[Found, bool]:
    """Those profiles that the model itself, asked once more, still decides differently, with its own labels.

    Returns:
        The profiles, and whether somebody stopped it (Ctrl-C): then only those asked about by then.
    """
    parts = [_verified(scorer, space, found[:0])]
    try:
        for at in range(0, len(found), VERIFIED):
            part = _verified(scorer, space, found[at : at + VERIFIED])
            parts.append(part)
    except KeyboardInterrupt:
        return Found.joined(parts), True
    return Found.joined(parts), False


def _verified(scorer: Scorer, space: Space, found: Found) -> Found:
    """Where the search had asked about some assignments only, the scores of all are asked now."""
    if len(found) == 0:
        return found
    batch = IN_CACHE if isinstance(scorer, AdditiveNetwork) else ROWS
    labels = models.predict(scorer, space.rows(found.unprotected), batch=batch).reshape(found.labels.shape)
    kept = disagree(labels)
    scores = found.scores.copy()
    some = kept & (found.labels == UNASKED).any(axis=1)
    rows = space.rows(found.unprotected[some])
    parts = [scorer.scores(rows[i : i + BATCH]) for i in range(0, len(rows), BATCH)]
    if parts:
        scores[some] = np.concatenate(parts).reshape(-1, *scores.shape[1:])
    return Found(found.unprotected[kept], labels[kept], scores[kept], found.valid[kept], found.given[kept])


def _next_count(count: int, cost: int, left: float) -> int:
    """Seeds of the next round: twice as many as in the last, as far as the budget is likely to pay for the round."""
    payable = int(count * left / cost) if cost else count
    return max(SEEDS, min(2 * count, payable, MOST_SEEDS))


def _people(seeds: Floats, schema: Schema) -> Floats:
    """Given seeds, if they are individuals of this schema."""
    if seeds.ndim != 2 or seeds.shape[1] != len(schema.attributes) or len(seeds) == 0:
        raise OptionError(
            f"seeds of shape {seeds.shape} are no individuals",
            mend=f"expected (n, {len(schema.attributes)}), n above 0",
        )
    outside = ~schema.contains(seeds)
    if outside.any():
        raise OptionError(f"seed {int(np.argmax(outside)) + 1} lies outside the domain")
    return np.asarray(seeds, dtype=np.float64)


def _check(
    name: str, seeds: int | Floats | None, budget: int | None, time_limit: float | None, confidence: float
) -> Any:
    if isinstance(seeds, int) and seeds < 1:
        raise OptionError(f"a search needs at least one seed, not {seeds}")
    if budget is not None and budget < 1:
        raise OptionError(f"the budget must be at least one query, not {budget}")
    if time_limit is not None and not time_limit > 0:
        raise OptionError(f"the time limit must be positive, not {time_limit:g} seconds")
    if not 0 < confidence < 1:
        raise OptionError(f"confidence must lie between 0 and 1, not {confidence:g}")
    return method_named(name)


def _shown(say: Callable[[str, float], None], name: str, budget: int | None) -> Callable[[int], None]:
    return lambda queries: say(f"{name}: {queries:,} queries", 0.1 if budget is None else queries / budget)
