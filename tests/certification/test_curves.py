"""Numbers that enter a model through a logarithm, a power or quantiles: read, bounded, certified."""

from functools import cache

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import preprocessing
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, MinMaxScaler, OneHotEncoder, PowerTransformer, StandardScaler

from evenhand.certification import certify
from evenhand.certification.query.cells import cells_of
from evenhand.errors import NotAdditiveError, OptionError
from evenhand.models import load_model, load_regressor, load_white_box
from evenhand.models.readers.estimators import read_estimator
from evenhand.population import uniform_population
from evenhand.schema import Schema, decode
from support import scaled

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # few steps

TOP = 20_000
PEOPLE = {
    "target": {"name": "granted", "favourable": "yes", "values": ["no", "yes"]},
    "attributes": [
        {"name": "income", "kind": "integer", "lower": 1, "upper": TOP},
        {"name": "debt", "kind": "real", "lower": -3, "upper": 7.5},
        {"name": "sex", "kind": "categorical", "values": ["f", "m"], "protected": True},
    ],
}
SCHEMA = Schema.parse(PEOPLE)

RNG = np.random.default_rng(0)
FRAME = decode(SCHEMA, uniform_population(SCHEMA).sample(500, RNG))
FRAME["income"] = np.clip(np.exp(RNG.normal(7.5, 1.2, 500)).astype(int), 1, TOP)
FRAME.loc[::3, "income"] = 1200  # many have the same: the quantiles jump there
MERIT = np.log(FRAME["income"]) - FRAME["debt"] / 4 + 0.8 * (FRAME["sex"] == "m") + RNG.normal(0, 0.5, 500)
GRANTED = np.where(MERIT.median() < MERIT, "yes", "no").astype(object)

STEPS = {
    "Yeo-Johnson": PowerTransformer(),
    "Yeo-Johnson, not scaled": PowerTransformer(standardize=False),
    "quantiles": preprocessing.QuantileTransformer(n_quantiles=50),
    "normal quantiles": preprocessing.QuantileTransformer(n_quantiles=50, output_distribution="normal"),
    "cube root, then scaled": make_pipeline(FunctionTransformer(np.cbrt), StandardScaler()),
    "scaled, then arctan": make_pipeline(StandardScaler(), FunctionTransformer(np.arctan)),
    "clipped": MinMaxScaler(clip=True),
}
POSITIVE = {
    "Box-Cox": PowerTransformer("box-cox"),
    "log1p": make_pipeline(FunctionTransformer(np.log1p), StandardScaler()),
    "sqrt": make_pipeline(FunctionTransformer(np.sqrt), StandardScaler()),
    "log": make_pipeline(FunctionTransformer(np.log), MinMaxScaler()),
}
ALL = {**STEPS, **POSITIVE}


def fit_pipeline(name, classifier=None, answers=GRANTED):
    numbers = ["income"] if name in POSITIVE else ["income", "debt"]
    kept = [("kept", StandardScaler(), ["debt"])] if name in POSITIVE else []
    columns = ColumnTransformer([("bent", ALL[name], numbers), *kept, ("sex", OneHotEncoder(), ["sex"])])
    return make_pipeline(columns, LogisticRegression() if classifier is None else classifier).fit(FRAME, answers)


@pytest.mark.parametrize("name", ALL)
def test_a_pipeline_answers_alike_from_inside(name):
    for classifier in (LogisticRegression(), MLPClassifier((4,), max_iter=5, random_state=0)):
        model = fit_pipeline(name, classifier)
        inside = load_white_box(model, SCHEMA, like=FRAME)
        people = uniform_population(SCHEMA).sample(1000, np.random.default_rng(1))
        frame = decode(SCHEMA, people, like=FRAME)
        assert np.abs(inside.scores(people) - model.predict_proba(frame)).max() < 1e-9


@cache
def network(name):
    return load_white_box(fit_pipeline(name), SCHEMA, like=FRAME)


@cache
def cells(name, position):
    wide = SCHEMA.attributes[position].model_copy(update={"upper": 3_000_000.0}) if position == 0 else None
    return cells_of(wide or SCHEMA.attributes[position], position, network(name).parts[position], None)


