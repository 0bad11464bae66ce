"""Tables of people: what reads, how, and what is refused with which words."""

import bz2
import datetime as dt
import gzip
import lzma
import pickle
import sys

import pandas as pd
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from evenhand import datasets, errors
from evenhand.datasets.cells import parse_number, parse_numbers
from evenhand.datasets.tables import read_frame
from evenhand.datasets.text_tables import parse_table
from evenhand.errors import DataError, EvenhandError, GuessedEncodingWarning, OptionError, TableWarning
from support import scaled

TABLE = b"name,age,member,note\nAnn,31,True,x\nBob,44,False,\nEve,27,True,NA\n"


def frame_of(tmp_path, data, name="people.csv", **settings):
    path = tmp_path / name
    path.write_bytes(data)
    return datasets.read_frame(path, **settings)


def refused(tmp_path, data, name="people.csv"):
    with pytest.raises(DataError) as caught:
        frame_of(tmp_path, data, name)
    return str(caught.value)


@pytest.mark.parametrize(
    "word", ["NA", "null", "n/a", "nan", "NaN", "None", "?", "<NA>", "#N/A", "-nan", "NULL", "inf"]
)
def test_words_for_missing_values_are_words(tmp_path, word):
    for others in (["x", "y"], ["1", "2"], ["0.5", ""]):
        frame = frame_of(tmp_path, "\n".join(["a,b", *(f"{cell},1" for cell in (word, *others))]).encode())
        assert frame["a"].fillna("").tolist() == [word, *others]


NOT_NUMBERS = (
    "02134 3.10 +5 1e3 1,5 TRUE True -0 1_000 9007199254740993 1. .5 0x1 1e400 \u0661 00 1E-05 1e-5 0.00001 "
    "100000000000000000.0 1.0000000000000001"
)


@pytest.mark.parametrize("word", [*NOT_NUMBERS.split(), " 1\u00a0"])
def test_a_word_that_is_not_how_a_number_is_written_makes_a_column_of_words(tmp_path, word):
    written = word.lstrip(" ")
    for others in (["1", "2"], ["0.5", "1.5"], ["7", ""]):
        rows = [f'"{cell}",1' for cell in (*others, word)]
        frame = frame_of(tmp_path, "\n".join(["a,b", *rows]).encode())
        assert frame["a"].fillna("").tolist() == [*others, word]
        frame = frame_of(tmp_path, "\n".join(["a;b", *rows]).replace('"', "").replace(",1", ";1").encode())
        assert frame["a"].fillna("").tolist() == [*others, written]


def test_columns_of_numbers(tmp_path):
    rows = ["i,f,mixed,gaps,empty,large", "1,0.5,1,3,,9007199254740992", "-2,1e-05,1.5,,,-1", "0,-0.0,1e+16, ,,0"]
    frame = frame_of(tmp_path, "\n".join(rows).encode())
    assert frame.dtypes.astype(str).tolist() == ["int64", "float64", "float64", "float64", "float64", "int64"]
    assert frame["mixed"].tolist() == [1, 1.5, 1e16]
    assert frame["gaps"].isna().tolist() == [False, True, True]
    assert frame["empty"].isna().all()
    assert frame["large"].tolist() == [2**53, -1, 0]
    words = read_frame(tmp_path / "people.csv", words=True)
    assert words["f"].tolist() == ["0.5", "1e-05", "-0.0"]
    assert words["gaps"].isna().tolist() == [False, True, True]


