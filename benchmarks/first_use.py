"""What the first use of a command costs, and every later one: time, imports, memory, beside the last committed figures.

    python benchmarks/first_use.py                 all commands, cold and warm, medians of several runs
    python benchmarks/first_use.py --quick         fewer commands, once each, as in continuous integration
    python benchmarks/first_use.py --only audit    only what has this in its name
    python benchmarks/first_use.py --check         exit code 1 if anything costs 1.5 times its committed figure
    python benchmarks/first_use.py --save          commit these figures: they are written to benchmarks/first_use.json

Cold: home directory and ``NUMBA_CACHE_DIR`` are empty. Warm: the same command again in the same home, after one run
that only counts imports. Processor seconds are user and system time of the command and its children. The *ratio*
divides them by the processor seconds of a fixed loop of plain Python that runs right before and after the command, so
that the speed of the machine cancels out. --check compares ratios and peak memory, and measures again what costs
too much; seconds by the clock are only shown, since they depend on what else the machine does. Commands get two
processors, where that can be chosen.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import os
import platform
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias

FIGURES = Path(__file__).with_suffix(".json")
EVENHAND = str(Path(sys.executable).with_name("evenhand"))
ALLOWED = 1.5
"""How many times a committed figure is too much."""
NOISE = {"ratio": 0.5, "megabytes": 5.0}
"""By how much a figure may grow anyway: the start of a process takes a hundredth of a second more or less."""
COMPARED = tuple(NOISE)
TRIES = 3
"""How often what costs too much is measured again before it is believed."""

Figures: TypeAlias = dict[str, float]

PEOPLE = ("network.npz", "people.csv", "--schema", "people.yaml")

CASES: dict[str, Sequence[str]] = {
    "import": [sys.executable, "-c", "import evenhand"],
    "help": [EVENHAND, "--help"],
    "audit": [EVENHAND, "audit", "--example", "adult", "--out", "report"],
    "certify": [EVENHAND, "certify", *PEOPLE[:1], *PEOPLE[2:], "--max-boxes", "20000"],
    "search": [EVENHAND, "search", *PEOPLE, "--budget", "4000", "--html", "search.html"],
    "subgroups": [EVENHAND, "subgroups", *PEOPLE, "--html", "subgroups.html"],
    "shield": [EVENHAND, "shield", "simulate", "--config", "shield.yaml", "--html", "shield.html"],
    "serve": [EVENHAND, "serve", "--port", "0"],
    "decisions": [sys.executable, "decisions.py"],
    **{f"{columns} columns": [sys.executable, "wide.py", str(columns), "6", "2"] for columns in (10, 50, 200, 500)},
    "5,000 categories": [sys.executable, "wide.py", "10", "5000", "2"],
    "200 groups": [sys.executable, "wide.py", "10", "6", "200"],
}

QUICK = ("import", "help", "certify", "serve", "decisions", "50 columns", "5,000 categories", "200 groups")
"""Cases of ``--quick``: what is loaded first, the largest kernels, the service, and audits: the smallest, and those of
tables with many columns, categories or groups."""
SHORT = ("import", "help")
"""Too short to compile anything, so there is nothing to be cold; and they are run five times as often."""

SERVED = (
    ("/v1/shields/loans/decisions", {"id": "1", "group": "women", "recommendation": 0}),
    ("/v1/images/generations", {"model": "studio", "prompt": "a leader"}),
)
"""What the service's demonstration is asked, before it is told to stop."""

SCHEMA = """\
target: {name: hired, favourable: "yes", values: ["no", "yes"]}
attributes:
  - {name: age, kind: integer, lower: 18, upper: 70, encoding: {offset: 40, scale: 20}}
  - {name: income, kind: real, lower: 0, upper: 100, encoding: {offset: 50, scale: 30}}
  - {name: debt, kind: real, lower: 0, upper: 50, encoding: {offset: 20, scale: 15}}
  - {name: hours, kind: integer, lower: 0, upper: 60, encoding: {offset: 30, scale: 20}}
  - {name: sex, kind: categorical, values: [f, m], protected: true, encoding: code}
  - {name: race, kind: categorical, values: [blue, green, red, white], protected: true, encoding: one-hot}
"""
SHIELD = """\
{property: demographic_parity, kappa: "0.1", horizon: 100, empty_group: min_count=10,
 groups: {a: {rate: 0.3, accept: 0.35}, b: {rate: 0.7, accept: 0.6}}}
"""
INPUTS = """\
import csv
import numpy as np

rng = np.random.default_rng(4)
sizes = [9, 16, 12, 1]
arrays = {}
for i, (inner, outer) in enumerate(zip(sizes, sizes[1:])):
    arrays[f"W{i}"] = (rng.normal(size=(inner, outer)) / np.sqrt(inner)).astype(np.float32)
    arrays[f"b{i}"] = (rng.normal(size=outer) / 4).astype(np.float32)
np.savez("network.npz", **arrays)
with open("people.csv", "w", newline="", encoding="utf-8") as file:
    table = csv.writer(file)
    table.writerow(["age", "income", "debt", "hours", "sex", "race", "hired"])
    for _ in range(4000):
        table.writerow([rng.integers(18, 71), round(rng.uniform(0, 100), 2), round(rng.uniform(0, 50), 2),
                        rng.integers(0, 61), rng.choice(["f", "m"]), rng.choice(["blue", "green", "red", "white"]),
                        rng.choice(["no", "yes"])])
"""

