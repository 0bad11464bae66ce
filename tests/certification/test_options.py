from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cases import integer, prove, random_case, schema_of, worked_example

from evenhand import certification
from evenhand.certification import analysis
from evenhand.certification.query.cells import cells_of
from evenhand.errors import ModelError, OptionError, SchemaError
from evenhand.models.additive.network import LineTerm, StepTerm, TableTerm, network_from_dense
from evenhand.population import uniform_population
from evenhand.population.independent import Marginal
from evenhand.schema import Attribute


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"method": "smt"}, "method: expected one of: linear, interval, got 'smt'"),
        ({"time_limit": 0.0}, "time_limit: expected a number above 0"),
        ({"time_limit": float("nan")}, "time_limit: expected a number above 0"),
        ({"max_boxes": 0}, "max_boxes: expected a whole number of at least 1, got 0"),
        ({"target_undecided": 1.5}, "between 0 and 1"),
        ({"confidence": 1.0}, "between 0 and 1"),
        ({"samples": 0}, "samples: expected a whole number of at least 1"),
        ({"jobs": 0}, "jobs: expected a whole number of at least 1"),
        ({"protected": []}, "no attribute is protected"),
        ({"where": ["x2 == 1"]}, "only one value of x2"),
        ({"where": ["x4 == 1"]}, "'x4' is neither an attribute nor a value"),
        ({"threshold": 0.0}, "between 0 and 1"),
        ({"threshold": 1.0}, "between 0 and 1"),
        ({"threshold": float("nan")}, "between 0 and 1"),
        ({"threshold": 1e-9}, "so close to 0"),
        ({"threshold": 1 - 1e-9}, "so close to 1"),
        ({"bands": (0.6, 0.3)}, "increasing order"),
        ({"bands": (0.0,)}, "between 0 and 1"),
        ({"tolerance": 1.0, "bands": (0.5,)}, "a tolerance compares numbers"),
        ({"tolerance": 1.0, "method": "interval"}, "cannot prove a tolerance"),
        ({"outcomes": 3, "method": "interval"}, "cannot prove several outcomes"),
        (
            {"population": uniform_population(schema_of([integer("other", 0, 1)]))},
            "different",
        ),
    ],
)
def test_options_that_make_no_sense(options: dict, said: str) -> None:
    with pytest.raises(OptionError, match=said):
        prove(worked_example(), **options)


def test_an_unknown_attribute() -> None:
    with pytest.raises(SchemaError, match="no attribute 'gender'"):
        prove(worked_example(), protected=["gender"])


def test_numbers_beyond_float32() -> None:
    schema = schema_of([integer("x", 0, 9), integer("p", 0, 1, protected=True)])
    huge = network_from_dense(schema, [(np.array([[1e20], [1.0]]), np.zeros(1)), (np.array([[1e20]]), np.zeros(1))])
    with pytest.raises(ModelError, match="too large to bound their rounding"):
        prove(huge)


def test_protected_attributes_can_be_chosen() -> None:
    result = prove(worked_example(), protected=["x1"])
    assert result.protected == ("x1",)
    assert set(result.counterexamples[0].unprotected) == {"x2", "x3"}


def test_progress_is_told() -> None:
    told: list[tuple[str, float]] = []
    case = random_case(11, whole=False)
    prove(case.network, enumeration=False, progress=lambda what, share: told.append((what, share)))
    assert told
    assert all(0 <= share <= 1 for _, share in told)
    assert told[-1][1] == 1


COLOURS = Attribute(name="colour", kind="categorical", values=("red", "green", "blue", "grey"))


def test_ranges_in_words() -> None:
    age = Attribute(name="age", kind="integer", lower=18, upper=99)
    cells = cells_of(age, 0, LineTerm(np.ones(1), np.zeros(1)), None)
    assert cells.words(0, 2) == "18 to 20"
    assert cells.words(81, 81) == "99"
    grade = Attribute(name="grade", kind="ordinal", values=("low", "middle", "high"))
    assert cells_of(grade, 0, TableTerm(np.array([[0.0], [-1.0], [-2.0]]), 0.0), None).words(1, 2) == "middle to high"
    binned = cells_of(age, 0, StepTerm(np.array([0.0, 25.0, 64.5, 120.0]), np.eye(5)), None)
    assert [binned.words(i, i) for i in range(binned.count)] == ["18 to 24", "25 to 64", "65 to 99"]


