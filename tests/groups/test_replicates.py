"""Replicate weights: variances by hand, gaps of groups sampled together, and coverage where clusters matter."""

import numpy as np
import pandas as pd
import pytest
from scipy.linalg import hadamard
from scipy.stats import t as student

import evenhand
from evenhand.errors import DataError, OptionError
from evenhand.groups import GroupConfig, measure_recorded_decisions
from evenhand.schema import DecisionRoles, ReplicateRole, list_replicates
from evenhand.stats import clopper_pearson


def audit(selected, sex, weights, replicates, method, **settings):
    return evenhand.audit_predictions(
        selected,
        sensitive_features={"sex": sex},
        sample_weight=weights,
        replicate_weights=replicates,
        replicate_method=method,
        **settings,
    )


def leave_one_out(n):
    return (np.ones((n, n)) - np.eye(n)) * n / (n - 1)


@pytest.mark.parametrize(
    ("method", "factor"),
    [
        ("jackknife", 79 / 80),
        ("paired-jackknife", 1.0),
        ("brr", 1 / 80),
        ("fay:0.5", 4 / 80),
        ("fay:0", 1 / 80),
        ("bootstrap", 1 / 80),
        ("sdr", 4 / 80),
    ],
)
def test_the_factors_are_the_published_ones(method, factor):
    assert ReplicateRole(tuple(map(str, range(80))), method).factor == pytest.approx(factor)


def test_the_jackknife_of_a_rate_is_its_sample_variance():
    """Leaving out one of n people at a time: p (1 - p) / (n - 1), as by hand."""
    selected = np.repeat([1, 0], [30, 70])
    sex = np.tile(["F", "M"], 50)
    found = audit(selected, sex, np.ones(100), leave_one_out(100), "jackknife").groups
    rate = found.overall["selection_rate"]
    low, high = clopper_pearson(0.3 * 99, 99)
    assert (rate.value, rate.low, rate.high) == pytest.approx((0.3, low, high))
    assert "100 replicate weights, jackknife" in rate.method
    assert found.replicates == "100 replicate weights, jackknife"


def test_few_replicates_widen_the_interval_by_students_quantiles():
    rng = np.random.default_rng(0)
    selected, sex = rng.random(4000) < 0.4, rng.choice(["F", "M"], 4000)
    half = rng.integers(0, 2, (4000, 8)) * 2.0
    rate = audit(selected, sex, np.ones(4000), half, "brr").groups.overall["selection_rate"]
    under = [selected @ column / column.sum() for column in half.T]
    variance = np.mean((np.array(under) - selected.mean()) ** 2)
    n = min(rate.value * (1 - rate.value) / variance, 4000)
    n *= (student.ppf(0.975, rate.value * (1 - rate.value) / variance - 1) / student.ppf(0.975, 7)) ** 2
    assert (rate.low, rate.high) == pytest.approx(clopper_pearson(rate.value * n, n), abs=2e-3)


def test_a_gap_has_the_variance_of_the_gap_not_of_two_samples():
    """Clusters hold both sexes alike: their rates go up and down together, and the gap hardly moves."""
    rng = np.random.default_rng(0)
    cluster = np.repeat(np.arange(60), 100)
    sex = np.tile(["F", "M"], 3000)
    common = rng.normal(0, 0.15, 60)[cluster]
    selected = rng.random(6000) < np.clip(0.5 + common - 0.1 * (sex == "F"), 0, 1)
    replicates = (cluster[:, None] != np.arange(60)) * 60 / 59
    gap = audit(selected, sex, np.ones(6000), replicates, "jackknife").groups.breakdowns[0].gaps[0].value
    rates = {one: np.array([selected[sex == one] @ column[sex == one] / column[sex == one].sum()
                            for column in replicates.T]) for one in "FM"}  # fmt: skip
    differences = rates["M"] - rates["F"]
    error = np.sqrt(59 / 60 * ((differences - gap.value) ** 2).sum())
    assert gap.high - gap.low == pytest.approx(2 * student.ppf(0.975, 59) * error, rel=0.06)
    separate = np.sqrt(sum(59 / 60 * ((one - one.mean()) ** 2).sum() for one in rates.values()))
    assert gap.high - gap.low < 0.8 * 2 * student.ppf(0.975, 59) * separate


def test_what_is_not_computed_from_replicate_weights_is_not_shown_or_refused():
    rng = np.random.default_rng(0)
    selected, sex = rng.integers(0, 2, 100), np.tile(["F", "M"], 50)
    about = {"y_true": rng.integers(0, 2, 100), "y_score": rng.random(100)}
    result = audit(selected, sex, np.ones(100), leave_one_out(100), "jackknife", **about)
    assert result.groups.overall["auc"].kind == "unknown"
    assert result.groups.overall["theil_index"].kind == "unknown"
    assert "mean_score" in result.groups.overall
    assert "100 replicate weights, jackknife" in result.to_markdown()
    for settings in ({"thresholds": True}, {"metrics": {"own": lambda y_true, y_pred, sample_weight: 0.5}}):
        with pytest.raises(OptionError, match="replicate weights"):
            audit(selected, sex, np.ones(100), leave_one_out(100), "jackknife", **about, **settings)


