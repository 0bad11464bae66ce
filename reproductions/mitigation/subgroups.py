"""TestSGD's experiment: a network, the subgroup it treats most differently, and what mends that."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from evenhand import subgroups
from evenhand.errors import EvenhandError, ModelError
from evenhand.interrupts import InterruptGuard
from evenhand.mitigation import (
    Candidate,
    FeatureEncoding,
    Findings,
    FoundSubgroup,
    MitigationConfig,
    MitigationTask,
    SubgroupGapMetric,
    TrainingSet,
    load_methods,
    split_people,
)
from evenhand.models import Scorer, predict_labels
from evenhand.schema import People
from evenhand.subgroups import Perturbation, SubgroupResult
from evenhand.typing import Booleans
from reproductions.mitigation.record import (
    DecisionCounts,
    ExperimentCase,
    MitigatedModel,
    MitigationExperimentSettings,
    MitigationRun,
)

GIVEN = "given"

STARTS = 10
"""Times that a network is begun with other first weights, if it gives everybody one label: four units at the end of six
layers die easily."""


class MethodInterrupted(Exception):  # noqa: N818 - it is not an error
    """Somebody stopped a method on its way."""


@dataclass(frozen=True)
class PublishedNetworkLearner:
    """A dense network of the published size, trained from the beginning."""

    settings: MitigationExperimentSettings

    takes_weights: ClassVar[bool] = False

    @property
    def name(self) -> str:
        """What is trained and how."""
        return f"a network of {len(self.settings.hidden) + 1} layers"

    @property
    def endings(self) -> tuple[str, ...]:
        """None: its networks are measured, not kept."""
        return ()

    def fit(self, lesson: TrainingSet, *, seed: int) -> Scorer:
        """Return the network that learns from a lesson: scikit-learn's, so that it needs no extra."""
        import warnings

        from sklearn.exceptions import ConvergenceWarning
        from sklearn.neural_network import MLPClassifier
        from threadpoolctl import threadpool_limits

        settings, target = self.settings, lesson.people.schema.target
        individuals, values = lesson.individuals, target.values or ()
        favourable = values.index(target.favourable)
        # Scaled by the real people alone: what is added must not move everybody else.
        encoding = FeatureEncoding.fit_to_people(lesson.people.schema, lesson.people.individuals)
        batch = min(settings.batch_size, len(individuals))
        features = encoding.features(individuals)
        with warnings.catch_warnings(), threadpool_limits(1):  # sums must not depend on how many cores there are
            warnings.simplefilter("ignore", ConvergenceWarning)  # the number of steps is fixed
            for start in range(STARTS):
                network = MLPClassifier(
                    hidden_layer_sizes=settings.hidden,
                    batch_size=batch,
                    max_iter=max(settings.epochs, math.ceil(settings.least_steps * batch / len(individuals))),
                    random_state=(seed + 1009 * start) % 2**32,
                    tol=0.0,
                    n_iter_no_change=10**6,
                )
                with InterruptGuard():
                    network.fit(features, lesson.all_labels == favourable)
                if len(np.unique(network.predict(features))) > 1:
                    break
        layers = [
            (np.asarray(weights, dtype=np.float64), np.asarray(bias, dtype=np.float64))
            for weights, bias in zip(network.coefs_, network.intercepts_, strict=True)
        ]
        classes = (values[1 - favourable], values[favourable])
        return encoding.additive(layers, classes, 1, self.name)

    def save(self, scorer: Scorer, path: Path) -> tuple[Path, ...]:
        """Write nothing: its networks are not stored."""
        raise ModelError("the networks of a reproduction are not kept", location=str(path))


