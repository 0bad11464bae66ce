"""What an audit of many rows costs: CPU seconds, and the peak of memory of the process that does it.

    .venv/bin/python benchmarks/rows.py [ROWS ...] [--folder FOLDER] [--keep] [--dossier selection|score]

Decisions of made-up people, eight columns, are written as Parquet files of ten million rows each, every file of other
random numbers, into a temporary folder (1 GB for a hundred million rows). Then
``evenhand audit-decisions FOLDER --decision ...`` runs as a process of its own; or ``evenhand dossier FOLDER``, of
decisions or of scores.
"""

import argparse
import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet

FILE = 10_000_000
CHUNK = 1_000_000
WORDS = {"sex": ["female", "male"], "race": ["a", "b", "c", "d", "e"], "region": [f"region {i}" for i in range(12)]}


def make_chunk(rows, seed):
    """Decisions by a score that knows what is asked for, and a little of who asks."""
    rng = np.random.default_rng(seed)
    codes = {name: rng.integers(0, len(words), rows, dtype=np.int8) for name, words in WORDS.items()}
    age = rng.integers(18, 90, rows, dtype=np.int16)
    amount = rng.integers(1, 500, rows, dtype=np.int16)
    score = rng.random(rows, dtype=np.float32) * 0.8 + 0.1 * codes["sex"] + 0.02 * codes["race"]
    score = np.clip(score, 0, 1).astype(np.float64)
    label = (rng.random(rows, dtype=np.float32) < score).astype(np.int8)
    columns = {name: pa.DictionaryArray.from_arrays(pa.array(code), WORDS[name]) for name, code in codes.items()}
    return pa.table(
        columns
        | {"age": age, "amount": amount, "score": score, "selected": (score > 0.55).astype(np.int8), "repaid": label}
    )


def make_files(folder, rows):
    for first in range(0, rows, FILE):
        path, many = folder / f"part-{first // FILE:03}.parquet", min(FILE, rows - first)
        if path.exists() and parquet.ParquetFile(path).metadata.num_rows == many:
            continue
        with parquet.ParquetWriter(path, make_chunk(1, 0).schema, compression="zstd") as writer:
            for start in range(0, many, CHUNK):
                writer.write_table(make_chunk(min(CHUNK, many - start), (first + start) // CHUNK))


def measure(command):
    """Run a command; CPU seconds, seconds and peak memory in MB of it, and what it printed."""
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return cpu, time.perf_counter() - started, after.ru_maxrss / 1024, done.stdout


DOSSIER = """
outcome: {{column: {column}, kind: {kind}}}
attributes: {{sex: {{column: sex}}, race: {{column: race}}, region: {{column: region}}}}
reference: {{sex: male, race: a}}
quantiles: [0.1, 0.5]
"""


def name_command(folder, dossier):
    """The command that is measured."""
    if dossier is None:
        protected = [part for name in WORDS for part in ("--protected", name)]
        columns = ["--decision", "selected", "--target", "repaid", *protected]
        return ["audit-decisions", str(folder), *columns, "--json", "-"]
    config = folder.parent / "dossier.yaml"
    config.write_text(DOSSIER.format(column="selected" if dossier == "selection" else "score", kind=dossier))
    return ["dossier", str(folder), "--config", str(config), "--for", "ll144", "--for", "disparity", "--json", "-"]


def describe(found):
    """Some numbers of what was found, which are those of the same rows in memory."""
    if found["kind"] == "dossier":
        ratios = [row["ratio"] for row in found["runs"][0]["ll144"][0]["rows"]]
        return f"median {found['median']}, impact ratios {ratios}"
    rate = found["groups"]["everyone"]["metrics"]["selection_rate"]["value"]
    return f"selection rate {rate:.7f}, {found['subgroups']['found']} subgroups, {found['data']['fingerprint'][:12]}"


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("rows", nargs="*", type=int, default=[1_000_000, 10_000_000])
    options.add_argument(
        "--folder", type=Path, help="where the files are, or are to be made; by default a temporary one"
    )
    options.add_argument("--keep", action="store_true", help="leave the files there")
    options.add_argument("--dossier", choices=["selection", "score"], help="make a dossier in place of an audit")
    given = options.parse_args()
    for rows in sorted(given.rows):
        folder = (given.folder or Path(tempfile.mkdtemp())) / str(rows)
        folder.mkdir(parents=True, exist_ok=True)
        try:
            make_files(folder, rows)
            size = sum(path.stat().st_size for path in folder.iterdir())
            start = [sys.executable, "-c", "from evenhand.cli.main import main; main()"]
            cpu, seconds, peak, out = measure([*start, *name_command(folder, given.dossier)])
            print(
                f"{rows:>13,} rows, {size / 1e9:.2f} GB: {cpu:6.1f} CPU s, {seconds:6.1f} s, {peak:5.0f} MB; "
                f"{describe(json.loads(out))}",
                flush=True,
            )
        finally:
            if not given.keep:
                shutil.rmtree(folder)


if __name__ == "__main__":
    main()
