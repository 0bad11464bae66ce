"""The classifiers whose decisions are shielded, by their names in the paper.

A classifier is a function that is trained on part of an environment's people and scores all of them. `CLASSIFIERS`
lists them: a new one takes part in every table once it stands there and the settings name it.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from evenhand.core import ResultPart
from evenhand.errors import MissingExtraError, OptionError
from evenhand.interrupts import InterruptGuard
from evenhand.typing import Booleans, Floats, Integers
from reproductions.shields.environments import EnvironmentSample

if TYPE_CHECKING:
    import pandas as pd


Scores: TypeAlias = Floats
Classifier: TypeAlias = Callable[[EnvironmentSample, Sequence[int], int], Scores]
"""People, sizes of the hidden layers, a seed -> the score of everyone, 0 to 1; above a half means accepted."""

LAYERS = (512, 256, 64)
"""Sizes of the hidden layers of the published networks."""

STEPS = 150
BATCH = {"german": 128}
USUAL_BATCH = 1024
LEARNING_RATE = 0.001
"""150 steps of Adam on batches of 1,024 people, of German Credit 128. The published rate falls from 0.01 to 0.0001 by
steps, which scikit-learn's does not; this is the one in the middle."""


def empirical_risk(sample: EnvironmentSample, layers: Sequence[int], seed: int) -> Scores:
    """Train a network for accuracy alone (ERM), and return its scores.

    Numbers are standardised and words one-hot encoded. Batches and steps are those of the authors' repository; the
    network is scikit-learn's, so that it needs no extra and is the same for the same seed.
    """
    from sklearn.neural_network import MLPClassifier
    from threadpoolctl import threadpool_limits

    features = _encode_features(sample.features, sample.train)
    label = sample.label
    batch = min(BATCH.get(sample.environment.dataset, USUAL_BATCH), len(sample.train))
    network = MLPClassifier(
        hidden_layer_sizes=tuple(layers),
        solver="adam",
        learning_rate_init=LEARNING_RATE,
        batch_size=batch,
        random_state=np.random.RandomState(seed),
        shuffle=False,
    )
    rng = np.random.default_rng([seed, 2])
    waiting = np.empty(0, dtype=np.int64)
    # Batches this small are faster on one core than shared out, and sums do not depend on how many there are.
    with threadpool_limits(1), InterruptGuard():
        for _ in range(STEPS):
            if len(waiting) < batch:
                waiting = rng.permutation(sample.train)
            rows, waiting = waiting[:batch], waiting[batch:]
            network.partial_fit(features[rows], label[rows], classes=[0, 1])
        return np.asarray(network.predict_proba(features)[:, 1], dtype=np.float64)


def trained_fairly(method: str) -> Classifier:
    """A network of the same sizes and as many steps, trained to keep the two groups alike (needs the extra ``torch``).

    It sees what ERM sees, and is told during training who belongs to which group. How much that counts is each
    method's default: the strengths that the paper uses are lost from the text that is at hand.
    """

    def classifier(sample: EnvironmentSample, layers: Sequence[int], seed: int) -> Scores:
        from evenhand.mitigation import FairClassifier

        accepted = sample.environment.accepted
        refused = next(value for value in sample.schema.target.values or () if value != accepted)
        network = FairClassifier(
            method,
            schema=sample.schema,
            hidden=tuple(layers),
            steps=STEPS,
            batch_size=BATCH.get(sample.environment.dataset, USUAL_BATCH),
            seed=seed,
        )
        words = np.where(sample.label == 1, accepted, refused)
        network.fit(
            sample.features.iloc[sample.train], words[sample.train], sensitive_features=sample.group[sample.train]
        )
        at = network.classes_.tolist().index(accepted)
        return np.asarray(network.predict_proba(sample.features)[:, at], dtype=np.float64)

    return classifier


FAIR: dict[str, str] = {"DiffDP": "diffdp", "HSIC": "hsic", "LAFTR": "laftr", "PR": "prejudice-remover"}
"""Those trained to be fair: name in the paper -> ours. They need PyTorch."""

CLASSIFIERS: dict[str, Classifier] = {
    "ERM": empirical_risk,
    **{name: trained_fairly(method) for name, method in FAIR.items()},
}


