"""A corpus of forged certificates, checksums and totals recomputed: each kind is refused, or named in the verdict."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from forgery import WHOLE, Boxes, Opened, closed, opened
from hypothesis import given, settings
from hypothesis import strategies as st
from test_forgeries import SIZES, is_true, makes_sense, small_network

from evenhand import certification, checker
from evenhand.checker.question import AskedQuestion
from evenhand.models import AdditiveNetwork
from evenhand.models.additive.network import AffineLayer
from support import scaled

REFUSED = ("rejected", "not confirmed")
NAMED = (*REFUSED, "restricted")
AGE, HOURS = 0, 1
"""Places of the attributes that are not protected."""

ASKED = AskedQuestion(threshold=0.62)
"""Some people of the small network are treated unfairly at this threshold, and most are not."""

Lie = Callable[[Opened], None]
KINDS: dict[str, tuple[Lie, tuple[str, ...]]] = {}


def kind(expected: tuple[str, ...] = REFUSED) -> Callable[[Lie], Lie]:
    """Enter a kind of forgery, and which verdicts are right for it."""

    def enter(lie: Lie) -> Lie:
        KINDS[lie.__name__] = lie, expected
        return lie

    return enter


def is_fair(it: Opened) -> int:
    """A box that is fair as a whole."""
    return int(np.flatnonzero(it.fair == WHOLE)[0])


def drop(boxes: Boxes, k: int) -> None:
    for name in ("low", "high", "fair", "unfair"):
        setattr(boxes, name, np.delete(getattr(boxes, name), k, axis=0))


def append(boxes: Boxes, other: Boxes) -> None:
    for name in ("low", "high", "fair", "unfair"):
        setattr(boxes, name, np.concatenate([getattr(boxes, name), getattr(other, name)]))


def header(changes: dict[tuple[Any, ...], Any], shares: tuple[int, int] | None = None) -> Lie:
    """Change entries of the header by their place in it, and the shares of all boxes."""

    def lie(it: Opened) -> None:
        for (*path, last), value in changes.items():
            place: Any = it.head
            for key in path:
                place = place[key]
            place[last] = copy.deepcopy(value)
        if shares is not None:
            it.fair[:], it.unfair[:] = shares

    return lie


def add(*path: Any, change: int) -> Lie:
    """Change a number of the header."""

    def lie(it: Opened) -> None:
        it.head[path[0]][path[1]][path[2]] += change

    return lie


FAIR_FOR_ALL, GROUP = (WHOLE, 0), ("protected",)
REFUSED_LIES: dict[str, Lie] = {
    "conditions_over_unrestricted_cells": header({("where",): ["age >= 99"]}),
    "conditions_that_most_cells_do_not_meet": header({("where",): ["age >= 5"]}),
    "conditions_that_cannot_be_read": header({("where",): ["everybody"]}),
    "conditions_on_nothing_known": header({("where",): ["income > 3"]}),
    "no_protected_values": header({("protected",): {"group": []}}),
    "nothing_is_protected": header({("protected",): {}}),
    "protected_values_twice": header({("protected",): {"group": [0.0, 1.0, 1.0]}}),
    "protected_values_outside_the_domain": header({("protected",): {"group": [0.0, 1.0, 2.0, 3.0]}}),
    "another_attribute_is_protected": header({("protected",): {"hours": [0.0, 1.0]}}),
    "a_gap_in_the_domain": header({("attributes", AGE, "values"): 2}),
    "an_attribute_of_another_name": header({("attributes", HOURS, "name"): "pay"}),
    "another_form_of_cells": header({("attributes", AGE, "form"): "even"}),
    "another_digest": header({("model", "fingerprint"): "0" * 64}),
    "another_kind_of_model": header({("model", "kind"): "trees"}),
    "a_threshold_beyond_one": header({("threshold",): 1.5}),
    "a_threshold_that_is_no_number": header({("threshold",): math.nan}),
    "an_infinite_tolerance": header({("threshold",): None, ("tolerance",): math.inf}),
    "a_tolerance_beside_a_threshold": header({("threshold",): 0.5, ("tolerance",): 0.1}),
    "bands_that_decrease": header({("threshold",): None, ("bands",): [0.6, 0.3]}),
    "more_outcomes_than_are_counted": header({("outcomes",): [2, 3]}),
    "rounding_of_another_arithmetic": header({("slack", "unit"): 2.0**-53}),
    "no_slack_for_the_activation": header({("slack", "activation"): 0.0}),
    "more_is_said_of_rounding": header({("slack", "says"): "holds for every arithmetic"}),
    "a_method_of_its_own": header({("method",): "confirmed by a notary"}),
    "one_more_field": header({("confirmed",): True}),
    "another_format": header({("format",): 2}),
    "shares_in_other_parts": header({("whole",): 2**16}),
    "one_protected_value": header({GROUP: {"group": [0.0]}}, FAIR_FOR_ALL),
    "one_protected_value_with_its_condition": header(
        {GROUP: {"group": [0.0]}, ("where",): ["group == 0"]}, FAIR_FOR_ALL
    ),
    "a_pair_is_dropped": header({GROUP: {"group": [0.0, 1.0]}}),
    "only_three_outcomes_count": header({("outcomes",): [3]}, FAIR_FOR_ALL),
    "everything_is_fair": header({}, FAIR_FOR_ALL),
    "everything_is_unfair": header({}, (0, WHOLE)),
    "a_wider_domain": add("attributes", AGE, "last", change=1),
    "a_domain_that_begins_later": add("attributes", HOURS, "first", change=1),
    "fewer_cells_than_boxes_have": add("attributes", AGE, "cells", change=-1),
    "attributes_in_another_order": lambda it: it.head["attributes"].reverse(),
    "negative_masses": lambda it: it.list_weights(AGE, [-1] + [1] * (SIZES[0] - 1)),
    "no_masses": lambda it: it.list_weights(AGE, [0] * SIZES[0]),
    "a_box_less": lambda it: drop(it.questions[0], 0),
    "two_certificates_merged": lambda it: append(it.questions[0], copy.deepcopy(it.questions[0])),
    "questions_twice": lambda it: it.questions.append(copy.deepcopy(it.questions[0])),
}
NAMED_LIES: dict[str, Lie] = {
    "some_people_weigh_a_little_more": lambda it: it.list_weights(AGE, [10**6 + 10 * cell for cell in range(SIZES[0])]),
    "a_pair_is_dropped_with_its_condition": header({GROUP: {"group": [0.0, 1.0]}, ("where",): ["group < 2"]}),
    "another_threshold": header({("threshold",): 0.3}),
    "a_threshold_that_nobody_reaches": header({("threshold",): 1 - 2**-30}, FAIR_FOR_ALL),
    "a_huge_tolerance": header({("threshold",): None, ("tolerance",): 1e9}, FAIR_FOR_ALL),
    "bands_instead_of_labels": header({("threshold",): None, ("bands",): [0.999]}, (0, 0)),
}
KINDS |= {name: (lie, REFUSED) for name, lie in REFUSED_LIES.items()}
KINDS |= {name: (lie, NAMED) for name, lie in NAMED_LIES.items()}


# Whom it is about, and what they weigh.


@kind(NAMED)
def all_mass_on_one_fair_box(it: Opened) -> None:
    k = is_fair(it)
    for i, size in enumerate((SIZES[0], SIZES[2])):
        inside = range(it.low[k, i], it.high[k, i] + 1)
        it.list_weights(i, [1 if cell in inside else 0 for cell in range(size)])
    it.head["population"] = "everyone in the domain, uniformly"


@kind()
def masses_of_too_few_cells(it: Opened) -> None:
    it.list_weights(AGE, [1] * SIZES[0])
    it.list_weights(HOURS, [1] * (SIZES[2] - 1))


@kind()
def a_narrowed_domain(it: Opened) -> None:
    it.head["attributes"][AGE] |= {"cells": 3, "last": 2}
    keep = it.high[:, AGE] <= 2
    for k in np.flatnonzero(~keep)[::-1]:
        drop(it.questions[0], k)


@kind(NAMED)
def a_narrowed_domain_with_its_condition(it: Opened) -> None:
    """What an honest certificate about fewer people says too."""
    it.head["where"] = ["age <= 2"]
    it.head["attributes"][AGE] |= {"cells": 3, "last": 2}
    cells = [(a, b) for a in range(3) for b in range(SIZES[2])]
    n = len(cells)
    it.questions = [Boxes(np.array(cells), np.array(cells), *np.zeros((2, n), dtype=np.int64), {"of": str(n * WHOLE)})]


@kind()
def an_attribute_twice(it: Opened) -> None:
    it.head["attributes"][HOURS] = dict(it.head["attributes"][AGE])


# Which model, and which question.


@kind()
def labels_swapped(it: Opened) -> None:
    """Of the schema in the file alone: the model's own schema is the one that counts."""
    it.head["schema"]["target"]["values"].reverse()
    it.fair, it.unfair = it.unfair, it.fair


