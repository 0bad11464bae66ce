"""Proofs in float64, rounded to the safe side: against asking everybody, and against exact rational arithmetic."""

from __future__ import annotations

import itertools
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from cases import callable_kernel, integer, random_case, schema_of, worked_example
from hypothesis import given, settings
from hypothesis import strategies as st

from evenhand import certification, checker
from evenhand.checker import verification
from evenhand.checker.floats.bounds import bound_arrays, bound_box, bound_functions
from evenhand.checker.floats.network import float_network_of
from evenhand.checker.floats.proofs import NetworkProver
from evenhand.checker.form import form_of
from evenhand.checker.network import RecordedQuestion, recorded_question_of
from evenhand.checker.question import AskedQuestion
from evenhand.checker.reading import WHOLE, ClaimedBoxes
from evenhand.errors import OptionError
from evenhand.models import AdditiveNetwork
from evenhand.models.additive.network import network_from_dense
from evenhand.population import ProductPopulation
from support import scaled

bounded = callable_kernel(bound_box)
functions_of = callable_kernel(bound_functions)


def question_about(
    network: AdditiveNetwork, folder: Path, population: ProductPopulation | None = None
) -> RecordedQuestion:
    path = folder / "c.cert"
    certification.certify(network, population=population, certificate=path, jobs=1, samples=5)
    return recorded_question_of(checker.read_certificate(path), network, AskedQuestion(population=population))


