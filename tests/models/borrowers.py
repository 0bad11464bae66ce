"""A made-up data set for the tests of tree models: numbers, words, codes, missing values; two or three labels."""

import numpy as np
import pandas as pd

from evenhand.schema import Schema, encode

N = 3000
TOWNS = ["Wells", "Ely", "Ripon", "Truro", "Bath", "Derby", "Leeds"]

_rng = np.random.default_rng(11)
FRAME = pd.DataFrame(
    {
        "income": np.round(_rng.normal(30, 12, N), 3),
        "age": _rng.integers(18, 81, N).astype(float),
        "home town": _rng.choice(TOWNS, N),
        "sex": _rng.choice(["Female", "Male"], N),
        "balance": np.where(_rng.random(N) < 0.3, 0.0, _rng.normal(0, 5, N)),
    }
)
_merit = (
    FRAME["income"] / 10
    + FRAME["home town"].map(dict(zip(TOWNS, [2, -1, 0, 3, -2, 1, 0], strict=True)))
    + 0.5 * (FRAME["sex"] == "Male")
    + 0.2 * FRAME["balance"]
    + 0.01 * (FRAME["age"] - 50) ** 2 / 10
    + _rng.normal(0, 0.7, N)
)
BINARY = (_merit > _merit.median()).to_numpy().astype(int)
THREE = np.digitize(_merit, np.quantile(_merit, [0.33, 0.66]))

for _column, _share in (("income", 0.1), ("home town", 0.08), ("balance", 0.05)):
    FRAME[_column] = FRAME[_column].mask(_rng.random(N) < _share)


def schema(*, target=None, towns=TOWNS, town_encoding="code"):
    """The borrowers; towns in an order that is not the alphabet's."""
    return Schema.parse(
        {
            "target": target or {"name": "granted", "favourable": "yes", "values": ["yes", "no"]},
            "attributes": [
                {"name": "income", "kind": "real", "lower": -50, "upper": 200, "missing": "keep"},
                {"name": "age", "kind": "integer", "lower": 18, "upper": 80},
                {
                    "name": "home town",
                    "kind": "categorical",
                    "values": list(towns),
                    "missing": "keep",
                    "encoding": town_encoding,
                },
                {"name": "sex", "kind": "categorical", "values": ["Female", "Male"], "protected": True},
                {"name": "balance", "kind": "real", "lower": -100, "upper": 100, "missing": "keep"},
            ],
        }
    )


SCHEMA = schema()
SCHEMA3 = schema(target={"name": "grade", "favourable": "A", "values": ["C", "B", "A"]})
PEOPLE = encode(SCHEMA, FRAME).individuals
COMPLETE = PEOPLE[~np.isnan(PEOPLE).any(axis=1)]
INPUTS = SCHEMA.inputs(PEOPLE)
TOWN = 2


def worded(frame=FRAME):
    """The same people with words as pandas categories."""
    return frame.assign(
        **{"home town": pd.Categorical(frame["home town"]), "sex": pd.Categorical(frame["sex"], ["Male", "Female"])}
    )


def people_beside(cuts):
    """People whose income is one of some numbers, one of them in float32, or the next number to either of these."""
    near = np.concatenate([cuts, cuts.astype(np.float32)])
    near = np.concatenate([near, np.nextafter(near, np.inf), np.nextafter(near, -np.inf)])
    people = np.repeat(COMPLETE[:3], len(near), axis=0)
    people[:, 0] = np.tile(near, 3)
    return people


def assert_same(scorer, individuals, probabilities, *, atol=1e-5):
    """Scores within the tolerance, and the same labels wherever the decision is not that close."""
    probabilities = np.asarray(probabilities, dtype=float)
    if probabilities.ndim == 1:
        probabilities = np.stack([1 - probabilities, probabilities], axis=1)
    scores = scorer.scores(individuals)
    np.testing.assert_allclose(scores, probabilities, rtol=0, atol=atol)
    np.testing.assert_allclose(scores.sum(axis=1), 1, atol=1e-9)
    two_best = np.sort(probabilities, axis=1)[:, -2:]
    clear = two_best[:, 1] - two_best[:, 0] > 1e-6
    assert clear.mean() > 0.5
    np.testing.assert_array_equal(scorer.predict(individuals)[clear], np.argmax(probabilities, axis=1)[clear])
