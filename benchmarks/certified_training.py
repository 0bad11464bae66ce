"""What certified training does to what can be certified: against plain training, logit pairing, and not looking at all.

    python benchmarks/certified_training.py              adult and german, 3 seeds: some minutes
    python benchmarks/certified_training.py --quick      1 seed and fewer strengths: a minute
    python benchmarks/certified_training.py german       one of them only

The same network (two hidden layers of 32), the same people, steps, boxes and seeds for all. Tables per data set: for
each method and strength the accuracy and the flip rate (decisions that flip with a protected attribute, or with
both) on people kept aside; how far a person's logits lie apart between protected assignments; and what a certificate
proves about everybody in the domain, uniformly, and about independent attributes as in the data: certified, falsified
and undecided shares. Means over the seeds. ``chosen`` is the strength that ``evenhand mitigate`` would take, seed by
seed, on the validation part: within a point of plain training, the least flip rate, then the least undecided.

Blind networks are the trivial answer, and stand here for that reason: where nothing of what is protected has any
influence, all is certified. How much influence the two penalties leave is in the column of distances. What certified
training does beyond that is to make a network easy to analyse: pairing takes the influence away as well, and leaves
undecided most of what plain training does.
"""

from __future__ import annotations

import os

# A matrix library that starts threads of its own would spend processor time on waiting.
os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}

import argparse
import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from evenhand import certification, datasets
from evenhand.individual.flips import scores_by_assignment
from evenhand.mitigation import FlipMetric, Split, split_people
from evenhand.mitigation.candidate import accuracy
from evenhand.mitigation.training import FairClassifier
from evenhand.mitigation.training.blind import average_protected
from evenhand.mitigation.training.candidates import SMALL, SMALL_STEPS, true_labels
from evenhand.models.additive.network import AdditiveNetwork
from evenhand.population import product_of_marginals
from evenhand.schema import encode

SWEEPS = {
    "erm": (0.0,),
    "logit-pairing": (1.0, 10.0),
    "certified": (0.03, 0.1, 0.3),
}
QUICK = {"erm": (0.0,), "logit-pairing": (10.0,), "certified": (0.1, 0.3)}
BOXES = 2_000
LOSS = 0.01
"""Accuracy that a chosen strength may cost on the validation part."""
PEOPLE = 1000
"""People about whose logits the distance is told."""

Row = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """One data set, split by one seed."""

    data: str
    seed: int
    parts: Split
    boxes: int


def case(data: str, seed: int, boxes: int) -> Case:
    """Read and split."""
    found = datasets.load_dataset(data)
    return Case(data, seed, split_people(encode(found.schema, found.frame), seed=seed), boxes)


def train(it: Case, method: str, strength: float, **settings: Any) -> tuple[AdditiveNetwork, float]:
    """One network, and the processor seconds that it took."""
    people = it.parts.train
    started = time.process_time()
    classifier = FairClassifier(
        method, strength=strength, schema=people.schema, hidden=SMALL, steps=SMALL_STEPS, seed=it.seed, **settings
    )
    classifier.fit(people.individuals, true_labels(people))
    return classifier.network_, time.process_time() - started


def measure(it: Case, method: str, strength: float, network: AdditiveNetwork, seconds: float) -> Row:
    """One row of the table, of one seed."""
    schema, parts = network.schema, it.parts
    harms = {name: FlipMetric((name,)) for name in schema.protected} | {"both": FlipMetric(schema.protected)}
    row: Row = {
        "data": it.data, "seed": it.seed, "method": method, "strength": strength, "seconds": seconds,
        "accuracy": accuracy(network, parts.test), "validated": accuracy(network, parts.validation),
        "harm": harms["both"].size(network, parts.validation), "distance": distance(network, parts),
    }  # fmt: skip
    for name, harm in harms.items():
        row[f"flips {name}"] = harm.size(network, parts.test)
        for population in (None, product_of_marginals(parts.train)):
            started = time.process_time()
            proved = certification.certify(
                network, protected=harm.protected, population=population, max_boxes=it.boxes, samples=1,
                counterexamples=0, seed=it.seed,
            )  # fmt: skip
            where = f"{name} {'domain' if population is None else 'data'}"
            row |= {f"certified {where}": proved.certified, f"falsified {where}": proved.falsified}
            row |= {f"undecided {where}": proved.undecided, f"boxes {where}": proved.boxes}
            row[f"seconds {where}"] = time.process_time() - started
    return row


