"""Small domains and models of every kind for tests of the search."""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass

import numpy as np

from evenhand.individual.search.config import SearchConfig
from evenhand.individual.search.findings import ProfileTable
from evenhand.individual.search.methods.choice import find_method
from evenhand.individual.search.oracle import ModelAnswers, Oracle
from evenhand.individual.search.result import SearchResult
from evenhand.individual.search.space import ProfileSpace
from evenhand.models import AdditiveNetwork, Scorer, load_model
from evenhand.models.additive.network import network_from_dense
from evenhand.models.readers import npz
from evenhand.schema import People, Schema
from evenhand.schema.attribute import Value
from support import shared

SCHEMA = Schema.parse(
    {
        "target": {"name": "hired", "favourable": "yes", "values": ["no", "yes"]},
        "attributes": [
            {"name": "grade", "kind": "integer", "lower": 0, "upper": 5},
            {"name": "sex", "kind": "categorical", "values": ["f", "m"], "encoding": "code", "protected": True},
            {"name": "job", "kind": "categorical", "values": ["cook", "clerk", "driver"], "encoding": "one-hot"},
            {"name": "years", "kind": "integer", "lower": 0, "upper": 6},
            {"name": "level", "kind": "ordinal", "values": ["low", "mid", "high"]},
        ],
    }
)
DOMAIN = np.array(list(itertools.product(range(6), range(3), range(7), range(3))), dtype=float)


def profiles(result: SearchResult) -> set[tuple[float, ...]]:
    return {tuple(row) for row in result.table.unprotected.tolist()}


def people(n: int, seed: int, schema: Schema = SCHEMA) -> People:
    rng = np.random.default_rng(seed)
    columns = [rng.integers(0, int(attribute.last) + 1, size=n) for attribute in schema.attributes]
    return People(schema, np.stack(columns, axis=1).astype(float), None, np.arange(n), None)


def network(seed: int, schema: Schema = SCHEMA, outputs: int = 1) -> AdditiveNetwork:
    rng = np.random.default_rng(seed)
    sizes = [schema.width, 8, 5, outputs]
    layers = [
        (rng.normal(size=(before, after)) / np.sqrt(before), rng.normal(size=after) * 0.3)
        for before, after in itertools.pairwise(sizes)
    ]
    made = network_from_dense(schema, layers, classes=schema.target.values if outputs > 1 else None)
    # The last bias is set so that about half of the domain is on each side.
    if outputs == 1:
        layers[-1][1][0] -= np.median(made.logits(ProfileSpace(schema).rows(DOMAIN)))
        made = network_from_dense(schema, layers)
    return made


def tree(seed: int, schema: Schema = SCHEMA) -> Scorer:
    from sklearn.tree import DecisionTreeClassifier

    rng = np.random.default_rng(seed)
    everybody = ProfileSpace(schema).rows(DOMAIN)
    scores = everybody @ rng.normal(size=everybody.shape[1]) + rng.normal(size=len(everybody))
    labels = np.where(scores > np.median(scores), "yes", "no")
    fitted = DecisionTreeClassifier(max_depth=6, random_state=seed).fit(schema.inputs(everybody), labels)
    return load_model(fitted, schema)


@dataclass
class LabelOnly:
    """A model that gives labels alone, and counts how often it is asked about whom."""

    inner: Scorer
    label_only: bool = True
    name: str = "labels"
    asked: int = 0
    calls: int = 0

    @property
    def schema(self) -> Schema:
        return self.inner.schema

    @property
    def classes(self) -> tuple[Value, ...]:
        return self.inner.classes

    @property
    def favourable(self) -> int:
        return self.inner.favourable

    def scores(self, individuals: np.ndarray) -> np.ndarray:
        return np.eye(len(self.classes))[self.predict(individuals)]

    def predict(self, individuals: np.ndarray) -> np.ndarray:
        self.asked += len(individuals)
        self.calls += 1
        return self.inner.predict(individuals)


@dataclass
class BlackBox(LabelOnly):
    """A model of which only scores and labels are known."""

    label_only: bool = False
    name: str = "box"

    def scores(self, individuals: np.ndarray) -> np.ndarray:
        return self.inner.scores(individuals)


class Watching(Oracle):
    """An oracle that notes the profiles of every question."""

    def __init__(self, model: Scorer, space: ProfileSpace, visited: list[list[list[float]]]) -> None:
        super().__init__(model, space)
        self.visited = visited

    def ask(self, unprotected: np.ndarray, which: np.ndarray | None = None) -> ModelAnswers:
        self.visited.append(unprotected.tolist())
        return super().ask(unprotected, which)


def run_published(
    model: Scorer, data: People, method: str, seeds: np.ndarray, local: int
) -> tuple[ProfileTable, ProfileSpace]:
    """The finds of a method from given seeds in the whole domain."""
    space = ProfileSpace(data, allow_infeasible=True, as_published=True)
    oracle = Oracle(model, space)
    find_method(method)(oracle, seeds, np.random.default_rng(0), SearchConfig(method=method, local=local))
    return oracle.findings.reportable(), space


def flipping(model: Scorer, space: ProfileSpace) -> set[tuple[float, ...]]:
    """All profiles of the domain that discriminate, by asking about everybody."""
    labels = model.predict(space.rows(DOMAIN)).reshape(len(DOMAIN), -1)
    return {tuple(profile) for profile, row in zip(DOMAIN.tolist(), labels.tolist(), strict=True) if len(set(row)) > 1}


def published_network(dataset: str, column: int, file: str | None = None) -> tuple[AdditiveNetwork, People, np.ndarray]:
    """Load a published network, the people of its training data, and the published seeds."""
    domain = json.loads(shared("data", "testing", "domains.json").read_text())[dataset]
    names = domain["attributes"] or [f"x{i}" for i in range(len(domain["bounds"]))]
    attributes = [
        {"name": name, "kind": "integer", "lower": low, "upper": high, "protected": i == column}
        for i, (name, (low, high)) in enumerate(zip(names, domain["bounds"], strict=True))
    ]
    target = {"name": "label", "favourable": "1", "values": ["0", "1"]}
    schema = Schema.parse({"target": target, "attributes": attributes})
    with np.load(shared("data", "testing", "data", f"{dataset}.npz")) as arrays:
        rows, seeds = arrays["X_train"].astype(float), arrays["seeds_100"].astype(float)
    model = npz.read_npz(shared("data", "testing", file or f"models/{dataset}.npz"), schema)
    return model, People(schema, rows, None, np.arange(len(rows)), None), seeds
