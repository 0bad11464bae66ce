"""Other tools' searches for groups that a model decides differently, each asked what its own documentation offers.

Every tool gets one table: the sensitive attributes cut into the same cells as ours, and who was decided favourably.
What it calls its best finding is then measured alike for all: how many people, and their rate beside everyone else's.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

SUPPORT = 0.05
NOTEWORTHY = 1.96
"""From which t value a tool's reader would take a divergence for real, one at a time at 95 %."""
BEST = 10
"""Results asked for where a tool gives its best so many."""
RESAMPLES = 100
"""Bootstraps of fairlearn."""
MOST_CELLS = 100_000
"""fairlearn makes a row for every combination of values, also for those without people."""


@dataclass(frozen=True)
class Reply:
    """What a tool answered.

    Attributes:
        top: its best finding in words; None where it has none.
        inside: who belongs to it, shape (n,).
        looked_at: groups it looked at, where it says.
        findings: how many groups its reader would take for real; None where it always gives its best so many.
    """

    top: str | None
    inside: NDArray[np.bool_]
    looked_at: int | None
    findings: int | None


@dataclass(frozen=True)
class Peer:
    """A tool: its package, what stands behind its findings, how it describes a group, and how it is asked."""

    package: str
    version_of: str
    shown: str
    groups: str
    evidence: str
    ask: Callable[[pd.DataFrame, NDArray[np.bool_], int], Reply | str]


def divexplorer(cells: pd.DataFrame, favourable: NDArray[np.bool_], depth: int) -> Reply | str:
    """Frequent itemsets of single values; divergence from everybody's rate, with Welch's t."""
    from divexplorer import DivergenceExplorer

    table = cells.assign(favourable=favourable.astype(float))
    found = DivergenceExplorer(table).get_pattern_divergence(
        min_support=SUPPORT, boolean_outcomes=["favourable"], attributes=list(cells.columns)
    )
    found = found[[0 < len(each) <= depth for each in found["itemset"]]]
    if not len(found):
        return Reply(None, np.zeros(len(cells), bool), 0, 0)
    best = found.iloc[int(np.argmax(found["favourable_div"].abs().to_numpy()))]
    pairs = [item.split("=", 1) for item in best["itemset"]]
    inside = np.logical_and.reduce([cells[name].astype(str).to_numpy() == value for name, value in pairs])
    real = int((found["favourable_t"].abs() >= NOTEWORTHY).sum())
    return Reply(", ".join(f"{name} {value}" for name, value in pairs), inside, len(found), real)


def pysubgroup(cells: pd.DataFrame, favourable: NDArray[np.bool_], depth: int) -> Reply | str:
    """Conjunctions of single values by weighted relative accuracy, for favourable and for unfavourable decisions."""
    import pysubgroup as ps

    table, best = cells.assign(favourable=favourable), []
    space = ps.create_selectors(table, ignore=["favourable"])
    for value in (True, False):
        task = ps.SubgroupDiscoveryTask(
            table,
            ps.BinaryTarget("favourable", value),
            space,
            result_set_size=BEST,
            depth=min(depth, cells.shape[1]),
            qf=ps.WRAccQF(),
            constraints=[ps.MinSupportConstraint(int(np.ceil(SUPPORT * len(table))))],
        )
        best += [(quality, group) for quality, group, _ in ps.SimpleDFS().execute(task).results]
    group = max(best, key=lambda each: each[0], default=(0.0, None))[1]
    if group is None:
        return Reply(None, np.zeros(len(cells), bool), None, None)
    return Reply(str(group), np.asarray(group.covers(table)), None, None)


