import numpy as np
import pandas as pd
import polars as pl
import pytest
from generated import sample, schemas, seeds
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import preprocessing
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import ColumnTransformer, make_column_selector, make_column_transformer
from sklearn.decomposition import PCA
from sklearn.feature_selection import SelectKBest, VarianceThreshold
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Perceptron, RidgeClassifier, SGDClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, MinMaxScaler, OneHotEncoder, OrdinalEncoder, StandardScaler
from sklearn.svm import LinearSVC

from evenhand.errors import ModelError, NotAdditiveError
from evenhand.models.additive.cells import MAX_LISTED
from evenhand.models.blackbox.base import LoadRequest
from evenhand.models.blackbox.estimator import wrap_estimator
from evenhand.models.readers.estimators import read_estimator
from evenhand.models.white_box import extract_white_box
from evenhand.schema import Schema, decode, encode
from support import scaled, shortened, small_schema

DOUBLE = 1e-9
"""Both sides compute in float64; sums in another order may differ by this much in a score."""

pytestmark = pytest.mark.filterwarnings(
    "ignore:Stochastic Optimizer:sklearn.exceptions.ConvergenceWarning"
)  # few steps

PEOPLE = small_schema(
    target="t",
    age=(17, 90),
    income=(-4.0, 4.0),
    town="Ely Rye Ware",
    sex="f m *",
    school={"kind": "ordinal", "values": ["none", "some", "all"]},
    debt=(0, 3 * MAX_LISTED + 7),
)
THREE = Schema.parse(
    {**PEOPLE.model_dump(), "target": {"name": "t", "favourable": "yes", "values": ["no", "yes", "perhaps"]}}
)


def applicants(n=600):
    rng = np.random.default_rng(5)
    frame = decode(PEOPLE, sample(PEOPLE, n, 3)).assign(income=lambda f: f["income"].round(1))
    merit = (
        frame["income"] + (frame["sex"] == "m") + frame["age"] / 40 - frame["debt"] / 9000 + (frame["town"] == "Rye")
    )
    return frame, merit + rng.normal(0, 0.5, n)


FRAME, MERIT = applicants()
GRANTED = np.where(MERIT.median() < MERIT, "yes", "no").astype(object)
OUTCOME = np.where(MERIT.quantile(0.8) < MERIT, "perhaps", GRANTED)


def bins(encode, count=4):
    return preprocessing.KBinsDiscretizer(count, encode=encode, quantile_method="averaged_inverted_cdf")


def usual(encode="onehot"):
    return ColumnTransformer(
        [
            ("scaled", make_pipeline(SimpleImputer(add_indicator=True), StandardScaler()), ["age", "debt"]),
            ("words", OneHotEncoder(drop="if_binary", handle_unknown="ignore"), ["town", "sex"]),
            (
                "ordered",
                make_pipeline(OrdinalEncoder(categories=[["none", "some", "all"]]), MinMaxScaler()),
                ["school"],
            ),
            ("bins", make_pipeline(preprocessing.RobustScaler(), bins(encode)), ["income"]),
        ]
    )


PREPARATIONS = {
    "usual": usual(),
    "usual, ordinal bins": usual("ordinal"),
    "then all scaled and selected": make_pipeline(
        usual("ordinal"), StandardScaler(), VarianceThreshold(), SelectKBest(k=5)
    ),
    "rare words together, the rest as it is": make_column_transformer(
        (OneHotEncoder(min_frequency=0.34, handle_unknown="infrequent_if_exist"), ["town", "sex", "school"]),
        ("drop", ["age"]),
        (preprocessing.MaxAbsScaler(), ["debt"]),
        remainder="passthrough",
    ),
    "columns by number, slice, mask and selector": ColumnTransformer(
        [
            ("number", make_pipeline(OneHotEncoder(sparse_output=False), StandardScaler()), [2, -3]),
            ("slice", make_pipeline(bins("onehot-dense", 3), MinMaxScaler()), slice("income", "income")),
            ("mask", OrdinalEncoder(), [False, False, True, True, False, False]),
            ("selector", MinMaxScaler((-1, 2)), make_column_selector("debt|age")),
        ],
        remainder="drop",
    ),
    "a table inside a table": ColumnTransformer(
        [
            (
                "outer",
                ColumnTransformer([("inner", StandardScaler(), ["debt"])], remainder="passthrough"),
                ["age", "debt"],
            ),
            ("same again", preprocessing.QuantileTransformer(n_quantiles=20), ["age"]),
            ("words", OneHotEncoder(drop="first"), ["town", "sex", "school"]),
        ]
    ),
    "frames all the way": make_column_transformer(
        (StandardScaler(), ["age", "debt", "income"]), (OneHotEncoder(sparse_output=False), ["town", "sex", "school"])
    ).set_output(transform="pandas"),
    "identity": make_pipeline(usual(), FunctionTransformer(), "passthrough"),
}
CLASSIFIERS = {
    "logistic": LogisticRegression(),
    "network": MLPClassifier((6, 5), max_iter=15, random_state=0),
    "network without bends": MLPClassifier((6,), activation="identity", max_iter=15, random_state=0),
    "vector machine": LinearSVC(max_iter=5000),
    "ridge": RidgeClassifier(),
    "perceptron": Perceptron(),
    "descent": SGDClassifier(random_state=0),
    "search": GridSearchCV(RidgeClassifier(), {"alpha": [0.1, 1]}, cv=2),
}


