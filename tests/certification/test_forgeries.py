"""Certificates about tolerances, bands and outcomes: honest ones are confirmed, and no false one ever is."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cases import integer, random_case, schema_of
from forgery import WHOLE, Opened, closed, forged, opened
from hypothesis import given, settings
from hypothesis import strategies as st

from evenhand import certification, checker
from evenhand.checker.deployed import number_error_of
from evenhand.checker.form import form_of
from evenhand.checker.network import recorded_question_of
from evenhand.checker.question import AskedQuestion
from evenhand.models import AdditiveNetwork
from evenhand.models.additive.network import network_from_dense
from support import scaled

QUESTIONS: dict[str, dict[str, Any]] = {
    "tolerance": {"tolerance": 0.2},
    "bands": {"bands": (0.3, 0.6)},
    "outcomes": {"bands": (0.3, 0.6), "outcomes": 3},
}
ASKED = {
    name: AskedQuestion(tolerance=asked.get("tolerance"), bands=asked.get("bands", ()))
    for name, asked in QUESTIONS.items()
}
SIZES = (7, 3, 6)
"""Values of age, group (protected) and hours."""


@cache
def small_network() -> AdditiveNetwork:
    rng = np.random.default_rng(8)
    schema = schema_of(
        [
            integer("age", 0, SIZES[0] - 1),
            integer("group", 0, SIZES[1] - 1, protected=True),
            integer("hours", 0, SIZES[2] - 1),
        ]
    )
    first = rng.normal(size=(3, 6)) * np.array([[0.5], [0.8], [0.5]])
    return network_from_dense(
        schema, [(first, rng.normal(size=6)), (rng.normal(size=(6, 1)), np.array([0.1]))], name="small"
    )


def write(path: Path, question: str) -> None:
    certification.certify(
        small_network(), certificate=path, jobs=1, samples=5, enumeration=False, max_boxes=200, **QUESTIONS[question]
    )


# What is true, by asking everybody.


@cache
def numbers() -> np.ndarray:
    """The network's output for all (age, group, hours)."""
    rows = np.array(list(itertools.product(*map(range, SIZES))), dtype=np.float64)
    return small_network().logits(rows)[:, 0].reshape(SIZES)


def truth(head: dict[str, Any], least: int) -> tuple[np.ndarray, np.ndarray]:
    """Who is treated fairly and who unfairly, each of shape (ages, hours), as the head of a file asks."""
    given = numbers()[:, [int(entry) for entry in head["protected"]["group"]]]
    if head["tolerance"] is not None:
        unfair = np.ptp(given, axis=1) > head["tolerance"]
        return ~unfair, unfair
    limit = 0.5 if head["threshold"] is None else head["threshold"]
    edges = head["bands"] or [limit]
    ordered = np.sort(np.searchsorted(edges, 1 / (1 + np.exp(-given)), side="right"), axis=1)
    unfair = 1 + (ordered[:, 1:] != ordered[:, :-1]).sum(axis=1) >= least
    return ~unfair, unfair


def is_true(it: Opened) -> bool:
    """Whether every claim of a certificate whose head makes sense holds."""
    for least, boxes in zip(it.head["outcomes"], it.questions, strict=True):
        covered = np.zeros((SIZES[0], SIZES[2]), dtype=int)
        fair, unfair = truth(it.head, least)
        for k in range(len(boxes.low)):
            inside = tuple(slice(a, b + 1) for a, b in zip(boxes.low[k], boxes.high[k], strict=True))
            covered[inside] += 1
            for claimed, held in ((boxes.fair[k], fair[inside]), (boxes.unfair[k], unfair[inside])):
                if held.size == 0 or claimed > held.mean() * WHOLE:
                    return False
        mass = it.mass(boxes)
        sums = [str(int((mass * shares.astype(object)).sum())) for shares in (boxes.fair, boxes.unfair)]
        if (covered != 1).any() or sums != [boxes.totals["certified"], boxes.totals["falsified"]]:
            return False
        if (boxes.totals["boxes"], boxes.totals["of"]) != (len(mass), str(SIZES[0] * SIZES[2] * WHOLE)):
            return False
    return True


