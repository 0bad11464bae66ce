import itertools
from fractions import Fraction

import numpy as np
import pytest

from evenhand.errors import OptionError
from evenhand.shields import FairnessProperty
from evenhand.shields.spec.properties import EmptyGroupRule, is_fair, largest_bias, parse_kappa

KINDS = ("demographic_parity", "disparate_impact", "equal_opportunity")
CONVENTIONS = ("zero", "vacuous", "min_count=2")


def bias(kind: str, convention: str, n: int, a: int, m: int, b: int) -> Fraction:
    """In words: rates, empty groups at 0 or not judged at all."""
    needed = {"zero": 0, "vacuous": 1, "min_count=2": 2}[convention]
    if n < needed or m < needed:
        return Fraction(0)
    first = Fraction(a, n) if n else Fraction(0)
    second = Fraction(b, m) if m else Fraction(0)
    if kind == "disparate_impact":
        return Fraction(0) if first == second else 1 - min(first, second) / max(first, second)
    return abs(first - second)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("convention", CONVENTIONS)
def test_fair_is_exact_in_every_small_state(kind: str, convention: str) -> None:
    for kappa in ("0", "0.1", "1/5", "1/3", "1/2", "1"):
        kept = FairnessProperty(kind, parse_kappa(kappa), EmptyGroupRule.parse(convention))
        for n, m in itertools.product(range(7), repeat=2):
            for a, b in itertools.product(range(n + 1), range(m + 1)):
                expected = bias(kind, convention, n, a, m, b)
                assert kept.fair(n, a, m, b) is (expected <= Fraction(kappa)), (kappa, n, a, m, b)
                assert kept.bias(n, a, m, b) == expected


@pytest.mark.parametrize("kind", KINDS)
def test_the_bands_of_fair_counts_rise(kind: str) -> None:
    # What the theorem on thresholds needs: fair counts are a sublattice.
    for convention, kappa in itertools.product(CONVENTIONS, ("0.05", "0.2", "1")):
        kept = FairnessProperty(kind, parse_kappa(kappa), EmptyGroupRule.parse(convention))
        for n, m in itertools.product(range(30), range(30)):
            low, high = kept.band(n, np.arange(n + 1), m)
            some = low <= high
            assert (np.diff(low[some]) >= 0).all()
            assert (np.diff(high[some]) >= 0).all()


def test_arrays_are_judged_one_by_one() -> None:
    kept = FairnessProperty("demographic_parity", parse_kappa("0.1"))
    fair = kept.fair(np.array([10, 10]), np.array([5, 5]), 10, np.array([4, 3]))
    assert fair.tolist() == [True, False]


def test_a_tenth_is_a_tenth() -> None:
    # 0.4 - 0.3 exceeds 0.1 in floating point.
    assert abs(4 / 10 - 3 / 10) > 0.1
    assert FairnessProperty("demographic_parity", parse_kappa(0.1)).fair(10, 4, 10, 3)


@pytest.mark.parametrize("kappa", ["", "a tenth", "-0.1", "1.1", "1/0", "nan", "inf", "0.12345678"])
def test_a_kappa_that_makes_no_sense(kappa: str) -> None:
    with pytest.raises(OptionError, match="kappa"):
        parse_kappa(kappa)


@pytest.mark.parametrize("text", ["", "none", "min_count", "min_count=0", "min_count=-1", "min_count=x", "zero=1"])
def test_a_convention_that_makes_no_sense(text: str) -> None:
    with pytest.raises(OptionError, match="convention"):
        EmptyGroupRule.parse(text)


def test_conventions_read_back() -> None:
    for text in CONVENTIONS:
        assert str(EmptyGroupRule.parse(text)) == text


def test_every_two_groups_are_compared() -> None:
    counters = np.array([[10, 5, 10, 4, 10, 3], [10, 5, 10, 4, 10, 2], [0, 0, 10, 2, 10, 1], [0, 0, 10, 3, 10, 2]])
    seen, accepted = counters[:, ::2], counters[:, 1::2]
    kept = FairnessProperty("demographic_parity", parse_kappa("0.2"))
    assert is_fair(kept, seen, accepted).tolist() == [True, False, True, False]
    assert largest_bias(kept, seen, accepted) == pytest.approx([0.2, 0.3, 0.2, 0.3])
    vacuous = FairnessProperty(kept.kind, kept.kappa, EmptyGroupRule("vacuous"))
    assert is_fair(vacuous, seen, accepted).tolist() == [True, False, True, True]
