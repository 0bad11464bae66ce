"""Fairness-aware training as methods of mitigation: a network of the published kind, its strength by validation."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from evenhand import certification
from evenhand.core.typing import Integers
from evenhand.errors import LimitError
from evenhand.mitigation.candidate import Candidate, MitigationTask, TrialLog
from evenhand.mitigation.metrics import SubgroupGapMetric
from evenhand.mitigation.training.blind import find_protected
from evenhand.mitigation.training.losses.loss import load_loss
from evenhand.models.additive.network import AdditiveNetwork
from evenhand.population.independent import product_of_marginals

if TYPE_CHECKING:
    from evenhand.mitigation.training.fair_classifier import FairClassifier
    from evenhand.schema.people import People

EVERY = 10
"""Training steps between two reports of progress."""

SMALL, SMALL_STEPS = (32, 32), 300
"""Hidden layers of a network about which much can be proved, and the steps it takes."""

ON_RATE = 0.005
"""Rate at first of a given network that is trained on."""

MOST_REFINEMENTS = 3
"""Strengths tried between the strongest that costs little enough and the next, which costs too much."""

WEAKER = 10.0
"""Where even the weakest costs too much: what it is divided by for the other end."""

QUICK_BOXES = 2000
"""Boxes of the certificates that tell equals apart."""


@dataclass(frozen=True)
class TrainingRecipe:
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
    "erm": TrainingRecipe("a network trained for accuracy alone", True, False),
    "diffdp": TrainingRecipe("a network trained for equal mean scores (DiffDP)", False, True),
    "gap": TrainingRecipe("trained on for equal mean scores", True, True, on_steps=150, on_rate=0.002),
    "hsic": TrainingRecipe("a network trained for scores independent of the group (HSIC)", False, True),
    "laftr": TrainingRecipe("a network trained on a representation that hides the group (LAFTR)", False, True),
    "prejudice-remover": TrainingRecipe(
        "a network trained for decisions that say nothing about the group (Prejudice Remover)", False, True
    ),
    "logit-pairing": TrainingRecipe(
        "a network trained for equal logits under every protected assignment", True, False, True
    ),
    "certified": TrainingRecipe("a network trained on the certifier's own bounds", True, False, True, 2000),
}


def make_method(method: str) -> Callable[[MitigationTask], Candidate]:
    """Return a method of mitigation that retrains a network.

    The strength is the configuration's, or the one that leaves the least harm on the validation part among those
    within the accuracy that may be lost; strength 0 is tried first and is what remains where none is. While harm is
    left, strengths are tried between the strongest within it and the next, halving the ratio's logarithm each time.
    """
    return lambda task: _StrengthSweep(method, task).candidate()


class _StrengthSweep:
    def __init__(self, method: str, task: MitigationTask) -> None:
        self._method = method
        self._task = task
        self._recipe = RECIPES[method]
        fixed = task.config.strength
        found = load_loss(method).sweep
        alone = fixed is not None or found == (0.0,)
        self._strengths = ((0.0 if fixed is None or found == (0.0,) else fixed),) if alone else (0.0, *found)
        self._log: TrialLog[AdditiveNetwork] = TrialLog(task)
        self._refined = MOST_REFINEMENTS if len(self._strengths) > 1 else 0

    def candidate(self) -> Candidate:
        """Train with every strength; the best of what was trained if somebody stops it or time is up."""
        interrupted = not self._try_strengths()
        best = self._best()
        network, strength = self._log.models[best], self._log.trials[best].value
        return Candidate(
            method=self._method,
            words=self._recipe.words + (f", strength {strength:g}" if strength else ""),
            scorer=network,
            save=lambda path: _write_candidate(network, path),
            trials=self._log.mark_chosen(best),
            interrupted=interrupted,
            notes=self._notes(best),
        )

    def _try_strengths(self) -> bool:
        """Return every strength, then some between; False if somebody stopped it or time was up."""
        if not all(self._try(strength) for strength in self._strengths):
            return False
        for _ in range(self._refined):
            between = self._refined_strength()
            if between is None:
                break
            if not self._try(between):
                return False
        return True

    def _try(self, strength: float) -> bool:
        """Train and measure; False if it was stopped."""
        if self._log.trials and self._task.is_late:
            return False
        model = self._train(strength)
        # A network that was stopped half way is not a trial of its strength, unless there is no other.
        if model.interrupted_:
            if self._log.trials:
                return False
            self._require_learning(model)
        self._log.record("strength", strength, model.network_)
        return not model.interrupted_

    def _refined_strength(self) -> float | None:
        """A strength between the strongest that costs little enough and the next; None if there is nothing to gain."""
        log = self._log
        if log.remaining_harm(log.best()) == 0:
            return None
        low = max(trial.value for i, trial in enumerate(log.trials) if log.is_affordable(i))
        high = min((trial.value for trial in log.trials if trial.value > low), default=None)
        if high is None:
            return None
        between = float(f"{math.sqrt(max(low, high / WEAKER) * high):.3g}")
        return between if low < between < high else None

    def _train(self, strength: float) -> FairClassifier:
        from evenhand.mitigation.training.fair_classifier import FairClassifier

        task, people = self._task, self._task.split.train
        model = FairClassifier(
            self._method,
            strength=strength,
            schema=people.schema,
            sees_protected=self._recipe.sees_protected,
            seed=task.config.seed,
        )
        if self._recipe.by_person:
            model.set_params(
                protected=find_protected(task), **(self._start_parameters() or {"hidden": SMALL, "steps": SMALL_STEPS})
            )
        elif self._recipe.on_rate is not None:
            model.set_params(**self._start_parameters())
        number = len(self._log.trials)

        def each(step: int) -> None:
            if step % EVERY == 0:
                share = (number + step / model.steps) / (len(self._strengths) + self._refined)
                task.progress(f"{self._method}: training with strength {strength:g}", share)

        return model.fit(
            people.individuals,
            true_labels(people),
            sensitive_features=self._groups(people),
            deadline=task.deadline,
            each=each,
        )

    def _require_learning(self, model: FairClassifier) -> None:
        """Refuse a network that has not learnt at all."""
        if not model.history_:
            if not self._task.is_late:
                raise KeyboardInterrupt
            raise LimitError(
                f"time was up before {self._method} had learnt anything", hint="give it more time: `time_limit=SECONDS`"
            )

    def _start_parameters(self) -> dict[str, Any]:
        """Return how the given network is trained on; empty where it cannot be."""
        from evenhand.mitigation.training.network import can_start_from

        given = self._task.given
        if isinstance(given, AdditiveNetwork) and can_start_from(given):
            return {"start": given, "steps": self._recipe.on_steps, "learning_rate": self._recipe.on_rate or ON_RATE}
        return {}

    def _groups(self, people: People) -> Integers | None:
        """Return who is compared with whom: the subgroups found and everybody else; None: by what is protected."""
        gaps = (
            [harm for harm in self._task.harms if isinstance(harm, SubgroupGapMetric)] if self._recipe.by_group else []
        )
        if not gaps:
            return None
        inside = np.stack([harm.inside(people) for harm in gaps], axis=1)
        return np.asarray(np.unique(inside, axis=0, return_inverse=True)[1].reshape(-1), dtype=np.int64)

    def _best(self) -> int:
        log = self._log
        best = log.best()
        if not self._recipe.by_person:
            return best
        # Few people may be treated unfairly by none of them: then that which most is proved about.
        left = [log.remaining_harm(i) for i in range(len(log.trials))]
        equal = [i for i in range(len(left)) if log.is_affordable(i) and left[i] <= left[best]]
        if len(equal) < 2:
            return best
        self._task.progress(f"{self._method}: which of {len(equal)} equals most is proved about", 1.0)
        return min(equal, key=lambda i: (undecided_share(log.models[i], self._task), i))

    def _notes(self, best: int) -> tuple[str, ...]:
        schema = self._task.split.train.schema
        notes = []
        if not self._recipe.sees_protected and schema.protected:
            notes.append(f"The network is not given {', '.join(schema.protected)}.")
        given = self._log.given
        plain = self._log.trials[0].accuracy
        if plain < given - self._task.config.accuracy_loss and self._log.trials[0].value == 0:
            notes.append(
                f"Trained for accuracy alone, the network is right about {100 * plain:.1f} % of the validation people, "
                f"the given model about {100 * given:.1f} %: it knew them, had another training set, or is of a better "
                "kind. What may be lost is counted from the network trained for accuracy alone."
            )
        if best == 0 and len(self._log.trials) > 1:
            notes.append(
                f"No strength left less harm within {100 * self._task.config.accuracy_loss:.1f} % of accuracy."
            )
        return tuple(notes)


def undecided_share(network: AdditiveNetwork, task: MitigationTask) -> float:
    """Return which share of people like those learnt from a quick certificate leaves undecided."""
    certificate = certification.certify(
        network,
        protected=find_protected(task),
        population=product_of_marginals(task.split.train),
        max_boxes=QUICK_BOXES,
        samples=1,
        counterexamples=0,
        seed=task.config.seed,
    )
    return certificate.undecided


def true_labels(people: People) -> NDArray[np.object_]:
    """Return true labels in the data's own words, shape (n,)."""
    values = people.schema.target.values or ()
    assert people.labels is not None, "a split has labels"
    words = np.empty(len(values), dtype=object)
    words[:] = values
    return words[people.labels]


def _write_candidate(network: AdditiveNetwork, path: Path) -> tuple[Path, ...]:
    from evenhand.mitigation.training.network import write_network

    return write_network(network, path)
