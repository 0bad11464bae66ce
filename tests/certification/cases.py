"""Random and real networks to certify, and the answers by asking about everybody."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numba
import numpy as np

from evenhand import certification
from evenhand.certification import Certificate
from evenhand.certification.query.question import Query
from evenhand.models import AdditiveNetwork, TreeEnsemble
from evenhand.models.additive.network import (
    AffineLayer,
    AttributeTerm,
    LineTerm,
    StepTerm,
    TableTerm,
    network_from_dense,
)
from evenhand.population import ProductPopulation
from evenhand.population.independent import Marginal
from evenhand.schema import Attribute, Schema
from support import shared


def prove(network: AdditiveNetwork, **options: Any) -> Certificate:
    """A certificate by symbolic intervals in one thread, unless the options say otherwise."""
    return certification.certify(network, **({"method": "interval", "jobs": 1} | options))


def margins_at(query: Query, cells: np.ndarray, within: np.ndarray, kind: type) -> np.ndarray:
    """The network's own answers, shape (margins, assignments, points); ``within`` places numbers in their cells."""
    first = np.zeros((len(cells), query.biases.shape[1]), dtype=kind)
    for i, each in enumerate(query.cells):
        if each.scale is None:
            first += each.rows[cells[:, i]].astype(kind)
        else:
            low, high = each.scale.low(cells[:, i]), each.scale.high(cells[:, i])
            first += (low + within[:, i] * (high - low)).astype(kind)[:, None] * each.rows[0].astype(kind)
    answers = []
    for bias in query.biases:
        units = first + bias.astype(kind)
        for layer in query.layers:
            units = np.maximum(units, kind(0)) @ layer.weights.astype(kind) + layer.bias.astype(kind)
        answers.append(units)
    return np.stack(answers, axis=1).transpose(2, 1, 0).astype(np.float64)


