"""The paper's tables and drawings, from what was proved about its networks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import numpy as np

from reproductions.comparison import (
    ComparedFigure,
    ComparedTable,
    OwnFigure,
    Paper,
    Piece,
    PublishedTable,
    Values,
    Verdict,
    judge,
    summarize_verdicts,
)
from reproductions.fairquant.example import INTERVALS, PARTITIONS, run_example
from reproductions.fairquant.networks import family_of
from reproductions.fairquant.pieces import run_network, run_sizes
from reproductions.fairquant.published import (
    INPUTS,
    NETWORKS,
    RIGHT_DOMAIN,
    TOOL_SECONDS,
    PublishedNetwork,
    PublishedShares,
)

Found = Mapping[str, Values]

SHARES = {"certified": "higher", "falsified": "higher", "undecided": "lower"}
"""Share of the domain -> which way is better."""
PRINTED = 0.011
"""Percentage points: published shares have two digits, and are cut off, not rounded."""

MISSING = "Not run: the network is neither bundled nor in the data folder, or its piece of the work was not done."
SPLIT_ON = (
    "The published tool gives a box up once one of its ten probe points discriminates, and most of these lie outside "
    "the box; ours splits it further."
)
LOOKED_INSIDE = "Ours looks in the middle of boxes and in a sample, inside the domain only."
TIME_UP = "The time was up before all boxes were looked at."
SLACK = "Ours leaves room for rounding in float32, so that a few boxes more stay undecided."
MACHINE = "Seconds of another machine; ours are processor seconds of one thread, measured."
COUNTED = (
    "Published are boxes in which a probe discriminates, on or off the domain; ours are distinct people of the domain, "
    "asked again, 100 at most."
)
NOT_RUN = "Fairify was not run, as it asks an SMT solver for 30 minutes; its published figure stands beside ours."
WRONG_ORDER = (
    "The published runs took the bounds of the columns in another order than the network's inputs. For the intended "
    "Bank domain there is no published figure; the published tool, run by us, takes its place."
)
ACCURACY = "Taken from the paper on Fairify, whose split of the data is not published."


def _verdict(figures: Sequence[ComparedFigure]) -> Verdict:
    return summarize_verdicts([figure.verdict for figure in figures])


def compare_sizes(values: Found) -> ComparedTable:
    """Compare Table I with the networks that are here."""
    sizes = values.get("sizes", {})
    figures = []
    for measure in ("inputs", "hidden layers", "hidden neurons"):
        for network in NETWORKS:
            numbers = {
                "inputs": INPUTS[family_of(network.name)],
                "hidden layers": network.layers,
                "hidden neurons": network.neurons,
            }
            counted = sizes.get(network.name, {}).get(measure)
            figures.append(
                ComparedFigure(
                    row=network.name,
                    measure=measure,
                    published=numbers[measure],
                    ours=None if counted is None else OwnFigure(value=counted, kind="measured"),
                    verdict="not compared" if counted is None else judge(numbers[measure], counted),
                    because=MISSING if counted is None else "",
                )
            )
    figures += [
        ComparedFigure(
            row=network.name, measure="accuracy", unit="%", published=network.accuracy, verdict="not compared",
            because=ACCURACY,
        )
        for network in NETWORKS
    ]  # fmt: skip
    return ComparedTable(
        number="Table I",
        title="Networks and their data",
        text="Sizes are counted in the networks that are here.",
        figures=tuple(figures),
        verdict=_verdict(figures),
    )


def compare_networks(values: Found) -> ComparedTable:
    """Compare Table II: what is certified, falsified and undecided, and how long it took."""
    figures = [
        *(figure for measure in SHARES for network in NETWORKS for figure in [_share(network, measure, values)]),
        *(_found_any(network, values) for network in NETWORKS),
        *(_counterexamples(network, values) for network in NETWORKS),
        *(_time(network, values) for network in NETWORKS),
        *_time_order(values),
        *(_right_domain(name, measure, values) for measure in SHARES for name in RIGHT_DOMAIN),
        *(_fairify_share(network, measure, values) for measure in SHARES for network in NETWORKS),
        *(_fairify_effort(network, what) for what in ("counterexamples", "time") for network in NETWORKS),
    ]
    runs = [run for found in values.values() for run in found.values() if "undecided" in run]
    crossed = sum(_count_contradictions(found) for found in values.values())
    text = (
        "By the published method: symbolic intervals, depth first, at most 20 splits. By Evenhand's method: linear "
        "bounds, best first, for as many processor seconds as the published tool took on one thread, 2 to 60; the "
        "domains of compas are so small that the network is asked about everyone. Bank networks are certified on the "
        "published bounds, which are in the wrong order, and on the intended ones. "
        f"In {crossed} of {len(runs)} runs a proved share contradicts the estimate that "
        " the other method makes from a sample, with 99 % confidence each."
    )
    return ComparedTable(
        number="Table II",
        title="Certified, falsified and undecided: Fairify and FairQuant",
        text=text,
        figures=tuple(figures),
        verdict=_verdict(figures),
        because=_summary(figures),
    )


def compare_drawn(values: Found) -> ComparedTable:
    """Compare Figure 5: time and undecided share of the networks on which both tools finished."""
    figures = []
    for place, network in enumerate(NETWORKS, 1):
        if network.fairify.seconds is None:
            continue
        for tool, shares in (("FairQuant", network.fairquant), ("Fairify", network.fairify)):
            own = tool == "FairQuant"
            time = _time(network, values) if own else _fairify_effort(network, "time")
            share = _share(network, "undecided", values)
            if not own:
                share = ComparedFigure(
                    row=tool, measure="undecided", unit="%", published=shares.undecided, verdict="not compared",
                    because=NOT_RUN,
                )  # fmt: skip
            figures += [
                figure.model_copy(update={"row": tool, "at": float(place), "measure": measure})
                for measure, figure in (("time", time), ("undecided", share))
            ]
    figures.sort(key=lambda figure: figure.measure)
    return ComparedTable(
        number="Figure 5",
        title="Time and undecided share of Fairify and FairQuant",
        text="The drawing's numbers are those of Table II, in its order; 14 to 25 are the networks of Adult.",
        figures=tuple(figures),
        verdict=_verdict(figures),
        because=_summary(figures),
        horizontal="network, by its place in Table II",
    )


def compare_intervals(values: Found) -> ComparedTable:
    """Compare Figure 2: between which values the nodes of the running example are."""
    found = values.get("example")
    figures = []
    for end, measure in enumerate(("at least", "at most")):
        for node, bounds in INTERVALS.items():
            ours = None if found is None else found["symbolic"][node][end]
            figures.append(
                ComparedFigure(
                    row=node,
                    measure=measure,
                    published=bounds[end],
                    ours=None if ours is None else OwnFigure(value=round(ours, 6), kind="proved"),
                    default=None
                    if found is None
                    else OwnFigure(value=round(found["exact"][node][end], 6), kind="proved", basis="by asking all"),
                    verdict="not compared" if ours is None else judge(bounds[end], ours, within=0.005),
                    because="The piece was not done." if ours is None else "",
                )
            )
    return ComparedTable(
        number="Figure 2",
        title="Symbolic intervals of the running example",
        text="By the default method, which asks all 30 people of so small a domain, the bounds are exact.",
        figures=tuple(figures),
        verdict=_verdict(figures),
    )


def compare_partitions(values: Found) -> ComparedTable:
    """Compare Figure 3: how much each partition of the running example certifies as one box."""
    found = values.get("example")
    figures = []
    for name, (_, published) in PARTITIONS.items():
        ours = None if found is None else found["certified"][name]
        figures.append(
            ComparedFigure(
                row=name,
                measure="certified without a further split",
                unit="%",
                published=published,
                ours=None if ours is None else OwnFigure(value=round(ours["interval"], 6), kind="proved"),
                default=None if ours is None else OwnFigure(value=round(ours["linear"], 6), kind="proved"),
                verdict="not compared" if ours is None else judge(published, ours["interval"], within=1e-6),
                because="The piece was not done." if ours is None else "",
            )
        )
    return ComparedTable(
        number="Figure 3",
        title="Refinement of the running example",
        text="Percent of all 30 people. Linear bounds count the part of a box that they certify, so that they need no "
        "split to certify the 80 % that are treated fairly.",
        figures=tuple(figures),
        verdict=_verdict(figures),
    )


def state_reason(number: str, title: str, why: str, values: Found) -> ComparedTable:
    """Return a drawing that has nothing to compare."""
    return ComparedTable(number=number, title=title, verdict="not compared", because=why)


def _runs(name: str, values: Found, domain: str = "as published") -> tuple[Values, Values] | None:
    """Return what symbolic intervals and the default method found, where they were run."""
    found = values.get(name, {})
    runs = found.get(f"{domain}, interval"), found.get(f"{domain}, linear")
    return None if runs[0] is None or runs[1] is None else (runs[0], runs[1])


def _proved_figure(run: Values, measure: str) -> OwnFigure:
    stopped = {"time": "time limit reached", "depth": "20 splits"}.get(run["stopped_by"], "complete")
    return OwnFigure(
        value=round(100 * run[measure], 4), kind="proved", basis=f"{run['cpu_seconds']:g} CPU s, {stopped}"
    )


def _share(network: PublishedNetwork, measure: str, values: Found) -> ComparedFigure:
    published = float(getattr(network.fairquant, measure))
    given = {"row": network.name, "measure": measure, "unit": "%", "published": published}
    runs = _runs(network.name, values)
    if runs is None:
        return ComparedFigure(**given, verdict="not compared", because=MISSING)
    ours, default = (_proved_figure(run, measure) for run in runs)
    verdict = judge(published, ours.value, better=SHARES[measure], within=PRINTED)
    because = {"better": SPLIT_ON, "differs": SLACK if runs[0]["stopped_by"] != "time" else TIME_UP}.get(verdict, "")
    return ComparedFigure(**given, ours=ours, default=default, verdict=verdict, because=because)


def _found_any(network: PublishedNetwork, values: Found) -> ComparedFigure:
    runs = _runs(network.name, values)
    given = {"row": network.name, "measure": "a counterexample was found (1) or not (0)"}
    published = float(network.fairquant.counterexamples > 0)
    if runs is None:
        return ComparedFigure(**given, published=published, verdict="not compared", because=MISSING)
    ours, default = (OwnFigure(value=float(run["counterexamples"] > 0), kind="observed") for run in runs)
    verdict = judge(published, max(ours.value, default.value))
    because = "" if verdict == "agrees" else LOOKED_INSIDE
    return ComparedFigure(**given, published=published, ours=ours, default=default, verdict=verdict, because=because)


def _counterexamples(network: PublishedNetwork, values: Found) -> ComparedFigure:
    runs = _runs(network.name, values)
    ours, default = (
        (None, None) if runs is None else [OwnFigure(value=run["counterexamples"], kind="observed") for run in runs]
    )
    return ComparedFigure(
        row=network.name, measure="counterexamples", published=network.fairquant.counterexamples, ours=ours,
        default=default, verdict="not compared", because=MISSING if runs is None else COUNTED,
    )  # fmt: skip


def _time(network: PublishedNetwork, values: Found) -> ComparedFigure:
    runs = _runs(network.name, values)
    ours, default = (
        (None, None) if runs is None else [OwnFigure(value=run["cpu_seconds"], kind="measured") for run in runs]
    )
    return ComparedFigure(
        row=network.name, measure="time", unit="s", published=network.fairquant.seconds,
        published_text=network.fairquant.time, ours=ours, default=default, verdict="not compared",
        because=MISSING if runs is None else MACHINE,
    )  # fmt: skip


def _time_order(values: Found) -> Iterator[ComparedFigure]:
    """Yield whether the published method takes long where it is published to take long: Spearman's correlation."""
    pairs = [
        (network.fairquant.seconds, runs[0]["cpu_seconds"])
        for network in NETWORKS
        if (runs := _runs(network.name, values)) is not None and network.name in TOOL_SECONDS
    ]
    if len(pairs) < 5:
        return
    ranks = [np.argsort(np.argsort(column)) for column in np.array(pairs, dtype=float).T]
    # Spearman's rank correlation: 1 - 6 sum(d^2) / (n (n^2 - 1)), d being the differences of ranks.
    squares = float(((ranks[0] - ranks[1]) ** 2).sum())
    correlation = 1 - 6 * squares / (len(pairs) * (len(pairs) ** 2 - 1))
    yield ComparedFigure(
        row=f"{len(pairs)} networks",
        measure="rank correlation of our times with the published ones",
        ours=OwnFigure(value=round(correlation, 3), kind="measured"),
        verdict="agrees" if correlation > 0.8 else "differs",
        because="Above 0.8, the same networks take long.",
    )


