"""The second table of ``mitigation.py``: decisions of the published census network that flip, before and after."""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from rich.table import Table

from evenhand import certification, mitigation
from evenhand.individual.search.analysis import search
from evenhand.mitigation.candidate import MitigationTask, accuracy
from evenhand.mitigation.methods.registry import load_methods
from evenhand.mitigation.metrics import FlipMetric
from evenhand.mitigation.split import split_people
from evenhand.mitigation.study import find_learner
from evenhand.models import AdditiveNetwork, network_from_dense
from evenhand.population import uniform_population
from evenhand.schema import People, Schema, encode

METHODS = ("logit-pairing", "blind", "retrain")
PROTECTED = ("age", "race", "sex")
DRAWN = 20_000
"""People drawn uniformly for a rate."""
BUDGET = 20_000
"""Individuals that each search may ask about."""
SEARCHES = ("maft", "frontier")
BOXES = 2000
"""Boxes of each certificate."""

Row = dict[str, Any]


def flips(folder: Path, seeds: int) -> Iterator[Row]:
    """The census network, the published retrained ones, and what each method makes of it by its defaults."""
    described = json.loads((folder / "models.json").read_text("utf-8"))
    domain = json.loads((folder / "domains.json").read_text("utf-8"))["adult"]
    with np.load(folder / "data" / "adult.npz") as arrays:
        parts = {part: (arrays[f"X_{part}"], arrays[f"y_{part}"].ravel()) for part in ("train", "val", "test")}
    bounds = zip(domain["attributes"], domain["bounds"], strict=True)
    attributes = [
        {"name": name, "kind": "integer", "lower": low, "upper": high, "protected": name in PROTECTED}
        for name, (low, high) in bounds
    ]
    target = {"name": "label", "values": ["0", "1"], "favourable": "1"}
    schema = Schema.parse({"target": target, "attributes": attributes})
    known = labelled(schema, *(np.concatenate(both) for both in zip(parts["train"], parts["val"], strict=True)))
    test = labelled(schema, *parts["test"])
    given = published(folder / described["adult"]["file"], schema, "adult")
    for name in ("adult", *(name for name in described if name.startswith("adult_"))):
        yield measured(name, published(folder / described[name]["file"], schema, name), known, test, 0)
    for name, method in load_methods(METHODS).items():
        for seed in range(seeds):
            started = time.process_time()
            # Not by mitigate.run, which also compares what is not needed here.
            found = search(given, known, protected=PROTECTED, budget=BUDGET, samples=0, seed=seed)
            candidate = method(
                MitigationTask(
                    given=given,
                    learner=find_learner(given),
                    split=split_people(known, seed=seed, test=test),
                    findings=mitigation.Findings.read([found], schema),
                    harms=(FlipMetric(PROTECTED),),
                    config=mitigation.MitigationConfig(methods=METHODS, seed=seed),
                    progress=lambda what, share: None,
                )
            )
            seconds = time.process_time() - started
            assert isinstance(candidate.scorer, AdditiveNetwork), "a network remains one"
            yield measured(name, candidate.scorer, known, test, seed) | {"words": candidate.words, "seconds": seconds}


def published(path: Path, schema: Schema, name: str) -> AdditiveNetwork:
    """Read a published network over whole numbers, label 1 where its logit is positive."""
    with np.load(path) as arrays:
        layers = [(arrays[f"W{i}"], arrays[f"b{i}"]) for i in range(len(arrays.files) // 2)]
    return network_from_dense(schema, layers, name=name)


def columns_of(title: str, words: Sequence[str], numbers: Sequence[str]) -> Table:
    """Build an empty table, with columns of words and of numbers."""
    shown = Table(title=title)
    for heading in words:
        shown.add_column(heading, no_wrap=True)
    for heading in numbers:
        shown.add_column(heading, justify="right", no_wrap=True)
    return shown


def labelled(schema: Schema, individuals: NDArray[Any], labels: NDArray[Any]) -> People:
    """People with labels, also as a frame."""
    frame = pd.DataFrame(individuals.astype(int), columns=list(schema.names))
    return encode(schema, frame.assign(**{schema.target.name: labels.astype(int).astype(str)}))


def measured(name: str, model: AdditiveNetwork, known: People, test: People, seed: int) -> Row:
    """How often it is right, how often its decisions flip, what searches find and what can be proved."""
    drawn = uniform_population(test.schema).sample(DRAWN, np.random.default_rng(0))
    everybody = People(test.schema, drawn, None, np.arange(DRAWN), None)
    row: Row = {"network": name, "seed": seed, "accuracy": accuracy(model, test)}
    for where, people in (("uniform", everybody), ("data", known), ("test", test)):
        for kind in (PROTECTED, *((each,) for each in PROTECTED)):
            row[f"{where}, {' x '.join(kind)}"] = FlipMetric(kind).size(model, people)
    for method in SEARCHES:
        # Every profile that it reports was asked about again.
        row[method] = search(
            model, test, protected=PROTECTED, method=method, budget=BUDGET, samples=0, most_examples=0, seed=seed
        ).profiles
    row["certified"] = certification.certify(
        model, protected=PROTECTED, max_boxes=BOXES, samples=1, counterexamples=0, seed=seed
    ).certified
    print(f"{name}, seed {seed}: {row}", file=sys.stderr, flush=True)
    return row


def flips_tables(rows: list[Row]) -> Iterator[Table]:
    """Networks: means over seeds, the worst in brackets; with everything that is protected, and each alone."""
    joint = " x ".join(PROTECTED)
    given = rows[0]
    columns = (
        "Accuracy",
        "Uniform",
        "Data",
        "Test",
        "Times fewer: uniform",
        "test",
        "MAFT finds",
        "frontier finds",
        "Certified",
    )
    shown = columns_of(f"The census network: decisions that flip with {joint}", ("Network",), columns)
    alone = [key for key in given if key.startswith(("uniform, ", "test, ")) and joint not in key]
    each = columns_of("The same, each alone", ("Network",), alone)
    for name in dict.fromkeys(row["network"] for row in rows):
        mine = [row for row in rows if row["network"] == name]
        rates = {key: spread([row[key] for row in mine], max, "{:.2%}") for key in given if ", " in key}
        fewer = (
            spread([given[key] / row[key] if row[key] else float("inf") for row in mine], min, "{:,.1f}")
            for key in (f"uniform, {joint}", f"test, {joint}")
        )
        shown.add_row(
            name,
            spread([row["accuracy"] for row in mine], min, "{:.2%}"),
            *(rates[f"{where}, {joint}"] for where in ("uniform", "data", "test")),
            *fewer,
            *(spread([row[method] for row in mine], max, "{:,.0f}") for method in SEARCHES),
            spread([row["certified"] for row in mine], min, "{:.1%}"),
        )
        each.add_row(name, *(rates[key] for key in alone))
    yield shown
    yield each


def spread(values: list[float], worst: Any, shown: str) -> str:
    """Their mean, and the worst of several."""
    mean = shown.format(statistics.fmean(values))
    return mean if len(values) == 1 else f"{mean} ({shown.format(worst(values))})"
