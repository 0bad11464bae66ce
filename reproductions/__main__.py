"""``python -m reproductions PAPER``: make the tables of a paper again, the published figures beside ours."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from evenhand import view
from evenhand.core import Result
from evenhand.errors import EvenhandError
from evenhand.files import write_atomically
from reproductions import PAPERS, comparison, load_paper, mitigation

MITIGATION = "mitigation"


def main() -> int:
    """Run a paper's pieces that are not done yet; write its tables as JSON."""
    parser = argparse.ArgumentParser(prog="python -m reproductions", description=__doc__)
    parser.add_argument("paper", nargs="?", choices=[*PAPERS, MITIGATION], help="without it, all tables are listed")
    parser.add_argument("--table", action="append", default=[], metavar="N", help="only this table: II, or 'figure 4'")
    parser.add_argument("--quick", action="store_true", help="minutes, not hours: fewer runs or less time")
    parser.add_argument("--out", type=Path, help="folder for the JSON and for the pieces, which are not done twice")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--data-home", type=Path, help="folder of data that are not bundled")
    given = parser.parse_args()
    if given.paper is None:
        for paper in map(load_paper, PAPERS):
            print(f"{paper.name}: {paper.title}, {paper.published_in}")
            print(*(f"    {table.number}: {table.title}" for table in paper.tables), sep="\n")
        return 0
    out = given.out or Path("build") / "reproductions" / (f"{given.paper}-quick" if given.quick else given.paper)
    try:
        with view.show_progress() as progress:
            found: Result
            if given.paper == MITIGATION:
                found = mitigation.reproduce_mitigation(
                    mitigation.MitigationExperimentSettings.of(quick=given.quick, runs=None),
                    only=given.table,
                    data_home=given.data_home,
                    seed=given.seed,
                    progress=progress,
                )
            else:
                context = comparison.PieceContext(quick=given.quick, seed=given.seed, data_home=given.data_home)
                found = comparison.reproduce_paper(
                    load_paper(given.paper),
                    tables=given.table,
                    context=context,
                    folder=out / "pieces",
                    resume=True,
                    progress=progress,
                )
    except EvenhandError as error:
        print(error, file=sys.stderr)
        return 2
    out.mkdir(parents=True, exist_ok=True)
    write_atomically(out / f"{given.paper}.json", found.to_json() + "\n")
    print(view.render_markdown(found.document()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
