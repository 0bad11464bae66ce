"""Every cell of a dossier against a plain recount and the stored cases."""

import json
import math
import random

import pandas as pd
import pytest
from plain_recount import comparisons, impact_ratios, rows_by, score_comparisons, stratified

from evenhand.datasets.tables import read_frame
from evenhand.dossier import DossierConfig, compile_dossier
from evenhand.errors import DossierError
from evenhand.stats import fisher_exact, mantel_haenszel
from evenhand.stats.contingency import TwoRates
from support import shared

QUANTILES = (0.1, 0.35, 0.5, 1)
CATEGORIES = {"sex": ["Male", "Female"], "race": ["A", "B", "C", "D"]}


def random_people(rng):
    """People with small, skewed and missing groups, decided at random, often all alike within a group."""
    rates = {(sex, race): rng.choice([0, 0.2, 0.5, 0.9, 1]) for sex in "MF" for race in "ABCD"}
    shares = [rng.choice([0, 1, 2, 20]) for _ in "ABCD"]
    people = []
    for _ in range(rng.randint(1, 60)):
        sex, race = rng.choice(["Male", "Female"]), rng.choices("ABCD", [share + 0.01 for share in shares])[0]
        people.append(
            {
                "sex": sex if rng.random() > 0.1 else rng.choice(["", "Unknown"]),
                "race": race if rng.random() > 0.1 else "",
                "job": rng.choice("xyz"),
                "score": rng.choice([1, 2, 2.5, 3, 7]) if rng.random() > 0.05 else None,
                "selected": ("1" if rng.random() < rates[sex[0], race] else "0") if rng.random() > 0.05 else "",
            }
        )
    return people


def configuration(kind, declared, strata):
    column = "score" if kind == "score" else "selected"
    return DossierConfig(
        outcome={"column": column, "kind": kind},
        attributes={name: {"column": name, "categories": listed} for name, listed in CATEGORIES.items()},
        reference={"sex": "Male"} if declared else {},
        strata=strata,
        quantiles=QUANTILES if kind == "score" else (),
    )


def close(one, other):
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-12)
    return one == other


