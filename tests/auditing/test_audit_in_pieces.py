"""A model asked piece by piece gives the groups of a model asked at once, and an audit that was stopped goes on."""

import json
import os
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import evenhand
from evenhand import auditing, datasets, groups
from evenhand.auditing import pieces as engine
from evenhand.datasets import pieces as reading
from evenhand.errors import EvenhandError, OptionError
from evenhand.models import Subject
from evenhand.schema import ColumnRoles
from evenhand.stats import quantity_value
from evenhand.subgroups import find_subgroups
from evenhand.version import without_commit

pytest.importorskip("pyarrow", reason="needs the extra parquet")

ROLES = ColumnRoles(target="repaid", protected=["sex", "race"])
QUICK = {"searched": 0, "samples": 50, "time_limit": 5}


class Asked:
    """A model that says with which chance a loan is repaid, counts its questions, and may be stopped."""

    def __init__(self, stop_after=None):
        self.rows, self.stop_after = 0, stop_after

    def __call__(self, frame):
        if self.stop_after is not None and self.rows >= self.stop_after:
            raise KeyboardInterrupt
        self.rows += len(frame)
        chance = 0.2 + 0.004 * (frame["amount"].to_numpy(dtype=float) % 100) + 0.2 * (frame["sex"] == "M").to_numpy()
        return np.column_stack([1 - chance, chance])


class Otherwise(Asked):
    """Another model of the same kind."""

    def __call__(self, frame):
        return super().__call__(frame)[:, ::-1]


def people(n, seed=0, amounts=100):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"sex": rng.choice(["F", "M"], n), "race": rng.choice(["A", "B", "C"], n)})
    frame["amount"] = rng.integers(0, amounts, n)
    frame["note"] = rng.choice(["x", None], n)
    frame["repaid"] = rng.integers(0, 2, n)
    return frame


def write(folder, frame, files=3, group=400):
    folder.mkdir()
    for number, part in enumerate(np.array_split(np.arange(len(frame)), files)):
        frame.iloc[part].to_parquet(folder / f"{number}.parquet", row_group_size=group)
    return engine.PiecesSource(datasets.list_pieces(folder), ROLES, "people")


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(engine, "PIECES_SAMPLE", 300)
    monkeypatch.setattr(reading, "AT_ONCE", 150)


def test_groups_and_subgroups_are_those_of_all_rows_in_memory(tmp_path):
    frame = people(3000)
    source = write(tmp_path / "people", frame)
    assert [piece.rows for piece in source.pieces] == [400, 400, 200] * 3
    model = Asked()
    found = auditing.audit_pieces(model, source, **QUICK)
    subject = Subject(Asked(), ROLES.read(frame))
    expected = groups.measure_groups(subject.scorer, subject.people)
    assert found.data.people == found.groups.people == 3000
    for one, other in zip(found.groups.breakdowns, expected.breakdowns, strict=True):
        assert [group.label for group in one.groups] == [group.label for group in other.groups]
        for mine, theirs in zip(one.groups, other.groups, strict=True):
            assert mine.metrics.keys() == theirs.metrics.keys()
            for name, metric in theirs.metrics.items():
                assert quantity_value(mine.metrics[name]) == pytest.approx(quantity_value(metric), abs=1e-9)
    assert [(cell.group, cell.n) for cell in found.groups.calibration] == [
        (cell.group, cell.n) for cell in expected.calibration
    ]
    area = expected.overall["auc"].value
    assert abs(found.groups.overall["auc"].value - area) < 1e-4  # 0.2 + 0.2 and 0.2 + 0.004 * 50 are in one bin
    assert found.groups.overall["auc"].low < area < found.groups.overall["auc"].high
    searched = find_subgroups(subject.scorer, subject.people)
    assert [one.words for one in found.subgroups.findings] == [one.words for one in searched.findings]
    assert found.individual.rate(("sex",), "data").n == 300
    assert any("300 of 3,000 people" in one.reason for one in found.not_run)


