"""What is proved of two models, side by side: for whom the decision is the same whatever is protected."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np

from evenhand import certification
from evenhand.certification.certificate.result import Certificate
from evenhand.core.typing import Progress
from evenhand.errors import ModelError, NotAdditiveError, OptionError
from evenhand.mitigation.comparison_lines import PendingComparison
from evenhand.mitigation.result import ChangeVerdict
from evenhand.models.additive.network import AdditiveNetwork
from evenhand.models.scorer import Scorer, predict_labels
from evenhand.models.white_box import extract_white_box
from evenhand.population.independent import ProductPopulation
from evenhand.population.mixture import MixturePopulation
from evenhand.schema.people import People
from evenhand.stats.quantity import Proved

if TYPE_CHECKING:
    from evenhand.models.trees.ensemble import TreeEnsemble

AS_MUCH = 0.0005
"""Shares that differ by less than this are called equal: where boxes are cut differs as much by chance."""

WORDS = {
    "certified": "certified fair: the same decision whatever {} says",
    "falsified": "provably another decision for some other {}",
    "undecided": "not decided by proof, for {}",
}


@dataclass(eq=False)
class CertificateCache:
    """Certificates of models, each made once.

    Attributes:
        sets: protected attributes, jointly varied, for each certificate.
        population: what shares are measured by.
        people: on whom the inside of a model must decide as the model itself.
        effort: Work for all certificates of one model, in seconds of a processor core.
        seed: of sampling.
        marked: what is said behind each line.
    """

    sets: Sequence[tuple[str, ...]]
    population: ProductPopulation | MixturePopulation
    people: People
    effort: float
    seed: int
    marked: str = ""
    _made: dict[int, tuple[Scorer, dict[tuple[str, ...], Certificate] | str]] = field(default_factory=dict)

    def certificates(
        self, scorer: Scorer, progress: Progress | None = None
    ) -> dict[tuple[str, ...], Certificate] | str:
        """Return a model's certificate for each set, or why there is none."""
        if id(scorer) not in self._made:
            self._made[id(scorer)] = (scorer, self._prove_sets(scorer, progress))
        return self._made[id(scorer)][1]

    def _prove_sets(self, scorer: Scorer, progress: Progress | None) -> dict[tuple[str, ...], Certificate] | str:
        try:
            network = extract_white_box(scorer)
        except NotAdditiveError as error:
            return error.message
        # A proof about the white box says nothing about a model that decides otherwise.
        differ = _count_differences(network, scorer, self.people)
        if differ:
            return (
                f"read from the inside, the model decides {differ:,} of the test people differently than when it runs"
            )
        certificates = {}
        for protected in self.sets:
            try:
                certificates[protected] = certification.certify(
                    network,
                    protected=protected,
                    population=self.population,
                    effort=self.effort / len(self.sets),
                    seed=self.seed,
                    progress=progress,
                )
            except (OptionError, ModelError) as error:
                return error.message
        return certificates


def compare_proofs(
    prover: CertificateCache, given: Scorer, new: Scorer, progress: Progress
) -> tuple[list[PendingComparison], list[str]]:
    """Return certified, falsified and undecided shares of both models, or why there are none."""
    before = prover.certificates(given, progress)
    if isinstance(before, str):
        return [], [f"no proofs compared: of the given model, {before}"]
    after = prover.certificates(new, progress)
    if isinstance(after, str):
        return [], [f"no proofs compared: of the new model, {after}"]
    found = []
    for protected in prover.sets:
        found += _compare_certificates(" x ".join(protected), before[protected], after[protected], prover.marked)
    return found, []


def _compare_certificates(of: str, before: Certificate, after: Certificate, marked: str) -> list[PendingComparison]:
    decided = _certificate_verdict(before, after)
    verdicts: dict[str, ChangeVerdict] = {
        "certified": decided or _proof_verdict(after.certified - before.certified),
        "falsified": decided or "open",
        "undecided": _proof_verdict(before.undecided - after.undecided),
    }
    notes = {
        "certified": "" if decided else "what is undecided could turn it: the true shares may be equal",
        "falsified": "" if decided else "what is undecided could turn it",
        "undecided": "what the proof left open, of which nothing is known",
    }
    found = []
    for name, words in WORDS.items():
        first, second = (
            Proved(value=getattr(one, name), how=f"{one.method}, {one.boxes:,} boxes, of {one.population}")
            for one in (before, after)
        )
        better: Literal["up", "down"] = "up" if name == "certified" else "down"
        found.append(
            PendingComparison(
                "proof", name, of, words.format(of) + marked, first, second, better, None, verdicts[name], notes[name]
            )
        )
    return found


def _certificate_verdict(before: Certificate, after: Certificate) -> ChangeVerdict | None:
    """Better if the share proved the same now exceeds all that it could have been before; worse the other way."""
    if after.certified > 1 - before.falsified - before.no_counterpart:
        return "better"
    if 1 - after.falsified - after.no_counterpart < before.certified:
        return "worse"
    return None


def _proof_verdict(more: float) -> ChangeVerdict:
    if abs(more) < AS_MUCH:
        return "as much is proved"
    return "more is proved" if more > 0 else "less is proved"


def _count_differences(network: AdditiveNetwork | TreeEnsemble, scorer: Scorer, people: People) -> int:
    """Return how many people the inside of a model decides differently; those who lack a value are not asked about."""
    if network is scorer:
        return 0
    known = people.individuals[~np.isnan(people.individuals).any(axis=1)]
    return int((predict_labels(network, known) != predict_labels(scorer, known)).sum())