@pytest.mark.parametrize(
    "many", [30, pytest.param(1000, marks=pytest.mark.slow), pytest.param(5000, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("kind", ["selection", "score"])
def test_every_cell_is_that_of_a_plain_recount(kind, many):
    rng = random.Random(7)
    for _ in range(many):
        people = random_people(rng)
        column = "score" if kind == "score" else "selected"
        assessed = [one for one in people if one[column] not in ("", None)]
        declared = any(one["sex"] == "Male" for one in assessed) and rng.random() < 0.5
        if not assessed:
            continue
        strata = "job" if rng.random() < 0.3 else None
        found = compile_dossier(pd.DataFrame(people), configuration(kind, declared, strata))
        ordered = sorted(one["score"] for one in assessed) if kind == "score" else [0]
        median = (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2

        def is_selected(one, median=median):
            return one["score"] > median if kind == "score" else one["selected"] == "1"

        assert found.people == len(people)
        assert found.assessed == len(assessed)
        assert found.median == (median if kind == "score" else None)
        (run,) = found.runs
        assert (found.trade is not None) == (kind == "score" and declared)
        for scores in found.trade or ():
            cells, _ = rows_by(assessed, scores.by, CATEGORIES)
            means, cuts = score_comparisons(cells, assessed, scores.reference, QUANTILES)
            for row in scores.rows:
                assert close(row.mean, means[row.category][0])
                assert close(row.smd, means[row.category][1])
            for cut, (score, many_reached, reached, ratios) in zip(scores.quantiles, cuts, strict=True):
                assert (cut.cut, cut.selected) == (score, many_reached)
                assert {row.category: row.k for row in cut.rows} == reached
                assert all(close(row.ratio, ratios[row.category]) for row in cut.rows)
        for number, table in enumerate(run.ll144):
            cells, unknown = rows_by(assessed, table.by, CATEGORIES)
            assert table.unknown == unknown
            expected = impact_ratios(cells, is_selected)
            assert [(row.n, row.k, row.rate, row.status) for row in table.rows] == [each[:4] for each in expected]
            assert all(close(row.ratio, each[4]) for row, each in zip(table.rows, expected, strict=True))
            given = ("Male",) if declared and table.by == ("sex",) else None
            reference, compared = comparisons(cells, is_selected, given)
            assert run.four_fifths[number].reference == reference
            for row in run.four_fifths[number].rows:
                for name, value in compared.get(row.category, {}).items():
                    assert close(getattr(row, name), value), (row, name, value)
            for row in run.mantel_haenszel[number].rows if strata else ():
                for name, value in stratified(
                    cells, is_selected, reference, row.category, lambda one: one["job"]
                ).items():
                    assert close(getattr(row, name), value), (row, name, value)


def test_the_order_of_people_changes_nothing():
    people = random_people(random.Random(3))
    frame = pd.DataFrame(people)
    one, other = (
        compile_dossier(each, configuration("score", False, "job")).plain()
        for each in (frame, frame.sample(frac=1, random_state=1))
    )
    assert one == other


def test_fisher_holds_where_products_are_large_and_ties_are_exact():
    assert fisher_exact(TwoRates(3, 5, 3, 5)) == 1.0
    # Both ends of a symmetric distribution are equally likely: one end alone would give half of it.
    assert fisher_exact(TwoRates(0, 10, 10, 10)) == pytest.approx(2 / math.comb(20, 10), rel=1e-12)
    assert fisher_exact(TwoRates(600, 1000, 400, 1000)) == pytest.approx(
        2 * _upper_tail(600, 1000, 1000, 1000), rel=1e-9
    )
    assert fisher_exact(TwoRates(300_000, 500_000, 1, 500_000)) == 0
    # This one is as good as impossible, and so are thousands of others near it: which are likelier matters to no digit.
    assert fisher_exact(TwoRates(20_400, 50_000, 27_500, 50_000)) == 0


def _upper_tail(k, n, n_r, m):
    return sum(math.comb(n, x) * math.comb(n_r, m - x) for x in range(k, min(n, m) + 1)) / math.comb(n + n_r, m)


def test_one_stratum_is_the_table_itself():
    found = mantel_haenszel([TwoRates(4, 10, 7, 9)])
    assert found.odds_ratio == pytest.approx(4 * 2 / (6 * 7))
    assert found.rate_ratio == pytest.approx((4 / 10) / (7 / 9))
    assert found.homogeneity is None


def test_strata_of_one_odds_ratio_are_homogeneous():
    found = mantel_haenszel([TwoRates(10, 20, 5, 20), TwoRates(30, 40, 20, 40)])
    assert found.odds_ratio == pytest.approx(3)
    assert found.homogeneity == pytest.approx(0, abs=1e-9)
    assert found.homogeneity_p == pytest.approx(1)
    assert found.odds_low < 3 < found.odds_high


CASES = [
    "01-plain",
    "02-unknown-sex",
    "03-unknown-both",
    "04-tiny-groups",
    "05-below-2-kept",
    "06-below-2-excluded",
    "07-exactly-2-percent",
    "08-2-percent-and-unknown",
    "09-all-rejected",
    "10-one-category",
    "11-tied-highest",
    "12-empty-intersections",
    "13-scores-unknown-and-missing",
    "14-scores-even",
    "15-scores-tied-at-median",
    "16-scores-all-equal",
    "17-classes",
    "18-exactly-four-fifths",
    "19-small-numbers",
    "20-strata",
    "21-strata-without-information",
    "22-rule-example-race",
    "23-bad-exclusion",
    "24-bad-category",
    "25-trade",
]


def case_configuration(case):
    """The configuration of a case in the words of dossiers."""
    outcome = {"column": case["outcome"], "kind": case["kind"]}
    if "classes" in case:
        outcome["classes"] = case["classes"]
    return DossierConfig(
        outcome=outcome,
        attributes={
            name: {"column": name, "categories": case.get("categories", {}).get(name)} for name in case["attributes"]
        },
        **{name: case[name] for name in ("unknown", "exclude", "reference", "strata", "quantiles") if name in case},
    )


def differences(expected, given, place=""):
    """Every cell that is not as expected: counts, words, flags and nulls exactly, numbers to 1e-9."""
    if isinstance(expected, dict):
        if set(expected) != set(given):
            return [f"{place}: {sorted(expected)} expected, got {sorted(given)}"]
        return [one for key in expected for one in differences(expected[key], given[key], f"{place}.{key}")]
    if isinstance(expected, list):
        if len(expected) != len(given):
            return [f"{place}: {len(expected)} expected, got {len(given)}"]
        return [one for i, each in enumerate(expected) for one in differences(each, given[i], f"{place}[{i}]")]
    if isinstance(expected, float) and isinstance(given, float):
        same = math.isclose(expected, given, rel_tol=1e-9, abs_tol=1e-15)
    else:
        same = expected == given and (type(expected) is type(given) or isinstance(given, float))
    return [] if same else [f"{place}: {expected!r} expected, got {given!r}"]


@pytest.mark.parametrize("name", CASES)
def test_every_cell_of_a_case_is_as_expected(name):
    folder = shared("data", "dossier", name)
    case = json.loads((folder / "config.json").read_text("utf-8"))
    expected = json.loads((folder / "expected.json").read_text("utf-8"))
    frame = read_frame(folder / "data.csv", words=True)
    if "error" in expected:
        with pytest.raises(DossierError) as caught:
            compile_dossier(frame, case_configuration(case))
        assert {"code": caught.value.code, **caught.value.place} == expected["error"]
        return
    found = json.loads(compile_dossier(frame, case_configuration(case)).to_json())
    assert ("trade" in found) == ("trade" in expected)
    assert differences(expected, {key: found[key] for key in expected}) == []


def test_all_cases_are_compared():
    assert {one.name for one in shared("data", "dossier").iterdir() if one.is_dir()} == set(CASES)
