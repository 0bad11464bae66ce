"""CatBoost's own files: the same answers as CatBoost, and clear refusals of everything else."""

import contextlib

import numpy as np
import pytest
from borrowers import BINARY, FRAME, INPUTS, PEOPLE, SCHEMA, SCHEMA3, THREE, TOWN, assert_same, people_beside, schema
from generated import damage
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from evenhand import certification
from evenhand.errors import MissingExtraError, ModelError, NotAdditiveError
from evenhand.models import load_model, load_white_box
from evenhand.models.readers import catboost_file
from evenhand.models.readers.boosters import read_booster
from evenhand.models.readers.catboost_file import parse_catboost, read_catboost
from evenhand.models.white_box import extract_white_box
from evenhand.schema import Schema, decode, encode
from support import scaled, small_schema

catboost = pytest.importorskip("catboost", reason="needs catboost")

EXACT = 1e-12
SMALL = {"iterations": 6, "depth": 4, "verbose": 0, "allow_writing_files": False, "thread_count": 1, "random_seed": 1}
WORDED = FRAME.assign(**{"home town": FRAME["home town"].fillna("unknown")})
TOWNS = [*SCHEMA["home town"].values, "unknown"]
WITH_UNKNOWN = schema(towns=TOWNS)
WORDED_PEOPLE = encode(WITH_UNKNOWN, WORDED).individuals


def train(labels=BINARY, inputs=INPUTS, **parameters):
    return catboost.CatBoostClassifier(**SMALL | parameters).fit(inputs, labels)


def train_on_words(labels=BINARY, **parameters):
    """Towns and sexes compared one by one, in a frame whose columns stand in another order."""
    frame = WORDED[["sex", "balance", "home town", "age", "income"]]
    return frame, catboost.CatBoostClassifier(**SMALL | {"one_hot_max_size": 20} | parameters).fit(
        frame, labels, cat_features=["home town", "sex"]
    )


def saved(model, path):
    model.save_model(str(path), format=path.suffix[1:])
    return path


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.cbm"


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"grow_policy": "Lossguide", "max_leaves": 9},
        {"grow_policy": "Depthwise", "depth": 3},
        {"nan_mode": "Max"},
        {"boost_from_average": True},
        {"loss_function": "CrossEntropy"},
        {"depth": 1, "iterations": 1},
        {"border_count": 3},
    ],
    ids=str,
)
def test_two_labels(path, parameters):
    booster = train(**parameters)
    model = read_catboost(saved(booster, path), SCHEMA)
    assert (model.classes, model.favourable, model.name) == (("no", "yes"), 1, path.name)
    assert_same(model, PEOPLE, booster.predict_proba(INPUTS), atol=EXACT)


@pytest.mark.parametrize("loss", ["MultiClass", "MultiClassOneVsAll"])
@pytest.mark.parametrize("policy", ["SymmetricTree", "Lossguide"])
def test_three_labels(path, loss, policy):
    booster = train(THREE, loss_function=loss, grow_policy=policy)
    own = booster.predict_proba(INPUTS)
    model = read_catboost(saved(booster, path), SCHEMA3)
    assert_same(model, PEOPLE, own / own.sum(axis=1, keepdims=True), atol=EXACT)


def test_words_find_their_hashes(path):
    frame, booster = train_on_words()
    model = read_catboost(saved(booster, path), WITH_UNKNOWN)
    assert len(model.nodes.words) > 0
    assert_same(model, WORDED_PEOPLE, booster.predict_proba(frame), atol=EXACT)
    with pytest.raises(ModelError, match="of 'home town', the schema"):
        read_catboost(path, schema(towns=["Rye", "Ware"]))


