"""Search for texts whose label changes with the words for a group."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from itertools import compress
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from evenhand.core.document import Document
from evenhand.core.result import Result
from evenhand.core.result_part import ResultPart
from evenhand.core.time_limit import TimeLimit
from evenhand.core.typing import Floats, Integers, Progress, ignore_progress
from evenhand.datasets.identity.lists import IdentityCategory, resolve_categories
from evenhand.datasets.identity.swapping import SwapTemplate, TermSwapper, words_of
from evenhand.errors import DataError
from evenhand.individual.flips import FlipRate, find_widest_pairs
from evenhand.individual.search.config import TextSearchConfig
from evenhand.models.blackbox.text_model import TextAnswers, TextFlip, check_texts, load_text_model
from evenhand.models.noise import NoiseCheck, RepeatCheck
from evenhand.stats.proportion import observed_rate

if TYPE_CHECKING:
    import pandas as pd

ASK_SHARE = 0.6
"""Fraction of the budget and of the time limit for first answers, if flips are queried again."""


class TextSide(ResultPart):
    """Prediction for the text with the terms of one group."""

    group: str
    text: str
    label: str
    score: float


class TextFinding(ResultPart):
    """Text whose label changes with the terms of a category.

    Attributes:
        category: Name of the category.
        row: Position of the text in the data.
        original: Group that the text mentions.
        template: Text with the terms of both groups: ``{She|He} asked for {her|his} pay``.
        worse, better: Groups with the lowest and the highest score among those with different labels.
        gap: Difference of the two scores.
    """

    category: str
    row: int
    original: str
    template: str
    worse: TextSide
    better: TextSide
    gap: float

    @property
    def flip(self) -> TextFlip:
        """Return the two texts with their labels."""
        return (self.worse.text, self.worse.label), (self.better.text, self.better.label)


COLUMNS = {name: name for name in ("category", "row", "template")} | {
    f"{name} ({side})": f"{side}.{name}" for name in ("group", "label", "score") for side in ("worse", "better")
}
COLUMNS |= {"gap": "gap", "text (worse)": "worse.text", "text (better)": "better.text"}
"""Columns of a table of findings, each with its field."""


class TextSearchResult(Result):
    """Effects of swapped identity terms.

    Attributes:
        classes: Labels.
        favourable: Label whose score is compared.
        label_only: Whether the scores are only the labels.
        rates: Counterfactual flip rate of each category, over the texts that contain its words.
        profiles: Number of distinct texts whose label changes.
        queries: Number of queried texts.
        examples: Clearest findings, widest gap first.
        interrupted: Whether an interrupt stopped the search, so that the result is incomplete.
        noise: Result of the noise check (see ``models.check_noise``). None if it was not run.
    """

    chart = "individual.draw_text_flips"
    kind: Literal["individual-text"] = "individual-text"
    classes: tuple[str, ...]
    favourable: str
    label_only: bool
    rates: tuple[FlipRate, ...]
    profiles: int
    queries: int
    examples: tuple[TextFinding, ...]
    interrupted: bool = False
    noise: NoiseCheck | None = None

    def _records_hidden(self) -> dict[str, Any]:
        return {"examples": ()}

    def document(self) -> Document:
        """Build the document with the rates and the clearest findings."""
        return self._write_document("evenhand.individual.search.text_wording")

    def to_frame(self) -> pd.DataFrame:
        """Convert the examples to a table: category, template, both groups with label and score, gap."""
        import pandas as pd

        return pd.DataFrame(
            {name: [attrgetter(field)(example) for example in self.examples] for name, field in COLUMNS.items()}
        )


class SlotCase(NamedTuple):
    """Slot of a text: position of the text in the data, category, and template."""

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
    """Swap identity terms in every text and find changes of the label.

    Args:
        model: A scikit-learn text pipeline, or any function from a list of texts to labels or scores (scores of the
            favourable label from 0 to 1, favourable above 1/2; or one score per label); or a file that contains such a
            pipeline, a URL (``http://...``), or ``module:function``.
        texts: Texts that the model classifies. Those without identity terms are not queried.
        config: The settings.
        protected: Categories to swap: names of the package's lists (``gender``, ``religion``, ...) or your own lists
            (``evenhand.datasets.read_categories``). Default: all lists of the package.
        trust: Whether to load model files that can run code.
        progress: Called with a description of the current step and the completed fraction.
        settings: Fields of ``TextSearchConfig`` that replace those of ``config``.

    Returns:
        The flip rate of each category and the clearest findings. After an interrupt (Ctrl-C), the results of the
        answers so far.

    Raises:
        DataError: There are no texts, or none has a term of these categories.
        ModelError: The model fails, or its replies are neither labels nor scores.
        LimitError: A limit or an interrupt stopped the search before the first answer.
    """
    started = time.perf_counter()
    config = TextSearchConfig.of(config, settings)
    progress = progress or ignore_progress
    limit = TimeLimit(config.time_limit)
    loaded = load_text_model(model, trust=trust)
    answers = TextAnswers(loaded, config.labels, config.favourable, limit, config.budget)
    documents, categories = check_texts(texts), resolve_categories(protected)
    progress("looking for identity terms", 0.0)
    cases = _find_cases(documents, [TermSwapper(category) for category in categories])
    if not cases:
        names = ", ".join(category.name for category in categories)
        raise DataError(f"none of the {len(documents):,} texts has a term of: {names}", hint="add your own word list")
    shuffled = [cases[i].slot for i in np.random.default_rng(0).permutation(len(cases))]
    noise = answers.check_noise((text for slot in shuffled for text in slot.variants), confidence=config.confidence)
    with answers.within(ASK_SHARE if loaded.can_vary else 1.0):
        answers.ask(
            (text for case in cases for text in case.slot.variants), lambda part: progress("asking the model", part)
        )
    reply, classes, favourable = answers.answers()
    progress("reading the answers", 1.0)
    positions = [answers.positions(case.slot.variants) for case in cases]
    # Only texts before the first unanswered one count, so that the selection does not depend on answers.
    end = next((k for k, queried in enumerate(positions) if queried.min() < 0), len(cases))
    differed = {
        k: finding
        for k, (case, at) in enumerate(zip(cases[:end], positions[:end], strict=True))
        if (finding := _build_finding(case, reply.labels[at], reply.scores[at, favourable], classes)) is not None
    }
    findings, queries = differed, 0
    if loaded.can_vary:
        flips = list(dict.fromkeys(finding.flip for finding in differed.values()))
        repetition, queries = answers.confirm_flips(flips, confidence=config.confidence)
        confirmed, untested = set(compress(flips, repetition.confirmed)), set(flips[repetition.tested :])
        # Only texts before the first finding that was not tested because of a limit count.
        end = next((k for k, finding in differed.items() if finding.flip in untested), end)
        differed = {k: finding for k, finding in differed.items() if k < end}
        findings = {k: finding for k, finding in differed.items() if finding.flip in confirmed}
    cases, rates = cases[:end], []
    for category in categories:
        n, differing, flipping = (
            len({entry.row for entry in entries if entry.category == category.name})
            for entries in (cases, differed.values(), findings.values())
        )
        check = RepeatCheck(
            differed=differing, tested=differing, repeated=flipping, queries=queries, confidence=config.confidence
        )
        reason = "no text in these queries has such words"
        rates.append(
            FlipRate(
                over="data",
                population="the texts",
                protected=(category.name,),
                rate=observed_rate(flipping, n, config.confidence, if_empty=reason),
                flips=flipping,
                n=n,
                without=len(documents) - n,
                repeats=check if loaded.can_vary and n else None,
            )
        )
    return TextSearchResult(
        classes=tuple(map(str, classes)),
        favourable=str(classes[favourable]),
        label_only=reply.label_only,
        rates=tuple(rates),
        profiles=len({(cases[k].category, cases[k].slot.pieces[::2], cases[k].slot.text) for k in findings}),
        queries=answers.queries,
        examples=_select_clearest(list(findings.values()), config.examples),
        interrupted=answers.interrupted,
        noise=noise,
        seed=0,
        time_limited=limit.decided,
        seconds=time.perf_counter() - started,
    )


def _build_finding(case: SlotCase, labels: Integers, scores: Floats, classes: Sequence[Any]) -> TextFinding | None:
    """Build the finding for one text from labels and scores by group, or None if all labels are equal."""
    pairs = find_widest_pairs(labels[None], scores[None], np.ones((1, len(labels)), dtype=np.bool_))
    if not pairs.differs[0]:
        return None
    slot, groups = case.slot, list(case.slot.swapped)
    worse, better = (
        TextSide(group=groups[i], text=slot.of(groups[i]), label=str(classes[labels[i]]), score=float(scores[i]))
        for i in pairs.sides[0].tolist()
    )
    return TextFinding(
        category=case.category,
        row=case.row,
        original=slot.group,
        template=slot.between(worse.group, better.group),
        worse=worse,
        better=better,
        gap=float(pairs.gaps[0]),
    )


def _select_clearest(findings: Sequence[TextFinding], max_findings: int) -> tuple[TextFinding, ...]:
    """Select the findings with the widest gaps, one per pair of texts."""
    distinct: dict[tuple[str, frozenset[str]], TextFinding] = {}
    for finding in sorted(findings, key=lambda finding: (-finding.gap, finding.row)):
        key = finding.category, frozenset((finding.worse.text, finding.better.text))
        distinct.setdefault(key, finding)
    return tuple(distinct.values())[:max_findings]


def _find_cases(texts: Sequence[str], swappers: Sequence[TermSwapper]) -> list[SlotCase]:
    """Find all slots of all texts. Repeated texts are parsed once."""
    slots: dict[str, list[tuple[str, SwapTemplate]]] = {}
    for text in dict.fromkeys(texts):
        words = words_of(text)
        matching = [swapper for swapper in swappers if swapper.may_mention(words)]
        slots[text] = [(swapper.category.name, slot) for swapper in matching for slot in swapper.slots(text)]
    return [SlotCase(row, name, slot) for row, text in enumerate(texts) for name, slot in slots[text]]