def everybody_in(question: RecordedQuestion) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Cells of everybody (people, axes), their mass, and who is treated the same whatever is protected."""
    network, axes = question.network, question.axes
    cells = np.array(list(itertools.product(*(range(axis.count) for axis in axes))), dtype=np.int64)
    cells = cells.reshape(-1, len(axes))
    mass = np.ones(len(cells))
    rows = np.zeros((len(cells), len(network.schema.attributes)))
    for i, axis in enumerate(axes):
        rows[:, axis.position] = axis.entries(cells[:, i])[0]
        mass *= axis.before(cells[:, i] + 1) - axis.before(cells[:, i])
    labels = []
    names = list(question.statement.header.protected)
    for values in itertools.product(*question.statement.header.protected.values()):
        for name, value in zip(names, values, strict=True):
            rows[:, network.schema.position(name)] = value
        labels.append(network.predict(rows))
    return cells, mass, np.all(np.array(labels) == labels[0], axis=0)


@settings(max_examples=scaled(150), deadline=None)
@given(seed=st.integers(0, 10**6), most=st.sampled_from([1, 3, 64, 4096]))
def test_what_is_proved_is_true(seed, most, tmp_path_factory):
    """Of random boxes all is claimed that is true and a little more: what is proved is never above what is true."""
    case = random_case(seed)
    question = question_about(case.network, tmp_path_factory.mktemp("quick"), case.population)
    cells, mass, fair = everybody_in(question)
    rng = np.random.default_rng(seed)
    counts = np.array([axis.count for axis in question.axes], dtype=np.int64)
    low = rng.integers(0, counts, size=(5, len(counts)))
    low[0] = 0
    high = rng.integers(low, counts)
    high[0] = counts - 1
    inside = [((cells >= a) & (cells <= b)).all(axis=1) for a, b in zip(low, high, strict=True)]
    true = np.array([mass[here & fair].sum() / mass[here].sum() for here in inside])
    claims = (np.minimum(WHOLE, np.ceil((share + 1e-9) * WHOLE)) for share in (true, 1 - true))
    proofs = NetworkProver(question).prove(ClaimedBoxes(low, high, *claims), most, quickly=seed % 2 == 1)
    assert (proofs.fair <= true + 1e-12).all(), seed
    assert (proofs.unfair <= 1 - true + 1e-12).all(), seed


def small_network(rng: np.random.Generator, size: float) -> AdditiveNetwork:
    """A network of two numbers and a protected value whose terms are large and cancel."""
    hidden = int(rng.integers(1, 3))
    sizes = [3, *(int(rng.integers(2, 5)) for _ in range(hidden)), 1]
    schema = schema_of([integer("x", -3, 3), integer("year", 1998, 2002), integer("p", 0, 1, protected=True)])
    layers = [(rng.normal(size=(a, b)) * size, rng.normal(size=b)) for a, b in itertools.pairwise(sizes)]
    layers[0][1][:] -= 2000 * layers[0][0][1]
    return network_from_dense(schema, layers)


def exact_units(network: AdditiveNetwork, rows: np.ndarray, rounded: np.random.Generator | None = None) -> list:
    """The output of each row in fractions; with ``rounded`` as float32 might compute it, rounded against us each time.

    Every operation is off by a relative 2**-24, to either side, and sums are taken in any order, both drawn at random.
    """

    def off(value: Fraction) -> Fraction:
        return value if rounded is None else value * (1 + Fraction(int(rounded.choice([-1, 1])), 2**24))

    def added(terms: list[Fraction]) -> Fraction:
        if rounded is not None:
            terms = [terms[k] for k in rounded.permutation(len(terms))]
        total = terms[0]
        for term in terms[1:]:
            total = off(total + term)
        return total

    found = []
    for row in rows.tolist():
        units = []
        for j in range(len(network.bias)):
            terms = [off(Fraction(float(network.bias[j])))]
            for part, value in zip(network.parts, row, strict=True):
                terms.append(off(off(Fraction(float(part.slope[j]))) * off(Fraction(value))))
                terms.append(off(Fraction(float(part.intercept[j]))))
            units.append(added(terms))
        for layer in network.layers:
            active = [max(unit, Fraction(0)) for unit in units]
            units = [
                added(
                    [off(off(Fraction(float(w))) * a) for w, a in zip(column, active, strict=True)]
                    + [Fraction(float(b))]
                )
                for column, b in zip(layer.weights.T, layer.bias, strict=True)
            ]
        found.append(units[0])
    return found


def rows_of(question: RecordedQuestion, cells: np.ndarray, p: int) -> np.ndarray:
    rows = np.full((len(cells), 3), float(p))
    for i, axis in enumerate(question.axes):
        rows[:, axis.position] = axis.entries(cells[:, i])[0]
    return rows


@settings(max_examples=scaled(40), deadline=None)
@given(seed=st.integers(0, 10**6), power=st.integers(-8, 8))
def test_functions_lie_below_the_margin_in_exact_arithmetic(seed, power, tmp_path_factory):
    """With no allowance for float32 at all, only for our own rounding: for everybody in the box, in fractions."""
    rng = np.random.default_rng(seed)
    network = small_network(rng, 10.0**power)
    question = question_about(network, tmp_path_factory.mktemp("exact"))
    found = float_network_of(question, form_of(question))
    net = found._replace(gammas=0 * found.gammas, tie=0 * found.tie)
    low = rng.integers(0, [7, 5])
    high = rng.integers(low, [7, 5])
    cells = np.array(list(itertools.product(*(range(a, b + 1) for a, b in zip(low, high, strict=True)))))
    w = bound_arrays(net, 4)
    for p in range(2):
        bounded(net, p, p + 1, low, high, w)
        functions_of(net, p, p, low, high, w)
        margins = exact_units(network, rows_of(question, cells, p))
        for side, flat in itertools.product(range(2), range(2)):
            f = 2 * p + side
            sign = 1 - 2 * side
            for (x, y), margin in zip(cells, margins, strict=True):
                value = Fraction(float(w.constant[f, flat]))
                for i, cell in enumerate((x, y)):
                    entry = Fraction(float(question.axes[i].entries(np.array([cell]))[0][0]))
                    value += Fraction(float(w.function[f, flat, i])) * entry
                assert value <= sign * margin, (seed, p, side, flat)


@settings(max_examples=scaled(40), deadline=None)
@given(seed=st.integers(0, 10**6), power=st.integers(-4, 4))
def test_float32_rounded_against_us_stays_within_its_bound(seed, power, tmp_path_factory):
    rng = np.random.default_rng(seed)
    network = small_network(rng, 10.0**power)
    question = question_about(network, tmp_path_factory.mktemp("float32"))
    net = float_network_of(question, form_of(question))
    low = rng.integers(0, [7, 5])
    high = np.minimum(low + rng.integers(0, 3, size=2), [6, 4])
    cells = np.array(list(itertools.product(*(range(a, b + 1) for a, b in zip(low, high, strict=True)))))
    w = bound_arrays(net, 4)
    for p in range(2):
        bounded(net, p, p + 1, low, high, w)
        rows = rows_of(question, cells, p)
        for one, other in zip(exact_units(network, rows), exact_units(network, rows, rng), strict=True):
            assert abs(one - other) <= Fraction(float(w.error[len(net.sizes) - 1, 0])), seed


def test_outputs_that_cancel_keep_their_float32_error(tmp_path):
    """Without a hidden layer the margin is a difference of outputs, each of which is rounded by itself."""
    schema = schema_of([integer("x", 0, 9), integer("p", 0, 1, protected=True)])
    network = network_from_dense(schema, [(np.array([[1000.0, 1000.0], [0.0, 1.0]]), np.array([0.0, -0.5]))])
    question = question_about(network, tmp_path)
    net = float_network_of(question, form_of(question))
    w = bound_arrays(net, 4)
    bounded(net, 0, 1, np.array([9]), np.array([9]), w)
    assert w.error[0, 0] >= 2 * 9000 * 2.0**-24


def test_worked_example_is_proved_to_the_last_person(tmp_path):
    """The hiring network's 30 people as one box: what is proved is what enumerating them finds."""
    network = worked_example()
    question = question_about(network, tmp_path)
    answer = certification.certify(network, samples=5)
    claims = (np.array([(share + 1e-6) * WHOLE]) for share in (answer.certified, answer.falsified))
    proofs = NetworkProver(question).prove(ClaimedBoxes(np.array([[0, 0]]), np.array([[4, 5]]), *claims), 64)
    assert proofs.fair[0] == pytest.approx(answer.certified, abs=1e-9)
    assert proofs.unfair[0] == pytest.approx(answer.falsified, abs=1e-9)