def makes_sense(it: Opened) -> bool:
    """Whether the head asks a question about this network at all."""
    head = it.head
    tolerance, bands, asked = head["tolerance"], head["bands"], head["outcomes"]
    cells = {each["name"]: (each["cells"], each["first"], each["last"]) for each in head["attributes"]}
    expected = {"age": (SIZES[0], 0, SIZES[0] - 1), "hours": (SIZES[2], 0, SIZES[2] - 1)}
    group = head["protected"]["group"]
    return (
        (tolerance is None or 0 <= tolerance < math.inf)
        and all(0 < edge < 1 for edge in bands)
        and all(a < b for a, b in itertools.pairwise(bands))
        and (head["threshold"] is None or 0 < head["threshold"] < 1)
        and (tolerance is not None) + bool(bands) + (head["threshold"] is not None) <= 1
        and asked == list(range(2, 2 + len(it.questions)))
        and bool(asked)
        and (tolerance is None or len(asked) == 1)
        and bool(group)
        and len(set(group)) == len(group)
        and all(entry in range(SIZES[1]) for entry in group)
        and head["whole"] == WHOLE
        and cells == expected
    )


# Lies.


@dataclass
class Forger:
    """Changes a certificate in one place."""

    rng: np.random.Generator

    def pick(self, it: Opened) -> tuple[Any, int]:
        boxes = it.questions[int(self.rng.integers(len(it.questions)))]
        return boxes, int(self.rng.integers(len(boxes.low)))

    def tolerance(self, it: Opened) -> None:
        held = it.head["tolerance"]
        other = [math.nan, math.inf, -1.0, 0.0, None, 0.2 * float(self.rng.uniform(0.2, 3))]
        it.head["tolerance"] = other[int(self.rng.integers(len(other)))] if held is not None else 0.2

    def bands(self, it: Opened) -> None:
        edges = [[], [0.6, 0.3], [0.3, 0.3], [0.3, math.nan], [0.0, 0.5], [0.5], [0.3], [0.25, 0.6], [0.3, 0.6, 0.8]]
        moved = [sorted(float(each) for each in self.rng.uniform(0.05, 0.95, int(self.rng.integers(1, 4))))]
        choice = edges + moved * 5
        it.head["bands"] = choice[int(self.rng.integers(len(choice)))]

    def threshold(self, it: Opened) -> None:
        it.head["threshold"] = [0.3, math.nan, 1.5][int(self.rng.integers(3))]
        if self.rng.integers(2):
            it.head["bands"], it.head["tolerance"] = [], None

    def outcomes(self, it: Opened) -> None:
        others = [[], [2], [3], [2, 3], [3, 2], [2, 2], [2, 3, 4], [1, 2]]
        it.head["outcomes"] = others[int(self.rng.integers(len(others)))]

    def questions(self, it: Opened) -> None:
        if self.rng.integers(2):
            it.questions.reverse()
        elif len(it.questions) > 1:
            it.questions.pop(int(self.rng.integers(2)))

    def protected(self, it: Opened) -> None:
        others = [[0, 1], [0, 2], [1, 2], [0], [0, 1, 1], [0, 1, 7], [0, 1, math.nan], []]
        it.head["protected"]["group"] = others[int(self.rng.integers(len(others)))]

    def domain(self, it: Opened) -> None:
        attribute = it.head["attributes"][int(self.rng.integers(2))]
        name = ["first", "last", "cells"][int(self.rng.integers(3))]
        attribute[name] += int(self.rng.choice([-1, 1]))

    def whole(self, it: Opened) -> None:
        it.head["whole"] = WHOLE - 1

    def share(self, it: Opened) -> None:
        boxes, k = self.pick(it)
        name = ["fair", "unfair"][int(self.rng.integers(2))]
        other = getattr(boxes, {"fair": "unfair", "unfair": "fair"}[name])
        column = getattr(boxes, name)
        column[k] = int(self.rng.integers(WHOLE + 1)) if self.rng.integers(2) else WHOLE
        other[k] = min(other[k], WHOLE - column[k])

    def verdict(self, it: Opened) -> None:
        boxes, k = self.pick(it)
        boxes.fair[k], boxes.unfair[k] = boxes.unfair[k], boxes.fair[k]

    def exchange(self, it: Opened) -> None:
        boxes, k = self.pick(it)
        other = int(self.rng.integers(len(boxes.low)))
        for column in (boxes.fair, boxes.unfair):
            column[k], column[other] = column[other], column[k]

    def missing(self, it: Opened) -> None:
        boxes, k = self.pick(it)
        for name in ("low", "high", "fair", "unfair"):
            setattr(boxes, name, np.delete(getattr(boxes, name), k, axis=0))

    def twice(self, it: Opened) -> None:
        boxes, k = self.pick(it)
        for name in ("low", "high", "fair", "unfair"):
            column = getattr(boxes, name)
            setattr(boxes, name, np.concatenate([column, column[k : k + 1]]))

    def moved(self, it: Opened) -> None:
        boxes, k = self.pick(it)
        column = [boxes.low, boxes.high][int(self.rng.integers(2))]
        i = int(self.rng.integers(2))
        column[k, i] = max(0, column[k, i] + int(self.rng.choice([-1, 1])))
        boxes.high[k] = np.maximum(boxes.high[k], boxes.low[k])

    def totals(self, it: Opened) -> None:
        boxes, _ = self.pick(it)
        name = ["certified", "falsified", "of"][int(self.rng.integers(3))]
        boxes.totals[name] = str(int(boxes.totals[name]) + int(self.rng.choice([-1, 1])))