@kind()
def a_question_is_dropped(it: Opened) -> None:
    it.head["outcomes"] = []
    it.questions = []


@kind()
def one_field_less(it: Opened) -> None:
    del it.head["bands"]


# What is claimed of boxes.


@kind()
def verdicts_swapped(it: Opened) -> None:
    it.fair, it.unfair = it.unfair, it.fair


@kind()
def almost_one_box_more(it: Opened) -> None:
    k = int(np.flatnonzero(it.unfair == WHOLE)[0])
    it.fair[k], it.unfair[k] = WHOLE - 1, 0


@kind()
def a_single_part_too_much(it: Opened) -> None:
    k = int(np.flatnonzero(it.unfair == WHOLE)[0])
    it.fair[k], it.unfair[k] = 1, WHOLE - 1


@kind()
def shares_beyond_the_whole(it: Opened) -> None:
    k = is_fair(it)
    it.unfair[k] = 1


@kind()
def shares_exchanged(it: Opened) -> None:
    a, b = is_fair(it), int(np.flatnonzero(it.unfair == WHOLE)[0])
    it.fair[[a, b]], it.unfair[[a, b]] = it.fair[[b, a]], it.unfair[[b, a]]


@kind()
def a_box_twice(it: Opened) -> None:
    one = copy.deepcopy(it.questions[0])
    for k in range(len(one.low) - 1, 0, -1):
        drop(one, k)
    append(it.questions[0], one)