@pytest.mark.parametrize("marginal", [False, True])
@pytest.mark.parametrize("kind", ["line", "steps", "table"])
def test_what_is_drawn_from_cells_lies_in_them_as_often_as_it_should(kind: str, marginal: bool) -> None:
    age = Attribute(name="age", kind="integer", lower=-2, upper=7)
    part = {
        "line": LineTerm(np.ones(1), np.zeros(1)),
        "steps": StepTerm(np.array([0.5, 3.0]), np.array([[1.0, 0], [0, 1], [0, 0]])),
        "table": TableTerm(np.array([[i**2, i] for i in range(10)], dtype=float), -2.0),
    }[kind]
    masses = np.array([0, 1, 2, 3, 0, 1, 1, 1, 1, 0.0]) / 10 if marginal else np.full(10, 0.1)
    cells = cells_of(age, 0, part, Marginal(age, masses) if marginal else None)
    rng = np.random.default_rng(0)
    n = 20_000
    drawn = cells.draw(np.zeros(n, dtype=np.int64), np.full(n, cells.count - 1), rng)
    counts = np.bincount((drawn + 2).astype(int), minlength=10) / n
    assert counts == pytest.approx(masses, abs=0.02)
    assert (counts[masses == 0] == 0).all()
    before = cells.before(np.arange(cells.count + 1)) / cells.total
    assert before[-1] == 1
    for cell in range(cells.count):
        if before[cell + 1] > before[cell]:
            only = cells.draw(np.full(50, cell), np.full(50, cell), rng)
            assert cells.attribute.contains(only).all()
            inside = part.at(only)
            assert np.ptp(inside, axis=0) == pytest.approx(0)


def test_real_cells_share_out_their_histogram() -> None:
    height = Attribute(name="height", kind="real", lower=-1.0, upper=3.0)
    masses = np.array([0.1, 0.0, 0.6, 0.3])
    line = cells_of(height, 0, LineTerm(np.ones(1), np.zeros(1)), Marginal(height, masses))
    quarter = line.count // 4
    before = line.before(np.arange(5) * quarter) / line.total
    assert np.diff(before) == pytest.approx(masses, abs=1e-9)
    assert line.scale is not None
    assert line.scale.low(np.array([0]))[0] <= -1 <= line.scale.low(np.array([1]))[0]
    steps = cells_of(height, 0, StepTerm(np.array([0.5, 2.0]), np.eye(3)), Marginal(height, masses))
    assert np.diff(steps.before(np.arange(4))) / steps.total == pytest.approx([0.1, 0.6, 0.3], abs=1e-12)
    drawn = steps.draw(np.zeros(9000, dtype=np.int64), np.full(9000, 2), np.random.default_rng(1))
    assert np.histogram(drawn, bins=[-1, 0, 1, 2, 3])[0] / 9000 == pytest.approx(masses, abs=0.02)


def test_questions_that_end_early_leave_their_time_and_effort_to_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = schema_of(
        [
            integer("x", 0, 9),
            integer("p", 0, 3, protected=True),
        ],
        classes=4,
    )
    weights = np.vstack([np.zeros(4), np.eye(4)[1] * 2 - np.eye(4)[2]])
    labels = tuple(f"label {i}" for i in range(4))
    network = network_from_dense(schema, [(weights, np.array([1.0, 0.5, 3.0, 0.0]))], classes=labels)
    limits: list[tuple[float | None, float | None]] = []
    prove_question = analysis._prove

    def record_limits(*arguments: Any) -> Any:
        limits.append((arguments[2].time_limit, arguments[2].effort))
        return prove_question(*arguments)

    monkeypatch.setattr(analysis, "_prove", record_limits)
    monkeypatch.setattr("evenhand.core.time_limit.RUNNING_SECONDS", lambda: 0.0)
    result = certification.certify(network, outcomes=4, time_limit=60.0, effort=60.0, samples=1)
    assert [share.least for share in result.outcomes] == [2, 3, 4]
    seconds, efforts = zip(*limits, strict=True)
    assert seconds == pytest.approx((20.0, 30.0, 60.0))
    assert efforts == pytest.approx((20.0, 30.0, 60.0), rel=0.05)
