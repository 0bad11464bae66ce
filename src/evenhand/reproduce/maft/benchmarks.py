"""The networks that MAFT was tried on, and the people they were trained with, as they come with the package."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

import numpy as np

from evenhand.individual import search
from evenhand.models import AdditiveNetwork, network_from_dense
from evenhand.reproduce.maft.network import DenseNetwork
from evenhand.schema import People, Schema
from evenhand.typing import Floats, Integers

DATASETS = {"B": "bank", "C": "adult", "G": "german", "D": "diabetes", "M": "meps15"}
"""First letter of a benchmark -> its data set."""

BENCHMARKS = ("B-a", "C-a", "C-r", "C-g", "G-a", "G-g", "D-a", "M-a", "M-r", "M-g")
"""Data set and protected attribute, in the paper's letters."""

ABSENT = ("H-a", "H-g", "S-a", "S-g")
"""Benchmarks of networks that were published in a binary format of Keras only, and are not bundled."""

JOINT = {"C-a&g": (0, 7), "C-a&r": (0, 6), "C-r&g": (6, 7), "G-a&g": (6, 9)}
"""Benchmarks of two protected attributes -> their positions."""

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
    space: search.ProfileSpace

    @property
    def with_people(self) -> bool:
        """Whether the people are known, so that profiles can be told plausible."""
        return isinstance(self.source, People)


@cache
def _read_arrays(file: str) -> dict[str, Any]:
    with (resources.files("evenhand.reproduce.maft") / "data" / file).open("rb") as stream, np.load(stream) as arrays:
        return dict(arrays)


@cache
def read_domains() -> dict[str, Any]:
    """Return names, ends and benchmarks of every data set."""
    found = resources.files("evenhand.reproduce.maft") / "data" / "domains.json"
    domains: dict[str, Any] = json.loads(found.read_text("utf-8"))
    return domains


def load_benchmark(name: str, *, retrained: str = "") -> FairnessBenchmark:
    """Return a benchmark by its name in the paper.

    Args:
        name: one of ``BENCHMARKS`` or ``JOINT``.
        retrained: the method with whose finds its network was trained again; empty: the original network.
    """
    dataset = DATASETS[name[0]]
    domain = read_domains()[dataset]
    protected = JOINT[name] if name in JOINT else tuple(domain["benchmarks"][name])
    attributes = [
        {"name": one, "kind": "integer", "lower": low, "upper": high, "protected": i in protected}
        for i, (one, (low, high)) in enumerate(zip(domain["attributes"], domain["bounds"], strict=True))
    ]
    target = {"name": "label", "values": ["0", "1"], "favourable": "1"}
    schema = Schema.parse({"target": target, "attributes": attributes})
    network = load_network(f"{dataset}_{retrained}_retrained" if retrained else dataset)
    doubles = [(weights.astype(np.float64), bias.astype(np.float64)) for weights, bias in network.layers]
    source: People | Schema = schema
    if f"{dataset}/people" in _read_arrays("people.npz"):
        rows = _read_arrays("people.npz")[f"{dataset}/people"].T.astype(np.float64)
        source = People(schema, np.ascontiguousarray(rows), None, np.arange(len(rows)), 0, None)
    return FairnessBenchmark(
        name,
        source,
        network_from_dense(schema, doubles, name=name),
        network,
        search.ProfileSpace(source, allow_infeasible=True),
    )


def load_network(name: str) -> DenseNetwork:
    """Return a network by the name of its file."""
    arrays = _read_arrays("networks.npz")
    count = sum(key.startswith(f"{name}/W") for key in arrays)
    return DenseNetwork(tuple((arrays[f"{name}/W{i}"], arrays[f"{name}/b{i}"]) for i in range(count)))


def load_tested(dataset: str) -> tuple[Floats, Integers] | None:
    """Return the people that a network was tested with, (n, attributes), and their labels (n,); None if not known."""
    found = _read_arrays("people.npz").get(f"{dataset}/tested")
    return None if found is None else (found[:-1].T.astype(np.float64), found[-1].astype(np.int64))