@st.composite
def tables(draw):
    """Text of a table: any cells between any separators, quoted as needed or in odd ways."""
    delimiter = draw(st.sampled_from([",", ";", "\t", "|"]))
    width = draw(st.integers(1, 3))
    cell = st.one_of(
        st.sampled_from([*'" \n\r\t\u2028\x85\x1c\u00a0\ufeff', "", '""', "\r\n", " x", "x "]),
        st.sampled_from(["a", "1", "02", "0.5", "NA", "1e-05", "é", "a,b", "a;b"]),
        st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=4),
        st.integers().map(str),
        st.floats().map(repr),
        st.floats().map(lambda number: f"{number:.3g}"),
    )
    quote = draw(st.sampled_from(["needed", "all", "odd"]))

    def write(word):
        special = any(mark in word for mark in (delimiter, '"', "\n", "\r")) or word.startswith(" ")
        if quote == "all" or (special and quote == "needed"):
            word = '"' + word.replace('"', '""') + '"'
        return word

    newline = draw(st.sampled_from(["\n", "\r\n", "\r"]))
    header = delimiter.join("abc"[:width])
    rows = draw(st.lists(st.lists(cell, min_size=width, max_size=width), min_size=1, max_size=5))
    lines = [header, *(delimiter.join(map(write, row)) for row in rows)]
    for _ in range(draw(st.integers(0, 1))):
        lines.insert(draw(st.integers(0, len(lines))), draw(st.sampled_from(["", " ", delimiter, "x"])))
    return newline.join(lines) + draw(st.sampled_from(["", newline]))


@settings(max_examples=scaled(400), deadline=None)
@given(tables())
@example('a,b\n1,"x\ny"\n2,"x""y"\n')
@example("a,b\n1, 2\n")
@example('a,b\n"1","2"x\n')
@example("a,b\n1,2\n3\n")
@example('a,b\n1,"2,3"\n3\n')
@example("a,b\n\t1,2\n \t\n")
@example("a,b\n\n1,2\n")
def test_a_text_is_read_alike_with_and_without_pyarrow(text):
    pytest.importorskip("pyarrow", reason="needs the extra parquet")

    def read():
        try:
            return parse_numbers(parse_table(text.encode(), location="people.csv"))
        except DataError as error:
            return str(error)

    fast = read()
    with pytest.MonkeyPatch.context() as patch:
        for module in ("pyarrow", "pyarrow.csv", "pyarrow.compute"):
            patch.setitem(sys.modules, module, None)
        slow = read()
    assert (fast if isinstance(fast, str) else plain(fast)) == (slow if isinstance(slow, str) else plain(slow))


def plain(frame):
    """Return what a frame holds: its columns with their kinds of numbers, cells by their words."""
    kinds = [dtype.kind for dtype in frame.dtypes]
    return (
        frame.columns.tolist(),
        kinds,
        [[repr(cell) for cell in row] for row in frame.to_numpy(dtype=object).tolist()],
    )


@settings(max_examples=scaled(300), deadline=None)
@given(st.lists(st.one_of(st.floats(allow_nan=False), st.integers(), st.text(max_size=3)).map(str), min_size=1))
def test_numbers_of_a_column_are_those_of_its_words(words):
    expected = [parse_number(word) for word in words]
    column = parse_numbers(pd.DataFrame({"x": pd.Series(words, dtype=object).infer_objects()}))["x"].tolist()
    assert column == (words if None in expected else expected)


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_the_separator_is_found(tmp_path, delimiter, newline):
    rows = [["name", "pay", "remark"], ["Ann", "1.5", '"a; b, c|d\te"'], ["Bob", "2.5", "plain"]]
    frame = frame_of(tmp_path, newline.join(delimiter.join(row) for row in rows).encode())
    assert frame.columns.tolist() == ["name", "pay", "remark"]
    assert frame["pay"].tolist() == [1.5, 2.5]
    assert frame["remark"].tolist() == ["a; b, c|d\te", "plain"]


def test_a_first_line_that_states_the_separator_is_no_row(tmp_path):
    assert frame_of(tmp_path, b"sep=;\r\na;b,c\r\n1;x,y\r\n")["b,c"].tolist() == ["x,y"]
    with pytest.raises(DataError, match="line 3: 1 values, but 2 columns"):
        frame_of(tmp_path, b"sep=;\na;b\n1\n")


def test_decimal_commas_do_not_pass_for_separators(tmp_path):
    assert frame_of(tmp_path, b"a;b\n1,5;x\n2,5;y\n")["a"].tolist() == ["1,5", "2,5"]


def test_one_column_blank_lines_and_quoted_line_breaks(tmp_path):
    assert frame_of(tmp_path, b"\n\na\n1\n\n2\n  \n")["a"].tolist() == [1, 2]
    assert frame_of(tmp_path, b'a,b\n"x\ny",1\n')["a"].tolist() == ["x\ny"]


