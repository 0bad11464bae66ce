"""What checking every box of a certificate takes, beside making it: CPU seconds on one thread.

    python benchmarks/check_certificates.py                             GC-1, AC-2 and AC-5, 6,000 boxes
    python benchmarks/check_certificates.py AC-5 --boxes 100000         another number of them
    python benchmarks/check_certificates.py GC-1 --boxes 1000000 --sample 20000     projected from so many draws

Compiling is not counted. The networks are those that ``make reproduce PAPER=fairquant`` certifies.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

from evenhand import certification, checker

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from reproductions.fairquant import load_network


def main() -> None:
    """Measure and show."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("names", nargs="*", default=["GC-1", "AC-2", "AC-5"], metavar="NETWORK")
    parser.add_argument("--boxes", type=int, default=6000, metavar="N", help="boxes to make (default 6,000)")
    parser.add_argument("--sample", type=int, metavar="N", help="check so many draws and project, instead of all boxes")
    options = parser.parse_args()
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    for name in options.names:
        model = load_network(name)
        with tempfile.TemporaryDirectory() as place:
            path = Path(place) / "boxes.cert"
            # Once for the compiler.
            certification.certify(model, certificate=path, max_boxes=300, jobs=1, samples=10)
            checker.check_certificate(path, model)
            started = time.process_time()
            certification.certify(model, certificate=path, max_boxes=options.boxes, jobs=1, samples=10)
            made = time.process_time() - started
            started = time.process_time()
            found = checker.check_certificate(path, model, sample=options.sample, seed=1)
            checked = time.process_time() - started
            print(
                f"{name}: {found.boxes:,} boxes made in {made:.2f} s; {found.checked:,} "
                f"checked in {checked:.2f} s ({checked / made:.1f} times), "
                f"{found.failures} not confirmed"
                + ("" if options.sample is None else f"; {1000 * checked / found.checked:.2f} ms a box, drawn by mass")
            )


if __name__ == "__main__":
    main()
