"""Whether a planted group is the first that is shown, beside the scan of MDSS, and how often nothing is found in noise.

    python benchmarks/subgroup_planted.py                 50 data sets of each kind, 1,000 without any gap; minutes
    python benchmarks/subgroup_planted.py --runs 5 --null 100

People are drawn at random: sex, race (60 % w, 15 % b, 10 % a, 10 % h, 5 % o), age (18 to 79), income (lognormal).
Everybody is given the favourable decision with a chance of 50 %; the members of one group with less. What each method
shows first is held against that group: precision (share of those shown who belong to it), recall (share of it that is
shown) and Jaccard's index (shared members over all members of either). A method that finds nothing scores 0.

Both methods see numbers in the same cells, and both find nothing in 95 % of the data sets without a gap: Evenhand by
its adjusted p-value, the scan by permuting the outcomes (``--permutations``) and scanning again. The scan is written
here from its paper (Zhang and Neill, "Identifying significant predictive bias in classifiers", 2016); where aif360 can
be imported, its own implementation (``bias_scan``) is asked too, without that control: it always answers.
"""

from __future__ import annotations

import os

# A matrix library that starts threads of its own would spend processor time on waiting.
os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}

import argparse
import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

import subgroup_peers
from evenhand.schema import Attribute, People, Schema, Target, encode
from evenhand.stats import clopper_pearson
from evenhand.subgroups import SubgroupConfig, find_members
from evenhand.subgroups.exact import MeasuredOutcomes, search_exactly
from evenhand.subgroups.family import cut_attributes

SCHEMA = Schema(
    target=Target(name="loan", favourable="yes", values=("no", "yes")),
    attributes=(
        Attribute(name="sex", kind="categorical", values=("f", "m")),
        Attribute(name="race", kind="categorical", values=("w", "b", "a", "h", "o")),
        Attribute(name="age", kind="integer", lower=18, upper=79),
        Attribute(name="income", kind="real", lower=0.0, upper=1e9),
    ),
)
RESTARTS = 10
"""Times that the scan starts from random subsets, as aif360 does by default."""
LEVEL = 0.05

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Planted:
    """A kind of data set: a group, how much less its members are given, and what is searched."""

    name: str
    members: Callable[[pd.DataFrame], pd.Series[bool]]
    attributes: tuple[str, ...]
    people: int
    gap: float


def women_of_three_races_from_40(frame: pd.DataFrame) -> pd.Series[bool]:
    """The group of which most methods show a simpler or a narrower one."""
    return (frame["sex"] == "f") & frame["race"].isin(["b", "a", "h"]) & (frame["age"] >= 40)


def poor_women(frame: pd.DataFrame) -> pd.Series[bool]:
    """The boundary, a quantile, is not a round number, so that no cell ends there exactly."""
    return (frame["sex"] == "f") & (frame["income"] <= frame["income"].quantile(0.3))


PEOPLE = ("sex", "race", "age")
KINDS = (
    Planted("women, race b, a or h, 40 or more", women_of_three_races_from_40, PEOPLE, 10_000, 0.12),
    Planted("women, race b, a or h, 40 or more", women_of_three_races_from_40, PEOPLE, 20_000, 0.12),
    Planted("women, race b, a or h, 40 or more", women_of_three_races_from_40, PEOPLE, 5_000, 0.20),
    Planted("men under 30", lambda frame: (frame["sex"] == "m") & (frame["age"] < 30), PEOPLE, 10_000, 0.12),
    Planted("race b or h", lambda frame: frame["race"].isin(["b", "h"]), PEOPLE, 10_000, 0.10),
    Planted("women, poorest 30 %", poor_women, ("sex", "income"), 10_000, 0.12),
)


def population(people: int, rng: np.random.Generator) -> pd.DataFrame:
    """People whose attributes are independent."""
    return pd.DataFrame(
        {
            "sex": rng.choice(["f", "m"], people),
            "race": rng.choice(["w", "b", "a", "h", "o"], people, p=[0.6, 0.15, 0.1, 0.1, 0.05]),
            "age": rng.integers(18, 80, people),
            "income": rng.lognormal(10, 1, people),
        }
    )


def ours(people: People, given: Bools, attributes: tuple[str, ...], seed: int) -> Bools | None:
    """Who is in the first finding that Evenhand shows; None if nothing is significant."""
    config = SubgroupConfig(attributes=attributes, seed=seed, most=1)
    outcome = MeasuredOutcomes(np.arange(len(people)), given.astype(np.float64), counted=True)
    result = search_exactly(people, lambda *_: outcome, config)
    return find_members(people, result.findings[0].rules) if result.found else None


def scan(codes: Ints, given: Bools, rng: np.random.Generator) -> tuple[float, Bools]:
    """The subset of values of each attribute whose log-likelihood ratio against one rate for all is the largest.

    Attribute by attribute, the others held: with a constant rate expected, the best subset of values consists of those
    with the most extreme rates (linear-time subset scanning), so that only as many subsets as values are tried.
    """
    rate = given.mean()
    best, members = 0.0, np.zeros(len(given), dtype=bool)
    sizes = codes.max(axis=0) + 1
    for sign in (-1, 1):
        for restart in range(RESTARTS):
            chosen = [np.ones(size, dtype=bool) if restart == 0 else rng.random(size) < 0.5 for size in sizes]
            score, improved = 0.0, True
            while improved:
                improved = False
                for axis in rng.permutation(len(sizes)):
                    others = [chosen[i][codes[:, i]] for i in range(len(sizes)) if i != axis]
                    inside = np.logical_and.reduce(others) if others else np.ones(len(given), dtype=bool)
                    value, kept = _best_values(codes[inside, axis], given[inside], int(sizes[axis]), rate, sign)
                    if value > score + 1e-9:
                        chosen[axis], score, improved = kept, value, True
            if score > best:
                best = score
                members = np.logical_and.reduce([chosen[i][codes[:, i]] for i in range(len(sizes))])
    return best, members


