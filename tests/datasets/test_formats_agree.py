"""One table is read alike from every format, and no word of it can be exchanged without a trace."""

from pathlib import Path

import pandas as pd
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from evenhand.datasets import read_frame
from evenhand.errors import EvenhandError
from evenhand.groups import DecisionRoles
from evenhand.schema.people import ColumnRoles
from evenhand.schema.table import outcome_key, word_of

pl = pytest.importorskip("polars", reason="needs the extra polars")
pa = pytest.importorskip("pyarrow", reason="needs the extra parquet")
pytest.importorskip("openpyxl", reason="needs the extra excel")

GROUPS = ["f", "m", "F", " m", "NA", "n/a", "null", "None", "01", "1", "1.0", "2", "3.10", "3.1", "TRUE", "True", ""]
GROUPS += ["é", 'a,"b']
OUTCOMES = ["Hired", "hired", "Hired ", "Rejected", "NA", "1", "0", "1.0", "TRUE", "yes", "no", "pending", ""]


def tables(groups, outcomes):
    rows = st.lists(st.tuples(st.sampled_from(groups), st.sampled_from(outcomes)), min_size=4, max_size=14)
    return rows.map(lambda cells: {"group": [cell[0] for cell in cells], "outcome": [cell[1] for cell in cells]})


def formats(table, folder):
    """Yield the table as a frame of each library, and as read from a file of each format."""
    frame = pd.DataFrame({name: pd.Series(cells, dtype=object) for name, cells in table.items()})
    frame = frame.where(frame != "", None)
    yield "pandas", frame
    yield "polars", pl.DataFrame({name: pl.Series(list(frame[name]), dtype=pl.String) for name in table})
    yield "arrow", pa.table({name: pa.array(list(frame[name]), pa.string()) for name in table})
    for name, write in {
        "t.csv": lambda path: frame.to_csv(path, index=False),
        "t.tsv": lambda path: frame.to_csv(path, index=False, sep="\t"),
        "t.parquet": lambda path: frame.to_parquet(path),
        "t.xlsx": lambda path: frame.to_excel(path, index=False),
        "t.jsonl": lambda path: frame.to_json(path, orient="records", lines=True),
    }.items():
        write(folder / name)
        yield name, folder / name


def reading(source, roles):
    """Return everything that is read of a table, or the kind of the error."""
    try:
        frame = read_frame(source) if isinstance(source, Path) else source
        decisions = roles.read(frame)
    except EvenhandError as error:
        return type(error).__name__
    people, words = decisions.people, decisions.people.reading.decision
    attribute = people.schema["group"]
    return (
        [attribute.text(entry) for entry in people.individuals[:, 0]],
        decisions.selected.tolist(),
        people.rows.tolist(),
        people.count_unknown(),
        sorted(map(outcome_key, (*words.favourable, *words.unfavourable))),
        sorted(map(outcome_key, words.unknown)),
    )


ROLES = [
    DecisionRoles("outcome", ["group"], favourable=favourable, accept_proposals=accept)
    for favourable in (None, "Hired", 1)
    for accept in (False, True)
]


@given(table=tables(GROUPS, OUTCOMES), roles=st.sampled_from(ROLES))
def test_every_format_of_a_table_is_read_alike(tmp_path_factory, table, roles):
    assume(any(table["group"]) and any(table["outcome"]))
    readings = {name: reading(source, roles) for name, source in formats(table, tmp_path_factory.mktemp("formats"))}
    assert all(read == readings["pandas"] for read in readings.values()), readings


USUAL = [["Hired", "Rejected", "NA"], ["1", "0"], ["yes", "no", ""]]
"""Outcomes of tables that are mostly read without an error."""


@settings(suppress_health_check=[HealthCheck.filter_too_much])
@given(table=st.one_of(*(tables(GROUPS, outcomes) for outcomes in USUAL)), data=st.data(), roles=st.sampled_from(ROLES))
def test_no_word_can_be_exchanged_without_a_trace(tmp_path_factory, table, data, roles):
    column = data.draw(st.sampled_from(["group", "outcome"]))
    row = data.draw(st.integers(0, len(table[column]) - 1))
    old = table[column][row]
    new = data.draw(st.sampled_from(GROUPS if column == "group" else OUTCOMES))
    assume(not (word_of(old) == word_of(new) or outcome_key(old) == outcome_key(new)))
    path = tmp_path_factory.mktemp("exchanged") / "t.csv"

    def read(cells):
        pd.DataFrame(table | {column: cells}).to_csv(path, index=False)
        return reading(path, roles)

    before = read(table[column])
    assume(not isinstance(before, str))
    after = read([*table[column][:row], new, *table[column][row + 1 :]])
    if before == after:
        # Both words mean "unknown", so the person is left out, and counted, either way.
        assert row not in before[2] or before[0][before[2].index(row)] == "missing"


def test_types_follow_from_the_cells_in_every_format(tmp_path):
    columns = {"group": ["f", "m"], "outcome": ["1", "0"], "code": ["01", "02"], "price": ["1.50", "2.00"]}
    table = {name: cells * 4 for name, cells in columns.items()}
    for name, source in formats(table, tmp_path):
        frame = read_frame(source) if isinstance(source, Path) else source
        schema = ColumnRoles("outcome", ["group"]).read(frame).schema
        assert schema["code"].values == ("01", "02"), name
        assert (schema["price"].kind, schema["price"].number_format.write(1.5)) == ("real", "1.50"), name
        assert schema.target.values == (0, 1), name