@kind()
def a_fair_box_in_the_place_of_another(it: Opened) -> None:
    sizes = (it.high - it.low).tolist()
    pairs = ((j, k) for j in range(len(sizes)) for k in range(len(sizes)) if j != k and sizes[j] == sizes[k])
    other, k = next((j, k) for j, k in pairs if it.fair[k] == WHOLE)
    it.low[other], it.high[other], it.fair[other], it.unfair[other] = it.low[k], it.high[k], WHOLE, 0


@kind()
def a_box_that_is_wider(it: Opened) -> None:
    k = int(np.flatnonzero(it.high[:, AGE] < SIZES[0] - 1)[0])
    it.high[k, AGE] += 1


@kind()
def a_box_beyond_the_domain(it: Opened) -> None:
    k = int(np.flatnonzero(it.high[:, AGE] == SIZES[0] - 1)[0])
    it.high[k, AGE] += 1


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate with boxes of every kind: fair, unfair, partly decided, and open ones."""
    path = tmp_path_factory.mktemp("kinds") / "c.cert"
    certification.certify(
        small_network(),
        certificate=path,
        jobs=1,
        samples=5,
        threshold=0.62,
        enumeration=False,
        max_boxes=300,
        method="interval",
    )
    found = checker.check_certificate(path, small_network(), ASKED)
    assert found.verdict == "confirmed"
    assert found.certified
    assert found.falsified
    return path


def check(path: Path, network: AdditiveNetwork | None = None) -> checker.CertificateCheck:
    return checker.check_certificate(path, network or small_network(), ASKED, sample=None)


@pytest.mark.parametrize("name", sorted(KINDS))
def test_forgeries_are_refused_or_named(name: str, honest: Path, tmp_path: Path) -> None:
    lie, expected = KINDS[name]
    it = opened(honest)
    lie(it)
    if it.questions and name not in ("fewer_cells_than_boxes_have", "masses_of_too_few_cells", "a_gap_in_the_domain"):
        it.add_up()
    closed(it, tmp_path / "forged.cert")
    found = check(tmp_path / "forged.cert")
    assert found.verdict in expected, found
    assert (found.verdict == "rejected") == (found.fault is not None)
    assert (found.verdict == "restricted") <= bool(found.restricted)


@pytest.mark.parametrize("name", ["certified", "falsified", "of", "boxes"])
def test_totals_that_are_not_those_of_the_boxes_are_refused(name: str, honest: Path, tmp_path: Path) -> None:
    it = opened(honest)
    it.totals[name] = type(it.totals[name])(int(it.totals[name]) + 1)
    closed(it, tmp_path / "forged.cert")
    assert check(tmp_path / "forged.cert").verdict == "rejected"


@pytest.mark.parametrize("change", [{"note": "1"}, {"boxes": True}, {"of": None}])
def test_totals_with_other_data_are_refused(change: dict[str, Any], honest: Path, tmp_path: Path) -> None:
    it = opened(honest)
    it.totals |= change
    closed(it, tmp_path / "forged.cert")
    assert check(tmp_path / "forged.cert").verdict == "rejected"


def _one_bit(network: AdditiveNetwork) -> AdditiveNetwork:
    weights = network.layers[0].weights.copy()
    weights[0, 0] = np.nextafter(weights[0, 0], np.inf)
    return replace(network, layers=(AffineLayer(weights, network.layers[0].bias),))


@pytest.mark.parametrize(
    "change",
    [
        _one_bit,
        lambda network: replace(network, bias=-network.bias),
        lambda network: replace(network, classes=network.classes[::-1]),
    ],
    ids=["one bit of a weight", "biases", "labels swapped"],
)
def test_another_model_is_refused(change: Callable[[AdditiveNetwork], AdditiveNetwork], honest: Path) -> None:
    assert check(honest, change(small_network())).verdict == "rejected"


def test_a_domain_that_only_the_file_states_is_named(honest: Path, tmp_path: Path) -> None:
    """Schema, digest, cells and boxes narrowed together: nothing in the file contradicts it, and so it is named."""
    it = opened(honest)
    asked = replace(ASKED, domain_given=False)
    closed(it, tmp_path / "forged.cert")
    found = checker.check_certificate(tmp_path / "forged.cert", small_network(), asked)
    assert found.verdict == "restricted"
    assert list(found.restricted) == ["domain"]


@settings(max_examples=scaled(150), deadline=None)
@given(seed=st.integers(0, 10**9))
def test_lies_upon_lies_never_pass(seed: int, honest: Path) -> None:
    """Up to three kinds at once, in any order: what is confirmed is true, and about the question asked."""
    assert fuzz(seed, honest)[1] in (*NAMED, "confirmed")


@pytest.mark.slow
def test_thousands_of_lies_upon_lies_never_pass(honest: Path) -> None:
    for seed in range(5000):
        fuzz(seed, honest)


def fuzz(seed: int, honest: Path) -> tuple[list[str], str]:
    """Forge and check a certificate at random; return how, and the verdict."""
    rng = np.random.default_rng(seed)
    it = opened(honest)
    names = [str(name) for name in rng.choice(sorted(KINDS), size=int(rng.integers(1, 4)), replace=False)]
    for name in names:
        try:
            KINDS[name][0](it)
        except (IndexError, StopIteration, KeyError, ValueError):
            continue
    try:
        if rng.integers(8):
            it.add_up()
        path = honest.with_name("fuzzed.cert")
        closed(it, path)
    except (ValueError, IndexError, OverflowError, AssertionError, AttributeError):
        return names, "rejected"
    found = check(path)
    head: dict[str, Any] = it.head
    if found.verdict == "confirmed":
        assert makes_sense(it), (seed, names)
        assert is_true(it), (seed, names)
        assert sorted(head["protected"]["group"]) == [0, 1, 2], (seed, names)
        assert (head["tolerance"], head["bands"], head["threshold"]) == (None, [], 0.62), seed
    return names, found.verdict
