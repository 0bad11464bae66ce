"""Group metrics on plain arrays: by hand, by brute force, and what must not matter."""

import itertools
import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenhand import groups
from evenhand.errors import EvenhandError, OptionError
from evenhand.groups import GroupMetrics, measure_decisions
from evenhand.groups.config import SMALL
from evenhand.groups.wording.gaps import gap_sentences
from evenhand.stats import Observed, Unknown, clopper_pearson, difference_interval
from evenhand.stats.metric_specs import GAP_NAMES, METRIC_NAMES, names_of
from evenhand.stats.quantity import quantity_value
from support import scaled


def people(counts: dict[str, tuple[int, int, int, int]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Decisions, truths and groups with so many hits, false alarms, misses and rejections per group."""
    kinds = [(1, 1), (1, 0), (0, 1), (0, 0)]
    rows = [
        (*kind, name) for name, sizes in counts.items() for kind, n in zip(kinds, sizes, strict=True) for _ in range(n)
    ]
    favoured, deserving, group = zip(*rows, strict=True)
    return np.array(favoured), np.array(deserving), np.array(group)


def group_of(result: GroupMetrics, **values: str) -> groups.Group:
    return next(group for breakdown in result.breakdowns for group in breakdown.groups if group.values == values)


def gap(result: GroupMetrics, name: str, breakdown: int = 0) -> groups.Gap:
    found = result.breakdowns[breakdown].gap(name)
    assert found is not None
    return found


class TestByHand:
    """80 women: 16 hits, 4 false alarms, 24 misses, 36 rejections. 120 men: 60, 20, 20, 20."""

    favoured, deserving, sex = people({"women": (16, 4, 24, 36), "men": (60, 20, 20, 20)})
    result = measure_decisions(favoured, deserving, {"sex": sex}, seed=3)

    def test_rates(self):
        expected = {
            "selection_rate": (20, 80),
            "base_rate": (40, 80),
            "true_positive_rate": (16, 40),
            "false_positive_rate": (4, 40),
            "accuracy": (52, 80),
            "precision": (16, 20),
            "false_discovery_rate": (4, 20),
            "false_omission_rate": (24, 60),
        }
        women = group_of(self.result, sex="women")
        assert (women.size, women.small, women.label) == (80, False, "women")
        for name, (k, n) in expected.items():
            found = women.metrics[name]
            assert isinstance(found, Observed)
            assert (found.value, found.n) == (k / n, n)
            assert (found.low, found.high) == pytest.approx(clopper_pearson(k, n))

    def test_gaps(self):
        expected = {
            "demographic_parity_difference": (
                "selection_rate",
                80 / 120 - 20 / 80,
                difference_interval(80, 120, 20, 80),
                200,
            ),
            "equal_opportunity_difference": (
                "true_positive_rate",
                60 / 80 - 16 / 40,
                difference_interval(60, 80, 16, 40),
                120,
            ),
            "accuracy_difference": ("accuracy", 80 / 120 - 52 / 80, None, 200),
        }
        for name, (metric, value, interval, n) in expected.items():
            found = gap(self.result, name)
            assert (found.metric, found.best, found.worst, found.value.n) == (metric, "men", "women", n)
            assert quantity_value(found.value) == pytest.approx(value)
            if interval is not None:
                assert (found.value.low, found.value.high) == pytest.approx(interval)

    def test_ratio(self):
        found = gap(self.result, "demographic_parity_ratio")
        assert quantity_value(found.value) == pytest.approx(0.25 / (2 / 3))
        assert found.value.low < 0.375 < found.value.high < 0.8
        assert "four-fifths rule: not met (0.38)" in self.result.summary()

    def test_equalized_odds_takes_the_larger_gap(self):
        """True positives: 0.75 - 0.4 = 0.35; false positives: 0.5 - 0.1 = 0.4. Each at 97.5 %."""
        found = gap(self.result, "equalized_odds_difference")
        assert (found.metric, quantity_value(found.value)) == ("false_positive_rate", pytest.approx(0.4))
        true, false = difference_interval(60, 80, 16, 40, 0.975), difference_interval(20, 40, 4, 40, 0.975)
        assert (found.value.low, found.value.high) == pytest.approx((max(true[0], false[0]), max(true[1], false[1])))
        assert "Bonferroni" in found.value.method

    def test_overall(self):
        assert self.result.people == 200
        assert self.result.favourable == "favourable"
        assert self.result.seed == 3
        assert quantity_value(self.result.overall["accuracy"]) == pytest.approx(0.66)
        assert quantity_value(self.result.overall["selection_rate"]) == pytest.approx(0.5)
        assert "auc" not in self.result.overall
        assert self.result.overall["mean_score"] == Unknown(reason="there are no scores")
        assert self.result.calibration == ()

    def test_travels_as_json_and_as_a_table(self):
        assert GroupMetrics.from_json(self.result.to_json()) == self.result
        frame = self.result.to_frame()
        assert len(frame) == 2 * len(METRIC_NAMES)
        row = frame[(frame.group == "women") & (frame.metric == "precision")].iloc[0]
        assert (row["kind"], row["value"], row["size"]) == ("observed", 0.8, 80)


def reference(
    favoured, deserving, scores, protected: pd.DataFrame
) -> dict[tuple[str, ...], dict[str, dict[str, float]]]:
    """Every metric from its definition, one group at a time."""
    found = {}
    for by in [*((name,) for name in protected), *([tuple(protected)] if protected.shape[1] > 1 else [])]:
        found[by] = {}
        for values in itertools.product(*(sorted(set(protected[name])) for name in by)):
            who = np.logical_and.reduce([protected[name] == value for name, value in zip(by, values, strict=True)])
            if not who.any():
                continue
            d, y, s = favoured[who], deserving[who], scores[who]

            def rate(event, among):
                return event[among].mean() if among.any() else math.nan

            everybody = np.ones(len(d), dtype=bool)
            found[by][", ".join(values)] = {
                "size": len(d),
                "selection_rate": rate(d, everybody),
                "base_rate": rate(y, everybody),
                "true_positive_rate": rate(d, y),
                "false_positive_rate": rate(d, ~y),
                "accuracy": rate(d == y, everybody),
                "precision": rate(y, d),
                "false_discovery_rate": rate(~y, d),
                "false_omission_rate": rate(y, ~d),
                "mean_score": s.mean(),
                "calibration_gap": s.mean() - y.mean(),
            }
    return found


def reference_gaps(rows: dict[str, dict[str, float]]) -> dict[str, float]:
    """fairlearn's definitions: difference and ratio between groups, equalized odds by the worst case."""
    everyone = pd.DataFrame(list(rows.values()))
    denominators = {
        "true_positive_rate": everyone["base_rate"],
        "false_positive_rate": 1 - everyone["base_rate"],
        "false_discovery_rate": everyone["selection_rate"],
        "false_omission_rate": 1 - everyone["selection_rate"],
    }
    wide = {
        name: everyone[name][(denominators.get(name, 1.0) * everyone["size"]).round() >= SMALL] for name in everyone
    }
    apart = {name: column.max() - column.min() for name, column in wide.items() if len(column) >= 2}
    selected = wide["selection_rate"]
    found = {
        "demographic_parity_difference": apart.get("selection_rate"),
        "demographic_parity_ratio": selected.min() / selected.max()
        if len(selected) >= 2 and selected.max() > 0
        else None,
        "equal_opportunity_difference": apart.get("true_positive_rate"),
        "accuracy_difference": apart.get("accuracy"),
        "false_discovery_difference": apart.get("false_discovery_rate"),
        "false_omission_difference": apart.get("false_omission_rate"),
        "calibration_difference": apart.get("calibration_gap"),
    }
    if {"true_positive_rate", "false_positive_rate"} <= set(apart):
        found["equalized_odds_difference"] = max(apart["true_positive_rate"], apart["false_positive_rate"])
    return {name: value for name, value in found.items() if value is not None}


@st.composite
def populations(draw):
    """People with one to three protected attributes, some groups tiny, and scores related to the truth or not."""
    n = draw(st.integers(1, 260))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    attributes = draw(st.integers(1, 3))
    protected = pd.DataFrame(
        {
            f"p{i}": np.array(["a", "b", "c", "d"])[
                rng.choice(4, n, p=rng.dirichlet(np.full(4, draw(st.sampled_from([0.2, 1.0, 5.0])))))
            ]
            for i in range(attributes)
        }
    )
    scores = rng.beta(0.6, 0.8, n).round(draw(st.sampled_from([1, 12])))
    deserving = rng.random(n) < (scores if draw(st.booleans()) else draw(st.sampled_from([0.0, 0.1, 0.9])))
    return scores > draw(st.sampled_from([0.0, 0.5, 0.99])), deserving, scores, protected


@settings(max_examples=scaled(60))
@given(populations())
def test_agrees_with_brute_force(population):
    favoured, deserving, scores, protected = population
    result = measure_decisions(favoured, deserving, dict(protected), y_score=scores)
    expected = reference(favoured, deserving, scores, protected)
    assert [breakdown.by for breakdown in result.breakdowns] == list(expected)
    for breakdown in result.breakdowns:
        rows = expected[breakdown.by]
        assert [group.label for group in breakdown.groups] == list(rows)
        for group in breakdown.groups:
            assert tuple(group.metrics) == METRIC_NAMES
            assert group.small == (rows[group.label]["size"] < SMALL)
            for name in METRIC_NAMES:
                found, value = quantity_value(group.metrics[name]), rows[group.label][name]
                assert (found is None) == math.isnan(value)
                if found is not None:
                    assert found == pytest.approx(value, abs=1e-9)
                    assert group.metrics[name].low - 1e-12 <= found <= group.metrics[name].high + 1e-12
        found_gaps = {
            gap.name: quantity_value(gap.value) for gap in breakdown.gaps if quantity_value(gap.value) is not None
        }
        assert found_gaps == pytest.approx(reference_gaps(rows), abs=1e-9)
        for one in breakdown.gaps:
            _best_and_worst_have_these_values(one, breakdown)


def _best_and_worst_have_these_values(gap, breakdown):
    if isinstance(gap.value, Unknown) and not gap.best:
        assert "at least two groups must have" in gap.value.reason
        return
    best, worst = (
        next(quantity_value(group.metrics[gap.metric]) for group in breakdown.groups if group.label == label)
        for label in (gap.best, gap.worst)
    )
    assert gap.best != gap.worst
    if isinstance(gap.value, Unknown):
        assert (best, worst) == (0, 0)
    elif gap.name.endswith("ratio"):
        assert gap.value.value == pytest.approx(worst / best)
    else:
        assert gap.value.value == pytest.approx(best - worst, abs=1e-9)
        assert gap.value.value >= 0
    if isinstance(gap.value, Observed):
        assert 0 <= gap.value.low <= gap.value.value + 1e-12
        assert gap.value.value <= gap.value.high + 1e-12
        assert gap.value.confidence == 0.95


@given(populations(), st.permutations(["a", "b", "c", "d"]), st.integers(0, 1000))
@settings(max_examples=scaled(30))
def test_names_and_order_do_not_matter(population, names, seed):
    """Renaming groups renames them in the result; shuffling people changes nothing."""
    favoured, deserving, scores, protected = population
    renamed = dict(zip("abcd", names, strict=True))
    order = np.random.default_rng(seed).permutation(len(favoured))
    before = measure_decisions(favoured, deserving, dict(protected), y_score=scores)
    after = measure_decisions(
        favoured[order],
        deserving[order],
        {name: column.map(renamed).to_numpy()[order] for name, column in protected.items()},
        y_score=scores[order],
    )
    for old, new in zip(before.breakdowns, after.breakdowns, strict=True):
        found = {group.label: group for group in new.groups}
        assert len(found) == len(old.groups)
        for group in old.groups:
            same = found[", ".join(renamed[value] for value in group.values.values())]
            assert same.size == group.size
            for name in METRIC_NAMES:
                assert quantity_value(same.metrics[name]) == pytest.approx(
                    quantity_value(group.metrics[name]), abs=1e-12
                )
        assert {gap.name: quantity_value(gap.value) for gap in new.gaps} == pytest.approx(
            {gap.name: quantity_value(gap.value) for gap in old.gaps}, abs=1e-12
        )
    assert len(after.calibration) == len(before.calibration)


def test_more_groups_make_the_interval_wider():
    """The same best and worst, with a third group between them: one of three pairs was picked."""
    two = people({"a": (20, 20, 20, 40), "c": (40, 20, 10, 30)})
    three = people({"a": (20, 20, 20, 40), "b": (30, 20, 20, 30), "c": (40, 20, 10, 30)})
    narrow, wide = (
        gap(measure_decisions(d, y, {"origin": g}), "demographic_parity_difference").value for d, y, g in (two, three)
    )
    assert narrow.value == wide.value == pytest.approx(0.2)
    assert wide.low < narrow.low < narrow.high < wide.high
    assert "simultaneous over 3 comparisons" in wide.method


def test_everybody_refused_everywhere():
    favoured, deserving, sex = people({"women": (0, 0, 20, 20), "men": (0, 0, 25, 15)})
    result = measure_decisions(favoured, deserving, {"sex": sex})
    assert quantity_value(gap(result, "demographic_parity_difference").value) == 0
    ratio = gap(result, "demographic_parity_ratio").value
    assert isinstance(ratio, Unknown)
    assert "highest rate is 0" in ratio.reason
    precision = group_of(result, sex="women").metrics["precision"]
    assert isinstance(precision, Unknown)
    assert "four-fifths rule: unknown" in result.summary()


def test_undefined_metrics_say_why_and_leave_the_gap_to_others():
    favoured, deserving, origin = people({"a": (0, 10, 0, 30), "b": (20, 0, 20, 0), "c": (5, 5, 15, 15)})
    result = measure_decisions(favoured, deserving, {"origin": origin}, min_group_size=20)
    a, b = group_of(result, origin="a").metrics, group_of(result, origin="b").metrics
    unknown = a["true_positive_rate"], b["false_positive_rate"]
    assert all(isinstance(rate, Unknown) for rate in unknown)
    assert unknown[0] != unknown[1]
    opportunity = gap(result, "equal_opportunity_difference")
    assert (opportunity.best, opportunity.worst, opportunity.value.n) == ("b", "c", 60)
    assert quantity_value(opportunity.value) == pytest.approx(0.25)
    assert opportunity.not_assessable == {"a": 0}
    odds = gap(result, "equalized_odds_difference")
    assert (odds.metric, quantity_value(odds.value)) == ("true_positive_rate", pytest.approx(0.25))
    assert odds.not_assessable == {"a": 0, "b": 0}


def test_small_groups_are_shown_and_take_no_part_in_gaps():
    favoured, deserving, origin = people({"a": (10, 5, 10, 15), "b": (15, 5, 10, 20), "tiny": (SMALL - 1, 0, 0, 0)})
    result = measure_decisions(favoured, deserving, {"origin": origin})
    assert group_of(result, origin="tiny").small
    assert gap(result, "demographic_parity_difference").best == "b"
    lonely = measure_decisions(favoured, deserving, {"origin": np.where(origin == "b", "a", origin)})
    assert all(isinstance(one.value, Unknown) for one in lonely.breakdowns[0].gaps)
    assert "not computable: at least two groups must have 30 people" in lonely.summary()


def test_headlines_are_ordered_by_the_end_of_the_interval_nearest_to_1():
    """The ratio of the 40 people in the west is lower, but less certain, than that of the women."""
    sex = np.repeat(["f", "m"], 2000)
    place = np.where(np.arange(4000) % 100 == 0, "west", "east")
    favoured = np.tile([1, 0], 2000)
    favoured[np.flatnonzero((sex == "f") & (np.arange(4000) % 4 == 0))] = 0
    favoured[place == "west"] = np.arange(40) < 6
    result = measure_decisions(favoured, favoured, {"place": place, "sex": sex})
    ratios = {one.by: one.gap("demographic_parity_ratio").value for one in result.breakdowns[:2]}
    assert ratios["place",].value < ratios["sex",].value
    assert ratios["place",].high > ratios["sex",].high
    single = [text for text in gap_sentences(result) if " and " not in text.split(" are selected")[0]]
    assert ["sex" in text for text in single] == [True, False]


def test_the_floor_looks_at_the_denominator():
    """300 people each, but the true positive rate of one group rests on three."""
    favoured, deserving, origin = people({"a": (100, 50, 50, 100), "b": (0, 100, 3, 197)})
    opportunity = gap(measure_decisions(favoured, deserving, {"o": origin}), "equal_opportunity_difference")
    assert opportunity.not_assessable == {"b": 3}
    assert opportunity.value == Unknown(reason="at least two groups must have 30 people whose true label is favourable")


class TestScores:
    favoured, deserving, sex = people({"women": (20, 20, 20, 40), "men": (40, 20, 20, 20)})

    def test_calibration_by_hand(self):
        """Women score 0.35 or 0.75 by the decision: 20 of 40 and 20 of 60 turn out well."""
        scores = np.where(self.favoured == 1, 0.75, 0.35)
        result = measure_decisions(self.favoured, self.deserving, {"sex": self.sex}, y_score=scores)
        found = [
            (cell.label, cell.size, *map(quantity_value, (cell.metrics["mean_score"], cell.metrics["base_rate"])))
            for cell in result.calibration[0].groups
        ]
        assert found == [
            ("men", 40, pytest.approx(0.35), 0.5),
            ("men", 60, pytest.approx(0.75), pytest.approx(2 / 3)),
            ("women", 60, pytest.approx(0.35), pytest.approx(1 / 3)),
            ("women", 40, pytest.approx(0.75), 0.5),
        ]
        women = group_of(result, sex="women").metrics
        assert quantity_value(women["mean_score"]) == pytest.approx(0.51)
        assert quantity_value(women["calibration_gap"]) == pytest.approx(0.51 - 0.4)
        assert quantity_value(gap(result, "calibration_difference").value) == pytest.approx(0.11 - (0.59 - 0.6))
        assert "auc" in result.overall
        assert set(result.overall) == set(names_of("group", "overall"))
        assert {one.name for one in result.breakdowns[0].gaps} == set(GAP_NAMES)

    @given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=60))
    def test_bins_partition_everybody(self, rows):
        scores, deserving = (np.array(column) for column in zip(*rows, strict=True))
        origin = np.array(["a", "b"])[np.arange(len(rows)) % 2]
        cells = measure_decisions(scores > 0.5, deserving, {"origin": origin}, y_score=scores).calibration[0].groups
        assert sum(cell.size for cell in cells) == len(rows)
        assert sum(cell.size * cell.metrics["mean_score"].value for cell in cells) == pytest.approx(
            scores.sum(), abs=1e-9
        )
        assert sum(cell.size * quantity_value(cell.metrics["base_rate"]) for cell in cells) == pytest.approx(
            deserving.sum()
        )
        for group in "ab":
            tenths = [
                min(int(cell.metrics["mean_score"].value * 10 + 1e-9), 9) for cell in cells if cell.label == group
            ]
            assert tenths == sorted(set(tenths))

    def test_scores_that_are_no_probabilities_still_rank(self):
        margins = np.where(self.deserving == 1, 2.0, -3.0)
        result = measure_decisions(self.favoured, self.deserving, {"sex": self.sex}, y_score=margins)
        assert quantity_value(result.overall["auc"]) == 1
        assert isinstance(result.overall["calibration_gap"], Unknown)
        assert "outside 0 to 1" in result.overall["mean_score"].reason
        assert "range: -3 to 2" in result.overall["mean_score"].reason
        assert result.calibration == ()

    def test_rounding_beyond_one_is_forgiven(self):
        scores = np.where(self.favoured == 1, 1 + 1e-7, -1e-7)
        result = measure_decisions(self.favoured, self.deserving, {"sex": self.sex}, y_score=scores)
        assert quantity_value(result.overall["mean_score"]) == pytest.approx(0.5)
        assert {round(cell.metrics["mean_score"].value, 9) for cell in result.calibration[0].groups} == {0.0, 1.0}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        # A guess of the favourable label would decide every number, and a result without documents does not show it.
        ({"y_pred": [1, 2, 1]}, "column 'y_pred', row 2.* got 2"),
        ({"y_true": [1, 2, 2]}, "column 'y_true', row 2.* got 2"),
        ({"y_pred": [1, 2, 0]}, "row 2"),
        ({"y_pred": [1, -1, 1]}, "row 2.* got -1"),
        ({"y_true": [1, 1, 0.5]}, "row 3.* got 0.5"),
        ({"y_pred": ["1", "0", "1"]}, "row 1.* got '1'"),
        ({"y_true": ["yes", "no", "yes"]}, "row 1.* got 'yes'"),
        ({"y_pred": pd.Series(["1", "0", "1"], dtype="category")}, "row 1.* got '1'"),
        ({"y_true": [1.0, math.nan, 0.0]}, "row 2.* got an empty cell"),
        ({"y_true": [1, None, 0]}, "row 2.* got an empty cell"),
        ({"y_true": [1, -1, 0]}, "row 2.* got -1"),
        ({"y_pred": pd.Series([1, None, 0], dtype="Int64")}, "row 2.* got an empty cell"),
        ({"y_true": pd.Series([True, None, False], dtype="boolean")}, "row 2.* got an empty cell"),
        ({"y_true": np.ma.array([1, 0, 1], mask=[0, 1, 0])}, "row 2.* got an empty cell"),
        ({"y_pred": None}, "at least one decision"),
        ({"y_true": [True, False]}, "2 in `y_true=`"),
        ({"y_true": pd.Series([1, 0, 1]), "y_pred": pd.Series([1, 0, 1], index=[2, 1, 0])}, "the index of"),
        ({"sensitive_features": {"sex": ["f", "m"]}}, r"2 in `sensitive_features\['sex'\]"),
        ({"sensitive_features": {"age": [0.5, 1.0, 2.0]}}, "row 1: expected a whole number"),
        ({"sensitive_features": {"age": [1.0, math.inf, 2.0]}}, "row 2: expected a whole number"),
        ({"sensitive_features": {"id": [2**60, 2**60 + 1, 1]}}, "row 1: expected a whole number of at most"),
        ({"y_score": [0.1, math.nan, 0.2]}, "row 2"),
        ({"y_score": [0.1, math.inf, 0.2]}, "row 2"),
        ({"y_score": [0.1, -1, 0.2]}, "codes for unknown scores"),
        ({"y_score": [10, 999, 20]}, "codes for unknown scores: 999"),
        ({"y_true": [[1, 0], [0, 1], [1, 0]]}, "got 2 columns"),
        ({"y_pred": [], "y_true": [], "sensitive_features": {"sex": []}, "y_score": None}, "at least one decision"),
        ({"sample_weight": [1, 2, 3]}, "no entry 'sample_weight'"),
    ],
)
def test_bad_arrays_are_refused(change, message):
    arrays = {
        "y_pred": [1, 0, 1],
        "y_true": [True, False, True],
        "sensitive_features": {"sex": ["f", "m", "m"]},
        "y_score": [0.1, 0.2, 0.3],
    } | change
    with pytest.raises(EvenhandError, match=message):
        measure_decisions(**arrays)


