"""`evenhand audit-rankings` as a user runs it: rankings alone, no model."""

import json

import numpy as np
import pandas as pd
import pytest


@pytest.fixture
def table(tmp_path):
    rng = np.random.default_rng(0)
    n = 600
    sex = rng.choice(["F", "M"], n)
    score = rng.normal(size=n) + (sex == "M")
    frame = pd.DataFrame({"search": np.arange(n) // 12, "sex": sex, "score": score, "clicked": rng.integers(0, 2, n)})
    frame["place"] = frame.groupby("search")["score"].rank(ascending=False).astype(int)
    path = tmp_path / "shown.csv"
    frame.to_csv(path, index=False)
    return path


def test_many_lists_make_a_report_and_gates(evenhand, table, tmp_path):
    asked = ("audit-rankings --rank place --query search --protected sex --relevance clicked", table)
    ran = evenhand(*asked, "--at", 3, "--out", tmp_path / "out", "--fail-on", "exposure_ratio.high < 0.9")
    assert ran.code == 1, ran.err
    assert "this holds: exposure_ratio.high < 0.9" in ran.err
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert (report["kind"], report["at"], report["lists"]) == ("rankings", [3], 50)
    # The same lists by their scores.
    ran = evenhand(
        "audit-rankings --rank-by score --query search --protected sex --relevance clicked --at 3 --json -", table
    )
    assert ran.code == 0
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
def test_what_cannot_be_audited_is_refused(refuses, table, tmp_path, options, words):
    refuses(words, "audit-rankings --protected sex", table, *options, "--out", tmp_path / "out")
    assert not (tmp_path / "out").exists()
