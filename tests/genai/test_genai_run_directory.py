"""Tables that grow row by row: wherever a file was cut off, whole rows are kept and the next one follows them."""

from __future__ import annotations

from pathlib import Path

import pytest

from evenhand.errors import DataError
from evenhand.genai import Item
from evenhand.genai.run_directory import CsvTable, write_item

NAMES = ["request", "prompt"]
ROWS = [{"request": "1", "prompt": "plain"}, {"request": "2", "prompt": 'two\nlines, "quoted"'}, {"request": "3"}]


def test_whole_rows_survive_a_cut_at_any_place(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    table = CsvTable(path, NAMES)
    for row in ROWS:
        table.append(row)
    whole = path.read_bytes()
    expected = CsvTable(path, NAMES).rows
    assert [row["prompt"] for row in expected] == ["plain", 'two\nlines, "quoted"', ""]
    for cut in range(len(whole)):
        path.write_bytes(whole[:cut])
        again = CsvTable(path, NAMES)
        assert again.rows == expected[: len(again.rows)]
        assert path.read_bytes() == whole[:cut]
        for row in ROWS[len(again.rows) :]:
            again.append(row)
        assert path.read_bytes() == whole


def test_rows_are_taken_back(tmp_path: Path) -> None:
    table = CsvTable(tmp_path / "table.csv", NAMES)
    for row in ROWS:
        table.append(row)
    table.truncate(1)
    assert CsvTable(table.path, NAMES).rows == table.rows == [ROWS[0]]
    with pytest.raises(DataError, match="different columns"):
        CsvTable(table.path, ["request"])


def test_items_are_called_by_what_they_are(tmp_path: Path) -> None:
    (tmp_path / "items").mkdir()
    assert write_item(tmp_path, "1", Item("image", b"x", "image/png")) == "items/1.png"
    assert write_item(tmp_path, "2", Item("image", b"y", "strange/thing")) == "items/2.bin"
    assert (tmp_path / "items" / "2.bin").read_bytes() == b"y"
