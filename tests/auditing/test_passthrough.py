"""Audits of a pipeline that was fitted on a whole frame, with an identifier, a date and a text among its columns."""

import runpy

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder

import evenhand
from evenhand.errors import ModelError, NotAdditiveError, OptionError
from evenhand.individual.search.save import replay_cases
from evenhand.schema import People
from serving import serving

REFUSED = "Prefer not to say"
QUICK = {"samples": 300, "searched": 50, "max_boxes": 50}


def days(column):
    return ((column - pd.Timestamp("2024-01-01")).to_numpy() / np.timedelta64(1, "D") / 100).astype(float)


def applicants(n=300):
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(
        {
            "id": range(n),
            "applied": pd.date_range("2024-01-01", periods=n),
            "text": [f"applicant number {i} writes {rng.choice(['well', 'badly'])}" for i in range(n)],
            "gender": rng.choice(["f", "m", REFUSED], n, p=[0.45, 0.45, 0.1]),
            "region": rng.choice(["north", "south"], n),
            "points": rng.integers(0, 10, n),
        }
    )
    score = frame["points"] + 3 * frame["text"].str.contains("well") - 2 * (frame["gender"] == "f")
    return frame, (score + rng.normal(0, 1, n) > 5).astype(int)


def fitted(frame, labels, *, reads_text):
    parts = [("words", OneHotEncoder(), ["gender", "region"]), ("points", "passthrough", ["points"])]
    if reads_text:
        parts += [("text", CountVectorizer(), "text"), ("day", FunctionTransformer(days), ["applied"])]
    return make_pipeline(ColumnTransformer(parts), LogisticRegression(max_iter=2000)).fit(frame, labels)


@pytest.fixture(scope="module")
def audited():
    frame, labels = applicants()
    model = fitted(frame, labels, reads_text=True)
    settings = {"protected": ["gender", "region"], "accept_proposals": True, **QUICK}
    return frame, labels, model, evenhand.audit(model, frame, labels, **settings)


@pytest.fixture(scope="module")
def found(audited):
    frame, labels, model, _ = audited
    settings = {"accept_proposals": True, "budget": 3000, "seed": 1, "show_people": True}
    return evenhand.search(model, frame, labels, protected=["gender"], **settings)


def test_flips_are_those_of_the_model_asked_by_hand(audited):
    """Everybody keeps their own text and day; who prefers not to say is in no figure by gender."""
    frame, _, model, result = audited
    known = frame[frame["gender"] != REFUSED]
    flips = (model.predict(known.assign(gender="f")) != model.predict(known.assign(gender="m"))).sum()
    rate = result.individual.rate(("gender",), "data")
    assert 0 < flips == rate.flips
    assert (rate.n, rate.unknown) == (len(known), len(frame) - len(known))
    by_region = result.individual.rate(("region",), "data")
    assert (by_region.n, by_region.unknown) == (len(frame), 0)


def test_groups_leave_out_who_is_unknown_and_totals_do_not(audited):
    frame, labels, model, result = audited
    decided = model.predict(frame)
    assert result.groups.overall["accuracy"].value == pytest.approx((decided == labels).mean())
    by_gender, by_region, both = result.groups.breakdowns
    for group in by_gender.groups:
        assert group.metrics["selection_rate"].value == decided[frame["gender"] == group.values["gender"]].mean()
    assert {group.values["gender"] for group in by_gender.groups} == {"f", "m"}
    unknown = int((frame["gender"] == REFUSED).sum())
    assert (by_gender.unknown, by_region.unknown, both.unknown) == (unknown, 0, unknown)
    assert sum(group.size for group in by_region.groups) == len(frame)
    assert result.subgroups.unknown == unknown
    assert result.subgroups.people == len(frame) - unknown
    assert result.data.unknown == {"gender": unknown}
    assert {cell for cells in result.subgroups.attributes for cell in cells.cells} == {"f", "m", "north", "south"}


def test_a_model_that_reads_a_passthrough_column_gets_no_certificate(audited):
    frame, labels, model, result = audited
    assert not result.certificates
    assert any("reads the passthrough column 'text', which has no domain" in one.reason for one in result.not_run)
    about = {"protected": ["gender"], "accept_proposals": True}
    with pytest.raises(NotAdditiveError, match="passthrough column 'text'"):
        evenhand.certify(model, frame, labels, **about)
    blind = fitted(frame, labels, reads_text=False)
    found = evenhand.certify(blind, frame, labels, **about)
    assert found.certified + found.falsified == pytest.approx(1, abs=0.01)


