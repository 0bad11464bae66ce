"""Searches for subgroups of texts. The model is queried about all texts, then about texts with swapped terms."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from evenhand.core.time_limit import TimeLimit
from evenhand.core.typing import Progress, ignore_progress
from evenhand.datasets.identity.lists import IdentityCategory, resolve_categories
from evenhand.errors import DataError, OptionError
from evenhand.models.blackbox.text_model import TextAnswers, check_texts, load_text_model
from evenhand.subgroups.config import TextSubgroupConfig
from evenhand.subgroups.measures import TextOutcomes
from evenhand.subgroups.result import AttributeCells, TextSubgroupResult
from evenhand.subgroups.text.mentions import Mentions, find_mentions
from evenhand.subgroups.text.observed import measure_observed_gaps
from evenhand.subgroups.text.swapped import SwappableText, measure_swap_effects, select_swappable


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
    **settings: Any,
) -> TextSubgroupResult:
    """Search for subgroups of texts that a model treats differently.

    Args:
        model: A scikit-learn text pipeline; or a function from a list of texts to labels or scores (of the favourable
            label, from 0 to 1, which is predicted above 1/2; or one per label); or a model file, a URL
            (``http://...``), or ``module:function``.
        texts: Texts that the model decides about.
        config: Settings.
        protected: Categories: names of included lists (``gender``, ``religion``, ...; ``published`` for the 48 terms of
            the paper in four categories) or your own lists (``evenhand.datasets.read_categories``). If None, all
            included lists.
        truth: True label of each text, for error rates.
        clusters: Cluster of each text, such as its template or author. By default, texts that are identical without
            their identity terms.
        trust: Allow model files that can run code when loaded.
        progress: Called with the current step and the completed share, from 0 to 1.
        settings: Fields of ``TextSubgroupConfig``, which override those of ``config``.

    Raises:
        DataError: There are no texts, none has a term of these categories, or ``truth`` or ``clusters`` have a
            different length.
        ModelError: The model fails, or its replies are not labels or scores.
        OptionError: The settings are invalid.
        LimitError: Interrupted before the model was queried about all texts.
    """
    started = time.perf_counter()
    config = TextSubgroupConfig.of(config, settings)
    progress = progress or ignore_progress
    texts = check_texts(texts)
    truth, clusters = _check_length(truth, len(texts), "truth"), _check_length(clusters, len(texts), "clusters")
    if truth is None and config.measure in ("false-negative", "false-positive"):
        raise OptionError(f"the {config.measure} rate needs the true labels", hint="pass them as truth")
    limit = TimeLimit.after(config.time_limit)
    answers = TextAnswers(load_text_model(model, trust=trust), config.labels, config.favourable, limit)
    progress("looking for identity terms", 0.0)
    mentions = find_mentions(texts, resolve_categories(protected, by_term=config.by == "term"))
    shuffled = np.random.default_rng(config.seed).permutation(len(texts))
    noise = answers.check_noise((texts[row] for row in shuffled), confidence=config.confidence)
    answers.ask(texts, lambda share: progress(f"querying the model about {len(texts):,} texts", share))
    outcomes = TextOutcomes(answers, config.measure, truth)
    rows = outcomes.find_concerned(texts)
    swappable = select_swappable(texts, mentions, rows, clusters, config.swaps, np.random.default_rng(config.seed))
    answers.ask(
        (variant for text in swappable for variant in text.slot.variants),
        lambda share: progress("querying the model about texts with swapped words", share),
    )
    swappable = [text for text in swappable if (answers.positions(text.slot.variants) >= 0).all()]
    progress("counting", 1.0)
    values = outcomes.of([texts[row] for row in rows])
    tests = measure_observed_gaps(mentions.of(rows), values, outcomes.is_counted, config)
    effects, effects_critical = measure_swap_effects(
        swappable, [outcomes.of(text.slot.variants) for text in swappable], mentions, outcomes.is_counted, config
    )
    _, classes, _ = answers.answers()
    return TextSubgroupResult(
        method="exact",
        measure=config.measure,
        control="max-t",
        confidence=config.confidence,
        margin=config.margin,
        support=config.support,
        min_size=config.min_texts,
        people=len(rows),
        rate=float(values.mean()),
        attributes=tuple(
            AttributeCells(name=swapper.category.name, cells=swapper.category.groups, ordered=False)
            for swapper in mentions.swappers
        ),
        interrupted=answers.stopped,
        notes=tuple(_result_notes(texts, mentions, answers, swappable, config)),
        classes=tuple(map(str, classes)),
        favourable=outcomes.favourable,
        compared=config.compared,
        queries=answers.queries,
        noise=noise,
        effects=effects,
        effects_critical=effects_critical,
        seed=config.seed,
        time_limited=limit.decided,
        seconds=time.perf_counter() - started,
        **tests,
    )


def _check_length(values: Sequence[Any] | None, n: int, name: str) -> list[Any] | None:
    if values is None:
        return None
    rows = list(values)
    if len(rows) != n:
        raise DataError(f"there are {n:,} texts and {len(rows):,} {name}", hint="pass one for each text")
    return rows


def _result_notes(
    texts: Sequence[str],
    mentions: Mentions,
    answers: TextAnswers,
    swappable: Sequence[SwappableText],
    config: TextSubgroupConfig,
) -> list[str]:
    notes = []
    missed = int((answers.positions(texts) < 0).sum())
    if missed:
        notes.append(
            f"The model was not queried about {missed:,} of {len(texts):,} texts: the time limit was reached, or the "
            "search was interrupted."
        )
    repeated = len(texts) - len(set(texts))
    if repeated:
        notes.append(
            f"{repeated:,} of {len(texts):,} texts repeat others word for word. Observed gaps count each repetition as "
            "an independent text; swap effects count it once."
        )
    by_axis = Counter(text.axis for text in swappable)
    few = [name for axis, name in enumerate(mentions.names) if config.swaps and by_axis[axis] < config.min_texts]
    if few:
        notes.append(f"Fewer than {config.min_texts:,} different texts to swap words in: {', '.join(few)}.")
    return notes
