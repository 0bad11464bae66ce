"""Where the schema says who can exist, models are compared by flips between plausible counterparts."""

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.tree import DecisionTreeClassifier

from evenhand import mitigation
from evenhand.individual import FlipConfig, measure_flips
from evenhand.individual.search import search
from evenhand.mitigation import Findings, MitigationConfig, compare_candidates
from evenhand.mitigation.candidate import Candidate
from evenhand.mitigation.findings import FoundProfiles, drop_test_profiles
from evenhand.mitigation.methods.retrain import relabel_profiles
from evenhand.mitigation.metrics import FlipMetric
from evenhand.mitigation.split import Split, split_people
from evenhand.models import Subject, load_model
from evenhand.population import fit_mixture
from evenhand.schema import encode
from support import small_schema

ATTRIBUTES = {"sex": "f m *", "role": "single husband wife", "grade": (0, 9)}
RULES = ["role == husband -> sex == m", "role == wife -> sex == f"]
SCHEMA = small_schema(
    rules=RULES, links=[{"when": "sex", "move": "role", "rows": [{"m": "husband", "f": "wife"}]}], **ATTRIBUTES
)
F, M = 0.0, 1.0
SINGLE, HUSBAND, WIFE = 0.0, 1.0, 2.0


def frame_of(n=1200, seed=0):
    rng = np.random.default_rng(seed)
    sex = rng.choice(["f", "m"], n)
    role = np.where(rng.random(n) < 0.4, "single", np.where(sex == "m", "husband", "wife"))
    frame = pd.DataFrame({"sex": sex, "role": role, "grade": rng.integers(0, 10, n)})
    frame["hired"] = np.where(frame["grade"] + rng.integers(-1, 2, n) > 4, "yes", "no")
    return frame


def wives_first(frame):
    """A bonus for wives: husbands and wives are told apart, and sex alone changes nothing."""
    return np.where(frame["grade"] + 3 * (frame["role"] == "wife") > 4, "yes", "no")


def sexes_apart(frame):
    """Only a female husband would gain: nobody who can exist is told apart."""
    return np.where(frame["grade"] + 3 * ((frame["sex"] == "f") & (frame["role"] == "husband")) > 4, "yes", "no")


def candidate(model):
    return Candidate("made", "a model", load_model(model, SCHEMA), lambda path: ())


@pytest.fixture(scope="module")
def parts():
    return split_people(encode(SCHEMA, frame_of()), seed=0)


def test_lines_by_hand(parts):
    """Wives are hired from grade 2 on, husbands from 5: married people of grades 2, 3 and 4 flip."""
    config = MitigationConfig(certify_effort=0)
    (result,) = compare_candidates(
        load_model(wives_first, SCHEMA), [candidate(sexes_apart)], parts, (FlipMetric(("sex",)),), config=config
    )
    test = parts.test.individuals
    married = test[:, 1] > 0
    between = int((married & (test[:, 2] >= 2) & (test[:, 2] <= 4)).sum())
    line = result.line("flip_rate", "sex")
    assert (line.part, line.verdict) == ("asked", "better")
    assert (line.before.value, line.after.value) == (between / len(test), 0)
    assert not result.regressions  # a flip that needs a female husband harms no one


def test_the_rate_is_that_of_an_audit(parts):
    model = load_model(wives_first, SCHEMA)
    rate = measure_flips(model, parts.test, fit_mixture(parts.train), FlipConfig(protected=("sex",), samples=10)).rate(
        ("sex",), "data"
    )
    assert FlipMetric(("sex",)).size(model, parts.test) == rate.rate.value > 0
    assert FlipMetric(("sex",)).flips(model, parts.test).sum() == rate.flips


def test_without_a_counterpart_nobody_is_compared(parts):
    schema = small_schema(rules=RULES, **ATTRIBUTES)
    people = encode(schema, frame_of())
    cut = split_people(people, seed=0)
    config = MitigationConfig(certify_effort=0)
    (result,) = compare_candidates(
        load_model(wives_first, schema), [candidate(sexes_apart)], cut, (FlipMetric(("sex",)),), config=config
    )
    line = result.line("flip_rate", "sex")
    assert line.before.n == int((cut.test.individuals[:, 1] == SINGLE).sum())
    assert line.before.value == line.after.value == 0


