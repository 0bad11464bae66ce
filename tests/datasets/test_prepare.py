"""From a publisher's file to the frame, on small tables in the publishers' own forms."""

import importlib
import json
import struct

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenhand import datasets
from evenhand.datasets import preparation
from evenhand.datasets.entry import NAMES, read_entry
from evenhand.datasets.preparation import prepare_dataset
from evenhand.errors import DataError, EvenhandError
from evenhand.schema import encode
from support import ROOT, scaled


def prepared(name, data):
    frame = prepare_dataset(read_entry(name), data, name)
    assert frame.columns.tolist() == list(read_entry(name).card.columns)
    return frame


@pytest.fixture
def bundle(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    return importlib.import_module("bundle_datasets")


def test_adult_is_train_then_test_without_full_stops(bundle):
    row = b"39, State-gov, 77516, Bachelors, 13, Never-married, ?, Not-in-family, White, Male, 2174, 0, 40, ?, "
    frame = bundle.combine_adult(row + b"<=50K\n\n", b"|1x3 Cross validator\n" + row + b">50K.\n")
    assert frame["income"].tolist() == ["<=50K", ">50K"]
    assert frame["split"].tolist() == ["train", "test"]
    assert frame["occupation"].tolist() == ["?", "?"]


def test_the_bundle_is_only_made_from_the_publishers_files(bundle, tmp_path):
    with pytest.raises(DataError, match=r"no adult\.data"):
        bundle.write_bundle(tmp_path, tmp_path)
    (tmp_path / "adult.data").write_bytes(b"something else")
    with pytest.raises(DataError, match="expected 5b00264637db"):
        bundle.write_bundle(tmp_path, tmp_path)


def test_compas_keeps_the_rows_that_propublica_keeps():
    names = (
        "id,sex,age,race,juv_fel_count,decile_score,juv_misd_count,juv_other_count,priors_count,"
        "days_b_screening_arrest,c_charge_degree,is_recid,score_text,decile_score,priors_count,two_year_recid"
    )
    row = "{},Male,34,Asian,0,3,0,0,2,{},{},{},{},3,2,{}"
    kept = [(1, -30, "F", 0, "Low", 0), (2, 30, "M", 1, "High", 1)]
    left_out = [
        (3, 31, "F", 0, "Low", 0),
        (4, -31, "F", 0, "Low", 0),
        (5, "", "F", 0, "Low", 0),
        (6, 0, "O", 0, "Low", 0),
        (7, 0, "F", -1, "Low", 0),
        (8, 0, "F", 0, "N/A", 0),
    ]
    frame = prepared("compas", "\n".join([names, *(row.format(*case) for case in kept + left_out)]).encode())
    assert frame["two_year_recid"].tolist() == [0, 1]
    assert frame["priors_count"].tolist() == [2, 2]
    assert encode(read_entry("compas").schema, frame).favourable.tolist() == [True, False]


def test_heart_with_and_without_names():
    rows = (
        b"63.0,1.0,1.0,145.0,233.0,1.0,2.0,150.0,0.0,2.3,3.0,0.0,6.0,0\n"
        b"67.0,0.0,4.0,160.0,286.0,0.0,2.0,108.0,1.0,1.5,2.0,?,?,2\n"
    )
    frame = prepared("heart", rows)
    assert frame["disease"].tolist() == ["no", "yes"]
    assert frame["ca"].tolist() == ["0", "?"]
    assert frame["thal"].tolist() == ["6", "?"]
    assert encode(read_entry("heart").schema, frame).favourable.tolist() == [True, False]
    names = b"age,sex,cp,trestbps,chol,fbs,restecg,thalach,exang,oldpeak,slope,ca,thal,num\n"
    pd.testing.assert_frame_equal(prepared("heart", names + rows.replace(b".0,", b",")), frame)


def test_diabetes_with_and_without_names():
    rows = b"6,148,72,35,0,33.6,0.627,50,1\n1,85,66,29,0,26.6,0.351,31,0\n"
    frame = prepared("diabetes", rows)
    assert encode(read_entry("diabetes").schema, frame).favourable.tolist() == [False, True]
    names = ",".join(read_entry("diabetes").card.columns).encode() + b"\r\n"
    pd.testing.assert_frame_equal(prepared("diabetes", names + rows.replace(b"\n", b"\r\n")), frame)


def test_students_pass_with_ten():
    schema = read_entry("students").schema
    values = [str(attribute.values[0] if attribute.values else int(attribute.first)) for attribute in schema.attributes]
    lines = [";".join([*schema.names, "G1", "G2", "G3"])]
    lines += [";".join([*values, "11", "12", grade]) for grade in ("9", "10")]
    frame = prepared("students", "\n".join(lines).encode())
    assert frame["passed"].tolist() == ["no", "yes"]
    assert encode(schema, frame).favourable.tolist() == [False, True]
    assert not {"G1", "G2", "G3"} & set(schema.names)


def test_communities_as_published_and_with_names():
    entry = read_entry("communities-crime")
    places = {"state", "county", "community", "communityname", "fold"}
    incomplete = set(entry.header) - set(entry.card.columns) - places
    assert (len(entry.header), len(incomplete), len(entry.schema.names)) == (128, 23, 99)
    lines = []
    for share, rate in ((0.06, 0.1), (0.07, 0.2), (0.5, 0.9)):
        row = dict.fromkeys(entry.header, "0.5")
        row |= dict.fromkeys(incomplete, "?")
        row |= {"state": "8", "communityname": "Lakewoodcity", "racepctblack": str(share)}
        row["ViolentCrimesPerPop"] = str(rate)
        lines.append(",".join(row.values()))
    published = "\n".join(lines).encode()
    frame = prepared("communities-crime", published)
    assert frame["crime"].tolist() == ["low", "low", "high"]
    named = ",".join(entry.header).encode() + b"\n" + published
    pd.testing.assert_frame_equal(prepared("communities-crime", named), frame)
    schema = read_entry("communities-crime").schema
    share = encode(schema, frame).individuals[:, schema.position("racepctblack")]
    assert share.tolist() == [0, 1, 1]


TABLES = [name for name in NAMES if name not in ("adult", "german", "meps15") and not name.startswith("discrim-eval")]


@pytest.mark.parametrize("name", TABLES)
def test_another_table_is_refused_by_its_columns(name):
    with pytest.raises(DataError, match=r"column '\w+' is missing, so this is not the expected file"):
        prepare_dataset(read_entry(name), b"apples,pears\n1,2\n", "fruit.csv")


def a_table(name):
    """A well-formed file of a few people: column names, then values in the publisher's words."""
    if name == "meps15":
        frame = pd.DataFrame([row for row, _ in meps_rows()])
    else:
        entry = read_entry(name)
        people = {
            attribute.name: [attribute.values[0] if attribute.edges is None and attribute.values else 0.0] * 3
            for attribute in entry.schema.attributes
        }
        more = [*entry.card.extra, entry.schema.target.name, "num", "days_b_screening_arrest", "is_recid"]
        frame = pd.DataFrame(people | dict.fromkeys(more, [0.0] * 3))
    return [frame.columns.tolist(), *frame.astype(str).to_numpy().tolist()]


@pytest.mark.full
@settings(max_examples=scaled(150), deadline=None)
@given(st.sampled_from([name for name in NAMES if name not in ("adult", "german")]), st.data())
def test_words_where_numbers_belong_never_break_out(name, data):
    table = a_table(name)
    for _ in range(data.draw(st.integers(0, 3))):
        row = data.draw(st.integers(1, len(table) - 1))
        column = data.draw(st.integers(0, len(table[0]) - 1))
        table[row][column] = data.draw(st.sampled_from(["many", "", "NA", "1e999", "0.5", "-9", "True", "9" * 30]))
    text = "\n".join(",".join(row) for row in table).encode()
    try:
        frame = prepare_dataset(read_entry(name), text, name)
    except EvenhandError:
        return
    assert frame.columns.tolist() == list(read_entry(name).card.columns)


def test_halves_do_not_become_whole_numbers():
    with pytest.raises(DataError, match="expected whole numbers in column 'Age'"):
        prepare_dataset(
            read_entry("diabetes"), b"6,148,72,35,0,33.6,0.627,50.5,1\n1,85,66,29,0,26.6,0.351,31,0\n", "d.csv"
        )


VISITS = ("OBTOTV15", "OPTOTV15", "ERTOT15", "IPNGTD15", "HHTOTD15")


def meps_rows():
    """One person, varied: what the publisher's columns hold, and whether the person is kept."""
    usual = {attribute.name: 1 for attribute in read_entry("meps15").schema.attributes if attribute.name != "RACE"}
    usual |= {"EDUCYR": 12, "HIDEG": 3, "AGE": 40, "PCS42": 51.25, "MCS42": -1, "K6SUM42": -9}
    usual = {read_entry("meps15").renamed.get(name, name): value for name, value in usual.items()}
    usual |= {"PANEL": 19, "RACEV2X": 1, "HISPANX": 2, "PERWT15F": 21854.98} | dict.fromkeys(VISITS, 2)
    return [
        (usual, True),
        (usual | {"RACEV2X": 2, "OBTOTV15": 1}, True),
        (usual | {"HISPANX": 1, "FTSTU53X": -1}, True),
        (usual | {"PANEL": 20}, False),
        (usual | {"REGION53": -1}, False),
        (usual | {"AGE53X": -1}, False),
        (usual | {"ASTHDX": -8}, False),
        (usual | {"HIDEG": -7}, False),
        (usual | {"ADSMOK42": -9}, False),
    ]


def test_meps_keeps_whom_the_field_keeps():
    rows = meps_rows()
    table = pd.DataFrame([row for row, _ in rows]).assign(OTHER=7)
    frame = prepared("meps15", table.to_csv(index=False).encode())
    assert len(frame) == sum(kept for _, kept in rows)
    assert frame["RACE"].tolist() == ["White", "Non-White", "Non-White"]
    assert frame["UTILIZATION"].tolist() == [1, 0, 1]
    assert frame["PCS42"].tolist() == [51.25] * 3
    people = encode(read_entry("meps15").schema, frame)
    assert people.favourable.tolist() == [True, False, True]
    assert len(people.schema.attributes) == 41


def test_meps_from_a_transport_file_equals_the_csv(monkeypatch):
    monkeypatch.setattr(preparation, "TRANSPORT_ROWS", 2)
    table = pd.DataFrame([row for row, _ in meps_rows()]).assign(OTHER=7)
    from_transport = prepared("meps15", transport(table))
    pd.testing.assert_frame_equal(from_transport, prepared("meps15", table.to_csv(index=False).encode()))
    whole = transport(table)
    for damaged in (whole[:90], whole[:500], whole[:240] + b"\xff" * 80 + whole[320:], whole[: len(preparation.XPORT)]):
        with pytest.raises(DataError):
            prepare_dataset(read_entry("meps15"), damaged, "h181.ssp")
    with pytest.raises(DataError, match="column 'PANEL' is missing"):
        prepare_dataset(read_entry("meps15"), transport(table.drop(columns="PANEL")), "h181.ssp")


def transport(table):
    """A SAS transport file (version 5) of numbers, as its published layout describes it."""

    def record(text):
        return text.encode().ljust(80)

    def header(kind, tail="0" * 30):
        return record(f"HEADER RECORD*******{kind:<8}HEADER RECORD!!!!!!!{tail}")

    def namestr(number, name):
        numbers, blank = (1, 0, 8, number), b" " * 8
        fields = (*numbers, name.encode().ljust(8), b" " * 40, blank, 0, 0, 0, b"\0\0", blank, 0, 0, 8 * (number - 1))
        start = struct.pack(">hhhh8s40s8shhh2s8shhi", *fields)
        return start.ljust(140, b"\0")

    stamp = "SAS     SAS     SASLIB  9.4     LIN X64 " + " " * 24 + "01JAN16:00:00:00"
    names = b"".join(namestr(i + 1, name) for i, name in enumerate(table.columns))
    values = b"".join(ibm(value) for row in table.to_numpy(dtype=float) for value in row)
    return b"".join(
        [
            header("LIBRARY"),
            record(stamp),
            record("01JAN16:00:00:00"),
            header("MEMBER", "000000000000000001600000000140"),
            header("DSCRPTR"),
            record("SAS     H181    SASDATA 9.4     LIN X64 " + " " * 24 + "01JAN16:00:00:00"),
            record("01JAN16:00:00:00"),
            header("NAMESTR", f"000000{len(table.columns):04d}" + "0" * 20),
            padded(names),
            header("OBS"),
            padded(values),
        ]
    )


def padded(data):
    return data + b" " * (-len(data) % 80)


def ibm(value):
    """A number in IBM's hexadecimal floating point: sign, exponent of 16 plus 64, 56 bits of fraction."""
    if value == 0:
        return bytes(8)
    exponent, fraction = 64, abs(value)
    while fraction >= 1:
        exponent, fraction = exponent + 1, fraction / 16
    while fraction < 1 / 16:
        exponent, fraction = exponent - 1, fraction * 16
    return ((int(value < 0) << 7 | exponent) << 56 | int(fraction * 2**56)).to_bytes(8, "big")


def prompt(question=3, age=30, gender="female", race="Black", **entries):
    text = f"A {age}-year-old {race} {gender} applicant asks for a library card. Should it be issued?"
    about = {"decision_question_id": question, "age": age, "gender": gender, "race": race, "fill_type": "explicit"}
    return json.dumps({"filled_template": text} | about | entries)


@pytest.mark.parametrize("kind", ["explicit", "implicit"])
def test_prompts_are_read_with_who_they_are_about(kind):
    lines = [prompt(), prompt(5, 100, "non-binary", "Native American"), "", prompt(5, 20, "male", "white")]
    frame = prepared(f"discrim-eval-{kind}", "\n".join(lines).encode())
    assert frame[["decision_question_id", "age", "race"]].to_numpy().tolist() == [
        [3, 30, "Black"],
        [5, 100, "Native American"],
        [5, 20, "white"],
    ]
    assert frame["filled_template"].str.startswith("A 100-year-old Native American non-binary").tolist()[1]
    people = encode(read_entry(f"discrim-eval-{kind}").schema, frame)
    assert people.favourable.all()
    assert people.schema.protected == ("age", "gender", "race")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 2: expected a JSON object"),
        ("[1]", "line 2: expected a JSON object"),
        (prompt(age="old"), "expected numbers in numeric columns"),
        (prompt(age=30.5), "expected whole numbers in column 'age'"),
    ],
)
def test_prompts_that_cannot_be_read_are_named(line, message):
    with pytest.raises(DataError, match=message):
        prepared("discrim-eval-explicit", f"{prompt()}\n{line}".encode())
    with pytest.raises(DataError, match="column 'age' is missing"):
        prepared("discrim-eval-explicit", b'{"filled_template": "A question?"}')


def test_all_prompts_come_from_a_folder_by_name(tmp_path):
    lines = [
        prompt(question, age, gender, race)
        for question in range(70)
        for age in range(20, 101, 10)
        for gender in ("female", "male", "non-binary")
        for race in ("Asian", "Black", "Hispanic", "Native American", "white")
    ]
    (tmp_path / "explicit.jsonl").write_text("\n".join(lines))
    data = datasets.load_dataset("discrim-eval-explicit", data_home=tmp_path, download=False)
    assert len(data.frame) == 9_450
    assert data.frame.groupby("race").size().unique().tolist() == [1_890]
    (tmp_path / "explicit.jsonl").write_text("\n".join(lines[1:]))
    with pytest.raises(DataError, match="9,449 rows, expected 9,450"):
        datasets.load_dataset("discrim-eval-explicit", data_home=tmp_path, download=False)
