"""Search texts whose decision flips when identity terms are swapped: every text, every category, every group."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.datasets.identity import Category, categories, named
from evenhand.errors import DataError, LimitError, OptionError
from evenhand.individual.text.result import TextCount, TextResult
from evenhand.stats import observed_rate
from evenhand.texts import Slot, Swapper, TextFinding
from evenhand.texts.model import TextModel, load, read, text_list
from evenhand.texts.pairs import finding, once
from evenhand.texts.swap import words_of


@dataclass(frozen=True)
class Config:
    """Settings of the search in texts.

    Attributes:
        examples: findings kept, those with the widest gap between scores first, at most one per text and category.
        budget: texts that the model may be asked about; None: as many as there are.
        time_limit: seconds; what was found by then is the result. None: no limit.
        confidence: of the intervals.
    """

    examples: int = 100
    budget: int | None = None
    time_limit: float | None = None
    confidence: float = 0.95

    def __post_init__(self) -> None:
        if self.examples < 0:
            raise OptionError(f"examples must not be negative, not {self.examples}")
        if self.budget is not None and self.budget < 2:
            raise OptionError(f"a budget of {self.budget} leaves nothing to compare", mend="give at least 2")
        if self.time_limit is not None and not self.time_limit > 0:
            raise OptionError(f"the time limit must be positive, not {self.time_limit:g} seconds")
        if not 0 < self.confidence < 1:
            raise OptionError(f"confidence must lie between 0 and 1, not {self.confidence:g}")


@dataclass(frozen=True)
class Case:
    """A slot of one text: where the text stands in the data, and which category was swapped."""

    row: int
    category: str
    slot: Slot


def run(
    model: Any,
    texts: Iterable[str],
    *,
    protected: Sequence[str | Category] | None = None,
    labels: Sequence[Any] | None = None,
    favourable: Any = None,
    config: Config | None = None,
    trust: bool = False,
    progress: Callable[[str, float], None] | None = None,
) -> TextResult:
    """Swap identity terms in every text and see whether the label stays.

    Args:
        model: a scikit-learn text pipeline, or any function from a list of texts to labels or scores (of the favourable
            label, from 0 to 1, given above 1/2; or one per label); or a file of one, a URL (``http://...``), or
            ``module:function``.
        texts: what the model decides about. Those without identity terms are not asked about.
        protected: categories to swap: names of lists that come with the package (``gender``, ``religion``, ...) or
            lists of your own (``evenhand.datasets.identity.read_category``); all of the package's if left out.
        labels: the labels, in the order of the model's scores, if it does not name them itself.
        favourable: the label whose score is compared; the last unless set.
        config: how many examples, budget, time limit, confidence.
        trust: allow model files that can run code when loaded.
        progress: called with what is being done and the share done, 0 to 1.

    Returns:
        How often labels flip, by category, and the clearest findings. An interrupt (Ctrl-C) while the model is asked
        leaves what was found before it.

    Raises:
        DataError: there are no texts, or none has a term of these categories.
        ModelError: the model fails or its replies are no labels or scores.
        LimitError: the limits or an interrupt stopped it before the model was asked about anything.
    """
    started = time.perf_counter()
    config = config or Config()
    say = progress or (lambda what, share: None)
    asked = load(model, trust=trust)
    every = text_list(texts)
    lists = [
        one for given in protected or categories() for one in (named(given) if isinstance(given, str) else (given,))
    ]
    say("looking for identity terms", 0.0)
    cases = _cases(every, [Swapper(one) for one in lists])
    if not cases:
        names = ", ".join(one.name for one in lists)
        raise DataError(
            f"none of the {len(every):,} texts has a term of: {names}", mend="bring a list of your own: --terms FILE"
        )
    variants, inverse, ends = _distinct(cases)
    replies, interrupted = _ask(asked, variants, config, started, say)
    if replies is None:
        raise LimitError("the search was stopped before anything was asked", mend="give it more time or budget")
    reply, classes, wanted = read(replies, asked, labels, favourable)
    say("reading the answers", 1.0)
    reached = [case for case, end in zip(cases, ends, strict=True) if inverse[:end].max() < len(replies)]
    found: list[TextFinding] = []
    flipped: dict[str, set[int]] = {one.name: set() for one in lists}
    seen: dict[str, set[int]] = {one.name: set() for one in lists}
    distinct = set()
    start = 0
    for case, end in zip(reached, ends, strict=False):
        mine = inverse[start:end]
        start = end
        seen[case.category].add(case.row)
        own, scores = reply.labels[mine], reply.scores[mine, wanted]
        if (own != own[0]).any():
            flipped[case.category].add(case.row)
            distinct.add((case.category, case.slot.pieces[::2], case.slot.text))
            found.append(finding(case.category, case.row, case.slot, own, scores, classes))
    clearest = sorted(found, key=lambda one: -one.gap)
    return TextResult(
        classes=tuple(str(label) for label in classes),
        favourable=str(classes[wanted]),
        label_only=reply.label_only,
        counts=tuple(
            TextCount(
                category=one.name,
                rate=observed_rate(
                    len(flipped[one.name]),
                    len(seen[one.name]),
                    config.confidence,
                    if_empty="no text that was reached has such words",
                ),
                flips=len(flipped[one.name]),
                n=len(seen[one.name]),
                texts=len(every),
            )
            for one in lists
        ),
        profiles=len(distinct),
        queries=len(replies),
        examples=tuple(once(clearest)[: config.examples]),
        interrupted=interrupted,
        seed=0,
        seconds=time.perf_counter() - started,
    )


def _cases(texts: Sequence[str], swappers: Sequence[Swapper]) -> list[Case]:
    """Every slot of every text; what the same text said before is not looked for again."""
    known: dict[str, list[tuple[str, Slot]]] = {}
    cases = []
    for row, text in enumerate(texts):
        if text not in known:
            words = words_of(text)
            able = [one for one in swappers if one.may_mention(words)]
            known[text] = [(one.category.name, slot) for one in able for slot in one.slots(text)]
        cases += [Case(row, name, slot) for name, slot in known[text]]
    return cases


def _distinct(cases: Sequence[Case]) -> tuple[list[str], NDArray[np.int64], list[int]]:
    """The different texts to ask about, which of them each variant of each case is, and where each case's end there.

    A case's own text comes first among its variants.
    """
    position: dict[str, int] = {}
    inverse: list[int] = []
    ends: list[int] = []
    for case in cases:
        inverse += [position.setdefault(case.slot.of(group), len(position)) for group in case.slot.swapped]
        ends.append(len(inverse))
    return list(position), np.array(inverse, dtype=np.int64), ends


def _ask(
    model: TextModel, texts: list[str], config: Config, started: float, say: Callable[[str, float], None]
) -> tuple[NDArray[np.generic] | None, bool]:
    """The model's replies to the first texts, as many as the limits allow; whether somebody stopped it."""
    most = len(texts) if config.budget is None else min(len(texts), config.budget)
    parts: list[NDArray[np.generic]] = []
    interrupted = False
    try:
        for start in range(0, most, model.batch):
            late = config.time_limit is not None and time.perf_counter() - started > config.time_limit
            if late and parts:
                break
            say(f"asking the model: {start:,} of {most:,} texts", start / most)
            parts.append(model.replies(texts[start : min(most, start + model.batch)]))
    except KeyboardInterrupt:
        interrupted = True
    return (np.concatenate(parts) if parts else None), interrupted