@pytest.mark.parametrize("backend", ["pandas", "polars", "pyarrow"])
def test_a_function_sees_the_cells_of_the_row(backend):
    """Of the people in the data it gets their own cells, in the frame's own types; of others those of a real person."""
    if backend != "pandas":
        pytest.importorskip(backend, reason=f"needs the extra {'parquet' if backend == 'pyarrow' else backend}")
    frame, labels = applicants(60)
    frame = frame.assign(hired=labels)
    given = frame
    if backend == "polars":
        import polars as pl

        given = pl.from_pandas(frame)
    elif backend == "pyarrow":
        import pyarrow as pa

        given = pa.Table.from_pandas(frame)
    rows = {(row.id, row.applied, row.text) for row in frame.itertuples()}
    seen = []

    def model(asked):
        table = asked if backend == "pandas" else asked.to_pandas()
        assert type(asked) is type(given)
        seen.append(table)
        return (table["points"] + 3 * table["text"].str.contains("well") - 2 * (table["gender"] == "f") > 5).astype(int)

    settings = {"target": "hired", "protected": ["gender"], "accept_proposals": True, **QUICK}
    result = evenhand.audit(model, given, **settings)
    asked = pd.concat(seen)
    assert {(row.id, pd.Timestamp(row.applied), row.text) for row in asked.itertuples()} <= rows
    assert len(asked["id"].unique()) == 60
    assert list(seen[0].columns) == [name for name in frame.columns if name != "hired"]
    decided = model(given)
    assert result.groups.overall["accuracy"].value == pytest.approx((decided == labels).mean())


def test_an_endpoint_is_sent_what_stands_in_the_data(audited):
    """The same figures as of the pipeline itself: dates travel as text, cells of unknown value as their words."""
    frame, labels, model, result = audited

    def reply(instances):
        given = pd.DataFrame(instances)
        return {
            "predictions": model.predict_proba(given.assign(applied=pd.to_datetime(given["applied"])))[:, 1].tolist()
        }

    with serving(reply) as service:
        served = evenhand.audit(
            service.url, frame, labels, protected=["gender", "region"], accept_proposals=True, **QUICK
        )
    flips, expected = ([(rate.flips, rate.n, rate.rate) for rate in one.individual.rates] for one in (served, result))
    assert flips == expected
    assert served.groups.overall["accuracy"].value == result.groups.overall["accuracy"].value
    everybody = pd.DataFrame([one for instances in service.requests for one in instances])
    whole = everybody.assign(applied=pd.to_datetime(everybody["applied"])).drop_duplicates()
    assert len(whole.merge(frame.drop(columns="id"), on=[name for name in frame if name != "id"])) >= len(frame)
    assert set(everybody["id"]) <= set(frame["id"])
    assert REFUSED in set(everybody["gender"])


def test_saved_tests_ask_about_the_people_that_the_search_found(audited, found, tmp_path):
    frame, _, model, _ = audited
    assert evenhand.individual.search.save_tests(found, tmp_path / "test_people.py") == min(found.profiles, 100)
    saved = runpy.run_path(str(tmp_path / "test_people.py"))
    asked = []

    def again(given):
        asked.append(given)
        return model.predict(given)

    assert all(len(set(labels)) == 2 for labels in replay_cases(again, saved["SCHEMA"], saved["CASES"]))
    assert [*asked[-1][["id", "applied", "text"]].drop_duplicates().itertuples(index=False)] == [
        tuple(frame[["id", "applied", "text"]].iloc[0])
    ]


@pytest.mark.parametrize("value", [pd.Timestamp("2024-01-01", tz="UTC"), float("inf"), ["a", "list"]])
def test_tests_are_not_saved_with_what_a_program_cannot_write_down(found, tmp_path, monkeypatch, value):
    monkeypatch.setattr(People, "first_carried", lambda people: {"id": value})
    with pytest.raises(OptionError, match="expected a text, a finite number or a date without time zone in the passth"):
        evenhand.individual.search.save_tests(found, tmp_path / "test_people.py")
    assert not any(tmp_path.iterdir())


def test_what_cannot_take_passthrough_columns_says_so(audited):
    frame, labels, _, _ = audited
    schema = evenhand.schema.infer_schema(
        frame.assign(hired=labels), target="hired", protected=["gender"], accept_proposals=True
    )
    with pytest.raises(
        ModelError, match=r"passthrough columns \(id, applied, text\), which are available only in the data"
    ):
        evenhand.certify(fitted(frame, labels, reads_text=False), schema=schema)


def test_search_finds_only_what_the_model_confirms(audited, found):
    frame, _, model, _ = audited
    profiles = found.to_frame()
    assert len(profiles) == found.profiles > 0
    assert "have the passthrough columns (id, applied, text) of the first row" in found.to_markdown()
    first = frame.iloc[[0] * len(profiles)].reset_index(drop=True)
    asked = first.assign(**{name: profiles[name] for name in ("region", "points")})
    worse, better = (model.predict(asked.assign(gender=profiles[f"gender ({side})"])) for side in ("worse", "better"))
    assert (worse != better).all()
