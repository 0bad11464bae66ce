"""A mitigation from start to end, and data that are held out of it."""

import importlib
import importlib.util
import math
import sys
import time

import numpy as np
import pandas as pd
import pytest
from mitigate_cases import Decider
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

from evenhand import mitigation, models, subgroups
from evenhand.errors import DataError, MissingExtraError, ModelError, OptionError
from evenhand.individual import search
from evenhand.mitigation import CandidateResult, Findings, MitigationConfig
from evenhand.mitigation.analysis import judge_candidate
from evenhand.mitigation.candidate import Incumbent, Trial, accuracy
from evenhand.mitigation.findings import FoundProfiles, drop_test_profiles
from evenhand.mitigation.methods import registry
from evenhand.mitigation.methods.registry import METHODS
from evenhand.mitigation.metrics import FlipMetric, GroupGapMetric, SubgroupGapMetric
from evenhand.mitigation.result import Change, ComparisonLine
from evenhand.mitigation.split import Split, split_people
from evenhand.mitigation.training.recipes import RECIPES
from evenhand.models import Subject
from evenhand.schema import encode
from evenhand.stats.proportion import observed_rate
from support import draw_frame, small_schema


@pytest.fixture(scope="module")
def hiring():
    """A model that learnt from labels which favour one sex, and people."""
    rng = np.random.default_rng(0)
    n = 1500
    columns = {"grade": rng.integers(0, 21, n), "noise": rng.integers(0, 10, n), "sex": rng.integers(0, 2, n)}
    frame = pd.DataFrame(columns)
    frame["hired"] = np.where(frame["grade"] + 2 * frame["sex"] + rng.normal(0, 1.5, n) > 11, "yes", "no")
    people = encode(small_schema(grade=(0, 20), noise=(0, 9), sex=(0, 1)).with_protected(["sex"]), frame)
    return LogisticRegression().fit(people.individuals, frame["hired"]), people


@pytest.fixture(scope="module")
def found(hiring):
    from evenhand import models

    scorer = models.load_model(hiring[0], hiring[1].schema)
    return (
        search.search(scorer, hiring[1], budget=300, samples=0),
        subgroups.find_subgroups(scorer, hiring[1], subgroups.SubgroupConfig(attributes=("sex",))),
    )


def run(hiring, found=(), name=None, **options):
    return mitigation.mitigate(
        Subject(*hiring, model_name=name), findings=found, **{"certify_effort": 0, "rounds": 0, **options}
    )


def test_a_mitigation_from_start_to_end(hiring, found, tmp_path):
    said = []
    made = run(hiring, found, rounds=1, progress=lambda what, share: said.append((what, share)), name="the model")
    result = made.result
    assert result.model == "the model"
    assert result.harms == (FlipMetric(("sex",)).words, SubgroupGapMetric({"sex": result_rule(found)}).words)
    assert [one.method for one in made.candidates] == [one.method for one in result.candidates] == ["retrain", "refit"]
    assert [one.control for one in made.candidates] == [False, True]
    parts = result.people
    assert parts.train + parts.validation + parts.test == 1500
    line = result.candidates[0].line("flip_rate", "sex")
    assert line.after.value < line.before.value / 2
    assert any("may have been trained on the test set" in note for note in result.notes)
    shares = [share for _, share in said]
    assert all(0 <= share <= 1 for share in shares)
    assert shares == sorted(shares)
    files = made.save(tmp_path / "new.joblib")
    assert all(file.exists() for file in files)
    assert mitigation.MitigationResult.from_json(result.to_json()) == result
    frame = result.to_frame()
    assert len(frame) == sum(len(one.lines) for one in result.candidates)
    assert set(frame["verdict"]) <= {"better", "worse", "within noise", "not comparable"}
    assert type(result.plot()).__name__.endswith("Chart")


def result_rule(found):
    (best, *_) = sorted((one for one in found[1].findings if one.found), key=lambda one: -abs(one.gap))
    return best.rules["sex"]


def test_people_kept_aside_are_test_data(hiring, found):
    model, people = hiring
    rows = np.arange(1500)
    rest, test = people.at(rows[rows % 3 > 0]), people.at(rows[rows % 3 == 0])
    made = mitigation.mitigate(Subject(model, rest), test=test, findings=found[:1], certify_effort=0, rounds=0)
    assert made.result.people.test == 500
    assert made.result.people.train + made.result.people.validation == 1000
    assert not any("may have learnt" in note for note in made.result.notes)
    assert made.result.candidates[0].line("accuracy").after.value == accuracy(made.candidates[0].scorer, test)


