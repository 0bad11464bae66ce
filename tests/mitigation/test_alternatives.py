"""A search for less discriminatory alternatives from start to end: what is chosen, recorded, written and promised."""

import json

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from evenhand.errors import DataError, OptionError
from evenhand.mitigation import AlternativesConfig, AlternativesResult, find_alternatives
from evenhand.models import Subject, load_model
from evenhand.schema import encode
from evenhand.view.charts.mitigation import draw_alternatives
from support import small_schema


def applicants(n=1500, seed=0):
    """People whose town tells much of their sex, and labels that depend on grade and town."""
    rng = np.random.default_rng(seed)
    place = rng.integers(0, 2, n)
    town = np.where(rng.random(n) < 0.7, place, rng.integers(0, 3, n))
    places = {"town": np.array(["Ely", "Rye", "Ware"])[town], "sex": np.array(["female", "male"])[place]}
    frame = pd.DataFrame({"grade": rng.integers(0, 21, n), **places})
    points = frame["grade"] + 4 * (town == 1) + 2 * place + rng.normal(0, 3, n)
    frame["hired"] = np.where(points > 12, "yes", "no")
    return encode(described(), frame)


def described(labels="no yes"):
    return small_schema(labels, favourable="yes", grade=(0, 20), town="Ely Rye Ware", sex="female male *")


def trained(people, columns=("grade", "town", "sex"), model=None):
    words = [one for one in columns if one != "grade"]
    encoder = make_column_transformer((OneHotEncoder(), words), remainder="passthrough")
    frame = people.frame
    return make_pipeline(encoder, model or LogisticRegression()).fit(frame[list(columns)], frame["hired"])


@pytest.fixture(scope="module")
def people():
    return applicants()


@pytest.fixture(scope="module")
def blind(people):
    """A search whose candidates are not told the sex, over a model that is."""
    subject = Subject(trained(people), people, data_name="applicants")
    return find_alternatives(
        subject, against="gap", methods=("reweigh", "tilt"), decide_without=("sex",), accuracy_loss=0.05
    )


def test_a_search_from_start_to_end(blind, people):
    result = blind.result
    given, chosen = result.candidates[0], result.candidates[result.chosen]
    assert given.method == "given"
    assert chosen.verdict == "better"
    assert chosen.test.gap < given.test.gap - 0.1
    assert chosen.loss + chosen.margin <= 0.05
    assert given.test.accuracy - chosen.test.accuracy <= 0.05
    assert result.validation + result.test == len(people)
    methods = {"given", "untold", "refit", "reweigh", "tilt", "reweigh x tilt"}
    assert {one.method for one in result.candidates} == methods
    assert all(not one.asks for one in result.candidates)
    assert "excluded because it uses the group: thresholds" in result.space
    assert [one.number for one in result.candidates] == list(range(len(blind.models)))
    assert result.groups == ("female", "male")
    assert AlternativesResult.from_json(result.to_json()) == result
    assert len(result.to_frame()) == len(result.candidates)
    compared = [one for one in result.candidates if one.gap_change is not None]
    assert {one.number for one in compared} == ({one.number for one in result.frontier} | {result.picked}) - {0}
    assert result.compared == (given, *compared)
    drawn = json.dumps(draw_alternatives(result))
    assert f"{chosen.number}, chosen" in drawn


def test_permuting_what_a_model_is_not_told_changes_no_answer(blind, people, tmp_path):
    rng = np.random.default_rng(1)
    rows = people.individuals[:400]
    swapped = rows.copy()
    swapped[:, 2] = rng.permutation(swapped[:, 2])
    for one, model in list(zip(blind.result.candidates, blind.models, strict=True))[1::7]:
        assert (model.scores(swapped) == model.scores(rows)).all(), one.recipe
        assert (model.predict(swapped) == model.predict(rows)).all()
    assert (blind.models[0].predict(swapped) != blind.models[0].predict(rows)).any()