def check(pipeline, schema, frame, people):
    box = wrap_estimator(pipeline, LoadRequest(schema, frame))
    network = read_estimator(wrap_estimator(pipeline, LoadRequest(schema, frame)))
    assert (network.classes, network.favourable) == (box.classes, box.favourable)
    scores = box.scores(people)
    np.testing.assert_allclose(network.scores(people), scores, atol=DOUBLE)
    best = np.sort(scores, axis=1)
    clear = best[:, -1] - best[:, -2] > DOUBLE
    assert (network.predict(people) == box.predict(people))[clear].all()
    assert clear.mean() > 0.99
    return network


# Any weights will do: the reader must agree with the classifier, however well that was fitted.
@pytest.mark.filterwarnings("ignore:lbfgs failed:sklearn.exceptions.ConvergenceWarning")  # few steps
@pytest.mark.filterwarnings("ignore:Liblinear failed:sklearn.exceptions.ConvergenceWarning")  # few steps
@pytest.mark.parametrize(
    ("preparation", "classifier", "labels"),
    shortened(
        [
            *((name, "logistic", 2) for name in PREPARATIONS),
            ("then all scaled and selected", "network", 3),
            *(
                ("usual", name, labels)
                for name in CLASSIFIERS
                for labels in (2, 3)
                if (name, labels) != ("logistic", 2)
            ),
        ],
        to=lambda case: case[1] in ("logistic", "network"),
    ),
)
def test_a_pipeline_gives_scikit_learns_numbers(preparation, classifier, labels):
    schema, target = (PEOPLE, GRANTED) if labels == 2 else (THREE, OUTCOME)
    pipeline = make_pipeline(PREPARATIONS[preparation], CLASSIFIERS[classifier]).fit(FRAME, target)
    people = np.concatenate([sample(schema), encode(schema, FRAME).individuals])
    network = check(pipeline, schema, FRAME, people)
    if preparation == "usual":
        kinds = [type(part).__name__.removesuffix("Term") for part in network.parts]
        assert kinds == ["Table", "Step", "Table", "Table", "Table", "Line"]


def test_bins_begin_exactly_where_scikit_learn_says():
    pipeline = make_pipeline(usual(), LogisticRegression()).fit(FRAME, GRANTED)
    network = read_estimator(wrap_estimator(pipeline, LoadRequest(PEOPLE, FRAME)))
    steps = network.parts[1]
    assert len(steps.cuts) == 3
    transform = pipeline[0].named_transformers_["bins"].transform
    at = transform(pd.DataFrame({"income": steps.cuts})).toarray().argmax(axis=1)
    before = transform(pd.DataFrame({"income": np.nextafter(steps.cuts, -9)})).toarray().argmax(axis=1)
    assert at.tolist() == [1, 2, 3]
    assert before.tolist() == [0, 1, 2]


