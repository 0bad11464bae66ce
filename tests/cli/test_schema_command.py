"""The command that guesses a schema: what it proposes, what it writes, and the schema that it gives back."""

import numpy as np
import pandas as pd
import pytest

from evenhand.schema import Schema, read_schema


@pytest.fixture
def table(tmp_path):
    """4,000 people, half of them married, whose tie says their sex; one job in two is known."""
    rng = np.random.default_rng(0)
    sex = rng.choice(["m", "f"], 4000)
    married = rng.random(4000) < 0.5
    frame = pd.DataFrame({"sex": sex, "tie": np.where(married, np.where(sex == "m", "husband", "wife"), "none")})
    frame["job"] = np.where(rng.random(4000) < 0.5, "clerk", None)
    frame["age"] = rng.integers(18, 40, 4000) + 15 * married
    frame["hired"] = rng.choice(["yes", "no"], 4000)
    path = tmp_path / "people.csv"
    frame.to_csv(path, index=False)
    return path


OPTIONS = ("--target", "hired", "--favourable", "yes", "--protected", "sex")


def test_proposals_stand_in_the_file(evenhand, table, tmp_path):
    out = tmp_path / "people.yaml"
    evenhand("schema", table, *OPTIONS, "--save", out)
    text = out.read_text()
    assert "  - tie == husband -> sex == m  # seen 0, expected " in text
    assert "\n# links:\n#   - {when: sex, move: tie, rows: [{" in text
    schema = read_schema(out)
    assert schema.rules == ("tie == husband -> sex == m", "tie == wife -> sex == f")
    assert schema.links == ()


def test_json_is_the_schema_that_the_file_gives(evenhand, table, tmp_path):
    out = tmp_path / "people.yaml"
    ran = evenhand("schema", table, *OPTIONS, "--save", out, "--json", "-", "--quiet")
    assert Schema.parse(ran.json) == read_schema(out)


def test_people_without_labels_do_no_harm(evenhand, table, tmp_path):
    frame = pd.read_csv(table)
    frame.loc[:9, "hired"] = None
    frame.to_csv(tmp_path / "few.csv", index=False)
    ran = evenhand("schema", tmp_path / "few.csv", *OPTIONS)
    assert "tie == husband -> sex == m" in ran.out


def test_few_people_propose_nothing(evenhand, table, tmp_path):
    pd.read_csv(table).head(100).to_csv(tmp_path / "few.csv", index=False)
    ran = evenhand("schema", tmp_path / "few.csv", *OPTIONS)
    assert "Proposed" not in ran.out
    assert "rules" not in ran.out


def test_decided_types_and_words_for_unknown_stand_beside_their_columns(evenhand, tmp_path):
    pytest.importorskip("pyarrow")
    people = pd.DataFrame(
        {
            "sex": ["f", "m", "f", "m", "Prefer not to say"] * 40,
            "zip": ["02134", "10115", "10117", "20095"] * 50,
            "rent": [f"{1000 + 7 * i}.50" for i in range(200)],
            "grade": [1, 2, 3, 4, 5] * 40,
            "hired": ["yes", "no"] * 100,
        }
    )
    people.to_parquet(tmp_path / "people.parquet")
    ran = evenhand("schema", tmp_path / "people.parquet", *OPTIONS, "--accept-proposals")
    remarks = {
        line.split("name: ")[1].split(",")[0]: line.partition("  # ")[2]
        for line in ran.out.splitlines()
        if line.startswith("  - {name: ")
    }
    assert "Prefer not to say (40)" in remarks["sex"]
    assert "'02134'" in remarks["zip"]
    assert "read as numbers" in remarks["rent"]
    assert remarks["grade"] == ""
