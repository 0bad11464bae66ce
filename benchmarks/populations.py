"""How well a population of people who can exist fits real data, and how much is proved about it.

    python benchmarks/populations.py                     fit on every data set, and proofs for AC-1 and AC-2
    python benchmarks/populations.py --seconds 2 4 8     proofs at these time limits, in processor seconds

Fit: nats per held-out person (30 %) gained over independent attributes, and the share of 100,000 people drawn who break
a rule; rules are known for adult alone. Proofs: what is left undecided for sex, by plausible counterparts and strata
with latent classes, beside independent attributes of which sex alone changes, on one thread; time limits are seconds of
the processor. Data and networks are looked for in the folder that EVENHAND_SHARED names, else in ``shared`` beside this
checkout.
"""

from __future__ import annotations

import os

# A matrix library that starts threads of its own would spend processor time that no proof is charged for.
os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table

from evenhand import certification, datasets
from evenhand.models import AdditiveNetwork
from evenhand.models.additive.network import network_from_dense
from evenhand.population import fit_mixture, product_of_marginals
from evenhand.population.mixture import CLASSES, HELD_OUT, code_people, fit_latent_classes, strata_of
from evenhand.schema import People, Schema, encode

SHARED = Path(os.environ.get("EVENHAND_SHARED", Path(__file__).resolve().parent.parent.parent / "shared"))
DRAWN = 100_000
ADULT_RULES: dict[str, Any] = {
    "rules": [
        "relationship == Husband -> sex == Male",
        "relationship == Wife -> sex == Female",
        'relationship in {Husband, Wife} -> marital_status in {"Married-civ-spouse", "Married-AF-spouse"}',
        'relationship == Unmarried -> marital_status not in {"Married-civ-spouse", "Married-AF-spouse"}',
    ],
    "links": [{"when": "sex", "move": "relationship", "rows": [{"Male": "Husband", "Female": "Wife"}]}],
}
PROTECTED = {"adult": ["sex"], "german": ["sex"], "compas": ["sex", "race"], "bank": ["marital"]}


def with_rules(schema: Schema, frame: pd.DataFrame) -> Schema:
    """Add what holds for people of Adult."""
    years = frame.groupby("education", observed=True)["education_num"].first()
    dependency = {"between": ["education", "education_num"], "map": {k: int(v) for k, v in years.items()}}
    return Schema.parse(schema.model_dump() | ADULT_RULES | {"dependencies": [dependency]})


def measure_fit(name: str) -> dict[str, Any]:
    """Return the gain over independent attributes by number of classes, and who breaks a rule."""
    data = datasets.load_dataset(name, data_home=SHARED / "data" / "tabular")
    schema = data.schema.with_protected(PROTECTED[name])
    people = encode(with_rules(schema, pd.DataFrame(data.frame)) if name == "adult" else schema, data.frame)
    schema = people.schema
    people = people.at(np.flatnonzero(schema.obeys_rules(people.individuals)))
    rng = np.random.default_rng(0)
    shuffled = rng.permutation(len(people))
    out = int(HELD_OUT * len(shuffled))

    def likelihood(groups: tuple[tuple[int, ...], ...], classes: int) -> float:
        coded = code_people(schema, groups, people.individuals)[1]
        fitted = fit_latent_classes(coded.at(shuffled[out:]), classes, np.random.default_rng(1))
        return float(fitted.log_likelihood(coded.at(shuffled[:out]), unseen=1 / len(people)).mean())

    groups = strata_of(schema)
    alone = likelihood(((groups[0][0],),), 1)
    started = time.process_time()
    mixture = fit_mixture(people)
    seconds = time.process_time() - started

    def breaking(drawn: np.ndarray) -> float:
        return float(1 - schema.obeys_rules(drawn).mean())

    return {
        "data": name,
        "people": len(people),
        "strata": len(mixture.hub.values),
        "gain": {classes: likelihood(groups, classes) - alone for classes in CLASSES},
        "chosen": len(mixture.weights),
        "cpu_seconds": seconds,
        "breaks_a_rule": breaking(mixture.sample(DRAWN, rng)),
        "breaks_a_rule_if_independent": breaking(product_of_marginals(people).sample(DRAWN, rng)),
    }


