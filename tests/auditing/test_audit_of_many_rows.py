"""Rows that are counted where they are give the numbers of the same rows in memory, the same bits in every engine."""

import hashlib
import json
import math

import narwhals as nw
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import evenhand
from evenhand import auditing
from evenhand.datasets import open_data
from evenhand.errors import DataError, EvenhandError, OptionError
from evenhand.groups import DecisionRoles
from evenhand.schema import Schema, counted
from evenhand.subgroups import find_subgroups_of_decisions
from support import scaled

OF_THE_RUN = {"seconds", "fingerprint", "people_fingerprint"}
"""What is of one run, or of people in an order."""

COUNTED = {"decision": "selected", "target": "repaid", "protected": ["sex", "race", "age"]}
FULL = COUNTED | {"score": "score"}


def people(n, seed=0, *, gaps=True):
    rng = np.random.default_rng(seed)
    score = rng.choice([rng.random(n), np.round(rng.random(n), 1)])
    sex = rng.choice(["F", "M", " F"], n, p=[0.5, 0.4, 0.1]).astype(object)
    frame = pd.DataFrame({"race": rng.choice(["A", "B", "C"], n), "age": rng.integers(18, 80, n), "score": score})
    repaid = (rng.random(n) < score).astype(float)
    if gaps:
        sex[rng.random(n) < 0.05] = None
        repaid[rng.random(n) < 0.05] = math.nan
    decided = np.where(score > 0.45 + 0.1 * (sex == "M"), "yes", "no").astype(object)
    decided[rng.random(n) < 0.02 * gaps] = rng.choice([None, " "])
    return frame.assign(sex=sex, selected=decided, repaid=repaid)


def engines(frame):
    """The same rows in every engine that is installed."""
    yield "pandas", nw.from_native(frame).lazy()
    polars = pytest.importorskip("polars", reason="needs the extra polars")
    pytest.importorskip("pyarrow", reason="needs the extra parquet")
    table = polars.from_pandas(frame)
    yield "polars", table.lazy()
    yield "pyarrow", nw.from_native(table.to_arrow()).lazy()
    duckdb = pytest.importorskip("duckdb", reason="needs the extra duckdb")
    yield "duckdb", duckdb.connect().from_arrow(table.to_arrow())


def fingerprint(decisions):
    found = hashlib.sha256(repr(decisions.people.schema).encode())
    if decisions.scores is not None:  # the rows are in memory, in the order of their engine
        found.update(np.sort(decisions.scores).tobytes())
        return found.hexdigest()
    parts = [decisions.people.individuals, decisions.people.counts, decisions.people.labels, decisions.selected]
    for part in parts:
        found.update(b"" if part is None else np.ascontiguousarray(part).tobytes())
    return found.hexdigest()


def differences(one, other, path=""):
    """Where two results differ by more than rounding."""
    if isinstance(one, dict) and isinstance(other, dict):
        names = (one.keys() | other.keys()) - OF_THE_RUN
        return [found for name in names for found in differences(one.get(name), other.get(name), f"{path}/{name}")]
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        pairs = enumerate(zip(one, other, strict=True))
        return [found for i, pair in pairs for found in differences(*pair, f"{path}/{i}")]
    close = (
        isinstance(one, float) and isinstance(other, float) and math.isclose(one, other, rel_tol=1e-10, abs_tol=1e-12)
    )
    return [] if close or one == other else [(path, one, other)]


def compare(frame, roles=FULL, **config):
    """Audit a frame in memory and in every engine; the result, after a look whether all are the same."""
    roles = DecisionRoles(**roles)
    config |= {"seed": 1}
    memory = auditing.audit_decisions(roles.read(frame), **config)
    prints = set()
    for name, rows in engines(frame):
        decisions = roles.read(rows)
        prints.add(fingerprint(decisions))
        if name == "duckdb":
            audit = auditing.audit_decisions(decisions, **config)
            assert differences(json.loads(memory.to_json()), json.loads(audit.to_json())) == []
    assert len(prints) == 1
    return memory


