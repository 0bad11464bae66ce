"""Honest certificates are confirmed, and no false one ever is: lies are refused, or named in the verdict."""

from __future__ import annotations

import contextlib
import copy
import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cases import integer, random_case, schema_of
from forgery import WHOLE, Boxes, Opened, closed, forged, opened
from hypothesis import given, settings
from hypothesis import strategies as st

from evenhand import certification, checker
from evenhand.checker.deployed import number_error_of
from evenhand.checker.form import form_of
from evenhand.checker.network import recorded_question_of
from evenhand.checker.question import AskedQuestion
from evenhand.models import AdditiveNetwork
from evenhand.models.additive.network import AffineLayer, network_from_dense
from support import scaled

QUESTIONS: dict[str, dict[str, Any]] = {
    "tolerance": {"tolerance": 0.2},
    "bands": {"bands": (0.3, 0.6)},
    "outcomes": {"bands": (0.3, 0.6), "outcomes": 3},
    # At this threshold some people of the small network are treated unfairly, and most are not.
    "threshold": {"threshold": 0.62, "method": "interval"},
}
ASKED = {
    name: AskedQuestion(**{key: asked[key] for key in ("tolerance", "bands", "threshold") if key in asked})
    for name, asked in QUESTIONS.items()
}
SIZES = (7, 3, 6)
"""Values of age, group (protected) and hours."""
AGE, HOURS = 0, 1
"""Places of the attributes that are not protected."""
REFUSED = ("rejected", "not confirmed")
NAMED = (*REFUSED, "restricted")

Lie = Callable[[Opened], object]


