"""`evenhand mitigate` and `evenhand refute` as a user runs them."""

import json
import math
import os
import shutil

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from evenhand import mitigation as mitigating
from evenhand.mitigation import MitigationResult, RefutationResult
from support import draw_frame, needs

QUICK = ["--rounds", "0", "--certify-effort", "0"]


@pytest.fixture(scope="module")
def pipeline(case, tmp_path_factory):
    """A scikit-learn pipeline that learnt from people of whom men were preferred, and later people, of whom not."""
    folder = tmp_path_factory.mktemp("mitigate")
    rng = np.random.default_rng(1)
    n = 800
    frame = draw_frame(rng, n, grade=(0, 20), sex="f m", region="north south west")
    points = frame["grade"] + rng.normal(0, 2, n)
    earlier = np.where(points + 4 * (frame["sex"] == "m") > 12, "yes", "no")
    frame["hired"] = np.where(points > 11, "yes", "no")
    frame.to_csv(folder / "people.csv", index=False)
    frame.sample(frac=0.5, random_state=0).to_csv(folder / "aside.csv", index=False)
    shutil.copy(case.schema, folder / "schema.yaml")
    words = make_column_transformer((OneHotEncoder(), ["sex", "region"]), remainder="passthrough")
    model = make_pipeline(words, LogisticRegression())
    joblib.dump(model.fit(frame[["grade", "sex", "region"]], earlier), folder / "model.joblib")
    return folder


@pytest.fixture
def found(evenhand, pipeline, monkeypatch):
    """The folder is where the command runs; the findings are in it."""
    monkeypatch.chdir(pipeline)
    if not (pipeline / "search.json").exists():
        about = ["model.joblib", "people.csv", "--schema", "schema.yaml", "--trust", "--quiet"]
        found = ("--show-people", "--json", "search.json")
        evenhand("search", *about, "--budget", 3000, *found)
        evenhand("subgroups", *about, "--protected", "sex", "--protected", "region", "--json", "subgroups.json")
    return pipeline


ABOUT = ["model.joblib", "people.csv", "--schema", "schema.yaml", "--trust"]


def test_json_is_what_scripts_read(evenhand, found, tmp_path):
    command = [*ABOUT, "--from", "search.json", "--from", "subgroups.json", *QUICK, "--json", "-"]
    ran = evenhand("mitigate", *command, "--save", tmp_path / "new.joblib")
    assert ran.err == ""
    result = MitigationResult.from_json(ran.out)
    assert result.kind == "mitigation"
    assert result.sources == ("search.json", "subgroups.json")
    assert result.people.train + result.people.validation + result.people.test == 800
    assert [candidate.method for candidate in result.candidates] == ["retrain", "refit"]
    retrained, control = result.candidates
    assert control.control
    flips = retrained.line("flip_rate", "sex")
    assert flips is not None
    assert flips.verdict == "better"
    # The same seed gives the same model: fitted by the same code, written the same way.
    again = evenhand("mitigate", *command, "--save", tmp_path / "again.joblib")
    assert (tmp_path / "new.joblib").read_bytes() == (tmp_path / "again.joblib").read_bytes()
    assert {**again.json, "seconds": 0} == {**ran.json, "seconds": 0}


def test_a_fit_of_ones_own(evenhand, found, tmp_path):
    (found / "own_fit_mitigated.py").write_text(
        "from sklearn.compose import make_column_transformer\n"
        "from sklearn.pipeline import make_pipeline\n"
        "from sklearn.preprocessing import OneHotEncoder\n"
        "from sklearn.tree import DecisionTreeClassifier\n"
        "def fit(frame, labels):\n"
        "    words = make_column_transformer((OneHotEncoder(), ['sex', 'region']), remainder='passthrough')\n"
        "    return make_pipeline(words, DecisionTreeClassifier(max_depth=3, random_state=0)).fit(frame, labels)\n"
        "def model(frame):\n"
        "    return (frame['grade'] + 4 * (frame['sex'] == 'm') > 12).map({True: 'yes', False: 'no'})\n"
    )
    new = tmp_path / "new.joblib"
    command = "mitigate own_fit_mitigated:model --from search.json --fit own_fit_mitigated:fit --json -"
    evenhand(command, "--save", new, *ABOUT[1:], *QUICK)
    assert joblib.load(new)[-1].max_depth == 3


class Stopped:
    """Stands for a mitigation: keeps what it was asked for, and writes a line."""

    def __init__(self, like: MitigationResult, **changes):
        self.result = like.model_copy(update=changes)
        self.asked = None

    def __call__(self, subject, config, **asked):
        self.asked = {"subject": subject, "config": config, **asked}
        self.given = subject.scorer
        return self

    def save(self, path):
        path.write_text("the best so far")
        return (path,)


