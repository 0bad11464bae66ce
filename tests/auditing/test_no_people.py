"""Records of real people are shown on request only: by default neither page nor JSON nor screen holds one."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import evenhand
from evenhand.cli.main import app
from evenhand.core.result import PEOPLE_LEFT_OUT
from evenhand.errors import OptionError

CANARY = "canary-4711"
"""Of a column that is not an attribute."""

N = 400


def score(frame: pd.DataFrame) -> np.ndarray:
    """A model by which sex changes the decision of many."""
    return 1 / (1 + np.exp(50 - frame["grade"] - 0.2 * frame["hours"] - 12 * (frame["sex"] == "m")))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("people")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "note": [f"note {i}" for i in range(N)],
            "grade": rng.integers(20, 61, N),
            "hours": rng.integers(1, 100, N),
            "town": rng.choice(["north", "south", "west"], N),
            "sex": rng.choice(["f", "m"], N),
        }
    )
    frame.loc[7, "note"] = CANARY
    frame["hired"] = np.where(score(frame) > rng.random(N), "yes", "no")
    frame.to_csv(folder / "people.csv", index=False)
    (folder / "rule.py").write_text(
        "import numpy as np\n"
        "def score(frame):\n"
        "    return 1 / (1 + np.exp(50 - frame['grade'] - 0.2 * frame['hours'] - 12 * (frame['sex'] == 'm')))\n"
    )
    return folder


@pytest.fixture
def run(folder, monkeypatch):
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(folder))

    def run(*arguments):
        return CliRunner().invoke(
            app, [*arguments, "--ignore", "note", "--target", "hired", "--protected", "sex", "--favourable", "yes"]
        )

    return run


def people_in(value, rows):
    """Return the rows of people that some JSON holds, wherever they stand."""
    found = []
    if isinstance(value, dict):
        texts = {key: str(inner) for key, inner in value.items()}
        if {"grade", "hours", "town"} <= texts.keys():
            found += [row for row in rows if row == tuple(texts[name] for name in ("grade", "hours", "town"))]
        parts = value.values()
    else:
        parts = value if isinstance(value, list) else []
    return found + [row for part in parts for row in people_in(part, rows)]


COMMANDS = {
    "audit": ("audit", "rule:score", "people.csv", "--keep-decisions"),
    "search": ("search", "rule:score", "people.csv", "--budget", "4000"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_no_output_holds_a_record_unless_people_are_shown(run, folder, name):
    rows = {tuple(map(str, row)) for row in pd.read_csv(folder / "people.csv")[["grade", "hours", "town"]].values}
    texts = {}
    for option in ("--show-people", None):
        out = ("--out", "report") if name == "audit" else ("--html", "page.html", "--json", "found.json")
        done = run(*COMMANDS[name], "--verbose", *out, *([] if option is None else [option]))
        assert done.exit_code == 0, done.output
        page = folder / ("report/report.html" if name == "audit" else "page.html")
        data = folder / ("report/report.json" if name == "audit" else "found.json")
        texts[option] = (page.read_text("utf-8"), data.read_text("utf-8"), done.output)
    page, data, screen = texts["--show-people"]
    assert people_in(json.loads(data), rows)
    assert PEOPLE_LEFT_OUT not in page + screen
    page, data, screen = texts[None]
    assert json.loads(data)["people_left_out"] is True
    assert people_in(json.loads(data), rows) == []
    assert "reveals a person in the data" not in page + screen
    assert PEOPLE_LEFT_OUT in page
    assert PEOPLE_LEFT_OUT in " ".join(screen.split())
    assert CANARY not in page + data + screen


def test_verbs_hide_records_unless_people_are_shown(folder):
    people = pd.read_csv(folder / "people.csv").drop(columns="note")
    rows = {tuple(map(str, row)) for row in people[["grade", "hours", "town"]].values}
    about = {"target": "hired", "protected": ["sex"], "favourable": "yes", "seed": 1}
    settings = {"budget": 4000, "most_examples": 1000, **about}
    shown, hidden = (evenhand.search(score, people, show_people=show, **settings) for show in (True, False))
    assert people_in(shown.plain(), rows)
    assert people_in(hidden.plain(), rows) == []
    assert hidden.profiles == shown.profiles
    assert any(example.real for example in shown.examples)
    assert not any(example.real for example in hidden.examples)
    frame = hidden.to_frame().astype(str)
    assert not rows & set(map(tuple, frame[["grade", "hours", "town"]].values))
    assert len(frame) < len(shown.to_frame()) == shown.profiles
    audit = evenhand.audit(score, people, max_boxes=50, samples=300, **about)
    assert people_in(audit.plain(), rows) == []
    assert audit.people_left_out
    with pytest.raises(OptionError):
        evenhand.search(score, people, show_people="no", **about)