def mdss(cells: pd.DataFrame, favourable: NDArray[np.bool_], depth: int) -> Reply | str:
    """AIF360's bias scan: the subset of values of each attribute that scores highest, in both directions."""
    from aif360.detectors.mdss_detector import bias_scan

    best: tuple[float, dict[str, list[Any]]] = (0.0, {})
    observed = pd.Series(favourable.astype(float))
    for over in (True, False):
        np.random.seed(0)  # noqa: NPY002 - the scan draws its restarts from this state
        subset, score = bias_scan(cells, observed, overpredicted=over, scoring="Bernoulli", num_iters=10)
        best = max(best, (score, subset), key=lambda each: each[0])
    subset = {name: values for name, values in best[1].items() if len(values) < cells[name].nunique()}
    if not subset:
        return Reply(None, np.zeros(len(cells), bool), None, None)
    inside = np.logical_and.reduce([cells[name].isin(values).to_numpy() for name, values in subset.items()])
    words = ", ".join(f"{name} {' or '.join(map(str, values))}" for name, values in subset.items())
    return Reply(words, inside, None, None)


def fairlearn(cells: pd.DataFrame, favourable: NDArray[np.bool_], depth: int) -> Reply | str:
    """Rates of the full intersections, with bootstrapped intervals."""
    from fairlearn.metrics import MetricFrame, selection_rate

    combinations = int(np.prod([cells[name].nunique() for name in cells.columns], dtype=float))
    if combinations > MOST_CELLS:
        return f"{combinations:,} combinations of values, each a row of its table"
    decided = favourable.astype(int)
    frame = MetricFrame(
        metrics=selection_rate,
        y_true=decided,
        y_pred=decided,
        sensitive_features=cells,
        n_boot=RESAMPLES,
        ci_quantiles=[0.025, 0.975],
        random_state=0,
    )
    rates = frame.by_group.astype(float)
    apart = (rates - favourable.mean()).abs().dropna()
    key = apart.idxmax()
    values = key if isinstance(key, tuple) else (key,)
    low, high = (each.astype(float) for each in frame.by_group_ci)
    real = int(((low > favourable.mean()) | (high < favourable.mean())).sum())
    pairs = list(zip(cells.columns, values, strict=True))
    inside = np.logical_and.reduce([cells[name].to_numpy() == value for name, value in pairs])
    return Reply(", ".join(f"{name} {value}" for name, value in pairs), inside, len(apart), real)


PEERS = (
    Peer(
        "divexplorer", "DivExplorer", "DivExplorer", "one value per attribute", "Welch's t, one at a time", divexplorer
    ),
    Peer(
        "pysubgroup", "pysubgroup", "pysubgroup", "one value per attribute", f"none; always its {BEST} best", pysubgroup
    ),
    Peer("aif360", "aif360", "AIF360 MDSS", "any values per attribute", "a score; always its best", mdss),
    Peer(
        "fairlearn",
        "fairlearn",
        "fairlearn MetricFrame",
        "one value of every attribute",
        f"{RESAMPLES} bootstraps, one at a time",
        fairlearn,
    ),
)


def installed() -> list[Peer]:
    """The tools that can be asked here."""
    return [peer for peer in PEERS if importlib.util.find_spec(peer.package)]


def absent() -> list[str]:
    """Those that cannot."""
    return [peer.package for peer in PEERS if not importlib.util.find_spec(peer.package)]


def ask(peer: Peer, cells: pd.DataFrame, favourable: NDArray[np.bool_], depth: int) -> dict[str, Any]:
    """One tool's answer, what it cost, and its best finding measured as ours are."""
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        # The other tools warn about their own libraries, which says nothing about what is measured.
        warnings.simplefilter("ignore")
        started, used = time.perf_counter(), time.process_time()
        reply = peer.ask(cells, favourable, depth)
        wall, cpu = time.perf_counter() - started, time.process_time() - used
    told = {"tool": peer.shown, "groups": peer.groups, "evidence": peer.evidence}
    if isinstance(reply, str):
        return told | {"left_out": reply}
    inside = reply.inside
    size, rest = int(inside.sum()), int((~inside).sum())
    return told | {
        "cpu_seconds": cpu,
        "wall_seconds": wall,
        "looked_at": reply.looked_at,
        "findings": reply.findings,
        "top": reply.top,
        "size": size,
        "rest": rest,
        "rate": float(favourable[inside].mean()) if size else None,
        "rest_rate": float(favourable[~inside].mean()) if rest else None,
    }
