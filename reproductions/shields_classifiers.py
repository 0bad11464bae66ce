"""The people and classifiers of Fairness Shields: seven environments, and five ways to train a network on each.

Source: Cano, Henzinger, Könighofer, Kueffner, Mallik: Fairness Shields, AAAI 2025, Table 4; which rows and groups they
are follows the authors' repository.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from evenhand.core.interrupts import InterruptGuard
from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.datasets import Dataset
from evenhand.schema import Schema
from reproductions.common import Values

if TYPE_CHECKING:
    import pandas as pd

TRAINED_ON = 0.4
"""Share of the people that a classifier is trained on; the others arrive at the shield."""


@dataclass(frozen=True)
class Environment:
    """A data set, and two groups in it.

    Attributes:
        dataset: name of the data set.
        attribute: the attribute, which the classifier does not see.
        groups: names of the two groups, a and b.
        member: which rows belong to group b, given the attribute's column.
        accepted: the label that the paper's classifiers accept people for.
        kept: which rows take part, given the frame; None: all.
        note: where our data differ from the paper's.
    """

    dataset: str
    attribute: str
    groups: tuple[str, str]
    member: Callable[[pd.Series], pd.Series]
    accepted: str | int
    kept: Callable[[pd.DataFrame], pd.Series] | None = None
    note: str = ""

    @property
    def name(self) -> str:
        """Return data set and attribute."""
        return f"{self.dataset}, {self.attribute}"


@dataclass(frozen=True, eq=False)
class EnvironmentSample:
    """The people of an environment, as a classifier sees them.

    Attributes:
        environment: whose they are.
        features: what a classifier is given, without the attribute and the label; a frame, one row per person.
        schema: of these features; the favourable label is the one that the paper's classifiers accept people for.
        group: 0 for group a, 1 for group b, shape (people,).
        label: 1 for those whom a right decision accepts, shape (people,).
        train: rows to train on, ascending; the others arrive at the shield.
        arriving: the other rows, ascending.
    """

    environment: Environment
    features: pd.DataFrame
    schema: Schema
    group: Integers
    label: Integers
    train: Integers
    arriving: Integers

    @property
    def rates(self) -> tuple[float, float]:
        """Share of each group among all people."""
        share = float(self.group.mean())
        return 1 - share, share


def _has_all_stated(frame: pd.DataFrame) -> pd.Series:
    """Return people who left nothing unstated."""
    return ~(frame == "?").any(axis=1)


def _black_or_white(frame: pd.DataFrame) -> pd.Series:
    return _has_all_stated(frame) & frame["race"].isin(["Black", "White"])


_FEWER_COLUMNS = (
    "accepting means predicting a new charge, as in the paper; the description of the charge and the age category, "
    "which the paper's classifiers see, are not among our attributes"
)

ENVIRONMENTS: tuple[Environment, ...] = (
    Environment("adult", "race", ("Black", "White"), lambda column: column == "White", ">50K", _black_or_white),
    Environment("adult", "sex", ("Female", "Male"), lambda column: column == "Male", ">50K", _has_all_stated),
    Environment(
        "bank",
        "age",
        ("below 25", "25 or older"),
        lambda column: column >= 25,
        "yes",
        note="our table is bank-full (45,211 clients); the paper's, bank-additional-full, has 41,188 of them",
    ),
    Environment("compas", "sex", ("Female", "Male"), lambda column: column == "Male", 1, note=_FEWER_COLUMNS),
    Environment("compas", "race", ("other", "Caucasian"), lambda column: column == "Caucasian", 1, note=_FEWER_COLUMNS),
    Environment("german", "sex", ("female", "male"), lambda column: column == "male", 1),
    Environment("german", "age", ("25 or younger", "older than 25"), lambda column: column > 25, 1),
)
"""The data sets of the shields paper, each with the attribute whose two groups are shielded."""


def sample_environment(environment: Environment, dataset: Dataset, *, seed: int) -> EnvironmentSample:
    """Pick an environment's people and part them into those to train on and those who arrive.

    The parts hold the same share of either label, as far as whole people allow.
    """
    frame = dataset.frame
    if environment.kept is not None:
        frame = frame[environment.kept(frame)]
    frame = frame.reset_index(drop=True)
    target = dataset.schema.target.name
    label = (frame[target] == environment.accepted).to_numpy().astype(np.int64)
    described = dataset.schema.without_rules().with_protected([]).model_dump()
    described["attributes"] = [entry for entry in described["attributes"] if entry["name"] != environment.attribute]
    described["target"]["favourable"] = environment.accepted
    schema = Schema.parse(described)
    features = frame[list(schema.names)]
    rng = np.random.default_rng([seed, 1])
    train = np.concatenate([_split_rows(np.flatnonzero(label == value), rng) for value in (0, 1)])
    return EnvironmentSample(
        environment=environment,
        features=features,
        schema=schema,
        group=environment.member(frame[environment.attribute]).to_numpy().astype(np.int64),
        label=label,
        train=np.sort(train),
        arriving=np.setdiff1d(np.arange(len(frame)), train),
    )


def _split_rows(rows: Integers, rng: np.random.Generator) -> Integers:
    return rng.permutation(rows)[: round(TRAINED_ON * len(rows))]


# The classifiers.

Classifier: TypeAlias = Callable[[EnvironmentSample, int], Floats]
"""People and a seed -> the score of everyone, 0 to 1; above a half means accepted."""

LAYERS = (512, 256, 64)
"""Sizes of the hidden layers of the published networks."""

STEPS = 150
BATCH = {"german": 128}
USUAL_BATCH = 1024
LEARNING_RATE = 0.001
"""150 steps of Adam on batches of 1,024 people, of German Credit 128. The published rate falls from 0.01 to 0.0001 by
steps, which scikit-learn's does not; this is the one in the middle."""