LIES = [name for name in vars(Forger) if not name.startswith("_") and name != "pick"]


def forge(source: Path, target: Path, seed: int) -> tuple[str, bool]:
    """Write a changed certificate; return what was changed, and whether what it says is true all the same."""
    rng = np.random.default_rng(seed)
    it = opened(source)
    lie = LIES[int(rng.integers(len(LIES)))]
    getattr(Forger(rng), lie)(it)
    if lie != "totals" and rng.integers(8):
        it.add_up()
    closed(it, target)
    return lie, makes_sense(it) and is_true(it)


def check_forgery(source: Path, target: Path, seed: int) -> tuple[str, bool, str]:
    """Forge and check a certificate: what was changed, whether it is true all the same, and the verdict."""
    lie, true = forge(source, target, seed)
    asked = ASKED[source.stem]
    found = checker.check_certificate(target, small_network(), asked, sample=None)
    verdict = found.verdict
    assert true or verdict not in ("confirmed", "restricted"), (seed, lie)
    # What is confirmed answers the very question that was asked.
    head = opened(target).head
    same = (head["tolerance"], tuple(head["bands"]), head["threshold"] or 0.5) == (asked.tolerance, asked.bands, 0.5)
    assert verdict != "confirmed" or (same and sorted(head["protected"]["group"]) == [0, 1, 2]), (seed, lie)
    return lie, true, verdict


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("honest")
    found = {}
    for question in QUESTIONS:
        found[question] = folder / f"{question}.cert"
        write(found[question], question)
    return found


@settings(max_examples=scaled(60), deadline=None)
@given(seed=st.integers(0, 10**9), question=st.sampled_from(sorted(QUESTIONS)))
def test_no_false_certificate_is_confirmed(seed: int, question: str, honest: dict[str, Path]) -> None:
    check_forgery(honest[question], honest[question].with_name("forged.cert"), seed)


@pytest.mark.parametrize("question", QUESTIONS)
def test_honest_certificates_are_confirmed(question: str, honest: dict[str, Path]) -> None:
    it = opened(honest[question])
    assert makes_sense(it)
    assert is_true(it)
    assert it.head["tolerance"] == QUESTIONS[question].get("tolerance")
    found = checker.check_certificate(honest[question], small_network(), ASKED[question], sample=None)
    assert found.verdict == "confirmed", found
    assert found.bands == QUESTIONS[question].get("bands", ())
    assert [each.least for each in found.outcomes] == ([2, 3] if question == "outcomes" else [])
    assert checker.CertificateCheck.from_json(found.to_json()) == found
    assert {"tolerance": "0.2", "bands": "0.3, 0.6", "outcomes": "at least 3"}[question] in found.summary()


def _smaller_tolerance(it: Opened) -> None:
    it.head["tolerance"] *= 0.5


def _greater_tolerance(it: Opened) -> None:
    it.head["tolerance"] *= 2


def _unfair_person(it: Opened) -> None:
    """Claim of somebody whose number changes by less that it changes by more."""
    k = int(np.flatnonzero(it.fair == WHOLE)[0])
    it.fair[k], it.unfair[k] = 0, WHOLE


