"""`evenhand search` as a user runs it."""

import numpy as np
import pandas as pd
import pytest

from evenhand.individual.search.result import SearchResult

FAST = ["--method", "random", "--budget", 2000]


def test_json_is_what_scripts_read(evenhand, case):
    ran = evenhand("search", *case.arguments, "--protected", "sex", *FAST, "--show-people", "--json", "-")
    assert ran.err == ""
    found = ran.json
    assert found["kind"] == "individual"
    assert found["method"] == "random"
    assert found["valid"] == found["profiles"] > 0
    assert found["queries"] > 0
    assert {"value", "low", "high", "confidence", "population"} <= set(found["rates"][0]["rate"])
    assert found["examples"][0]["worse"]["values"] == {"sex": "f"}
    assert SearchResult.from_json(ran.out).profiles == found["profiles"]


def test_screen_table_page_and_tests(evenhand, case, tmp_path):
    table, page, tests = tmp_path / "pairs.csv", tmp_path / "search.html", tmp_path / "test_again.py"
    ran = evenhand(
        f"search --verbose --show-people --table {table} --html {page} --save-tests {tests}", *case.arguments, *FAST
    )
    assert ran.out.startswith("Search of model.npz on people.csv\nWhose decision changes when only sex changes?")
    for said in ("counterfactual flip rate", "estimated", "distinct profiles", "sex = f"):
        assert said in ran.out
    assert str(table) in ran.out
    assert str(tests) in ran.out
    frame = pd.read_csv(table)
    assert set(frame["region"]) <= {"north", "south", "west"}
    assert (frame["label (worse)"] == "no").all()
    assert "<h1>Search of model.npz on people.csv</h1>" in page.read_text("utf-8")
    assert f"{len(frame):,}" in page.read_text("utf-8")
    compile(tests.read_text("utf-8"), str(tests), "exec")


def test_every_option_reaches_the_search(evenhand, case, tmp_path):
    ran = evenhand(
        "search --method random --budget 600 --time-limit 60 --seed 5 --examples 2 --show-people --json -",
        *(*case.arguments, "--constraint", "grade >= 4", "--constraint", "region != west"),
    )
    settings = ran.json["settings"]
    assert settings == settings | {"budget": 600, "time_limit": 60, "constraints": ["grade >= 4", "region != west"]}
    assert ran.json["seed"] == 5
    assert ran.json["queries"] <= 600
    assert len(ran.json["examples"]) == 2
    assert all(example["unprotected"]["region"] != "west" for example in ran.json["examples"])


def test_an_interrupt_keeps_what_was_found(evenhand, case, tmp_path, monkeypatch):
    (tmp_path / "patient_searched.py").write_text(
        "rows = 0\n"
        "def model(frame):\n"
        "    global rows\n"
        "    rows += len(frame)\n"
        "    if rows > 60000:\n"
        "        rows = 0\n"
        "        raise KeyboardInterrupt\n"
        "    return (frame['points'] + 300 * (frame['sex'] == 'm') > 500).map({True: 'yes', False: 'no'})\n"
    )
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"points": rng.permutation(1000), "sex": rng.choice(["f", "m"], 1000)})
    frame["hired"] = np.where(frame["points"] > 500, "yes", "no")
    frame["hours"] = rng.integers(0, 60, 1000)
    frame.to_csv(tmp_path / "people.csv", index=False)
    monkeypatch.chdir(tmp_path)
    command = ["search patient_searched:model people.csv --target hired --protected sex --method random"]
    ran = evenhand(*command, "--budget", 100_000, "--show-people", "--table", "pairs.csv", code=130)
    assert "Interrupted" in ran.out
    assert len(pd.read_csv("pairs.csv")) > 0


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--method", "magic"], "there is no method 'magic'"),
        (["--constraint", "grade >"], "grade"),
        (["--constraint", "height > 3"], "height"),
        (["--table", "pairs.xls"], "must end in"),
        (["--table", "absent/pairs.csv"], "no folder"),
        (["--save-tests", "tests.txt"], "Python file"),
        (["--html", "."], "the folder"),
        (["--terms", "terms.yaml"], "--text-column"),
        (["--text-column", "region", "--method", "random"], "--text-column"),
    ],
)
def test_bad_options(refuses, case, monkeypatch, arguments, complaint):
    monkeypatch.chdir(case.folder)
    refuses(complaint, "search", *case.arguments, *arguments)


