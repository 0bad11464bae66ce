"""One search in texts: the model is asked about every text once, then about texts whose words are swapped."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from evenhand.core import WorkClock
from evenhand.datasets import IdentityCategory, resolve_categories
from evenhand.errors import DataError, OptionError
from evenhand.models import TextAnswers, check_texts, load_text_model
from evenhand.subgroups.config import TextSubgroupConfig
from evenhand.subgroups.measures import TextOutcomes
from evenhand.subgroups.result import AttributeCells, TextSubgroupResult
from evenhand.subgroups.text.mentions import Mentions, find_mentions
from evenhand.subgroups.text.observed import measure_observed_gaps
from evenhand.subgroups.text.sampled import sample_text_gaps
from evenhand.subgroups.text.swapped import SwappableText, measure_swap_effects, measure_text_flips, select_swappable
from evenhand.typing import Progress


def find_text_subgroups(
    model: Any,
    texts: Iterable[str],
    config: TextSubgroupConfig | None = None,
    *,
    protected: Sequence[str | IdentityCategory] | None = None,
    truth: Sequence[Any] | None = None,
    clusters: Sequence[Any] | None = None,
    trust: bool = False,
    progress: Progress | None = None,
    clock: WorkClock | None = None,
    **settings: Any,
) -> TextSubgroupResult:
    """Search for subgroups of texts that a model treats differently.

    Args:
        model: a scikit-learn text pipeline, or any function from a list of texts to labels or scores (of the favourable
            label, from 0 to 1, given above 1/2; or one per label); or a file of one, a URL (``http://...``), or
            ``module:function``.
        texts: what it decides about.
        config: the settings.
        protected: the categories: names of lists that come with the package (``gender``, ``religion``, ...;
            ``published`` for the 48 terms of the paper in four categories) or lists of your own
            (``evenhand.datasets.identity.read_categories``); all of the package's if left out.
        truth: the true label of each text, for error rates.
        clusters: which texts belong together, such as those made from one template or written by one author; by default
            those that are the same once identity terms are cut out.
        trust: allow model files that can run code when loaded.
        progress: called with what is being done and the share done, 0 to 1.
        clock: by which the time limit is told; one made of ``TextSubgroupResult.work`` repeats that run.
        settings: fields of ``TextSubgroupConfig`` by name, in place of those in ``config``.

    Raises:
        DataError: there are no texts, none has a term of these categories, or truth or clusters do not fit them.
        ModelError: the model fails or its replies are not labels or scores.
        OptionError: the settings make no sense.
        LimitError: an interrupt stopped it before the model was asked about every text.
    """
    started = time.perf_counter()
    config = TextSubgroupConfig.of(config, settings)
    say = progress or (lambda what, share: None)
    every = check_texts(texts)
    truth, clusters = _check_length(truth, len(every), "truth"), _check_length(clusters, len(every), "clusters")
    if truth is None and config.measure in ("false-negative", "false-positive"):
        raise OptionError(f"the {config.measure} rate needs the true labels", hint="give them as truth")
    timer = WorkClock.start(clock, config)
    limit = timer.limit(config.time_limit)
    asking = TextAnswers(load_text_model(model, trust=trust), config.labels, config.favourable, limit)
    say("looking for identity terms", 0.0)
    said = find_mentions(every, resolve_categories(protected, by_term=config.by == "term"))
    shuffled = np.random.default_rng(config.seed).permutation(len(every))
    noise = asking.check_noise((every[row] for row in shuffled), confidence=config.confidence)
    asking.ask(every, lambda share: say(f"asking the model about {len(every):,} texts", share))
    measured = TextOutcomes(asking, config.measure, truth)
    rows = measured.find_concerned(every)
    texts, speaking = [every[row] for row in rows], said.of(rows)
    if config.method == "sampled":
        seen = sample_text_gaps(
            texts, speaking, measured, config, limit, lambda share: say("sampling swapped texts", share)
        )
        taken: list[SwappableText] = []
    else:
        taken = select_swappable(every, said, rows, clusters, config.swaps, np.random.default_rng(config.seed))
        asking.ask(
            (text for seed in taken for text in seed.slot.variants),
            lambda share: say("asking about texts with words swapped", share),
        )
        taken = [seed for seed in taken if (asking.positions(seed.slot.variants) >= 0).all()]
        say("counting", 1.0)
        seen = measure_observed_gaps(speaking, measured.of(texts), measured.is_counted, config)
    changed, critical = measure_swap_effects(
        taken, [measured.of(one.slot.variants) for one in taken], said, measured.is_counted, config
    )
    flips, examples = measure_text_flips(taken, asking, said, config)
    _, classes, wanted = asking.answers()
    published = config.method == "sampled"
    return TextSubgroupResult(
        method=config.method,
        measure=config.measure,
        against="rest",
        control="none" if published else config.control,
        confidence=config.confidence**2 if published else config.confidence,
        critical=seen.critical,
        margin=config.margin,
        support=config.support,
        min_size=config.min_texts,
        people=len(rows),
        rate=float(measured.of(texts).mean()),
        rule_sets=seen.rule_sets,
        tested=seen.tested,
        found=seen.found,
        attributes=tuple(
            AttributeCells(name=one.category.name, cells=one.category.groups, ordered=False) for one in said.swappers
        ),
        findings=seen.findings,
        judged=seen.judged,
        interrupted=asking.stopped,
        notes=(*seen.notes, *_result_notes(every, said, asking, taken, config)),
        classes=tuple(map(str, classes)),
        favourable=str(classes[wanted]),
        compared=config.compared,
        queries=asking.queries,
        noise=noise,
        effects=changed,
        effects_critical=critical,
        flips=flips,
        examples=examples,
        seed=config.seed,
        work=timer.work(),
        seconds=time.perf_counter() - started,
    )


def _check_length(given: Sequence[Any] | None, n: int, name: str) -> list[Any] | None:
    if given is None:
        return None
    found = list(given)
    if len(found) != n:
        raise DataError(f"there are {n:,} texts and {len(found):,} {name}", hint="give one for each text")
    return found


def _result_notes(
    every: Sequence[str],
    said: Mentions,
    asking: TextAnswers,
    taken: Sequence[SwappableText],
    config: TextSubgroupConfig,
) -> list[str]:
    notes = []
    missed = int((asking.positions(every) < 0).sum())
    if missed:
        notes.append(f"{missed:,} of {len(every):,} texts were not asked about: time was up, or it was interrupted.")
    repeated = len(every) - len(set(every))
    if repeated and config.method == "exact":
        notes.append(
            f"{repeated:,} of {len(every):,} texts repeat others word for word. Observed gaps count each, as if they "
            "were independent; swapping counts them once."
        )
    by_axis = Counter(seed.axis for seed in taken)
    few = [name for axis, name in enumerate(said.names) if config.swaps and by_axis[axis] < config.min_texts]
    if few and config.method == "exact":
        notes.append(f"Fewer than {config.min_texts:,} different texts to swap words in: {', '.join(few)}.")
    return notes
