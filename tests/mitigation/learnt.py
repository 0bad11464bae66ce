"""What the tests of learners share: made-up applicants, a lesson that turns one decision, models written and read."""

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd

from evenhand.mitigation.split import TrainingSet
from evenhand.mitigation.study import find_learner
from evenhand.models import load_model
from evenhand.schema import encode
from support import small_schema

_rng = np.random.default_rng(11)
_n = 400
FRAME = pd.DataFrame(
    {
        "age": _rng.integers(18, 81, _n),
        "income": np.round(_rng.uniform(0, 100, _n), 2),
        "sex": _rng.choice(["Female", "Male"], _n),
        "town": _rng.choice(["Ely", "Rye", "Ware"], _n),
    }
)
_merit = FRAME["income"] + 10 * (FRAME["sex"] == "Male") + 5 * (FRAME["town"] == "Ely") - 0.2 * FRAME["age"]
FRAME["granted"] = np.where(_merit > 45, "yes", "no")


def schema(values="no yes", *, plain=True):
    """The applicants' schema, the last label favourable; not ``plain``: numbers scaled for a network, one-hot towns."""
    described = small_schema(
        values, target="granted", age=(18, 80), income=(0.0, 100.0), sex="Female Male *", town="Ely Rye Ware"
    )
    scaled = {} if plain else {name: {"offset": 50, "scale": 30} for name in ("age", "income")}
    return described.with_encodings({"sex": "code", "town": "code" if plain else "one-hot", **scaled})


WORDS, SCALED = schema(), schema(plain=False)
NAMES = list(WORDS.names)


def people(described=WORDS, frame=FRAME):
    return encode(described, frame)


def turned(scorer, given, *, copies=1000):
    """A lesson with many copies of the first person, decided otherwise than the model does; and that person."""
    person = given.individuals[:1]
    decided = scorer.classes[int(scorer.predict(person)[0])]
    other = next(i for i, value in enumerate(given.schema.target.values) if value != decided)
    return TrainingSet(given, np.repeat(person, copies, axis=0), np.full(copies, other, dtype=np.int64)), person


def accuracy(scorer, given):
    """The share of the real people whose true label is given."""
    values = np.array([str(value) for value in scorer.classes])
    truth = np.array([str(value) for value in given.schema.target.values])[given.labels]
    return float((values[scorer.predict(given.individuals)] == truth).mean())


def read_back(learner, scorer, folder, **how):
    """(ending, the model read from the file) for every ending that the learner offers."""
    for ending in learner.endings:
        if ending == ".skops" and find_spec("skops") is None:  # an extra; its absence is tested elsewhere
            continue
        path = folder / f"new{ending}"
        assert learner.save(scorer, path) == (path,)
        yield ending, load_model(path, scorer.schema, **how)


def learns(learner, given):
    """What every learner must do: the same twice, the given model unchanged, what was added turns the decision."""
    before = learner.given.scores(given.individuals).copy()
    lesson, person = turned(learner.given, given)
    once, again = learner.fit(lesson, seed=5), learner.fit(lesson, seed=5)
    np.testing.assert_array_equal(once.scores(given.individuals), again.scores(given.individuals))
    np.testing.assert_array_equal(learner.given.scores(given.individuals), before)
    assert once.predict(person) != learner.given.predict(person)
    assert (once.classes, once.favourable) == (learner.given.classes, learner.given.favourable)
    plain = learner.fit(TrainingSet.plain(given), seed=5)
    assert accuracy(plain, given) > 0.9
    return plain


def learner_of(source, described, *, like=None, fit=None, trust=False):
    """Find the learner of a model or its file."""
    model = load_model(source, described, like=like, trust=trust)
    return find_learner(model, like=like, fit=fit, ending=Path(source).suffix if isinstance(source, str | Path) else "")