def test_the_file_answers_like_the_model_and_does_without_the_column(blind, people, tmp_path):
    (path,) = blind.save(tmp_path / "new.joblib")
    read = joblib.load(path)
    wanted = np.array(["no", "yes"])[blind.models[blind.result.chosen].predict(people.individuals)]
    assert (read.predict(people.frame) == wanted).all()
    assert (read.predict(people.frame.drop(columns="sex")) == wanted).all()
    assert list(read.feature_names_in_) == ["grade", "town"]
    assert read.predict_proba(people.frame).shape == (len(people), 2)
    again = load_model(path, people.schema, like=people.frame, trust=True)
    assert (again.predict(people.individuals) == blind.models[blind.result.chosen].predict(people.individuals)).all()
    assert b"Ware" in path.read_bytes()  # the schema's words; the people's rows are not there
    assert path.stat().st_size < 40_000


@pytest.mark.parametrize("against", ["ratio", "equal-opportunity", "equalized-odds"])
def test_other_gaps_are_reduced_as_well(against):
    people = applicants(6000)
    done = find_alternatives(
        Subject(trained(people), people), against=against, methods=("tilt", "thresholds"), accuracy_loss=0.1
    )
    given, *_ = done.result.candidates
    least = min(done.result.candidates, key=lambda one: one.validation.gap)
    assert least.validation.gap < 0.75 * given.validation.gap
    assert least.test.gap < given.test.gap
    assert least.asks == ("sex",)
    told = {one.method for one in done.result.candidates if one.asks}
    assert told == {"thresholds"}


def test_a_model_of_its_kind_is_written_as_such(tmp_path):
    people = applicants(5000)
    model = trained(people, ("grade", "town"))
    done = find_alternatives(
        Subject(model, people), against="gap", methods=("reweigh",), decide_without=("sex",), accuracy_loss=0.1
    )
    (path,) = done.save(tmp_path / "new.joblib")
    assert type(joblib.load(path)) is type(model)


def test_none_is_better_where_no_one_loses_by_group(tmp_path):
    people = applicants(1000)
    rng = np.random.default_rng(3)
    people.individuals[:, 2] = rng.integers(0, 2, len(people))
    frame = people.frame.assign(sex=np.array(["female", "male"])[people.individuals[:, 2].astype(int)])
    people = encode(people.schema, frame)
    done = find_alternatives(Subject(trained(people), people), against="gap", methods=("reweigh", "thresholds"))
    assert done.result.chosen is None
    assert done.save(tmp_path / "new.joblib") == ()
    assert not list(tmp_path.iterdir())


def test_a_learner_without_weights_learns_from_resampled_people(people):
    model = trained(people, model=KNeighborsClassifier(25))
    done = find_alternatives(Subject(model, people), against="gap", methods=("reweigh",), accuracy_loss=0.1)
    assert any("does not use weights" in note for note in done.result.notes)
    gaps = [one.validation.gap for one in done.result.candidates if one.method in ("refit", "reweigh")]
    assert gaps[-1] < gaps[0] - 0.05


def test_a_black_box_is_tilted_and_given_thresholds(people):
    def decide(frame):
        return 1 / (1 + np.exp(12 - frame["grade"] - 4 * (frame["town"] == "Rye")))

    done = find_alternatives(Subject(decide, people), against="gap", accuracy_loss=0.1)
    assert {one.method for one in done.result.candidates} == {"given", "tilt", "thresholds"}
    assert any("Name a training function" in note for note in done.result.notes)


def test_what_cannot_be_searched_is_refused(people, tmp_path):
    subject = Subject(trained(people), people)
    with pytest.raises(OptionError, match="no attribute 'sexx'"):
        find_alternatives(subject, against="gap", decide_without=("sexx",))
    with pytest.raises(OptionError, match="some alternatives cannot be written"):
        find_alternatives(subject, against="gap", out=tmp_path / "new.skops")
    with pytest.raises(OptionError, match="no attribute is protected"):
        find_alternatives(Subject(subject.model, encode(people.schema.with_protected([]), people.frame)), against="gap")
    with pytest.raises(OptionError, match="expected one of: reweigh"):
        AlternativesConfig(against="gap", methods=("erm",))
    same = encode(people.schema, people.frame.assign(sex="male"))
    with pytest.raises(DataError, match="got fewer"):
        find_alternatives(Subject(subject.model, same), against="gap")
    rows = encode(described("no yes later"), people.frame.assign(hired=np.resize(["no", "yes", "later"], len(people))))
    with pytest.raises(DataError, match="decides between 3"):
        find_alternatives(Subject(trained(rows), rows), against="gap")
