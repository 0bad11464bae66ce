"""`evenhand subgroups --text-column` as a user runs it."""

import itertools

import pandas as pd
import pytest

WHO = {"Muslim": "Muslims", "Jewish": "Jews", "Christian": "Christians", "Hindu": "Hindus"}


@pytest.fixture
def comments(tmp_path, monkeypatch):
    """A model that finds texts about Muslims rude, whatever they say."""
    (tmp_path / "ruder.py").write_text(
        "def model(texts):\n    return [0.9 if 'Muslim' in one or 'rotten' in one else 0.1 for one in texts]\n"
    )
    texts = [
        f"The {who} {noun} is {what} {how}"
        for who, noun, what, how in itertools.product(
            WHO,
            ("family", "neighbour", "teacher"),
            ("kind", "rotten", "tall", "late"),
            ("today", "here", "again", "now"),
        )
    ]
    rude = ["yes" if "rotten" in one else "no" for one in texts]
    frame = pd.DataFrame({"id": range(len(texts)), "said": texts, "rude": rude})
    pd.concat([frame, pd.DataFrame({"id": [-1], "said": [None], "rude": ["no"]})]).to_csv(
        tmp_path / "comments.csv", index=False
    )
    monkeypatch.chdir(tmp_path)
    return tmp_path


COMMAND = ["subgroups", "ruder:model", "comments.csv", "--text-column", "said"]


def test_json_screen_table_and_page(evenhand, comments):
    ran = evenhand(
        *COMMAND, "--protected", "religion", "--json", "found.json", "--table", "found.csv", "--html", "page.html"
    )
    said = " ".join(ran.out.split())
    assert ran.out.startswith("Subgroups of ruder:model on comments.csv\nWhich texts, ")
    assert "193 rows: 192 used" in said
    assert "Of 48 texts that mention religion Muslim, 100" in said
    assert "fair" not in said.lower()
    page = (comments / "page.html").read_text("utf-8")
    assert 'id="swapped"' in page
    assert page.count("<script") == 1
    assert len(pd.read_csv("found.csv")) > 0
    found = evenhand(*COMMAND, "--protected", "religion", "--json", "-").json
    assert found["kind"] == "subgroups"
    first = found["findings"][0]
    assert first["rules"] == {"religion": ["Muslim"]}
    assert (first["size"], first["rate"], first["rest_rate"]) == (48, 1.0, 0.25)


def test_options_reach_the_search(evenhand, comments):
    ran = evenhand(
        *(*COMMAND, "--protected", "religion", "--measure", "false-positive", "--target", "rude"),
        *("--favourable", "yes", "--depth", 1, "--judge", "religion == hindu", "--seed", 3, "--json", "-"),
    )
    assert ran.json == ran.json | {"measure": "false-positive", "seed": 3, "people": 144}
    assert [one["rules"] for one in ran.json["judged"]] == [{"religion": ["Hindu"]}]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--protected", "hair"], "'hair'"),
        (["--terms", "absent.yaml"], "absent.yaml"),
        (["--favourable", "perhaps"], "perhaps"),
        (["--per", "id"], "per"),
        (["--schema", "people.yaml"], "schema"),
        (["--method", "sampled"], "method"),
        (["--measure", "false-positive"], "true labels"),
        (["--target", "height"], "no column 'height'"),
        (["--judge", "religion = Muslim"], "write =="),
        (["--judge", "religion < Muslim"], "CATEGORY == GROUP"),
        (["--judge", "religion == Muslim and religion == Jew"], "is repeated"),
        (["--judge", "religion == Martian"], "Martian"),
        (["--judge", "hair == red"], "hair"),
    ],
)
def test_bad_options(refuses, comments, arguments, complaint):
    refuses(complaint, *COMMAND, *arguments)