def train_accurately(sample: EnvironmentSample, seed: int) -> Floats:
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
        hidden_layer_sizes=LAYERS,
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


def train_fairly(method: str, sample: EnvironmentSample, seed: int) -> Floats:
    """Train a network of the same size and as many steps to keep the two groups alike, and return its scores.

    It sees what ERM sees, and is told during training who belongs to which group. How much that counts is each
    method's default: the strengths that the paper uses are lost from the text that is at hand.

    Raises:
        MissingExtraError: PyTorch is not installed.
    """
    from evenhand.mitigation import FairClassifier

    accepted = sample.environment.accepted
    refused = next(value for value in sample.schema.target.values or () if value != accepted)
    batch = BATCH.get(sample.environment.dataset, USUAL_BATCH)
    network = FairClassifier(method, schema=sample.schema, hidden=LAYERS, steps=STEPS, batch_size=batch, seed=seed)
    words = np.where(sample.label == 1, accepted, refused)
    network.fit(sample.features.iloc[sample.train], words[sample.train], sensitive_features=sample.group[sample.train])
    at = network.classes_.tolist().index(accepted)
    return np.asarray(network.predict_proba(sample.features)[:, at], dtype=np.float64)


CLASSIFIERS: dict[str, Classifier] = {
    "ERM": train_accurately,
    "DiffDP": partial(train_fairly, "diffdp"),
    "HSIC": partial(train_fairly, "hsic"),
    "LAFTR": partial(train_fairly, "laftr"),
    "PR": partial(train_fairly, "prejudice-remover"),
}
"""Name in the paper -> what trains it; all but the first need PyTorch."""


@dataclass(frozen=True, eq=False)
class TrainedClassifier:
    """What a classifier recommends for the people who arrive.

    Attributes:
        name: in ``CLASSIFIERS``.
        sample: the people.
        scores: of everybody, shape (people,).
    """

    name: str
    sample: EnvironmentSample
    scores: Floats

    @property
    def recommendation(self) -> Integers:
        """1 to accept, of everybody."""
        return (self.scores > 0.5).astype(np.int64)


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


def describe_classifier(classifier: TrainedClassifier) -> Values:
    """Return the people of an environment in numbers, and accuracy and gaps on those who arrive."""
    people = classifier.sample
    rows = people.arriving
    group, label, accepted = people.group[rows], people.label[rows], classifier.recommendation[rows]

    def gap_of(among: Booleans) -> float:
        shares = [accepted[among & (group == g)].mean() if (among & (group == g)).any() else 0.0 for g in (0, 1)]
        return float(abs(shares[0] - shares[1]))

    return {
        "environment": people.environment.name,
        "classifier": classifier.name,
        "people": len(people.label),
        "arriving": len(rows),
        "label": float(people.label.mean()),
        "group_a": people.rates[0],
        "gap": float(abs(people.label[people.group == 0].mean() - people.label[people.group == 1].mean())),
        "accuracy": float((accepted == label).mean()),
        "demographic_parity": gap_of(np.ones(len(rows), bool)),
        "equal_opportunity": gap_of(label == 1),
        "note": people.environment.note,
    }
