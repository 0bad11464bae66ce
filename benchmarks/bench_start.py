"""How long it takes until Evenhand can begin: as a ratio to `import numpy`, in the same run on the same machine."""

import statistics
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROUNDS = 15

CASES = {
    "import": [sys.executable, "-c", "import evenhand"],
    "help": [str(Path(sys.executable).with_name("evenhand")), "--help"],
}


def seconds(command: list[str]) -> float:
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


@pytest.mark.parametrize("case", CASES)
def test_start(benchmark, case):
    """Beyond the bare interpreter, importing evenhand must cost no more than importing NumPy does."""
    bare, numpy = [], []

    def before():
        # Taken in turns, so that a busy moment of the machine hits all three alike.
        bare.append(seconds([sys.executable, "-c", "pass"]))
        numpy.append(seconds([sys.executable, "-c", "import numpy"]))

    benchmark.pedantic(seconds, args=(CASES[case],), setup=before, rounds=ROUNDS, warmup_rounds=1)
    python, baseline = statistics.median(bare), statistics.median(numpy)
    evenhand = benchmark.stats.stats.median
    benchmark.extra_info |= {
        "python_seconds": python,
        "numpy_seconds": baseline,
        "beyond_python": evenhand - python,
        "ratio_to_numpy": evenhand / baseline,
    }
    print(f"\n{case}: {evenhand:.3f} s; bare Python {python:.3f} s; import numpy {baseline:.3f} s")
    if case == "import":
        assert evenhand - python <= baseline - python