@pytest.mark.parametrize("suffix", [".csv", ".CSV", ".tsv", ".data", ".txt"])
def test_byte_order_mark_and_any_suffix(tmp_path, suffix):
    assert frame_of(tmp_path, b"\xef\xbb\xbf" + TABLE, "people" + suffix).columns[0] == "name"


@pytest.mark.parametrize(
    ("suffix", "module"), [(".gz", "gzip"), (".xz", "lzma"), (".bz2", "bz2"), (".zst", "zstandard")]
)
def test_compressed(tmp_path, suffix, module):
    compress = pytest.importorskip(module, reason="needs the extra zstd").compress
    whole = compress(TABLE)
    for data in (whole, compress(TABLE[:9]) + compress(TABLE[9:])):
        pd.testing.assert_frame_equal(frame_of(tmp_path, data, "p.csv" + suffix), frame_of(tmp_path, TABLE))
    changed = whole[:12] + b"\0\0\0\0" + whole[16:] if suffix != ".zst" else b"nothing"  # which has no checksum
    for damaged in (whole[: len(whole) // 2], whole[:-3], b"", b"not compressed", changed):
        message = refused(tmp_path, damaged, "q.csv" + suffix)
        assert "q.csv" + suffix in message
        assert "truncated or corrupt" in message or "empty" in message


@pytest.mark.parametrize(
    ("module", "name", "extra"),
    [("zstandard", "p.csv.zst", "zstd"), ("pyarrow", "p.parquet", "parquet"), ("openpyxl", "p.xlsx", "excel")],
)
def test_a_missing_library_is_named_with_its_extra(tmp_path, monkeypatch, module, name, extra):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(errors.MissingExtraError, match=rf"{module}[\s\S]*'\.\[{extra}\]'"):
        frame_of(tmp_path, b"anything", name)


def test_parquet(tmp_path):
    pytest.importorskip("pyarrow", reason="needs the extra parquet")
    path = tmp_path / "p.parquet"
    frame = frame_of(tmp_path, TABLE).drop(columns="note")
    frame.to_parquet(path)
    pd.testing.assert_frame_equal(datasets.read_frame(path), frame)
    data = path.read_bytes()
    for damaged in (data[:-20], data[: len(data) // 2], data[:8] + b"\xff" * 60 + data[68:], b"PAR1"):
        assert "not a readable parquet" in refused(tmp_path, damaged, "q.parquet")
    frame.iloc[:0].to_parquet(path)
    with pytest.raises(DataError, match="no rows"):
        datasets.read_frame(path)


def test_nullable_columns_of_a_parquet_file_are_words(tmp_path):
    pytest.importorskip("pyarrow", reason="needs the extra parquet")
    frame = pd.DataFrame({"n": pd.array([1, None], "Int64"), "b": pd.array([True, None], "boolean")})
    frame.to_parquet(tmp_path / "p.parquet")
    words = read_frame(tmp_path / "p.parquet", words=True)
    assert words.astype(object).where(words.notna(), None).to_numpy().tolist() == [["1", "True"], [None, None]]


def test_a_named_index_of_a_parquet_file_is_a_column(tmp_path):
    pytest.importorskip("pyarrow", reason="needs the extra parquet")
    people = pd.DataFrame({"points": [1, 2, 3], "sex": ["F", "M", "F"], "place": ["a", "b", "c"]})
    for index, columns in (("sex", ["points", "place", "sex"]), (["sex", "place"], ["points", "sex", "place"])):
        people.set_index(index).to_parquet(tmp_path / "p.parquet")
        assert datasets.read_frame(tmp_path / "p.parquet").equals(people[columns])
    for numbered in (people.set_index(pd.Index([7, 8, 9])), people):
        numbered.to_parquet(tmp_path / "p.parquet")
        assert datasets.read_frame(tmp_path / "p.parquet").equals(people)
    assert read_frame(tmp_path / "p.parquet", words=True)["points"].tolist() == ["1", "2", "3"]


def test_two_levels_of_names_and_repeated_names_of_a_parquet_file_are_refused(tmp_path):
    pa = pytest.importorskip("pyarrow", reason="needs the extra parquet")
    from pyarrow import parquet

    pd.DataFrame({("a", "x"): [1], ("a", "y"): [2]}).to_parquet(tmp_path / "p.parquet")
    with pytest.raises(DataError, match="2 levels"):
        datasets.read_frame(tmp_path / "p.parquet")
    for names, message in ((["a", "a"], "two columns are called 'a'"), (["a", ""], "column 2 has no name")):
        parquet.write_table(pa.table([[1], [2]], names=names), tmp_path / "p.parquet")
        with pytest.raises(DataError, match=message):
            datasets.read_frame(tmp_path / "p.parquet")


LINES = """{"zip": "01", "age": 31, "member": true, "note": null}

{"zip": "NA\u2028x", "age": 2.5, "member": false, "tags": ["a", 1]}
"""


@pytest.mark.parametrize("name", ["p.jsonl", "p.ndjson", "p.jsonl.gz"])
def test_json_lines(tmp_path, name):
    data = gzip.compress(LINES.encode()) if name.endswith(".gz") else LINES.encode()
    frame = frame_of(tmp_path, data, name)
    assert frame.columns.tolist() == ["zip", "age", "member", "note", "tags"]
    assert frame["zip"].tolist() == ["01", "NA\u2028x"]
    assert frame["age"].tolist() == [31, 2.5]
    assert frame["member"].tolist() == [True, False]
    assert frame["note"].isna().all()
    assert frame["tags"].fillna("").tolist() == ["", '["a", 1]']
    assert read_frame(tmp_path / name, words=True)["member"].tolist() == ["True", "False"]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b'{"a": 1}\n[1]\n', "line 2: expected a JSON object"),
        (b'{"a": 1}\n\n{"a": \n', "line 3: expected a JSON object"),
        (b'{"a": 1}\n{"A": 2}\n', "entries are called 'a' in some lines and 'A' in others"),
        (b'{"a": 1, "a": 2}\n', "line 1: expected a JSON object: two entries are called 'a'"),
        (b'{"a": Infinity}\n', "line 1: expected a JSON object: Infinity is not a number"),
        (b'{"": 1}\n', "column 1 has no name"),
        (b"{}\n", "there are no columns"),
        (b"\n", "the file is empty"),
        (b"\xff\n", "line 1: the text is not UTF-8"),
    ],
)
def test_json_lines_that_cannot_be_read_are_named(tmp_path, data, message):
    assert message in refused(tmp_path, data, "p.jsonl")
    assert "rename the file to .jsonl" in refused(tmp_path, b'{"a": 1}\n', "p.csv")


def test_text_that_says_it_is_utf_16_is_read(tmp_path):
    data = "name,n\nJürgen,1\n日本,2\n"
    for encoding in ("utf-16", "utf-16-le", "utf-16-be"):
        mark = {"utf-16-le": b"\xff\xfe", "utf-16-be": b"\xfe\xff"}.get(encoding, b"")
        frame = frame_of(tmp_path, mark + data.encode(encoding))
        assert frame.to_dict("list") == {"name": ["Jürgen", "日本"], "n": [1, 2]}


def test_warns_about_a_guessed_encoding(tmp_path):
    data = "name;price\nJürgen;1 €\nZoë;2 €\n".encode("cp1252")
    with pytest.warns(GuessedEncodingWarning, match="is read as cp1252.*such as 'Jürgen'.*`encoding=NAME`"):
        frame = frame_of(tmp_path, data)
    assert frame.to_dict("list") == {"name": ["Jürgen", "Zoë"], "price": ["1 €", "2 €"]}
    said = datasets.read_frame(tmp_path / "people.csv", encoding="cp1252")  # no warning: nothing is guessed
    pd.testing.assert_frame_equal(said, frame)


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf_16_without_a_byte_order_mark_needs_the_encoding(tmp_path, encoding):
    data = "name,n\nJürgen,1\n".encode(encoding)
    with pytest.raises(DataError, match="`encoding="):
        frame_of(tmp_path, data)
    assert frame_of(tmp_path, data, encoding=encoding)["name"].tolist() == ["Jürgen"]


def test_an_encoding_that_is_said_is_the_one_in_force(tmp_path):
    assert frame_of(tmp_path, "name,n\nŁódź,1\n".encode("cp1250"), encoding="cp1250")["name"].tolist() == ["Łódź"]
    assert frame_of(tmp_path, "name,n\nJürgen,1\n".encode("utf-16"), encoding="utf-16")["name"].tolist() == ["Jürgen"]
    with pytest.raises(DataError, match=r"line 2: the text is not ascii: byte 0xc3"):
        frame_of(tmp_path, "name,n\nJürgen,1\n".encode(), encoding="ascii")
    with pytest.raises(OptionError, match="unknown encoding 'windows'"):
        frame_of(tmp_path, b"name,n\nx,1\n", encoding="windows")


def workbook(tmp_path, sheets):
    """Write a workbook of sheets, each a list of rows."""
    openpyxl = pytest.importorskip("openpyxl", reason="needs the extra excel")
    made = openpyxl.Workbook()
    made.remove(made.active)
    for title, rows in sheets.items():
        sheet = made.create_sheet(title)
        for row in rows:
            sheet.append(row)
    made.save(tmp_path / "people.xlsx")
    return tmp_path / "people.xlsx"


def test_a_workbook_is_its_one_sheet(tmp_path):
    day = dt.datetime(2024, 1, 31)
    rows = [["name ", "age", "paid", "since", "note"], ["Ann", 31, 1.5, day, None], [], ["Bo", 40, 2, day, "NA"]]
    frame = datasets.read_frame(workbook(tmp_path, {"People": rows, "Empty": []}))
    assert frame.columns.tolist() == ["name", "age", "paid", "since", "note"]
    assert frame["age"].tolist() == [31, 40]
    assert frame["age"].dtype == "int64"
    assert frame["since"].tolist() == [pd.Timestamp(day)] * 2
    assert frame["note"].fillna("").tolist() == ["", "NA"]


def test_a_sheet_is_chosen_by_name(tmp_path):
    path = workbook(tmp_path, {"people": [["x"], [1]], "more": [["x"], [2]], "none": []})
    assert datasets.read_frame(path, sheet="more")["x"].tolist() == [2]
    with pytest.raises(OptionError) as error:
        datasets.read_frame(path, sheet="mor")
    assert "'more'" in error.value.hint
    with pytest.raises(DataError):
        datasets.read_frame(path, sheet="none")
    with pytest.raises(DataError) as unclear:
        datasets.read_frame(path)
    assert "`sheet=NAME`" in unclear.value.hint
    (tmp_path / "people.csv").write_bytes(TABLE)
    with pytest.raises(OptionError):
        datasets.read_frame(tmp_path / "people.csv", sheet="people")


@pytest.mark.parametrize("titles", [[["Decisions of 2025"]], [["Decisions"], [], ["as of", "May"]], [[None, "Title"]]])
def test_rows_above_the_header_are_left_out_with_a_warning(tmp_path, titles):
    rows = [*titles, ["sex", "selected", "points", "zip"], ["F", "Yes", 1, "01"], [], ["M", None, 2.5, "02"]]
    with pytest.warns(TableWarning, match=f"row {len(titles) + 1} "):
        frame = datasets.read_frame(workbook(tmp_path, {"a": rows}))
    assert frame.columns.tolist() == ["sex", "selected", "points", "zip"]
    assert frame["selected"].fillna("").tolist() == ["Yes", ""]
    assert frame["points"].tolist() == [1, 2.5]
    assert frame["zip"].tolist() == ["01", "02"]


@pytest.mark.parametrize(
    ("cells", "expected", "words"),
    [
        ([1, "1", 2, "2.5"], [1, 1, 2, 2.5], ["1", "1", "2", "2.5"]),
        ([1, None, "2"], [1, None, 2], ["1", None, "2"]),
        ([1, "01", 2.0], ["1", "01", "2"], ["1", "01", "2"]),
        ([1, "n/a", 2.5], ["1", "n/a", "2.5"], ["1", "n/a", "2.5"]),
        ([True, 1, "True"], ["True", "1", "True"], ["True", "1", "True"]),
        ([dt.datetime(2024, 1, 31), "unknown"], ["2024-01-31", "unknown"], ["2024-01-31", "unknown"]),
    ],
)
def test_a_column_of_a_workbook_has_a_single_type(tmp_path, cells, expected, words):
    path = workbook(tmp_path, {"a": [["n", "x"], *([i, cell] for i, cell in enumerate(cells))]})
    with pytest.warns(TableWarning, match="column 'x' mixes"):
        column = datasets.read_frame(path)["x"]
    assert [None if cell != cell else cell for cell in column.tolist()] == expected
    assert [None if cell != cell else cell for cell in read_frame(path, words=True)["x"].tolist()] == words


@pytest.mark.parametrize(
    ("sheets", "words"),
    [
        ({"a": [["x"], [1]], "b": [["x"], [2]]}, "2 sheets that are not empty: 'a', 'b'\n  -> name the sheet"),
        ({"a": []}, "the workbook is empty"),
        ({"a": [["x", "y"]]}, "there are no rows"),
        ({"a": [["x", None], [1, 2]]}, "B1 is empty, and no row below consists only of text"),
        ({"a": [["x", "y", None], ["a", "b", "c"]]}, "C1 is empty"),
        ({"a": [["Title", None, None], ["x", "y", None], ["a", "b", "c"]]}, "C2 is empty"),
        ({"a": [["x", dt.datetime(2024, 1, 31)], ["a", "b"]]}, "row 1 has cells that are not text"),
        ({"a": [["x", "y"], [1, 2], [2, "#N/A"]]}, "row 3: column 'y': the cell is the error #N/A"),
        ({"a": [["x", "x"], [1, 2]]}, "two columns are called 'x'"),
        ({"a": [["x", "y"], [1, 2], [2, "#DIV/0!"]]}, "row 3: column 'y': the cell is the error #DIV/0!"),
        ({"a": [["x", "y"], [1, 2], [2, "=A1+1"]]}, "row 3: column 'y': the cell has a formula without a saved value"),
    ],
)
def test_a_workbook_that_cannot_be_read_says_why(tmp_path, sheets, words):
    with pytest.raises(DataError, match=words):
        datasets.read_frame(workbook(tmp_path, sheets))


def test_escaped_control_characters_of_a_workbook_are_read(tmp_path):
    path = workbook(tmp_path, {"a": [["x", "y"], ["F_x000D_", "a_xb"]]})
    assert datasets.read_frame(path).iloc[0].tolist() == ["F\r", "a_xb"]


def test_hidden_rows_are_read_and_counted(tmp_path):
    openpyxl = pytest.importorskip("openpyxl", reason="needs the extra excel")
    path = workbook(tmp_path, {"a": [["sex", "hired"], ["f", 1], ["m", 0], ["f", 0]]})
    book = openpyxl.load_workbook(path)
    book.active.row_dimensions[3].hidden = True
    book.save(path)
    with pytest.warns(TableWarning, match="1 of 3 rows are hidden"):
        assert len(datasets.read_frame(path)) == 3


def test_merged_cells_below_the_header_are_refused(tmp_path):
    openpyxl = pytest.importorskip("openpyxl", reason="needs the extra excel")
    path = workbook(tmp_path, {"a": [["Title", None], ["sex", "hired"], ["f", 1], [None, 0]]})
    book = openpyxl.load_workbook(path)
    book.active.merge_cells("A1:B1")
    book.save(path)
    with pytest.warns(TableWarning, match="header is in row 2"):
        assert len(datasets.read_frame(path)) == 2
    book.active.merge_cells("A3:A4")
    book.save(path)
    with (
        pytest.warns(TableWarning, match="header is in row 2"),
        pytest.raises(DataError, match="row 4: column 'sex': the cell is merged"),
    ):
        datasets.read_frame(path)


def test_a_damaged_workbook_says_so(tmp_path):
    pytest.importorskip("openpyxl", reason="needs the extra excel")
    for data in (b"PK\x03\x04\x14\0", b"nothing at all"):
        assert "not a readable Excel workbook" in refused(tmp_path, data, "people.xlsx")


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "the file is empty"),
        (b" \n \n", "the file is empty"),
        (b"a,b\n", "there are no rows"),
        (b"a,b,a\n1,2,3\n", "two columns are called 'a'"),
        (b"a, a\n1,2\n", "two columns are called 'a'"),
        (b",a\n0,1\n", "column 1 has no name"),
        (b"a,b\n1,2\n3\n", "line 3: 1 values, but 2 columns"),
        (b"a,b\n1,2\n3,4,5\n", "line 3: 3 values, but 2 columns"),
        (b'a,b\n1,"2\n', "quotes do not match"),
        (b'a,b\n1,"2"x\n', "quotes do not match"),
        (b"a,b\n1,2\ncaf\x9d,3\n", "line 3: the text is not UTF-8: byte 0x9d"),  # in no Windows encoding
        ("a,b\nJürgen,Zoë\n".encode() + b"caf\xe9,3\n", "line 3: the text is not UTF-8: byte 0xe9"),  # damaged UTF-8
        (b"a,b\n1,2\n\x01\xe9,3\n", "line 3: the text is not UTF-8: byte 0xe9"),
        (b"a,b\n1,2\n\0,3\n", "line 3: the file contains a null byte"),
        (b"\xff\xfea,b\n1", "the text is not utf-16"),
        (
            b"PK\x03\x04\x14\0\x06\0\x08\0",
            "Excel workbook or a zip file, not a text table\n  -> rename a workbook to .xlsx",
        ),
        (gzip.compress(b"a,b\n1,2\n", mtime=0), "this is a gzip file"),
        (b'[\n  {\n  "a": 1\n  }\n]', "this is JSON"),
        (b"a,b\nx,1\na,b\n", "row 2: the row repeats the column names"),
        (pickle.dumps([1]), "a pickle of Python objects, not a text table\n  -> pass the model first, then the data"),
        (b"PAR1\x15\x04", "Parquet file\n  -> rename it to .parquet"),
    ],
)
def test_damage_is_named_with_its_place(tmp_path, data, words):
    message = refused(tmp_path, data)
    assert words in message
    assert "people.csv" in message