def test_codes_as_categories(path):
    """Trained on the numbers that stand for the words, as categories."""
    codes = np.column_stack([INPUTS[:, 0], np.nan_to_num(INPUTS[:, TOWN]).astype(int)]).astype(object)
    codes[:, 1] = codes[:, 1].astype(int)
    booster = catboost.CatBoostClassifier(**SMALL, one_hot_max_size=20).fit(codes, BINARY, cat_features=[1])
    attributes = [attribute.model_dump() for attribute in SCHEMA.attributes]
    described = Schema.parse({"target": SCHEMA.target.model_dump(), "attributes": [attributes[0], attributes[TOWN]]})
    known = ~np.isnan(PEOPLE[:, TOWN])
    model = read_catboost(saved(booster, path), described)
    assert_same(model, PEOPLE[known][:, [0, TOWN]], booster.predict_proba(codes[known]), atol=EXACT)


def test_names_the_extra(path, monkeypatch):
    _, booster = train_on_words()
    monkeypatch.setattr(catboost_file, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError) as caught:
        load_model(saved(booster, path), WITH_UNKNOWN)
    assert "[catboost]" in caught.value.hint


def test_inputs_at_the_border_and_beside_it(path):
    booster = train(iterations=4)
    model = read_catboost(saved(booster, path), SCHEMA)
    cuts = model.nodes.threshold[model.nodes.feature == 0]
    people = people_beside(cuts)
    assert_same(model, people, booster.predict_proba(SCHEMA.inputs(people)), atol=EXACT)


def test_an_object_is_asked_and_read():
    frame, booster = train_on_words(np.where(BINARY, "yes", "no"))
    scorer = load_model(booster, WITH_UNKNOWN, like=frame)
    own = booster.predict_proba(frame)
    np.testing.assert_allclose(scorer.scores(WORDED_PEOPLE), own, atol=EXACT)
    box = extract_white_box(scorer)
    np.testing.assert_allclose(box.scores(WORDED_PEOPLE), own, atol=EXACT)


@given(seed=st.integers(0, 2**32 - 1), policy=st.sampled_from(["SymmetricTree", "Lossguide"]))
@settings(max_examples=scaled(15))
def test_small_models_certified_by_enumeration(seed, policy):
    """Every person of a small domain, by CatBoost itself: the certified share is the share treated alike."""
    rng = np.random.default_rng(seed)
    described = small_schema([0, 1], target="y", job="a bb ccc", sex="F M *", level=(-2, 3))
    everybody = np.array(np.meshgrid(np.arange(3.0), np.arange(2.0), np.arange(-2.0, 4.0))).reshape(3, -1).T
    frame = decode(described, everybody[rng.integers(0, len(everybody), 50)])
    labels = rng.integers(0, 2, 50)
    labels[:2] = 0, 1
    assume(frame["job"].nunique() > 1 and frame["sex"].nunique() > 1 and frame["level"].nunique() > 1)
    model = catboost.CatBoostClassifier(
        **SMALL | {"iterations": 3, "depth": 3, "grow_policy": policy}, one_hot_max_size=5
    ).fit(frame, labels, cat_features=["job", "sex"])
    box = load_white_box(model, described, like=frame)
    own = model.predict(decode(described, everybody))
    assume(np.abs(box.raw(everybody)).min() > 1e-9)  # closer to zero, rounding leaves it undecided
    np.testing.assert_array_equal(box.predict(everybody), own)
    unprotected = everybody[:, [0, 2]]
    unlike = {tuple(row) for row in unprotected[own == 0]} & {tuple(row) for row in unprotected[own == 1]}
    found = certification.certify(box, jobs=1)
    assert found.certified == pytest.approx(1 - len(unlike) / 18, abs=1e-11)
    assert found.falsified == pytest.approx(len(unlike) / 18, abs=1e-11)


def test_statistics_of_categories_are_no_white_box(path):
    frame, booster = train_on_words(one_hot_max_size=2)
    saved(booster, path)
    with pytest.raises(NotAdditiveError, match=r"category statistics \(CTR\)") as caught:
        load_model(path, WITH_UNKNOWN, like=frame)
    assert "one_hot_max_size" in caught.value.hint
    assert "trust=True" in caught.value.hint


