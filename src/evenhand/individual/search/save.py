"""What stays of a search: a table of all pairs, and tests that ask a new model about them again."""

from __future__ import annotations

import datetime as dt
import json
import math
import pprint
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from evenhand import models
from evenhand.core.files import write_atomically
from evenhand.errors import MissingExtraError, OptionError
from evenhand.individual.search.findings import ProfileTable
from evenhand.individual.search.result import SearchResult
from evenhand.individual.search.space import ProfileSpace
from evenhand.individual.search.texts import TextSearchResult
from evenhand.models.blackbox.base import LoadRequest
from evenhand.models.blackbox.text_model import interpret_replies
from evenhand.models.load import open_model
from evenhand.schema.people import decode, encode
from evenhand.schema.schema import Schema
from evenhand.schema.table import is_missing

if TYPE_CHECKING:
    import pandas as pd


TABLES = (".csv", ".csv.gz", ".csv.xz", ".csv.zst", ".parquet")
"""Kinds of tables that can be written, by their ending."""

IMPORTS = {"datetime": "import datetime\n", "decimal": "from decimal import Decimal\n"}
"""What a file of tests imports, by the module of the types that it writes down."""

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
        raise OptionError(f"the table cannot be written: {error.strerror or error}", location=str(path)) from None


def check_table(path: Path) -> None:
    """Refuse a table's file name before any work is done.

    Raises:
        OptionError: its ending names no known format.
    """
    if not path.name.lower().endswith(TABLES):
        raise OptionError(f"a table is written as {', '.join(TABLES)}, by the ending of its name", location=str(path))


def save_tests(result: SearchResult, path: Path, *, most: int = MOST) -> int:
    """Write a pytest file that asks a new model about the profiles found; each that still flips fails.

    It holds the profiles in the data's own words, with the passthrough columns that they were found with, and the
    schema; needs Evenhand and pytest and no other file, and takes the model from the environment variable
    ``EVENHAND_MODEL`` or as the argument of the file run as a program.

    Args:
        result: of ``search`` in this process (all profiles do not travel as JSON).
        most: profiles, plausible profiles and with the widest gaps first. Records of people are not among them unless
            people are shown.

    Returns:
        How many profiles became tests.

    Raises:
        OptionError: nothing was found, the result came from JSON, a passthrough column holds what a program cannot
            write down, or the file cannot be written.
    """
    table = result.table
    if not isinstance(table, ProfileTable):
        raise OptionError(
            "a result read from JSON has no longer all profiles", hint="save the tests where the search is run"
        )
    table = result.shown_table
    if len(table) == 0:
        hint = "set `show_people=` to write records of real people too" if result.profiles else None
        raise OptionError("no profile was found that can be written as a test", location="save_tests", hint=hint)
    order = np.lexsort((-table.gap, ~table.found.valid))[:most]
    names = table.unprotected_names
    carried = {name: _require_literal(name, value) for name, value in table.carried.items()}
    profiles = [dict(zip(names, row, strict=True)) | carried for row in _profile_values(table, order)]
    protected = " x ".join(result.protected)
    schema = pprint.pformat(_describe_model(table), width=118, sort_dicts=False)
    program = _PROGRAM.format(
        title=f"People whom a model decided differently when nothing but {protected} changed: does it still?",
        found=f"Found by evenhand {result.evenhand}, method {result.method}. A test fails as long as some value of "
        f"{protected} brings another decision.",
        model="new_model.onnx",
        takes="The model is whatever `evenhand search` takes: a file, an http(s) URL or module:function.",
        replay="replay_profiles",
        data=f"PROTECTED = {list(result.protected)}\n\nSCHEMA = {schema}\n\n"
        f"CASES = {pprint.pformat(profiles, width=118, sort_dicts=False)}",
        imports="".join(
            IMPORTS[one] for one in sorted(IMPORTS) if one in {type(x).__module__ for x in carried.values()}
        ),
        arguments="SCHEMA, CASES, PROTECTED",
        labels="decisions()[number].values()",
    )
    write_program(program, path)
    return len(order)


def _require_literal(name: str, value: Any) -> Any:
    """Return a cell of a passthrough column as what a program can write down.

    Raises:
        OptionError: it is of another type.
    """
    if is_missing(value):
        return None
    value = getattr(value, "to_pydatetime", lambda: value)()
    plain = (str, bool, int, Decimal, dt.date, dt.time)
    if isinstance(value, plain) and getattr(value, "tzinfo", None) is None:
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    raise OptionError(
        f"expected a text, a finite number or a date without time zone in the passthrough column {name!r}, "
        f"got {value!r}",
        location="save_tests",
        hint="leave the tests out, or that column",
    )


def write_program(program: str, path: Path) -> None:
    """Write a program's text.

    Raises:
        OptionError: the file cannot be written.
    """
    try:
        write_atomically(path, program)
    except OSError as error:
        raise OptionError(f"the tests cannot be written: {error.strerror or error}", location=str(path)) from None


def _describe_model(table: ProfileTable) -> dict[str, Any]:
    described: dict[str, Any] = json.loads(table.schema.model_dump_json(exclude_none=True))
    described["target"]["values"] = list(table.classes)
    return described


