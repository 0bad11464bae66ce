"""scikit-learn's trees: the same probabilities and labels as scikit-learn gives."""

import borrowers
import numpy as np
import pytest
from borrowers import BINARY, COMPLETE, FRAME, INPUTS, PEOPLE, SCHEMA, SCHEMA3, THREE, TOWN, N, assert_same, schema
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sklearn import ensemble
from sklearn.compose import make_column_transformer
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OrdinalEncoder
from sklearn.tree import DecisionTreeClassifier, ExtraTreeClassifier
from threadpoolctl import threadpool_limits

from evenhand import certification, datasets
from evenhand.errors import ModelError, NotAdditiveError
from evenhand.models import load_white_box
from evenhand.models.readers.sklearn_trees import read_sklearn_trees
from evenhand.schema import Schema, decode, encode
from support import scaled, small_schema

WHOLE = ~np.isnan(PEOPLE).any(axis=1)
EXACT = 1e-12


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """Threads that wait for each other take longer than the work on so few rows."""
    with threadpool_limits(1):
        yield


def same(estimator, individuals, inputs, described=SCHEMA):
    """Scores and every single label agree, ties included."""
    model = read_sklearn_trees(estimator, described)
    np.testing.assert_allclose(model.scores(individuals), estimator.predict_proba(inputs), rtol=0, atol=EXACT)
    own = [list(estimator.classes_).index(label) for label in estimator.predict(inputs)]
    np.testing.assert_array_equal(model.predict(individuals), own)
    return model


@pytest.mark.parametrize("labels", [BINARY, THREE], ids=["two", "three"])
@pytest.mark.parametrize(
    "estimator",
    [
        DecisionTreeClassifier(random_state=1),
        DecisionTreeClassifier(max_depth=4, class_weight="balanced", random_state=1),
        ExtraTreeClassifier(max_depth=6, random_state=1),
        RandomForestClassifier(10, random_state=1, n_jobs=1),
        RandomForestClassifier(8, max_depth=3, random_state=1, n_jobs=1),
        ensemble.ExtraTreesClassifier(8, max_depth=7, random_state=1, n_jobs=1),
        HistGradientBoostingClassifier(max_iter=8, random_state=1),
        HistGradientBoostingClassifier(max_iter=8, categorical_features=[3, TOWN], random_state=1),
    ],
    ids=repr,
)
def test_trees_that_take_missing_values(estimator, labels):
    described = SCHEMA if labels is BINARY else SCHEMA3
    model = same(estimator.fit(INPUTS, labels), PEOPLE, INPUTS, described)
    assert model.takes_missing


@pytest.mark.parametrize("labels", [BINARY, THREE], ids=["two", "three"])
@pytest.mark.parametrize(
    "estimator",
    [
        GradientBoostingClassifier(n_estimators=8, random_state=1),
        GradientBoostingClassifier(n_estimators=8, init="zero", subsample=0.5, random_state=1),
        GradientBoostingClassifier(n_estimators=8, init=DummyClassifier(strategy="uniform"), random_state=1),
    ],
    ids=repr,
)
def test_gradient_boosting(estimator, labels):
    described = SCHEMA if labels is BINARY else SCHEMA3
    model = same(estimator.fit(INPUTS[WHOLE], labels[WHOLE]), COMPLETE, INPUTS[WHOLE], described)
    assert not model.takes_missing
    with pytest.raises(ModelError, match="missing value"):
        model.scores(PEOPLE)


def test_gradient_boosting_by_exponential_loss():
    estimator = GradientBoostingClassifier(n_estimators=8, loss="exponential", random_state=1)
    same(estimator.fit(INPUTS[WHOLE], BINARY[WHOLE]), COMPLETE, INPUTS[WHOLE])


def test_a_tree_that_never_saw_a_missing_value_still_places_it():
    estimator = DecisionTreeClassifier(max_depth=6, random_state=1).fit(INPUTS[WHOLE], BINARY[WHOLE])
    same(estimator, PEOPLE, INPUTS)