DECISIONS = """\
import evenhand

print(evenhand.audit_predictions(None, [0, 1, 1, 1] * 125, ["f", "m"] * 250))
"""
"""The smallest audit: its cost is fixed."""
WIDE = """\
import sys
import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
import evenhand

columns, categories, groups = map(int, sys.argv[1:])
rng, n = np.random.default_rng(0), 10_000
numbers = {f"number {i}": rng.normal(size=n).round(2) for i in range(columns // 2)}
words = {f"word {i}": [f"w{code}" for code in rng.integers(0, categories, n)] for i in range(2)}
words |= {f"word {i}": [f"w{code}" for code in rng.integers(0, 6, n)] for i in range(2, columns - columns // 2)}
words["group"] = [f"g{code}" for code in rng.integers(0, groups, n)]
people = pd.DataFrame(numbers | words)
hired = (people["number 0"] + (people["group"] == "g1") > 0.5).astype(int)
columns = make_column_transformer((StandardScaler(), list(numbers)), (OneHotEncoder(), list(words)))
model = make_pipeline(columns, LogisticRegression(max_iter=200)).fit(people, hired)
audit = evenhand.audit(model, people, hired, protected=["group"], max_boxes=1000)
assert not audit.not_run, audit.not_run
"""
"""An audit of a table with many columns, categories or groups."""


class Run(NamedTuple):
    """What one run of a command took."""

    processor: float
    clock: float
    ratio: float
    megabytes: float


def calibration() -> float:
    """Return the processor seconds of a fixed piece of work: plain Python, strings, sorting, compressing."""
    started = time.process_time()
    words: dict[str, int] = {}
    for i in range(400_000):
        word = f"{i * 2654435761 % 10_007:x}"
        words[word] = words.get(word, 0) + i % 7
    for _ in range(4):
        words = dict.fromkeys(sorted(words, key=lambda one: (words[one], one)), 1)
    zlib.compress("".join(words).encode() * 20, 6)
    for _ in range(30):
        compile("def f(a, b):\n" + "    a = a * b + (b - a) ** 2\n" * 200 + "    return a\n", "calibration", "exec")
    return time.process_time() - started


def measured(command: Sequence[str], folder: Path, environment: dict[str, str]) -> Run:
    """Run a command to its end, or the service until it has answered, and return what that took."""
    before = calibration()
    started = time.perf_counter()
    with (folder / "said").open("wb") as said:
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=said, stderr=said
        )
    clock = None
    if "serve" in command:
        ask_service(process, folder / "said")
        clock = time.perf_counter() - started
        process.send_signal(signal.SIGTERM)
    # wait4() alone tells what this one child used. A child's peak memory begins with its parent's, so this process is
    # kept small: nothing large is imported here.
    _, status, used = os.wait4(process.pid, 0)
    clock = clock or time.perf_counter() - started
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{' '.join(command)} ended with {process.returncode}:\n{(folder / 'said').read_text('utf-8')}")
    processor = used.ru_utime + used.ru_stime
    megabytes = used.ru_maxrss / (1e6 if sys.platform == "darwin" else 1e3)
    return Run(processor, clock, 2 * processor / (before + calibration()), megabytes)


def ask_service(process: subprocess.Popen[bytes], said: Path) -> None:
    """Wait until the service listens, and have it decide once and draw once."""
    while (found := re.search(r"http://[\d.]+:\d+", said.read_text("utf-8"))) is None:
        if process.poll() is not None:
            return
        time.sleep(0.05)
    for path, body in SERVED:
        body_text, kind = json.dumps(body).encode(), {"content-type": "application/json"}
        request = urllib.request.Request(found.group() + path, body_text, kind)
        with urllib.request.urlopen(request, timeout=300) as answer:
            answer.read()


def import_seconds(command: Sequence[str], folder: Path, environment: dict[str, str]) -> float:
    """Run a command once more and return the seconds that it spent on imports, by Python's own account."""
    measured(command, folder, environment | {"PYTHONPROFILEIMPORTTIME": "1"})
    lines = re.findall(rb"^import time:\s+(\d+) \|", (folder / "said").read_bytes(), re.MULTILINE)
    return sum(map(int, lines)) / 1e6


