#!/usr/bin/env python3
"""Execute the notebooks of docs/notebooks and write them with their outputs.

    tools/run_notebooks.py                    all of them: about a minute of processor time
    tools/run_notebooks.py repair-a-model     some of them

Each runs in an empty folder with seeds of its own, so that its numbers are those of the last run; only times differ. A
notebook that raises an error or prints a warning is not written. Needs nbclient and ipykernel, of the group `test`.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

from evenhand import __version__
from evenhand.core.version import without_commit

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOKS = ROOT / "docs" / "notebooks"
TIMEOUT = 900
"""Time limit of a cell in seconds."""


def execute(path: Path) -> Any:
    """Execute the cells of a notebook in order, with a new kernel in an empty folder.

    Progress lines that have gone away, execution times and the commit of a checkout are left out.
    """
    book = nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        client = NotebookClient(book, timeout=TIMEOUT, kernel_name="python3", resources={"metadata": {"path": folder}})
        client.execute(env=os.environ | {"OMP_NUM_THREADS": "1"})
    for cell in book.cells:
        cell.metadata.pop("execution", None)
        if cell.cell_type == "code":
            cell.outputs = [_without_commit(one) for one in cell.outputs if not _is_emptied(one)]
    book.metadata.language_info = {"name": "python"}
    return book


def find_faults(book: Any) -> list[str]:
    """Find errors, warnings and local paths in the outputs of a notebook."""
    faults = []
    for i, cell in enumerate(book.cells):
        for output in cell.get("outputs", ()):
            if output.output_type == "error" or output.get("name") == "stderr":
                faults.append(f"cell {i}: {output.get('evalue') or output.get('text')}")
            said = "".join(output.get("data", {}).values()) + output.get("text", "")
            faults += [f"cell {i}: {found}" for found in re.findall(r"(?<![\w.<])/(?:tmp|home|root|work)/\S+", said)]
    return faults


def _is_emptied(output: Any) -> bool:
    return output.output_type == "display_data" and not any(output.data.values())


def _without_commit(output: Any) -> Any:
    for part in (output, output.get("data", {})):
        for name, value in part.items():
            if isinstance(value, str):
                part[name] = value.replace(__version__, without_commit(__version__))
    return output


def main() -> int:
    """Execute the given notebooks, and return an exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="names of notebooks; by default all")
    names = parser.parse_args().names or sorted(path.stem for path in NOTEBOOKS.glob("*.ipynb"))
    for name in names:
        path = NOTEBOOKS / f"{name}.ipynb"
        book = execute(path)
        faults = find_faults(book)
        if faults:
            print(f"{name} is not written:", *faults, sep="\n  ")
            return 1
        nbformat.write(book, path)
        print(f"{name}: {path.stat().st_size / 1000:.0f} kB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
