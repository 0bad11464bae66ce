"""The share of people whom a network treats fairly, proved: our figures, or those of another tool, checked.

    python benchmarks/fairness_share/run.py                       prove every instance, 20 processor seconds each
    python benchmarks/fairness_share/run.py --check theirs.json   compare what another tool has proved with the answers
    python benchmarks/fairness_share/run.py --vnnlib FOLDER       write each question as ONNX and VNN-LIB

``theirs.json`` holds, for each instance, ``{"certified": share, "falsified": share, "seconds": processor seconds}``.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}

import numpy as np
from rich.console import Console
from rich.table import Table

from evenhand import certification
from evenhand.models import AdditiveNetwork, network_from_dense
from evenhand.schema import Schema
from evenhand.stats import clopper_pearson

INSTANCES = Path(__file__).parent / "instances"
ROUNDING = 1e-9
CONFIDENCE = 0.9999


def instances() -> dict[str, dict[str, Any]]:
    """Return every instance by its name."""
    return {path.stem: json.loads(path.read_text()) for path in sorted(INSTANCES.glob("*.json"))}


def network_of(made: dict[str, Any], name: str) -> AdditiveNetwork:
    """Return the network of an instance over the numbers of its attributes' values."""
    attributes, rows = [], []
    weights, at = np.array(made["layers"][0]["weights"]), 0
    for attribute in made["attributes"]:
        described = {"name": attribute["name"], "protected": attribute["name"] == made["protected"]}
        if "count" in attribute:
            # The input is the number of the value divided by the number of the last.
            attributes.append(described | {"kind": "integer", "lower": 0, "upper": attribute["count"] - 1})
            rows.append(weights[at : at + 1] / (attribute["count"] - 1))
            at += 1
        else:
            attributes.append(described | {"kind": "categorical", "values": attribute["values"], "encoding": "one-hot"})
            rows.append(weights[at : at + len(attribute["values"])])
            at += len(attribute["values"])
    target = {"name": "decision", "favourable": 1, "values": [0, 1]}
    layers = [(np.array(layer["weights"]), np.array(layer["bias"])) for layer in made["layers"]]
    layers[0] = (np.concatenate(rows), layers[0][1])
    return network_from_dense(Schema.parse({"target": target, "attributes": attributes}), layers, name=name)


def true_share(made: dict[str, Any]) -> tuple[float, float]:
    """Return the share of people who are treated fairly, or the ends of an interval around it."""
    answer = made["answer"]
    if "fair" in answer:
        share = answer["fair"] / made["people"]
        return share, share
    return clopper_pearson(answer["fair_in_sample"], answer["sampled"], CONFIDENCE)


def prove(made: dict[str, Any], name: str, seconds: float) -> dict[str, float]:
    """Return what linear bounds prove in so many seconds of one thread."""
    network, began = network_of(made, name), time.process_time()
    found = certification.certify(network, time_limit=seconds, jobs=1, enumeration=False, samples=1000)
    return {
        "certified": found.certified,
        "falsified": found.falsified,
        "seconds": round(time.process_time() - began, 1),
    }


def main() -> None:
    """Prove, check or write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", type=Path, metavar="FILE")
    parser.add_argument("--vnnlib", type=Path, metavar="FOLDER")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--out", type=Path, metavar="FILE", help="write what was proved, as --check reads it")
    given = parser.parse_args()
    known = instances()
    if given.vnnlib:
        for name, made in known.items():
            certification.write_pair_question(network_of(made, name), given.vnnlib / name)
        return
    if given.check:
        proved = json.loads(given.check.read_text())
    else:
        certification.warm_up()
        proved = {name: prove(made, name, given.seconds) for name, made in known.items()}
        if given.out:
            given.out.write_text(json.dumps(proved, indent=1) + "\n")
    table = Table("instance", "people", "fair", "certified", "falsified", "undecided", "CPU s", "contradicts")
    wrong = 0
    for name, made in known.items():
        low, high = true_share(made)
        if name not in proved:
            table.add_row(name, f"{made['people']:,}", f"{low:.4%}", "-", "-", "-", "-", "")
            continue
        ours = proved[name]
        contradicts = ours["certified"] > high + ROUNDING or ours["falsified"] > 1 - low + ROUNDING
        wrong += contradicts
        truth = f"{low:.4%}" if low == high else f"{low:.2%} to {high:.2%}"
        shares = (ours["certified"], ours["falsified"], 1 - ours["certified"] - ours["falsified"])
        table.add_row(
            name, f"{made['people']:,}", truth, *(f"{share:.4%}" for share in shares), f"{ours['seconds']:g}",
            "yes" if contradicts else "no",
        )  # fmt: skip
    Console().print(table)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