def test_no_such_file_and_folders(tmp_path):
    with pytest.raises(DataError, match=r"absent\.csv: there is no such file"):
        datasets.read_frame(tmp_path / "absent.csv")
    with pytest.raises(DataError, match="folder"):
        datasets.read_frame(tmp_path)


COMPRESSED = {"": TABLE, ".gz": gzip.compress(TABLE, mtime=0), ".xz": lzma.compress(TABLE), ".bz2": bz2.compress(TABLE)}


@st.composite
def mutilated(draw):
    suffix = draw(st.sampled_from(sorted(COMPRESSED)))
    data = bytearray(COMPRESSED[suffix])
    for _ in range(draw(st.integers(1, 4))):
        place = draw(st.integers(0, max(len(data) - 1, 0)))
        piece = draw(
            st.one_of(st.binary(max_size=4), st.sampled_from([b'"', b"\r", b"\n", b",", b";", b"1e999", b" "]))
        )
        data[place : place + draw(st.integers(0, 6))] = piece
    return suffix, bytes(data)


@pytest.mark.filterwarnings("ignore::evenhand.errors.GuessedEncodingWarning")  # damaged bytes may be any encoding
@settings(max_examples=scaled(400), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(mutilated())
@example(("", b'a,b\n1,"\r"\n'))
@example(("", b"a\n99999999999999999999999999\n-1\n"))
def test_mutilated_bytes_give_a_frame_or_a_clear_error(tmp_path, case):
    suffix, data = case
    message = "people.csv"
    try:
        frame = frame_of(tmp_path, data, "people.csv" + suffix)
    except EvenhandError as error:
        message = str(error)
    else:
        assert len(frame) > 0
        assert frame.columns.is_unique
    assert "people.csv" in message