# Data drawn at random may have constant columns and tiny bins.
@pytest.mark.filterwarnings("ignore:Bins whose width:UserWarning")  # drawn columns may be so
@pytest.mark.filterwarnings("ignore:Feature 0 is constant:UserWarning")  # drawn columns may be so
@given(schemas(plain=False), st.data(), seeds)
@settings(max_examples=scaled(20))
def test_any_schema_and_mixture_of_steps(schema, data, seed):
    rng = np.random.default_rng(seed)
    people = sample(schema, 120, seed)
    frame = decode(schema, people)
    target = np.array(schema.target.values)[rng.integers(0, len(schema.target.values), len(people))]
    chosen = []
    for attribute in schema.attributes:
        if attribute.is_discrete:
            step = data.draw(st.sampled_from(["one-hot", "ordinal", "drop first"]))
            made = {
                "one-hot": OneHotEncoder(categories=[list(attribute.values)]),
                "ordinal": OrdinalEncoder(categories=[list(attribute.values)]),
                "drop first": OneHotEncoder(categories=[list(attribute.values)], drop="first"),
            }
        else:
            made = {
                "standard": StandardScaler(),
                "range": MinMaxScaler(),
                "robust": preprocessing.RobustScaler(),
                "as it is": "passthrough",
                "uniform bins": preprocessing.KBinsDiscretizer(3, strategy="uniform"),
                "scaled bins": make_pipeline(StandardScaler(), bins("ordinal", 2)),
            }
            step = data.draw(st.sampled_from([name for name in made if attribute.size != 1 or "bins" not in name]))
        chosen.append((attribute.name, made[step], [attribute.name]))
    order = data.draw(st.permutations(chosen))
    hidden = data.draw(st.sampled_from([None, (3,), (4, 2)]))
    model = LogisticRegression() if hidden is None else MLPClassifier(hidden, max_iter=2, random_state=seed % 1000)
    if hidden is None:  # what is fitted matters little here, only that it is fitted
        model.set_params(max_iter=10_000, tol=10.0)
    pipeline = make_pipeline(ColumnTransformer(order), model).fit(frame, target)
    given_labels = set(pipeline.classes_)
    if "yes" in given_labels and len(given_labels) > 1:
        scores = wrap_estimator(pipeline, LoadRequest(schema, frame)).scores(people)
        network = read_estimator(wrap_estimator(pipeline, LoadRequest(schema, frame)))
        np.testing.assert_allclose(network.scores(people), scores, atol=1e-7)
        more = sample(schema, 400, seed + 1)
        np.testing.assert_allclose(
            network.scores(more), wrap_estimator(pipeline, LoadRequest(schema, frame)).scores(more), atol=1e-7
        )


def test_a_classifier_alone_takes_the_plain_numbers_of_the_encoding():
    encodings = {"age": {"offset": 40, "scale": 20}, "town": "one-hot"}
    schema = small_schema(age=(17, 90), town="Ely Rye Ware", sex="f m *").with_encodings(encodings)
    x = schema.inputs(sample(schema, 300))
    target = np.where(x[:, 0] + x[:, 2] - x[:, 4] > 0.3, "yes", "no")
    for model in (LogisticRegression(), MLPClassifier((4,), max_iter=30, random_state=0)):
        check(model.fit(x, target), schema, None, sample(schema))
        check(make_pipeline(StandardScaler(), model).fit(x, target), schema, None, sample(schema))


@pytest.mark.parametrize(("labels", "classes"), [([0, 1], ("no", "yes")), ([False, True], None), ([3, 7], None)])
def test_a_model_that_answers_0_and_1_means_the_favourable_label_by_1(labels, classes):
    target = np.array(labels)[(GRANTED == "yes").astype(int)]
    pipeline = make_pipeline(usual(), LogisticRegression()).fit(FRAME, target)
    if classes is None and labels != [False, True]:
        with pytest.raises(ModelError, match="labels 'no', 'yes'"):
            read_estimator(wrap_estimator(pipeline, LoadRequest(PEOPLE, FRAME)))
    else:
        network = read_estimator(wrap_estimator(pipeline, LoadRequest(PEOPLE, FRAME)))
        assert network.classes[network.favourable] == "yes"


def test_a_frame_of_another_kind():
    frame = pl.DataFrame({name: FRAME[name].to_list() for name in FRAME})
    prepare = make_column_transformer(
        (StandardScaler(), ["age", "income", "debt"]), (OneHotEncoder(), ["town", "sex", "school"])
    )
    pipeline = make_pipeline(prepare, LogisticRegression()).fit(frame, GRANTED)
    check(pipeline, PEOPLE, frame, sample(PEOPLE))


def test_binned_ages_are_what_the_model_sees_at_their_middle():
    described = PEOPLE.model_dump()
    described["attributes"] = [
        {"name": "age", "kind": "ordinal", "edges": [17, 30, 50, 90]},
        *described["attributes"][1:],
    ]
    schema = Schema.parse(described)
    pipeline = make_pipeline(usual(), LogisticRegression()).fit(FRAME, GRANTED)
    network = check(pipeline, schema, FRAME, sample(schema))
    assert network.parts[0].rows.shape == (3, 1)


def test_a_clip_inside_the_domain_is_seen_and_one_outside_it_does_not_matter():
    frame = FRAME[["debt"]]
    schema = Schema.parse({**PEOPLE.model_dump(), "attributes": [PEOPLE["debt"].model_dump()]})
    inside = make_pipeline(MinMaxScaler(clip=True), LogisticRegression()).fit(
        frame[frame["debt"] < 9000], GRANTED[frame["debt"] < 9000]
    )
    check(inside, schema, frame, sample(schema))
    wide = pd.concat([frame, pd.DataFrame({"debt": [0, 3 * MAX_LISTED + 7]})])
    outside = make_pipeline(MinMaxScaler(clip=True), LogisticRegression()).fit(wide, [*GRANTED, "no", "yes"])
    check(outside, schema, frame, sample(schema))


