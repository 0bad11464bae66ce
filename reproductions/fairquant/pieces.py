"""The work behind the tables: each network certified by symbolic intervals and by linear bounds."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Literal

from evenhand.certification import CertifyConfig, certify
from evenhand.core import WorkClock
from evenhand.errors import DataError
from evenhand.models import AdditiveNetwork
from evenhand.typing import Progress
from reproductions.comparison import PieceContext, Values
from reproductions.fairquant.networks import family_of, load_network
from reproductions.fairquant.published import INPUTS, NETWORKS, RIGHT_DOMAIN, TOOL_SECONDS

TIMEOUT = 1800.0
"""Seconds after which the published runs end."""
LEAST_SECONDS, MOST_SECONDS = 2.0, 60.0
"""Processor seconds of linear bounds: as many as the published tool took, within these."""
QUICK_SECONDS = 1.5

Method = Literal["interval", "linear"]


def run_network(name: str, context: PieceContext, progress: Progress) -> Values:
    """Certify a network by both methods; a Bank network on the published bounds, and on those that were meant.

    Raises:
        DataError: the network is not here.
    """
    bank = family_of(name) == "BM"
    tool = {"as published": TOOL_SECONDS.get(name, LEAST_SECONDS)}
    if bank and name in RIGHT_DOMAIN:
        tool["as meant"] = RIGHT_DOMAIN[name][0]
    methods: tuple[Method, ...] = ("interval", "linear")
    found: Values = {}
    for domain, seconds in tool.items():
        network = load_network(name, context.data_home, faulty_bank=bank and domain == "as published")
        limit = min(max(seconds, LEAST_SECONDS), MOST_SECONDS)
        for method in methods:
            progress(f"{name}, bounds {domain}: {method}", 0.5 * (domain == "as meant") + 0.25 * (method == "linear"))
            limits = {"interval": TIMEOUT, "linear": limit}
            allowed = QUICK_SECONDS if context.quick else limits[method]
            found[f"{domain}, {method}"] = prove(network, method, allowed, context.seed)
    return found


def prove(network: AdditiveNetwork, method: Method, seconds: float, seed: int) -> Values:
    """Return what a method proves in so many processor seconds on one thread, compiling not counted.

    By the default method, everybody is asked where the domain is small enough.

    Raises:
        KeyboardInterrupt: somebody stopped it; what was proved by then is no figure to compare.
    """
    enumeration = method == "linear"
    config = CertifyConfig(method=method, enumeration=enumeration, jobs=1, seed=seed)
    for small in ({"max_boxes": 500}, {"time_limit": 0.1}) if seconds > 1 else ():
        certify(network, config, samples=100, **small)
    clock = WorkClock(seconds=time.process_time)
    result = certify(network, config, time_limit=seconds, clock=clock)
    if result.stopped_by == "interrupt":
        raise KeyboardInterrupt
    return {
        "certified": result.certified,
        "falsified": result.falsified,
        "undecided": result.undecided,
        "unfair": [result.estimate.low, result.estimate.high],
        "counterexamples": len(result.counterexamples),
        "boxes": result.boxes,
        "cpu_seconds": round(result.cpu_seconds, 2),
        "method": result.method,
        "stopped_by": result.stopped_by,
    }


def run_sizes(context: PieceContext, progress: Progress) -> Values:
    """Return the inputs, hidden layers and hidden neurons of every network that is here, and why others are not."""
    found: Values = {}
    for i, network in enumerate(NETWORKS):
        progress(f"sizes: {network.name}", i / len(NETWORKS))
        found[network.name] = _sizes(network.name, context.data_home)
    return found


def _sizes(name: str, home: Path | None) -> Values:
    try:
        network = load_network(name, home)
    except DataError as error:
        return {"missing": str(error)}
    hidden = [len(network.bias), *(len(layer.bias) for layer in network.layers[:-1])]
    return {"inputs": INPUTS[family_of(name)], "hidden layers": len(hidden), "hidden neurons": sum(hidden)}
