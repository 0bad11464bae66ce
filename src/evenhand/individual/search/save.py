"""What stays of a search: a table of all pairs, and tests that ask a new model about them again."""

from __future__ import annotations

import json
import pprint
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from evenhand.errors import MissingExtraError, OptionError
from evenhand.individual.search.result import SearchResult
from evenhand.individual.search.table import Table
from evenhand.schema import decode, encode

if TYPE_CHECKING:
    import pandas as pd

TABLES = (".csv", ".csv.gz", ".csv.xz", ".csv.zst", ".parquet")
"""Kinds of tables that can be written, by their ending."""

MOST = 100
"""Profiles that become tests unless more are asked for."""


def save_table(frame: pd.DataFrame, path: Path) -> None:
    """Write a table of pairs as CSV or Parquet, by the file's ending.

    Raises:
        OptionError: another ending, or the file cannot be written.
        MissingExtraError: Parquet is wanted and not installed.
    """
    check_table(path)
    try:
        if path.suffix == ".parquet":
            frame.to_parquet(path, index=False)
        else:
            frame.to_csv(path, index=False)
    except ImportError as error:
        missing = "zstandard" if path.suffix == ".zst" else "pyarrow"
        extra = "zstd" if path.suffix == ".zst" else "parquet"
        raise MissingExtraError(missing, extra=extra, purpose=f"to write {path.suffix}") from error
    except OSError as error:
        raise OptionError(f"the table cannot be written: {error.strerror or error}", where=str(path)) from None


def check_table(path: Path) -> None:
    """Refuse a table's file name before any work is done.

    Raises:
        OptionError: nobody can tell from its ending how to write it.
    """
    if not path.name.lower().endswith(TABLES):
        raise OptionError(
            f"a table is written as {', '.join(TABLES)}, by the ending of its name", where=f"--out {path}"
        )


def save_tests(result: SearchResult, path: Path, *, most: int = MOST) -> int:
    """Write a pytest file that asks a new model about the profiles found; each that still flips fails.

    It holds the profiles in the data's own words and the schema, needs Evenhand and pytest and no other file, and takes
    the model from the environment variable ``EVENHAND_MODEL`` or as the argument of the file run as a program.

    Args:
        result: of ``run`` in this process (all profiles do not travel as JSON).
        most: profiles, people who could exist and with the widest gaps first.

    Returns:
        How many profiles became tests.

    Raises:
        OptionError: nothing was found, the result came from JSON, or the file cannot be written.
    """
    table = result.table
    if not isinstance(table, Table):
        raise OptionError(
            "a result read from JSON has no longer all profiles", mend="save the tests where the search is run"
        )
    if len(table) == 0:
        raise OptionError("nothing was found, so there is nothing to test again", where="--save-tests")
    order = np.lexsort((-table.gap, ~table.found.valid))[:most]
    names = table.unprotected
    profiles = [dict(zip(names, row, strict=True)) for row in _values(table, order)]
    program = _PROGRAM.format(
        version=result.evenhand,
        method=result.method,
        protected=" x ".join(result.protected),
        names=list(result.protected),
        schema=pprint.pformat(_described(table), width=118, sort_dicts=False),
        profiles=pprint.pformat(profiles, width=118, sort_dicts=False),
    )
    write(program, path)
    return len(order)


def write(program: str, path: Path) -> None:
    """Write a program's text.

    Raises:
        OptionError: the file cannot be written.
    """
    try:
        path.write_text(program, "utf-8")
    except OSError as error:
        raise OptionError(f"the tests cannot be written: {error.strerror or error}", where=str(path)) from None


def _described(table: Table) -> dict[str, Any]:
    described: dict[str, Any] = json.loads(table.schema.model_dump_json(exclude_none=True))
    described["target"]["values"] = list(table.classes)
    return described


def _values(table: Table, order: np.ndarray[Any, np.dtype[np.int64]]) -> list[list[Any]]:
    """Profiles as plain values that ``encode`` reads back to the same entries."""
    rows = np.zeros((len(order), len(table.schema.attributes)))
    for i, attribute in enumerate(table.schema.attributes):
        rows[:, i] = attribute.first
    columns = table.schema.positions(table.unprotected)
    rows[:, columns] = table.found.unprotected[order]
    frame = decode(table.schema, rows)
    assert (encode(table.schema, frame).individuals == rows).all()
    return [list(row) for row in zip(*(frame[name].tolist() for name in table.unprotected), strict=True)]


_PROGRAM = '''"""People whom a model decided differently when nothing but {protected} changed: does it still?

Found by evenhand {version}, method {method}. A test fails as long as some value of {protected} brings another decision.

    EVENHAND_MODEL=new_model.onnx pytest THIS_FILE
    python THIS_FILE new_model.onnx

The model is whatever `evenhand search` takes: a file, an http(s) URL or module:function. With EVENHAND_TRUST=1 files
that can run code are loaded too.
"""

import functools
import os
import sys

import pytest

from evenhand.individual.search import replay

PROTECTED = {names}

SCHEMA = {schema}

PROFILES = {profiles}


@functools.cache
def decisions():
    model = os.environ.get("EVENHAND_MODEL")
    if not model:
        pytest.fail("say which model: EVENHAND_MODEL=FILE_OR_URL", pytrace=False)
    return replay(model, SCHEMA, PROFILES, PROTECTED, trust=os.environ.get("EVENHAND_TRUST") == "1")


@pytest.mark.parametrize("number", range(len(PROFILES)))
def test_the_decision_stays_the_same(number):
    by_assignment = decisions()[number]
    assert len(set(by_assignment.values())) == 1, f"{{PROFILES[number]}}: {{by_assignment}}"


if __name__ == "__main__":
    if len(sys.argv) > 1:
        os.environ["EVENHAND_MODEL"] = sys.argv[1]
    sys.exit(pytest.main([__file__, *sys.argv[2:]]))
'''
"""The file that ``save_tests`` writes."""
