"""The independent checker: honest certificates are confirmed, every kind of lie is found."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cases import Case, callable_kernel, everybody, integer, random_case, real_network, schema_of, worked_example
from forgery import WHOLE, Opened, forged, opened
from hypothesis import example, given, settings
from hypothesis import strategies as st

from evenhand import certification, checker
from evenhand.certification.certificate.record import CertificateWriter
from evenhand.checker.floats.bounds import bound_arrays, bound_box, bound_functions
from evenhand.checker.floats.counting import LEVELS, count_arrays, count_shares
from evenhand.checker.floats.network import float_network_of
from evenhand.checker.form import form_of
from evenhand.checker.network import recorded_question_of
from evenhand.checker.partition import count_cells, is_partition
from evenhand.checker.question import AskedQuestion
from evenhand.errors import DataError, OptionError
from evenhand.models import AdditiveNetwork
from evenhand.models.additive.network import network_fingerprint, network_from_dense
from evenhand.population import ProductPopulation
from evenhand.population.independent import Marginal
from support import scaled

BOUND_BOX, BOUND_FUNCTIONS, COUNT_SHARES = map(callable_kernel, (bound_box, bound_functions, count_shares))
METHODS: dict[str, dict[str, Any]] = {
    "interval": {"method": "interval", "enumeration": False, "max_boxes": 200},
    "enumeration": {},
    "linear": {"enumeration": False, "max_boxes": 64},
    "watched": {"enumeration": False, "max_boxes": 64, "min_progress": 1e-12},
}


def certificate_of(case: Case, path: Path, method: str, **options: Any) -> certification.Certificate:
    return certification.certify(
        case.network, population=case.population, certificate=path, jobs=1, samples=50, **METHODS[method] | options
    )


@pytest.mark.parametrize("method", METHODS)
@settings(max_examples=scaled(20))
@given(seed=st.integers(0, 10_000))
@example(seed=1196)
def test_honest_certificates_of_random_networks_are_confirmed(method, seed, tmp_path_factory):
    case = random_case(seed, real=seed % 4 == 0)
    path = tmp_path_factory.mktemp("honest") / "c.cert"
    answer = certificate_of(case, path, method)
    found = checker.check_certificate(path, case.network, AskedQuestion(population=case.population), sample=None)
    assert found.verdict == "confirmed", found
    assert found.certified == pytest.approx(answer.certified, abs=1e-8)
    assert found.falsified == pytest.approx(answer.falsified, abs=1e-8)
    assert found.checked == found.boxes or case.population is not None
    assert not found.restricted


@settings(max_examples=scaled(60))
@given(seed=st.integers(0, 10_000))
def test_bounds_exclude_no_label_that_everybody_gets(seed, tmp_path_factory):
    """Bounds of random boxes, assignment by assignment and together, against asking everybody in them."""
    network = random_case(seed).network
    path = tmp_path_factory.mktemp("shares") / "c.cert"
    certification.certify(network, certificate=path, jobs=1, samples=10)
    question = recorded_question_of(checker.read_certificate(path), network)
    rng = np.random.default_rng(seed)
    counts = np.array([axis.count for axis in question.axes])
    low = rng.integers(0, counts, size=(4, len(counts)))
    high = rng.integers(low, counts)
    people, _, labels = everybody(network)
    form = form_of(question)
    net = float_network_of(question, form)
    shape = (len(form.bases), len(form.pairs), 2, 2)
    for together, k in itertools.product((True, False), range(len(low))):
        bounds = bound_arrays(net, len(form.bases) * len(form.pairs) * 2)
        for p in range(len(form.bases)):
            BOUND_BOX(net, *((0, len(form.bases)) if together else (p, p + 1)), low[k], high[k], bounds)
            BOUND_FUNCTIONS(net, p, p, low[k], high[k], bounds)
        least = bounds.least.reshape(shape)
        inside = np.ones(len(people), dtype=bool)
        for i, axis in enumerate(question.axes):
            entries = [axis.entries(np.arange(low[k, i], high[k, i] + 1))[j] for j in (0, 1)]
            inside &= ((people[:, i, None] >= entries[0]) & (people[:, i, None] <= entries[1])).any(axis=1)
        if len(np.unique(labels[:, inside])) > 1:
            continue
        label = labels[0, inside][0]
        for m, (a, b) in enumerate(form.pairs):
            if label == a:
                assert (least[:, m, 0] <= 0).all()
            if label == b:
                assert (least[:, m, 1] <= 0).all()


@settings(max_examples=scaled(60))
@given(seed=st.integers(0, 10_000))
def test_counting_conditions_is_exact_up_to_rounding(seed):
    """Where all joint values are listed nothing but rounding is lost; on a grid some is, and nothing is gained."""
    rng = np.random.default_rng(seed)
    widths = rng.integers(1, 7, size=rng.integers(1, 5))
    functions = int(rng.integers(1, 4))
    terms = tuple(rng.integers(-20, 20, size=(functions, width)).astype(float) for width in widths)
    chances = tuple(each / each.sum() for each in (rng.integers(1, 9, size=width) for width in widths))
    constants = rng.integers(-10, 10, size=functions) + 0.5
    values, weights = constants[:, None], np.ones(1)
    for term, chance in zip(terms, chances, strict=True):
        values = (values[:, :, None] + term[:, None, :]).reshape(functions, -1)
        weights = (weights[:, None] * chance).ravel()
    true = weights[(values > 0).all(axis=0)].sum()
    for steps, listed in LEVELS:
        d = count_arrays(len(widths), functions, (2, functions), 1 + int(widths.sum()), (steps, listed))
        ends = np.cumsum(widths)
        d.at[:] = ends - widths
        d.constant[:] = d.least[:] = d.most[:] = constants
        for i, (term, chance) in enumerate(zip(terms, chances, strict=True)):
            here = slice(d.at[i], ends[i])
            d.runs[i], d.chance[here], d.term[:, here] = len(chance), chance, term
            d.low[:, i], d.high[:, i] = term.min(axis=1), term.max(axis=1)
        d.least[:] += d.low.sum(axis=1)
        d.most[:] += d.high.sum(axis=1)
        d.size[:], d.member[:], d.unfair[1] = functions, np.arange(functions), True
        fair, unfair = COUNT_SHARES(2, False, steps, listed, d)
        assert fair == unfair <= true + 1e-9
    assert fair >= true - 1e-9


def test_worked_example_by_hand(tmp_path):
    """The hiring network has 30 people; the certificate lists them in rows, and its digest is the network's."""
    network = worked_example()
    path = tmp_path / "hiring.cert"
    answer = certification.certify(network, certificate=path, samples=10)
    held = opened(path)
    assert held.head["model"] == {"name": "hiring", "kind": "network", "fingerprint": network_fingerprint(network)}
    assert held.head["protected"] == {"x2": [0.0, 1.0]}
    assert [each["cells"] for each in held.head["attributes"]] == [5, 6]
    assert int(held.totals["of"]) == 30 * WHOLE
    assert int(held.totals["certified"]) == round(answer.certified * 30) * WHOLE
    found = checker.check_certificate(path, network, sample=50, seed=3)
    assert found.verdict == "confirmed"
    assert found.draws == 50
    assert found.doubt == pytest.approx(1 - 0.01 ** (1 / 50))
    assert checker.CertificateCheck.from_json(found.to_json()) == found