def test_relabelled_are_people_who_can_exist():
    """A husband of grade 3 and his wife are one profile; a female husband is none; a single man and woman are one."""
    model = load_model(wives_first, SCHEMA)
    rows = np.array([[M, HUSBAND, 3], [F, WIFE, 3], [F, HUSBAND, 3], [M, SINGLE, 7]])
    added, labels = relabel_profiles(model, rows, ("sex",))
    assert added.tolist() == [[F, WIFE, 3], [M, HUSBAND, 3], [F, SINGLE, 7], [M, SINGLE, 7]]
    # The couple is tied, one each: the labels alone decide, and the first of equal scores is taken.
    assert labels.tolist() == [0, 0, 1, 1]
    assert SCHEMA.obeys_rules(added).all()


def test_a_profile_of_the_test_set_is_not_learnt_from_under_another_name(parts):
    """The wife of a husband of the test set is the same profile, unless somebody learnt from has it too."""
    rows = parts.test.individuals
    husband = rows[rows[:, 1] == HUSBAND][0]
    wife = husband.copy()
    wife[:2] = F, WIFE
    apart = {
        part: people.at(np.flatnonzero((people.individuals[:, 1] == SINGLE) | (people.individuals[:, 2] != husband[2])))
        for part, people in (("train", parts.train), ("validation", parts.validation))
    }
    found = Findings((FoundProfiles(("sex",), wife[None]),))
    _, hidden = drop_test_profiles(found, Split(**apart, test=parts.test))
    assert hidden == 1
    assert drop_test_profiles(found, parts)[1] == 0


@pytest.fixture(scope="module")
def learnt():
    """A linear model that learnt a bonus for wives, and what a search finds."""
    frame = frame_of(3000, 1)
    points = frame["grade"] + 4 * (frame["role"] == "wife") + 1.5 * (frame["sex"] == "m")
    earlier = np.where(points > 5, "yes", "no")
    words = make_column_transformer((OneHotEncoder(), ["sex", "role"]), remainder="passthrough")
    model = make_pipeline(words, LogisticRegression(max_iter=2000))
    model.fit(frame[["sex", "role", "grade"]], earlier)
    return Subject(model, encode(SCHEMA, frame_of(1500, 2)))


def test_retraining_takes_husbands_and_wives_together(learnt):
    found = search(learnt.scorer, learnt.people, samples=0, seeds=30)
    assert found.profiles >= 3  # couples of some grades
    done = mitigation.mitigate(learnt, findings=[found], rounds=0, accuracy_loss=0.05)
    retrained = done.result.candidates[0]
    line = retrained.line("flip_rate", "sex")
    assert line.verdict == "better"
    assert line.after.value < 0.5 * line.before.value
    assert {one.name for one in retrained.lines if one.part == "proof"} == {"certified", "falsified", "undecided"}
    proof = retrained.line("certified", "sex")
    assert "as published" not in proof.words
    assert "only people who obey the schema's rules" in proof.before.how
    assert proof.before.value <= 1 - line.before.low


def test_as_published_compares_as_before(learnt):
    done = mitigation.mitigate(
        learnt,
        methods=["retrain"],
        findings=[search(learnt.scorer, learnt.people, samples=0, seeds=30, as_published=True)],
        rounds=0,
        certify_effort=0,
        as_published=True,
    )
    names = {line.name for one in done.result.candidates for line in one.lines}
    assert "flip_rate" in names


def test_trees_are_proved_as_published(learnt):
    frame = frame_of(600, 3)
    frame[["sex", "role"]] = frame[["sex", "role"]].apply(
        lambda column: column.map({"f": 0, "m": 1, "single": 0, "husband": 1, "wife": 2})
    )
    coded = small_schema(
        rules=["role == 1 -> sex == 1", "role == 2 -> sex == 0"],
        links=[{"when": "sex", "move": "role", "rows": [{1: 1, 0: 2}]}],
        sex=[0, 1],
        role=[0, 1, 2],
        grade=(0, 9),
    )
    coded = coded.with_protected(["sex"]).with_encodings({"sex": "code", "role": "code"})
    tree = DecisionTreeClassifier(max_depth=3, random_state=0).fit(frame[["sex", "role", "grade"]], frame["hired"])
    people = encode(coded, frame)
    given = load_model(tree, coded, like=frame)
    same = Candidate("made", "the same", given, lambda path: ())
    (result,) = compare_candidates(
        given, [same], split_people(people, seed=0), (FlipMetric(("sex",)),), config=MitigationConfig(certify_effort=2)
    )
    assert result.line("certified", "sex").words.endswith(", as published")
    assert not any("proofs were not compared" in note for note in result.notes)
