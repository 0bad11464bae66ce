"""The seven environments of the paper: a data set and the attribute whose two groups a shield compares.

Source: Cano, Henzinger, Könighofer, Kueffner, Mallik: Fairness Shields: Safeguarding against Biased Decision Makers,
AAAI 2025, Table 4; which rows and groups they are follows the authors' repository.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from evenhand import datasets
from evenhand.datasets import Dataset
from evenhand.schema import Schema
from evenhand.typing import Integers

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

    def __reduce__(self) -> tuple[Callable[[str], Environment], tuple[str]]:
        return _environment_called, (self.name,)  # functions without a name cannot be sent to another process


def _environment_called(name: str) -> Environment:
    return next(one for one in ENVIRONMENTS if one.name == name)


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
        "bank", "age", ("below 25", "25 or older"), lambda column: column >= 25, "yes",
        note="our table is bank-full (45,211 clients); the paper's, bank-additional-full, has 41,188 of them",
    ),
    Environment(
        "compas", "sex", ("Female", "Male"), lambda column: column == "Male", 1, note=_FEWER_COLUMNS
    ),
    Environment(
        "compas", "race", ("other", "Caucasian"), lambda column: column == "Caucasian", 1, note=_FEWER_COLUMNS
    ),
    Environment("german", "sex", ("female", "male"), lambda column: column == "male", 1),
    Environment("german", "age", ("25 or younger", "older than 25"), lambda column: column > 25, 1),
)  # fmt: skip
"""The data sets of the shields paper, each with the attribute whose two groups are shielded."""


def load_dataset(dataset: str, *, data_home: str | Path | None = None) -> Dataset:
    """Return the data set, bundled, found in the data folder or fetched."""
    return datasets.load_dataset(dataset, data_home=data_home)


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
    described = dataset.schema.without([environment.attribute]).with_protected([]).model_dump()
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