@pytest.mark.parametrize("lie", [_smaller_tolerance, _greater_tolerance, _unfair_person])
def test_other_tolerances_and_false_counterexamples_are_not_confirmed(
    lie: Callable[[Opened], None], honest: dict[str, Path]
) -> None:
    found = checker.check_certificate(forged(honest["tolerance"], lie), small_network(), sample=None)
    assert found.verdict == "not confirmed", found


@pytest.mark.parametrize("deep", [False, True])
@pytest.mark.parametrize("question", ["tolerance", "bands", "outcomes"])
@settings(max_examples=scaled(6), deadline=None)
@given(seed=st.integers(0, 10_000))
def test_honest_certificates_of_random_networks_are_confirmed(
    question: str, deep: bool, seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    case = random_case(seed, real=seed % 4 == 0)
    labels = len(case.network.classes)
    if (question != "outcomes" and labels > 2) or (len(case.network.layers) > 1) != deep:
        return
    ask = {"outcomes": labels} if labels > 2 else QUESTIONS[question]
    path = tmp_path_factory.mktemp("random") / "c.cert"
    for how in ({}, {"enumeration": False, "max_boxes": 16}):
        answer = certification.certify(
            case.network, population=case.population, certificate=path, jobs=1, samples=5, **ask, **how
        )
        bands = ASKED[question].bands if labels == 2 else ()
        asked = replace(ASKED[question], population=case.population, bands=bands)
        found = checker.check_certificate(path, case.network, asked, sample=None)
        assert found.verdict == "confirmed", found
        assert (found.certified, found.falsified) == pytest.approx((answer.certified, answer.falsified), abs=1e-8)
        for one, other in zip(found.outcomes, answer.outcomes, strict=True):
            assert (one.least, one.proved) == (other.least, pytest.approx(other.proved, abs=1e-8))
            assert one.possible == pytest.approx(other.possible, abs=1e-8)


@settings(max_examples=scaled(30), deadline=None)
@given(seed=st.integers(0, 10_000))
def test_changes_of_the_checker_are_those_of_the_network(seed: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The layered form, computed in floats for everybody, gives the differences of outputs; float32 stays within."""
    network = random_case(seed).network
    if len(network.classes) > 2:
        return
    path = tmp_path_factory.mktemp("form") / "c.cert"
    certification.certify(network, tolerance=0.5, certificate=path, jobs=1, samples=5)
    question = recorded_question_of(checker.read_certificate(path), network)
    form = form_of(question)
    cells = np.array(list(itertools.product(*(range(axis.count) for axis in question.axes)))).reshape(
        -1, len(question.axes)
    )
    units = np.tile([float(entry) for entry in form.bases[0]], (len(cells), 1))
    for i, (axis, part) in enumerate(zip(question.axes, form.parts, strict=True)):
        units += part.at(axis.entries(cells[:, i])[0])
    caps = [np.inf if cap is None else float(cap) for cap in form.caps]
    for number, layer in enumerate(form.layers):
        units = np.clip(units, 0, caps if number == 0 else np.inf) @ layer.weights + layer.bias
    margins = np.stack([units[:, a] - (units[:, b] if b >= 0 else 0) for a, b in form.margins], axis=1) - 0.5
    change = np.abs(margins + 0.5).max(axis=1)
    schema = network.schema
    rows = np.zeros((len(cells), len(schema.attributes)))
    for i, axis in enumerate(question.axes):
        rows[:, axis.position] = axis.entries(cells[:, i])[0]
    given, single = [], []
    for assignment in schema.assignments():
        rows[:, schema.positions(schema.protected)] = assignment
        outputs = network.logits(rows)
        given.append(outputs[:, -1] - (outputs[:, 0] if outputs.shape[1] == 2 else 0))
        single.append(_float32_number(network, rows))
    assert change == pytest.approx(np.ptp(given, axis=0), abs=1e-9)
    assert np.abs(np.array(single) - given).max() <= float(number_error_of(question)) + 1e-12


def _float32_number(network: AdditiveNetwork, rows: np.ndarray) -> np.ndarray:
    units = np.tile(network.bias.astype(np.float32), (len(rows), 1))
    for i, part in enumerate(network.parts):
        units += part.at(rows[:, i]).astype(np.float32)
    for layer in network.layers:
        units = np.maximum(units, np.float32(0)) @ layer.weights.astype(np.float32) + layer.bias.astype(np.float32)
    return (units[:, -1] - (units[:, 0] if units.shape[1] == 2 else np.float32(0))).astype(np.float64)
