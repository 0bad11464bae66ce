"""Group metrics of a model on people: one pass over everybody, and the census."""

from dataclasses import dataclass, field

import numpy as np

from evenhand import groups
from evenhand.auditing.labels import record_decisions
from evenhand.groups.analysis import measure_decisions
from evenhand.groups.membership import number_combinations
from evenhand.models.replies import ask_people
from evenhand.schema import People, Schema
from evenhand.stats import Unknown

SCHEMA = Schema.parse(
    {
        "target": {"name": "hired", "favourable": "yes", "values": ["yes", "no", "later"]},
        "attributes": [
            {"name": "merit", "kind": "real", "lower": 0, "upper": 1},
            {"name": "age", "kind": "integer", "lower": 18, "upper": 80, "protected": True},
            {"name": "sex", "kind": "categorical", "values": ["f", "m", "x"], "protected": True},
        ],
    }
)


@dataclass
class Threshold:
    """Hires by merit, with the favourable label last; counts the individuals it is asked about."""

    schema: Schema = SCHEMA
    classes: tuple[str, ...] = ("later", "no", "yes")
    favourable: int = 2
    label_only: bool = False
    name: str = "threshold"
    asked: list[int] = field(default_factory=list)

    def scores(self, individuals):
        self.asked.append(len(individuals))
        merit = individuals[:, 0]
        return np.stack([(1 - merit) / 4, 3 * (1 - merit) / 4, merit], axis=1)

    def predict(self, individuals):
        return np.argmax(self.scores(individuals), axis=1)


def applicants(n: int, seed: int = 0, *, labels: bool = True) -> People:
    rng = np.random.default_rng(seed)
    individuals = np.column_stack([rng.random(n), rng.integers(18, 81, n), rng.integers(0, 2, n)]).astype(float)
    return People(SCHEMA, individuals, rng.integers(0, 3, n) if labels else None, np.arange(n), None)


def measure(model, people: People, **settings) -> groups.GroupMetrics:
    decisions = record_decisions(model, people, None, ask_people(model, people.individuals))
    return groups.measure_groups(decisions, **settings)


def test_agrees_with_plain_arrays():
    people = applicants(500)
    by_model = measure(Threshold(), people, confidence=0.9, seed=7)
    merit, age, sex = people.individuals.T
    by_arrays = measure_decisions(
        3 * (1 - merit) / 4 < merit,
        people.labels == 0,
        {"age": age, "sex": np.array(["f", "m"])[sex.astype(int)]},
        y_score=merit,
        confidence=0.9,
        seed=7,
    )
    same = {"seconds": 0.0, "favourable": "yes"}
    assert by_model.model_copy(update=same) == by_arrays.model_copy(update=same)
    assert [breakdown.by for breakdown in by_model.breakdowns] == [("age",), ("sex",), ("age", "sex")]
    assert len(by_model.breakdowns[0].groups) == 5
    assert [group.label for group in by_model.breakdowns[1].groups] == ["f", "m"]


def test_a_model_of_labels_only():
    found = measure(Threshold(label_only=True), applicants(200))
    assert "auc" not in found.overall
    assert found.overall["mean_score"] == Unknown(reason="there are no scores")
    assert found.calibration == ()
    assert found.breakdowns[1].gap("calibration_difference") is None


def test_combinations_are_numbered_the_same_however_many_there_could_be():
    """Sparse combinations are found by sorting, dense ones by counting; NumPy's rows are the reference."""
    rng = np.random.default_rng(2)
    for size in (3, 5000):
        columns = [rng.integers(0, size, 400) for _ in range(4)]
        numbered, keys = number_combinations([(column, size) for column in columns])
        expected, inverse = np.unique(np.stack(columns, axis=1), axis=0, return_inverse=True)
        assert (keys == expected).all()
        assert (numbered == inverse.ravel()).all()