@contextlib.contextmanager
def empty_home() -> Iterator[tuple[Path, dict[str, str]]]:
    """Give a folder with what the commands read, and an environment in which nothing was ever compiled."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "people.yaml").write_text(SCHEMA, "utf-8")
        (folder / "shield.yaml").write_text(SHIELD, "utf-8")
        (folder / "decisions.py").write_text(DECISIONS, "utf-8")
        (folder / "wide.py").write_text(WIDE, "utf-8")
        subprocess.run([sys.executable, "-c", INPUTS], cwd=folder, check=True)
        places = {"HOME": str(folder / "home"), "NUMBA_CACHE_DIR": str(folder / "kernels"), "COLUMNS": "100"}
        (folder / "home").mkdir()
        yield folder, {name: value for name, value in os.environ.items() if name != "XDG_CACHE_HOME"} | places


def figures(runs: Sequence[Run]) -> Figures:
    """Return the medians of several runs."""

    def middle(values: Iterator[float]) -> float:
        return round(statistics.median(values), 3)

    return {
        "ratio": middle(run.ratio for run in runs),
        "processor_seconds": middle(run.processor for run in runs),
        "clock_seconds": middle(run.clock for run in runs),
        "megabytes": middle(run.megabytes for run in runs),
    }


def measure(names: Sequence[str], colds: int, warms: int) -> dict[str, Figures]:
    """Measure commands, cold and warm."""
    found: dict[str, Figures] = {}
    for name in names:
        command = CASES[name]
        if name == "serve" and importlib.util.find_spec("fastapi") is None:
            continue
        first, short = [], name in SHORT
        for left in range(1 if short else colds)[::-1]:
            with empty_home() as (folder, environment):
                if not short:
                    first.append(measured(command, folder, environment))
                if not left:
                    imports = import_seconds(command, folder, environment)
                    runs = 5 * warms if short else warms
                    later = [measured(command, folder, environment) for _ in range(runs)]
        if first:
            found[f"{name}, cold"] = figures(first)
        found[name if short else f"{name}, warm"] = figures(later) | {"import_seconds": round(imports, 3)}
    return found


def show(found: dict[str, Figures], last: dict[str, Figures]) -> list[str]:
    """Print what was found beside the last figures, and return what costs too much."""
    print(f"{'':<18}{'processor s':>20}{'clock s':>16}{'imports s':>16}{'MB':>14}{'ratio':>18}")
    excess = []
    for name, now in found.items():
        then = last.get(name, {})

        def pair(figure: str, places: int, now: Figures = now, then: Figures = then) -> str:
            if figure not in now:
                return ""
            return f"{now[figure]:.{places}f}" + (f" ({then[figure]:.{places}f})" if figure in then else "")

        print(
            f"{name:<18}{pair('processor_seconds', 2):>20}{pair('clock_seconds', 1):>16}"
            f"{pair('import_seconds', 2):>16}{pair('megabytes', 0):>14}{pair('ratio', 2):>18}"
        )
        excess += [
            f"{name}: {figure} {now[figure]:.2f}, {now[figure] / then[figure]:.2f} times the last {then[figure]:.2f}"
            for figure in COMPARED
            if figure in then and now[figure] > max(ALLOWED * then[figure], then[figure] + NOISE[figure])
        ]
    print("In brackets: the figures last committed. Ratio: processor seconds by those of the calibration.")
    return excess


def main() -> None:
    """Measure what the arguments ask for, and print, compare or save it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a few commands, one cold run and one warm")
    parser.add_argument("--only", default="", help="only commands whose name contains this")
    parser.add_argument("--check", action="store_true", help="leave with 1 if a figure is 1.5 times the committed one")
    parser.add_argument("--save", action="store_true", help="write the figures to benchmarks/first_use.json")
    given = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])
    names = [name for name in (QUICK if given.quick else CASES) if given.only in name]
    found = measure(names, *((1, 1) if given.quick else (3, 5)))
    last = json.loads(FIGURES.read_text("utf-8"))["commands"] if FIGURES.exists() else {}
    excess = show(found, last)
    if given.save:
        machine = {"python": platform.python_version(), "calibration_seconds": round(calibration(), 3)}
        FIGURES.write_text(
            json.dumps({**machine, "commands": last | found if given.only else found}, indent=1) + "\n", "utf-8"
        )
    for _ in range(TRIES if given.check else 0):
        if not excess:
            break
        print("\nOnce more, as a busy machine may have been slow for a moment:")
        names = [name for name in CASES if any(re.match(rf"{name}[,:]", line) for line in excess)]
        excess = show(measure(names, 1, 2), last)
    if given.check and excess:
        sys.exit("\n".join(["", "More than before:", *excess]))


if __name__ == "__main__":
    main()
