"""Searches for subgroups of texts. The model is queried about all texts, then about texts with swapped terms."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from evenhand.core.time_limit import TimeLimit
from evenhand.core.typing import Floats, Integers, Progress, ignore_progress
from evenhand.datasets.identity.lists import IdentityCategory, resolve_categories
from evenhand.errors import DataError, OptionError
from evenhand.models.blackbox.text_model import TextAnswers, check_texts, load_text_model
from evenhand.subgroups.analysis import MEASURE_RATE, NO_SCORES, label_outcomes
from evenhand.subgroups.config import Measure, TextSubgroupConfig
from evenhand.subgroups.result import AttributeCells, TextSubgroupResult
from evenhand.subgroups.text.mentions import Mentions, find_mentions
from evenhand.subgroups.text.observed import measure_observed_gaps
from evenhand.subgroups.text.swapped import SwappableText, measure_swap_effects, select_swappable


@dataclass(frozen=True)
class TextOutcomes:
    """Outcomes of texts that were sent to a model.

    Attributes:
        answers: Answers of the model.
        measure: Outcome that is computed from them.
        truth: True labels, for error rates.
    """

    answers: TextAnswers
    measure: Measure
    truth: Sequence[Any] | None

    @property
    def is_counted(self) -> bool:
        """Whether outcomes are 0 and 1."""
        return self.measure != "score"

    @cached_property
    def favourable(self) -> str:
        """Name of the favourable label."""
        _, classes, column = self.answers.answers()
        return str(classes[column])

    def find_concerned(self, texts: Sequence[str]) -> Integers:
        """Find the rows of the answered texts that the measure covers.

        Raises:
            DataError: The measure covers no text.
        """
        answered = self.answers.positions(texts) >= 0
        if self.truth is None or self.measure in ("favourable", "score"):
            return np.flatnonzero(answered)
        favourable = np.array([str(label) == self.favourable for label in self.truth])
        refused = self.measure == "false-negative"
        rows = np.flatnonzero(answered & (favourable == refused))
        if len(rows) == 0:
            which = "is" if refused else "is not"
            raise DataError(f"no text's true label {which} {self.favourable!r}, so there is no {self.measure} rate")
        return rows

    def of(self, texts: Sequence[str]) -> Floats:
        """Compute the outcome of each text.

        Raises:
            OptionError: Scores are measured, but the model returns only labels.
        """
        reply, _, column = self.answers.answers()
        rows = self.answers.positions(texts)
        if self.measure == "score":
            if reply.label_only:
                raise OptionError(NO_SCORES, hint=MEASURE_RATE)
            return np.asarray(reply.scores[rows, column])
        return label_outcomes(rows, reply.labels[rows] == column, self.measure).values


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
    limit = TimeLimit(config.time_limit)
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
