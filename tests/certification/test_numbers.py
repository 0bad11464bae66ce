"""Tolerances on numbers, bands of scores, and counts of outcomes: never more than the truth by asking everybody."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import partial

import numpy as np
import pytest
from cases import everybody, integer, random_case
from hypothesis import given, settings
from hypothesis import strategies as st
from test_tree_certificates import random_model

from evenhand import certification
from evenhand.certification import Certificate
from evenhand.certification.bounds.compiled.engine import compile_bounder
from evenhand.certification.query.bands import ScoreBands
from evenhand.certification.query.differences import difference_query_of, rewrite_differences
from evenhand.certification.query.outcomes import count_outcomes
from evenhand.models import AdditiveNetwork, TreeEnsemble
from evenhand.models.additive.network import AffineLayer, network_from_dense
from evenhand.population import ProductPopulation
from evenhand.schema import Schema
from support import scaled

SEEDS = st.integers(0, 10**6)
ROUNDING = 1e-9


def numbers_of(model, rows: np.ndarray) -> np.ndarray:
    """What a model's tolerance is about: its output, or the margin of its second label."""
    raw = model.raw(rows) if isinstance(model, TreeEnsemble) else model.logits(rows)
    return raw[:, -1] - raw[:, 0] if raw.shape[1] == 2 else raw[:, 0]


def check_shares(found: Certificate, mass: np.ndarray, unfair: np.ndarray, close: np.ndarray, *, whole: bool) -> None:
    """Compare a certificate with the truth; with ``whole`` it must be complete but for those too close to tell."""
    worse, same = float(mass[unfair].sum()), float(mass[~unfair].sum())
    assert found.falsified <= worse + ROUNDING
    assert found.certified <= same + ROUNDING
    if whole:
        assert found.undecided <= float(mass[close].sum()) + ROUNDING


def premiums(upper: int) -> Schema:
    """A premium of x, up to a number, and sex."""
    sex = {"name": "sex", "kind": "categorical", "values": ["f", "m"], "protected": True}
    target = {"name": "premium", "favourable": 1, "values": [0, 1]}
    return Schema.parse({"target": target, "attributes": [integer("x", 0, upper), sex]})


def premium_network(effect: float) -> AdditiveNetwork:
    """A premium of relu(10 x - 50 + effect * sex), for x in 0..9."""
    schema = premiums(9)
    return network_from_dense(
        schema, [(np.array([[10.0], [effect]]), np.array([-50.0])), (np.ones((1, 1)), np.zeros(1))]
    )


@pytest.mark.parametrize("options", [{}, {"enumeration": False}])
def test_a_change_by_hand(options: dict[str, object]) -> None:
    # relu(10 x - 50 + 20 s): for x = 0, 1, 2, 3 both are 0; x = 4 changes by 10; from x = 5 on by 20.
    found = certification.certify(premium_network(20.0), tolerance=15.0, jobs=1, **options)
    assert (found.certified, found.falsified) == pytest.approx((0.5, 0.5), abs=1e-9)
    found = certification.certify(premium_network(20.0), tolerance=5.0, jobs=1, **options)
    assert (found.certified, found.falsified) == pytest.approx((0.4, 0.6), abs=1e-9)
    found = certification.certify(premium_network(20.0), tolerance=20.5, jobs=1, **options)
    assert found.certified == 1.0


def test_a_change_is_bounded_by_the_envelope_of_the_clamp_that_it_is() -> None:
    """relu(x - 10 + 2 s) for x in 0..15 changes by x - 8 cut off at 0 and 2: at most x / 5 on the whole domain.

    That is below 1.5 up to x = 7, so that half of the domain is proved without a cut; it is true up to x = 9.
    """
    schema = premiums(15)
    network = network_from_dense(
        schema, [(np.array([[1.0], [2.0]]), np.array([-10.0])), (np.ones((1, 1)), np.zeros(1))]
    )
    bounder = compile_bounder(difference_query_of(network, 1.5), 1)
    fair, unfair = bounder.prove(bounder.root(), (4096, 4096))[0]
    assert (fair, unfair) == (pytest.approx(8 / 16, abs=1e-9), 0.0)


def test_a_number_that_nothing_protected_moves_does_not_change() -> None:
    assert certification.certify(premium_network(0.0), tolerance=0.0).certified == 1.0


def test_the_rewritten_network_gives_the_differences() -> None:
    """Whatever the numbers: the identities hold for every sign of the unit and of its change."""
    rng = np.random.default_rng(0)
    for depth in (1, 2, 3):
        sizes = [4, 3, 5][:depth]
        layers = [AffineLayer(rng.normal(size=(a, b)), rng.normal(size=b)) for a, b in itertools.pairwise([*sizes, 1])]
        biases = rng.integers(-2, 3, size=(3, 4)).astype(float)
        pairs = [(0, 1), (1, 0), (0, 2), (2, 0), (1, 2), (2, 1)]
        twin = rewrite_differences(biases, layers, pairs, 0.25)
        first = rng.normal(size=(50, 4)) * 2
        outputs = []
        for bias in biases:
            units = first + bias
            for layer in layers:
                units = np.maximum(units, 0) @ layer.weights + layer.bias
            outputs.append(units[:, 0])
        units = first[:, twin.units] + twin.biases
        for layer in twin.layers:
            units = np.maximum(units, 0) @ layer.weights + layer.bias
        wanted = np.stack([outputs[p] - outputs[q] - 0.25 for p, q in pairs], axis=1)
        assert np.allclose(units, wanted, atol=1e-12)