def test_categories_of_a_frame_by_name():
    """Words in the frame, in columns of another order; the schema lists the words in its own order."""
    frame = FRAME[["sex", "balance", "home town", "age", "income"]].astype({"home town": "category", "sex": "category"})
    estimator = HistGradientBoostingClassifier(max_iter=8, random_state=1).fit(frame, np.where(BINARY, "yes", "no"))
    assert estimator.is_categorical_.sum() == 2
    model = read_sklearn_trees(estimator, SCHEMA)
    assert len(model.nodes.words) > 0
    assert_same(model, PEOPLE, estimator.predict_proba(frame), atol=EXACT)
    # A town that the model never met goes where a missing one goes.
    wider = read_sklearn_trees(estimator, schema(towns=["Ayr", *SCHEMA["home town"].values]))
    unseen, missing = PEOPLE.copy(), PEOPLE.copy()
    unseen[:, TOWN], missing[:, TOWN] = 0, np.nan
    np.testing.assert_array_equal(wider.scores(unseen), wider.scores(missing))


def test_category_codes_that_skip_some_numbers():
    """A model fitted on numbers 7, 3, 0, ... as categories: its own codes are their ranks."""
    numbers = schema(town_encoding=[7, 3, 0, 12, 5, 1, 9])
    inputs = numbers.inputs(PEOPLE)
    estimator = HistGradientBoostingClassifier(max_iter=8, categorical_features=[TOWN], random_state=1)
    model = same(estimator.fit(inputs, BINARY), PEOPLE, inputs, numbers)
    assert len(model.nodes.words) > 0
    with pytest.raises(ModelError, match=r"integers from 0 .* has 0.5 to 6.5"):
        read_sklearn_trees(estimator, schema(town_encoding=[0.5, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5]))


def german():
    loaded = datasets.load_dataset("german")
    described = loaded.schema.with_protected(["sex"])
    frame = loaded.frame[list(described.names)]
    words = [a.name for a in described.attributes if a.is_discrete]
    return loaded, described, frame, words


def ordinal(words, **options):
    return make_column_transformer((OrdinalEncoder(**options), words), remainder="passthrough")


def named_codes(words):
    """Codes in a data frame, in which the trees know their categorical columns by name."""
    prepare = make_column_transformer(
        (OrdinalEncoder(), words), remainder="passthrough", verbose_feature_names_out=False
    )
    return make_pipeline(
        prepare.set_output(transform="pandas"), HistGradientBoostingClassifier(max_iter=4, categorical_features=words)
    )


HISTOGRAMS = {
    "categories of the frame": lambda words: HistGradientBoostingClassifier(max_iter=4),
    "columns by name": lambda words: HistGradientBoostingClassifier(max_iter=4, categorical_features=words),
    "codes from an encoder": lambda words: make_pipeline(
        ordinal(words, handle_unknown="use_encoded_value", unknown_value=np.nan),
        HistGradientBoostingClassifier(max_iter=4, categorical_features=range(len(words))),
    ),
    "codes in a frame": named_codes,
}


@pytest.mark.parametrize("kind", HISTOGRAMS)
def test_words_as_categories(kind):
    """The usual ways to give words to histogram boosting, on real people: a white box that answers the same."""
    loaded, described, frame, words = german()
    asked = frame.astype(dict.fromkeys(words, "category")) if kind == "categories of the frame" else frame
    model = HISTOGRAMS[kind](words).fit(asked, loaded.frame[described.target.name])
    people = encode(described, asked).individuals
    box = load_white_box(model, described, like=asked)
    assert len(box.nodes.words) > 0
    np.testing.assert_allclose(box.scores(people), model.predict_proba(asked), rtol=0, atol=EXACT)
    own = [list(model.classes_).index(label) for label in model.predict(asked)]
    np.testing.assert_array_equal(box.predict(people), own)