def _right_domain(name: str, measure: str, values: Found) -> ComparedFigure:
    shares: PublishedShares = RIGHT_DOMAIN[name][1]
    runs = _runs(name, values, "as meant")
    ours, default = (None, None) if runs is None else [_proved_figure(run, measure) for run in runs]
    return ComparedFigure(
        row=name, measure=f"{measure}, on the Bank domain that was meant", unit="%",
        published_text=f"{getattr(shares, measure):g} (the tool, run by us)", ours=ours, default=default,
        verdict="not compared", because=MISSING if runs is None else WRONG_ORDER,
    )  # fmt: skip


def _fairify_share(network: PublishedNetwork, measure: str, values: Found) -> ComparedFigure:
    published = float(getattr(network.fairify, measure))
    given = {"row": network.name, "measure": f"{measure}, by Fairify", "unit": "%", "published": published}
    runs = _runs(network.name, values)
    if runs is None:
        return ComparedFigure(**given, verdict="not compared", because=MISSING)
    ours, default = (_proved_figure(run, measure) for run in runs)
    verdict = judge(published, ours.value, better=SHARES[measure], within=PRINTED)
    return ComparedFigure(**given, ours=ours, default=default, verdict=verdict, because=NOT_RUN)


def _fairify_effort(network: PublishedNetwork, what: str) -> ComparedFigure:
    time = what == "time"
    return ComparedFigure(
        row=network.name,
        measure=f"{what}, by Fairify",
        unit="s" if time else "",
        published=network.fairify.seconds if time else network.fairify.counterexamples,
        published_text=network.fairify.time if time else "",
        verdict="not compared",
        because=NOT_RUN,
    )


