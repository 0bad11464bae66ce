"""The networks that MAFT was tried on, and the people they were trained with, as they are bundled."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.errors import DataError
from evenhand.individual.search.space import ProfileSpace
from evenhand.models import AdditiveNetwork
from evenhand.models.additive.network import network_from_dense
from evenhand.models.readers.keras_file import KerasLayer, read_keras_layers
from evenhand.schema import People, Schema
from reproductions.common import DATA

DATASETS = {
    "B": "bank",
    "C": "adult",
    "G": "german",
    "D": "diabetes",
    "M": "meps15",
    "H": "heart",
    "S": "students",
}
"""First letter of a benchmark -> its data set."""

BUNDLED = ("B-a", "C-a", "C-r", "C-g", "G-a", "G-g", "D-a", "M-a", "M-r", "M-g")
CHECKED_OUT = {"H-a": (0,), "H-g": (1,), "S-a": (2,), "S-g": (1,)}
"""Benchmarks that need a checkout of the authors' repository -> positions of what is protected."""

BENCHMARKS = (*BUNDLED, *CHECKED_OUT)
"""Data set and protected attribute, in the paper's letters."""

FILES = {"heart": "heart_disease", "students": "students"}
"""Data set -> its file in the checkout."""

REPOSITORY = "https://github.com/wangzh1998/MAFT"

JOINT = {"C-a&g": (0, 7), "C-a&r": (0, 6), "C-r&g": (6, 7), "G-a&g": (6, 9)}
"""Benchmarks of two protected attributes -> their positions."""

TARGET = {"name": "label", "values": ["0", "1"], "favourable": "1"}

RETRAINED = ("ADF", "EIDIG_5", "EIDIG_INF")
"""Methods whose finds the authors of EIDIG retrained networks with."""


@dataclass(frozen=True)
class FairnessBenchmark:
    """A network, and what is protected in it.

    Attributes:
        name: as in the paper, ``C-a``.
        source: the people it was trained with; the schema alone where they may not be passed on.
        model: the network, in double precision.
        network: the same, in single precision as it was published.
        space: all profiles inside the domain, whether people like that are in the data or not.
    """

    name: str
    source: People | Schema
    model: AdditiveNetwork
    network: DenseNetwork
    space: ProfileSpace

    @property
    def with_people(self) -> bool:
        """Whether the people are known, so that profiles can be told plausible."""
        return isinstance(self.source, People)


@cache
def _read_arrays(file: str) -> dict[str, Any]:
    with (DATA / "maft" / file).open("rb") as stream, np.load(stream) as arrays:
        return dict(arrays)


@cache
def read_domains() -> dict[str, Any]:
    """Return names, ends and benchmarks of every data set."""
    domains: dict[str, Any] = json.loads((DATA / "maft" / "domains.json").read_text("utf-8"))
    return domains


def load_benchmark(name: str, *, retrained: str = "", data_home: Path | None = None) -> FairnessBenchmark:
    """Return a benchmark by its name in the paper.

    Args:
        name: one of ``BENCHMARKS`` or ``JOINT``.
        retrained: the method with whose finds its network was trained again; empty: the original network.
        data_home: a checkout of the authors' repository, for what is not bundled.

    Raises:
        DataError: it is not bundled, and there is no such checkout.
    """
    dataset = DATASETS[name[0]]
    if dataset in FILES:
        return _read_benchmark(name, read_checkout(dataset, data_home))
    domain = read_domains()[dataset]
    protected = JOINT[name] if name in JOINT else tuple(domain["benchmarks"][name])
    attributes = [
        {"name": one, "kind": "integer", "lower": low, "upper": high, "protected": i in protected}
        for i, (one, (low, high)) in enumerate(zip(domain["attributes"], domain["bounds"], strict=True))
    ]
    schema = Schema.parse({"target": TARGET, "attributes": attributes})
    network = load_network(f"{dataset}_{retrained}_retrained" if retrained else dataset)
    found = _read_arrays("people.npz").get(f"{dataset}/people")
    return _assemble(name, schema, network, None if found is None else found.T)