@pytest.fixture
def result():
    people = {"train": 60, "validation": 20, "test": 20}
    described = {"model": "m", "data": "d", "favourable": "yes", "people": people, "harms": ("h",), "confidence": 0.95}
    found = {"accuracy_loss": 0.01, "candidates": (), "chosen": None, "seed": 0, "seconds": 1.0}
    return MitigationResult.model_validate(described | found)


def test_every_option_reaches_the_mitigation(evenhand, found, tmp_path, monkeypatch, result):
    pytest.importorskip("torch", reason="needs the extra torch")
    stand_in = Stopped(result)
    monkeypatch.setattr(mitigating, "mitigate", stand_in)
    new = tmp_path / "new.joblib"
    evenhand(
        "mitigate --from search.json --from subgroups.json --method retrain --method diffdp "
        "--strength 0.5 --accuracy-loss 0.02 --rounds 3 --test aside.csv --fit a:b --certify-effort 4 "
        f"--time-limit 60 --seed 5 --json - --protected region --save {new}",
        *ABOUT,
    )
    asked = stand_in.asked
    subject = asked["subject"]
    assert subject.model == "model.joblib"
    assert subject.people.schema.protected == ("region",)
    assert asked["test"].schema == subject.people.schema
    assert len(asked["test"]) == 400
    assert subject.trust is True
    assert asked["out"] == new
    findings, numbers = ("search.json", "subgroups.json"), {"strength": 0.5, "accuracy_loss": 0.02, "rounds": 3}
    numbers |= {"certify_effort": 4, "time_limit": 60, "seed": 5}
    config = mitigating.MitigationConfig(methods=("retrain", "diffdp"), findings=findings, fit="a:b", **numbers)
    assert asked["config"] == config


@pytest.mark.parametrize(("seconds", "code"), [(1.0, 130), (7.0, 0)], ids=["somebody", "time"])
def test_interrupted_the_best_so_far_is_written(evenhand, found, tmp_path, monkeypatch, result, seconds, code):
    monkeypatch.setattr(mitigating, "mitigate", Stopped(result, interrupted=True, seconds=seconds))
    new, told = tmp_path / "new.joblib", tmp_path / "told.json"
    options = f"--from search.json --save {new} --json {told} --time-limit 5 --quiet"
    evenhand(f"mitigate {options}", *ABOUT, code=code)
    assert new.read_text() == "the best so far"
    assert json.loads(told.read_text())["interrupted"] is True


