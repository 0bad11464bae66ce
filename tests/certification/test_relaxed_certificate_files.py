"""Certificate files of questions with tolerances: honest ones are confirmed, nothing beyond the truth is."""

from pathlib import Path

import numpy as np
import pytest
from cases import random_case, real_network
from forgery import WHOLE, Opened, forged
from hypothesis import given, settings
from hypothesis import strategies as st
from test_queries import asked_of, naive, step_network

from evenhand import certification, checker
from evenhand.checker.question import AskedQuestion
from support import scaled


def asked(options: dict, population: object = None) -> AskedQuestion:
    return AskedQuestion(
        where=tuple(options.get("where", ())),
        relaxed=options["relax"],
        threshold=options.get("threshold"),
        population=population,
    )


@pytest.fixture
def step_file(tmp_path: Path) -> Path:
    """Whose x is 2 or less is close to nobody who is treated otherwise."""
    path = tmp_path / "c.cert"
    certification.certify(step_network(), relax={"x": 1}, certificate=path, enumeration=False, jobs=1, samples=5)
    return path


def check(path: Path, relax: dict) -> checker.CertificateCheck:
    return checker.check_certificate(path, step_network(), asked({"relax": relax}), sample=None)


def test_by_hand(step_file: Path) -> None:
    made = certification.certify(step_network(), relax={"x": 1}, jobs=1)
    found = check(step_file, {"x": 1})
    assert found.verdict == "confirmed"
    assert found.relaxed == {"x": 1}
    assert (found.certified, found.falsified) == pytest.approx((made.certified, made.falsified), abs=1e-8)
    for other in ({}, {"x": 2}):
        assert list(check(step_file, other).restricted) == ["relaxed"]


def wider(it: Opened) -> None:
    it.head["relax"] = {"x": 3}


def narrower(it: Opened) -> None:
    it.head["relax"] = {}


def of_nobody(it: Opened) -> None:
    it.head["relax"] = {"nobody": 1}


def of_the_protected(it: Opened) -> None:
    it.head["relax"] = {next(iter(it.head["protected"])): 1}


def by_a_fraction(it: Opened) -> None:
    it.head["relax"] = {"x": 0.5}


def by_a_flag(it: Opened) -> None:
    it.head["relax"] = {"x": True}


def beyond_counting(it: Opened) -> None:
    it.head["relax"] = {"x": 10**6}


def a_list(it: Opened) -> None:
    it.head["relax"] = ["x"]


def of_trees(it: Opened) -> None:
    it.head["model"]["kind"] = "trees"


def everything_is_fair(it: Opened) -> None:
    it.fair[:], it.unfair[:] = WHOLE, 0


def everything_is_unfair(it: Opened) -> None:
    it.fair[:], it.unfair[:] = 0, WHOLE


LIES = [
    wider,
    narrower,
    of_nobody,
    of_the_protected,
    by_a_fraction,
    by_a_flag,
    beyond_counting,
    a_list,
    of_trees,
    everything_is_fair,
    everything_is_unfair,
]


@pytest.mark.parametrize("lie", LIES, ids=lambda lie: lie.__name__)
def test_forgeries_are_refused_or_named(lie: object, step_file: Path) -> None:
    assert callable(lie)
    found = check(forged(step_file, lie), {"x": 1})
    assert found.verdict in ("rejected", "not confirmed"), found


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=scaled(40), deadline=None)
def test_honest_ones_hold_and_everything_beyond_the_truth_does_not(
    tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    case = random_case(seed, free=3)
    options, allowed = asked_of(case, seed)
    truth = naive(case, options, allowed)
    if truth is None or not any(options["relax"].values()):
        return
    path = tmp_path_factory.mktemp("relaxed") / "c.cert"
    made = certification.certify(
        case.network,
        population=case.population,
        certificate=path,
        jobs=1,
        samples=5,
        max_boxes=60,
        enumeration=bool(seed % 2),
        **options,
    )
    question = asked(options, case.population)
    found = checker.check_certificate(path, case.network, question, sample=None)
    assert found.verdict == "confirmed", found
    assert (found.certified, found.falsified) == pytest.approx((made.certified, made.falsified), abs=1e-6)
    # All of the domain in one box: confirmed for as much as is true, at most.
    for fair in (True, False):

        def one_claim(it: Opened, fair: bool = fair) -> None:
            it.fair[:], it.unfair[:] = (WHOLE, 0) if fair else (0, WHOLE)

        total = made.certified if fair else made.falsified
        if total < 1 and truth[0 if fair else 1] < 1:
            lie = forged(path, one_claim, add_up=all(each.get("values", 1) == 1 for each in heads(path)))
            assert checker.check_certificate(lie, case.network, question, sample=None).verdict != "confirmed"


def heads(path: Path) -> list[dict]:
    from forgery import opened

    return opened(path).head["attributes"]


def test_a_real_network(tmp_path: Path) -> None:
    network = real_network("AC-5", "sex")
    relax = {"age": 1}
    path = tmp_path / "c.cert"
    made = certification.certify(network, relax=relax, certificate=path, max_boxes=400, jobs=1, samples=5)
    found = checker.check_certificate(path, network, asked({"relax": relax}), sample=12, seed=1)
    assert found.verdict == "confirmed"
    assert np.isclose(found.certified or 0.0, made.certified, atol=1e-6)
