"""Texts that are decided differently when who they speak of changes."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from evenhand.core.document import (
    Column,
    Document,
    Figure,
    Heading,
    Metric,
    Note,
    Pair,
    ReportedNumber,
    Side,
    Table,
    TableRow,
    Text,
)
from evenhand.core.result import PEOPLE_HIDDEN, Result
from evenhand.core.result_part import ResultPart
from evenhand.core.text import format_count, format_percent
from evenhand.core.time_limit import TimeLimit
from evenhand.core.typing import Progress, ignore_progress
from evenhand.datasets.identity.lists import IdentityCategory, resolve_categories
from evenhand.datasets.identity.swapping import SwapTemplate, TermSwapper, words_of
from evenhand.errors import DataError
from evenhand.individual.noise import ASKED_AGAIN, METHOD, FlipNoise, compare_directions
from evenhand.individual.result import describe_noise
from evenhand.individual.search.config import TextSearchConfig
from evenhand.individual.search.text_findings import TextFinding, clearest_findings, text_finding
from evenhand.models.blackbox.text_model import TextAnswers, TextFlip, check_texts, load_text_model
from evenhand.models.noise import NoiseCheck, RepeatCheck
from evenhand.stats.excess import FlipCounts, excess_over_noise
from evenhand.stats.proportion import observed_rate
from evenhand.stats.quantity import Observed, Quantity, show_quantity

if TYPE_CHECKING:
    import pandas as pd

SHOWN = 5
"""Findings in the summary, one per pair of groups."""

NOUNS = ("text", "texts")

NOISY = (
    "Only flips that repeat when both texts are asked about again count. The excess of differing single answers over "
    "this noise shows smaller differences."
)
"""What noise means for texts."""

ASK_SHARE = 0.6
"""Share of a budget and of a time limit for first answers, if flips are asked about again."""


class CategoryFlipCount(ResultPart):
    """How often the label changes with the words of one category.

    Attributes:
        rate: share of the texts that have words of the category whose label some swap changes.
        flips: how many of them.
        n: texts with words of the category.
        texts: texts looked at.
        repeats: How many flips of single answers repeat: only these count. None for a model that cannot vary.
        noise: the rate beside the model's own noise; None for a model that gives the same answer each time.
    """

    category: str
    rate: Quantity
    flips: int
    n: int
    texts: int
    repeats: RepeatCheck | None = None
    noise: FlipNoise | None = None


class TextSearchResult(Result):
    """What swapping identity terms changed.

    Attributes:
        classes, favourable: the labels, and the one whose score is compared.
        label_only: whether the scores are only the labels.
        counts: one per category.
        profiles: distinct texts whose label some swap changes.
        queries: texts that the model was asked about.
        examples: the clearest findings, widest gap first, up to the limit that was set.
        interrupted: whether somebody stopped it; what is here was found before.
        noise: how often the model disagreed with itself; None if it was not asked twice.
    """

    chart = "individual.draw_text_flips"
    kind: Literal["individual-text"] = "individual-text"
    classes: tuple[str, ...]
    favourable: str
    label_only: bool
    counts: tuple[CategoryFlipCount, ...]
    profiles: int
    queries: int
    examples: tuple[TextFinding, ...]
    interrupted: bool = False
    noise: NoiseCheck | None = None

    def _records_hidden(self) -> dict[str, Any]:
        return {"examples": ()}

    def document(self) -> Document:
        """Return how often the label changes with the words of each category, then the clearest findings."""
        first = {(one.category, one.worse.group, one.better.group): one for one in reversed(self.examples)}
        clearest = sorted(first.values(), key=lambda one: -one.gap)[:SHOWN]
        return Document(
            "Texts: what changes with the words for a group alone",
            "In each text that speaks of a group, the words for it were replaced by those for every other group. The "
            "counterfactual flip rate is the share of such texts whose label changes.",
            (
                *([self.noise.caution(NOISY, NOUNS)] if self.noise is not None and self.noise.noisy else []),
                *(Note("Interrupted: this was found before.", "caution") for _ in range(self.interrupted)),
                *self._finding(),
                *(_flip_answer(count) for count in self.counts),
                *(Heading("The clearest findings") for _ in clearest[:1]),
                *(block for example in clearest for block in self._pair(example)),
                Heading("All texts whose label changes", detail=True),
                Figure("flip rates of texts", "Counterfactual flip rate of each category, with its interval.", self),
                Note(PEOPLE_HIDDEN) if self.people_left_out else self._example_table(),
            ),
            brand="Evenhand search",
            made=self.provenance,
            readings=self.readings,
        )

    def _finding(self) -> Iterator[Text]:
        rates = {one.category: one for one in self.counts if isinstance(one.rate, Observed)}
        if rates:
            worst = max(rates.values(), key=lambda one: one.flips / max(one.n, 1))
            yield Text(
                f"In {format_percent(worst.flips / max(worst.n, 1))} of {format_count(worst.n, 'text', 'texts')} with "
                f"words of {worst.category} the label changes when these are replaced (observed).",
                role="finding",
            )

    def _pair(self, example: TextFinding) -> tuple[Heading, Pair]:
        first, second = (
            Side(
                {example.category: side.group},
                side.label,
                side.label == self.favourable,
                None if self.label_only else ReportedNumber(f"{side.score:.2f}", side.score, "observed"),
            )
            for side in (example.worse, example.better)
        )
        title = Heading(f"{example.category}: {_shorten_template(example.template)}", level=3)
        return title, Pair("The same text with other words", first, second, {})

    def _example_table(self) -> Table:
        names = ("text", "category", "with the words of", "label", "with the words of", "label")
        rows = tuple(
            TableRow(
                (
                    _shorten_template(one.template),
                    one.category,
                    one.worse.group,
                    one.worse.label,
                    one.better.group,
                    one.better.label,
                )
            )
            for one in self.examples
        )
        caption = "Texts whose label changes with the words, observed; the widest gap between scores first"
        return Table(caption, tuple(Column(name) for name in names), rows)

    def to_frame(self) -> pd.DataFrame:
        """Return one row per example: category, template, both groups with label and score, gap."""
        import pandas as pd

        columns = ["category", "row", "template", "group (worse)", "group (better)", "label (worse)", "label (better)"]
        columns += ["score (worse)", "score (better)", "gap", "text (worse)", "text (better)"]
        return pd.DataFrame([_example_row(example) for example in self.examples], columns=columns)


def _flip_answer(count: CategoryFlipCount) -> Metric:
    rate = count.rate
    if isinstance(rate, Observed):
        basis = f"on the {format_count(count.n, 'text', 'texts')} that have such words"
        number = show_quantity(rate, "rate", basis=basis)
    else:
        number = ReportedNumber("-", kind="unknown", basis=f"no text has such words, of {count.texts:,}")
    notes = [] if count.repeats is None or not count.repeats.noise else [count.repeats.sentence]
    notes += [] if count.noise is None else describe_noise(count.noise, NOUNS)
    return Metric("counterfactual flip rate", number, tuple(notes), about=count.category)


def _example_row(example: TextFinding) -> dict[str, object]:
    worse, better = example.worse, example.better
    return {
        "category": example.category,
        "row": example.row,
        "template": example.template,
        "group (worse)": worse.group,
        "group (better)": better.group,
        "label (worse)": worse.label,
        "label (better)": better.label,
        "score (worse)": worse.score,
        "score (better)": better.score,
        "gap": example.gap,
        "text (worse)": worse.text,
        "text (better)": better.text,
    }


def _shorten_template(template: str, most: int = 160) -> str:
    """Return a long text around its first slot, on one line."""
    words = " ".join(template.split())
    if len(words) <= most:
        return words
    start = max(0, words.find("{") - most // 3)
    part = words[start : start + most]
    return ("..." if start else "") + part + ("..." if start + most < len(words) else "")


@dataclass(frozen=True)
class SlotCase:
    """A slot of one text: where the text stands in the data, and which category was swapped."""

    row: int
    category: str
    slot: SwapTemplate


def search_texts(
    model: Any,
    texts: Iterable[str],
    config: TextSearchConfig | None = None,
    *,
    protected: Sequence[str | IdentityCategory] | None = None,
    trust: bool = False,
    progress: Progress | None = None,
    **settings: Any,
) -> TextSearchResult:
    """Swap identity terms in every text and see whether the label stays.

    Args:
        model: a scikit-learn text pipeline, or any function from a list of texts to labels or scores (of the favourable
            label, from 0 to 1, given above 1/2; or one per label); or a file of one, a URL (``http://...``), or
            ``module:function``.
        texts: what the model decides about. Those without identity terms are not asked about.
        config: the settings.
        protected: categories to swap: names of lists that come with the package (``gender``, ``religion``, ...) or
            lists of your own (``evenhand.datasets.read_categories``); all of the package's if left out.
        trust: allow model files that can run code when loaded.
        progress: called with what is being done and the share done, 0 to 1.
        settings: fields of ``TextSearchConfig`` by name, in place of those in ``config``.

    Returns:
        How often labels flip, by category, and the clearest findings. An interrupt (Ctrl-C) while the model is asked
        leaves what was found before it.

    Raises:
        DataError: there are no texts, or none has a term of these categories.
        ModelError: the model fails or its replies are not labels or scores.
        LimitError: the limits or an interrupt stopped it before the model was asked about anything.
    """
    started = time.perf_counter()
    config = TextSearchConfig.of(config, settings)
    say = progress or ignore_progress
    limit = TimeLimit.after(config.time_limit)
    loaded = load_text_model(model, trust=trust)
    answers = TextAnswers(loaded, config.labels, config.favourable, limit, config.budget)
    every, categories = check_texts(texts), resolve_categories(protected)
    say("looking for identity terms", 0.0)
    cases = _find_cases(every, [TermSwapper(one) for one in categories])
    if not cases:
        names = ", ".join(one.name for one in categories)
        raise DataError(f"none of the {len(every):,} texts has a term of: {names}", hint="bring a list of your own")
    rng = np.random.default_rng(0)
    shuffled = [cases[i].slot for i in rng.permutation(len(cases))]
    noise = answers.check_noise((text for slot in shuffled for text in slot.variants), confidence=config.confidence)
    with answers.within(ASK_SHARE if loaded.can_vary else 1.0):
        answers.ask((text for case in cases for text in case.slot.variants), lambda part: say("asking the model", part))
    reply, classes, wanted = answers.answers()
    say("reading the answers", 1.0)
    found: dict[int, TextFinding] = {}
    reached: list[SlotCase] = []
    for number, case in enumerate(cases):
        asked = answers.positions(case.slot.variants)
        if asked.min() < 0:
            break  # Only cases before it are counted: the first texts as they come, in which no answer was preferred.
        reached.append(case)
        scores = reply.scores[asked, wanted]
        finding = text_finding(case.category, case.row, case.slot, reply.labels[asked], scores, classes)
        if finding is not None:
            found[number] = finding
    checks: dict[str, RepeatCheck] = {}
    if loaded.can_vary:
        reached, found, checks = _confirm_findings(reached, found, answers, config.confidence)
    seen = {one.name: {case.row for case in reached if case.category == one.name} for one in categories}
    flipped = {name: {one.row for one in found.values() if one.category == name} for name in seen}
    distinct = {(cases[k].category, cases[k].slot.pieces[::2], cases[k].slot.text) for k in found}
    noisy = (noise is not None and noise.noisy) or any(check.noise for check in checks.values())
    noises = measure_text_noise(reached, answers, config.confidence, rng) if noisy else {}
    return TextSearchResult(
        classes=tuple(str(label) for label in classes),
        favourable=str(classes[wanted]),
        label_only=reply.label_only,
        counts=tuple(
            CategoryFlipCount(
                category=name,
                rate=observed_rate(
                    len(flipped[name]),
                    len(rows),
                    config.confidence,
                    if_empty="no text that was reached has such words",
                ),
                flips=len(flipped[name]),
                n=len(rows),
                texts=len(every),
                repeats=checks.get(name),
                noise=noises.get(name),
            )
            for name, rows in seen.items()
        ),
        profiles=len(distinct),
        queries=answers.queries,
        examples=clearest_findings(list(found.values()), config.examples),
        interrupted=answers.interrupted,
        noise=noise,
        seed=0,
        time_limited=limit.decided,
        seconds=time.perf_counter() - started,
    )


def _confirm_findings(
    cases: list[SlotCase], found: dict[int, TextFinding], answers: TextAnswers, confidence: float
) -> tuple[list[SlotCase], dict[int, TextFinding], dict[str, RepeatCheck]]:
    """Ask about both texts of each finding again, and keep the findings that repeat.

    Args:
        cases: Cases whose variants have all been asked about.
        found: Findings by the position of their case.
        answers: Answers of the model.
        confidence: 1 minus the false discovery rate.

    Returns:
        The cases before the first finding that a limit leaves untested, the findings among them that repeat, and the
        counts of each category.
    """
    number: dict[TextFlip, int] = {}
    for finding in found.values():
        number.setdefault(_flip(finding), len(number))
    repetition, queries = answers.confirm_flips(list(number), confidence=confidence)
    end = next((k for k, one in found.items() if number[_flip(one)] >= repetition.tested), len(cases))
    differed = {k: one for k, one in found.items() if k < end}
    kept = {k: one for k, one in differed.items() if repetition.confirmed[number[_flip(one)]]}
    checks = {}
    for name in dict.fromkeys(case.category for case in cases):
        flips, repeated = (len({one.row for one in some.values() if one.category == name}) for some in (differed, kept))
        checks[name] = RepeatCheck(
            differed=flips, tested=flips, repeated=repeated, queries=queries, confidence=confidence
        )
    return cases[:end], kept, checks


def _flip(finding: TextFinding) -> TextFlip:
    worse, better = finding.worse, finding.better
    return (worse.text, worse.label), (better.text, better.label)


def measure_text_noise(
    cases: Sequence[SlotCase], answers: TextAnswers, confidence: float, rng: np.random.Generator
) -> dict[str, FlipNoise]:
    """Return for each category how many of its flips are the model's own noise, and which groups' words are favoured.

    Up to ``ASKED_AGAIN`` texts are asked about again: each of their slots with one group's words, drawn at random, as
    often as there are groups but one. Texts of which all variants are the same count once: so do their answers.

    Args:
        cases: slots of texts whose variants have all been asked about.
        answers: what the model said, and who asks it again.
        confidence: of the intervals.
        rng: draws texts and words.
    """
    found: dict[str, FlipNoise] = {}
    for category in dict.fromkeys(case.category for case in cases):
        distinct = _distinct_texts(cases, category)
        texts = [distinct[i] for i in rng.permutation(len(distinct))]
        number, again = [], []
        for k, slots in enumerate(texts[:ASKED_AGAIN]):
            for slot in slots:
                repeats = len(slot.swapped) - 1
                number += [k] * repeats
                again += [slot.variants[rng.integers(len(slot.swapped))]] * repeats
        positions = answers.ask_again(again)
        if positions.min(initial=0) < 0:
            break  # a limit was reached
        reply, _, wanted = answers.answers()
        labels = [[reply.labels[answers.positions(slot.variants)] for slot in slots] for slots in texts]
        flips = np.array([any(np.ptp(given) > 0 for given in every) for every in labels])
        changed = reply.labels[positions] != reply.labels[answers.positions(again)]
        own = np.bincount(number, weights=changed, minlength=min(len(texts), ASKED_AGAIN)) > 0
        value, (low, high) = excess_over_noise(FlipCounts.of(flips, own), confidence)
        groups = list(dict.fromkeys(group for slots in texts for group in slots[0].swapped))
        favourable = np.full((len(texts), len(groups)), np.nan)
        for k, (slots, given) in enumerate(zip(texts, labels, strict=True)):
            favourable[k, [groups.index(group) for group in slots[0].swapped]] = given[0] == wanted
        directions, p = compare_directions(favourable, groups, confidence)
        found[category] = FlipNoise(
            single=observed_rate(int(flips.sum()), len(flips), confidence),
            own=observed_rate(int(own.sum()), len(own), confidence),
            excess=Observed(
                value=float(value), low=float(low), high=float(high), n=len(own), confidence=confidence, method=METHOD
            ),
            people=len(own),
            queries=len(again),
            directions=directions,
            p=p,
        )
    return found


def _distinct_texts(cases: Sequence[SlotCase], category: str) -> list[list[SwapTemplate]]:
    """Return the slots of every text with words of a category; texts with the same variants once."""
    rows: dict[int, list[SwapTemplate]] = {}
    for case in cases:
        if case.category == category:
            rows.setdefault(case.row, []).append(case.slot)
    distinct = {frozenset(text for slot in slots for text in slot.variants): slots for slots in rows.values()}
    return list(distinct.values())


def _find_cases(texts: Sequence[str], swappers: Sequence[TermSwapper]) -> list[SlotCase]:
    """Return every slot of every text; what the same text said before is not looked for again."""
    known: dict[str, list[tuple[str, SwapTemplate]]] = {}
    cases = []
    for row, text in enumerate(texts):
        if text not in known:
            words = words_of(text)
            able = [one for one in swappers if one.may_mention(words)]
            known[text] = [(one.category.name, slot) for one in able for slot in one.slots(text)]
        cases += [SlotCase(row, name, slot) for name, slot in known[text]]
    return cases