def mitigate_widest(
    case: ExperimentCase,
    people: People,
    settings: MitigationExperimentSettings,
    *,
    run: int,
    seed: int,
    progress: Callable[[str, float], None],
) -> MitigationRun:
    """Train a network, search it, and let every method mend the widest gap that stands out.

    The people who are kept aside are neither trained on nor searched nor chosen on.

    Raises:
        Stopped: somebody stopped a method.
    """
    began = time.perf_counter()
    own = seed + run
    parts = split_people(people, seed=own)
    learner = PublishedNetworkLearner(settings)
    progress(f"{case.name}: training the network", 0.0)
    given = learner.fit(TrainingSet.plain(parts.train), seed=own)
    progress(f"{case.name}: searching for subgroups", 0.1)
    known = people.at(np.flatnonzero(~np.isin(people.rows, parts.test.rows)))
    found = subgroups.find_subgroups(
        given, known, attributes=case.sensitive, support=settings.support, depth=case.depth,
        permutations=settings.permutations, seed=own,
    )  # fmt: skip
    widest, significant = _widest_subgroup(found, people)
    findings = Findings(subgroups=(widest,) if widest else ())
    harm = SubgroupGapMetric(widest.rules if widest else {})
    measuring = _Measuring(
        harm, parts.test, parts.train, Perturbation(people.schema, case.sensitive), settings.samples, own
    )
    models = [measuring.measure(GIVEN, "as it was", given, (), time.perf_counter() - began)]
    left_out: dict[str, str] = {}
    for number, name in enumerate(settings.methods if widest else ()):
        start, share = 0.2 + 0.8 * number / len(settings.methods), 0.8 / len(settings.methods)

        def say(what: str, done: float, start: float = start, share: float = share, name: str = name) -> None:
            progress(f"{case.name}, {name}: {what}", start + share * done)

        task = MitigationTask(
            given=given,
            learner=learner,
            split=parts,
            findings=findings,
            harms=(harm,),
            config=MitigationConfig(methods=(name,), rounds=0, seed=own),
            progress=say,
            plain=given,
        )
        began = time.perf_counter()
        try:
            made: Candidate = load_methods([name])[name](task)
        except EvenhandError as error:
            left_out[name] = error.message
            continue
        if made.interrupted:
            raise MethodInterrupted
        models.append(measuring.measure(name, made.words, made.scorer, made.notes, time.perf_counter() - began))
    return MitigationRun(
        case=case.name,
        dataset=case.dataset,
        run=run,
        train=len(parts.train),
        validation=len(parts.validation),
        test=len(parts.test),
        subgroup=widest.words if widest else None,
        significant=significant,
        models=tuple(models),
        left_out=left_out,
    )


def _widest_subgroup(found: SubgroupResult, people: People) -> tuple[FoundSubgroup | None, bool]:
    """Find the widest significant gap; where none is, the widest that was tested, as published."""
    surely = Findings.read([found], people.schema).subgroups
    if surely:
        return surely[0], True
    widest = max(found.findings, key=lambda one: abs(one.gap), default=None)
    return (FoundSubgroup(widest.rules, widest.gap, widest.words), False) if widest else (None, False)


@dataclass(frozen=True)
class _Measuring:
    """The people that every model decides about: people kept aside, its training set, and these slightly changed."""

    harm: SubgroupGapMetric
    test: People
    train: People
    nudge: Perturbation
    samples: int
    seed: int

    def measure(self, method: str, words: str, scorer: Scorer, notes: Sequence[str], seconds: float) -> MitigatedModel:
        inside = self.harm.inside(self.train)
        return MitigatedModel(
            method=method,
            words=words,
            held_out=count_decisions(scorer, self.test, self.harm.inside(self.test)),
            training=count_decisions(scorer, self.train, inside),
            sampled=count_perturbed(scorer, self.train, inside, self.nudge, self.samples, self.seed),
            notes=tuple(notes),
            seconds=seconds,
        )


def count_decisions(scorer: Scorer, people: People, inside: Booleans) -> DecisionCounts:
    """Return a model's decisions about people, and which of them are in a subgroup."""
    favourable = predict_labels(scorer, people.individuals) == scorer.favourable
    return DecisionCounts(
        people=len(people),
        right=int((favourable == people.favourable).sum()),
        inside=int(inside.sum()),
        favourable=int(favourable[inside].sum()),
        rest_favourable=int(favourable[~inside].sum()),
    )


def count_perturbed(
    scorer: Scorer, people: People, inside: Booleans, nudge: Perturbation, samples: int, seed: int
) -> DecisionCounts:
    """Return what it decides about people nudged in one attribute that is not sensitive, so many on either side.

    Source: TestSGD, section 4.3. The samples depend on the people and the seed alone, so that models can be compared.
    """
    rng = np.random.default_rng([seed, 4])
    counts = []
    for side in (np.flatnonzero(inside), np.flatnonzero(~inside)):
        drawn = side[rng.integers(0, len(side), size=samples)] if len(side) else side
        nudged = nudge(people.individuals[drawn], rng)
        counts.append((len(drawn), int((predict_labels(scorer, nudged) == scorer.favourable).sum())))
    (n, favourable), (rest, rest_favourable) = counts
    return DecisionCounts(
        people=n + rest, right=None, inside=n, favourable=favourable, rest_favourable=rest_favourable
    )  # fmt: skip
