"""Bad input, SIGTERM and `python -m evenhand`: one clear error and the right exit code."""

import json
import signal
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import evenhand
from evenhand.core.interrupts import InterruptCounter
from support import scaled


def frame_with(case, tmp_path, change):
    frame = pd.read_csv(case.data).astype(object)
    change(frame)
    path = tmp_path / "people.csv"
    frame.to_csv(path, index=False)
    return path


def put(column, row, value):
    def change(frame):
        frame.loc[row, column] = value

    return change


@pytest.mark.parametrize(
    ("change", "complaints"),
    [
        (put("sex", 4, "x"), ["column 'sex' has values that are not listed: 'x'", "'f', 'm'"]),
        (put("grade", 4, None), ["column 'grade', row 5: expected a value"]),
        (put("grade", 4, 21), ["column 'grade', row 5", "from 0 to 20"]),
        (put("hired", 4, None), ["column 'hired', row 5: expected a label"]),
        (put("hired", slice(None), "yes"), ["only one class: 'yes'"]),
        (lambda frame: frame.pop("region"), ["column 'region' is missing", "grade, sex, hired"]),
        (lambda frame: frame.pop("hired"), ["target column 'hired' is missing"]),
    ],
)
def test_bad_people(refuses, case, tmp_path, change, complaints):
    path = frame_with(case, tmp_path, change)
    out = tmp_path / "out"
    refuses(complaints, "audit", case.model, path, "--schema", case.schema, "--out", out)
    assert not out.exists()


def test_nobody(refuses, case, tmp_path):
    (tmp_path / "people.csv").write_text("grade,sex,region,hired\n")
    refuses("no rows", "audit", case.model, tmp_path / "people.csv", "--schema", case.schema)


def test_a_protected_attribute_with_one_value(refuses, case, tmp_path):
    path = frame_with(case, tmp_path, put("sex", slice(None), "f"))
    refuses("'sex' has only one value", "audit --target hired --protected sex", case.model, path)


def test_a_model_whose_width_does_not_match(refuses, case, tmp_path):
    np.savez(tmp_path / "wide.npz", W0=np.ones((5, 1)), b0=np.zeros(1))
    refuses(["5 inputs", "have 3"], "audit", tmp_path / "wide.npz", case.data, "--schema", case.schema)


@pytest.mark.parametrize(
    ("arguments", "complaints"),
    [
        (["audit"], ["requires MODEL and DATA"]),
        (["audit", "{model}", "{data}"], ["true labels", "--target"]),
        (["audit", "{model}", "{data}", "--target", "hired"], ["at least one protected", "--protected"]),
        (["audit", "{model}", "{data}", "--target", "wage", "--protected", "sex"], ["as --target, got 'wage'"]),
        (["audit", "{model}", "{data}", "--target", "hired", "--protected", "race"], ["got 'race'"]),
        (["audit", "{model}", "absent.csv", "--schema", "{schema}"], ["no file 'absent.csv'", "adult"]),
        (["audit", "absent.npz", "{data}", "--schema", "{schema}"], ["absent.npz"]),
        (["audit", "{data}", "{data}", "--schema", "{schema}"], [".csv"]),
        (["audit", "{model}", "{data}", "--schema", "{data}"], ["schema"]),
        (
            ["audit", "{model}", "{data}", "--schema", "{schema}", "--time-limit", "0"],
            ["--time-limit: expected a number above 0"],
        ),
        (["audit", "{model}", "{data}", "--schema", "{schema}", "--protected", "race"], ["no attribute 'race'"]),
        (["audit", "{model}", "{data}", "--schema", "{schema}", "--favourable", "perhaps"], ["perhaps"]),
        (["audit", "{model}", "{data}", "--schema", "{schema}", "--out", "{data}"], ["is a file, not a folder"]),
        (["audit", "http://127.0.0.1:9/predict", "{data}", "--schema", "{schema}"], ["127.0.0.1:9"]),
        (["audit", "no_such_module:f", "{data}", "--schema", "{schema}"], ["no_such_module"]),
        (["audit", "--example", "atlantis"], ["atlantis"]),
        (["certify", "{model}"], ["--schema"]),
        (["certify", "{model}", "--schema", "{schema}", "--population", "data"], ["--data"]),
        (["certify", "{model}", "--schema", "{schema}", "--method", "magic"], ["magic"]),
        (["datasets", "atlantis"], ["atlantis"]),
        (["schema", "{data}"], ["--target"]),
        (["audit", "--colour"], ["--colour"]),
        (["audit", "{model}", "{data}", "--target", "hired", "--quiet"], ["-> name at least one: --protected NAME"]),
    ],
)
def test_bad_options(refuses, case, arguments, complaints):
    names = {"model": case.model, "data": case.data, "schema": case.schema}
    refuses(complaints, *(argument.format(**names) for argument in arguments))