def test_interrupted_before_there_is_any_model(evenhand, found, tmp_path, monkeypatch):
    def stopped(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(mitigating, "mitigate", stopped)
    ran = evenhand("mitigate", *ABOUT, "--from", "search.json", "--save", tmp_path / "new.joblib", code=130)
    assert ran.err == "interrupted before any model was trained\n"
    assert not list(tmp_path.iterdir())


FROM = ["--from", "search.json"]


@pytest.mark.parametrize(
    ("arguments", "complaints"),
    [
        ([*FROM, "--save", "model.joblib"], ["--save", "input"]),
        ([*FROM, "--save", "./../{folder}/model.joblib"], ["--save", "input"]),
        ([*FROM, "--save", "link.joblib"], ["--save", "input"]),
        (["--method", "diffdp", "--save", "new.npz", "--from", "new.schema.yaml"], ["--save", "input"]),
        ([*FROM, "--json", "people.csv"], ["--json", "input"]),
        ([*FROM, "--html", "search.json"], ["--html", "input"]),
        ([*FROM, "--save", "new.onnx"], ["new.onnx", ".skops", ".joblib"]),
        ([*FROM, "--save", "new.npz", "--method", "blind"], ["new.npz", ".joblib"]),
        pytest.param(
            ["--save", "new.joblib", "--method", "diffdp", "--method", "blind"],
            ["new.joblib", ".npz"],
            marks=needs("torch"),
        ),
        ([*FROM, "--save", "new"], ["--save", "extension"]),
        ([*FROM, "--save", "absent/new.joblib"], ["--save", "no folder"]),
        ([], ["--from", "evenhand search", "--method diffdp"]),
        ([*FROM, "--test", "people.csv"], ["--test", "not in DATA", "hold out"]),
        ([*FROM, "--strength", "1"], ["--strength", "got 'retrain'", "diffdp"]),
        ([*FROM, "--method", "magic"], ["unknown method 'magic'", "retrain", "logit-pairing"]),
        (["--from", "absent.json"], ["absent.json"]),
        (["--from", "schema.yaml"], ["schema.yaml"]),
        (["--from", "people.csv"], ["people.csv"]),
        (["--from", "broken.json"], ["broken.json"]),
        (["--from", "datasets.json"], ["datasets.json"]),
        (["--from", "other.json"], ["other.json"]),
        (["--from", "texts.json"], ["texts.json"]),
        (["--from", "nothing.json"], ["expected findings to train on"]),
        ([*FROM, "--test", "absent.csv"], ["absent.csv"]),
        ([*FROM, "--test", "unlabelled.csv"], ["--test: ", "hired"]),
        ([*FROM, "--fit", "no_such_module:fit"], ["no_such_module"]),
        ([*FROM, "--fit", "json:no_such_function"], ["no_such_function"]),
        ([*FROM, "--fit", "somewhere"], ["somewhere"]),
        ([*FROM, "--accuracy-loss", "1.5"], ["1.5"]),
    ],
)
def test_bad_options(refuses, found, arguments, complaints):
    if not (found / "link.joblib").exists():
        os.symlink("model.joblib", found / "link.joblib")
        shutil.copy(found / "schema.yaml", found / "new.schema.yaml")
        (found / "broken.json").write_text((found / "search.json").read_text()[:500])
        (found / "datasets.json").write_text('{"kind": "shield", "states": 3}')
        other = (found / "search.json").read_text().replace('"north"', '"east"')
        (found / "other.json").write_text(other)
        (found / "texts.json").write_text('{"kind": "individual-text"}')
        none = json.loads((found / "search.json").read_text()) | {"examples": [], "profiles": 0}
        (found / "nothing.json").write_text(json.dumps(none))
        pd.read_csv("people.csv").drop(columns="hired").to_csv("unlabelled.csv", index=False)
    given = [argument.format(folder=found.name) for argument in arguments]
    given += [] if "--save" in given else ["--save", "new.joblib"]
    refuses(complaints, "mitigate", *ABOUT, *given)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["absent.joblib", *ABOUT[1:]], "absent.joblib"),
        (["json:loads", *ABOUT[1:]], "json:loads"),
        (["own_decision:model", *ABOUT[1:]], "--fit"),
        (["model.joblib", "unlabelled.csv", "--schema", "schema.yaml", "--trust"], "hired"),
        (["model.joblib", "alike.csv", "--schema", "schema.yaml", "--trust"], "only one class"),
        (["model.joblib", "few.csv", "--schema", "schema.yaml", "--trust"], "got 9"),
        (["model.joblib", "people.csv", "--schema", "schema.yaml"], "--trust"),
    ],
)
def test_bad_models_and_people(refuses, found, arguments, complaint, tmp_path):
    pd.read_csv("people.csv").head(50).to_csv("few.csv", index=False)
    pd.read_csv("people.csv").drop(columns="hired").to_csv("unlabelled.csv", index=False)
    pd.read_csv("people.csv").assign(hired="no").to_csv("alike.csv", index=False)
    (found / "own_decision.py").write_text("def model(frame):\n    return frame['grade'] / 20\n")
    refuses(complaint, "mitigate", *arguments, *FROM, "--save", "new.joblib")


@pytest.fixture(scope="module")
def comments(tmp_path_factory):
    """A pipeline over texts that learnt to dislike women, and its texts."""
    folder = tmp_path_factory.mktemp("comments")
    groups, words, places = ["women", "men"], ["awful", "lovely"], range(20)
    rows = [(f"{group} are {word} {place}", place) for group in groups for word in words for place in places]
    frame = pd.DataFrame(rows, columns=["said", "place"])
    frame["label"] = np.where(frame["said"].str.contains("awful|women"), "rude", "fine")
    frame.to_csv(folder / "comments.csv", index=False)
    pipeline = make_pipeline(TfidfVectorizer(), LogisticRegression(C=100)).fit(frame["said"], frame["label"])
    joblib.dump(pipeline, folder / "model.joblib")
    (folder / "rude.py").write_text("def model(frame):\n    return [0.5] * len(frame)\n")
    return folder


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["model.joblib", "--method", "blind"], "model.joblib: expected a model of people in rows, got a pipeline"),
        (["model.joblib", "--method", "blind", "--ignore", "said"], "got a pipeline over texts"),
        (["rude:model", "--from", "found.json"], "found.json: expected findings about people in rows, got findings"),
        (["rude:model", "--from", "found.json", "--ignore", "said"], "got findings about texts"),
        (["rude:model", "--method", "blind"], "--ignore"),
    ],
)
def test_texts_are_refused_with_what_works_instead(evenhand, refuses, comments, monkeypatch, arguments, complaint):
    monkeypatch.chdir(comments)
    if not (comments / "found.json").exists():
        about = ["model.joblib", "comments.csv", "--text-column", "said", "--protected", "gender", "--trust"]
        evenhand("search", *about, "--json", "found.json", "--show-people", "--quiet")
    roles = ["--target", "label", "--favourable", "fine", "--protected", "place", "--trust", "--save", "new.joblib"]
    model, *rest = arguments
    instead = ["evenhand search MODEL DATA --text-column COLUMN --table"] if "got" in complaint else []
    refuses([complaint, *instead], "mitigate", model, "comments.csv", *roles, *rest)


