"""`--output` states the meaning of a model's numbers where their values leave it open."""

import pytest

MODEL = """
def points(frame):
    return 600 + 20 * (frame["grade"] + 2 * (frame["sex"] == "m") - 6)
"""
SCHEMA = """
target: {name: hired, favourable: "yes", values: ["no", "yes"]}
attributes:
  - {name: grade, kind: integer, lower: 0, upper: 9}
  - {name: sex, kind: categorical, values: [f, m], protected: true}
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "scoring_of_points.py").write_text(MODEL)
    (tmp_path / "schema.yaml").write_text(SCHEMA)
    rows = [f"{i % 10},{'fm'[i % 2]},{'yes' if i % 10 > 5 else 'no'}" for i in range(60)]
    (tmp_path / "people.csv").write_text("grade,sex,hired\n" + "\n".join(rows) + "\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def search(evenhand, *more):
    return evenhand(
        "search", "scoring_of_points:points", "people.csv", "--schema", "schema.yaml", "--budget", 400, *more
    )


def test_asks_for_the_option_and_takes_it(evenhand, folder):
    refused = search(evenhand)
    assert refused.code == 2
    assert "--output logit" in refused.err
    assert search(evenhand, "--output", "logit").code == 0


def test_refuses_another_meaning(evenhand, folder):
    assert search(evenhand, "--output", "percent").code == 2
    assert search(evenhand, "--output", "probability").code == 2