def _count_contradictions(found: Values) -> int:
    """Count the runs on a network that prove more than the estimate of the other method allows."""
    many = 0
    for domain in ("as published", "as meant"):
        runs = found.get(f"{domain}, interval"), found.get(f"{domain}, linear")
        for one, other in (runs, runs[::-1]):
            if one is not None and other is not None:
                low, high = other["unfair"]
                many += one["falsified"] > high or one["certified"] > 1 - low
    return many


def _summary(figures: Sequence[ComparedFigure]) -> str:
    """Return how the undecided shares compare, in a sentence."""
    shares = [
        figure for figure in figures
        if figure.measure == "undecided" and figure.row != "Fairify" and figure.ours and figure.default
    ]  # fmt: skip
    if not shares:
        return MISSING
    less = sum(figure.verdict == "better" for figure in shares)
    same = sum(figure.verdict == "agrees" for figure in shares)
    default = sum(
        figure.default.value <= (figure.published or 0.0) + PRINTED for figure in shares if figure.default is not None
    )
    return (
        f"Of the {len(shares)} networks that are here, the published method leaves {less} less undecided than "
        f"published, because our version splits boxes further, {same} as much and {len(shares) - less - same} more; "
        f"the default method leaves {default} no more undecided."
    )


MINUTES = {
    "AC-2": 0.4, "AC-4": 3.2, "AC-5": 1.9, "AC-7": 2.0, "AC-11": 0.5, "BM-1": 0.4, "BM-4": 2.8, "BM-8": 1.0,
    "GC-1": 0.2, "GC-2": 0.4, "BM-7": 0.3,
}  # fmt: skip
"""About how long a network takes on one core; the others a tenth of a minute."""
NEEDED = "networks that are not bundled: GC-3, AC-3, AC-9, BM-2, compas-1 to 7"
OTHERS = ("Table II", "Figure 5")