def test_methods_that_need_no_findings_have_no_control(hiring):
    made = run(hiring, methods=("blind",))
    assert [one.method for one in made.candidates] == ["blind"]
    assert made.result.harms == ("decisions that flip with sex",)
    assert made.result.candidates[0].line("flip_rate", "sex").after.value == 0


def test_what_cannot_be_done_is_said(hiring, found):
    with pytest.raises(OptionError, match="unknown method 'retrian'"):
        run(hiring, methods=("retrian",))
    with pytest.raises(DataError, match="expected findings, got no profile"):
        run(hiring)
    rule = Decider(hiring[1].schema, lambda x: x[:, 0] > 11, name="a function")
    fair = search.search(rule, hiring[1], budget=100, samples=0)
    with pytest.raises(DataError, match="expected findings to train on"):
        run(hiring, (fair,))
    with pytest.raises(ModelError) as caught:
        mitigation.mitigate(Subject(rule, hiring[1]), findings=found)
    assert "`fit=module:function`" in str(caught.value)


def test_an_interrupt_keeps_what_there_is_and_skips_what_was_to_come(hiring, found, monkeypatch):
    module = importlib.import_module("evenhand.mitigation.methods.retrain")

    def stopped(*args, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(module.search, "search", stopped)
    made = run(hiring, found[:1], rounds=1, methods=("retrain", "blind"))
    assert made.result.interrupted
    assert [one.method for one in made.candidates] == ["retrain", "refit"]
    assert made.result.candidates[0].interrupted


def test_an_interrupt_before_there_is_a_model_is_passed_on(hiring, monkeypatch):
    def stop(task):
        raise KeyboardInterrupt

    monkeypatch.setitem(METHODS, "stopped", stop)
    with pytest.raises(KeyboardInterrupt):
        run(hiring, methods=("stopped",))
    made = run(hiring, methods=("blind", "stopped"))
    assert made.result.interrupted
    assert [one.method for one in made.candidates] == ["blind"]


def test_time_is_shared_and_kept_to(hiring, found, monkeypatch):
    seen = []

    def watched(situation):
        seen.append(situation.deadline - time.perf_counter())
        return importlib.import_module("evenhand.mitigation.training.blind").blind(situation)

    monkeypatch.setitem(METHODS, "watched", watched)
    monkeypatch.setitem(METHODS, "again", watched)
    run(hiring, methods=("watched", "again"), time_limit=1000)
    assert seen[0] <= 500
    assert 500 < seen[1] <= 1000


def test_by_what_methods_are_judged(hiring, found):
    """Methods for groups by groups, also where only flips were found: their networks cannot flip anyway."""
    from evenhand.mitigation import Findings
    from evenhand.mitigation.analysis import select_metrics

    schema = hiring[1].schema
    flips, groups, gap = FlipMetric(("sex",)), GroupGapMetric(("sex",)), SubgroupGapMetric({"sex": result_rule(found)})

    def judged(methods, found=()):
        return select_metrics(Findings.read(found, schema), schema, MitigationConfig(methods=methods))

    assert judged(("diffdp",)) == judged(("laftr", "hsic")) == (groups,)
    assert judged(("blind",)) == judged(("logit-pairing", "erm")) == (flips,)
    assert judged(("blind", "diffdp")) == (flips, groups)
    assert judged(("retrain", "diffdp"), found[:1]) == judged(("diffdp",), found[:1]) == (flips, groups)
    assert judged(("retrain", "diffdp"), found) == (flips, gap)
    assert judged(("retrain",), found) == (flips, gap)


@pytest.fixture(scope="module")
def simple():
    """A model of labels that depend on grade and sex alone, and people."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"grade": rng.integers(0, 21, 400), "sex": rng.integers(0, 2, 400)})
    frame["hired"] = np.where(frame["grade"] + 3 * frame["sex"] > 11, "yes", "no")
    people = encode(small_schema(grade=(0, 20), sex=(0, 1)).with_protected(["sex"]), frame)
    return LogisticRegression().fit(people.individuals, frame["hired"]), people


def by_sex(frame, labels):
    """Train a model that is worse than the given one in everything: it decides by sex alone."""
    return LogisticRegression().fit(frame[["grade", "sex"]].assign(grade=0), labels)


def test_the_given_model_is_kept_where_nothing_better_is_found(simple, tmp_path):
    model, people = simple
    found = search.search(Subject(model, people).scorer, people, budget=500)
    done = mitigation.mitigate(
        Subject(model, people), fit=by_sex, findings=(found,), rounds=0, certify_effort=0, share=0.05
    )
    result = done.result
    assert result.chosen is None
    assert result.candidates[0].rejected
    assert not result.candidates[-1].rejected, "a control is not a candidate"
    assert mitigation.MitigationResult.from_json(result.to_json()) == result
    assert done.save(tmp_path / "new.joblib") == ()
    assert list(tmp_path.iterdir()) == []


def test_a_better_model_than_the_first_is_named(simple):
    done = mitigation.mitigate(Subject(*simple), methods=("blind",), certify_effort=0, accuracy_loss=0.5)
    assert done.result.chosen == "blind"
    first = done.result.candidates[0]
    worse = first.model_copy(update={"method": "other", "rejected": "it is worse"})
    both = done.result.model_copy(update={"candidates": (worse, first), "chosen": None})
    assert "The model of blind is better than the original one" in both.summary()


def test_a_method_that_cannot_be_used_does_not_take_the_others_with_it(simple, monkeypatch):
    def fail(task):
        raise DataError("there is nothing to make alike")

    monkeypatch.setitem(registry.METHODS, "failing", fail)
    wanted = {"certify_effort": 0, "methods": ("blind", "failing")}
    done = mitigation.mitigate(Subject(*simple), **wanted)
    assert [candidate.method for candidate in done.result.candidates] == ["blind"]
    assert any("failing" in note and "nothing to make alike" in note for note in done.result.notes)
    with pytest.raises(DataError, match="nothing to make alike"):
        mitigation.mitigate(Subject(*simple), **wanted | {"methods": ("failing", "blind")})


def test_an_interrupt_while_comparing_keeps_the_model_that_is_written(simple, monkeypatch):
    module = sys.modules["evenhand.mitigation.analysis"]  # the package has the function under that name
    compared, asked = module.compare_candidates, []

    def interrupted(*arguments, **options):
        asked.append(options["config"].certify_effort)
        if len(asked) == 1:
            raise KeyboardInterrupt
        return compared(*arguments, **options)

    monkeypatch.setattr(module, "compare_candidates", interrupted)
    done = mitigation.mitigate(Subject(*simple), methods=("blind",))
    assert asked == [10.0, 0]
    assert done.result.interrupted
    assert done.result.candidates[0].line("flip_rate", "sex").after.value == 0
    assert len(done.candidates) == len(done.result.candidates) == 1


def test_a_library_that_is_not_there_is_missed_before_any_work(monkeypatch):
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "torch" else find_spec(name))
    with pytest.raises(MissingExtraError, match="torch"):
        registry.load_methods(["blind", "diffdp"])


GIVEN = Incumbent(accuracy=0.80, harms=(0.10,), accuracy_loss=0.01, people=1000)


def line(part, name, change, verdict):
    rate = observed_rate(80, 100)
    moved = Change(value=change, low=change - 0.01, high=change + 0.01, confidence=0.99, n=100, method="made up")
    sides = {"before": rate, "after": rate, "better_if": "up", "change": moved}
    return ComparisonLine(part=part, name=name, of="", words=name, verdict=verdict, **sides)


def candidate(trial, *lines, control=False):
    return CandidateResult(method="retrain", words="retrained", lines=lines, trials=trial, control=control)


def tried(accuracy, harm, setting="added", value=50.0):
    return (Trial(setting=setting, value=value, accuracy=accuracy, harms=(harm,), chosen=True),)


BETTER = tried(0.795, 0.05)

ASKED_BETTER = line("asked", "flip_rate", -0.05, "better")

WITHIN_NOISE = line("asked", "flip_rate", -0.001, "within noise")


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        (candidate(BETTER, ASKED_BETTER), ""),
        (candidate(BETTER, WITHIN_NOISE), ""),
        (candidate(tried(0.80, 0.10)), "does not reduce the metrics"),
        (candidate(tried(0.80, 0.12)), "does not reduce the metrics"),
        (candidate(tried(0.78, 0.05)), "less than the 79.0"),
        (candidate(BETTER, line("asked", "flip_rate", 0.05, "worse")), "worse in a metric to reduce: flip_rate"),
        (candidate(BETTER, ASKED_BETTER, line("performance", "accuracy", -0.04, "worse")), "4.0 points, 3.0 at least"),
        (candidate(BETTER, WITHIN_NOISE, line("performance", "auc", -0.02, "worse")), "worse in auc"),
        (candidate(BETTER, ASKED_BETTER, line("performance", "auc", -0.02, "worse")), ""),
        (candidate(tried(0.5, 0.5), control=True), ""),
        (candidate((), ASKED_BETTER), ""),
    ],
)
def test_the_given_model_is_kept_for_a_reason(made, reason):
    rejected = judge_candidate(GIVEN, None, made).rejected
    assert (reason in rejected) if reason else rejected == ""


def test_the_loss_is_measured_from_the_control_if_the_original_was_trained_on_these_people():
    original = Incumbent(accuracy=1.0, harms=(0.10,), accuracy_loss=0.01, people=1000)
    lost = line("performance", "accuracy", -0.20, "worse")
    assert judge_candidate(original, 0.80, candidate(BETTER, ASKED_BETTER, lost)).rejected == ""
    # A network's strength 0 is its own control.
    control = Trial(setting="strength", value=0, accuracy=0.9, harms=(0.1,))
    assert "less than the 89.0" in judge_candidate(original, 0.80, candidate((control, *BETTER), ASKED_BETTER)).rejected


def test_a_fixed_strength_accepts_any_loss():
    fixed = Incumbent(accuracy=0.8, harms=(0.10,), accuracy_loss=math.inf, people=1000)
    lost = line("performance", "accuracy", -0.20, "worse")
    assert judge_candidate(fixed, None, candidate(tried(0.6, 0.0), ASKED_BETTER, lost)).rejected == ""


SCHEMA = small_schema(grade=(0, 20), noise=(0, 9), sex=[0, 1]).with_protected(["sex"])

MODULE = importlib.import_module("evenhand.mitigation.analysis")

NAMES = list(SCHEMA.names)


def drawn(n):
    rng = np.random.default_rng(1)
    columns = {"grade": rng.integers(0, 21, n), "noise": rng.integers(0, 10, n), "sex": rng.integers(0, 2, n)}
    frame = pd.DataFrame(columns)
    frame["hired"] = np.where(frame["grade"] + 2 * frame["sex"] + rng.normal(0, 2, n) > 11, "yes", "no")
    return frame


def replaced(frame, rows):
    """The same frame with other people, of other labels, in some rows."""
    rng = np.random.default_rng(2)
    other = frame.copy()
    other.loc[rows, "grade"] = rng.integers(0, 21, len(rows))
    other.loc[rows, "noise"] = rng.integers(0, 10, len(rows))
    other.loc[rows, "sex"] = 0
    other.loc[rows, "hired"] = np.where(frame.loc[rows, "hired"] == "yes", "no", "yes")
    return other


@pytest.fixture(scope="module")
def started():
    """The people as they are and with others in the test part, both split alike; a model; what was found about it."""
    frame = drawn(450)
    people = encode(SCHEMA, frame)
    parts = split_people(people, seed=0)
    other = encode(SCHEMA, replaced(frame, parts.test.rows))
    positions = [part.rows for part in (parts.train, parts.validation, parts.test)]
    changed = Split(*(other.at(rows) for rows in positions))
    assert (changed.train.individuals == parts.train.individuals).all()
    assert (changed.test.labels != parts.test.labels).all()
    learnt = frame.iloc[positions[0]]
    model = LogisticRegression().fit(learnt[NAMES], learnt["hired"])
    scorer = models.load_model(model, SCHEMA, like=frame)
    found = (
        search.search(scorer, parts.train, budget=300, samples=0),
        subgroups.find_subgroups(scorer, parts.train, attributes=("sex",)),
    )
    return {"as they are": (people, parts), "others": (other, changed)}, model, found


def candidates(started, people, monkeypatch, model=None, **options):
    """What a mitigation comes back with, the comparison left out."""
    sets, given, found = started
    everybody, parts = sets[people]
    monkeypatch.setattr("evenhand.mitigation.study.split_people", lambda *ignored, **more: parts)
    monkeypatch.setattr(MODULE, "compare_candidates", lambda *ignored, **more: ())
    monkeypatch.setattr("evenhand.mitigation.methods.retrain.MIN_QUERIES", 300)
    wanted = {"findings": found, "rounds": 1, "certify_effort": 0} | options
    return mitigation.mitigate(Subject(given if model is None else model, everybody), **wanted).candidates


def same(first, second):
    rows = np.array([[grade, noise, sex] for grade in range(21) for noise in range(10) for sex in (0, 1)], dtype=float)
    assert [one.method for one in first] == [one.method for one in second]
    for one, other in zip(first, second, strict=True):
        assert one.scorer.scores(rows).tobytes() == other.scorer.scores(rows).tobytes()
        assert one.scorer.predict(rows).tobytes() == other.scorer.predict(rows).tobytes()
        assert (one.trials, one.words, one.notes) == (other.trials, other.words, other.notes)


@pytest.mark.full
@pytest.mark.parametrize("name", METHODS)
# Models fitted to data frames are asked about arrays here, and the other way round.
@pytest.mark.filterwarnings("ignore:.*has feature names")
def test_other_people_in_the_test_part_change_no_model(name, started, monkeypatch):
    if name in RECIPES:
        pytest.importorskip("torch", reason="needs the extra torch")
        from evenhand.mitigation.training import candidates as training
        from evenhand.mitigation.training import fair_classifier as fair

        monkeypatch.setitem(training.SMALL, "steps", 20)
        fitted = fair.FairClassifier.fit

        def short(self, *given, **more):
            return fitted(self.set_params(hidden=(8,), steps=10), *given, **more)

        monkeypatch.setattr(fair.FairClassifier, "fit", short)
    same(*(candidates(started, people, monkeypatch, methods=(name,)) for people in ("as they are", "others")))


def test_a_function_of_the_users_is_not_shown_the_test_part(started, monkeypatch):
    seen = []

    def fit(frame, labels):
        seen.append((frame.to_numpy().tolist(), labels.tolist()))
        return DecisionTreeClassifier(random_state=0).fit(frame[NAMES], labels)

    options = {"fit": fit, "methods": ("retrain", "blind"), "rounds": 0}
    made = [candidates(started, people, monkeypatch, **options) for people in ("as they are", "others")]
    same(*made)
    half = len(seen) // 2
    assert seen[:half] == seen[half:]


NUMBERED = small_schema(grade=(0, 9), number=(0, 99_999), sex=(0, 1)).with_protected(["sex"])


def people(n=600, seed=0):
    rng = np.random.default_rng(seed)
    frame = draw_frame(rng, n, grade=(0, 9), number=(0, 99_999), sex=(0, 1))
    frame["hired"] = np.where(frame["grade"] + frame["sex"] + rng.normal(0, 3, n) > 5, "yes", "no")
    return encode(NUMBERED, frame)


def fitted(model, everybody):
    labels = np.array(["no", "yes"])[everybody.labels]
    return model.fit(everybody.individuals, labels)


def test_profiles_of_people_test_data_are_not_learnt_from():
    everybody = people()
    parts = split_people(everybody, seed=0)
    turned = everybody.individuals.copy()
    turned[:, 2] = 1 - turned[:, 2]  # whose sex is said does not matter
    found, left_out = drop_test_profiles(Findings((FoundProfiles(("sex",), turned),)), parts)
    kept = {tuple(row[:2]) for row in found.profiles[0].individuals}
    seen = {tuple(row[:2]) for part in (parts.train, parts.validation) for row in part.individuals}
    assert kept == seen
    assert left_out == len(turned) - len(found.profiles[0].individuals) > 100
    elsewhere = turned[:5] + np.array([0, 0.5, 0])
    again, none = drop_test_profiles(Findings((FoundProfiles(("sex",), elsewhere),)), parts)
    assert (none, len(again.profiles[0].individuals)) == (0, 5)


def test_what_was_found_among_people_test_data_is_not_in_any_lesson(monkeypatch):
    everybody = people()
    parts = split_people(everybody, seed=0)
    lessons = []

    def fit(frame, labels):
        lessons.append(frame.copy())
        return DecisionTreeClassifier(random_state=0).fit(frame, labels)

    model = fitted(DecisionTreeClassifier(random_state=0), everybody)
    flipping = everybody.individuals[FlipMetric(("sex",)).flips(models.load_model(model, NUMBERED), everybody)]
    found = Findings((FoundProfiles(("sex",), flipping),))
    monkeypatch.setattr(Findings, "read", classmethod(lambda cls, paths, schema: found))
    done = mitigation.mitigate(Subject(model, everybody), fit=fit, rounds=0, certify_effort=0, share=0.9)
    aside = {tuple(row[:2]) for row in parts.test.individuals}
    aside -= {tuple(row[:2]) for part in (parts.train, parts.validation) for row in part.individuals}
    assert len(lessons) > 2
    for frame in lessons:
        assert not aside & set(zip(frame["grade"], frame["number"], strict=True))
    assert any("not used for training" in note for note in done.result.notes)
