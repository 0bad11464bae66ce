#!/usr/bin/env python3
"""How small a gap rules on a few features can have, proved: compas, german and adult, four families of rules.

    python benchmarks/refutation.py [--data-home FOLDER] [--time-limit 60] [--only adult10]

The floor is the accuracy of a logistic regression on the same features, with and without 0.3 points less. Seconds are
those of the processor.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from sklearn.linear_model import LogisticRegression

from evenhand.datasets import load_dataset
from evenhand.mitigation import refute_alternatives
from evenhand.schema import People, encode

WOMEN = {"women": "sex == Female", "men": "sex == Male"}
CASES = {
    "compas": {
        "groups": {"African-American": "race == African-American", "others": "race != African-American"},
        "features": [
            "age < 25",
            "age >= 45",
            "priors_count >= 1",
            "priors_count >= 4",
            "priors_count >= 8",
            "juv_fel_count + juv_misd_count + juv_other_count >= 1",
            "c_charge_degree == F",
            "sex == Male",
        ],
    },
    "german": {
        "groups": {"women": "sex == female", "men": "sex == male"},
        "features": [
            "status in {A11, A12}",
            "status == A14",
            "duration >= 24",
            "credit_history == A34",
            "savings in {A64, A65}",
            "employment_since >= A74",
            "housing == A152",
            "credit_amount >= 5000",
        ],
    },
    "adult6": {
        "groups": WOMEN,
        "features": [
            "education_num >= 13",
            "age >= 35",
            "hours_per_week >= 45",
            "marital_status == Married-civ-spouse",
            "capital_gain > 5000",
            "occupation in {Exec-managerial, Prof-specialty}",
        ],
    },
    "adult10": {
        "groups": WOMEN,
        "features": [
            "education_num >= 13",
            "age >= 35",
            "age >= 50",
            "hours_per_week >= 45",
            "marital_status == Married-civ-spouse",
            "capital_gain > 5000",
            "capital_loss > 1500",
            "occupation in {Exec-managerial, Prof-specialty}",
            "occupation in {Craft-repair, Sales, Tech-support}",
            "workclass in {Self-emp-inc, Self-emp-not-inc}",
        ],
    },
}
FAMILIES = (("any", 2), ("linear", 2), ("tree", 2), ("tree", 3))


def fit_model(people: People, case: dict) -> tuple[float, float, int]:
    """Return accuracy and gap of a logistic regression on the features, and the number of cells."""
    found = refute_alternatives(people, features=case, family="any", accuracy=0.01)
    bits = np.array([list(map(int, one.features)) for one in found.cells])
    counts = np.array([one.counts for one in found.cells])
    model = LogisticRegression(max_iter=1000)
    totals = counts.sum(axis=1)
    model.fit(np.repeat(bits, 2, axis=0), np.tile([0, 1], len(bits)), sample_weight=totals.ravel())
    accepted = model.predict(bits)
    right = np.where(accepted == 1, totals[:, 1], totals[:, 0]).sum() / totals.sum()
    rates = (accepted[:, None] * counts.sum(axis=2)).sum(axis=0) / counts.sum(axis=(0, 2))
    return float(right), float(rates.max() - rates.min()), len(bits)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-home")
    parser.add_argument("--time-limit", type=float, default=60)
    parser.add_argument("--only", choices=CASES, action="append")
    given = parser.parse_args()
    for name in given.only or CASES:
        case = CASES[name]
        data = load_dataset(name.rstrip("0123456789"), data_home=given.data_home)
        people = encode(data.schema.with_protected(["sex"]), data.frame)
        accuracy, gap, cells = fit_model(people, case)
        print(f"{name}: {len(people):,} people, {cells} cells; model {accuracy:.4f}, gap {gap:.4f}", flush=True)
        for loss in (0.0, 0.003):
            floor = int((accuracy - loss) * 1e4) / 1e4
            for family, depth in FAMILIES:
                started = time.process_time()
                found = refute_alternatives(
                    people, features=case, family=family, depth=depth, accuracy=floor, time_limit=given.time_limit
                )
                own = "-" if found.witness is None else f"{found.witness.gap:.4f}"
                bound = "infeasible" if found.bound is None else f">= {found.bound:.4f}"
                label = f"tree of depth {depth}" if family == "tree" else family
                seconds = time.process_time() - started
                print(f"  {floor:.4f}  {label:16} {own:>7} ({bound}) {found.verdict:10} {seconds:6.1f} s", flush=True)


if __name__ == "__main__":
    main()
