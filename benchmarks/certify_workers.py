"""What a second worker adds to a certificate: boxes per second and per CPU second with one worker and with two.

    .venv/bin/python benchmarks/certify_workers.py [--boxes 200000] [--repeats 3]

A made-up network with two hidden layers is certified with a limit on boxes, so that both do the same work, in turns. Of
each run a short one of as many workers is taken off: what starting them takes. On a machine with two idle cores the
ratio of boxes per second says how well the work is shared out. On a busy one it says how busy it is: there the ratio of
boxes per CPU second says whether splitting loses work, and the share of CPU time that two workers left unused.
"""

import argparse
import resource
import statistics
import time

import numpy as np
import pandas as pd
from sklearn.neural_network import MLPClassifier

from evenhand import certification, models
from evenhand.schema import ColumnRoles
from evenhand.workers import Workforce

FEW = 2_000
"""Boxes of the short runs."""


def make_network(seed=0):
    """A network of 2 x 32 hidden units that learned from made-up people."""
    rng = np.random.default_rng(seed)
    people = pd.DataFrame({f"x{i}": rng.integers(0, 60, 4000) for i in range(8)})
    people["sex"] = rng.integers(0, 2, 4000)
    score = np.sin(people["x0"] / 9) + np.cos(people["x1"] / 7) * np.sin(people["x2"] / 11) + 0.3 * people["sex"]
    score += (people[[f"x{i}" for i in range(3, 8)]] / 60 - 0.5).sum(axis=1) / 2
    labels = (score > score.median()).astype(int)
    scaled = people / 60
    network = MLPClassifier((32, 32), max_iter=60, random_state=seed, early_stopping=True).fit(
        scaled.to_numpy(), labels
    )
    # The first layer takes people as they are.
    network.coefs_[0] = network.coefs_[0] / 60
    schema = ColumnRoles(target="label", protected=["sex"]).read(people.assign(label=labels)).schema
    return models.load_white_box(network, schema)


def cpu_seconds():
    """CPU seconds of this process, and of workers that have ended."""
    own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


def measure(network, boxes, workers):
    """Boxes, seconds and CPU seconds of a certificate."""
    cpu, began = cpu_seconds(), time.perf_counter()
    found = certification.certify(
        network, max_boxes=boxes, enumeration=False, samples=100, workforce=Workforce(workers)
    )
    return found.boxes, time.perf_counter() - began, cpu_seconds() - cpu, found.certified


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--boxes", type=int, default=200_000)
    options.add_argument("--repeats", type=int, default=3)
    given = options.parse_args()
    network = make_network()
    measure(network, FEW, 1)  # compiles the kernels where they are not kept
    per_second, per_cpu = {1: [], 2: []}, {1: [], 2: []}
    proved = set()
    for _ in range(given.repeats):
        for workers in (1, 2):
            short, long = measure(network, FEW, workers), measure(network, given.boxes, workers)
            boxes, seconds, cpu = (long[i] - short[i] for i in range(3))
            proved.add(long[3])
            per_second[workers].append(boxes / seconds)
            per_cpu[workers].append(boxes / cpu)
            print(
                f"{workers} worker{'s' * (workers > 1)}: {boxes:,} boxes in {seconds:.1f} s and {cpu:.1f} CPU s: "
                f"{boxes / seconds:,.0f} a second, {boxes / cpu:,.0f} a CPU second, "
                f"{max(0.0, 1 - cpu / seconds / workers):.0%} of {workers} core{'s' * (workers > 1)} unused",
                flush=True,
            )
    if len(proved) > 1:
        raise SystemExit(f"the certificates differ: {sorted(proved)}")
    second, cpu = (statistics.median(each[2]) / statistics.median(each[1]) for each in (per_second, per_cpu))
    print(f"two against one: {second:.2f} times the boxes a second, {cpu:.2f} times the boxes a CPU second")


if __name__ == "__main__":
    main()