def mutilate(data: bytes, draw) -> bytes:
    kind = draw(st.sampled_from(["truncate", "flip", "insert", "delete", "repeat"]))
    at = draw(st.integers(0, len(data)))
    if kind == "truncate":
        return data[:at]
    if kind == "flip":
        at = min(at, len(data) - 1)
        return data[:at] + bytes([data[at] ^ draw(st.integers(1, 255))]) + data[at + 1 :]
    length = draw(st.integers(1, 40))
    if kind == "insert":
        return data[:at] + draw(st.binary(min_size=1, max_size=length)) + data[at:]
    return data[:at] + data[at + length :] if kind == "delete" else data[:at] + data[at : at + length] * 2 + data[at:]


RARE = {"max_examples": scaled(60), "deadline": None, "suppress_health_check": [HealthCheck.function_scoped_fixture]}


def accepted_or_refused(ran, out):
    assert "Traceback" not in ran.err
    assert "fault in Evenhand" not in ran.err
    present = out.exists() and {path.name for path in out.iterdir()}
    if ran.err.startswith("error: "):
        assert not present
    else:
        assert present == {"report.html", "report.json"}


@pytest.mark.parametrize("part", ["data", "model", "schema"])
@settings(**RARE)
@given(st.data())
def test_mutilated_files(evenhand, case, tmp_path_factory, part, data):
    folder = tmp_path_factory.mktemp(part)
    names = {"data": case.data, "model": case.model, "schema": case.schema}
    path = folder / names[part].name
    path.write_bytes(mutilate(names[part].read_bytes()[: 600 if part == "data" else None], data.draw))
    names[part] = path
    options = ["--schema", names["schema"], "--out", folder / "out"]
    ran = evenhand("audit --time-limit 0.2 --quiet", names["model"], names["data"], *options, code=(0, 2))
    accepted_or_refused(ran, folder / "out")


UNMEASURED = [
    ("flip_rate.region > 0", ["is not measured for", "protected are: sex"]),
    ("certified.sec < 1", ["is not measured for 'sec'"]),
    ("flip_rate.sex_x_region.high > 0", ["is not measured for"]),
    ("demographic_parity_difference.sex.yes > 0", ["is not measured for 'yes'"]),
    ("exposure_ratio < 1", ["this audit has no number called 'exposure_ratio'"]),
    ("llm.gap > 0.1 or better > 0", ["this audit has no number called 'llm'"]),
    ("probable_selection_rate_difference > 0", ["this audit has no number called"]),
    ("mean_difference > 0", ["this audit has no number called 'mean_difference'", "did you mean"]),
]


@pytest.mark.parametrize(("gate", "complaints"), UNMEASURED)
def test_a_condition_on_what_is_not_measured_is_refused_before_the_model_is_asked(
    refuses, case, tmp_path, monkeypatch, gate, complaints
):
    monkeypatch.setattr("evenhand.auditing.audit", lambda *given, **more: pytest.fail("it was asked"))
    refuses(complaints, "audit", *case.arguments, "--out", tmp_path / "out", "--fail-on", gate)
    assert not (tmp_path / "out").exists()


def test_a_condition_on_a_proof_is_refused_if_nothing_can_be_proved(refuses, case, tmp_path, monkeypatch):
    (tmp_path / "unproved_rule.py").write_text("def decide(frame):\n    raise SystemExit('it was asked')\n")
    monkeypatch.chdir(tmp_path)
    gate = ("--fail-on", "certified < 1")
    refuses("a function cannot be certified", "audit unproved_rule:decide", *case.arguments[1:], *gate)
    refuses("this audit has no number called 'certified'", "audit --threshold 0.7", *case.arguments, *gate)