def test_outcomes_are_counted_by_hand() -> None:
    # Certainly 1, 2 or 4, and 1 or 2: at least three different, at most three.
    assert count_outcomes([0b001, 0b010, 0b100, 0b011]) == (3, 3)
    assert count_outcomes([0b001, 0b001, 0b001]) == (1, 1)
    # Two open ones that have no label in common are two at least; they may be any of four.
    assert count_outcomes([0b0011, 0b1100]) == (2, 2)
    assert count_outcomes([0b011, 0b110, 0b101]) == (1, 3)


def test_a_score_at_an_edge_lies_in_the_upper_band() -> None:
    bands = ScoreBands.of((0.3, 0.6), ("no", "yes"), 1)
    assert bands.of_scores(np.array([0.1, 0.3, 0.5, 0.6, 1.0])).tolist() == [0, 1, 1, 2, 2]
    assert bands.names == ("score below 0.3", "score 0.3 to 0.6", "score 0.6 or more")


def models_of(seed: int, labels: int = 2) -> Iterator[tuple[AdditiveNetwork | TreeEnsemble, ProductPopulation | None]]:
    """A random network and a random ensemble, each if it has at most so many labels, with their populations."""
    case = random_case(seed)
    for model, population in ((case.network, case.population), random_model(seed)):
        if len(model.classes) <= labels:
            yield model, population


@given(SEEDS, st.sampled_from([0.0, 0.1, 0.5, 1.0, 3.0]))
@settings(max_examples=scaled(60), deadline=None)
def test_a_change_of_a_number_is_never_proved_against_the_truth(seed: int, share: float) -> None:
    for model, population in models_of(seed):
        trees = isinstance(model, TreeEnsemble)
        _, mass, numbers = everybody(model, population, partial(numbers_of, model))
        change = np.ptp(numbers, axis=0)
        # Limits like those that matter: about the changes themselves, not at one of them exactly but for whole numbers.
        limit = share * float(np.median(change))
        close = np.abs(change - limit) < (1e-4 if trees else 1e-3) * (1 + np.abs(numbers).max())
        # Sums of the same leaves in another order differ by their rounding, which is no change.
        unfair = change > (max(limit, 1e-12) if trees else limit)
        for options in ({}, {"enumeration": False, "max_boxes": 5 if trees else 64}, {"enumeration": False})[
            : 2 + trees
        ]:
            found = certification.certify(model, tolerance=limit, population=population, jobs=1, samples=200, **options)
            check_shares(found, mass, unfair, close, whole="max_boxes" not in options)
            for pair in found.counterexamples:
                first, second = (float(text.replace(",", "")) for text in (pair.first_label, pair.second_label))
                assert abs(first - second) > limit * (1 - 1e-4) - 1e-4


@given(SEEDS, st.lists(st.floats(0.05, 0.95), min_size=1, max_size=3, unique=True))
@settings(max_examples=scaled(60), deadline=None)
def test_bands_of_a_score_are_never_proved_against_the_truth(seed: int, edges: list[float]) -> None:
    edges = sorted(round(edge, 3) for edge in edges)
    if len(set(edges)) < len(edges):
        return
    for model, population in models_of(seed):
        _, mass, scores = everybody(model, population, lambda rows, m=model: m.scores(rows)[:, m.favourable])
        bands = np.searchsorted(edges, scores, side="right")
        most = min(len(edges) + 1, len(bands))
        near = np.min([np.abs(scores - edge) for edge in edges], axis=0) < 1e-4
        ordered = np.sort(bands, axis=0)
        count = 1 + (ordered[1:] != ordered[:-1]).sum(axis=0)
        for options in ({}, {"enumeration": False, "max_boxes": 64}):
            found = certification.certify(
                model, bands=tuple(edges), outcomes=max(2, most), population=population, jobs=1, samples=200, **options
            )
            check_shares(found, mass, count >= 2, near.any(axis=0), whole=not options)
            check_outcomes(found, mass, count)


def check_outcomes(found: Certificate, mass: np.ndarray, count: np.ndarray) -> None:
    for share in found.outcomes:
        truth = float(mass[count >= share.least].sum())
        assert share.proved <= truth + ROUNDING
        assert share.possible >= truth - ROUNDING


@given(SEEDS)
@settings(max_examples=scaled(60), deadline=None)
def test_counts_of_labels_are_never_proved_against_the_truth(seed: int) -> None:
    for model, population in models_of(seed, labels=9):
        _, mass, labels = everybody(model, population, model.predict)
        ordered = np.sort(labels, axis=0)
        count = 1 + (ordered[1:] != ordered[:-1]).sum(axis=0)
        most = min(len(model.classes), len(labels))
        if most < 3:
            continue
        for options in ({}, {"enumeration": False, "max_boxes": 64}):
            found = certification.certify(model, outcomes=most, population=population, jobs=1, samples=100, **options)
            assert [share.least for share in found.outcomes] == list(range(2, most + 1))
            check_outcomes(found, mass, count)


@given(SEEDS)
@settings(max_examples=scaled(30), deadline=None)
def test_where_no_leaf_changes_the_number_of_trees_does_not(seed: int) -> None:
    model, population = random_model(seed)
    if len(model.classes) > 2:
        return
    _, mass, numbers = everybody(model, population, lambda rows: numbers_of(model, rows))
    found = certification.certify(model, tolerance=0.0, population=population, jobs=1, samples=100)
    changes = np.ptp(numbers, axis=0)
    assert found.certified <= mass[changes < 1e-9].sum() + ROUNDING
    assert found.falsified <= mass[changes > 0].sum() + ROUNDING
    if model.nodes.trees == 1:  # of several trees, changes may cancel out
        assert found.certified >= mass[changes == 0].sum() - ROUNDING