@cache
def small_network() -> AdditiveNetwork:
    rng = np.random.default_rng(8)
    group = integer("group", 0, SIZES[1] - 1, protected=True)
    schema = schema_of([integer("age", 0, SIZES[0] - 1), group, integer("hours", 0, SIZES[2] - 1)])
    first = rng.normal(size=(3, 6)) * np.array([[0.5], [0.8], [0.5]])
    return network_from_dense(
        schema, [(first, rng.normal(size=6)), (rng.normal(size=(6, 1)), np.array([0.1]))], name="small"
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


def keep(boxes: Boxes, index: Any) -> None:
    """Keep some boxes, or some of them twice."""
    for name in ("low", "high", "fair", "unfair"):
        setattr(boxes, name, getattr(boxes, name)[index])


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


def add(i: int, name: str, change: int) -> Lie:
    """Change a number of an attribute."""

    def lie(it: Opened) -> None:
        it.head["attributes"][i][name] += change

    return lie


def claim(which: str, fair: int, unfair: int) -> Lie:
    """Claim these shares of the first box that is fair, or unfair, as a whole."""

    def lie(it: Opened) -> None:
        k = int(np.flatnonzero(getattr(it, which) == WHOLE)[0])
        it.fair[k], it.unfair[k] = fair, unfair

    return lie


def widen(*, beyond: bool) -> Lie:
    """Make a box one year wider, beyond the domain or not."""

    def lie(it: Opened) -> None:
        it.high[np.flatnonzero((it.high[:, AGE] == SIZES[0] - 1) == beyond)[0], AGE] += 1

    return lie


def swap_verdicts(it: Opened) -> None:
    it.fair, it.unfair = it.unfair, it.fair


def swap_labels(it: Opened) -> None:
    """Of the schema in the file alone: the model's own schema is the one that counts."""
    it.head["schema"]["target"]["values"].reverse()
    swap_verdicts(it)


def exchange_shares(it: Opened) -> None:
    pair = [int(np.flatnonzero(shares == WHOLE)[0]) for shares in (it.fair, it.unfair)]
    it.fair[pair], it.unfair[pair] = it.fair[pair[::-1]], it.unfair[pair[::-1]]


def repeat_a_fair_box(it: Opened) -> None:
    """Put it in the place of another one of the same size."""
    sizes = (it.high - it.low).tolist()
    pairs = itertools.permutations(range(len(sizes)), 2)
    other, k = next((j, k) for j, k in pairs if sizes[j] == sizes[k] and it.fair[k] == WHOLE)
    it.low[other], it.high[other], it.fair[other], it.unfair[other] = it.low[k], it.high[k], WHOLE, 0


def narrow(it: Opened) -> None:
    it.head["attributes"][AGE] |= {"cells": 3, "last": 2}
    keep(it.questions[0], it.high[:, AGE] <= 2)


def narrow_with_condition(it: Opened) -> None:
    """What an honest certificate about fewer people says too."""
    it.head["where"] = ["age <= 2"]
    it.head["attributes"][AGE] |= {"cells": 3, "last": 2}
    cells = np.array([(a, b) for a in range(3) for b in range(SIZES[2])])
    n = len(cells)
    it.questions = [Boxes(cells, cells, *np.zeros((2, n), dtype=np.int64), {"of": str(n * WHOLE)})]


def all_mass_on_one_fair_box(it: Opened) -> None:
    k = int(np.flatnonzero(it.fair == WHOLE)[0])
    for i, size in enumerate((SIZES[0], SIZES[2])):
        it.list_weights(i, [int(it.low[k, i] <= cell <= it.high[k, i]) for cell in range(size)])
    it.head["population"] = "everyone in the domain, uniformly"


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
    "a_wider_domain": add(AGE, "last", 1),
    "a_domain_that_begins_later": add(HOURS, "first", 1),
    "fewer_cells_than_boxes_have": add(AGE, "cells", -1),
    "a_narrowed_domain": narrow,
    "an_attribute_twice": lambda it: it.head["attributes"][HOURS].update(it.head["attributes"][AGE]),
    "attributes_in_another_order": lambda it: it.head["attributes"].reverse(),
    "negative_masses": lambda it: it.list_weights(AGE, [-1] + [1] * (SIZES[0] - 1)),
    "no_masses": lambda it: it.list_weights(AGE, [0] * SIZES[0]),
    "masses_of_too_few_cells": lambda it: it.list_weights(HOURS, [1] * (SIZES[2] - 1)),
    "labels_swapped": swap_labels,
    "one_field_less": lambda it: it.head.pop("bands"),
    "a_question_is_dropped": lambda it: (it.head["outcomes"].clear(), it.questions.clear()),
    "questions_twice": lambda it: it.questions.append(copy.deepcopy(it.questions[0])),
    "two_certificates_merged": lambda it: keep(it.questions[0], np.tile(np.arange(len(it.low)), 2)),
    "a_box_less": lambda it: keep(it.questions[0], slice(1, None)),
    "a_box_twice": lambda it: keep(it.questions[0], np.append(np.arange(len(it.low)), 0)),
    "a_fair_box_in_the_place_of_another": repeat_a_fair_box,
    "a_box_that_is_wider": widen(beyond=False),
    "a_box_beyond_the_domain": widen(beyond=True),
    "verdicts_swapped": swap_verdicts,
    "shares_exchanged": exchange_shares,
    "almost_one_box_more": claim("unfair", WHOLE - 1, 0),
    "a_single_part_too_much": claim("unfair", 1, WHOLE - 1),
    "shares_beyond_the_whole": claim("fair", WHOLE, 1),
}
NAMED_LIES: dict[str, Lie] = {
    "all_mass_on_one_fair_box": all_mass_on_one_fair_box,
    "a_narrowed_domain_with_its_condition": narrow_with_condition,
    "some_people_weigh_a_little_more": lambda it: it.list_weights(AGE, [10**6 + 10 * cell for cell in range(SIZES[0])]),
    "a_pair_is_dropped_with_its_condition": header({GROUP: {"group": [0.0, 1.0]}, ("where",): ["group < 2"]}),
    "another_threshold": header({("threshold",): 0.3}),
    "a_threshold_that_nobody_reaches": header({("threshold",): 1 - 2**-30}, FAIR_FOR_ALL),
    "a_huge_tolerance": header({("threshold",): None, ("tolerance",): 1e9}, FAIR_FOR_ALL),
    "bands_instead_of_labels": header({("threshold",): None, ("bands",): [0.999]}, (0, 0)),
}


OTHER_ENTRIES: dict[tuple[str, ...], list[Any]] = {
    ("tolerance",): [math.nan, math.inf, -1.0, 0.0, None, 0.05, 0.1, 0.3, 0.5],
    ("bands",): [[], [0.6, 0.3], [0.3, 0.3], [0.3, math.nan], [0.0, 0.5], [0.5], [0.3], [0.25, 0.6], [0.3, 0.6, 0.8]],
    ("threshold",): [None, 0.3, math.nan, 1.5],
    ("outcomes",): [[], [2], [3], [2, 3], [3, 2], [2, 2], [2, 3, 4], [1, 2]],
    ("protected", "group"): [[0, 1], [0, 2], [1, 2], [0], [0, 1, 1], [0, 1, 7], [0, 1, math.nan], []],
    ("whole",): [WHOLE - 1],
}


