"""One search in texts: the model is asked about every text once, then about texts whose words are swapped."""

from __future__ import annotations

import dataclasses
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from evenhand.datasets.identity import Category
from evenhand.errors import DataError, OptionError
from evenhand.subgroup.result import Cells
from evenhand.subgroup.text.asking import Asking
from evenhand.subgroup.text.config import Config
from evenhand.subgroup.text.flips import flipped
from evenhand.subgroup.text.measuring import Measured
from evenhand.subgroup.text.mentions import Mentions, lists, mentions
from evenhand.subgroup.text.observed import observed
from evenhand.subgroup.text.result import TextSubgroups
from evenhand.subgroup.text.sampled import sampled
from evenhand.subgroup.text.seeds import Seed, seeds
from evenhand.subgroup.text.swapped import effects
from evenhand.texts.model import load, text_list


def run(
    model: Any,
    texts: Iterable[str],
    *,
    protected: Sequence[str | Category] | None = None,
    truth: Sequence[Any] | None = None,
    clusters: Sequence[Any] | None = None,
    labels: Sequence[Any] | None = None,
    favourable: Any = None,
    config: Config | None = None,
    trust: bool = False,
    progress: Callable[[str, float], None] | None = None,
    **options: Any,
) -> TextSubgroups:
    """Search for subgroups of texts that a model treats differently.

    Args:
        model: a scikit-learn text pipeline, or any function from a list of texts to labels or scores (of the favourable
            label, from 0 to 1, given above 1/2; or one per label); or a file of one, a URL (``http://...``), or
            ``module:function``.
        texts: what it decides about.
        protected: the categories: names of lists that come with the package (``gender``, ``religion``, ...;
            ``published`` for the 48 terms of the paper in four categories) or lists of your own
            (``evenhand.datasets.identity.read_categories``); all of the package's if left out.
        truth: the true label of each text, for error rates.
        clusters: which texts belong together, such as those made from one template or written by one author; by default
            those that are the same once identity terms are cut out.
        labels: the labels, in the order of the model's scores, if it does not name them itself.
        favourable: the label whose rate or score is compared; the last unless set.
        config: the settings.
        trust: allow model files that can run code when loaded.
        progress: called with what is being done and the share done, 0 to 1.
        **options: settings by name, in place of those in ``config``.

    Raises:
        DataError: there are no texts, none has a term of these categories, or truth or clusters do not fit them.
        ModelError: the model fails or its replies are no labels or scores.
        OptionError: the settings make no sense.
        LimitError: an interrupt stopped it before the model was asked about every text.
    """
    started = time.perf_counter()
    config = dataclasses.replace(config or Config(), **options)
    say = progress or (lambda what, share: None)
    every = text_list(texts)
    truth, clusters = _one_each(truth, len(every), "truth"), _one_each(clusters, len(every), "clusters")
    if truth is None and config.measure in ("false-negative", "false-positive"):
        raise OptionError(f"the {config.measure} rate needs the true labels", mend="give them as truth")
    deadline = None if config.time_limit is None else started + config.time_limit
    asking = Asking(load(model, trust=trust), labels, favourable, deadline)
    say("looking for identity terms", 0.0)
    said = mentions(every, lists(protected, config.by))
    asking.ask(every, lambda share: say(f"asking the model about {len(every):,} texts", share))
    measured = Measured(asking, config.measure, truth)
    rows = measured.concerned(every)
    texts, speaking = [every[row] for row in rows], said.of(rows)
    if config.method == "sampled":
        seen = sampled(texts, speaking, measured, config, deadline, lambda share: say("sampling swapped texts", share))
        taken: list[Seed] = []
    else:
        taken = seeds(every, said, rows, clusters, config.swaps, np.random.default_rng(config.seed))
        asking.ask(
            (text for seed in taken for text in seed.variants),
            lambda share: say("asking about texts with words swapped", share),
        )
        taken = [seed for seed in taken if (asking.positions(seed.variants) >= 0).all()]
        say("counting", 1.0)
        seen = observed(speaking, measured.of(texts), measured.counted, config)
    changed, critical = effects(taken, [measured.of(one.variants) for one in taken], said, measured.counted, config)
    flips, examples = flipped(taken, asking, said, config)
    _, classes, wanted = asking.answers()
    published = config.method == "sampled"
    return TextSubgroups(
        method=config.method,
        measure=config.measure,
        against="rest",
        control="none" if published else config.control,
        confidence=config.confidence**2 if published else config.confidence,
        critical=seen.critical,
        margin=config.margin,
        support=config.support,
        least_people=config.least_texts,
        people=len(rows),
        rate=float(measured.of(texts).mean()),
        rule_sets=seen.rule_sets,
        tested=seen.tested,
        found=seen.found,
        attributes=tuple(
            Cells(name=one.category.name, cells=one.category.groups, ordered=False) for one in said.swappers
        ),
        findings=seen.findings,
        judged=seen.judged,
        interrupted=asking.stopped,
        notes=(*seen.notes, *_notes(every, said, asking, taken, config)),
        classes=tuple(map(str, classes)),
        favourable=str(classes[wanted]),
        compared=config.compared,
        queries=len(asking),
        effects=changed,
        effects_critical=critical,
        flips=flips,
        examples=examples,
        seed=config.seed,
        seconds=time.perf_counter() - started,
    )


def _one_each(given: Sequence[Any] | None, n: int, name: str) -> list[Any] | None:
    if given is None:
        return None
    found = list(given)
    if len(found) != n:
        raise DataError(f"there are {n:,} texts and {len(found):,} {name}", mend="give one for each text")
    return found


def _notes(every: Sequence[str], said: Mentions, asking: Asking, taken: Sequence[Seed], config: Config) -> list[str]:
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
    few = [name for axis, name in enumerate(said.names) if config.swaps and by_axis[axis] < config.least_texts]
    if few and config.method == "exact":
        notes.append(f"Fewer than {config.least_texts:,} different texts to swap words in: {', '.join(few)}.")
    return notes