def _profile_values(table: ProfileTable, order: np.ndarray[Any, np.dtype[np.int64]]) -> list[list[Any]]:
    """Return profiles as plain values that ``encode`` reads back to the same entries."""
    rows = np.zeros((len(order), len(table.schema.attributes)))
    for i, attribute in enumerate(table.schema.attributes):
        rows[:, i] = attribute.first
    columns = table.schema.positions(table.unprotected_names)
    rows[:, columns] = table.found.unprotected[order]
    frame = decode(table.schema, rows)
    plain = table.schema.model_copy(update={"passthrough": ()})
    assert (encode(plain, frame).individuals[:, : rows.shape[1]] == rows).all()
    return [list(row) for row in zip(*(frame[name].tolist() for name in table.unprotected_names), strict=True)]


def save_text_tests(result: TextSearchResult, path: Path) -> int:
    """Write a pytest file that asks a new model about the examples; each pair that still differs fails.

    The model comes from the environment variable ``EVENHAND_MODEL`` or is the argument of the file run as a program.

    Returns:
        How many pairs became tests.

    Raises:
        OptionError: nothing was found, or the file cannot be written.
    """
    if not result.examples:
        raise OptionError("nothing was found, so there is nothing to test again", location="save_tests")
    pairs = [(example.worse.text, example.better.text) for example in result.examples]
    program = _PROGRAM.format(
        title="Texts that a model decided differently when nothing but identity terms changed: does it still?",
        found=f"Found by evenhand {result.evenhand}. A test fails as long as the two texts are decided differently.",
        model="package.module:function",
        takes="The model is whatever `evenhand search --text-column` takes.",
        replay="replay_texts",
        data=f"CASES = {pprint.pformat(pairs, width=118)}",
        imports="",
        arguments="CASES",
        labels="decisions()[number]",
    )
    write_program(program, path)
    return len(pairs)


_PROGRAM = '''"""{title}

{found}

    EVENHAND_MODEL={model} pytest THIS_FILE
    python THIS_FILE {model}

{takes} With EVENHAND_TRUST=1 files
that can run code are loaded too.
"""

{imports}import functools
import os
import sys

import pytest

from evenhand.individual.search import {replay}

{data}


@functools.cache
def decisions():
    model = os.environ.get("EVENHAND_MODEL")
    if not model:
        pytest.fail("say which model: EVENHAND_MODEL={model}", pytrace=False)
    return {replay}(model, {arguments}, trust=os.environ.get("EVENHAND_TRUST") == "1")


@pytest.mark.parametrize("number", range(len(CASES)))
def test_the_decision_stays_the_same(number):
    labels = {labels}
    assert len(set(labels)) == 1, f"{{CASES[number]}}: {{decisions()[number]}}"


if __name__ == "__main__":
    if len(sys.argv) > 1:
        os.environ["EVENHAND_MODEL"] = sys.argv[1]
    sys.exit(pytest.main([__file__, *sys.argv[2:]]))
'''
"""The file that both write."""


# Ask another model about what was found before.


def replay_profiles(
    model: Any,
    schema: Schema | Mapping[str, Any],
    profiles: Sequence[Mapping[str, Any]],
    protected: Sequence[str],
    *,
    trust: bool = False,
) -> list[dict[str, str]]:
    """Return what a model decides about profiles under every protected assignment.

    Args:
        model: anything that ``evenhand.models.load_model`` takes.
        schema: what the columns mean, as a ``Schema`` or as plain data.
        profiles: one row per profile: unprotected attribute or passthrough column -> value, as in the data.
        protected: attributes whose joint assignments are compared.
        trust: allow model files that can run code when loaded.

    Returns:
        For each profile: assignment in words, like ``"sex=Female, race=Black"`` -> label, for those under which it is a
        person who obeys the rules of the schema.

    Raises:
        EvenhandError: a profile is outside the schema's domain, or the model cannot be asked.
    """
    import pandas as pd

    if not isinstance(schema, Schema):
        schema = Schema.parse(dict(schema))
    space = ProfileSpace(schema, protected)
    unprotected = schema.without_rules().model_copy(update={"attributes": space.attributes})
    frame = pd.DataFrame(list(profiles))
    found = encode(Schema.parse(unprotected.model_dump()), frame, location="profiles").individuals[:, : space.width]
    compared, rows, like = space.compared(found), space.rows(found), None
    if schema.passthrough:  # everybody carries the row of their profile
        like = decode(schema, rows[:: compared.shape[1]]).assign(**{name: frame[name] for name in schema.passthrough})
        rows = np.column_stack([rows, np.repeat(np.arange(len(found)), compared.shape[1])])
    scorer = open_model(model, LoadRequest(schema, like, trust, confirm=False))
    labels = models.predict_labels(scorer, rows).reshape(compared.shape)
    words = [
        ", ".join(f"{name}={schema[name].text(entry)}" for name, entry in zip(protected, assignment, strict=True))
        for assignment in space.assignments
    ]
    return [
        {word: str(scorer.classes[label]) for word, label, kept in zip(words, row, possible, strict=True) if kept}
        for row, possible in zip(labels, compared, strict=True)
    ]


def replay_texts(model: Any, pairs: Sequence[Sequence[str]], *, trust: bool = False) -> list[tuple[str, str]]:
    """Return what a model decides about pairs of texts: the two labels of each.

    Args:
        model: see ``search_texts``.
        pairs: texts that differ in identity terms alone.
        trust: allow model files that can run code when loaded.
    """
    asked = models.load_text_model(model, trust=trust)
    reply, classes, _ = interpret_replies(asked.replies([text for pair in pairs for text in pair]), asked, None, None)
    labels = [str(classes[label]) for label in reply.labels]
    return list(zip(labels[::2], labels[1::2], strict=True))