def change_header(it: Opened, rng: np.random.Generator) -> None:
    """Change one entry to one that makes sense or not, or an attribute's domain, or the questions' order."""
    entries = list(OTHER_ENTRIES)
    which = int(rng.integers(len(entries) + 2))
    if which < len(entries):
        others = OTHER_ENTRIES[entries[which]]
        header({entries[which]: others[int(rng.integers(len(others)))]})(it)
    elif which == len(entries):
        add(int(rng.integers(2)), str(rng.choice(["first", "last", "cells"])), int(rng.choice([-1, 1])))(it)
    elif rng.integers(2):
        it.questions.reverse()
    else:
        it.questions.pop()


def change_boxes(it: Opened, rng: np.random.Generator) -> None:
    """Change a box: its place, its shares, how often it is there."""
    boxes = it.questions[int(rng.integers(len(it.questions)))]
    (k, other), pair = rng.integers(len(boxes.low), size=2), (boxes.fair, boxes.unfair)
    one, two = pair[:: rng.choice([-1, 1])]
    match rng.integers(6):
        case 0:
            one[k] = rng.integers(WHOLE + 1) if rng.integers(2) else WHOLE
            two[k] = min(two[k], WHOLE - one[k])
        case 1:
            one[k], two[k] = two[k], one[k]
        case 2:
            for column in pair:
                column[[k, other]] = column[[other, k]]
        case 3:
            keep(boxes, np.delete(np.arange(len(boxes.low)), k))
        case 4:
            keep(boxes, np.append(np.arange(len(boxes.low)), k))
        case _:
            column, i = [boxes.low, boxes.high][rng.integers(2)], rng.integers(2)
            column[k, i] = max(0, column[k, i] + rng.choice([-1, 1]))
            boxes.high[k] = np.maximum(boxes.high[k], boxes.low[k])


def change_totals(it: Opened, rng: np.random.Generator) -> None:
    totals = it.questions[int(rng.integers(len(it.questions)))].totals
    name = str(rng.choice(["certified", "falsified", "of"]))
    totals[name] = str(int(totals[name]) + int(rng.choice([-1, 1])))


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("honest")
    options = {"jobs": 1, "samples": 5, "enumeration": False, "max_boxes": 300}
    for question, asked in QUESTIONS.items():
        certification.certify(small_network(), certificate=folder / f"{question}.cert", **options, **asked)
    return {question: folder / f"{question}.cert" for question in QUESTIONS}


def check(path: Path, question: str = "threshold", network: AdditiveNetwork | None = None) -> checker.CertificateCheck:
    return checker.check_certificate(path, network or small_network(), ASKED[question], sample=None)


@pytest.mark.parametrize("question", QUESTIONS)
def test_honest_certificates_are_confirmed(question, honest):
    """The one about a threshold, which lies are told in, has fair and unfair boxes, and open ones."""
    it = opened(honest[question])
    assert makes_sense(it)
    assert is_true(it)
    assert it.head["tolerance"] == QUESTIONS[question].get("tolerance")
    found = check(honest[question], question)
    assert found.verdict == "confirmed", found
    assert found.bands == QUESTIONS[question].get("bands", ())
    assert question != "threshold" or (found.certified > 0 and found.falsified > 0)
    assert [each.least for each in found.outcomes] == ([2, 3] if question == "outcomes" else [])
    assert checker.CertificateCheck.from_json(found.to_json()) == found
    said = {"tolerance": "0.2", "bands": "0.3, 0.6", "outcomes": "at least 3", "threshold": "0.62"}
    assert said[question] in found.summary()


@pytest.mark.parametrize(
    ("name", "lie", "expected"),
    [
        *((name, lie, REFUSED) for name, lie in REFUSED_LIES.items()),
        *((name, lie, NAMED) for name, lie in NAMED_LIES.items()),
    ],
)
def test_forgeries_are_refused_or_named(name, lie, expected, honest):
    sums = name not in ("a_question_is_dropped", "fewer_cells_than_boxes_have", "masses_of_too_few_cells")
    found = check(forged(honest["threshold"], lie, add_up=sums and name != "a_gap_in_the_domain"))
    assert found.verdict in expected, found
    assert (found.verdict == "rejected") == (found.fault is not None)
    assert (found.verdict == "restricted") <= bool(found.restricted)


