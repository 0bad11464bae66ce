"""``make reproduce``: make the tables of a paper again, and print them; at full effort also keep them."""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path

from evenhand.errors import EvenhandError
from reproductions.common import (
    PAPERS,
    Context,
    Paper,
    build_table,
    read_results,
    reproduce,
    write_results,
)

KEPT = Path("build") / "reproductions"
"""Folder of the results of pieces."""


def main(arguments: list[str] | None = None) -> int:
    """Run the missing pieces of a paper, and print its tables."""
    parser = argparse.ArgumentParser(prog="python -m reproductions", description=__doc__)
    parser.add_argument("paper", choices=PAPERS, type=lambda name: name.replace("-", "_"))
    parser.add_argument("--table", action="append", default=[], metavar="N", help="only this table: II, or 'figure 4'")
    parser.add_argument(
        "--quick", action="store_true", help="minutes, not hours: fewer runs or less time; nothing kept"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--data-home", type=Path, help="folder of data and networks that are not bundled")
    options = parser.parse_args(arguments)
    paper: Paper = importlib.import_module(f"reproductions.{options.paper}").PAPER
    context = Context(quick=options.quick, seed=options.seed, data_home=options.data_home)
    try:
        results = reproduce(
            paper, options.table, context, KEPT / (f"{paper.name}-quick" if options.quick else paper.name)
        )
    except EvenhandError as error:
        print(error, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("Interrupted. The same command continues from the finished pieces.", file=sys.stderr)
        return 130
    for number in results["tables"]:
        title = paper.published["tables"][number]["title"]
        print(f"## {number}: {title}", *build_table(paper.name, number, results), sep="\n\n", end="\n\n")
    if not options.quick:
        stored = read_results(paper.name)
        write_results(
            paper.name, results | {key: stored[key] | results[key] for key in ("pieces", "left_out", "tables")}
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
