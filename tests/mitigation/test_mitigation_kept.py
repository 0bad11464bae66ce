"""What was made is kept, whatever happens to what stands beside it."""

import importlib.util
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

from evenhand import mitigation
from evenhand.errors import DataError, MissingExtraError
from evenhand.individual.search import search as individual_search
from evenhand.mitigation.methods import registry
from evenhand.models import Subject
from evenhand.schema import Schema, encode

DESCRIBED = {
    "target": {"name": "hired", "favourable": "yes", "values": ["no", "yes"]},
    "attributes": [
        {"name": "grade", "kind": "integer", "lower": 0, "upper": 20},
        {"name": "sex", "kind": "integer", "lower": 0, "upper": 1, "protected": True},
    ],
}


@pytest.fixture(scope="module")
def hiring():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"grade": rng.integers(0, 21, 400), "sex": rng.integers(0, 2, 400)})
    frame["hired"] = np.where(frame["grade"] + 3 * frame["sex"] > 11, "yes", "no")
    people = encode(Schema.parse(DESCRIBED), frame)
    return LogisticRegression().fit(people.individuals, frame["hired"]), people


def by_sex(frame, labels):
    """Train a model that is worse than the given one in everything: it decides by sex alone."""
    return LogisticRegression().fit(frame[["grade", "sex"]].assign(grade=0), labels)


def test_the_given_model_is_kept_where_nothing_better_is_found(hiring, tmp_path):
    model, people = hiring
    found = individual_search(Subject(model, people).scorer, people, budget=500)
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


def test_a_better_model_than_the_first_is_named(hiring):
    done = mitigation.mitigate(Subject(*hiring), methods=("blind",), certify_effort=0, accuracy_loss=0.5)
    assert done.result.chosen == "blind"
    first = done.result.candidates[0]
    worse = first.model_copy(update={"method": "other", "rejected": "it is worse"})
    both = done.result.model_copy(update={"candidates": (worse, first), "chosen": None})
    assert "The model of blind is better than the original one" in both.summary()


def failing(situation):
    raise DataError("there is nothing to make alike")


def test_a_method_that_cannot_be_used_does_not_take_the_others_with_it(hiring, monkeypatch):
    monkeypatch.setitem(registry.METHODS, "failing", failing)
    wanted = {"certify_effort": 0, "methods": ("blind", "failing")}
    done = mitigation.mitigate(Subject(*hiring), **wanted)
    assert [candidate.method for candidate in done.result.candidates] == ["blind"]
    assert any("failing" in note and "nothing to make alike" in note for note in done.result.notes)
    with pytest.raises(DataError, match="nothing to make alike"):
        mitigation.mitigate(Subject(*hiring), **wanted | {"methods": ("failing", "blind")})


def test_an_interrupt_while_comparing_keeps_the_model_that_is_written(hiring, monkeypatch):
    module = sys.modules["evenhand.mitigation.analysis"]  # the package has the function under that name
    compared, asked = module.compare_candidates, []

    def interrupted(*arguments, **options):
        asked.append(options["config"].certify_effort)
        if len(asked) == 1:
            raise KeyboardInterrupt
        return compared(*arguments, **options)

    monkeypatch.setattr(module, "compare_candidates", interrupted)
    done = mitigation.mitigate(Subject(*hiring), methods=("blind",))
    assert asked == [10.0, 0]
    assert done.result.interrupted
    assert done.result.candidates[0].line("flip_rate", "sex").after.value == 0
    assert len(done.candidates) == len(done.result.candidates) == 1


def test_a_library_that_is_not_there_is_missed_before_any_work(monkeypatch):
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "torch" else find_spec(name))
    with pytest.raises(MissingExtraError, match="torch"):
        registry.load_methods(["blind", "diffdp"])