@pytest.mark.parametrize("lie", [header({("tolerance",): 0.1}), header({("tolerance",): 0.4}), claim("fair", 0, WHOLE)])
def test_other_tolerances_and_false_counterexamples_are_not_confirmed(lie, honest):
    """The last claims of somebody whose number changes by less that it changes by more."""
    found = checker.check_certificate(forged(honest["tolerance"], lie), small_network(), sample=None)
    assert found.verdict == "not confirmed", found


@pytest.mark.parametrize(
    "change", ["certified", "falsified", "of", "boxes", {"note": "1"}, {"boxes": True}, {"of": None}]
)
def test_totals_that_are_not_those_of_the_boxes_are_refused(change, honest):
    def lie(it: Opened) -> None:
        known = isinstance(change, str)
        it.totals |= {change: type(it.totals[change])(int(it.totals[change]) + 1)} if known else change

    assert check(forged(honest["threshold"], lie, add_up=False)).verdict == "rejected"


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
def test_another_model_is_refused(change, honest):
    assert check(honest["threshold"], network=change(small_network())).verdict == "rejected"


def test_a_domain_that_only_the_file_states_is_named(honest):
    """Schema, digest, cells and boxes narrowed together: nothing in the file contradicts it, and so it is named."""
    asked = replace(ASKED["threshold"], domain_given=False)
    found = checker.check_certificate(honest["threshold"], small_network(), asked)
    assert found.verdict == "restricted"
    assert list(found.restricted) == ["domain"]


@settings(max_examples=scaled(300), deadline=None)
@given(seed=st.integers(0, 10**9), question=st.sampled_from([*QUESTIONS, "kinds"]))
def test_lies_upon_lies_never_pass(seed, question, honest):
    fuzz(seed, question, honest)


@pytest.mark.slow
def test_thousands_of_lies_upon_lies_never_pass(honest):
    for seed in range(5000):
        fuzz(seed, "kinds" if seed % 2 else sorted(QUESTIONS)[seed // 2 % 4], honest)


def fuzz(seed: int, question: str, honest: dict[str, Path]) -> None:
    """Up to three lies, of the named kinds or any others: what is confirmed is true, and about the question asked."""
    rng, kinds = np.random.default_rng(seed), REFUSED_LIES | NAMED_LIES
    named, question = question == "kinds", "threshold" if question == "kinds" else question
    it, path = opened(honest[question]), honest[question].with_name("forged.cert")
    try:
        for name in rng.choice(sorted(kinds), size=rng.choice([1, 1, 2, 3]), replace=False):
            with contextlib.suppress(IndexError, StopIteration, KeyError, ValueError):
                if named:
                    kinds[str(name)](it)
                else:
                    (change_header if rng.integers(2) else change_boxes)(it, rng)
        if rng.integers(8):
            it.add_up()
        if not named and rng.integers(8) == 0:
            change_totals(it, rng)
        closed(it, path)
    except (ValueError, IndexError, OverflowError, AssertionError, AttributeError):
        return  # No file can say that.
    verdict, head = check(path, question).verdict, opened(path).head
    # What is restricted by a named kind may be about other people.
    assert not (verdict == "confirmed" or (verdict == "restricted" and not named)) or (makes_sense(it) and is_true(it))
    if verdict == "confirmed":
        asked = ASKED[question]
        assert (head["tolerance"], tuple(head["bands"])) == (asked.tolerance, asked.bands)
        assert (head["threshold"] or 0.5) == (asked.threshold or 0.5)
        assert sorted(head["protected"]["group"]) == [0, 1, 2]


@pytest.mark.parametrize("deep", [False, True])
@pytest.mark.parametrize("question", ["tolerance", "bands", "outcomes"])
@settings(max_examples=scaled(6), deadline=None)
@given(seed=st.integers(0, 10_000))
def test_honest_certificates_of_random_networks_are_confirmed(question, deep, seed, tmp_path_factory):
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
def test_changes_of_the_checker_are_those_of_the_network(seed, tmp_path_factory):
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