class Own(TransformerMixin, BaseEstimator):
    def fit(self, x, y=None):
        self.n_features_in_ = x.shape[1]
        return self

    def transform(self, x):
        return np.asarray(x)


class MyScaler(StandardScaler):
    def transform(self, x, copy=None):
        return super().transform(x, copy) * np.abs(np.asarray(x)).sum(axis=1, keepdims=True)


def shorten(numbers):
    return np.log1p(np.abs(numbers))


NUMBERS = ["age", "income", "debt"]


# The steps' functions hand on arrays without names.
@pytest.mark.filterwarnings("ignore:X does not have valid feature names:UserWarning")  # arrays are asked
@pytest.mark.parametrize(
    ("step", "says"),
    [
        (FunctionTransformer(shorten), r"step 'columntransformer/only' \(FunctionTransformer\).*may mix attributes"),
        (FunctionTransformer(np.abs), "absolute may not be monotone on a numeric column"),
        (preprocessing.Normalizer(), r"\(Normalizer\).*may mix attributes"),
        (PCA(2), r"\(PCA\).*may mix attributes"),
        (preprocessing.PolynomialFeatures(), r"\(PolynomialFeatures\)"),
        (Own(), r"\(Own\).*custom code"),
        (MyScaler(), r"\(MyScaler\)"),
        (make_pipeline(StandardScaler(), PCA()), r"step 'columntransformer/only/pca'"),
        (preprocessing.Binarizer(), "too many values to enumerate; describe it as ordinal"),
        (
            make_pipeline(preprocessing.QuantileTransformer(n_quantiles=10), preprocessing.PowerTransformer()),
            "another nonlinear step",
        ),
        (SimpleImputer(missing_values=0), "too many values to enumerate"),
        (OneHotEncoder(handle_unknown="ignore"), "too many values to enumerate"),
    ],
)
def test_steps_that_cannot_be_read_are_named(step, says):
    prepare = ColumnTransformer([("only", step, NUMBERS)])
    pipeline = make_pipeline(prepare, Perceptron()).fit(FRAME, GRANTED)
    with pytest.raises(NotAdditiveError, match=says) as refusal:
        read_estimator(wrap_estimator(pipeline, LoadRequest(PEOPLE, FRAME)))
    assert "black box" in refusal.value.hint
    with pytest.raises(NotAdditiveError, match="all other analyses still run"):
        extract_white_box(wrap_estimator(pipeline, LoadRequest(PEOPLE, FRAME)))


@pytest.mark.parametrize(
    ("model", "says"),
    [
        (KNeighborsClassifier(3), "a KNeighborsClassifier is not a supported linear model"),
        (
            MLPClassifier((3,), activation="tanh", max_iter=2),
            "a MLPClassifier with tanh activation is not a supported linear model",
        ),
    ],
)
def test_classifiers_that_cannot_be_read_are_named(model, says):
    pipeline = make_pipeline(usual(), model).fit(FRAME, GRANTED)
    with pytest.raises(NotAdditiveError, match=says):
        read_estimator(wrap_estimator(pipeline, LoadRequest(PEOPLE, FRAME)))


def test_probabilities_of_another_kind_are_noticed():
    # Three logistic regressions, one-vs-rest each, whose probabilities are then divided by their sum.
    pipeline = make_pipeline(usual(), SGDClassifier(loss="log_loss", random_state=0)).fit(FRAME, OUTCOME)
    with pytest.raises(NotAdditiveError, match="one-vs-rest"):
        read_estimator(wrap_estimator(pipeline, LoadRequest(THREE, FRAME)))


def test_one_value_in_a_thousand_that_a_step_refuses_is_found():
    towns = [f"town {i}" for i in range(1000)]
    schema = small_schema(town=towns)
    frame = pd.DataFrame({"town": towns[:-1]})
    target = np.where(np.arange(999) % 3 == 0, "yes", "no")
    pipeline = make_pipeline(OneHotEncoder(handle_unknown="error"), LogisticRegression()).fit(frame, target)
    wrap_estimator(pipeline, LoadRequest(schema, frame))
    with pytest.raises(ModelError, match=r"step 'onehotencoder'.*unknown categories \['town 999'\]"):
        read_estimator(wrap_estimator(pipeline, LoadRequest(schema, frame)))