def test_a_damaged_catboost_file_says_how_to_go_on(refuses, case, tmp_path):
    pytest.importorskip("catboost", reason="needs catboost")
    (tmp_path / "model.cbm").write_text('{"oblivious_trees": [], "features_info": {}, "model_info": {}}')
    says = ["the file is damaged or", "save_model('model.cbm')"]
    refuses(says, "audit", tmp_path / "model.cbm", case.data, "--schema", case.schema)


def test_model_and_data_exchanged(refuses, case, tmp_path):
    (tmp_path / "model.joblib").write_bytes(b"\x80\x04K\x01.")
    says = ["a pickle of Python objects, not a text table", "pass the model first"]
    refuses(says, "audit", case.data, tmp_path / "model.joblib", "--schema", case.schema)


MODEL = """
import signal

calls = 0

def score(frame):
    return (frame["grade"] + 4 * (frame["sex"] == "m") > 12).map({True: "yes", False: "no"})

def terminated(frame):
    global calls
    calls += 1
    if calls == 14:  # after the questions about its column types and its noise; signals may be blocked where tests run
        signal.getsignal(signal.SIGTERM)(signal.SIGTERM, None)
    return score(frame)

fits = 0

def fit(frame, labels):
    global fits
    fits += 1
    if fits == 2:
        signal.getsignal(signal.SIGTERM)(signal.SIGTERM, None)
    return score
"""


@pytest.fixture
def folder(case, tmp_path, monkeypatch):
    (tmp_path / "stopped_model.py").write_text(MODEL)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_terminated_search_of_a_function_is_written(evenhand, case, folder):
    about = ["stopped_model:terminated", case.data, "--schema", case.schema, "--json", "found.json"]
    evenhand("search", *about, "--quiet", code=143)
    assert json.loads((folder / "found.json").read_text())["interrupted"]


def test_a_terminated_report_is_written(evenhand, case, folder):
    about = ["stopped_model:terminated", case.data, "--schema", case.schema, "--json", "found.json"]
    ran = evenhand("audit", *about, "--out", "report", code=143)
    assert "interrupted" in ran.out
    assert (folder / "report" / "report.html").exists()
    assert json.loads((folder / "found.json").read_text())["interrupted"]


def test_a_terminated_certificate_is_written(evenhand, case, folder, monkeypatch):
    entered = InterruptCounter.__enter__

    def enter(counter):
        """Terminate as soon as the proof has begun."""
        entered(counter)
        signal.getsignal(signal.SIGTERM)(signal.SIGTERM, None)
        return counter

    monkeypatch.setattr(InterruptCounter, "__enter__", enter)
    (folder / "real.yaml").write_text(case.schema.read_text().replace("kind: integer", "kind: real"))
    evenhand("certify", case.model, "--schema", "real.yaml", "--method", "interval", "--json", "found.json", code=143)
    assert json.loads((folder / "found.json").read_text())["stopped_by"] == "interrupt"


def test_a_terminated_mitigation_is_written(evenhand, case, folder):
    about = ["stopped_model:score", case.data, "--schema", case.schema]
    search = ["--json", "search.json", "--quiet", "--budget", 2000, "--show-people"]
    evenhand("search", *about, *search)
    more = ["--from", "search.json", "--fit", "stopped_model:fit", "--certify-effort", 0, "--json", "found.json"]
    evenhand("mitigate", *about, *more, "--save", "new.joblib", "--quiet", code=143)
    assert json.loads((folder / "found.json").read_text())["interrupted"]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_stop_before_there_is_any_result_says_so(evenhand, case, monkeypatch, interruptible, number, code):
    def stop(*given, **more):
        signal.getsignal(number)(number, None)

    monkeypatch.setattr("evenhand.datasets.read_frame", stop)
    ran = evenhand("audit", case.model, case.data, "--schema", case.schema, code=code)
    assert ran.err == "interrupted before any result\n"


def test_a_current_folder_that_is_gone_is_a_clear_error(evenhand, case, tmp_path, monkeypatch):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    ran = evenhand("audit", "--example", "german", code=2)
    assert ran.out == ""
    assert "the current folder was deleted" in ran.err
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("words", "code", "expected"),
    [(["--version"], 0, f"evenhand {evenhand.__version__}"), (["schema", "absent.csv"], 2, "absent.csv")],
)
def test_the_package_runs_as_the_command(tmp_path, words, code, expected):
    done = subprocess.run(
        [sys.executable, "-m", "evenhand", *words], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.returncode == code, done.stderr
    assert expected in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