@settings(max_examples=scaled(15))
@given(st.integers(0, 2**31))
def test_all_engines_give_the_numbers_of_memory(seed):
    rng = np.random.default_rng(seed)
    roles = {"decision": "selected", "protected": list(rng.permutation(["sex", "race", "age"])[: rng.integers(1, 4)])}
    roles |= {name: value for name, value in (("target", "repaid"), ("score", "score")) if rng.random() < 0.7}
    compare(people(int(rng.integers(60, 900)), seed), roles)


def test_gaps_calibration_the_area_and_subgroups_are_among_them():
    found = compare(people(4000, 3))
    assert found.groups.overall["auc"].value > 0.6
    assert sum(len(one.groups) for one in found.groups.calibration) > 20
    assert found.subgroups.findings
    assert found.data.dropped > 0
    assert found.data.unknown["sex"] > 0


def test_low_scores_thresholds_and_scores_of_any_scale():
    frame = people(800, 5)
    compare(frame, FULL | {"low_is_good": True})
    compare(frame.assign(score=frame["score"] * 100 - 20))
    compare(frame.assign(score=frame["score"] * 100 - 20), FULL | {"low_is_good": True})
    compare(frame, {"score": "score", "threshold": 0.5, "protected": ["sex"], "target": "repaid"})
    compare(frame, {"score": "score", "threshold": 0.5, "protected": ["sex"], "low_is_good": True})


def test_a_schema_says_what_is_dropped_unknown_and_cut():
    schema = Schema.parse(
        {
            "target": {"name": "selected", "favourable": "yes", "values": ["no", "yes"]},
            "attributes": [
                {"name": "sex", "kind": "categorical", "values": ["F", "M"], "missing": "drop"},
                {"name": "race", "kind": "categorical", "values": ["A", "B"], "unknown": ["C"]},
                {"name": "age", "kind": "ordinal", "edges": [18, 30, 50, 80]},
            ],
        }
    )
    found = compare(people(2000, 7), FULL | {"schema": schema})
    assert {group.label for group in found.groups.breakdowns[2].groups} >= {"30 to 50"} or found.groups.breakdowns


def test_a_worked_example():
    """Three women and two men, one without a decision: 1 of 2 women, 2 of 2 men."""
    polars = pytest.importorskip("polars", reason="needs the extra polars")
    rows = polars.LazyFrame(
        {"sex": ["F", "F", "F", "M", "M"], "hired": [1, 0, None, 1, 1], "score": [0.75, 0.25, 0.5, 1.0, 0.5]}
    )
    read = DecisionRoles(decision="hired", protected=["sex"], score="score").read(rows)
    assert (read.people.size, len(read.people), read.people.undecided) == (4, 4, 1)
    counted = DecisionRoles(decision="hired", protected=["sex"]).read(rows)
    assert (counted.people.size, len(counted.people), counted.people.undecided) == (4, 3, 1)
    found = evenhand.audit_predictions("hired", sensitive_features=["sex"], y_score="score", data=rows).groups
    women, men = found.breakdowns[0].groups
    assert (women.size, women.metrics["selection_rate"].value, women.metrics["mean_score"].value) == (2, 0.5, 0.5)
    assert (men.size, men.metrics["selection_rate"].value, men.metrics["mean_score"].value) == (2, 1.0, 0.75)


def test_subgroups_of_counts_are_those_of_people():
    frame = people(1500, 11)
    roles = DecisionRoles(**COUNTED)
    rows = roles.read(nw.from_native(frame).lazy())
    configs = (
        {"measure": "false-negative"},
        {"measure": "false-positive"},
        {"per": "race", "attributes": ("sex", "age")},
    )
    for config in (*configs, {"judged": ("age >= 60 and sex == M",)}):
        one, other = (
            json.loads(find_subgroups_of_decisions(read, **config).to_json()) for read in (roles.read(frame), rows)
        )
        assert differences(one, other) == []


def test_subgroups_that_need_every_person_are_refused():
    rows = DecisionRoles(**COUNTED).read(nw.from_native(people(500)).lazy())
    with pytest.raises(OptionError, match="require individual rows"):
        find_subgroups_of_decisions(rows, measure="score")