PAPER = Paper(
    name="fairquant",
    title="FairQuant: Certifying and Quantifying Fairness of Deep Neural Networks",
    published_in="Kim, Wang and Wang, ICSE 2025",
    tables=(
        PublishedTable(
            "Figure 1", "How the method works",
            partial(state_reason, "Figure 1", "How the method works", "It draws the steps of the method."),
        ),
        PublishedTable("Figure 2", "Symbolic intervals of the running example", compare_intervals),
        PublishedTable("Figure 3", "Refinement of the running example", compare_partitions),
        PublishedTable(
            "Figure 4", "When a partition is fair or unfair",
            partial(
                state_reason, "Figure 4", "When a partition is fair or unfair",
                "It draws four conditions, without data; the published method tests the same ones.",
            ),
        ),
        PublishedTable("Table I", "Networks and their data", compare_sizes, NEEDED),
        PublishedTable("Table II", "Certified, falsified, undecided: Fairify and FairQuant", compare_networks, NEEDED),
        PublishedTable("Figure 5", "Time and undecided share of Fairify and FairQuant", compare_drawn, NEEDED),
    ),
    pieces=(
        Piece("example", ("Figure 2", "Figure 3"), run_example, 0.05, 0.05),
        Piece("sizes", ("Table I",), run_sizes, 0.02, 0.02),
        *(
            Piece(
                network.name,
                OTHERS,
                partial(run_network, network.name),
                MINUTES.get(network.name, 0.1),
                0.11 if network.name in RIGHT_DOMAIN else 0.05 if network.name in TOOL_SECONDS else 0.01,
            )
            for network in NETWORKS
        ),
    ),
)  # fmt: skip
