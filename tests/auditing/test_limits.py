"""Limits of an audit: time, parts that fail, and records that no output holds."""

import json
import time
import warnings
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from typer.testing import CliRunner

import evenhand
from evenhand import auditing, certification, view
from evenhand.cli.main import app
from evenhand.core import Result
from evenhand.core.interrupts import RUNNING_SECONDS
from evenhand.core.result import PEOPLE_LEFT_OUT
from evenhand.core.time_limit import TimeLimit, check_time
from evenhand.errors import LimitError, OptionError
from evenhand.individual import search
from evenhand.individual.search.texts import search_texts
from evenhand.mitigation import mitigate
from evenhand.models import Subject, load_white_box
from evenhand.schema.people import ColumnRoles
from evenhand.subgroups import find_subgroups
from support import draw_frame, leaves_but_clocks


def people_frame() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    frame = draw_frame(rng, 300, sex=(0, 1), age=(0, 4), points=(0, 29))
    return frame.assign(income=rng.normal(0, 1, 300), debt=rng.normal(0, 1, 300))


def label_subject() -> Subject:
    frame = people_frame()
    hired = (frame["points"] + 6 * frame["sex"] + 3 * frame["income"] > 18).astype(int)
    fitted = LogisticRegression(max_iter=1000).fit(frame, hired)
    return Subject(fitted, ColumnRoles("hired", ["sex", "age"], favourable=1).read(frame.assign(hired=hired)))


def network_subject() -> Subject:
    frame = people_frame()
    hired = (frame["points"] + 6 * frame["sex"] * (frame["income"] > 0) > 18).astype(int)
    with warnings.catch_warnings(action="ignore"):  # the network is not trained to the end
        fitted = MLPClassifier((6,), random_state=0, max_iter=40).fit(frame, hired)
    return Subject(fitted, ColumnRoles("hired", ["sex"], favourable=1).read(frame.assign(hired=hired)))


def number_subject() -> Subject:
    frame = people_frame()
    wage = 20 + 0.5 * frame["points"] + 2 * frame["sex"] + frame["income"]
    roles = ColumnRoles("wage", ["sex", "age"])
    return Subject(LinearRegression().fit(frame, wage), roles.read(frame.assign(wage=wage)))


def found_profiles() -> search.SearchResult:
    subject = label_subject()
    return search.search(subject.scorer, subject.people, protected=["sex"], samples=0, budget=3000)


QUICK = auditing.AuditConfig(samples=500, searched=200)
ANALYSES: dict[str, Callable[[], Result]] = {
    "audit": lambda: auditing.audit(label_subject(), QUICK),
    "audit of a network": lambda: auditing.audit(network_subject(), QUICK),
    "audit of numbers": lambda: auditing.audit(number_subject(), QUICK, tolerance=1.0),
    "certify": lambda: certification.certify(
        network_subject().white_box, enumeration=False, samples=100, effort=0.2, min_progress=0.01
    ),
    "search": lambda: search.search(label_subject().scorer, label_subject().people, samples=200, budget=3000),
    "subgroups": lambda: find_subgroups(label_subject().scorer, label_subject().people),
    "texts": lambda: search_texts(
        lambda texts: [float("he" in text.split()) for text in texts],
        ["he came", "she came"] * 20,
        protected=["gender"],
    ),
    "mitigate": lambda: mitigate(label_subject(), rounds=1, findings=[found_profiles()]).result,
}


@pytest.mark.parametrize("name", ANALYSES)
def test_results_without_a_time_limit_do_not_depend_on_the_clock(name, monkeypatch):
    first = ANALYSES[name]()
    calls = iter(range(10**9))
    for clock in ("perf_counter", "monotonic", "process_time"):
        monkeypatch.setattr(time, clock, lambda: 100.0 * next(calls))  # every look at the clock takes 100 seconds
    second = ANALYSES[name]()
    monkeypatch.undo()
    before, after = (leaves_but_clocks(json.loads(result.to_json())) for result in (first, second))
    assert before == after
    assert "time limit" not in first.provenance


PARTS = {
    "evenhand.groups.measure_groups": "group metrics",
    "evenhand.population.choose_population": "simulated population",
    "evenhand.auditing.analysis.extract_white_box": "certification",
    "evenhand.individual.measure_flips": "individual flip rates",
    "evenhand.subgroups.find_subgroups": "search for subgroups",
    "evenhand.individual.search.search": "search for individuals by sex",
    "evenhand.certification.certify": "certification for sex x age",
}


def run_parts(result: auditing.AuditResult) -> set[str]:
    """Return the parts that have a result."""
    fields = ("subgroups", "individual", "searches", "certificates")
    return {name for name in fields if getattr(result, name)} | ({"groups"} if result.groups.breakdowns else set())


SHORT = auditing.AuditConfig(samples=200, searched=100)