def adult_people(rules: bool) -> People:
    """Return Adult as the published networks take it: codes in alphabetical order, gains and losses in 20 bins."""
    described = json.loads((SHARED / "data/certify/domains.json").read_text("utf-8"))["adult"]["attributes"]
    frame = pd.DataFrame(datasets.load_dataset("adult", data_home=SHARED / "data" / "tabular").frame)
    frame = frame.replace("?", np.nan).dropna()
    for name, most in (("capital_gain", 99999), ("capital_loss", 4356)):
        frame[name] = np.minimum(frame[name].astype(float) / most * 20, 19).astype(int)
    attributes = []
    for each in described:
        name = each["name"].replace("-", "_")
        kind = (
            {"kind": "categorical", "values": each["codes"], "encoding": "code"}
            if "codes" in each
            else {"kind": "integer", "lower": each["lower"], "upper": each["upper"]}
        )
        attributes.append({"name": name, "protected": name == "sex", **kind})
    target = {"name": "income", "favourable": ">50K"}
    schema = Schema.parse({"target": target, "attributes": attributes})
    return encode(with_rules(schema, frame) if rules else schema, frame)


def network(schema: Schema, name: str) -> AdditiveNetwork:
    """Return a published network."""
    with np.load(SHARED / "data/certify" / f"{name}.npz") as arrays:
        layers = [(arrays[f"W{i}"], arrays[f"b{i}"]) for i in range(len(arrays.files) // 2)]
    return network_from_dense(schema, layers, name=name)


def measure_proofs(names: list[str], limits: list[float]) -> list[dict[str, Any]]:
    """Return what is proved at each time limit, by both populations."""
    # Other work on the machine must not take anything from either: their clock is the processor's.
    time.perf_counter = time.process_time
    found = []
    ruled, free = adult_people(rules=True), adult_people(rules=False)
    by_rules, product = fit_mixture(ruled), product_of_marginals(free)
    for name in names:
        models = {"strata x classes": network(ruled.schema, name), "independent": network(free.schema, name)}
        for kind, model in models.items():
            certification.certify(model, max_boxes=64, enumeration=False, jobs=1)  # compiles the kernels
            for limit in limits:
                population = product if kind == "independent" else by_rules
                result = certification.certify(model, population=population, time_limit=limit, jobs=1)
                found.append(
                    {"network": name, "population": kind}
                    | result.model_dump(
                        include={"certified", "falsified", "undecided", "no_counterpart", "cpu_seconds", "boxes"}
                    )
                )
    return found


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, nargs="*", default=[2.0, 4.0], help="time limits of the proofs")
    parser.add_argument("--networks", nargs="*", default=["AC-1", "AC-2"])
    parser.add_argument("--json", type=Path, help="write all figures here")
    options = parser.parse_args()
    console = Console(width=140)
    fits = [measure_fit(name) for name in PROTECTED]
    by_class = [f"{classes} classes" for classes in CLASSES]
    columns = ["data", "people", "strata", *by_class, "chosen", "CPU s", "breaks a rule", "if independent"]
    table = Table(*columns, title="Gain over independent attributes, nats per person")
    for fit in fits:
        table.add_row(
            fit["data"],
            f"{fit['people']:,}",
            str(fit["strata"]),
            *(f"{gain:.2f}" for gain in fit["gain"].values()),
            str(fit["chosen"]),
            f"{fit['cpu_seconds']:.1f}",
            f"{fit['breaks_a_rule']:.2%}",
            f"{fit['breaks_a_rule_if_independent']:.1%}",
        )
    console.print(table)
    proofs = measure_proofs(options.networks, options.seconds)
    table = Table("network", "population", "CPU s", "certified", "falsified", "undecided", title="Proofs for sex")
    for proof in proofs:
        shares = (f"{proof[share]:.2%}" for share in ("certified", "falsified", "undecided"))
        table.add_row(proof["network"], proof["population"], f"{proof['cpu_seconds']:.1f}", *shares)
    console.print(table)
    if options.json:
        options.json.write_text(json.dumps({"fit": fits, "proofs": proofs}, indent=2), encoding="utf-8")


if __name__ == "__main__":
    main()
