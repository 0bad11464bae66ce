"""A small made-up data set for the tests of black boxes, and its schema in a few variants."""

import numpy as np
import pandas as pd

from evenhand.schema import Schema, encode

_rng = np.random.default_rng(7)
_n = 300
FRAME = pd.DataFrame(
    {
        "age": _rng.integers(18, 81, _n),
        "income": np.round(_rng.uniform(0, 100, _n), 2),
        "sex": _rng.choice(["Female", "Male"], _n),
        "home-town": _rng.choice(["Ely", "Rye", "Ware"], _n),
    }
)
_merit = FRAME["income"] + 10 * (FRAME["sex"] == "Male") + 5 * (FRAME["home-town"] == "Ely") - 0.2 * FRAME["age"]
FRAME["granted"] = np.where(_merit + _rng.normal(0, 5, _n) > 45, "yes", "no")


def schema(*, favourable="yes", values=("no", "yes"), codes=False, missing="refuse", town_encoding="one-hot"):
    """Words as they are in the data, or (``codes``) with encodings for a network that takes plain numbers."""
    attributes = [
        {"name": "age", "kind": "integer", "lower": 18, "upper": 80},
        {"name": "income", "kind": "real", "lower": 0, "upper": 100, "missing": missing},
        {"name": "sex", "kind": "categorical", "values": ["Female", "Male"], "protected": True},
        {"name": "home-town", "kind": "categorical", "values": ["Ely", "Rye", "Ware"], "missing": missing},
    ]
    if codes:
        attributes[0]["encoding"] = {"offset": 50, "scale": 20}
        attributes[1]["encoding"] = {"offset": 50, "scale": 30}
        attributes[2]["encoding"] = "code"
        attributes[3]["encoding"] = town_encoding
    target = {"name": "granted", "favourable": favourable}
    if values is not None:
        target["values"] = list(values)
    return Schema.parse({"target": target, "attributes": attributes})


WORDS = schema()
CODES = schema(codes=True)
NAMES = list(WORDS.names)
PEOPLE = encode(WORDS, FRAME).individuals
GRANTED = (FRAME["granted"] == "yes").to_numpy()


def pipeline(model, frame=FRAME, labels=None, *, scaled=True):
    """A scikit-learn pipeline that takes the data's own words."""
    from sklearn.compose import make_column_transformer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    prepare = make_column_transformer(
        (StandardScaler() if scaled else "passthrough", ["age", "income"]),
        (OneHotEncoder(), ["sex", "home-town"]),
        sparse_threshold=0,
    )
    return make_pipeline(prepare, model).fit(frame[NAMES], frame["granted"] if labels is None else labels)