@pytest.fixture(scope="module")
def complete() -> set[str]:
    return run_parts(auditing.audit(label_subject(), SHORT))


@pytest.mark.parametrize(
    ("target", "error"),
    [*((target, RuntimeError("broken")) for target in PARTS), ("evenhand.groups.measure_groups", MemoryError())],
)
def test_a_part_that_fails_leaves_all_others(target, error, complete, monkeypatch):
    def fail(*given: object, **settings: object) -> None:
        raise error

    monkeypatch.setattr(target, fail)
    result = auditing.audit(label_subject(), SHORT)
    monkeypatch.undo()
    lost = complete - run_parts(result)
    depending = {
        "group metrics": {"groups"},
        "simulated population": {"individual", "certificates"},
        "certification": {"certificates"},
        "individual flip rates": {"individual"},
        "search for subgroups": {"subgroups"},
        "search for individuals by sex": {"searches"},
        "certification for sex x age": {"certificates"},
    }
    assert lost == depending[PARTS[target]]
    [skipped] = [part for part in result.not_run if part.what == PARTS[target]]
    assert "memory" in skipped.reason if isinstance(error, MemoryError) else "broken" in skipped.reason
    assert not result.interrupted
    for shown in (result.summary(), view.render_page(result.document())):
        assert PARTS[target] in " ".join(shown.split())
    assert auditing.AuditResult.from_json(result.to_json()) == result


def read_time_by_looks(patch: pytest.MonkeyPatch) -> None:
    """Let every reading of the clock take a second."""
    looks = iter(range(10**9))
    patch.setattr("evenhand.core.time_limit.RUNNING_SECONDS", lambda: float(next(looks)))


FIELDS = {
    "individual": "individual flip rates",
    "subgroups": "search for subgroups",
    "searches": "search for individuals",
    "certificates": "certification",
}


@pytest.mark.parametrize(
    ("subject", "limit"),
    [*((label_subject, limit) for limit in (1, 10, 100)), *((network_subject, limit) for limit in (3, 30, 300))],
)
def test_a_time_limit_that_is_reached_names_the_parts_that_are_not_run(subject, limit, monkeypatch):
    read_time_by_looks(monkeypatch)
    result = auditing.audit(subject(), QUICK, time_limit=limit)
    skipped = {part.what for part in result.not_run}
    for field, what in FIELDS.items():
        assert getattr(result, field) or any(name.startswith(what) for name in skipped)
    assert result.groups.breakdowns
    assert "A time limit was used" in result.provenance


def test_a_time_limit_counts_from_the_call_on(monkeypatch):
    """Reading the table and the model takes part of the time limit."""
    monkeypatch.setattr("evenhand.api.RUNNING_SECONDS", lambda: RUNNING_SECONDS() - 100)
    subject, frame = label_subject(), people_frame()
    result = evenhand.audit(subject.model, frame, frame["points"] > 9, protected=["sex"], time_limit=50)
    assert result.time_limited
    assert result.individual is None


def test_preparations_end_at_the_time_limit():
    limit = TimeLimit(0.0)
    check_time()
    with limit.enforced(), pytest.raises(LimitError) as caught:
        check_time()
    assert caught.value.exit_code == 3
    check_time()


def test_a_white_box_is_not_read_beyond_the_time_limit():
    subject = label_subject()
    model = make_pipeline(StandardScaler(), subject.model).fit(people_frame(), subject.people.labels)
    with TimeLimit(0.0).enforced(), pytest.raises(LimitError):
        load_white_box(model, subject.people.schema)


def test_searches_without_time_to_prepare_find_nothing(monkeypatch):
    read_time_by_looks(monkeypatch)
    subject = label_subject()
    result = search.search(subject.scorer, subject.people, time_limit=0.5)
    assert (result.stopped_by, result.profiles) == ("time", 0)


def test_certificates_do_not_depend_on_the_number_of_threads():
    rng = np.random.default_rng(0)
    frame = people_frame()
    hired = (frame["points"] + 6 * frame["sex"] + rng.normal(0, 3, 300) > 18).astype(int)
    forest = RandomForestClassifier(8, max_depth=5, random_state=0).fit(frame, hired)
    box = Subject(forest, ColumnRoles("hired", ["sex"], favourable=1).read(frame.assign(hired=hired))).white_box
    about = {"enumeration": False, "samples": 100, "max_boxes": 2000}
    first, second = (certification.certify(box, jobs=jobs, **about) for jobs in (1, 3))
    assert leaves_but_clocks(json.loads(first.to_json())) == leaves_but_clocks(json.loads(second.to_json()))


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
    note, town = [f"note {i}" for i in range(N)], "north south west"
    frame = draw_frame(rng, N, note=note, grade=(20, 60), hours=(1, 99), town=town, sex="f m")
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