FEATURES = "features:\n  - grade >= 8\n  - grade >= 14\n  north: region == north\n"


@pytest.fixture
def folder(case, tmp_path, monkeypatch):
    shutil.copy(case.data, tmp_path / "people.csv")
    shutil.copy(case.schema, tmp_path / "schema.yaml")
    (tmp_path / "features.yaml").write_text(FEATURES.replace("  north: ", "  - "), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


REFUTE_ABOUT = ["people.csv", "--schema", "schema.yaml"]
REFUTE = [*REFUTE_ABOUT, "--family", "linear", "--features", "features.yaml"]


def test_mitigate_with_refute_is_refute(evenhand, folder):
    (folder / "own.py").write_text(
        "def decide(frame):\n    return (frame['grade'] > 11).astype(float)\n", encoding="utf-8"
    )
    features = ("--features", "features.yaml", "--quiet", "--json")
    schema = ("--schema", "schema.yaml")
    evenhand("mitigate", "own:decide", "people.csv", *schema, "--refute", "linear", *features, "former.json")
    evenhand("refute", *REFUTE, "--model", "own:decide", "--quiet", "--json", "now.json")
    results = [json.loads((folder / name).read_text("utf-8")) for name in ("former.json", "now.json")]
    assert [result["need"] for result in results] == [results[0]["need"]] * 2
    assert results[0]["bound"] == results[1]["bound"]


def test_a_refutation_is_said_written_and_checked(evenhand, folder):
    evenhand("refute", *REFUTE, "--accuracy", 0.7, "--json", "r.json", "--html", "r.html")
    assert "lower bound of the gap" in (folder / "r.html").read_text("utf-8")
    found = RefutationResult.from_json((folder / "r.json").read_text("utf-8"))
    assert found.need == math.ceil(0.7 * found.people - 1e-9)
    checked = evenhand("check-certificate", "r.json", "--data", *REFUTE_ABOUT, "--json", "-")
    assert checked.json["verdict"] == "confirmed"
    assert checked.json["data_checked"]
    held = json.loads((folder / "r.json").read_text("utf-8"))
    (folder / "r.json").write_text(json.dumps(held | {"bound": held["bound"] + 0.01}), encoding="utf-8")
    forged = evenhand("check-certificate", "r.json", code=1)
    assert "rejected" in forged.out


def test_the_given_model_sets_the_floor(evenhand, folder, case):
    pytest.importorskip("torch", reason="needs the extra torch")
    ran = evenhand("refute", *REFUTE, "--model", case.model, "--json", "-")
    assert ran.json["accuracy"] == ran.json["given"]["accuracy"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([*REFUTE_ABOUT, "--accuracy", 0.7], "Missing option '--features'"),
        (REFUTE, "--accuracy"),
        ([*REFUTE, "--accuracy", 1.7], "--accuracy"),
        ([*REFUTE, "--accuracy", 0.7, "--method", "tilt"], "No such option: --method"),
        ([*REFUTE, "--accuracy", 0.7, "--json", "features.yaml"], "is an input"),
        ([*REFUTE_ABOUT, "--family", "lines", "--features", "features.yaml"], "--family: expected one of: any, linear"),
        ([*REFUTE_ABOUT, "--features", "missing.yaml", "--accuracy", 0.7], "cannot be read"),
    ],
)
def test_bad_input_is_one_clear_error(refuses, folder, given, message):
    refuses(message, "refute", *given)


def test_a_check_needs_what_the_file_is_about(refuses, folder, case):
    refuses("expected the model", "check-certificate people.csv")
    (folder / "other.json").write_text("{}", encoding="utf-8")
    refuses("no refutation", "check-certificate other.json")
    refuses("expected no model for a refutation", "check-certificate other.json", case.model)