@pytest.mark.parametrize(
    ("roles", "config", "message"),
    [
        ({}, {"thresholds": True}, "thresholds"),
        ({}, {"keep_decisions": True}, "keep_decisions"),
        ({}, {"metrics": {"mine": len}}, "metrics"),
        ({"decision": "age", "protected": ["sex"]}, {}, "different values"),
        ({"protected": ["wide"]}, {}, "'wide'"),
    ],
)
def test_what_needs_every_person_is_refused(roles, config, message):
    frame = people(11_000, 2, gaps=False)
    rows = nw.from_native(frame.assign(wide=np.arange(len(frame)))).lazy()
    with pytest.raises(EvenhandError, match=message) as error:
        auditing.audit_decisions(DecisionRoles(**COUNTED | roles).read(rows), **config)
    assert error.value.hint


def test_columns_may_have_any_name_but_no_lists():
    frame = people(200, 4, gaps=False).rename(columns={"sex": "sex.1", "selected": "selected "})
    compare(frame, {"decision": "selected ", "protected": ["sex.1"]})
    polars = pytest.importorskip("polars", reason="needs the extra polars")
    with pytest.raises(DataError, match="several values per cell"):
        DecisionRoles("y", ["x"]).read(polars.LazyFrame({"x": [["F", "M"], ["M"]], "y": [0, 1]}))


def test_scores_that_are_not_numbers_are_named():
    frame = people(200, 4, gaps=False)
    frame.loc[:4, "score"] = [math.nan, math.inf, 0.5, -math.inf, math.nan]
    for _, rows in engines(frame):
        with pytest.raises(EvenhandError, match=r"a finite number as score, got an empty cell \(4 such rows\)"):
            DecisionRoles(**FULL).read(rows)


def test_only_so_many_rows_are_read_into_memory(monkeypatch):
    monkeypatch.setattr(counted, "MOST_ROWS", 100)
    rows = nw.from_native(people(200)).lazy()
    with pytest.raises(EvenhandError, match="at most 100 rows"):
        DecisionRoles(**FULL).read(rows)


BINARY = {"name": "selected", "favourable": "yes", "values": ["no", "yes"]}


@pytest.mark.parametrize(
    ("attribute", "column", "bad", "said"),
    [
        ({"kind": "categorical", "values": ["F", "M"]}, "sex", "Maria Lopez", "not listed: 'Maria Lopez'"),
        ({"kind": "integer", "lower": 18, "upper": 80}, "age", 1999, "expected a whole number from 18 to 80, got 1999"),
        (
            {"kind": "categorical", "values": ["A", "B", "C"], "missing": "refuse"},
            "race",
            None,
            "expected a value, got an empty cell",
        ),
    ],
)
def test_a_bad_value_is_named_with_its_rows_and_the_first_of_them(tmp_path, attribute, column, bad, said):
    pytest.importorskip("pyarrow", reason="needs the extra parquet")
    pytest.importorskip("duckdb", reason="needs the extra duckdb")
    polars = pytest.importorskip("polars", reason="needs the extra polars")
    frame = people(300, 4, gaps=False).assign(sex="F", card="4929 1234 5678 9012")
    frame.loc[[171, 172, 250], column] = bad
    schema = Schema.parse({"target": BINARY, "attributes": [{"name": column} | attribute]})
    roles = DecisionRoles("selected", [column], schema=schema)
    for part in range(3):
        frame[100 * part : 100 * part + 100].to_parquet(tmp_path / f"{part}.parquet")
    places = {
        "in row 172": polars.from_pandas(frame).lazy(),
        f"in row 72 of {tmp_path / '1.parquet'}": open_data(tmp_path),
    }
    for place, rows in places.items():
        with pytest.raises(EvenhandError) as error:
            roles.read(rows, location="people")
        assert str(error.value).startswith(f"people: column {column!r}")
        assert f"3 rows, the first of them {place}" in str(error.value)
        assert said in str(error.value)
        assert "4929" not in str(error.value)


def test_models_are_not_asked_about_rows_elsewhere():
    rows = nw.from_native(people(200)).lazy()
    with pytest.raises(EvenhandError, match="expected a data frame in memory"):
        evenhand.audit(lambda frame: np.ones(len(frame)), rows, target="selected", protected=["sex"])