def test_a_group_that_a_replicate_leaves_without_weight_is_not_compared():
    sex = np.array(["F"] * 40 + ["M"] * 40)
    replicates = np.column_stack([np.where(sex == "F", 0.0, 2.0), np.ones(80)])
    gap = audit(np.tile([1, 0], 40), sex, np.ones(80), replicates, "brr").groups.breakdowns[0].gaps[0]
    assert gap.value.kind == "unknown"


def test_ranges_of_columns():
    columns = ["wt", *(f"PWGTP{i}" for i in range(1, 81)), "w01", "w02"]
    assert list_replicates("PWGTP1..PWGTP80", columns) == tuple(columns[1:81])
    assert list_replicates("w01..w02", columns) == ("w01", "w02")
    assert list_replicates("wt, w02", columns) == ("wt", "w02")
    with pytest.raises(DataError, match="PWGTP81"):
        list_replicates("PWGTP1..PWGTP81", columns)
    with pytest.raises(OptionError, match="one name"):
        list_replicates("PWGTP1..w02", columns)


@pytest.mark.parametrize("method", ["", "fay", "fay:1", "fay:x", "brr:0.5", "magic"])
def test_methods_that_are_not_known_are_refused(method):
    with pytest.raises(OptionError):
        ReplicateRole(("a", "b"), method)


def draw(rng, method):
    """30 strata of two clusters with both sexes; the rate and the gap vary between clusters."""
    strata, size = 31, 20
    cluster = np.repeat(np.arange(2 * strata), size)
    sex = rng.random(len(cluster)) < 0.5
    rate = 0.4 + rng.normal(0, 0.12, 2 * strata)[cluster] + (0.15 + rng.normal(0, 0.15, 2 * strata)[cluster]) * sex
    selected = rng.random(len(cluster)) < np.clip(rate, 0, 1)
    first, stratum = (cluster % 2 == 0), cluster // 2
    signs = hadamard(32)[1:][stratum] * np.where(first, 1, -1)[:, None]  # (people, replicates)
    if method == "brr":
        factors = 1.0 + signs
    elif method == "fay:0.3":
        factors = 1.0 + 0.7 * signs
    elif method == "jackknife":
        factors = (cluster[:, None] != np.arange(2 * strata)) * (2 * strata / (2 * strata - 1))
    elif method == "paired-jackknife":
        left = stratum[:, None] == np.arange(strata)
        factors = np.where(left, np.where(first, 2.0, 0.0)[:, None], 1.0)
    elif method == "bootstrap":
        n = 2 * strata
        drawn = rng.multinomial(n - 1, np.full(n, 1 / n), size=200).T * n / (n - 1)
        factors = drawn[cluster]
    else:
        rows = hadamard(64)[1:]
        factors = 1 + 2**-1.5 * (rows[cluster] - rows[(cluster + 1) % (2 * strata)])
    return selected, sex, factors


@pytest.mark.full
@pytest.mark.parametrize("method", ["brr", "fay:0.3", "jackknife", "paired-jackknife", "bootstrap", "sdr"])
def test_intervals_of_rates_and_gaps_hold_in_clustered_surveys(method):
    """The population is that of all clusters; people counted as independent give intervals that miss."""
    rng, runs, rates, gaps, plain = np.random.default_rng(1), 120, 0, 0, 0
    for _ in range(runs):
        selected, sex, factors = draw(rng, method)
        names = [f"r{i}" for i in range(factors.shape[1])]
        table = pd.DataFrame(factors, columns=names).assign(selected=selected, sex=sex.astype(int), wt=1.0)
        role = ReplicateRole(tuple(names), method)
        roles = DecisionRoles("selected", ["sex"], weight="wt", favourable=1, replicates=role)
        found = measure_recorded_decisions(roles.read(table), GroupConfig()).breakdowns[0]
        gap = found.gap("demographic_parity_difference").value
        gaps += gap.low <= 0.15 <= gap.high
        one = found.groups[0].metrics["selection_rate"]
        rates += one.low <= 0.4 <= one.high
        independent = DecisionRoles("selected", ["sex"], weight="wt", favourable=1).read(table)
        other = measure_recorded_decisions(independent, GroupConfig()).breakdowns[0].groups[0].metrics["selection_rate"]
        plain += other.low <= 0.4 <= other.high
    assert min(rates, gaps) / runs >= 0.95 - 3 * np.sqrt(0.95 * 0.05 / runs)
    assert plain / runs < 0.93