def _best_values(code: Ints, given: Bools, size: int, rate: float, sign: int) -> tuple[float, Bools]:
    n = np.bincount(code, minlength=size).astype(float)
    k = np.bincount(code, weights=given, minlength=size)
    order = np.argsort(-sign * np.where(n > 0, k / np.maximum(n, 1), -sign * np.inf), kind="stable")
    people, favoured = np.cumsum(n[order]), np.cumsum(k[order])
    own = np.clip(favoured / np.maximum(people, 1), 1e-12, 1 - 1e-12)
    score = favoured * np.log(own / rate) + (people - favoured) * np.log((1 - own) / (1 - rate))
    score = np.where(sign * (own - rate) > 0, score, 0.0)
    kept = np.zeros(size, dtype=bool)
    kept[order[: int(score.argmax()) + 1]] = True
    return float(score.max()), kept


def scanned(codes: Ints, given: Bools, permutations: int, seed: int) -> Bools | None:
    """Who the scan shows, if chance shows as much in at most 5 % of the permuted outcomes."""
    rng = np.random.default_rng(seed)
    score, members = scan(codes, given, rng)
    reached = sum(scan(codes, rng.permutation(given), rng)[0] >= score for _ in range(permutations))
    return members if (1 + reached) / (1 + permutations) <= LEVEL else None


def held_against(members: Bools, shown: Bools | None) -> tuple[float, float, float]:
    """Precision, recall and Jaccard's index."""
    if shown is None or not shown.any():
        return 0.0, 0.0, 0.0
    both = (members & shown).sum()
    return both / shown.sum(), both / members.sum(), both / (members | shown).sum()


def planted(kind: Planted, runs: int, permutations: int) -> list[dict[str, Any]]:
    """What each method shows of one kind of data set."""
    with_aif360 = any(peer.package == "aif360" for peer in subgroup_peers.installed())
    found: dict[str, list[tuple[float, float, float]]] = {}
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        frame = population(kind.people, rng)
        members = kind.members(frame).to_numpy()
        given = rng.random(kind.people) < 0.5 - kind.gap * members
        people = encode(SCHEMA, frame)
        cuts, codes = cut_attributes(people, kind.attributes)
        shown = {"Evenhand": ours(people, given, kind.attributes, seed)}
        shown["scan (MDSS)"] = scanned(codes, given, permutations, seed)
        if with_aif360:
            names = {
                cut.attribute: np.array(cut.names, dtype=object)[code] for cut, code in zip(cuts, codes.T, strict=True)
            }
            reply = subgroup_peers.mdss(pd.DataFrame(names, dtype=object), given, len(cuts))
            assert isinstance(reply, subgroup_peers.Reply)
            shown["aif360, no control"] = reply.inside
        for method, who in shown.items():
            found.setdefault(method, []).append(held_against(members, who))
    return [
        {
            "group": kind.name,
            "people": kind.people,
            "gap": kind.gap,
            "method": method,
            "runs": runs,
            "found": float(np.mean([overlap > 0 for *_, overlap in scores])),
            **dict(zip(("precision", "recall", "jaccard"), np.mean(scores, axis=0).tolist(), strict=True)),
        }
        for method, scores in found.items()
    ]


def without_gap(runs: int) -> dict[str, Any]:
    """How often something is found where every decision is a toss of a coin, at three base rates; margin 0."""
    accused = 0
    for seed in range(runs):
        rng = np.random.default_rng(1_000_000 + seed)
        people = encode(SCHEMA, population(2000, rng))
        given = rng.random(2000) < (0.5, 0.2, 0.05)[seed % 3]
        outcome = MeasuredOutcomes(np.arange(2000), given.astype(np.float64), counted=True)
        config = SubgroupConfig(attributes=PEOPLE, seed=seed, most=1, margin=0.0)
        accused += search_exactly(people, lambda *_, outcome=outcome: outcome, config).found > 0
    low, high = clopper_pearson(accused, runs, 0.95)
    return {"runs": runs, "accused": accused, "share": accused / runs, "low": float(low), "high": float(high)}


def show(rows: list[dict[str, Any]], fair: dict[str, Any]) -> None:
    """Print the table and what was found where there was nothing."""
    table = Table("planted group", "people", "gap", "method", "found", "precision", "recall", "Jaccard")
    for row in rows:
        scores = [f"{row[name]:.2f}" for name in ("found", "precision", "recall", "jaccard")]
        table.add_row(row["group"], f"{row['people']:,}", f"-{100 * row['gap']:.0f}", row["method"], *scores)
    console = Console(width=120)
    console.print(table)
    console.print(
        f"Without a gap: something found in {fair['accused']} of {fair['runs']:,} data sets, {fair['share']:.1%} "
        f"({fair['low']:.1%} to {fair['high']:.1%})."
    )


def main(arguments: list[str]) -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=50, help="data sets of each kind")
    parser.add_argument("--null", type=int, default=1000, help="data sets without a gap")
    parser.add_argument("--permutations", type=int, default=19, help="of the scan; 19 allow 5 %% of false findings")
    parser.add_argument("--json", type=Path, help="write all figures here")
    chosen = parser.parse_args(arguments)
    started = time.perf_counter()
    rows = [row for kind in KINDS for row in planted(kind, chosen.runs, chosen.permutations)]
    fair = without_gap(chosen.null)
    show(rows, fair)
    if chosen.json:
        made = {"planted": rows, "without_gap": fair, "seconds": time.perf_counter() - started}
        chosen.json.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