def distance(network: AdditiveNetwork, parts: Split) -> float:
    """The greatest difference of a person's logits between two protected assignments, on average over test people."""
    schema = network.schema
    people = parts.test.individuals[:PEOPLE]
    columns, assignments = schema.positions(schema.protected), schema.assignments(schema.protected)
    scores = np.clip(scores_by_assignment(network, people, columns, assignments), 1e-15, 1 - 1e-15)
    logits = np.log(scores / (1 - scores))
    return float((logits.max(axis=1) - logits.min(axis=1)).mean())


def chosen(rows: list[Row], plain: Row) -> Row:
    """The strength that would be taken of one method's."""
    fit = [row for row in rows if row["validated"] >= plain["validated"] - LOSS - 1e-9] or [plain]
    return min(fit, key=lambda row: (row["harm"], row["undecided both data"], row["strength"]))


def run(data: str, seeds: range, sweeps: dict[str, tuple[float, ...]], boxes: int, say: Console) -> list[Row]:
    """All rows of a data set."""
    rows: list[Row] = []
    for seed in seeds:
        it = case(data, seed, boxes)
        own: list[Row] = []
        for method, strengths in sweeps.items():
            of_method: list[Row] = []
            for strength in strengths:
                network, seconds = train(it, method, strength)
                of_method.append(measure(it, method, strength, network, seconds))
                say.print(f"{data}, seed {seed}: {method} {strength:g} ({seconds:.0f} s)", style="dim")
                if method == "erm":
                    schema = network.schema
                    dim = average_protected(network, it.parts.train, schema.positions(schema.protected))
                    own.append(measure(it, "blind (averaged)", 0.0, dim, 0.0))
            own += of_method
            if method != "erm":
                plain = next(row for row in own if row["method"] == "erm")
                own.append(chosen(of_method, plain) | {"method": f"{method}, chosen"})
        network, seconds = train(it, "erm", 0.0, sees_protected=False)
        own.append(measure(it, "blind (not given)", 0.0, network, seconds))
        rows += own
    return rows


def tables(rows: list[Row], screen: Console) -> None:
    """One table per data set and population: means over the seeds."""
    for data in dict.fromkeys(row["data"] for row in rows):
        own = [row for row in rows if row["data"] == data]
        names = [key.removeprefix("flips ") for key in own[0] if key.startswith("flips ")]
        for where, words in (("domain", "everybody in the domain, uniformly"), ("data", "attributes as in the data")):
            table = Table(title=f"{data}: {words}; certified / falsified / undecided in %", title_justify="left")
            for heading in ("method", "strength", "accuracy", "distance"):
                table.add_column(heading, justify="left" if heading == "method" else "right")
            for name in names:
                table.add_column(f"flips\n{name}", justify="right")
            for name in names:
                table.add_column(f"proved\n{name}", justify="right")
            table.add_column("boxes", justify="right")
            table.add_column("s", justify="right")
            kinds = dict.fromkeys((row["method"], "" if "chosen" in row["method"] else row["strength"]) for row in own)
            for method, strength in kinds:
                of = [row for row in own if row["method"] == method and strength in ("", row["strength"])]

                def mean(key: str, of: list[Row] = of) -> float:
                    return float(np.mean([row[key] for row in of]))

                picked = "/".join(f"{row['strength']:g}" for row in of) if strength == "" else f"{strength:g}"
                proved = (
                    " / ".join(f"{100 * mean(f'{kind} {name} {where}'):.1f}" for kind in
                               ("certified", "falsified", "undecided")) for name in names
                )  # fmt: skip
                flips = (f"{100 * mean(f'flips {name}'):.2f} %" for name in names)
                table.add_row(
                    method, picked, f"{100 * mean('accuracy'):.2f} %", f"{mean('distance'):.3f}", *flips, *proved,
                    f"{mean(f'boxes {names[-1]} {where}'):,.0f}", f"{mean('seconds'):.1f}",
                )  # fmt: skip
            screen.print(table)


def main() -> None:
    """Train, certify, tell."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", nargs="*", default=["adult", "german"])
    parser.add_argument("--quick", action="store_true", help="one seed, fewer strengths")
    parser.add_argument("--seeds", type=int, default=None)
    parser.add_argument("--boxes", type=int, default=BOXES, help="of every certificate, at most")
    parser.add_argument("--json", type=Path, default=None, help="write every row to this file")
    given = parser.parse_args()
    seeds = range(given.seeds or (1 if given.quick else 3))
    rows: list[Row] = []
    for data in given.data:
        rows += run(data, seeds, QUICK if given.quick else SWEEPS, given.boxes, Console(stderr=True))
    tables(rows, Console(width=200 if not Console().is_terminal else None))
    if given.json is not None:
        given.json.write_text(json.dumps(rows, indent=1), "utf-8")


if __name__ == "__main__":
    main()
