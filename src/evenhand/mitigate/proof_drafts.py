"""What is proved of two models, side by side: for whom the decision is the same whatever is protected."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np

from evenhand import certify
from evenhand.certify import Certificate
from evenhand.errors import ModelError, NotAdditiveError, OptionError
from evenhand.mitigate.drafts import Draft
from evenhand.mitigate.result import Verdict
from evenhand.models import AdditiveNetwork, Scorer, predict, white_box
from evenhand.population import ProductPopulation
from evenhand.schema import People
from evenhand.stats import Proved

if TYPE_CHECKING:
    from evenhand.models import TreeEnsemble

WORK = 30_000_000
CALL = 5_000
"""Boxes that a certificate may take for each second it is given: ``WORK / (CALL + weights)``, about what one processor
does. The number depends on the model alone and not on the clock, so the same models always get the same shares."""

AS_MUCH = 0.0005
"""Shares that differ by less than this are called equal: where boxes are cut differs as much by chance."""

WORDS = {
    "certified": "provably the same decision whatever {} says",
    "falsified": "provably another decision for some other {}",
    "undecided": "not decided by proof, for {}",
}


@dataclass(eq=False)
class Prover:
    """Certificates of models, each made once.

    Attributes:
        sets: protected attributes, jointly varied, for each certificate.
        population: what shares are measured by.
        people: on whom the inside of a model must decide as the model itself.
        seconds: for all certificates of one model.
        seed: of sampling.
    """

    sets: Sequence[tuple[str, ...]]
    population: ProductPopulation
    people: People
    seconds: float
    seed: int
    _made: dict[int, tuple[Scorer, dict[tuple[str, ...], Certificate] | str]] = field(default_factory=dict)

    def certificates(
        self, scorer: Scorer, progress: Callable[[str, float], None] | None = None
    ) -> dict[tuple[str, ...], Certificate] | str:
        """A model's certificate for each set, or why there is none."""
        if id(scorer) not in self._made:
            self._made[id(scorer)] = (scorer, self._prove(scorer, progress))
        return self._made[id(scorer)][1]

    def _prove(
        self, scorer: Scorer, progress: Callable[[str, float], None] | None
    ) -> dict[tuple[str, ...], Certificate] | str:
        try:
            network = white_box(scorer)
        except NotAdditiveError as error:
            return error.what
        differ = _differ(network, scorer, self.people)
        if differ:
            return (
                f"read from the inside, the model decides {differ:,} of the test people differently than when it runs"
            )
        each, weights = self.seconds / len(self.sets), _weights(network)
        found = {}
        for protected in self.sets:
            try:
                found[protected] = certify.run(
                    network,
                    protected=protected,
                    population=self.population,
                    max_boxes=max(1, round(each * WORK / (CALL + weights))),
                    time_limit=None if weights else each,
                    seed=self.seed,
                    progress=progress,
                )
            except (OptionError, ModelError) as error:
                return error.what
        return found


def proof_drafts(
    prover: Prover, given: Scorer, new: Scorer, progress: Callable[[str, float], None]
) -> tuple[list[Draft], list[str]]:
    """Certified, falsified and undecided shares of both models, or why there are none."""
    before = prover.certificates(given, progress)
    if isinstance(before, str):
        return [], [f"no proofs compared: of the given model, {before}"]
    after = prover.certificates(new, progress)
    if isinstance(after, str):
        return [], [f"no proofs compared: of the new model, {after}"]
    found = []
    for protected in prover.sets:
        found += _drafts(" x ".join(protected), before[protected], after[protected])
    return found, []


def _drafts(of: str, before: Certificate, after: Certificate) -> list[Draft]:
    decided = _decided(before, after)
    verdicts: dict[str, Verdict] = {
        "certified": decided or _amount(after.certified - before.certified),
        "falsified": decided or "open",
        "undecided": _amount(before.undecided - after.undecided),
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
            Draft("proof", name, of, words.format(of), first, second, better, None, verdicts[name], notes[name])
        )
    return found


def _decided(before: Certificate, after: Certificate) -> Verdict | None:
    """Better if the share proved the same now exceeds all that it could have been before; worse the other way."""
    if after.certified > 1 - before.falsified:
        return "better"
    if 1 - after.falsified < before.certified:
        return "worse"
    return None


def _amount(more: float) -> Verdict:
    if abs(more) < AS_MUCH:
        return "as much is proved"
    return "more is proved" if more > 0 else "less is proved"


def _weights(network: AdditiveNetwork | TreeEnsemble) -> int:
    """How large a network with one logit is; 0 of what is bounded by other methods, whose cost is not known before."""
    if not isinstance(network, AdditiveNetwork):
        return 0
    logits = len(network.layers[-1].bias if network.layers else network.bias)
    inputs = len(network.parts) * len(network.bias)
    return inputs + sum(layer.weights.size for layer in network.layers) if logits == 1 else 0


def _differ(network: AdditiveNetwork | TreeEnsemble, scorer: Scorer, people: People) -> int:
    """How many people the inside of a model decides differently; those who lack a value are not asked about."""
    if network is scorer:
        return 0
    known = people.individuals[~np.isnan(people.individuals).any(axis=1)]
    return int((predict(network, known) != predict(scorer, known)).sum())
