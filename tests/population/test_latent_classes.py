"""Latent classes: EM never loses, finds what was planted, and means what its formula says."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenhand.population.mixture import CodedPeople, LatentClasses, fit_latent_classes
from support import scaled


def coded(codes: np.ndarray) -> CodedPeople:
    return CodedPeople(codes.astype(np.int64), codes.max(axis=0).astype(np.int64) + 1)


@settings(max_examples=scaled(40), deadline=None, derandomize=True)
@given(seed=st.integers(0, 10**6), classes=st.integers(1, 5))
def test_every_step_raises_what_is_maximised(seed: int, classes: int) -> None:
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, rng.integers(2, 6), size=(80, 4))
    codes[rng.random(codes.shape) < 0.1] = -1
    codes[0] = np.maximum(codes[0], 0)
    people = CodedPeople(codes, np.full(4, 6))
    fitted = fit_latent_classes(people, classes, rng)
    assert (np.diff(fitted.progress) > -1e-9).all()
    assert fitted.weights.sum() == pytest.approx(1)
    for chances in fitted.chances:
        assert chances.sum(axis=1) == pytest.approx(np.ones(classes))


def test_the_likelihood_is_its_formula() -> None:
    """P(x) = sum_z pi_z prod_g P(x_g | z), person by person; a missing code counts as any."""
    rng = np.random.default_rng(3)
    model = LatentClasses(np.array([0.3, 0.7]), tuple(rng.dirichlet(np.ones(3), 2) for _ in range(2)), ())
    codes = np.array([[0, 2], [1, 1], [-1, 0], [2, -1], [-1, -1]])
    expected = [
        np.log(
            sum(
                model.weights[z] * np.prod([model.chances[g][z, code] for g, code in enumerate(row) if code >= 0])
                for z in range(2)
            )
        )
        for row in codes
    ]
    found = model.log_likelihood(CodedPeople(codes, np.array([3, 3])), unseen=1e-9)
    assert found == pytest.approx(expected)


def test_a_code_that_no_class_knows_has_the_least_chance() -> None:
    model = LatentClasses(np.ones(1), (np.array([[1.0, 0.0]]),), ())
    people = CodedPeople(np.array([[0], [1]]), np.array([2]))
    assert model.log_likelihood(people, unseen=0.01) == pytest.approx([0.0, np.log(0.01)])


def test_a_planted_mixture_is_found() -> None:
    """Two classes, of 30 and 70 %, over six attributes: weights and chances come back."""
    rng = np.random.default_rng(0)
    planted = [rng.dirichlet(np.full(4, 0.4), 2) for _ in range(6)]
    latent = (rng.random(20_000) > 0.3).astype(int)
    codes = np.stack(
        [(rng.random(len(latent))[:, None] > np.cumsum(chances, axis=1)[latent]).sum(axis=1) for chances in planted],
        axis=1,
    )
    fitted = fit_latent_classes(coded(np.minimum(codes, 3)), 2, rng)
    order = np.argsort(fitted.weights)
    assert fitted.weights[order] == pytest.approx([0.3, 0.7], abs=0.03)
    for chances, truth in zip(fitted.chances, planted, strict=True):
        assert np.abs(chances[order] - truth[:, : chances.shape[1]]).max() < 0.04


def test_one_class_is_frequencies() -> None:
    codes = np.array([[0, 1], [0, 0], [1, 1], [-1, 1]])
    fitted = fit_latent_classes(CodedPeople(codes, np.array([2, 2])), 1, np.random.default_rng(0))
    assert fitted.chances[0].ravel() == pytest.approx([2 / 3, 1 / 3])
    assert fitted.chances[1].ravel() == pytest.approx([1 / 4, 3 / 4])
