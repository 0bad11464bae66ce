"""Proved shares of the population with equal decisions under all protected assignments, before and after."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from evenhand import certification
from evenhand.certification.certificate.result import Certificate
from evenhand.core.typing import Progress
from evenhand.errors import EvenhandError, ModelError, NotAdditiveError, OptionError
from evenhand.mitigation.comparison_lines import PendingComparison
from evenhand.mitigation.result import ChangeVerdict
from evenhand.models.scorer import Scorer, predict_labels
from evenhand.models.white_box import extract_white_box
from evenhand.population.independent import ProductPopulation
from evenhand.population.mixture import MixturePopulation
from evenhand.schema.people import People
from evenhand.stats.quantity import Proved

EQUAL = 0.0005
"""Shares that differ by less are considered equal, since the division into boxes varies by chance."""

WORDS = {
    "certified": "certified fair: the same decision for every {}",
    "falsified": "certified unfair: another decision for some {}",
    "undecided": "undecided by proof, for {}",
}


@dataclass(eq=False)
class ProofComparison:
    """Comparison of certificates with those of the original model, which are computed once.

    Attributes:
        original: Original model.
        sets: Sets of protected attributes that vary jointly.
        population: Population of the certificates.
        people: People for whom the white box and the model must agree.
        effort: Computing effort for all certificates of one model, in seconds of a processor core.
        seed: Random seed.
    """

    original: Scorer
    sets: Sequence[tuple[str, ...]]
    population: ProductPopulation | MixturePopulation
    people: People
    effort: float
    seed: int
    _before: list[Certificate] | EvenhandError | None = None

    def compare(self, new: Scorer, progress: Progress) -> Sequence[PendingComparison | str]:
        """Compare the certified, falsified and undecided shares, or note why this is impossible."""
        if self._before is None:
            self._before = self._try_certify(self.original, progress)
        before = self._before
        if isinstance(before, EvenhandError):
            return [f"proofs were not compared, because of the original model: {before.message}"]
        after = self._try_certify(new, progress)
        if isinstance(after, EvenhandError):
            return [f"proofs were not compared, because of the new model: {after.message}"]
        pairs = zip(self.sets, before, after, strict=True)
        return [line for pair in pairs for line in _compare_certificates(*pair)]

    def _try_certify(self, scorer: Scorer, progress: Progress) -> list[Certificate] | EvenhandError:
        """Certify a model for each set, or return the error that makes this impossible."""
        try:
            network = extract_white_box(scorer)
            # A proof about a white box does not apply to a model that makes different decisions.
            if network is not scorer:
                complete = self.people.individuals[~np.isnan(self.people.individuals).any(axis=1)]
                differences = int((predict_labels(network, complete) != predict_labels(scorer, complete)).sum())
                if differences:
                    return ModelError(
                        f"its white box and the model make different decisions for {differences:,} people in the test "
                        "set"
                    )
            certify = partial(certification.certify, network, population=self.population, seed=self.seed)
            effort = self.effort / len(self.sets)
            return [certify(protected=protected, effort=effort, progress=progress) for protected in self.sets]
        except (NotAdditiveError, OptionError, ModelError) as error:
            return error


def _compare_certificates(
    protected: tuple[str, ...], original: Certificate, new: Certificate
) -> list[PendingComparison]:
    decided: ChangeVerdict | None = None
    # The share of one model is outside the possible range of the other's.
    if new.certified > 1 - original.falsified - original.no_counterpart:
        decided = "better"
    elif 1 - new.falsified - new.no_counterpart < original.certified:
        decided = "worse"
    verdicts: dict[str, tuple[ChangeVerdict, str]] = {
        "certified": (
            decided or _proof_verdict(new.certified - original.certified),
            "" if decided else "the undecided share could reverse it: the true shares may be equal",
        ),
        "falsified": (decided or "open", "" if decided else "the undecided share could reverse it"),
        "undecided": (_proof_verdict(original.undecided - new.undecided), "share about which nothing is proved"),
    }
    of = " x ".join(protected)
    comparisons = []
    for name, (verdict, note) in verdicts.items():
        shares = (
            Proved(value=getattr(result, name), how=f"{result.method}, {result.boxes:,} boxes, of {result.population}")
            for result in (original, new)
        )
        words, better = WORDS[name].format(of), "up" if name == "certified" else "down"
        comparisons.append(
            PendingComparison.of("proof", name, of, words, shares, better_if=better, verdict=verdict, note=note)
        )
    return comparisons


def _proof_verdict(increase: float) -> ChangeVerdict:
    if abs(increase) < EQUAL:
        return "as much is proved"
    return "more is proved" if increase > 0 else "less is proved"
