"""Boxes counted by sign patterns in certificate files: the checker counts them again, and nothing beyond the truth."""

import itertools
from pathlib import Path

import numpy as np
import pytest
from cases import callable_kernel, random_case, real_network
from forgery import WHOLE, Opened, forged
from hypothesis import given, settings
from hypothesis import strategies as st

from evenhand import certification, checker
from evenhand.certification.bounds.compiled.engine import compile_bounder
from evenhand.certification.bounds.joint import EFFORTS
from evenhand.certification.certificate.record import CertificateWriter
from evenhand.certification.query.question import query_of
from evenhand.checker.floats.bounds import bound_arrays
from evenhand.checker.floats.network import float_network_of
from evenhand.checker.floats.patterns import count_patterns, counts_patterns, pattern_arrays
from evenhand.checker.form import form_of
from evenhand.checker.network import recorded_question_of
from evenhand.models import AdditiveNetwork
from support import scaled

COUNT_PATTERNS = callable_kernel(count_patterns)


def recorded(network: AdditiveNetwork, path: Path, max_boxes: int) -> Path:
    """A certificate whose partly decided boxes are all counted jointly."""
    first = path.with_name("lines.cert")
    certification.certify(network, certificate=first, max_boxes=max_boxes, jobs=1, samples=5, enumeration=False)
    part = checker.read_certificate(first).partitions[0]
    query = query_of(network)
    joint = compile_bounder(query, 1).joint
    assert joint is not None
    shares = np.stack([part.fair, part.unfair], axis=1) / WHOLE
    counted = np.maximum(shares, joint.count(part.low, part.high, EFFORTS[1]))
    jointly = (counted > shares).any(axis=1)
    assert jointly.any()
    with CertificateWriter(path) as writer:
        writer.begin(query, network, "linear")
        writer.take(part.low, part.high, counted[:, 0], counted[:, 1], jointly.astype(np.uint8))
        writer.end()
    return path


def test_a_real_network_counted_jointly_is_confirmed_and_no_more_than_that(tmp_path: Path) -> None:
    network = real_network("AC-2", "sex")
    path = recorded(network, tmp_path / "c.cert", 1000)
    found = checker.check_certificate(path, network, sample=30, seed=1, exact=0)
    assert found.verdict == "confirmed"
    assert found.exact == 0
    claim = checker.read_certificate(path)
    assert {each["by"] for each in claim.proofs} == {"lines", "patterns"}
    assert set(claim.partitions[0].proof.tolist()) == {0, 1}

    def verdicts_swapped(it: Opened) -> None:
        it.fair, it.unfair = it.unfair, it.fair

    lie = checker.check_certificate(forged(path, verdicts_swapped), network, sample=3, seed=1, exact=0)
    assert lie.verdict == "not confirmed"


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=scaled(60), deadline=None)
def test_counted_shares_are_never_above_those_of_everybody(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    case = random_case(seed, free=4)
    network = case.network
    if len(network.layers) != 1 or len(network.classes) > 2:
        return
    path = tmp_path_factory.mktemp("patterns") / "c.cert"
    certification.certify(network, population=case.population, certificate=path, max_boxes=1, jobs=1, samples=5)
    asked = checker.AskedQuestion(population=case.population)
    question = recorded_question_of(checker.read_certificate(path), network, asked)
    held = float_network_of(question, form_of(question))
    if question.constant or held is None or not counts_patterns(held) or not question.axes:
        return
    rng = np.random.default_rng(seed)
    counts = [axis.count for axis in question.axes]
    low, high = np.sort(np.stack([rng.integers(counts), rng.integers(counts)]), axis=0)
    cells = np.array(list(itertools.product(*(range(a, b + 1) for a, b in zip(low, high, strict=True)))))
    mass = np.ones(len(cells))
    free = [axis.position for axis in question.axes]
    rows = np.empty((len(cells), len(network.schema.attributes)))
    for i, axis in enumerate(question.axes):
        mass *= axis.before(cells[:, i] + 1) - axis.before(cells[:, i])
        rows[:, free[i]] = axis.entries(cells[:, i])[0]
    named = question.statement.protected
    labels = []
    for entries in itertools.product(*named.values()):
        rows[:, [network.schema.position(name) for name in named]] = entries
        labels.append(network.predict(rows))
    same = (np.array(labels) == labels[0]).all(axis=0)
    bounds, work = bound_arrays(held, 6), pattern_arrays(held)
    for nodes in (1, 4, 4096):
        fair, unfair = COUNT_PATTERNS(held, nodes, low.astype(np.int64), high.astype(np.int64), bounds, work)
        assert 0 <= fair <= mass[same].sum() / mass.sum() + 1e-12
        assert 0 <= unfair <= mass[~same].sum() / mass.sum() + 1e-12
