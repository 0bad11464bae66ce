"""`evenhand audit-decisions` and `audit-rankings` as a user runs them."""

import json

import numpy as np
import pandas as pd
import pytest


@pytest.fixture
def table(tmp_path):
    rng = np.random.default_rng(0)
    n = 400
    sex = rng.choice(["F", "M"], n)
    selected = rng.random(n) < np.where(sex == "F", 0.3, 0.6)
    path = tmp_path / "decisions.csv"
    frame = pd.DataFrame({"applicant": [f"A-{i:05d}" for i in range(n)], "applied": "2026-01-31", "sex": sex})
    frame = frame.assign(selected=np.where(selected, "yes", "no"), hired=rng.integers(0, 2, n), points=rng.random(n))
    frame.to_csv(path, index=False)
    return path


def test_decisions_alone_make_a_report(evenhand, table, tmp_path):
    ran = evenhand("audit-decisions", table, "--decision", "selected", "--protected", "sex", "--out", tmp_path / "out")
    assert "decisions in column 'selected'" in ran.out
    assert "four-fifths rule" in ran.out
    assert "worst subgroup" in ran.out
    assert "counterfactual" not in ran.out.lower()
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert report["kind"] == "audit"
    assert report["individual"] is None
    page = (tmp_path / "out" / "report.html").read_text()
    assert "Groups" in page
    assert "Individuals" not in page


def test_an_audit_of_decisions_is_audit_decisions(evenhand, table, tmp_path):
    columns = (table, "--decision", "selected", "--protected", "sex", "--json", "-")
    current, former = evenhand("audit-decisions", *columns), evenhand("audit", *columns)
    assert former.json["groups"]["breakdowns"] == current.json["groups"]["breakdowns"]


def test_true_labels_scores_and_gates(evenhand, table, tmp_path):
    asked = ("audit-decisions --decision selected --protected sex --target hired --score points", table)
    ran = evenhand(*asked, "--json", tmp_path / "a.json", "--fail-on", "demographic_parity_ratio < 0.8", code=1)
    assert "this holds: demographic_parity_ratio < 0.8" in ran.err
    overall = json.loads((tmp_path / "a.json").read_text())["groups"]["overall"]
    assert {"accuracy", "auc", "mean_score"} <= set(overall)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--decision", "selectd"], "did you mean 'selected'"),
        (["--score", "points"], "expected decisions, or scores and a threshold"),
        (["--decision", "selected", "--decision", "points"], "--decision was given 2 times"),
        (["--decision", "points", "--kind", "label", "--favourable", "1"], "for scores, use --score"),
        (["--decision", "selected", "--fail-on", "demographic_parity_ratio.sxe < 1"], "sxe"),
        (["--decision", "selected", "--fail-on", "flip_rate > 1"], "this audit has no number called 'flip_rate'"),
        (["--decision", "selected", "--fail-on", "bounded_selection_rate_difference.low > 0"], "has no number called"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_message(refuses, table, options, words):
    refuses(words, "audit-decisions --protected sex", table, *options)


@pytest.fixture
def applicants(tmp_path):
    rng = np.random.default_rng(0)
    chance = rng.beta(0.7, 1.2, 400).round(4)
    race = np.where(rng.random(400) < chance, "black", "white")
    people = pd.DataFrame({"sex": rng.choice(["F", "M"], 400), "p_black": chance, "p_white": 1 - chance, "race": race})
    people.assign(selected=rng.integers(0, 2, 400)).to_csv(tmp_path / "applicants.csv", index=False)
    return tmp_path / "applicants.csv"


def test_groups_known_by_probability_stand_in_the_report_with_bounds(evenhand, applicants, tmp_path):
    about = ("--decision", "selected", "--protected", "sex", "--membership", "race=white:p_white,black:p_black")
    place = tmp_path / "result.json"
    evenhand("audit-decisions", applicants, *about, "--json", place)
    (found,) = json.loads(place.read_text())["groups"]["proxies"]
    assert [group["values"]["race"] for group in found["groups"]] == ["white", "black"]
    for group in found["groups"]:
        low, high = group["bounds"]
        assert low <= group["metrics"]["selection_rate"]["value"] <= high


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--membership", "race"], "race=white:p_white,black:p_black"),
        (["--membership", "race=white:p_white"], "at least two groups"),
        (["--membership", "race=white:p_white,black:p_blak"], "p_black"),
        (["--membership", "race=white:p_white,black:sex"], "twice"),
        (["--membership", "race=white:p_white,black:race"], "expected a finite number as group probability"),
    ],
)
def test_probabilities_that_cannot_be_read_are_refused(options, words, refuses, applicants, tmp_path):
    out = tmp_path / "none"
    refuses(words, "audit-decisions --decision selected --protected sex", applicants, *options, "--out", out)
    assert not out.exists()


