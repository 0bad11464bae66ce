"""Saved findings: tests that rerun them on a new model."""

from __future__ import annotations

import datetime as dt
import math
import pprint
from collections.abc import Mapping, Sequence
from decimal import Decimal
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from evenhand import models
from evenhand.core.files import write_atomically
from evenhand.errors import OptionError
from evenhand.individual.search.findings import ProfileTable
from evenhand.individual.search.result import SearchResult
from evenhand.models.blackbox.base import LoadRequest
from evenhand.models.load import open_model
from evenhand.schema.people import People, decode, encode
from evenhand.schema.schema import Schema
from evenhand.schema.table import is_missing

IMPORTS = {"datetime": "import datetime\n", "decimal": "from decimal import Decimal\n"}
"""Imports of a test file, by module of the types that it contains."""

MAX_TESTS = 100
"""Default maximum number of profiles in tests."""


def save_tests(result: SearchResult, path: Path, *, most: int = MAX_TESTS) -> int:
    """Write a pytest file that tests a new model on the profiles found. A test fails if the label still flips.

    The file contains the profiles with values as in the data, their passthrough values, and the schema. It needs
    Evenhand and pytest and no other file. It takes the model from the environment variable ``EVENHAND_MODEL``, or as an
    argument if it is run as a program.

    Args:
        result: Result of ``search`` in this process, since the JSON does not contain all profiles.
        path: The file.
        most: Maximum number of profiles. Plausible profiles and those with the widest gaps come first. Records of
            people are included only if people are shown.

    Returns:
        The number of profiles in the tests.

    Raises:
        OptionError: There is no profile, the result was read from JSON, a passthrough value has no literal, or the file
            cannot be written.
    """
    if not isinstance(result.table, ProfileTable):
        raise OptionError(
            "a result read from JSON does not contain all profiles", hint="save the tests when the search is run"
        )
    table = result.shown_table[result.shown_table.by_gap[:most]]
    if len(table) == 0:
        hint = "set `show_people=` to write records of real people too" if result.profiles else None
        raise OptionError("no profile was found that can be written as a test", location="save_tests", hint=hint)
    space, source = table.space, table.space.source
    carried = source.first_carried() if isinstance(source, People) else {}
    carried = {name: _require_literal(name, value) for name, value in carried.items()}
    varied = [*space.protected, *(space.attributes[i].name for i in space.moved)]
    cases = []
    for unprotected, plausible in zip(table.unprotected, space.compared(table.unprotected, by_data=False), strict=True):
        which = np.flatnonzero(plausible)
        people = decode(space.schema, space.rows_as(np.tile(unprotected, (len(which), 1)), which))
        variants = people[varied].to_dict("records")
        cases.append((people.drop(columns=varied).head(1).to_dict("records")[0] | carried, variants))
    protected = " x ".join(result.protected)
    schema = space.schema.model_dump(mode="json", exclude_none=True)
    schema["target"]["values"] = list(table.classes)
    modules = sorted({type(value).__module__ for value in carried.values()} & IMPORTS.keys())
    program = _PROGRAM.format(
        title=f"Profiles whose decision changed with {protected} only. Does it still change?",
        found=f"Found by evenhand {result.evenhand}, method {result.method}. A test fails as long as some value of "
        f"{protected} changes the decision.",
        schema=pprint.pformat(schema, width=118, sort_dicts=False),
        cases=pprint.pformat(cases, width=118, sort_dicts=False),
        imports="".join(IMPORTS[module] for module in modules),
    )
    try:
        write_atomically(path, program)
    except OSError as error:
        raise OptionError(f"the tests cannot be written: {error.strerror or error}", location=str(path)) from None
    return len(cases)


def _require_literal(name: str, value: Any) -> Any:
    """Convert a passthrough value to a value with a Python literal.

    Raises:
        OptionError: The value has an unsupported type.
    """
    if is_missing(value):
        return None
    value = getattr(value, "to_pydatetime", lambda: value)()
    types = (str, bool, int, Decimal, dt.date, dt.time)
    if isinstance(value, types) and getattr(value, "tzinfo", None) is None:
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    raise OptionError(
        f"expected a text, a finite number or a date without time zone in the passthrough column {name!r}, "
        f"got {value!r}",
        location="save_tests",
        hint="do not save tests, or remove the column",
    )


_PROGRAM = '''"""{title}

{found}

    EVENHAND_MODEL=new_model.onnx pytest THIS_FILE
    python THIS_FILE new_model.onnx

The model is anything that `evenhand search` accepts: a file, an http(s) URL or module:function. With
EVENHAND_TRUST=1 files that can run code are loaded too.
"""

{imports}import functools
import os
import sys

import pytest

from evenhand.individual.search import replay_cases

SCHEMA = {schema}

# The attributes that people of a profile share, then those in which they differ.
CASES = {cases}


@functools.cache
def decisions():
    model = os.environ.get("EVENHAND_MODEL")
    if not model:
        pytest.fail("say which model: EVENHAND_MODEL=new_model.onnx", pytrace=False)
    return replay_cases(model, SCHEMA, CASES, trust=os.environ.get("EVENHAND_TRUST") == "1")


@pytest.mark.parametrize("number", range(len(CASES)))
def test_the_decision_stays_the_same(number):
    labels = decisions()[number]
    assert len(set(labels)) == 1, f"{{CASES[number]}}: {{labels}}"


if __name__ == "__main__":
    if len(sys.argv) > 1:
        os.environ["EVENHAND_MODEL"] = sys.argv[1]
    sys.exit(pytest.main([__file__, *sys.argv[2:]]))
'''
"""Template of a test file."""


def replay_cases(
    model: Any,
    schema: Mapping[str, Any],
    cases: Sequence[tuple[Mapping[str, Any], Sequence[Mapping[str, Any]]]],
    *,
    trust: bool = False,
) -> list[list[str]]:
    """Query a model for the people in saved tests.

    Args:
        model: Anything that ``evenhand.models.load_model`` accepts.
        schema: Schema of the columns as plain data.
        cases: Attributes and passthrough columns that the people of a profile share, and those in which each of them
            differs, with values as in the data.
        trust: Whether to load model files that can run code.

    Returns:
        The labels of the people in each profile.

    Raises:
        EvenhandError: A person is outside the domain, or the model cannot be queried.
    """
    import pandas as pd

    read = Schema.parse(dict(schema))
    frame = pd.DataFrame([{**shared, **own} for shared, people in cases for own in people])
    individuals = encode(read, frame, location="cases").individuals
    scorer = open_model(model, LoadRequest(read, frame if read.passthrough else None, trust, confirm=False))
    labels = (str(scorer.classes[label]) for label in models.predict_labels(scorer, individuals))
    return [list(islice(labels, len(people))) for _, people in cases]
