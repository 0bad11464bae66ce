"""The paper's running example: a network of two hidden neurons that hires, section V-B and Figures 2 and 3."""

from __future__ import annotations

import itertools

import numpy as np

from evenhand.certification import certify
from evenhand.models import AdditiveNetwork, network_from_dense
from evenhand.schema import Schema
from evenhand.typing import Floats, Progress
from reproductions.comparison import PieceContext, Values

HIDDEN = np.array([[2.0, -0.2], [0.5, 0.7], [1.2, 0.4]])
OUTPUT = np.array([[0.2], [-1.0]])
"""Weights of interview score, gender and experience to h1 and h2, and of those to the output; there are no biases."""

BOUNDS = {"interview": (1, 5), "gender": (0, 1), "experience": (0, 5)}

INTERVALS = {
    "h1, gender 0": (2.0, 16.0),
    "h1, gender 1": (2.5, 16.5),
    "h2, gender 0": (-1.0, 1.8),
    "h2, gender 1": (-0.3, 2.5),
    "output, gender 0": (-0.2, 2.64),
    "output, gender 1": (-0.8, 2.368),
}
"""Published: before its activation, each node is between these."""

PARTITIONS = {
    "all": ((1, 5), 0.0),
    "interview 4 to 5": ((4, 5), 40.0),
    "interview 1 to 3": ((1, 3), 0.0),
    "interview 3": ((3, 3), 20.0),
    "interview 1 to 2": ((1, 2), 0.0),
}
"""Partition of the published tree -> its lowest and highest score, and the percentage of all 30 people that it
certifies as a whole; their experience is anything from 0 to 5."""


def example_network() -> AdditiveNetwork:
    """Return the network of Figure 2."""
    attributes = [
        {"name": name, "kind": "integer", "lower": lower, "upper": upper, "protected": name == "gender"}
        for name, (lower, upper) in BOUNDS.items()
    ]
    target = {"name": "label", "values": ["0", "1"], "favourable": "1"}
    schema = Schema.parse({"target": target, "attributes": attributes})
    return network_from_dense(schema, [(HIDDEN, np.zeros(2)), (OUTPUT, np.zeros(1))], name="example")


def symbolic_intervals(gender: int) -> dict[str, tuple[float, float]]:
    """Bound h1, h2 and the output over all people of a gender by symbolic intervals (Wang and others 2018).

    For a node z in [l, u] with l < 0 < u, relu(z) is between u z / (u - l) and u (z - l) / (u - l).
    """
    lower, upper = (np.array([*(bound[i] for bound in BOUNDS.values()), 1.0]) for i in (0, 1))
    lower[1] = upper[1] = gender

    def bound(function: Floats, *, up: bool) -> float:
        """Bound a function of three slopes and a constant."""
        ends = (upper, lower) if up else (lower, upper)
        return float(np.where(function > 0, function * ends[0], function * ends[1]).sum())

    found, least, most = {}, np.zeros(4), np.zeros(4)
    for node, weight in enumerate(OUTPUT[:, 0]):
        function = np.append(HIDDEN[:, node], 0.0)
        low, high = bound(function, up=False), bound(function, up=True)
        found[f"h{node + 1}, gender {gender}"] = (low, high)
        factor = 1.0 if low >= 0 else high / (high - low)
        below = factor * function
        above = below - np.array([0.0, 0.0, 0.0, factor * min(low, 0.0)])
        least += weight * (below if weight > 0 else above)
        most += weight * (above if weight > 0 else below)
    found[f"output, gender {gender}"] = (bound(least, up=False), bound(most, up=True))
    return found


def exact_ranges() -> dict[str, tuple[float, float]]:
    """Return the smallest and largest value of each node before its activation, over all people."""
    found: dict[str, tuple[float, float]] = {}
    for gender in (0, 1):
        people = np.array(
            [(interview, gender, years) for interview, years in itertools.product(range(1, 6), range(6))], dtype=float
        )
        hidden = people @ HIDDEN
        output = (np.maximum(hidden, 0) @ OUTPUT)[:, 0]
        for name, values in (("h1", hidden[:, 0]), ("h2", hidden[:, 1]), ("output", output)):
            found[f"{name}, gender {gender}"] = (float(values.min()), float(values.max()))
    return found


def run_example(context: PieceContext, progress: Progress) -> Values:
    """Bound every node, and certify each partition of the published tree as one box."""
    progress("the running example", 0.0)
    network = example_network()
    certified: Values = {}
    for name, ((lowest, highest), _) in PARTITIONS.items():
        where = (f"interview >= {lowest}", f"interview <= {highest}")
        certified[name] = {
            method: 20
            * (highest - lowest + 1)
            * certify(network, method=method, where=where, enumeration=False, max_boxes=1, samples=1, jobs=1).certified
            for method in ("interval", "linear")
        }
    whole = certify(network, jobs=1)
    return {
        "symbolic": {**symbolic_intervals(0), **symbolic_intervals(1)},
        "exact": exact_ranges(),
        "certified": certified,
        "whole": {"certified": 100 * whole.certified, "falsified": 100 * whole.falsified},
    }