def test_an_audit_that_was_stopped_asks_only_about_the_rest(tmp_path):
    source = write(tmp_path / "people", people(3000, amounts=10_000))
    whole = auditing.audit_pieces(Asked(), source, **QUICK)
    stopped = Asked(stop_after=1300)
    with pytest.raises(KeyboardInterrupt):
        auditing.audit_pieces(stopped, source, state=tmp_path / "state", **QUICK)
    kept = sorted(path.name for path in (tmp_path / "state").glob("unit-*.npz"))
    assert 1 <= len(kept) < len(source.pieces)
    fresh, again = Asked(), Asked()
    resumed = auditing.audit_pieces(fresh, source, state=tmp_path / "state", **QUICK)
    assert resumed.groups.model_dump(exclude={"seconds"}) == whole.groups.model_dump(exclude={"seconds"})
    auditing.audit_pieces(again, source, state=tmp_path / "state", **QUICK)
    skipped = sum(piece.rows for piece in source.pieces[: len(kept)])
    assert fresh.rows - again.rows == 3000 - skipped


def test_people_who_are_alike_are_asked_about_once(tmp_path):
    pytest.importorskip("duckdb", reason="needs the extra duckdb")
    frame = people(3000, amounts=3)
    source = write(tmp_path / "people", frame)
    model, again = Asked(), Asked()
    found = auditing.audit_pieces(model, source, state=tmp_path / "state", **QUICK)
    auditing.audit_pieces(again, source, state=tmp_path / "state", **QUICK)
    assert model.rows - again.rows == len(frame.drop_duplicates())
    expected = groups.measure_groups(Subject(Asked(), ROLES.read(frame)).scorer, ROLES.read(frame))
    assert found.groups.breakdowns[0].gaps[0].value.value == pytest.approx(expected.breakdowns[0].gaps[0].value.value)
    assert found.data.people == 3000


def test_the_schema_knows_values_that_no_sample_shows(tmp_path):
    frame = people(2000)
    frame.loc[1999, ["race", "amount"]] = ["rare", 777]
    found = auditing.audit_pieces(Asked(), write(tmp_path / "people", frame), **QUICK)
    assert found.described["race"].values == ("A", "B", "C", "rare")
    assert (found.described["amount"].lower, found.described["amount"].upper) == (0, 777)


def test_a_bad_value_is_named_with_its_file_and_row(tmp_path):
    frame = people(2000)
    schema = ROLES.read(frame).schema
    frame.loc[1333, "race"] = "Z"
    source = replace(write(tmp_path / "people", frame), roles=replace(ROLES, schema=schema))
    # The first 667 rows are in the first file; the second one has row groups of 400 rows that are read 150 at a time.
    with pytest.raises(EvenhandError, match=r"column 'race', row 667 of .*1\.parquet: 'Z' is not one of its values"):
        auditing.audit_pieces(Asked(), source, **QUICK)
    assert datasets.describe_place(source.pieces, "note", None).endswith(f"{source.pieces[0].path}")
    assert datasets.describe_place(source.pieces, "race", "A").startswith(f"{(frame['race'] == 'A').sum():,} rows, ")


def test_state_of_another_audit_is_refused(tmp_path):
    source = write(tmp_path / "people", people(900))
    auditing.audit_pieces(Asked(), source, state=tmp_path / "state", **QUICK)
    other = write(tmp_path / "others", people(900, 1))
    with pytest.raises(OptionError, match=r"not the same (model and )?data"):
        auditing.audit_pieces(Asked(), other, state=tmp_path / "state", **QUICK)
    with pytest.raises(OptionError, match="not the same model"):
        auditing.audit_pieces(Otherwise(), source, state=tmp_path / "state", **QUICK)
    # A file that is not whole is counted again.
    next((tmp_path / "state").glob("unit-*.npz")).write_bytes(b"half")
    auditing.audit_pieces(Asked(), source, state=tmp_path / "state", **QUICK)
    (tmp_path / "file").write_text("")
    with pytest.raises(EvenhandError, match="cannot be kept"):
        auditing.audit_pieces(Asked(), source, state=tmp_path / "file", **QUICK)


class Endpoint(BaseHTTPRequestHandler):
    """Answers with the model that its server has by now."""

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        scores = self.server.model(pd.DataFrame(request["instances"]))
        answer = json.dumps({"predictions": scores.tolist()}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *arguments):
        pass