def test_an_interrupted_check_goes_on(tmp_path, monkeypatch):
    """Ctrl-C after the first boxes: what is confirmed is kept, and the next run proves the others only."""
    case = random_case(3)
    path, state = tmp_path / "c.cert", tmp_path / "c.state"
    certification.certify(
        case.network, certificate=path, jobs=1, samples=5, method="interval", enumeration=False, max_boxes=400
    )
    monkeypatch.setattr(verification, "QUICK_BATCH", 4)
    monkeypatch.setattr(verification.joblib, "cpu_count", lambda: 1)
    counters: list[verification.InterruptCounter] = []

    class Counter(verification.InterruptCounter):
        def __enter__(self) -> verification.InterruptCounter:
            counters.append(self)
            return super().__enter__()

    monkeypatch.setattr(verification, "InterruptCounter", Counter)

    def stop(what: str, share: float) -> None:
        if what == "proving boxes again":
            counters[-1].count = 1

    first = checker.check_certificate(path, case.network, sample=None, state=state, progress=stop)
    assert first.verdict == "unfinished"
    assert 0 < first.checked < first.boxes
    assert first.doubt is not None
    assert first.doubt < 1
    second = checker.check_certificate(path, case.network, sample=None, state=state)
    assert second.verdict == "confirmed"
    assert second.checked == second.boxes
    certification.certify(case.network, certificate=path, jobs=1, samples=5)
    with pytest.raises(OptionError, match="a different certificate"):
        checker.check_certificate(path, case.network, state=state)
    state.write_bytes(b"something else")
    with pytest.raises(OptionError, match="not a saved state"):
        checker.check_certificate(path, case.network, state=state)
