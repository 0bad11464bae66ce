"""Regressors as white boxes: the numbers of the original model, and what is proved of them."""

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn import ensemble
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_diabetes
from sklearn.ensemble import ExtraTreesRegressor, GradientBoostingRegressor, HistGradientBoostingRegressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeRegressor

from evenhand import certification
from evenhand.errors import NotAdditiveError
from evenhand.models import AdditiveNetwork, Subject, TreeEnsemble, load_white_box
from evenhand.schema import People
from evenhand.schema.people import ColumnRoles

NUMBERS = ["age", "bmi", "bp", "s5"]


@pytest.fixture(scope="module")
def people() -> People:
    """The diabetes study of scikit-learn, of four measurements and sex."""
    bunch = load_diabetes(as_frame=True, scaled=False)
    frame = bunch.data[NUMBERS].assign(sex=np.where(bunch.data["sex"] == 1, "f", "m"), progress=bunch.target)
    return ColumnRoles(target="progress", protected=["sex"]).read(frame)


def fit(people: People, regressor: Any) -> Any:
    frame = people.frame
    columns = frame[[*NUMBERS, "sex"]]
    before = make_column_transformer((StandardScaler(), NUMBERS), (OneHotEncoder(), ["sex"]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # not converged: any weights will do
        return make_pipeline(before, regressor).fit(columns, frame["progress"])


def boosted(library: str, name: str, **settings: Any) -> Any:
    module = pytest.importorskip(library, reason=f"needs {library}")
    return getattr(module, name)(**settings)


REGRESSORS = {
    "linear": lambda: LinearRegression(),
    "ridge": lambda: Ridge(),
    "perceptron": lambda: MLPRegressor(hidden_layer_sizes=(8, 4), max_iter=200, random_state=0),
    "tree": lambda: DecisionTreeRegressor(max_depth=4, random_state=0),
    "forest": lambda: ensemble.RandomForestRegressor(5, max_depth=4, random_state=0),
    "extra trees": lambda: ExtraTreesRegressor(5, max_depth=4, random_state=0),
    "boosting": lambda: GradientBoostingRegressor(n_estimators=20, random_state=0),
    "histogram boosting": lambda: HistGradientBoostingRegressor(max_iter=20, random_state=0),
    "xgboost": lambda: boosted("xgboost", "XGBRegressor", n_estimators=20, max_depth=3),
    "lightgbm": lambda: boosted("lightgbm", "LGBMRegressor", n_estimators=20, verbose=-1),
}


@pytest.mark.parametrize("name", REGRESSORS)
def test_the_white_box_gives_the_models_numbers(name: str, people: People) -> None:
    model = fit(people, REGRESSORS[name]())
    box = Subject(model, people).white_box
    assert isinstance(box, AdditiveNetwork if name in ("linear", "ridge", "perceptron") else TreeEnsemble)
    wanted = model.predict(people.frame[[*NUMBERS, "sex"]])
    assert np.allclose(box.predict_numbers(people.individuals), wanted, rtol=1e-5)


def test_what_cannot_be_read_is_refused(people: People) -> None:
    with pytest.raises(NotAdditiveError, match="GaussianProcessRegressor is not a supported linear model"):
        _ = Subject(fit(people, GaussianProcessRegressor()), people).white_box


def test_a_file_of_a_regressor_is_a_white_box(tmp_path: Any, people: People) -> None:
    xgboost = pytest.importorskip("xgboost", reason="needs xgboost")
    frame = people.frame[NUMBERS].assign(sex=(people.frame["sex"] == "m").astype(int))
    coded = ColumnRoles(target="progress", protected=["sex"]).read(frame.assign(progress=people.frame["progress"]))
    model = xgboost.XGBRegressor(n_estimators=5, max_depth=3).fit(frame, people.frame["progress"])
    model.save_model(tmp_path / "model.json")
    box = load_white_box(tmp_path / "model.json", coded.schema)
    assert np.allclose(box.predict_numbers(coded.individuals), model.predict(frame), rtol=1e-5)


@pytest.mark.full
@pytest.mark.parametrize("name", ["perceptron", "boosting"])
def test_proved_changes_of_real_models_agree_with_people_asked(name: str, people: People) -> None:
    box = Subject(fit(people, REGRESSORS[name]()), people).white_box
    rng = np.random.default_rng(0)
    drawn = np.column_stack(
        [
            rng.uniform(a.first, a.last, 4000) if a.size is None else rng.integers(int(a.first), int(a.last) + 1, 4000)
            for a in people.schema.attributes
        ]
    )
    both = []
    for sex in (0, 1):
        drawn[:, people.schema.position("sex")] = sex
        both.append(box.predict_numbers(drawn))
    change = np.abs(both[0] - both[1])
    limit = float(np.quantile(change, 0.7))
    found = certification.certify(box, tolerance=limit, max_boxes=3000, jobs=1, samples=1000)
    share = float((change > limit).mean())
    assert found.falsified <= share + 0.04
    assert found.certified <= 1 - share + 0.04
    assert found.estimate.low - 0.04 <= share <= found.estimate.high + 0.04
    assert found.certified + found.falsified > (0.7 if name == "boosting" else 0.02)


def test_a_frame_is_certified_by_the_verb() -> None:
    import evenhand

    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.integers(0, 10, 300), "sex": rng.choice(["f", "m"], 300)})
    premium = 10.0 * frame["x"] + 30 * (frame["sex"] == "m")
    model = make_pipeline(
        make_column_transformer((OneHotEncoder(), ["sex"]), remainder="passthrough"), LinearRegression()
    )
    model.fit(frame, premium)
    found = evenhand.certify(model, frame, premium, protected=["sex"], tolerance=31.0)
    assert found.certified == 1.0
    assert evenhand.certify(model, frame, premium, protected=["sex"], tolerance=29.0).falsified == 1.0
