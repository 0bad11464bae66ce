"""Audits of numbers say by how much a number changes with what is protected, and prove for whom it does not."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression

import evenhand
from evenhand.auditing import parse_gate
from evenhand.auditing.gates.conditions import measure_values


@pytest.fixture(scope="module")
def table() -> tuple[LinearRegression, pd.DataFrame, pd.Series]:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.integers(20, 60, 300), "male": rng.integers(0, 2, 300)})
    premium = 5.0 * frame["age"] + 30.0 * frame["male"]
    return LinearRegression().fit(frame, premium), frame, premium


def test_a_tolerance_counts_and_proves(table: tuple[LinearRegression, pd.DataFrame, pd.Series]) -> None:
    model, frame, premium = table
    found = evenhand.audit(model, frame, premium, protected=["male"], tolerance=20.0, samples=500)
    assert found.changes is not None
    values = measure_values(found)
    assert values["largest_change"]["male"] == pytest.approx(30.0)
    assert values["mean_change"]["male"] == pytest.approx(30.0)
    assert values["falsified"]["male"].value == 1.0
    assert parse_gate("flip_rate.male > 0.9 and falsified > 0.9").holds(found)
    text = str(found.document())
    assert "by more than 20.00" in text
    assert "number is proved to change by at most 20" in text


def test_without_a_tolerance_nothing_is_proved_and_that_is_said(
    table: tuple[LinearRegression, pd.DataFrame, pd.Series],
) -> None:
    model, frame, premium = table
    found = evenhand.audit(model, frame, premium, protected=["male"], samples=500)
    assert not found.certificates
    assert any("no tolerance was set" in item.reason for item in found.not_run)
    assert found.changes is not None
    assert found.changes.changes[0].largest == pytest.approx(30.0)
