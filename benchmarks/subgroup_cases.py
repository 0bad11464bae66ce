"""The data sets of the benchmark of subgroups, models trained on them, and what was published about them.

Sensitive attributes, times and findings are those of Zhang and others (TestSGD, 2023): section 5, Tables 4 and 5.
"""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from evenhand import datasets
from evenhand.errors import FetchError
from evenhand.models.blackbox.estimator import EstimatorModel, wrap_estimator
from evenhand.schema import People, Schema, encode

if TYPE_CHECKING:
    import pandas as pd

ROOT = Path(__file__).resolve().parent.parent
SHARED = Path(os.environ.get("EVENHAND_SHARED", ROOT.parent / "shared"))
MODELS = ("mlp", "logistic", "boosting")
LAYERS = (64, 32, 16, 8, 4)
"""Hidden layers of the network: with the decision, six layers, as in the published experiments."""


@dataclass(frozen=True)
class Published:
    """A finding of Table 4: a rule set, and how often the label that the paper calls True is predicted.

    Attributes:
        rules: the rule set as conditions.
        inside, rest: published rates of the paper's label.
    """

    rules: str
    inside: float
    rest: float


@dataclass(frozen=True)
class Source:
    """One data set of the published experiments.

    Attributes:
        data: name in ``evenhand.datasets``.
        sensitive: attributes whose rule sets are searched.
        depth: rules per rule set at most, None for all.
        seconds, rule_sets: published time, and rule sets tested in it (Table 5).
        findings: published top findings (Table 4).
        label: another label than the data set's own, with its favourable value.
        same_label: whether the paper's True is our favourable label; None where the paper does not say.
    """

    data: str
    sensitive: tuple[str, ...]
    seconds: float
    rule_sets: int
    findings: tuple[Published, ...]
    depth: int | None = None
    label: tuple[str, str] | None = None
    same_label: bool | None = True