def _assemble(name: str, schema: Schema, network: DenseNetwork, rows: NDArray[Any] | None) -> FairnessBenchmark:
    doubles = [(weights.astype(np.float64), bias.astype(np.float64)) for weights, bias in network.layers]
    source: People | Schema = schema
    if rows is not None:
        people = np.ascontiguousarray(rows, dtype=np.float64)
        source = People(schema, people, None, np.arange(len(people)), None)
    return FairnessBenchmark(
        name,
        source,
        network_from_dense(schema, doubles, name=name),
        network,
        ProfileSpace(source, allow_infeasible=True),
    )


@dataclass(frozen=True)
class CheckedOut:
    """A network and its people in a checkout of the authors' repository.

    Attributes:
        names: of the attributes.
        count: people in all.
        trained, tested: people (n, attributes) that it was trained and tested with, split as the authors' scripts do.
        labels: of those that it was tested with.
        bounds: least and largest value of every attribute among all of them, (attributes, 2).
        network: in single precision.
    """

    names: tuple[str, ...]
    count: int
    trained: Integers
    tested: Integers
    labels: Integers
    bounds: Integers
    network: DenseNetwork


def read_checkout(dataset: str, folder: Path | None) -> CheckedOut:
    """Read a network and its people from a checkout of the authors' repository.

    Args:
        dataset: ``heart`` or ``students``.
        folder: the checkout.

    Raises:
        DataError: a file is not there.
        MissingExtraError: h5py is not installed.
    """
    from sklearn.model_selection import train_test_split

    places = [Path("models", "original_models", f"{dataset}_model.h5"), Path("datasets", FILES[dataset])]
    checkout = Path() if folder is None else folder
    for place in places:
        if folder is None or not (folder / place).is_file():
            raise DataError(
                f"the network of {dataset} and its people are not bundled",
                location=str(checkout / place),
                hint=f"`data_home=`: a checkout of {REPOSITORY}",
            )
    with (checkout / places[1]).open(encoding="utf-8") as file:
        names = file.readline().strip().split(",")[:-1]
        rows = np.loadtxt(file, delimiter=",", dtype=np.int64, ndmin=2)
    people, labels = rows[:, :-1], rows[:, -1]
    # The authors' scripts keep 40 % of Heart Health for testing, and a fifth of Students, then a fifth to validate.
    first = 0.4 if dataset == "heart" else 0.2
    trained, tested, own, kept = train_test_split(people, labels, test_size=first, random_state=42)
    if dataset == "students":
        trained, _, own, _ = train_test_split(trained, own, test_size=0.2, random_state=42)
    layers = read_keras_layers(checkout / places[0])
    return CheckedOut(
        tuple(names),
        len(people),
        trained,
        tested,
        kept,
        np.stack([people.min(axis=0), people.max(axis=0)], axis=1),
        DenseNetwork(tuple((_single(one, "kernel"), _single(one, "bias")) for one in layers if one.weights)),
    )


def _single(layer: KerasLayer, key: str) -> NDArray[np.float32]:
    return np.asarray(layer.weights[key], dtype=np.float32)


def _read_benchmark(name: str, found: CheckedOut) -> FairnessBenchmark:
    attributes = [
        {"name": one, "kind": "integer", "lower": int(low), "upper": int(high), "protected": i in CHECKED_OUT[name]}
        for i, (one, (low, high)) in enumerate(zip(found.names, found.bounds, strict=True))
    ]
    schema = Schema.parse({"target": TARGET, "attributes": attributes})
    return _assemble(name, schema, found.network, found.trained)


def load_network(name: str) -> DenseNetwork:
    """Return a network by the name of its file."""
    arrays = _read_arrays("networks.npz")
    count = sum(key.startswith(f"{name}/W") for key in arrays)
    return DenseNetwork(tuple((arrays[f"{name}/W{i}"], arrays[f"{name}/b{i}"]) for i in range(count)))


def load_tested(dataset: str) -> tuple[Floats, Integers] | None:
    """Return the people that a network was tested with, (n, attributes), and their labels (n,); None if not known."""
    found = _read_arrays("people.npz").get(f"{dataset}/tested")
    return None if found is None else (found[:-1].T.astype(np.float64), found[-1].astype(np.int64))