def test_a_metric_of_ones_own_by_name_and_in_gates(evenhand, table, tmp_path, monkeypatch):
    (tmp_path / "prices.py").write_text(
        "def cost(y_true, y_pred):\n    return float((5 * ((y_true == 0) & (y_pred == 1))).mean())\n\nnothing = 3\n"
    )
    monkeypatch.chdir(tmp_path)
    asked = ["audit-decisions", table, "--decision", "selected", "--protected", "sex", "--out", "out", "--quiet"]
    asked += ["--metric", "cost=prices:cost"]
    ran = evenhand(
        *asked, "--target", "hired", "--fail-on", "cost > 0.1", "--fail-on", "cost_difference.sex > 9", code=1
    )
    assert "this holds: cost > 0.1" in ran.err
    assert "cost_difference" not in ran.err
    frame = pd.read_csv(table)
    wrong = 5 * ((frame["hired"] == 0) & (frame["selected"] == "yes")).mean()
    overall = json.loads((tmp_path / "out" / "report.json").read_text())["groups"]["overall"]
    assert overall["cost"]["value"] == pytest.approx(wrong)
    for given, words in [
        (["--metric", "cost"], "expected a metric as NAME=module:function, got 'cost'"),
        (["--metric", "cost=prices:cost"], "expected one metric called 'cost', got two"),
        (["--metric", "other=prices:price"], "there is no 'price' in prices"),
        (["--target", "hired", "--metric", "other=prices:nothing"], "expected a function as metric 'other'"),
        (["--metric", "certified=prices:cost", "--fail-on", "certified > 1"], "is the name of another number"),
        (["--fail-on", "costs > 1"], "did you mean 'cost'"),
        ([], "metric 'cost' needs y_true"),
    ]:
        ran = evenhand(*asked, *given, code=2)
        assert words in " ".join(ran.err.split()), given
    assert "--metric:" in ran.err
    assert "pass --target" in ran.err


def test_a_folder_of_files_gives_the_numbers_of_the_rows_in_memory(evenhand, table, tmp_path):
    pytest.importorskip("duckdb", reason="needs the extra duckdb")
    rows = pd.read_csv(table).assign(counts=1.5)
    (tmp_path / "parts").mkdir()
    for part, start in enumerate(range(0, len(rows), 150)):
        rows.iloc[start : start + 150].to_parquet(tmp_path / "parts" / f"{part}.parquet")
    columns = ["--decision", "selected", "--target", "hired", "--score", "points", "--protected", "sex"]
    columns += ["--favourable", "yes"]
    found = []
    for data in (table, tmp_path / "parts"):
        ran = evenhand("audit-decisions", data, *columns, "--json", "-")
        found.append(json.loads(ran.out))
    one, other = (result["groups"] for result in found)
    for gap, same in zip(one["breakdowns"][0]["gaps"], other["breakdowns"][0]["gaps"], strict=True):
        assert gap["name"] == same["name"]
        assert gap["value"]["value"] == pytest.approx(same["value"]["value"], abs=1e-12)
        assert gap["value"]["low"] == pytest.approx(same["value"]["low"], abs=1e-7)
    assert one["overall"]["auc"]["value"] == pytest.approx(other["overall"]["auc"]["value"], abs=1e-12)
    for part, same in zip(one["calibration"], other["calibration"], strict=True):
        assert [cell["size"] for cell in part["groups"]] == [cell["size"] for cell in same["groups"]]
    assert found[0]["subgroups"]["findings"] == found[1]["subgroups"]["findings"]
    # What needs every person is read into memory, as few rows can be.
    ran = evenhand("audit-decisions", tmp_path / "parts", *columns, "--weight", "counts", "--json", "-")
    ran = evenhand("audit-decisions", tmp_path / "parts", "--decision", "missing", "--protected", "sex", code=2)
    assert "missing" in ran.err


@pytest.fixture
def rankings_table(tmp_path):
    rng = np.random.default_rng(0)
    n = 600
    sex = rng.choice(["F", "M"], n)
    score = rng.normal(size=n) + (sex == "M")
    frame = pd.DataFrame({"search": np.arange(n) // 12, "sex": sex, "score": score, "clicked": rng.integers(0, 2, n)})
    frame["place"] = frame.groupby("search")["score"].rank(ascending=False).astype(int)
    path = tmp_path / "shown.csv"
    frame.to_csv(path, index=False)
    return path


def test_many_lists_make_a_report_and_gates(evenhand, rankings_table, tmp_path):
    asked = ("audit-rankings --rank place --query search --protected sex --relevance clicked", rankings_table)
    ran = evenhand(*asked, "--at", 3, "--out", tmp_path / "out", "--fail-on", "exposure_ratio.high < 0.9", code=1)
    assert "this holds: exposure_ratio.high < 0.9" in ran.err
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert (report["kind"], report["at"], report["lists"]) == ("rankings", [3], 50)
    # The same lists by their scores.
    ran = evenhand(
        "audit-rankings --rank-by score --query search --protected sex --relevance clicked --at 3 --json -",
        rankings_table,
    )
    assert json.loads(ran.out)["breakdowns"] == report["breakdowns"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--rank", "plaec"], "did you mean 'place'"),
        (["--rank", "place", "--rank-by", "score"], "a column of ranks or a column of scores, got both"),
        (["--query", "search"], "a column of ranks or a column of scores"),
        (["--rank", "place", "--query", "search", "--at", "0"], "expected at least 1 place"),
        (
            ["--rank", "place", "--query", "search", "--at", "12"],
            "fewer places than the 12 in the longest list, got 12",
        ),
        (["--rank", "place", "--query", "search", "--fail-on", "exposure_ratio.age < 1"], "not measured for 'age'"),
        (["--rank", "place", "--query", "search", "--fail-on", "flip_rate > 1"], "no number called 'flip_rate'"),
    ],
)
def test_what_cannot_be_audited_is_refused(refuses, rankings_table, tmp_path, options, words):
    refuses(words, "audit-rankings --protected sex", rankings_table, *options, "--out", tmp_path / "out")
    assert not (tmp_path / "out").exists()