def test_codes_beside_truth_values():
    """A column transformer passes numbers beside truth values on as objects, and the boosting learns them as such."""
    described = small_schema([0, 1], target="y", job=list("abc"), age=[1, 2, 3, 4], student=[False, True])
    frame = decode(described, np.array([[i % 3, i % 4, i // 3 % 2] for i in range(120)], dtype=np.float64))
    boosting = HistGradientBoostingClassifier(max_iter=4, categorical_features=[0], min_samples_leaf=2)
    model = make_pipeline(ordinal(["job"]), boosting).fit(frame, (frame["age"] > 2) ^ (frame["job"] == "b"))
    people = encode(described, frame).individuals
    box = load_white_box(model, described, like=frame)
    np.testing.assert_array_equal(box.predict(people), model.predict(frame))


@given(seed=st.integers(0, 2**32 - 1), by_frame=st.booleans())
@settings(max_examples=scaled(15))
def test_categories_of_small_models_certified_by_enumeration(seed, by_frame):
    """Every person of a small domain, by scikit-learn itself: the certified share is the share treated alike."""
    rng = np.random.default_rng(seed)
    sizes = {"job": 4, "sex": 2, "town": 5}
    words = {name: [f"{name} {i}" for i in range(size)] for name, size in sizes.items()}
    described = small_schema([0, 1], target="y", **words).with_protected(["sex"])
    everybody = np.array(np.meshgrid(*[np.arange(float(size)) for size in sizes.values()])).reshape(3, -1).T
    frame = decode(described, everybody[rng.integers(0, len(everybody), 60)])
    labels = rng.integers(0, 2, 60)
    labels[:2] = 0, 1
    boosting = {"max_iter": 3, "min_samples_leaf": 2, "early_stopping": False}
    model = (
        HistGradientBoostingClassifier(**boosting, categorical_features=list(sizes))
        if by_frame
        else make_pipeline(
            OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=np.nan),
            HistGradientBoostingClassifier(**boosting, categorical_features=[0, 1, 2]),
        )
    ).fit(frame, labels)
    box = load_white_box(model, described, like=frame)
    own = model.predict(decode(described, everybody))
    np.testing.assert_array_equal(box.predict(everybody), own)
    assume(np.abs(box.raw(everybody)).min() > 1e-9)  # closer to zero, rounding leaves it undecided
    unprotected = everybody[:, [0, 2]]
    unlike = {tuple(row) for row in unprotected[own == 0]} & {tuple(row) for row in unprotected[own == 1]}
    found = certification.certify(box, jobs=1)
    assert found.certified == pytest.approx(1 - len(unlike) / 20, abs=1e-12)
    assert found.falsified == pytest.approx(len(unlike) / 20, abs=1e-12)


def test_inputs_at_the_threshold_and_beside_it():
    estimator = DecisionTreeClassifier(max_depth=6, random_state=1).fit(INPUTS[WHOLE], BINARY[WHOLE])
    cuts = estimator.tree_.threshold[estimator.tree_.feature == 0]
    assert len(cuts) > 3
    people = borrowers.people_beside(np.concatenate([cuts, read_sklearn_trees(estimator, SCHEMA).nodes.threshold]))
    same(estimator, people, SCHEMA.inputs(people))


def test_frames_of_numbers():
    frame = FRAME[["age", "balance", "income"]]
    estimator = RandomForestClassifier(5, max_depth=5, random_state=1, n_jobs=1).fit(frame, BINARY)
    assert_same(read_sklearn_trees(estimator, SCHEMA), PEOPLE, estimator.predict_proba(frame), atol=EXACT)
    level = {"name": "level", "kind": "ordinal", "values": [10, 20, 30]}
    bins = {"name": "level", "kind": "ordinal", "edges": [0, 15, 25, 40]}
    seen = np.random.default_rng(1).integers(1, 4, 300) * 10
    estimator = DecisionTreeClassifier(max_depth=2).fit(FRAME.head(300)[["age"]].assign(level=seen), seen > 15)
    codes = np.stack([FRAME["age"].to_numpy()[:300], seen / 10 - 1], axis=1)
    target = {"name": "y", "favourable": 1, "values": [0, 1]}
    for attribute in (level, bins):
        attributes = [SCHEMA["age"].model_dump(), attribute]
        with pytest.raises(ModelError, match="numbers or on their positions"):
            read_sklearn_trees(estimator, Schema.parse({"target": target, "attributes": attributes}))
        attributes[1] = {**attribute, "encoding": [10, 20, 30]}
        model = read_sklearn_trees(estimator, Schema.parse({"target": target, "attributes": attributes}))
        assert (model.predict(codes) == (seen > 15)).all()


@given(
    data=st.data(),
    columns=st.integers(1, 3),
    classes=st.integers(2, 3),
    kind=st.sampled_from(["tree", "forest", "boosted", "histogram"]),
)
@settings(max_examples=scaled(50))
def test_small_models(data, columns, classes, kind):
    """Few rows of few different numbers, so that ties between classes and between thresholds are common."""
    attributes = {f"a{i}": (-3, 3) for i in range(columns)}
    described = small_schema(list(range(classes)), favourable=1, target="y", **attributes)
    number = st.integers(-3, 3)
    rows = data.draw(st.lists(st.lists(number, min_size=columns, max_size=columns), min_size=6, max_size=20))
    inputs = np.array(rows, dtype=float)
    labels = np.arange(len(rows)) % classes
    estimator = {
        "tree": DecisionTreeClassifier(max_depth=3, random_state=0),
        "forest": RandomForestClassifier(3, max_depth=2, random_state=0, n_jobs=1),
        "boosted": GradientBoostingClassifier(n_estimators=2, max_depth=2, random_state=0),
        "histogram": HistGradientBoostingClassifier(max_iter=2, min_samples_leaf=1, early_stopping=False),
    }[kind].fit(inputs, labels)
    everybody = np.array(np.meshgrid(*[np.arange(-3.0, 4.0)] * columns)).reshape(columns, -1).T
    model = read_sklearn_trees(estimator, described)
    own = estimator.predict_proba(everybody)
    np.testing.assert_allclose(model.scores(everybody), own, rtol=0, atol=EXACT)
    best = np.sort(own, axis=1)
    clear = (best[:, -1] - best[:, -2] > EXACT) | (kind in ("tree", "forest"))
    np.testing.assert_array_equal(model.predict(everybody)[clear], estimator.predict(everybody)[clear])


def test_what_is_refused():
    with pytest.raises(NotAdditiveError, match="RandomForestRegressor is not a classifier of trees"):
        read_sklearn_trees(ensemble.RandomForestRegressor(2).fit(INPUTS[:50], BINARY[:50]), SCHEMA)
    with pytest.raises(NotAdditiveError, match="LogisticRegression"):
        read_sklearn_trees(LogisticRegression(), SCHEMA)
    with pytest.raises(ModelError, match="not fitted"):
        read_sklearn_trees(RandomForestClassifier(), SCHEMA)
    with pytest.raises(ModelError, match="several targets"):
        read_sklearn_trees(DecisionTreeClassifier().fit(INPUTS, np.stack([BINARY, THREE], axis=1)), SCHEMA)
    with pytest.raises(ModelError, match="a single label"):
        read_sklearn_trees(DecisionTreeClassifier().fit(INPUTS, np.ones(N)), SCHEMA)
    with pytest.raises(ModelError, match="takes 2 inputs"):
        read_sklearn_trees(DecisionTreeClassifier().fit(INPUTS[:, :2], BINARY), SCHEMA)
    with pytest.raises(ModelError, match="labels 'C', 'B', 'A'"):
        read_sklearn_trees(DecisionTreeClassifier().fit(INPUTS, BINARY), SCHEMA3)
    start = GradientBoostingClassifier(n_estimators=1, init=LogisticRegression(max_iter=500))
    with pytest.raises(NotAdditiveError, match="starts from another model"):
        read_sklearn_trees(start.fit(COMPLETE[:200], BINARY[WHOLE][:200]), SCHEMA)
    drawn = GradientBoostingClassifier(n_estimators=1, init=DummyClassifier(strategy="stratified", random_state=1))
    with pytest.raises(NotAdditiveError, match="starts from another model"):
        read_sklearn_trees(drawn.fit(COMPLETE[:200], BINARY[WHOLE][:200]), SCHEMA)


@pytest.mark.parametrize("init", ["zero", None])
def test_a_sum_of_exactly_0_gives_the_second_label(init):
    described = small_schema([0, 1], target="y", a=(0, 3), b=(0, 3))
    inputs = np.repeat(np.stack(np.meshgrid(range(4), range(4)), axis=-1).reshape(-1, 2).astype(float), 2, axis=0)
    # Below a = 2, and over all people, each label is as frequent as the other: residuals add up to 0.
    labels = np.where(inputs[:, 0] < 2, np.arange(len(inputs)) % 2, inputs[:, 0] == 3).astype(int)
    estimator = GradientBoostingClassifier(n_estimators=1, max_depth=2, init=init, random_state=0)
    estimator.fit(inputs, labels)
    assert (estimator.decision_function(inputs) == 0).any()
    for model in (read_sklearn_trees(estimator, described), load_white_box(estimator, described)):
        np.testing.assert_array_equal(model.predict(inputs), estimator.predict(inputs))