def test_the_seed_is_drawn_by_the_system_unless_given(tmp_path):
    path = tmp_path / "c.cert"
    certification.certify(worked_example(), certificate=path, samples=10)
    seeds = {checker.check_certificate(path, worked_example()).seed for _ in range(3)}
    assert len(seeds) == 3
    assert checker.check_certificate(path, worked_example(), seed=5).seed == 5


# ---- lies ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def honest(tmp_path: Path) -> tuple[Path, AdditiveNetwork]:
    path = tmp_path / "c.cert"
    network = _network()
    certification.certify(
        network, certificate=path, jobs=1, samples=10, method="interval", enumeration=False, max_boxes=150
    )
    assert checker.check_certificate(path, network, sample=None).verdict == "confirmed"
    return path, network


def _network() -> AdditiveNetwork:
    rng = np.random.default_rng(4)
    schema = schema_of(
        [
            integer("age", 0, 40),
            {"name": "group", "kind": "categorical", "values": ["a", "b", "c"], "protected": True},
            integer("hours", 0, 30),
            {"name": "job", "kind": "categorical", "values": ["x", "y", "z"], "encoding": "one-hot"},
        ]
    )
    first = rng.normal(size=(6, 8)) * np.array([0.05, 0.4, 0.05, 1, 1, 1])[:, None]
    return network_from_dense(
        schema, [(first, rng.normal(size=8)), (rng.normal(size=(8, 1)), np.array([0.2]))], name="jobs"
    )


