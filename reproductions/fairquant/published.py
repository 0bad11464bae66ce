"""What *FairQuant* (Kim, Wang and Wang, ICSE 2025) publishes in Tables I and II."""

from __future__ import annotations

from typing import NamedTuple


class PublishedShares(NamedTuple):
    """What a tool reached on a network, as Table II prints it.

    Attributes:
        time: as printed: seconds, minutes, ``T/O`` for out of time, ``M/O`` for out of memory.
        counterexamples: how many it counted.
        certified, falsified, undecided: percent of the domain.
    """

    time: str
    counterexamples: int
    certified: float
    falsified: float
    undecided: float

    @property
    def seconds(self) -> float | None:
        """The printed time in seconds; None without one."""
        scale = {"s": 1.0, "m": 60.0}.get(self.time[-1])
        return None if scale is None else scale * float(self.time[:-1])


class PublishedNetwork(NamedTuple):
    """A row of Tables I and II.

    Attributes:
        name: of the network.
        layers, neurons: how many hidden ones.
        accuracy: in percent.
        fairify, fairquant: what the two tools reached.
    """

    name: str
    layers: int
    neurons: int
    accuracy: float
    fairify: PublishedShares
    fairquant: PublishedShares


def _shares(text: str) -> PublishedShares:
    time, counterexamples, *shares = text.split()
    certified, falsified, undecided = map(float, shares)
    return PublishedShares(time, int(counterexamples), certified, falsified, undecided)


def _network(line: str) -> PublishedNetwork:
    name, layers, neurons, accuracy, fairify, fairquant = (part.strip() for part in line.split("|"))
    return PublishedNetwork(name, int(layers), int(neurons), float(accuracy), _shares(fairify), _shares(fairquant))


NETWORKS = tuple(
    map(
        _network,
        """BM-1     |  2 |    80 | 89.20 | 30m 11 10.00 0 90.00     | 4.82s 2820 94.23 0 5.76
        BM-2     |  2 |    48 | 88.76 | 31m 28 16.07 0 83.93     | 3.23s 2479 93.41 0 6.58
        BM-3     |  1 |   100 | 88.22 | 31m 27 19.60 0 81.40     | 1.21s 1864 95.69 0 4.30
        BM-4     |  3 |   300 | 89.55 | 35m 4 3.72 0 96.18       | 71.12s 5135 87.03 0 12.96
        BM-5     |  2 |    32 | 88.90 | 23m 114 77.25 0 22.75    | 1.03s 1474 96.27 0 3.72
        BM-6     |  2 |    18 | 88.94 | 12m 155 69.41 0 30.59    | 0.44s 1426 96.44 0 3.55
        BM-7     |  2 |   128 | 88.70 | 30m 57 9.41 0 90.59      | 12.26s 7017 83.65 0 16.34
        BM-8     |  5 |   124 | 89.20 | 30m 1 0.98 0 99.02       | 18.99s 3074 90.75 0 9.24
        GC-1     |  1 |    50 | 72.67 | 32m 22 0 0 100           | 9.73s 31585 32.67 0 67.33
        GC-2     |  1 |   100 | 74.67 | 33m 6 0 0 100            | 31.72s 32655 42.21 0 57.79
        GC-3     |  1 |     9 | 75.33 | 8m 194 2.98 0 97.02      | 6.77s 25963 58.44 0 41.55
        GC-4     |  2 |    10 | 70.67 | 4m 2 99.00 0 1.00        | 0.29s 77 99.65 0 0.34
        GC-5     |  5 |   124 | 69.33 | 30m 0 0 0 100            | 1.24s 9 99.80 0 0.19
        AC-1     |  2 |    24 | 85.24 | 32m 3 0.03 0 99.97       | 3.23s 6151 90.68 0 9.31
        AC-2     |  1 |   100 | 84.70 | 31m 9 0.01 0 99.99       | 30.04s 13008 79.93 0 20.06
        AC-3     |  1 |    50 | 84.52 | 32m 20 0 0 100           | 37.12s 60494 33.29 0 66.70
        AC-4     |  2 |   200 | 84.86 | 36m 0 0 0 100            | 8m 61324 24.79 0 75.20
        AC-5     |  2 |   128 | 85.19 | 33m 0 0 0 100            | 4m 71012 19.12 0 80.87
        AC-6     |  2 |    24 | 84.77 | 33m 4 0.01 0 99.99       | 10.20s 31593 58.82 0 41.17
        AC-7     |  5 |   124 | 84.85 | 30m 0 0.01 0 99.99       | 4m 25588 31.72 0 68.27
        AC-8     |  2 |    10 | 82.15 | 30m 39 0.03 0 99.97      | 11.18s 26179 66.50 0 33.49
        AC-9     |  4 |    12 | 81.22 | 30m 126 0.64 0 99.36     | 3.50s 5470 91.13 0 8.86
        AC-10    |  4 |    20 | 78.56 | 32m 8 0.03 0 99.97       | 5.01s 9033 87.65 0 12.34
        AC-11    |  4 |    40 | 79.25 | 30m 0 0 0 100            | 36.44s 24516 58.01 0 41.98
        AC-12    |  9 |    45 | 81.46 | 30m 0 0.02 0 99.98       | 0.91s 8824 70.82 0 29.17
        compas-1 |  2 |    24 | 73.46 | 17m 2 80.00 0.32 19.68   | 0.01s 17 97.27 2.72 0
        compas-2 |  5 |   124 | 72.82 | 31m 0 0 0 100            | 0.01s 15 97.59 2.40 0
        compas-3 |  3 |   600 | 72.98 | 30m 0 0 0 100            | 0.30s 12 98.07 1.92 0
        compas-4 |  9 |    90 | 72.98 | 30m 0 0 0 100            | 0.01s 14 97.75 2.24 0
        compas-5 | 10 |  2000 | 72.01 | T/O 0 0 0 100            | 5.24s 11 98.23 1.76 0
        compas-6 |  4 |  4000 | 73.95 | M/O 0 0 0 100            | 9.19s 12 98.07 1.92 0
        compas-7 | 10 | 10000 | 72.49 | M/O 0 0 0 100            | 101.25s 15 97.59 2.40 0""".splitlines(),
    )
)
"""Name | hidden layers | hidden neurons | accuracy, from Table I | Fairify | FairQuant, from Table II: time,
counterexamples, certified, falsified, undecided."""

