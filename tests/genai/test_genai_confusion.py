"""A confusion matrix by hand, its intervals, and true deadlines against a simulated stream."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from evenhand.errors import DataError, OptionError
from evenhand.genai import ConfusionMatrix
from evenhand.genai.classifiers.confusion import count_confusion
from evenhand.stats import Observed, Unknown


def _sample() -> ConfusionMatrix:
    pairs = [
        *[("child", "child")] * 18,
        *[("child", None)] * 2,
        *[("adult", "adult")] * 60,
        *[("adult", "child")] * 6,
        *[(None, "adult")] * 4,
    ]
    true, said = zip(*pairs, strict=True)
    return count_confusion(true, said, ["child", "adult", "elderly"])


def test_counts_and_shares_by_hand() -> None:
    sample = _sample()
    assert sample.counts == ((18, 0, 0, 2), (6, 60, 0, 0), (0, 0, 0, 0), (0, 4, 0, 0))
    assert sample.items == 90
    right, found = sample.precision("child"), sample.recall("child")
    assert isinstance(right, Observed)
    assert isinstance(found, Observed)
    assert (right.value, right.n) == (18 / 24, 24)
    assert (found.value, found.n) == (18 / 20, 20)
    assert sample.precision("elderly") == Unknown(reason="no item was labelled 'elderly'")


def test_the_interval_is_the_exact_one_shared_out_among_the_values() -> None:
    right = _sample().precision("child")
    assert isinstance(right, Observed)
    tail = 0.05 / 3 / 2
    assert stats.binom.sf(17, 24, right.low) == pytest.approx(tail, rel=1e-6)
    assert stats.binom.cdf(18, 24, right.high) == pytest.approx(tail, rel=1e-6)


def test_a_label_that_is_often_wrong_is_not_called_a_guarantee() -> None:
    good = count_confusion(["a"] * 500 + ["b"] * 20, ["a"] * 500 + ["b"] * 10 + [None] * 10, ["a", "b"])
    a, b = good.deadline_successes({"a": 5, "b": 7})
    assert a.guaranteed  # 500 of 500: the lower end is (.05 / 2 / 2) ** (1 / 500) = .9913
    assert a.true_deadline == 5
    assert "is guaranteed" in a.statement()
    assert not b.guaranteed  # never wrong in ten, which is not many
    child, elderly = _sample().deadline_successes({"child": 5, "elderly": 9})
    assert isinstance(child.right, Observed)
    times = next(m for m in range(1, 100) if (1 - child.right.low) ** m <= 0.01)
    assert child.true_deadline == 5 * times
    assert elderly.true_deadline is None
    assert not elderly.guaranteed


def test_true_deadlines_hold_as_often_as_said_when_labels_err_independently() -> None:
    random = np.random.default_rng(4)
    rate, deadline = 0.7, 6
    labels = np.where(random.random(400) < rate, "a", "b")
    sample = count_confusion([str(one) for one in labels], ["a"] * 400, ["a", "b"])
    (worth,) = sample.deadline_successes({"a": deadline})
    assert worth.true_deadline is not None
    # The worst stream that keeps the deadline: said once every six items, and true at the rate of the sample.
    said = np.arange(60_000) % deadline == deadline - 1
    shown = said & (random.random(60_000) < rate)
    windows = shown[: 60_000 // worth.true_deadline * worth.true_deadline].reshape(-1, worth.true_deadline)
    assert windows.any(axis=1).mean() >= 0.99
    assert shown.reshape(-1, deadline).any(axis=1).mean() < 0.9  # the deadline itself is not kept as often


@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        ({"true": [], "said": []}, DataError, "no labelled items"),
        ({"true": ["a"], "said": []}, DataError, "1 true values and 0 labels"),
        ({"true": ["c"], "said": ["a"]}, DataError, "'c' is not a value"),
        ({"true": ["a"], "said": ["asian"]}, DataError, "'asian' is not a value"),
        ({"true": ["a"], "said": ["a"], "values": ["a", "a"]}, OptionError, "values must be different names"),
        ({"true": ["a"], "said": ["a"], "confidence": 1.0}, OptionError, "between 0 and 1, got 1.0"),
    ],
)
def test_samples_that_cannot_be_counted_are_refused(given: dict[str, Any], error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        count_confusion(**{"values": ["a", "b"], **given})