def test_with_trust_catboost_itself_answers(path):
    frame, booster = train_on_words(np.where(BINARY, "yes", "no"), one_hot_max_size=2)
    scorer = load_model(saved(booster, path), WITH_UNKNOWN, like=frame, trust=True)
    np.testing.assert_allclose(scorer.scores(WORDED_PEOPLE), booster.predict_proba(frame), atol=EXACT)
    with pytest.raises(NotAdditiveError, match="cannot be certified"):
        extract_white_box(scorer)


def test_a_general_model_answers_as_its_classifier():
    """Its own ``predict`` returns raw scores."""
    model = catboost.CatBoost(SMALL | {"loss_function": "Logloss", "cat_features": ["home town", "sex"]})
    model.fit(WORDED, np.where(BINARY, "yes", "no"))
    scorer = load_model(model, WITH_UNKNOWN, like=WORDED)
    expected = model.predict(WORDED, prediction_type="Probability")
    np.testing.assert_allclose(scorer.scores(WORDED_PEOPLE), expected, atol=EXACT)


def test_what_is_refused(path):
    regressor = catboost.CatBoostRegressor(**SMALL).fit(INPUTS, BINARY.astype(float))
    with pytest.raises(ModelError, match="the objective 'RMSE' is not supported for classifiers"):
        read_catboost(saved(regressor, path), SCHEMA)
    moved = train()
    moved.set_probability_threshold(0.3)
    with pytest.raises(NotAdditiveError, match=r"got 0\.3"):
        read_catboost(saved(moved, path), SCHEMA)
    with pytest.raises(ModelError, match="takes 2 inputs"):
        read_catboost(saved(train(inputs=INPUTS[:, :2]), path), SCHEMA)
    with pytest.raises(ModelError, match="not fitted"):
        read_booster(catboost.CatBoostClassifier(), SCHEMA)


@pytest.fixture(scope="module")
def contents(tmp_path_factory):
    folder = tmp_path_factory.mktemp("catboost")
    frame, words = train_on_words(iterations=2)
    pool = catboost.Pool(frame, cat_features=["home town", "sex"])
    words.save_model(str(folder / "words.json"), format="json", pool=pool)
    others = train(iterations=2, grow_policy="Lossguide")
    files = [folder / "words.json", saved(others, folder / "others.json"), saved(others, folder / "others.cbm")]
    return {file.name: file.read_bytes() for file in files}


@given(data=st.data(), name=st.sampled_from(["words.json", "others.json"]))
@settings(max_examples=scaled(200))
def test_mutilated_bytes(contents, data, name):
    """Bytes changed or cut off: a model that answers, or a ModelError; nothing else."""
    described, people = (WITH_UNKNOWN, WORDED_PEOPLE) if name.startswith("words") else (SCHEMA, PEOPLE)
    with contextlib.suppress(ModelError):
        assert np.isfinite(
            parse_catboost(damage(data, contents[name]), described, location=name).scores(people[:20])
        ).all()


def test_mutilated_binary_files(contents, tmp_path):
    """CatBoost's own loader may crash on them: the process that converts the file ends, and this one does not."""
    rng = np.random.default_rng(1)
    core = contents["others.cbm"]
    for i in range(scaled(3)):
        content = bytearray(core[: len(core) // 2] if i == 0 else core)
        # The trees stand at the end of the buffer, behind the texts of the training parameters.
        place = int(rng.integers(8, 600)) if i % 2 else len(content) - int(rng.integers(4, 900))
        content[place : place + 4] = rng.choice([0, 1, 255, 2**16, 2**31 - 1, 2**32 - 1]).astype("<u4").tobytes()
        (tmp_path / "model.cbm").write_bytes(content)
        with contextlib.suppress(ModelError):
            assert np.isfinite(read_catboost(tmp_path / "model.cbm", SCHEMA).scores(PEOPLE[:5])).all()