@pytest.fixture
def endpoint():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Endpoint)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server, f"http://127.0.0.1:{server.server_port}/predict"
    server.shutdown()
    server.server_close()


def test_an_endpoint_that_answers_otherwise_by_now_is_refused(tmp_path, endpoint):
    server, url = endpoint
    source = write(tmp_path / "people", people(900, amounts=10_000))
    server.model = Asked(stop_after=10**9)
    whole = auditing.audit_pieces(url, source, state=tmp_path / "state", **QUICK)
    next((tmp_path / "state").glob("unit-*.npz")).unlink()
    resumed = auditing.audit_pieces(url, source, state=tmp_path / "state", **QUICK)
    assert resumed.groups.model_dump(exclude={"seconds"}) == whole.groups.model_dump(exclude={"seconds"})
    server.model = Otherwise()
    with pytest.raises(OptionError, match="answers differently from when the audit was begun: about 19 of 20 people"):
        auditing.audit_pieces(url, source, state=tmp_path / "state", **QUICK)


def test_an_endpoint_that_answers_differently_each_time_is_bound_by_its_address_alone(tmp_path, endpoint):
    server, url = endpoint
    rng = np.random.default_rng(0)
    server.model = lambda frame: np.column_stack([1 - (chance := rng.random(len(frame))), chance])
    source = write(tmp_path / "people", people(300, amounts=10_000))
    for _ in range(2):
        found = auditing.audit_pieces(url, source, state=tmp_path / "state", **QUICK)
    assert found.groups.people == 300


@pytest.mark.parametrize(
    ("roles", "config", "message"),
    [
        ({}, {"thresholds": True}, "every person"),
        ({}, {"keep_decisions": True}, "every person"),
        ({}, {"budget": 1000}, "does not pay"),
        ({"target": "amount"}, {}, "holds numbers"),
        ({"target": "race", "protected": ["sex"]}, {}, "favourable"),
    ],
)
def test_what_cannot_be_done_piece_by_piece_is_refused(tmp_path, roles, config, message):
    source = write(tmp_path / "people", people(1000))
    about = ColumnRoles(**{"target": "repaid", "protected": ["sex"]} | roles)
    with pytest.raises(EvenhandError, match=message):
        auditing.audit_pieces(Asked(), engine.PiecesSource(source.pieces, about, "people"), **QUICK | config)


KILLED = """
import os, signal, sys
import numpy as np

def model(frame):
    with open("asked.txt", "a") as file:
        file.write(f"{len(frame)}\\n")
    asked = sum(map(int, open("asked.txt")))
    if os.environ.get("KILL") and asked > 1500:
        os.kill(os.getpid(), signal.SIGKILL)
    chance = 0.2 + 0.004 * (frame["amount"].to_numpy(dtype=float) % 100) + 0.2 * (frame["sex"] == "M").to_numpy()
    return np.column_stack([1 - chance, chance])
"""


@pytest.mark.full
def test_a_killed_command_goes_on(tmp_path):
    write(tmp_path / "people", people(3000, amounts=10_000))
    (tmp_path / "mine.py").write_text(KILLED)
    command = [sys.executable, "-c", "from evenhand.cli.main import main; main()", "audit", "mine:model", "people"]
    command += ["--target", "repaid", "--protected", "sex", "--state", "state", "--time-limit", "2"]

    def run(**more):
        places = [str(tmp_path), str(Path(evenhand.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
        environment = os.environ | more | {"PYTHONPATH": os.pathsep.join(places)}
        return subprocess.run([*command, "--json", "-"], cwd=tmp_path, env=environment, capture_output=True, text=True)

    assert run(KILL="1").returncode == -signal.SIGKILL
    kept = len(list((tmp_path / "state").glob("unit-*.npz")))
    assert kept > 0
    (tmp_path / "asked.txt").unlink()
    done = run()
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["groups"]["people"] == 3000
    assert len(list((tmp_path / "state").glob("unit-*.npz"))) == 9 > kept
    assert without_commit(evenhand.__version__) == json.loads((tmp_path / "state" / "work.json").read_text())["version"]