@settings(max_examples=scaled(40), deadline=None)
@given(
    case=st.sampled_from([("normal quantiles", 1), ("Yeo-Johnson", 1), ("quantiles", 0), ("log", 0)]),
    seed=st.integers(0, 2**32 - 1),
)
def test_what_a_cell_holds_adds_no_more_than_is_said(case, seed):
    """What an entry of a cell adds lies within the residual of what stands for the cell, where curves jump too."""
    found, term = cells(*case), network(case[0]).parts[case[1]]
    rng = np.random.default_rng(seed)
    chosen = np.sort(rng.integers(0, found.count, 300))
    first, last = found.entry(chosen), found.ends[chosen]
    last = np.where((chosen < found.count - 1) & (found.attribute.size is None), np.nextafter(last, -np.inf), last)
    stands = found.cell_contributions(chosen) + found.offset
    for entries in (first, last, found.draw(chosen, chosen, rng)):
        assert (np.abs(term.at(entries) - stands) <= found.residual).all()
    rise = np.abs(np.diff(term.at(np.array([found.attribute.first, found.attribute.last])), axis=0))
    assert (found.residual <= 1e-5 * rise).all()


QUICK = ("Yeo-Johnson", "normal quantiles", "log")
EACH = [name if name in QUICK else pytest.param(name, marks=pytest.mark.full) for name in ALL]


@pytest.mark.parametrize("name", EACH)
def test_a_proof_brackets_what_asking_about_everybody_counts(name):
    schema = Schema.parse(PEOPLE | {"attributes": [PEOPLE["attributes"][0], PEOPLE["attributes"][2]]})
    frame, everybody = FRAME[["income", "sex"]], pd.DataFrame({"income": np.arange(1, TOP + 1)})
    columns = ColumnTransformer([("bent", ALL[name], ["income"]), ("sex", OneHotEncoder(), ["sex"])])
    for classifier in (LogisticRegression(), MLPClassifier((6,), max_iter=60, random_state=1))[: 1 + (name in QUICK)]:
        model = make_pipeline(columns, classifier).fit(frame, GRANTED)
        labels = [model.predict(everybody.assign(sex=value)) for value in ("f", "m")]
        unfair = float((labels[0] != labels[1]).mean())
        found = certify(load_white_box(model, schema, like=frame), max_boxes=2000)
        assert found.falsified <= unfair <= 1 - found.certified
        assert 1 - found.certified - found.falsified < 0.001
        assert unfair > 0.005


def test_a_real_number_and_a_regressor_are_certified():
    schema = Schema.parse(PEOPLE | {"attributes": PEOPLE["attributes"][1:]})
    frame = FRAME[["debt", "sex"]]
    columns = ColumnTransformer([("bent", STEPS["normal quantiles"], ["debt"]), ("sex", OneHotEncoder(), ["sex"])])
    model = make_pipeline(columns, MLPClassifier((4,), max_iter=60, random_state=0)).fit(frame, GRANTED)
    found = certify(load_white_box(model, schema, like=frame), max_boxes=300)
    grid = pd.DataFrame({"debt": np.linspace(-3, 7.5, 100_000)})
    labels = [model.predict(grid.assign(sex=value)) for value in ("f", "m")]
    unfair = (labels[0] != labels[1]).mean()
    assert found.falsified - 1e-4 < unfair < 1 - found.certified + 1e-4
    assert 1 - found.certified - found.falsified < 0.005
    priced = Schema.parse(PEOPLE | {"target": {"name": "price", "kind": "number"}})
    regressor = fit_pipeline("log1p", LinearRegression(), MERIT)
    change = abs(np.diff(regressor.predict(FRAME.iloc[[0, 0]].assign(sex=["f", "m"])))[0])
    inside = load_white_box(load_regressor(regressor, priced, like=FRAME), priced)
    for tolerance, certified in ((change * 1.01, 1), (change * 0.99, 0)):
        assert certify(inside, tolerance=tolerance).certified == pytest.approx(certified, abs=1e-9)


def test_what_cannot_be_followed_is_refused_with_the_reason(tmp_path):
    with pytest.raises(
        OptionError, match=r"certificate file cannot hold 'income', which enters the model through a curve"
    ):
        certify(network("Yeo-Johnson"), certificate=tmp_path / "made.evenhand", max_boxes=10)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(NotAdditiveError, match="trees compare a transformed number"):
        load_white_box(fit_pipeline("quantiles", RandomForestClassifier(3, random_state=0)), SCHEMA, like=FRAME)
    columns = ColumnTransformer(
        [("bent", preprocessing.SplineTransformer(), ["debt"]), ("sex", OneHotEncoder(), ["sex"])]
    )
    pipeline = make_pipeline(columns, LogisticRegression()).fit(FRAME, GRANTED)
    with pytest.raises(NotAdditiveError, match="nonlinear step to a numeric column with too many values"):
        load_white_box(pipeline, SCHEMA, like=FRAME)
    low = Schema.parse(PEOPLE | {"attributes": [PEOPLE["attributes"][0] | {"lower": 0}, *PEOPLE["attributes"][1:]]})
    with pytest.raises(NotAdditiveError, match="infinite or undefined"), np.errstate(all="ignore"):
        read_estimator(load_model(fit_pipeline("log"), low, like=FRAME))
