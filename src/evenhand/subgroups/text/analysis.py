"""One search in texts: the model is asked about every text once, then about texts whose words are swapped."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from itertools import combinations, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.core.time_limit import TimeLimit
from evenhand.core.typing import Booleans, Integers, Progress, ignore_progress
from evenhand.datasets.identity.lists import IdentityCategory, resolve_categories
from evenhand.errors import DataError, LimitError, OptionError
from evenhand.models.blackbox.text_model import TextAnswers, check_texts, load_text_model
from evenhand.stats.level import normal_quantile
from evenhand.stats.proportion import count_needed
from evenhand.subgroups.config import TextSubgroupConfig
from evenhand.subgroups.measures import TextOutcomes
from evenhand.subgroups.methods.published import StoppingRule, describe_sampled, sample_until_margin
from evenhand.subgroups.methods.sampled import SAMPLE_THRESHOLD
from evenhand.subgroups.result import AttributeCells, Finding, RefusedRuleSet, TextSubgroupResult
from evenhand.subgroups.rules import describe_rules
from evenhand.subgroups.text.mentions import Mentions, Terms, count_rule_sets, find_mentions
from evenhand.subgroups.text.observed import ObservedGaps, measure_observed_gaps
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
        model: a scikit-learn text pipeline, or any function from a list of texts to labels or scores (of the favourable
            label, from 0 to 1, given above 1/2; or one per label); or a file of one, a URL (``http://...``), or
            ``module:function``.
        texts: what it decides about.
        config: the settings.
        protected: the categories: names of lists that come with the package (``gender``, ``religion``, ...;
            ``published`` for the 48 terms of the paper in four categories) or lists of your own
            (``evenhand.datasets.read_categories``); all of the package's if left out.
        truth: the true label of each text, for error rates.
        clusters: which texts belong together, such as those made from one template or written by one author; by default
            those that are the same once identity terms are cut out.
        trust: allow model files that can run code when loaded.
        progress: called with what is being done and the share done, 0 to 1.
        settings: fields of ``TextSubgroupConfig`` by name, in place of those in ``config``.

    Raises:
        DataError: there are no texts, none has a term of these categories, or truth or clusters do not fit them.
        ModelError: the model fails or its replies are not labels or scores.
        OptionError: the settings make no sense.
        LimitError: an interrupt stopped it before the model was asked about every text.
    """
    started = time.perf_counter()
    config = TextSubgroupConfig.of(config, settings)
    say = progress or ignore_progress
    every = check_texts(texts)
    truth, clusters = _check_length(truth, len(every), "truth"), _check_length(clusters, len(every), "clusters")
    if truth is None and config.measure in ("false-negative", "false-positive"):
        raise OptionError(f"the {config.measure} rate needs the true labels", hint="give them as truth")
    limit = TimeLimit.after(config.time_limit)
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
    _, classes, wanted = asking.answers()
    published = config.method == "sampled"
    return TextSubgroupResult(
        method=config.method,
        measure=config.measure,
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
        seed=config.seed,
        time_limited=limit.decided,
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


# TestSGD on texts as published: swapped texts are sampled for each rule set until a margin is small enough.
#
# Source: Zhang and others, "TestSGD: interpretable testing of neural networks against subtle group discrimination" (ACM
# TOSEM 2023), section 4.3: a sample of a rule set is a text that speaks of somebody of each of its categories, drawn at
# random, with the rule set's terms in their place. How samples of the rest are made is not said; here they are drawn
# from the same texts, with other terms of the same categories, drawn at random.


def sample_text_gaps(
    texts: Sequence[str],
    said: Mentions,
    measured: TextOutcomes,
    config: TextSubgroupConfig,
    limit: TimeLimit,
    progress: Callable[[float], None],
) -> ObservedGaps:
    """Return the rule sets that enough texts have words for, with the gap seen on samples and the published interval.

    They are all there are, or those asked about.

    Args:
        texts: those the model was asked about.
        said: who they speak of.
        measured: what the model decides; it is asked about the samples.
        config: settings.
        limit: when time is up.
        progress: called with the share done.

    Raises:
        OptionError: another measure than the favourable rate.
        LimitError: it was stopped before one rule set was sampled.
    """
    if config.measure != "favourable":
        raise OptionError(f"the sampled method knows no {config.measure} rate", hint="measure the favourable rate")
    least = max(config.min_texts, count_needed(config.support, len(texts)))
    groups = [len(one.category.groups) for one in said.swappers]
    swap = _TermSwapper(texts, said)
    asked = [said.parse_rules(one) for one in config.judged]
    questions: list[tuple[Terms, Integers]] = []
    for size in range(1, max(config.depth, *map(len, asked), 1) + 1):
        for axes in combinations(range(len(groups)), size):
            rows = np.flatnonzero(said.any[:, list(axes)].all(axis=1))
            if len(rows) >= least:
                every = (tuple(zip(axes, chosen, strict=True)) for chosen in product(*(range(groups[a]) for a in axes)))
                questions += [(terms, rows) for terms in every if terms in asked or not asked]
    questions = [one for one in questions if swap.possible(*one)]

    def draw(which: int, side: int, number: int, rng: np.random.Generator) -> NDArray[np.object_]:
        terms, rows = questions[which]
        found = np.empty(number, dtype=object)
        have = 0
        while have < number:
            put = terms if side == 0 else _draw_other_terms(terms, groups, rng)
            text = swap(int(rng.choice(rows)), put)
            if text is not None:
                found[have] = text
                have += 1
        return found

    def ask(samples: NDArray[np.object_]) -> Booleans:
        measured.asking.ask(samples.tolist())
        if measured.asking.stopped:
            raise KeyboardInterrupt  # what was sampled to the end stays
        return measured.of(samples.tolist()) > 0

    z = float(normal_quantile(config.confidence))
    try:
        seen = sample_until_margin(
            len(questions),
            2,
            draw,
            ask,
            rule=StoppingRule(SAMPLE_THRESHOLD, config.margin, z),
            seed=config.seed,
            limit=limit,
            progress=progress,
        )
    except KeyboardInterrupt:
        raise LimitError("it was stopped before one rule set was sampled", hint="allow more time") from None
    done = np.flatnonzero(seen.n)
    if len(questions) and not len(done):
        raise LimitError("time was up before one rule set was sampled", hint="allow more time")
    seen_of: dict[Terms, Finding] = {}
    for which in done[np.argsort(-np.abs(seen.gaps[done]), kind="stable")].tolist():
        terms, rows = questions[which]
        inside = np.logical_and.reduce([said.inside[axis][rows, group] for axis, group in terms])
        rules = said.rules(terms)
        size, rest = int(inside.sum()), int((~inside).sum())
        seen_of[terms] = describe_sampled(seen, which, rules, describe_rules(rules), size, rest)
    findings = tuple(seen_of.values())
    return ObservedGaps(
        rule_sets=count_rule_sets(groups, config.depth),
        tested=len(done),
        critical=None,
        found=sum(one.found for one in findings),
        findings=() if asked else findings[: config.most],
        judged=tuple(seen_of.get(terms) or _refuse(terms, said, least) for terms in asked),
        notes=(
            f"The published method: {seen.asked:,} samples, texts in which words were swapped for the rule set's or "
            "for others drawn at random. Rates are of these samples, sizes of real texts.",
            f"Its interval, gap ± summed margins, is stated as {config.confidence**2:.4g} for one rule set chosen "
            f"beforehand. It is not corrected for the {len(done):,} subgroups tested, nor does it widen where the "
            "samples come from few texts.",
        ),
    )


def _refuse(terms: Terms, said: Mentions, least: int) -> RefusedRuleSet:
    """Say why there are no samples of a rule set: too few texts have words in whose place its terms can be put."""
    rules, axes = said.rules(terms), [axis for axis, _ in terms]
    rows = np.flatnonzero(said.any[:, axes].all(axis=1))
    size = int(np.logical_and.reduce([said.inside[axis][rows, group] for axis, group in terms]).sum())
    reason = f"{len(rows):,} texts speak of all of {', '.join(said.names[axis] for axis in axes)}: "
    reason += f"fewer than {least:,}" if len(rows) < least else "none has a place for these terms, or time was up"
    return RefusedRuleSet(rules=rules, words=describe_rules(rules), size=size, rest=len(rows) - size, reason=reason)


class _TermSwapper:
    """Texts with a rule set's terms in the place of their own."""

    def __init__(self, texts: Sequence[str], said: Mentions) -> None:
        self.texts, self.said = texts, said
        self.put = cache(self._put)

    def __call__(self, row: int, terms: Terms) -> str | None:
        return self.put(self.texts[row], terms)

    def possible(self, terms: Terms, rows: Integers) -> bool:
        """Return whether some of the texts have a place for each of the terms."""
        return any(self(row, terms) is not None for row in rows.tolist())

    def _put(self, text: str, terms: Terms) -> str | None:
        """None where a place has no word of that group, or is lost to another category's words."""
        if not terms:
            return text
        (axis, group), rest = terms[0], terms[1:]
        name = self.said.swappers[axis].category.groups[group]
        for slot in self.said.swappers[axis].slots(text)[:1]:
            if name in slot.swapped:
                return self._put(slot.of(name), rest)
        return None


def _draw_other_terms(terms: Terms, groups: Sequence[int], rng: np.random.Generator) -> Terms:
    """Return another combination of terms of the same categories, every one as likely."""
    while True:
        drawn = tuple((axis, int(rng.integers(groups[axis]))) for axis, _ in terms)
        if drawn != terms:
            return drawn