def available_classifiers(names: Sequence[str]) -> tuple[tuple[str, ...], dict[str, str]]:
    """Return those of the classifiers that can be trained here; and the others, each with why not.

    Raises:
        OptionError: there is none of some name.
        MissingExtraError: none of them can be trained without PyTorch, which is not installed.
    """
    for name in names:
        _require_known(name)
    if importlib.util.find_spec("torch") is not None:
        return tuple(names), {}
    missing = MissingExtraError("torch", extra="torch", purpose="to train classifiers to be fair")
    kept = tuple(name for name in names if name not in FAIR)
    if not kept:
        raise missing
    return kept, {name: f"{missing.message}: {missing.hint}" for name in names if name in FAIR}


@dataclass(frozen=True, eq=False)
class TrainedClassifier:
    """What a classifier recommends for the people who arrive.

    Attributes:
        name: in `CLASSIFIERS`.
        sample: the people.
        scores: of everybody, shape (people,).
    """

    name: str
    sample: EnvironmentSample
    scores: Scores

    @property
    def recommendation(self) -> Integers:
        """1 to accept, of everybody."""
        return (self.scores > 0.5).astype(np.int64)


def train_classifier(name: str, sample: EnvironmentSample, *, layers: Sequence[int], seed: int) -> TrainedClassifier:
    """Train one classifier with these hidden layers.

    Raises:
        OptionError: there is none of that name.
    """
    _require_known(name)
    return TrainedClassifier(name, sample, CLASSIFIERS[name](sample, layers, seed))


def _require_known(name: str) -> None:
    if name not in CLASSIFIERS:
        raise OptionError(f"there is no classifier {name!r}", hint=f"one of: {', '.join(CLASSIFIERS)}")


def _encode_features(features: pd.DataFrame, train: Integers) -> NDArray[np.float32]:
    """Return the numbers by mean and deviation of the people trained on, words one column each."""
    import pandas as pd

    parts = []
    for name in features.columns:
        column = features[name]
        if pd.api.types.is_numeric_dtype(column):
            values = column.to_numpy(dtype=np.float64)
            deviation = values[train].std()
            parts.append(((values - values[train].mean()) / (deviation or 1.0))[:, None])
        else:
            words = sorted(column.iloc[train].unique())
            parts.append(np.stack([(column == word).to_numpy(dtype=np.float64) for word in words], axis=1))
    return np.concatenate(parts, axis=1).astype(np.float32)


# How a classifier fares with the people who arrive at the shield.


class ClassifierRecord(ResultPart):
    """A classifier on an environment.

    Attributes:
        dataset, attribute, classifier: which.
        groups: names of the two groups.
        people, arriving: rows, and how many of them the classifier was not trained on: those arrive at the shield.
        label: share with label 1; group_a: share in the first group; gap: of label 1 between the groups.
        accepted: share of each group that is accepted.
        accuracy: share of right decisions on those who arrive; demographic_parity, equal_opportunity: gaps there.
        seconds: training took.
        note: where our data differ from the paper's.
    """

    dataset: str
    attribute: str
    classifier: str
    groups: tuple[str, str]
    people: int
    arriving: int
    label: float
    group_a: float
    gap: float
    accepted: tuple[float, float]
    accuracy: float
    demographic_parity: float
    equal_opportunity: float
    seconds: float
    note: str = ""


def describe_classifier(classifier: TrainedClassifier, seconds: float) -> ClassifierRecord:
    """Return accuracy and gaps on the people whom the classifier was not trained on."""
    people = classifier.sample
    rows = people.arriving
    group, label, accepted = people.group[rows], people.label[rows], classifier.recommendation[rows]

    def gap_of(among: Booleans) -> float:
        shares = [accepted[among & (group == g)].mean() if (among & (group == g)).any() else 0.0 for g in (0, 1)]
        return float(abs(shares[0] - shares[1]))

    return ClassifierRecord(
        dataset=people.environment.dataset,
        attribute=people.environment.attribute,
        classifier=classifier.name,
        groups=people.environment.groups,
        people=len(people.label),
        arriving=len(rows),
        label=float(people.label.mean()),
        group_a=people.rates[0],
        gap=float(abs(people.label[people.group == 0].mean() - people.label[people.group == 1].mean())),
        accepted=(float(accepted[group == 0].mean()), float(accepted[group == 1].mean())),
        accuracy=float((accepted == label).mean()),
        demographic_parity=gap_of(np.ones(len(rows), bool)),
        equal_opportunity=gap_of(label == 1),
        seconds=seconds,
        note=people.environment.note,
    )
