"""Make the instances of the benchmark: train small networks, and ask each about everybody where that can be done.

    python benchmarks/fairness_share/make.py

Margins are computed in float64; people within ``CLOSE`` of the boundary are decided again in exact fractions.
"""

from __future__ import annotations

import json
import warnings
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier

from evenhand import datasets

INSTANCES = Path(__file__).parent / "instances"
CLOSE = 1e-9
BATCH = 1 << 18
SAMPLED = 400_000


class Wanted(NamedTuple):
    """An instance to be: a data set, its attributes (with the step of whole numbers), what is protected, and units."""

    name: str
    data: str
    attributes: dict[str, int]
    protected: str
    hidden: tuple[int, ...]


LOAN = {"duration": 1, "age": 1, "installment_rate": 1}
WORK = {"age": 1, "education_num": 1, "hours_per_week": 1}
LIFE = WORK | {"workclass": 1, "marital_status": 1, "occupation": 1, "relationship": 1, "race": 1}
WANTED = (
    Wanted("german-sex-16", "german", LOAN, "sex", (16,)),
    Wanted("german-sex-32x32", "german", LOAN | {"existing_credits": 1}, "sex", (32, 32)),
    Wanted("german-sex-64", "german", LOAN | {"credit_amount": 250}, "sex", (64,)),
    Wanted("adult-sex-32", "adult", WORK, "sex", (32,)),
    Wanted("adult-race-32", "adult", WORK, "race", (32,)),
    Wanted("adult-sex-24x24", "adult", WORK | {"marital_status": 1}, "sex", (24, 24)),
    Wanted("adult-sex-64-wide", "adult", LIFE, "sex", (64,)),
    Wanted("adult-sex-32x32-wide", "adult", LIFE, "sex", (32, 32)),
)


def main() -> None:
    """Write one file for each instance."""
    INSTANCES.mkdir(exist_ok=True)
    for wanted in WANTED:
        made = make_instance(wanted)
        (INSTANCES / f"{wanted.name}.json").write_text(json.dumps(made, indent=None, separators=(",", ":")) + "\n")
        print(wanted.name, made["people"], made["answer"], flush=True)


def make_instance(wanted: Wanted) -> dict[str, Any]:
    """Return an instance: attributes, network, and the answer."""
    data = datasets.load_dataset(wanted.data)
    described = {attribute.name: attribute for attribute in data.schema.attributes}
    attributes = []
    for name, step in {**wanted.attributes, wanted.protected: 1}.items():
        attribute = described[name]
        if attribute.kind == "integer":
            low = int(attribute.lower) // step * step
            attributes.append(
                {"name": name, "from": low, "step": step, "count": (int(attribute.upper) - low) // step + 1}
            )
        else:
            attributes.append({"name": name, "values": [str(value) for value in attribute.values]})
    inputs = encode(data.frame, attributes)
    favourable = (data.frame[data.schema.target.name] == data.schema.target.favourable).to_numpy()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        trained = MLPClassifier(wanted.hidden, max_iter=30 if wanted.name.endswith("wide") else 60, random_state=0).fit(
            inputs, favourable
        )
    layers = [
        {"weights": weights.astype(np.float32).tolist(), "bias": bias.astype(np.float32).tolist()}
        for weights, bias in zip(trained.coefs_, trained.intercepts_, strict=True)
    ]
    counts = [size(attribute) for attribute in attributes]
    people = int(np.prod(counts[:-1]))
    made = {"attributes": attributes, "protected": wanted.protected, "layers": layers, "people": people}
    return made | {"answer": answer(made)}


def size(attribute: dict[str, Any]) -> int:
    """Return how many values an attribute has."""
    return attribute["count"] if "count" in attribute else len(attribute["values"])


def encode(frame: pd.DataFrame, attributes: list[dict[str, Any]]) -> np.ndarray:
    """Return the inputs of the people of a data set."""
    places = []
    for attribute in attributes:
        column = frame[attribute["name"]]
        if "count" in attribute:
            places.append(((column - attribute["from"]) // attribute["step"]).to_numpy())
        else:
            places.append(column.astype(str).map(attribute["values"].index).to_numpy())
    return inputs_of(np.stack(places, axis=1), attributes)


def inputs_of(places: np.ndarray, attributes: list[dict[str, Any]]) -> np.ndarray:
    """Return the inputs of people, given the number of the value of each attribute: numbers from 0 to 1, or one-hot."""
    columns = []
    for place, attribute in zip(places.T, attributes, strict=True):
        if "count" in attribute:
            columns.append((place / (attribute["count"] - 1))[:, None])
        else:
            columns.append(np.eye(len(attribute["values"]))[place])
    return np.concatenate(columns, axis=1)


def margins(inputs: np.ndarray, layers: list[dict[str, Any]]) -> np.ndarray:
    """Return the output of the network, shape (people,); above 0 is the favourable decision."""
    for number, layer in enumerate(layers):
        inputs = (np.maximum(inputs, 0.0) if number else inputs) @ np.array(layer["weights"]) + np.array(layer["bias"])
    return inputs[:, 0]


def exact_margin(places: np.ndarray, made: dict[str, Any]) -> Fraction:
    """Return the output of the network about one person in exact fractions."""
    units: list[Fraction] = []
    for place, attribute in zip(places.tolist(), made["attributes"], strict=True):
        if "count" in attribute:
            units.append(Fraction(place, attribute["count"] - 1))
        else:
            units.extend(Fraction(int(place == value)) for value in range(len(attribute["values"])))
    for number, layer in enumerate(made["layers"]):
        taken = [max(unit, Fraction(0)) for unit in units] if number else units
        columns = zip(*layer["weights"], strict=True)
        units = [
            sum((unit * Fraction(weight) for unit, weight in zip(taken, column, strict=True)), Fraction(bias))
            for column, bias in zip(columns, layer["bias"], strict=True)
        ]
    return units[0]


def answer(made: dict[str, Any]) -> dict[str, Any]:
    """Return how many people are treated fairly, exactly; of too many people a sample."""
    counts = [size(attribute) for attribute in made["attributes"]]
    people, exact = made["people"], made["people"] <= 3_000_000
    rng = np.random.default_rng(0)
    fair = 0
    for begin in range(0, people if exact else SAMPLED, BATCH):
        if exact:
            numbers = np.arange(begin, min(begin + BATCH, people))
        else:
            numbers = rng.integers(0, people, size=min(BATCH, SAMPLED - begin))
        places = np.stack(np.unravel_index(numbers, counts[:-1]), axis=1)
        decided = []
        for value in range(counts[-1]):
            who = np.column_stack([places, np.full(len(places), value)])
            found = margins(inputs_of(who, made["attributes"]), made["layers"])
            above = found > 0
            for close in np.flatnonzero(np.abs(found) < CLOSE):
                above[close] = exact_margin(who[close], made) > 0
            decided.append(above)
        fair += int(sum(np.all([one == decided[0] for one in decided], axis=0)))
    if exact:
        return {"fair": fair, "unfair": people - fair}
    return {"sampled": SAMPLED, "fair_in_sample": fair}


if __name__ == "__main__":
    main()