def test_a_number_is_not_searched(refuses, tmp_path, monkeypatch):
    (tmp_path / "price.py").write_text("def model(frame):\n    return frame['grade'] * 1.5\n")
    rng = np.random.default_rng(0)
    people = pd.DataFrame({"grade": rng.integers(0, 20, 60), "sex": rng.choice(["f", "m"], 60)})
    people.assign(price=100 * rng.random(60).round(4)).to_csv(tmp_path / "people.csv", index=False)
    monkeypatch.chdir(tmp_path)
    says = "compares labels, and the target 'price' is a number"
    refuses(says, "search price:model people.csv --target price --protected sex")


POINTS = """
def points(frame):
    return 600 + 20 * (frame["grade"] + 2 * (frame["sex"] == "m") - 6)
"""


def test_the_meaning_of_outputs_is_asked_for_where_it_is_open(evenhand, refuses, case, tmp_path, monkeypatch):
    (tmp_path / "scoring_of_points.py").write_text(POINTS)
    monkeypatch.chdir(tmp_path)
    search = ("search scoring_of_points:points --budget 400", *case.arguments[1:])
    refuses("--output logit", *search)
    refuses("percent", *search, "--output", "percent")
    refuses("expected probabilities", *search, "--output", "probability")
    evenhand(*search, "--output", "logit")


@pytest.fixture
def comments(tmp_path, monkeypatch):
    (tmp_path / "rude.py").write_text("def model(texts):\n    return [0.1 + 0.8 * ('women' in one) for one in texts]\n")
    pd.DataFrame({"id": [1, 2, 3, 4], "said": ["men talk", "women talk", "nobody", None]}).to_csv(
        tmp_path / "comments.csv", index=False
    )
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_texts(evenhand, comments):
    ran = evenhand(
        "search rude:model comments.csv --text-column said --protected gender --table pairs.csv --show-people"
    )
    assert "counterfactual flip rate  100 %  observed on 2 texts" in ran.out
    assert "{men|women}" in ran.out
    assert np.isclose(pd.read_csv("pairs.csv")["gap"], 0.8).all()
    found = evenhand("search", "rude:model", "comments.csv", "--text-column", "said", "--json", "-").json
    assert found["kind"] == "individual-text"
    assert found["profiles"] == 2
    assert found["table_reading"]["left_out"] == {"without a value of said": 1}


def test_texts_with_terms_of_ones_own(evenhand, comments):
    (comments / "jobs.yaml").write_text("groups: [talkers, walkers]\nrows: [[talk, walk]]\n")
    ran = evenhand(
        "search", "rude:model", "comments.csv", "--text-column", "said", "--terms", "jobs.yaml", "--json", "-"
    )
    assert [rate["protected"] for rate in ran.json["rates"]] == [["jobs"]]
    assert ran.json["profiles"] == 0


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--text-column", "wrote"], "no column 'wrote'"),
        (["--text-column", "said", "--protected", "hair"], "'hair'"),
        (["--text-column", "said", "--save-tests", "test_texts.py"], "--save-tests does not apply to texts"),
        (["--text-column", "said", "--terms", "absent.yaml"], "absent.yaml"),
        (["--text-column", "said", "--favourable", "perhaps"], "perhaps"),
    ],
)
def test_bad_text_options(refuses, comments, arguments, complaint):
    refuses(complaint, "search rude:model comments.csv", *arguments)


def test_a_table_from_windows_is_read_with_a_note(evenhand, case, tmp_path):
    table = tmp_path / "people.csv"
    table.write_bytes(case.data.read_bytes() + "3,f,Köln,no\n".encode("cp1252"))
    ran = evenhand("schema", table, "--target", "hired", "--protected", "sex")
    assert "values: [Köln, north, south, west]" in ran.out
    assert ran.err.startswith("note: ")
    assert "read as cp1252, which is a guess: check words such as 'Köln'" in ran.err
    assert "encoding=NAME in Python" in ran.err