MEN_40 = "sex == Male and age >= 40"
SOURCES = {
    "census": Source(
        "adult", ("sex", "race", "age"), 869.35, 880,
        (
            Published(f"{MEN_40} and age < 80 and race in {{White, Asian-Pac-Islander}}", 0.299, 0.097),
            Published(f"{MEN_40} and age < 70 and race in {{White, Amer-Indian-Eskimo}}", 0.289, 0.095),
            Published(
                f"{MEN_40} and age < 80 and race in {{White, Asian-Pac-Islander, Amer-Indian-Eskimo}}", 0.269, 0.085
            ),
        ),
    ),
    "bank": Source(
        "bank", ("age",), 141.52, 34,
        (Published("age < 90", 0.033, 0.415), Published("age < 70", 0.038, 0.266), Published("age < 60", 0.047, 0.252)),
    ),
    "german": Source(
        "german", ("sex", "age"), 104.85, 53,
        (
            Published("sex == female and age >= 60 and age < 70", 0.725, 0.506),
            Published("sex == female and age >= 60 and age < 80", 0.705, 0.487),
            Published("sex == male and age >= 40 and age < 80", 0.526, 0.471),
        ),
    ),
    "compas": Source(
        "compas", ("sex", "race", "age"), 908.5, 1590,
        (
            Published(f"{MEN_40} and race in {{Hispanic, Other}}", 0.207, 0.831),
            Published(f"{MEN_40} and age < 60 and race in {{Hispanic, Other}}", 0.203, 0.826),
            Published("sex == Male and age >= 50 and age < 60 and race == Hispanic", 0.195, 0.818),
        ),
        label=("high_risk", "no"), same_label=None,
    ),
    "law": Source(
        "law-school", ("gender", "race1"), 18.46, 17,
        (
            Published("gender == male and race1 in {asian, black}", 0.845, 0.995),
            Published("gender == female and race1 in {asian, black}", 0.888, 0.999),
            Published("gender == female and race1 == black", 0.897, 0.999),
        ),
    ),
    "crime": Source(
        "communities-crime",
        ("racepctblack", "racePctWhite", "racePctAsian", "racePctHisp", "agePct12t21", "agePct12t29", "agePct16t24",
         "agePct65up", "MalePctDivorce", "FemalePctDiv"),
        29150.01, 13282,
        (
            Published("FemalePctDiv >= 0.4 and racePctWhite <= 0.8", 0.838, 0.232),
            Published("FemalePctDiv >= 0.5 and racePctWhite <= 0.8", 0.870, 0.274),
            Published("FemalePctDiv >= 0.5 and racePctWhite <= 0.6", 0.946, 0.351),
        ),
        depth=3, same_label=False,
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Case:
    """People and a model of them.

    Attributes:
        name: of the data set, as the paper calls it.
        source: what was published about it.
        people: everyone in the data.
        model: trained on a half of them.
        accuracy: on the other half.
    """

    name: str
    source: Source
    people: People
    model: EstimatorModel
    accuracy: float

    @property
    def frame(self) -> pd.DataFrame:
        """The sensitive attributes' columns, one row per person."""
        return self.people.frame.iloc[self.people.rows][list(self.source.sensitive)].reset_index(drop=True)


def case(name: str, kind: str) -> Case | None:
    """A data set with a model trained on it; None where the data is not here."""
    source = SOURCES[name]
    found = population(source)
    if found is None:
        return None
    rng = np.random.default_rng(0)
    order = rng.permutation(len(found))
    half = len(found) // 2
    frame = found.frame.iloc[found.rows].reset_index(drop=True)
    columns, target = list(found.schema.names), found.schema.target.name
    model = untrained(found.schema, kind, epochs=max(20, 100_000 // half))
    with warnings.catch_warnings():
        # The number of epochs is fixed: what the network has not learnt by then does not matter here.
        warnings.filterwarnings("ignore", message="Stochastic Optimizer")
        model.fit(frame.loc[order[:half], columns], frame.loc[order[:half], target])
    scorer = wrap_estimator(model, found.schema, name=f"{kind} on {name}")
    truth = frame.loc[order[half:], target]
    accuracy = float((model.predict(frame.loc[order[half:], columns]) == truth).mean())
    return Case(name, source, found, scorer, accuracy)


def population(source: Source) -> People | None:
    """Everyone in a data set; None where the data is not here."""
    tables = SHARED / "data" / "tabular"
    try:
        data = datasets.load_dataset(source.data, data_home=tables if tables.is_dir() else None, download=False)
    except FetchError:
        return None
    schema, frame = data.schema, data.frame
    described = schema.model_dump()
    if source.label:
        name, favourable = source.label
        described["target"] = {"name": name, "favourable": favourable, "values": ["yes", "no"]}
        frame = frame.assign(**{name: (frame["score_text"] == "High").map({True: "yes", False: "no"})})
    if source.depth:
        # Shares of a community's people: numbers here, of which the registered data set makes two groups of one.
        described["attributes"] = [
            {"name": each["name"], "kind": "real", "lower": 0.0, "upper": 1.0}
            if each["name"] in source.sensitive else each
            for each in described["attributes"]
        ]  # fmt: skip
    return encode(Schema.parse(described), frame)


def untrained(schema: Schema, kind: str, epochs: int) -> Any:
    """A pipeline over frames: words one-hot, numbers standardised, and a classifier."""
    from sklearn.compose import make_column_transformer
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    words = [each.name for each in schema.attributes if each.values is not None]
    numbers = [each.name for each in schema.attributes if each.values is None]
    classifiers = {
        "mlp": MLPClassifier(LAYERS, activation="tanh", max_iter=epochs, random_state=0),
        "logistic": LogisticRegression(max_iter=500),
        "boosting": HistGradientBoostingClassifier(max_iter=100, random_state=0),
    }
    encoder = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    return make_pipeline(
        make_column_transformer((encoder, words), (StandardScaler(), numbers)),
        classifiers[kind],
    )
