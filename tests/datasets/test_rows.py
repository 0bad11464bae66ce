"""Folders, patterns and databases are opened without being read, and what is wrong with them is said at once."""

import numpy as np
import pandas as pd
import pytest

from evenhand.datasets import open_data, read_frame
from evenhand.datasets import rows as opened
from evenhand.errors import DataError, MissingExtraError, TableWarning

duckdb = pytest.importorskip("duckdb", reason="needs the extra duckdb")
pa = pytest.importorskip("pyarrow", reason="needs the extra parquet")
parquet = pytest.importorskip("pyarrow.parquet", reason="needs the extra parquet")


def people(n, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame({"sex": rng.choice(["F", "M"], n), "hired": rng.integers(0, 2, n)})


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "people" / "more").mkdir(parents=True)
    people(30, 1).to_parquet(tmp_path / "people" / "a.parquet")
    people(20, 2).to_parquet(tmp_path / "people" / "more" / "b.parquet")
    (tmp_path / "people" / "readme.txt").write_text("about these people")
    return tmp_path / "people"


@pytest.fixture
def database(tmp_path):
    connection = duckdb.connect(str(tmp_path / "people.duckdb"))
    connection.register("given", people(40))
    connection.execute('CREATE TABLE "the people" AS SELECT * FROM given')
    connection.close()
    return tmp_path / "people.duckdb"


def count(rows):
    return rows.count("*").fetchall()[0][0]


def test_folders_patterns_and_tables_are_opened(folder, database, tmp_path, monkeypatch):
    assert count(open_data(folder)) == 50
    assert count(open_data(f"{folder}/*.parquet")) == 30
    assert count(open_data(f"{folder}/**/*.parquet")) == 50
    assert count(open_data(f"duckdb:///{database}?table=the%20people")) == 40
    monkeypatch.chdir(tmp_path)
    assert count(open_data("duckdb:///people.duckdb?table=the people")) == 40
    assert len(read_frame(folder)) == 50


def test_hidden_files_and_links_are_not_counted_again(folder):
    for name in [".ipynb_checkpoints/a.parquet", "_temporary/a.parquet", "more/._b.parquet"]:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes((folder / "a.parquet").read_bytes())
    (folder / "link.parquet").symlink_to(folder / "a.parquet")
    assert count(open_data(folder)) == 50
    assert count(open_data(f"{folder}/*.parquet")) == 30


def test_a_single_file_is_opened_where_it_has_many_rows(folder, monkeypatch):
    path = folder / "a.parquet"
    assert open_data(path) is None
    monkeypatch.setattr(opened, "MANY", 30)
    assert count(open_data(path)) == 30
    assert open_data(folder / "readme.txt") is None


def test_too_many_rows_are_not_read(folder, monkeypatch):
    monkeypatch.setattr(opened, "MOST_IN_MEMORY", 49)
    with pytest.raises(DataError, match="50 rows are more than the maximum of 49") as error:
        read_frame(folder)
    assert "sample" in error.value.hint


def write_files(folder, *frames):
    folder.mkdir()
    for name, frame in zip("ab", frames, strict=True):
        frame.to_parquet(folder / f"{name}.parquet")


@pytest.mark.parametrize(
    ("first", "second"),
    [([1, 2], [0.4, 2.5]), ([0.4, 2.5], [1, 2]), ([None, None], ["a", "b"]), (["a", "b"], [None, None])],
)
def test_types_of_the_first_file_do_not_change_the_others(tmp_path, first, second):
    write_files(tmp_path / "rows", pd.DataFrame({"x": first}), pd.DataFrame({"x": second}))
    read = read_frame(tmp_path / "rows")["x"]
    assert sorted(read.dropna()) == sorted(value for value in (*first, *second) if value is not None)


@pytest.mark.parametrize("kind", ["int64", "double", "bool", "timestamp[us]"])
def test_a_column_without_values_has_any_type_but_words(tmp_path, kind):
    write_files(tmp_path / "rows", pd.DataFrame({"x": ["a"]}), pd.DataFrame({"x": ["b"]}))
    empty = pa.table({"x": pa.nulls(3, pa.type_for_alias(kind))})
    parquet.write_table(empty, tmp_path / "rows" / "c.parquet")
    read = read_frame(tmp_path / "rows")["x"]
    assert (sorted(read.dropna()), len(read)) == (["a", "b"], 5)


def test_names_of_folders_are_columns(folder):
    for path, code in [(folder / "a.parquet", "01"), (folder / "more" / "b.parquet", "02")]:
        (folder / f"region={code}" / "year=2026").mkdir(parents=True)
        path.rename(folder / f"region={code}" / "year=2026" / "a.parquet")
    assert read_frame(folder).groupby(["region", "year"]).size().to_dict() == {("01", 2026): 30, ("02", 2026): 20}


def test_all_parquet_files_of_a_folder_are_read_and_other_tables_named(folder):
    (folder / "a.parquet").rename(folder / "A.PARQUET")
    (folder / "rest.csv").write_text("sex,hired\nF,1\n")
    with pytest.warns(TableWarning, match=r"only the Parquet files are read, not rest\.csv"):
        assert count(open_data(folder)) == 50


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("empty", "the folder has no Parquet file"),
        ("people/*.pq", "the pattern matches no file"),
        ("broken", "the rows cannot be read"),
        ("words", "column '(zip|ZIP)' holds words in words/a.parquet and numbers in words/b.parquet"),
        ("flags", "column 'zip' holds numbers in flags/b.parquet and booleans in flags/a.parquet"),
        ("dates", "column 'zip' holds numbers in dates/b.parquet and dates in dates/a.parquet"),
        ("lacking", "lacking/b.parquet has no column 'zip'"),
        ("case", "two columns are called 'zip'"),
        ("keys", "the files and the names of their folders have a column 'id'"),
        ("duckdb:///people.duckdb", "expected a file and a table"),
        ("duckdb://people.duckdb?table=x", "expected a file and a table"),
        ("duckdb:///none.duckdb?table=x", "there is no file 'none.duckdb'"),
        ("duckdb:///people.duckdb?table=peple", "there is no table 'peple'"),
        ("duckdb:///people/a.parquet?table=x", "the rows cannot be read"),
    ],
)
def test_what_cannot_be_opened_is_refused(folder, database, tmp_path, monkeypatch, place, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "a.parquet").write_bytes(b"PAR1 and then nothing")
    some = pd.DataFrame({"id": [1, 2], "ZIP": [1, 2]})
    for kind, codes in {"words": ["01", "02"], "flags": [True, False], "dates": pd.to_datetime(["2025"] * 2)}.items():
        write_files(tmp_path / kind, some.assign(ZIP=codes).rename(columns={"ZIP": "zip"}), some)
    write_files(tmp_path / "lacking", some.rename(columns={"ZIP": "zip"}), some[["id"]])
    write_files(tmp_path / "case", some.assign(zip=3), some.assign(zip=3))
    (tmp_path / "keys").mkdir()
    write_files(tmp_path / "keys" / "id=3", some, some)
    with pytest.raises(DataError, match=message):
        open_data(place)


def test_without_duckdb_the_extra_is_named(folder, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "duckdb", None)
    with pytest.raises(MissingExtraError) as error:
        open_data(folder)
    assert "'.[duckdb]'" in error.value.hint
