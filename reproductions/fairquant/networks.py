"""The paper's networks and their domains: most are bundled, the others are looked for in the data folder."""

from __future__ import annotations

import zipfile
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from evenhand.datasets import data_home
from evenhand.errors import DataError
from evenhand.models import AdditiveNetwork, network_from_dense
from evenhand.schema import Schema
from evenhand.typing import Floats
from reproductions.fairquant.published import INPUTS

BUNDLED = Path(__file__).with_name("data") / "networks.npz"
ARTIFACT = "https://github.com/briankim113/FairQuant-Artifact"

Layers = list[tuple[Floats, Floats]]


class NetworkDomain(NamedTuple):
    """Inputs of a network, whole numbers.

    Attributes:
        bounds: lowest and highest value of each input, by name.
        protected: the input that is varied.
    """

    bounds: dict[str, tuple[int, int]]
    protected: str


def _domain(text: str, protected: str) -> NetworkDomain:
    parts = [part.split() for part in text.split(",")]
    return NetworkDomain({name: (int(lower), int(upper)) for name, lower, upper in parts}, protected)


DOMAINS = {
    "AC": _domain(
        "age 10 100, workclass 0 6, education 0 15, education-num 1 16, marital-status 0 6, occupation 0 13, "
        "relationship 0 5, race 0 4, sex 0 1, capital-gain 0 19, capital-loss 0 19, hours-per-week 1 100, "
        "native-country 0 40",
        "sex",
    ),
    "GC": _domain(
        "status 0 2, month 0 80, credit_history 0 2, purpose 0 9, credit_amount 0 20000, savings 0 2, employment 0 2, "
        "investment_as_income_percentage 1 4, other_debtors 0 2, residence_since 1 4, property 0 2, age 0 1, "
        "installment_plans 0 2, housing 0 2, number_of_credits 1 4, skill_level 0 3, people_liable_for 1 2, "
        "telephone 0 1, foreign_worker 0 1, sex 0 1",
        "age",
    ),
    "BM": _domain(
        "age 0 1, job 0 10, marital 0 2, education 0 6, default 0 1, housing 0 1, loan 0 1, contact 0 1, month 0 11, "
        "day_of_week 0 6, duration 0 5000, emp.var.rate -3 1, campaign 1 50, pdays 0 999, previous 0 7, poutcome 0 2",
        "age",
    ),
    "compas": _domain(
        "Two_yr_Recidivism 0 1, Number_of_Priors 0 38, Age 0 1, Race 0 1, Female 0 1, Misdemeanor 0 1", "Race"
    ),
}
"""Data set, by the beginning of a network's name -> its domain."""

BANK_AS_PUBLISHED = (
    (0, 10), (0, 2), (0, 6), (0, 1), (0, 1), (0, 1), (0, 1), (0, 11), (0, 6), (-3, 1), (0, 5000), (1, 50), (0, 999),
    (0, 7), (0, 2), (0, 1),
)  # fmt: skip
"""The bounds that the published Bank runs used: those of the columns in another order (job first, age last) than the
network's inputs, so that its age, 0 or 1, is compared at 0 and 10."""


def family_of(name: str) -> str:
    """Return the data set of a network, as its name begins: ``AC`` of ``AC-1``."""
    return name.split("-")[0]


def load_network(name: str, home: Path | None, *, faulty_bank: bool = False) -> AdditiveNetwork:
    """Return a network on its domain; the favourable label is where its value is above 0.

    Args:
        name: of the network.
        home: the folder of data that are not bundled; None: the usual one.
        faulty_bank: of a Bank network, take the bounds that the published runs used.

    Raises:
        DataError: the network is not here, or its file is not such a network.
    """
    family = family_of(name)
    domain = DOMAINS[family]
    layers = _read_layers(name, home)
    bounds = dict(domain.bounds)
    if faulty_bank:
        bounds = dict(zip(bounds, BANK_AS_PUBLISHED, strict=True))
        # Only the ends of the protected input's bounds are compared: they become 0 and 1.
        first = layers[0][0].copy()
        first[0] *= bounds["age"][1]
        layers[0], bounds["age"] = (first, layers[0][1]), (0, 1)
    attributes = [
        {"name": one, "kind": "integer", "lower": lower, "upper": upper, "protected": one == domain.protected}
        for one, (lower, upper) in bounds.items()
    ]
    target = {"name": "label", "values": ["0", "1"], "favourable": "1"}
    return network_from_dense(Schema.parse({"target": target, "attributes": attributes}), layers, name=name)


def _read_layers(name: str, home: Path | None) -> Layers:
    bundled = _read_bundled()
    if name in bundled:
        return list(bundled[name])
    folder = data_home(home)
    path = next((one for one in (folder / f"{name}.npz", folder / "fairquant" / f"{name}.npz") if one.is_file()), None)
    if path is None:
        raise DataError(
            "the network is neither bundled nor in the data folder",
            hint=f"{ARTIFACT} has it in models: save its arrays W0, b0, W1, b1, ... as NAME.npz in that folder",
        )
    try:
        with np.load(path) as arrays:
            layers = _layers_of(dict(arrays.items()))
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
        raise DataError(f"expected a network in arrays W0, b0, W1, b1, ...: {error}", location=str(path)) from None
    if not layers or layers[0][0].shape[:1] != (INPUTS[family_of(name)],) or layers[-1][0].shape[1:] != (1,):
        raise DataError(
            f"expected a network of {INPUTS[family_of(name)]} inputs and one output, weights by (inputs, outputs)",
            location=str(path),
        )
    return layers


@cache
def _read_bundled() -> dict[str, Layers]:
    found: dict[str, dict[str, Floats]] = {}
    with np.load(BUNDLED) as arrays:
        for key in arrays.files:
            name, part = key.split(".")
            found.setdefault(name, {})[part] = arrays[key]
    return {name: _layers_of(parts) for name, parts in found.items()}


def _layers_of(arrays: dict[str, Floats]) -> Layers:
    """Return weights and biases, layer by layer, in double precision."""
    return [(arrays[f"W{i}"].astype(np.float64), arrays[f"b{i}"].astype(np.float64)) for i in range(len(arrays) // 2)]
