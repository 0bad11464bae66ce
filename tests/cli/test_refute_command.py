"""`evenhand refute` and the check of what it writes, as a user runs them."""

import json
import math
import shutil

import numpy as np
import pandas as pd
import pytest

from evenhand.mitigation import RefutationResult

FEATURES = "features:\n  - grade >= 8\n  - grade >= 14\n  north: region == north\n"


@pytest.fixture
def folder(case, tmp_path, monkeypatch):
    rng = np.random.default_rng(1)
    n = 600
    frame = pd.DataFrame(
        {
            "grade": rng.integers(0, 21, n),
            "sex": rng.choice(["f", "m"], n),
            "region": rng.choice(["north", "south", "west"], n),
        }
    )
    points = frame["grade"] + 2 * (frame["sex"] == "m") + rng.normal(0, 3, n)
    frame["hired"] = np.where(points > 11, "yes", "no")
    frame.to_csv(tmp_path / "people.csv", index=False)
    shutil.copy(case.schema, tmp_path / "schema.yaml")
    (tmp_path / "features.yaml").write_text(FEATURES.replace("  north: ", "  - "), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


ABOUT = ["people.csv", "--schema", "schema.yaml"]
REFUTE = [*ABOUT, "--family", "linear", "--features", "features.yaml"]


def test_mitigate_with_refute_is_refute(evenhand, folder):
    (folder / "own.py").write_text(
        "def decide(frame):\n    return (frame['grade'] > 11).astype(float)\n", encoding="utf-8"
    )
    features = ("--features", "features.yaml", "--quiet", "--json")
    schema = ("--schema", "schema.yaml")
    former = evenhand("mitigate", "own:decide", "people.csv", *schema, "--refute", "linear", *features, "former.json")
    ran = evenhand("refute", *REFUTE, "--model", "own:decide", "--quiet", "--json", "now.json")
    assert former.code == ran.code == 0, former.err + ran.err
    results = [json.loads((folder / name).read_text("utf-8")) for name in ("former.json", "now.json")]
    assert [result["need"] for result in results] == [results[0]["need"]] * 2
    assert results[0]["bound"] == results[1]["bound"]


def test_a_refutation_is_said_written_and_checked(evenhand, folder):
    ran = evenhand("refute", *REFUTE, "--accuracy", 0.7, "--json", "r.json", "--html", "r.html")
    assert ran.code == 0, ran.err
    assert "lower bound of the gap" in (folder / "r.html").read_text("utf-8")
    found = RefutationResult.from_json((folder / "r.json").read_text("utf-8"))
    assert found.need == math.ceil(0.7 * found.people - 1e-9)
    checked = evenhand("check-certificate", "r.json", "--data", *ABOUT, "--json", "-")
    assert checked.code == 0, checked.err
    assert checked.json["verdict"] == "confirmed"
    assert checked.json["data_checked"]
    held = json.loads((folder / "r.json").read_text("utf-8"))
    (folder / "r.json").write_text(json.dumps(held | {"bound": held["bound"] + 0.01}), encoding="utf-8")
    forged = evenhand("check-certificate", "r.json")
    assert forged.code == 1
    assert "rejected" in forged.out


def test_the_given_model_sets_the_floor(evenhand, folder, case):
    pytest.importorskip("torch", reason="needs the extra torch")
    ran = evenhand("refute", *REFUTE, "--model", case.model, "--json", "-")
    assert ran.json["accuracy"] == ran.json["given"]["accuracy"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([*ABOUT, "--accuracy", 0.7], "Missing option '--features'"),
        (REFUTE, "--accuracy"),
        ([*REFUTE, "--accuracy", 1.7], "--accuracy"),
        ([*REFUTE, "--accuracy", 0.7, "--method", "tilt"], "No such option: --method"),
        ([*REFUTE, "--accuracy", 0.7, "--json", "features.yaml"], "is an input"),
        ([*ABOUT, "--family", "lines", "--features", "features.yaml"], "--family: expected one of: any, linear"),
        ([*ABOUT, "--features", "missing.yaml", "--accuracy", 0.7], "cannot be read"),
    ],
)
def test_bad_input_is_one_clear_error(refuses, folder, given, message):
    refuses(message, "refute", *given)


def test_a_check_needs_what_the_file_is_about(refuses, folder, case):
    refuses("expected the model", "check-certificate people.csv")
    (folder / "other.json").write_text("{}", encoding="utf-8")
    refuses("no refutation", "check-certificate other.json")
    refuses("expected no model for a refutation", "check-certificate other.json", case.model)
