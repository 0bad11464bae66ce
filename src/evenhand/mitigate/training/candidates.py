"""Fairness-aware training as methods of mitigation: a network of the published kind, its strength by validation."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from evenhand import certify
from evenhand.errors import LimitError
from evenhand.mitigate.candidate import Candidate, Situation, Trial
from evenhand.mitigate.choice import ROUNDING, accuracy, bar, pick, remaining, sizes
from evenhand.mitigate.harms import GapHarm
from evenhand.mitigate.training.blind import protected_of
from evenhand.mitigate.training.losses import loss
from evenhand.models.additive import AdditiveNetwork
from evenhand.population import marginals

if TYPE_CHECKING:
    from evenhand.mitigate.training.fair_classifier import FairClassifier
    from evenhand.schema import People

EVERY = 10
"""Steps between two words to whoever watches."""

SMALL, SMALL_STEPS = (32, 32), 300
"""Hidden layers of a network about which much can be proved, and the steps it takes."""

ON_RATE = 0.005
"""Rate at first of a given network that is trained on."""

REFINED = 3
"""Strengths tried between the strongest that costs little enough and the next, which costs too much."""

WEAKER = 10.0
"""Where even the weakest costs too much: what it is divided by for the other end."""

QUICK_BOXES = 2000
"""Boxes of the certificates that tell equals apart."""


@dataclass(frozen=True)
class Recipe:
    """How a method is trained.

    Attributes:
        words: what it is, for a reader.
        sees_protected: whether the network is given the protected attributes. The published group methods are not: a
            network that is could meet a group's rate by treating its people by another measure.
        by_group: whether the penalty compares groups.
        by_person: whether the penalty compares what the same person is told under other protected assignments. Such a
            network is the given one trained on, where that can be; else a small one, about which much can be proved.
        on_steps: steps that the given one is trained on.
        on_rate: rate at first of these steps. A group method that has one trains the given network on, which sees what
            it sees; its accuracy then differs less from the given one's by chance than a fresh network's.
    """

    words: str
    sees_protected: bool
    by_group: bool
    by_person: bool = False
    on_steps: int = 1000
    on_rate: float | None = None


RECIPES = {
    "erm": Recipe("a network trained for accuracy alone", True, False),
    "diffdp": Recipe("a network trained for equal mean scores (DiffDP)", False, True),
    "gap": Recipe("trained on for equal mean scores", True, True, on_steps=150, on_rate=0.002),
    "hsic": Recipe("a network trained for scores independent of the group (HSIC)", False, True),
    "laftr": Recipe("a network trained on a representation that hides the group (LAFTR)", False, True),
    "prejudice-remover": Recipe(
        "a network trained for decisions that say nothing about the group (Prejudice Remover)", False, True
    ),
    "logit-pairing": Recipe("a network trained for equal logits under every protected assignment", True, False, True),
    "certified": Recipe("a network trained on the certifier's own bounds", True, False, True, 2000),
}


def erm(situation: Situation) -> Candidate:
    """A network trained for accuracy alone: what the others are compared with."""
    return trained("erm")(situation)


def diffdp(situation: Situation) -> Candidate:
    """A network trained for equal mean scores."""
    return trained("diffdp")(situation)


def gap(situation: Situation) -> Candidate:
    """The given network, trained on for equal mean scores; any other model: a network of the published kind."""
    return trained("gap")(situation)


def hsic(situation: Situation) -> Candidate:
    """A network trained for scores that are independent of the group."""
    return trained("hsic")(situation)


def laftr(situation: Situation) -> Candidate:
    """A network trained against an adversary that tells the group."""
    return trained("laftr")(situation)


def prejudice_remover(situation: Situation) -> Candidate:
    """A network trained for little mutual information between decision and group."""
    return trained("prejudice-remover")(situation)


def logit_pairing(situation: Situation) -> Candidate:
    """A network trained for equal logits under every protected assignment."""
    return trained("logit-pairing")(situation)


def certified(situation: Situation) -> Candidate:
    """A network trained so that the certifier decides more of it."""
    return trained("certified")(situation)


def trained(method: str) -> Callable[[Situation], Candidate]:
    """A method of mitigation that trains a network anew.

    The strength is the configuration's, or the one that leaves the least harm on the validation part among those
    within the accuracy that may be lost; strength 0 is tried first and is what remains where none is. While harm is
    left, strengths are tried between the strongest within it and the next, halving the ratio's logarithm each time.
    """
    return lambda situation: _Sweep(method, situation).candidate()


class _Sweep:
    def __init__(self, method: str, situation: Situation) -> None:
        self._method = method
        self._it = situation
        self._recipe = RECIPES[method]
        fixed = situation.config.strength
        found = loss(method).sweep
        alone = fixed is not None or found == (0.0,)
        self._strengths = ((0.0 if fixed is None or found == (0.0,) else fixed),) if alone else (0.0, *found)
        self._trials: list[Trial] = []
        self._models: list[AdditiveNetwork] = []
        self._refined = REFINED if len(self._strengths) > 1 else 0
        self._before = sizes(situation.given, situation.split.validation, situation.harms)
        self._given = accuracy(situation.given, situation.split.validation)

    def candidate(self) -> Candidate:
        """Train with every strength; the best of what was trained if somebody stops it or time is up."""
        interrupted = not self._sweep()
        best = self._best()
        network, strength = self._models[best], self._trials[best].value
        return Candidate(
            method=self._method,
            words=self._recipe.words + (f", strength {strength:g}" if strength else ""),
            scorer=network,
            save=lambda path: _write(network, path),
            trials=tuple(trial.model_copy(update={"chosen": i == best}) for i, trial in enumerate(self._trials)),
            interrupted=interrupted,
            notes=self._notes(best),
        )

    def _sweep(self) -> bool:
        """Every strength, then some between; False if somebody stopped it or time was up."""
        if not all(self._try(strength) for strength in self._strengths):
            return False
        for _ in range(self._refined):
            between = self._between()
            if between is None:
                break
            if not self._try(between):
                return False
        return True

    def _try(self, strength: float) -> bool:
        """Train and measure; False if it was stopped."""
        if self._trials and self._late():
            return False
        model = self._train(strength)
        # A network that was stopped half way is no trial of its strength, unless there is no other.
        if model.interrupted_:
            if self._trials:
                return False
            self._begun(model)
        self._note(strength, model.network_)
        return not model.interrupted_

    def _between(self) -> float | None:
        """A strength between the strongest that costs little enough and the next; None if there is nothing to gain."""
        people = self._it.split.validation
        if remaining(self._trials[self._best_of_harms()].harms, self._before, len(people)) == 0:
            return None
        low = max(trial.value for trial in self._trials if trial.accuracy >= self._least - ROUNDING)
        high = min((trial.value for trial in self._trials if trial.value > low), default=None)
        if high is None:
            return None
        between = float(f"{math.sqrt(max(low, high / WEAKER) * high):.3g}")
        return between if low < between < high else None

    def _train(self, strength: float) -> FairClassifier:
        from evenhand.mitigate.training.fair_classifier import FairClassifier

        it, people = self._it, self._it.split.train
        model = FairClassifier(
            self._method,
            strength=strength,
            schema=people.schema,
            sees_protected=self._recipe.sees_protected,
            seed=it.config.seed,
        )
        if self._recipe.by_person:
            model.set_params(protected=protected_of(it), **(self._onward() or {"hidden": SMALL, "steps": SMALL_STEPS}))
        elif self._recipe.on_rate is not None:
            model.set_params(**self._onward())
        number = len(self._trials)

        def each(step: int) -> None:
            if step % EVERY == 0:
                share = (number + step / model.steps) / (len(self._strengths) + self._refined)
                it.progress(f"{self._method}: training with strength {strength:g}", share)

        return model.fit(people.individuals, truly(people), group=self._groups(people), deadline=it.deadline, each=each)

    def _begun(self, model: FairClassifier) -> None:
        """Refuse a network that has not learnt at all."""
        if not model.history_:
            if not self._late():
                raise KeyboardInterrupt
            raise LimitError(
                f"time was up before {self._method} had learnt anything", mend="give it more time: --time-limit"
            )

    def _onward(self) -> dict[str, Any]:
        """How the given network is trained on; empty where it cannot be."""
        from evenhand.mitigate.training.start import startable

        given = self._it.given
        if isinstance(given, AdditiveNetwork) and startable(given):
            return {"start": given, "steps": self._recipe.on_steps, "learning_rate": self._recipe.on_rate or ON_RATE}
        return {}

    def _groups(self, people: People) -> NDArray[np.int64] | None:
        """Who is compared with whom: the subgroups found and everybody else; None: by what is protected."""
        gaps = [harm for harm in self._it.harms if isinstance(harm, GapHarm)] if self._recipe.by_group else []
        if not gaps:
            return None
        inside = np.stack([harm.inside(people) for harm in gaps], axis=1)
        return np.asarray(np.unique(inside, axis=0, return_inverse=True)[1].reshape(-1), dtype=np.int64)

    def _note(self, strength: float, network: AdditiveNetwork) -> None:
        people = self._it.split.validation
        harms = sizes(network, people, self._it.harms)
        self._trials.append(Trial(setting="strength", value=strength, accuracy=accuracy(network, people), harms=harms))
        self._models.append(network)

    @property
    def _least(self) -> float:
        """The accuracy that a strength must keep."""
        return bar(self._given, self._trials[0].accuracy, self._it.config.accuracy_loss)

    def _best_of_harms(self) -> int:
        return pick(self._trials, self._before, self._least, len(self._it.split.validation))

    def _best(self) -> int:
        best = self._best_of_harms()
        if not self._recipe.by_person:
            return best
        # Few people may be treated unfairly by none of them: then that which most is proved about.
        people = len(self._it.split.validation)
        left = [remaining(trial.harms, self._before, people) for trial in self._trials]
        equal = [
            i for i, t in enumerate(self._trials) if t.accuracy >= self._least - ROUNDING and left[i] <= left[best]
        ]
        if len(equal) < 2:
            return best
        self._it.progress(f"{self._method}: which of {len(equal)} equals most is proved about", 1.0)
        return min(equal, key=lambda i: (undecided(self._models[i], self._it), i))

    def _late(self) -> bool:
        return self._it.deadline is not None and time.perf_counter() > self._it.deadline

    def _notes(self, best: int) -> tuple[str, ...]:
        schema = self._it.split.train.schema
        notes = []
        if not self._recipe.sees_protected and schema.protected:
            notes.append(f"The network is not given {', '.join(schema.protected)}.")
        given = self._given
        plain = self._trials[0].accuracy
        if plain < given - self._it.config.accuracy_loss and self._trials[0].value == 0:
            notes.append(
                f"Trained for accuracy alone, the network is right about {100 * plain:.1f} % of the validation people, "
                f"the given model about {100 * given:.1f} %: it knew them, had learnt from others, or is of a better "
                "kind. What may be lost is counted from the network trained for accuracy alone."
            )
        if best == 0 and len(self._trials) > 1:
            notes.append(f"No strength left less harm within {100 * self._it.config.accuracy_loss:.1f} % of accuracy.")
        return tuple(notes)


def undecided(network: AdditiveNetwork, situation: Situation) -> float:
    """Which share of people like those learnt from a quick certificate leaves undecided."""
    certificate = certify.run(
        network,
        protected=protected_of(situation),
        population=marginals(situation.split.train),
        max_boxes=QUICK_BOXES,
        samples=1,
        counterexamples=0,
        seed=situation.config.seed,
    )
    return certificate.undecided


def truly(people: People) -> NDArray[np.object_]:
    """True labels in the data's own words, shape (n,)."""
    values = people.schema.target.values or ()
    assert people.labels is not None, "a split has labels"
    words = np.empty(len(values), dtype=object)
    words[:] = values
    return words[people.labels]


def _write(network: AdditiveNetwork, path: Path) -> tuple[Path, ...]:
    from evenhand.mitigate.training.saving import write_network

    return write_network(network, path)