def rejected(path: Path, network: AdditiveNetwork, words: str, **asked: Any) -> None:
    found = checker.check_certificate(path, network, AskedQuestion(**asked), sample=None)
    assert found.verdict == "rejected", found
    assert words in (found.fault or "")
    assert found.certified is None


def test_a_damaged_or_truncated_file_is_rejected(honest):
    path, network = honest
    data = path.read_bytes()
    for end in range(30, len(data), max(1, len(data) // 23)):
        path.write_bytes(data[:end])
        rejected(path, network, "")
    rng = np.random.default_rng(0)
    for place in rng.integers(len(b"EVENHAND certificate 5\n"), len(data), size=40):
        changed = bytearray(data)
        changed[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(bytes(changed))
        rejected(path, network, "")
    path.write_bytes(data + b"x")
    rejected(path, network, "trailing data")


def test_what_is_no_certificate_is_refused(tmp_path):
    path = tmp_path / "c.cert"
    with pytest.raises(DataError, match="cannot be read"):
        checker.check_certificate(path, worked_example())
    path.write_bytes(b"something else")
    with pytest.raises(DataError, match="not a certificate"):
        checker.check_certificate(path, worked_example())
    path.write_bytes(b"EVENHAND certificate 9\n")
    with pytest.raises(DataError, match="format"):
        checker.check_certificate(path, worked_example())


def _raise_share(it: Opened) -> None:
    undecided = np.flatnonzero((it.fair == 0) & (it.unfair == 0))
    it.fair[undecided] = WHOLE


def test_false_shares_are_not_confirmed(honest):
    path, network = honest
    found = checker.check_certificate(forged(path, _raise_share), network, sample=None)
    assert found.verdict == "not confirmed"
    assert found.failures == len(found.unconfirmed) or found.failures > 100
    assert found.doubt
    assert len(found.to_frame()) == len(found.unconfirmed)


def test_a_model_of_another_name_is_the_same(honest):
    path, network = honest
    renamed = replace(network, name="the same under another name")
    assert checker.check_certificate(path, renamed).verdict == "confirmed"


def test_another_population_is_rejected(honest, tmp_path):
    path, network = honest
    marginals = []
    for attribute in network.schema.attributes:
        masses = np.arange(1.0, (attribute.size or 0) + 1)
        marginals.append(Marginal(attribute, masses / masses.sum()))
    people = ProductPopulation("these people", network.schema, tuple(marginals))
    rejected(path, network, "population", population=people)
    weighted = tmp_path / "weighted.cert"
    certification.certify(network, population=people, certificate=weighted, samples=10, jobs=1)
    plain = checker.check_certificate(weighted, network)
    assert plain.verdict == "restricted"
    assert list(plain.restricted) == ["population"]
    asked = AskedQuestion(population=people)
    assert checker.check_certificate(weighted, network, asked).verdict == "confirmed"
    masses = marginals[0].masses * np.linspace(1, 1.01, len(marginals[0].masses))
    others = ProductPopulation(
        "others", network.schema, (Marginal(marginals[0].attribute, masses / masses.sum()), *marginals[1:])
    )
    rejected(weighted, network, "population", population=others)

    def uniform(it: Opened) -> None:
        it.head["population"] = "everyone in the domain, uniformly"

    named = checker.check_certificate(forged(weighted, uniform, add_up=False), network)
    assert named.verdict == "restricted"
    assert named.population == "people weighed as the certificate states"


def test_fewer_protected_values_or_another_domain_are_no_lie_that_passes(honest):
    path, network = honest

    def fewer(it: Opened) -> None:
        it.head["protected"]["group"] = [0.0, 1.0]
        it.unfair[:] = 0

    rejected(forged(path, fewer), network, "group")

    def said(it: Opened) -> None:
        fewer(it)
        it.head["where"] = ["group in {a, b}"]

    found = checker.check_certificate(forged(path, said), network, sample=None)
    assert found.verdict == "restricted"
    assert found.restricted == {"group": "a, b"}
    asked = AskedQuestion(where=("group != c",))
    assert checker.check_certificate(forged(path, said), network, asked, sample=None).verdict == "confirmed"

    def outside(it: Opened) -> None:
        it.head["protected"]["group"] = [0.0, 7.0]

    rejected(forged(path, outside), network, "group")

    def overlong(it: Opened) -> None:
        it.head["attributes"][0]["last"] = 41.0

    rejected(forged(path, overlong), network, "age")


@pytest.mark.full
def test_conditions_and_thresholds_are_checked(tmp_path):
    network, path = _network(), tmp_path / "c.cert"
    for options in ({"where": ("age >= 18 and job in {x, z}",)}, {"threshold": 0.3}, {"where": ("group != b",)}):
        answer = certification.certify(network, certificate=path, samples=10, jobs=1, **options)
        assert checker.check_certificate(path, network, sample=None).verdict == "restricted"
        found = checker.check_certificate(path, network, AskedQuestion(**options), sample=None)
        assert found.verdict == "confirmed"
        assert found.certified == pytest.approx(answer.certified, abs=1e-8)

    def half(it: Opened) -> None:
        it.head["threshold"] = 0.5

    certification.certify(network, certificate=path, samples=10, jobs=1, threshold=0.3)
    assert checker.check_certificate(forged(path, half), network, sample=None).verdict == "not confirmed"


def test_a_recorder_refuses_what_it_cannot_keep(tmp_path):
    network = _network()
    with pytest.raises(OptionError, match="cannot be written"):
        certification.certify(network, certificate=tmp_path / "missing" / "c.cert", samples=10)
    from evenhand.certification.query.question import query_of

    def write_part() -> None:
        with CertificateWriter(tmp_path / "c.cert") as recorder:
            recorder.begin(query_of(network), network, "none")
            recorder.take(np.zeros((1, 3), dtype=int), np.ones((1, 3), dtype=int), np.ones(1), np.zeros(1))
            recorder.end()

    with pytest.raises(RuntimeError, match="domain"):
        write_part()
    assert list(tmp_path.iterdir()) == []


@settings(max_examples=scaled(80))
@given(seed=st.integers(0, 100_000))
def test_partitions_are_told_from_everything_else(seed):
    """Random cuts, boxes that no single cut parts, and then one box changed, against counting every cell."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(2, 9, size=rng.integers(1, 4))
    boxes = [(np.zeros(len(counts), dtype=int), counts - 1)]
    if len(counts) > 1 and (counts[:2] > 2).all():
        # A pinwheel: five boxes that no cut parts.
        x, y = counts[0] - 1, counts[1] - 1
        wheel = [
            ((0, 0), (x - 1, 0)),
            ((x, 0), (x, y - 1)),
            ((1, y), (x, y)),
            ((0, 1), (0, y)),
            ((1, 1), (x - 1, y - 1)),
        ]
        boxes = [
            (np.array([*a, *np.zeros(len(counts) - 2, dtype=int)]), np.array([*b, *(counts[2:] - 1)])) for a, b in wheel
        ]
    for _ in range(int(rng.integers(0, 120))):
        k, axis = int(rng.integers(len(boxes))), int(rng.integers(len(counts)))
        low, high = boxes[k]
        if low[axis] < high[axis]:
            cut = int(rng.integers(low[axis], high[axis]))
            left, right = high.copy(), low.copy()
            left[axis], right[axis] = cut, cut + 1
            boxes[k : k + 1] = [(low, left), (right, high)]
    if rng.integers(2):
        k = int(rng.integers(len(boxes)))
        boxes[k] = boxes[int(rng.integers(len(boxes)))]
    low, high = np.array([box[0] for box in boxes]), np.array([box[1] for box in boxes])
    covered = np.zeros(counts, dtype=int)
    for a, b in zip(low, high, strict=True):
        covered[tuple(slice(x, y + 1) for x, y in zip(a, b, strict=True))] += 1
    assert count_cells(low, high, counts) == covered.sum()
    assert is_partition(low, high, counts) == bool((covered == 1).all())


@pytest.mark.parametrize(
    ("name", "protected"), [("GC-1", "age"), ("AC-1", "sex"), ("AC-7", "race"), ("compas-1", "Race")]
)
def test_published_networks_are_confirmed(name, protected, tmp_path):
    network, path = real_network(name, protected), tmp_path / "c.cert"
    answer = certification.certify(network, certificate=path, max_boxes=1000, jobs=1, samples=10)
    found = checker.check_certificate(path, network, seed=1)
    assert found.verdict == "confirmed"
    assert found.checked == found.boxes
    assert found.draws is None
    assert not found.exact
    assert found.certified == pytest.approx(answer.certified, abs=1e-8)
