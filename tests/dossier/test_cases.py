"""Dossiers against tables that an independent exact implementation computed, cell by cell."""

import json
import math

import pytest

from evenhand.datasets.tables import read_words
from evenhand.dossier import DossierConfig, compile_dossier
from evenhand.errors import DossierError
from support import shared

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


def configuration(case):
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
    frame = read_words(folder / "data.csv")
    if "error" in expected:
        with pytest.raises(DossierError) as caught:
            compile_dossier(frame, configuration(case))
        assert {"code": caught.value.code, **caught.value.place} == expected["error"]
        return
    found = json.loads(compile_dossier(frame, configuration(case)).to_json())
    assert ("trade" in found) == ("trade" in expected)
    assert differences(expected, {key: found[key] for key in expected}) == []


def test_all_cases_are_compared():
    assert {one.name for one in shared("data", "dossier").iterdir() if one.is_dir()} == set(CASES)