# A network in single precision, as MAFT's program asked it, and the gradients that the paper compares.


Singles: TypeAlias = NDArray[np.float32]

ENTRIES = 4_000_000
"""Entries of hidden layers that are held at a time."""


@dataclass(frozen=True)
class DenseNetwork:
    """Affine layers with ReLU between them and a sigmoid at the end.

    Attributes:
        layers: weights (inputs, units) and bias (units,) of each, in single precision.
    """

    layers: tuple[tuple[Singles, Singles], ...]

    def probability(self, rows: Floats) -> Singles:
        """Return the favourable label's probability in single precision, of rows (n, inputs): shape (n,)."""
        weights, bias = self.layers[0]
        return self._finish(rows.astype(np.float32) @ weights + bias)

    def decides(self, rows: Floats) -> Booleans:
        """Return who is decided favourably, of rows (n, inputs): shape (n,)."""
        return np.asarray(self.probability(rows) > np.float32(0.5))

    def gradient(self, rows: Floats, *, loss: bool = False) -> Floats:
        """Return the derivatives of the predicted label's probability by the inputs, (n, inputs), by backpropagation.

        Args:
            rows: shape (n, inputs).
            loss: of its cross-entropy instead, with the opposite sign: the direction that ADF moves against.
        """
        values, passed = rows.astype(np.float64), []
        for i, (weights, bias) in enumerate(self.layers):
            values = (np.maximum(values, 0.0) if i else values) @ weights.astype(np.float64) + bias
            passed.append(values > 0)
        probability = 1 / (1 + np.exp(-np.clip(values, -700, 700)))
        sign = np.where(probability > 0.5, 1.0, -1.0)
        # Of the cross-entropy of the predicted label: minus the slope of its probability, divided by it.
        slope = sign * (np.minimum(probability, 1 - probability) if loss else probability * (1 - probability))
        for i in range(len(self.layers) - 1, -1, -1):
            slope = slope @ self.layers[i][0].astype(np.float64).T
            slope = slope * passed[i - 1] if i else slope
        return np.asarray(slope)

    def estimate(self, rows: Floats, h: float) -> Floats:
        """Return forward differences of the predicted label's probability, (n, inputs): algorithm 2 of the paper.

        In single precision, and beyond the end of the domain, as the program takes them.

        Args:
            rows: shape (n, inputs).
            h: how far apart the two questions are.
        """
        weights, bias = self.layers[0]
        each = max(1, ENTRIES // weights.size)
        found = [np.empty((0, rows.shape[1]))]
        for first in range(0, len(rows), each):
            here = rows[first : first + each].astype(np.float32)
            # What single precision makes of the step: nothing, where it is too small beside the entry.
            steps = (rows[first : first + each] + h).astype(np.float32) - here
            before = here @ weights + bias
            after = before[:, None, :] + steps[:, :, None] * weights
            rise = self._finish(after.reshape(-1, len(bias))).reshape(here.shape) - self._finish(before)[:, None]
            found.append(self._signs(before) * (rise / np.float32(h)).astype(np.float64))
        return np.concatenate(found)

    def estimate_one_by_one(self, rows: Floats, h: float) -> Floats:
        """Return what ``estimate`` does, with a call to the network for each input and person: algorithm 1."""
        found = np.empty(rows.shape)
        for n, row in enumerate(rows):
            before = self.probability(row[None])[0]
            for i in range(len(row)):
                moved = row.copy()
                moved[i] += h
                found[n, i] = (self.probability(moved[None])[0] - before) / np.float32(h)
            found[n] *= 1.0 if before > 0.5 else -1.0
        return found

    def _signs(self, hidden: Singles) -> Floats:
        return np.where(self._finish(hidden) > np.float32(0.5), 1.0, -1.0)[:, None]

    def _finish(self, hidden: Singles) -> Singles:
        """Return probabilities from the first layer's sums (n, units), shape (n,)."""
        values = hidden
        for weights, bias in self.layers[1:]:
            values = np.maximum(values, np.float32(0)) @ weights + bias
        return np.asarray(1 / (1 + np.exp(-np.clip(values[:, 0], -80, 80))), dtype=np.float32)