def boxes_in(query: Query, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """First and last cells of random boxes, each of shape (n, attributes)."""
    ends = np.sort(rng.integers(0, query.counts, size=(2, n, len(query.counts))), axis=0)
    return ends[0], ends[1]


def callable_kernel(kernel: Any) -> Any:
    """A kernel that takes its arguments from kernels alone, made to take them from a test."""

    @numba.njit
    def call(*arguments):
        return kernel(*arguments)

    return call


def integer(name: str, lower: int, upper: int, **more: Any) -> dict[str, Any]:
    return {"name": name, "kind": "integer", "lower": lower, "upper": upper, **more}


def schema_of(attributes: list[dict[str, Any]], classes: int = 2) -> Schema:
    labels = [f"label {i}" for i in range(classes)]
    return Schema.parse(
        {"target": {"name": "decision", "favourable": labels[1], "values": labels}, "attributes": attributes}
    )


@dataclass(frozen=True)
class Case:
    network: AdditiveNetwork
    population: ProductPopulation | None


def random_case(seed: int, *, real: bool = False, whole: bool | None = None, free: int = 4, widest: int = 6) -> Case:
    """A small network over mixed attributes: 0 to 3 hidden layers, 2 to 4 protected values, 2 to 4 labels.

    Unless ``whole`` says so, half of them have small whole numbers for weights: ties and zeros are then common, and
    float64 is exact.
    """
    rng = np.random.default_rng(seed)
    whole = bool(rng.integers(2)) if whole is None else whole

    def weights(*shape: int) -> np.ndarray:
        if whole:
            return rng.integers(-2, 3, size=shape).astype(np.float64)
        return rng.normal(size=shape)

    classes = int(rng.choice([2, 2, 2, 3, 4]))
    outputs = classes if classes > 2 else int(rng.choice([1, 1, 2]))
    hidden = [int(rng.integers(1, 6)) for _ in range(rng.integers(0, 4))]
    sizes = [*hidden, outputs]
    attributes, parts = [], []
    kinds = ["code", "one-hot", "ordinal", "integer", "integer", "steps"] + (["real", "real steps"] if real else [])
    protected = int(rng.choice([1, 1, 2]))
    for i in range(int(rng.integers(1, free)) + protected):
        kind = str(rng.choice(kinds[:4])) if i < protected else str(rng.choice(kinds))
        count = int(rng.integers(2, 5 if i < protected else widest + 1))
        described, part = _attribute(f"a{i}", kind, count, weights, sizes[0], rng, whole)
        described["protected"] = i < protected
        attributes.append(described)
        parts.append(part)
    order = rng.permutation(len(attributes))
    schema = schema_of([attributes[i] for i in order], classes)
    network = AdditiveNetwork(
        schema=schema,
        parts=tuple(parts[i] for i in order),
        bias=weights(sizes[0]),
        layers=tuple(AffineLayer(weights(a, b), weights(b)) for a, b in itertools.pairwise(sizes)),
        classes=schema.target.values or (),
        favourable=1,
    )
    population = None
    if rng.integers(2):
        population = ProductPopulation("some people", schema, tuple(_marginal(a, rng) for a in schema.attributes))
    return Case(network, population)


def _attribute(
    name: str, kind: str, count: int, weights: Any, units: int, rng: np.random.Generator, whole: bool
) -> tuple[dict[str, Any], AttributeTerm]:
    values = [f"v{i}" for i in range(count)]
    if kind == "code":
        rows = np.arange(count, dtype=np.float64)[:, None] * weights(units)
        return {"name": name, "kind": "categorical", "values": values}, TableTerm(rows, 0.0)
    if kind in ("one-hot", "ordinal"):
        described = {"name": name, "kind": "categorical" if kind == "one-hot" else "ordinal", "values": values}
        return described, TableTerm(weights(count, units), 0.0)
    lower = int(rng.integers(-3, 4))
    if kind.startswith("real"):
        described = {"name": name, "kind": "real", "lower": float(lower), "upper": lower + float(rng.integers(1, 4))}
        if kind == "real":
            return described, LineTerm(weights(units), weights(units))
        cuts = np.sort(rng.uniform(lower - 0.5, described["upper"] + 0.5, size=3))
        return described, StepTerm(cuts, weights(4, units))
    described = {"name": name, "kind": "integer", "lower": lower, "upper": lower + count - 1}
    if kind == "steps":
        cuts = np.unique(rng.integers(2 * lower - 2, 2 * (lower + count), size=3)) / 2
        return described, StepTerm(cuts, weights(len(cuts) + 1, units))
    if whole:
        return described, LineTerm(weights(units), weights(units))
    # Scaled as by a StandardScaler: (x - mean) / deviation times a weight.
    mean, deviation, weight = rng.normal(), rng.uniform(0.5, 3), weights(units)
    return described, LineTerm(weight / deviation, -mean / deviation * weight)


def _marginal(attribute: Attribute, rng: np.random.Generator) -> Marginal:
    counts = rng.integers(0, 4, size=attribute.size or 8).astype(np.float64)
    counts[rng.integers(len(counts))] += 1
    return Marginal(attribute, counts / counts.sum())


def everybody(
    model: AdditiveNetwork | TreeEnsemble,
    population: ProductPopulation | None = None,
    answer: Callable[[np.ndarray], np.ndarray] | None = None,
    allowed: Mapping[str, Callable[[float], bool]] | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Ask about everybody: people without the protected attributes, exact masses, answers (assignments, people).

    Args:
        answer: What is asked of rows of the schema. Default: their labels.
        allowed: Conditions on the entries of attributes.
    """
    schema = model.schema
    free = [i for i, attribute in enumerate(schema.attributes) if not attribute.protected]
    varied = schema.positions(schema.protected)
    domains, masses = [], []
    for i, attribute in enumerate(schema.attributes):
        entries = attribute.domain()
        own = np.ones(len(entries)) if population is None else population.marginals[i].masses
        kept = [(allowed or {}).get(attribute.name, lambda entry: True)(entry) for entry in entries]
        domains.append(entries[kept])
        masses.append([Fraction(float(mass)) for mass in own[kept]])
    people = np.array(list(itertools.product(*(domains[i] for i in free)))).reshape(-1, len(free))
    mass = np.array([math.prod(each) for each in itertools.product(*(masses[i] for i in free))], dtype=object)
    answers = []
    for assignment in itertools.product(*(domains[i] for i in varied)):
        rows = np.empty((len(people), len(schema.attributes)))
        rows[:, free], rows[:, varied] = people, assignment
        answers.append((answer or model.predict)(rows))
    return people, mass / (mass.sum() or 1), np.array(answers)


def true_shares(case: Case) -> tuple[Fraction, Fraction]:
    """Exact (fair, unfair) mass, by asking about everybody and adding fractions."""
    _, mass, labels = everybody(case.network, case.population)
    fair = Fraction(mass[(labels == labels[0]).all(axis=0)].sum())
    return fair, 1 - fair


def worked_example() -> AdditiveNetwork:
    """The hiring network of FairQuant's Fig. 2: x1 in 1..5, x2 protected, x3 in 0..5."""
    schema = schema_of([integer("x1", 1, 5), integer("x2", 0, 1, protected=True), integer("x3", 0, 5)])
    first = np.array([[2.0, -0.2], [0.5, 0.7], [1.2, 0.4]])
    return network_from_dense(schema, [(first, np.zeros(2)), (np.array([[0.2], [-1.0]]), np.zeros(1))], name="hiring")


def real_network(name: str, protected: str, domain: str | None = None) -> AdditiveNetwork:
    """A published network over its published domain; skips the test where the files are absent."""
    domains = json.loads(shared("data", "certify", "domains.json").read_text())
    named = domains[
        domain or next(key for key in ("adult", "german", "bank", "compas") if name in domains[key]["networks"])
    ]
    kept = [
        integer(it["name"], it["lower"], it["upper"], protected=it["name"] == protected) for it in named["attributes"]
    ]
    schema = schema_of(kept)
    with np.load(shared("data", "certify", f"{name}.npz")) as arrays:
        layers = [(arrays[f"W{i}"], arrays[f"b{i}"]) for i in range(len(arrays.files) // 2)]
    return network_from_dense(schema, layers, name=name)


def expected(name: str) -> dict[str, Any]:
    """What is known about a published network."""
    return json.loads(shared("data", "certify", "expected.json").read_text())["networks"][name]