def test_bad_options_are_refused():
    with pytest.raises(OptionError, match="no attribute is protected"):
        measure_decisions([1], [1], {})
    with pytest.raises(OptionError, match="between 0 and 1, got 95"):
        measure_decisions([1], [1], {"sex": ["f"]}, confidence=95)


@pytest.mark.parametrize("dtype", ["bool", "float", "uint8", "object", "Int64", "boolean", "category"])
def test_flags_of_any_type_give_the_same_numbers(dtype):
    expected = measure_decisions([1, 0, 1, 1], [1, 1, 0, 1], {"sex": ["f", "m", "f", "m"]}, min_group_size=1)
    flags = [pd.Series(flags).astype(dtype) for flags in ([1, 0, 1, 1], [1, 1, 0, 1])]
    result = measure_decisions(*flags, {"sex": ["f", "m", "f", "m"]}, min_group_size=1)
    assert result.breakdowns == expected.breakdowns
    assert result.overall == expected.overall


@pytest.mark.parametrize(
    ("values", "groups"),
    [
        (["a", None, "b", " "], {"a": 1, "b": 1, "missing": 2}),
        ([1, None, 3, 1], {"1": 2, "3": 1, "missing": 1}),
        ([1, "1", 3, math.nan], {"1": 2, "3": 1, "missing": 1}),
        (["a", "unknown", "NA", "A"], {"A": 1, "NA": 1, "a": 1, "unknown": 1}),
        ([-1, 999, 0, -1], {"-1": 2, "0": 1, "999": 1}),
        ([True, False, True, None], {"False": 1, "True": 2, "missing": 1}),
        ([None, None, None, None], {"missing": 4}),
    ],
)
def test_groups_of_plain_arrays_leave_no_one_out(values, groups):
    [breakdown] = measure_decisions([1, 0, 1, 1], None, {"of": values}, min_group_size=1).breakdowns
    assert {group.label: group.size for group in breakdown.groups} == groups
    assert breakdown.unknown == 0
