"""Dossiers of rows that are counted where they are: the bits of the same rows in memory, in every engine."""

import datetime as dt
import json
import random

import narwhals as nw
import numpy as np
import pandas as pd
import pytest
from test_recount import CASES, random_people
from test_recount import case_configuration as configuration
from test_recount import configuration as recount_configuration

from evenhand.datasets import open_data
from evenhand.datasets.tables import read_frame
from evenhand.dossier import DossierConfig, compile_dossier
from evenhand.dossier.analysis import find_changed_cells
from evenhand.errors import DataError, DossierError, OptionError
from support import scaled, shared

pl = pytest.importorskip("polars", reason="needs the extra polars")
pytest.importorskip("pyarrow", reason="needs the extra parquet")
duckdb = pytest.importorskip("duckdb", reason="needs the extra duckdb")

TODAY = dt.date(2026, 11, 23)


def engines(frame):
    table = pl.from_pandas(frame)
    return {
        "pandas": nw.from_native(frame).lazy(),
        "polars": table.lazy(),
        "pyarrow": nw.from_native(table.to_arrow()).lazy(),
        "duckdb": duckdb.connect().from_arrow(table.to_arrow()),
    }


def compile_text(frame, config):
    return compile_dossier(frame, config, dossiers=("ll144", "ugesp", "disparity"), today=TODAY).to_json()


def code_or_text(frame, config):
    """The dossier, or by which code it is refused."""
    try:
        return compile_text(frame, config)
    except DossierError as error:
        return error.code


@pytest.mark.parametrize("name", CASES)
def test_every_case_is_that_of_memory_to_the_last_bit(name):
    folder = shared("data", "dossier", name)
    case = json.loads((folder / "config.json").read_text("utf-8"))
    frame = read_frame(folder / "data.csv", words=True)
    if case["kind"] == "score":
        frame[case["outcome"]] = pd.to_numeric(frame[case["outcome"]])
    config = configuration(case)
    expected = json.loads((folder / "expected.json").read_text("utf-8")).get("error")
    if expected is None:
        memory = compile_text(frame, config)
        assert [name for name, rows in engines(frame).items() if compile_text(rows, config) != memory] == []
        return
    for rows in engines(frame).values():
        with pytest.raises(DossierError) as caught:
            compile_text(rows, config)
        assert caught.value.code == expected["code"]


@pytest.mark.parametrize("kind", ["selection", "score"])
def test_random_people_give_the_bits_of_memory(kind):
    rng = random.Random(3)
    for _ in range(scaled(12)):
        frame = pd.DataFrame(random_people(rng))
        config = recount_configuration(kind, rng.random() < 0.6, "job" if rng.random() < 0.5 else None)
        rows = engines(frame)[rng.choice(["polars", "duckdb", "pyarrow"])]
        memory = code_or_text(frame, config)
        assert code_or_text(rows, config) == memory
        if memory.startswith("{"):
            assert find_changed_cells(compile_dossier(frame, config, today=TODAY), rows) == []


def test_scores_of_any_scale_and_their_quantiles():
    rng = np.random.default_rng(5)
    frame = pd.DataFrame({"sex": rng.choice(["Male", "Female", ""], 500), "score": rng.normal(650, 80, 500).round(1)})
    frame.loc[::17, "score"] = np.nan
    sex, outcome = {"column": "sex", "categories": ["Male", "Female"]}, {"column": "score", "kind": "score"}
    quantiles = (0.1, 0.5, 1)
    config = DossierConfig(outcome=outcome, attributes={"sex": sex}, reference={"sex": "Male"}, quantiles=quantiles)
    memory = compile_text(frame, config)
    assert {compile_text(rows, config) for rows in engines(frame).values()} == {memory}
    (trade,) = compile_dossier(frame, config, today=TODAY).trade
    by_hand = frame.dropna().groupby("sex")["score"].mean()
    assert [row.mean for row in trade.rows] == pytest.approx([by_hand["Male"], by_hand["Female"]], rel=1e-12)
    known = frame[frame["sex"] != ""]["score"].dropna()
    assert trade.rows[1].smd == pytest.approx((by_hand["Female"] - by_hand["Male"]) / known.std(), rel=1e-9)


SELECTION = {"outcome": {"column": "selected"}, "attributes": {"sex": {"column": "sex", "categories": ["M", "F"]}}}
SCORE = SELECTION | {"outcome": {"column": "score", "kind": "score"}}
FRAME = pd.DataFrame({"sex": ["M", "F"] * 4, "selected": [1, 0] * 4, "score": [0.1, 0.2, 0.3, 0.4] * 2})


@pytest.mark.parametrize(
    ("change", "settings", "code", "said"),
    [
        ({"sex": ["M", "F", "X", "X"] * 2}, SELECTION, "unlisted-category", "4 rows, the first of them in row 3"),
        ({"selected": ["1", "0", "yes", ""] * 2}, SELECTION, "not-a-decision", "2 rows, the first of them in row 3"),
        ({"score": [0.5, np.inf] * 4}, SCORE, "not-a-number", "'inf' (4 rows"),
        ({"score": [np.nan] * 8}, SCORE, "no-outcomes", "no person has an outcome"),
        ({"job": ["a", None] * 4}, SELECTION | {"strata": "job"}, "no-stratum", "4 rows, the first of them in row 2"),
        ({}, SELECTION | {"strata": "job"}, "no-column", "the columns are: sex, selected, score"),
    ],
)
def test_bad_values_are_named_with_their_number_and_the_first_row(change, settings, code, said):
    for name in ("polars", "duckdb"):
        with pytest.raises(DossierError) as caught:
            compile_dossier(engines(FRAME.assign(**change))[name], DossierConfig(**settings))
        assert caught.value.code == code
        assert (said if name == "polars" else said.split(", the")[0]) in str(caught.value)


def test_a_bad_value_in_a_folder_is_named_with_its_file_and_row(tmp_path):
    for part in range(3):
        sex = ["M", "F", "X" if part == 1 else "F"]
        pd.DataFrame({"sex": sex, "selected": [1, 0, 1]}).to_parquet(tmp_path / f"{part}.parquet")
    with pytest.raises(DossierError, match=r"column 'sex': .*'X' \(1 row, the first of them in row 3 of .*1\.parquet"):
        compile_dossier(open_data(tmp_path), DossierConfig(**SELECTION))


def test_what_cannot_be_counted_is_refused():
    rows = engines(FRAME)["duckdb"]
    tables = {"surname": "surnames.csv"}
    proxy = DossierConfig(**SELECTION | {"proxy": {"surname": "sex", "tables": tables}})
    with pytest.raises(OptionError, match="require the rows in memory"):
        compile_dossier(rows, proxy, dossiers=("disparity",))
    with pytest.raises(DossierError, match="expected finite numbers as scores"):
        compile_dossier(rows, DossierConfig(**SELECTION | {"outcome": {"column": "sex", "kind": "score"}}))
    with pytest.raises(DataError, match="there are no rows"):
        compile_dossier(rows.filter("selected > 5"), DossierConfig(**SELECTION))
    many = pl.LazyFrame({"sex": ["M", "F"] * 6000, "selected": [1, 0] * 6000, "job": range(12_000)})
    with pytest.raises(DataError, match="12,000"):
        compile_dossier(many, DossierConfig(**SELECTION | {"strata": "job"}))