INPUTS = {"BM": 16, "GC": 20, "AC": 13, "compas": 6}
"""Inputs of a network (Table I), by the beginning of its name."""

TOOL_SECONDS = {
    "BM-1": 2.47,
    "BM-3": 0.67,
    "BM-4": 28.86,
    "BM-5": 0.55,
    "BM-6": 0.13,
    "BM-7": 6.31,
    "BM-8": 8.72,
    "GC-1": 5.52,
    "GC-2": 17.01,
    "GC-4": 0.07,
    "GC-5": 0.41,
    "AC-1": 1.22,
    "AC-2": 15.84,
    "AC-4": 174.57,
    "AC-5": 90.48,
    "AC-6": 3.34,
    "AC-7": 102.47,
    "AC-8": 4.59,
    "AC-10": 1.92,
    "AC-11": 18.19,
    "AC-12": 0.44,
    "compas-1": 0.0,
    "compas-2": 0.0,
    "compas-3": 0.13,
}
"""Processor seconds of the published tool: its C source, ``gcc -O3``, one thread, run by us on a two-core machine."""

RIGHT_DOMAIN = {
    "BM-1": (7.75, PublishedShares("", 0, 86.41, 0.0, 13.58)),
    "BM-3": (3.02, PublishedShares("", 0, 91.55, 0.0, 8.44)),
    "BM-4": (52.86, PublishedShares("", 0, 83.64, 0.0, 16.35)),
    "BM-5": (3.16, PublishedShares("", 0, 88.36, 0.0, 11.63)),
    "BM-6": (2.36, PublishedShares("", 0, 86.57, 0.0, 13.42)),
    "BM-7": (0.9, PublishedShares("", 0, 73.41, 0.0, 26.58)),
    "BM-8": (24.69, PublishedShares("", 0, 76.28, 0.0, 23.71)),
}
"""Processor seconds and shares of the published tool on the Bank domain that was meant, run by us in the same way."""
