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
"""Folder of the pieces of work that are done."""


def main(arguments: list[str] | None = None) -> int:
    """Run a paper's pieces that are not done yet, and print its tables."""
    parser = argparse.ArgumentParser(prog="python -m reproductions", description=__doc__)
    parser.add_argument("paper", choices=PAPERS, type=lambda name: name.replace("-", "_"))
    parser.add_argument("--table", action="append", default=[], metavar="N", help="only this table: II, or 'figure 4'")
    parser.add_argument(
        "--quick", action="store_true", help="minutes, not hours: fewer runs or less time; nothing kept"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--data-home", type=Path, help="folder of data and networks that are not bundled")
    given = parser.parse_args(arguments)
    paper: Paper = importlib.import_module(f"reproductions.{given.paper}").PAPER
    context = Context(quick=given.quick, seed=given.seed, data_home=given.data_home)
    try:
        found = reproduce(paper, given.table, context, KEPT / (f"{paper.name}-quick" if given.quick else paper.name))
    except EvenhandError as error:
        print(error, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("Interrupted: the same command goes on from the pieces that are done.", file=sys.stderr)
        return 130
    for number in found["tables"]:
        title = paper.published["tables"][number]["title"]
        print(f"## {number}: {title}", *build_table(paper.name, number, found), sep="\n\n", end="\n\n")
    if not given.quick:
        before = read_results(paper.name)
        write_results(paper.name, found | {key: before[key] | found[key] for key in ("pieces", "left_out", "tables")})
    return 0


if __name__ == "__main__":
    sys.exit(main())
