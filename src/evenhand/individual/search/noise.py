"""Findings in a model that answers differently each time: reported if repeated answers differ beyond its noise."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from pydantic import BaseModel, ConfigDict

from evenhand.individual.noise import ANSWERS, confirm_flips
from evenhand.individual.search.findings import DiscriminatoryProfiles
from evenhand.individual.search.space import ProfileSpace
from evenhand.models import CHECKED, NoiseCheck, QuestionLedger, Scorer, check_noise
from evenhand.population import uniform_population
from evenhand.schema import People, Schema

MOST_ANSWERS = 6_000
"""Questions that telling findings from noise takes, at most."""

CHECK_SHARE = 0.05
KEPT_SHARE = 0.5
"""Of a budget: people who are asked about twice, and what is kept for telling findings from noise, at most."""


class NoiseTest(BaseModel):
    """How many profiles differed in single answers, and how many of them were asked about again.

    Attributes:
        differed: profiles whose single answers differed.
        tested: of them, how many were asked about again.
        answers: new answers about each, under every assignment.
        confidence: 1 minus the false discovery rate.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    differed: int
    tested: int
    answers: int
    confidence: float

    @property
    def sentence(self) -> str:
        """What was done."""
        return (
            f"single answers differed for {self.differed:,}; {self.tested:,} of them were asked about {self.answers} "
            f"times more, and those reported differ beyond noise (Fisher's exact test, false discovery rate "
            f"{100 * (1 - self.confidence):.3g} %)"
        )


def check_source(
    scorer: Scorer, source: People | Schema, space: ProfileSpace, budget: int | None, rng: np.random.Generator
) -> NoiseCheck | None:
    """Ask about some people twice, or about anybody in the domain where there are none, as far as a budget allows."""
    if isinstance(source, People):
        people = source.individuals[rng.permutation(len(source))]
    else:
        people = uniform_population(space.schema).sample(CHECKED, rng)
    return check_noise(scorer, people, most=CHECKED if budget is None else min(CHECKED, int(CHECK_SHARE * budget)))


def keep_answers(ledger: QuestionLedger) -> int:
    """Return how many questions of a budget are kept for ``confirm_against_noise``."""
    return 0 if ledger.budget is None else min(MOST_ANSWERS, int(KEPT_SHARE * ledger.left))


def confirm_against_noise(
    scorer: Scorer,
    space: ProfileSpace,
    found: DiscriminatoryProfiles,
    *,
    confidence: float,
    ledger: QuestionLedger,
    rng: np.random.Generator,
) -> tuple[DiscriminatoryProfiles, NoiseTest]:
    """Ask about findings again, ``ANSWERS`` times under every assignment, and keep those that differ beyond noise.

    Those with the widest gap of scores come first, in random order where all gaps are alike, as far as ``MOST_ANSWERS``
    and the budget go. Labels are those of the majority, scores means of the new answers.
    """
    assignments = len(space.assignments)
    affordable = int(min(MOST_ANSWERS, ledger.left)) // (ANSWERS * assignments)
    scores = np.where(found.compared, found.scores[:, :, scorer.favourable], np.nan)
    gaps = np.nanmax(scores, axis=1, initial=-1.0) - np.nanmin(scores, axis=1, initial=2.0)
    chosen = np.sort(np.lexsort((rng.random(len(found)), -gaps))[:affordable])
    part = found[chosen]
    people = space.rows(part.unprotected).reshape(len(part), assignments, len(space.schema.attributes))
    again = confirm_flips(scorer, people, part.compared, confidence=confidence, ledger=ledger)
    # Where an assignment makes no plausible person, another one stands in for it.
    which = space.stand_ins(part.unprotected)
    labels = np.take_along_axis(again.labels, which, axis=1)
    means = np.take_along_axis(again.scores, which[:, :, None], axis=1)
    tested = NoiseTest(differed=len(found), tested=len(part), answers=ANSWERS, confidence=confidence)
    return replace(part, labels=labels, scores=means)[again.kept], tested
