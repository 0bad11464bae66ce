"""Groups known by names and places: the product by hand, and what bounds, line and interval are worth."""

import datetime as dt

import numpy as np
import pandas as pd
import pytest

from evenhand.dossier import DossierConfig, compile_dossier
from evenhand.errors import DataError, DossierError, OptionError
from evenhand.view import render_markdown

SURNAMES = "name,a,b\nGarcía,0.9,0.1\nSMITH,0.2,0.8\nLee,0.5,0.5\n"
PLACES = "name,b,a\n1,0.02,0.01\n2,0.01,0.03\n"


@pytest.fixture
def tables(tmp_path):
    (tmp_path / "surnames.csv").write_text(SURNAMES, "utf-8")
    (tmp_path / "places.csv").write_text(PLACES, "utf-8")
    return tmp_path


def compiled(frame, folder, dossiers=("disparity",), **proxy):
    settings = {"surname": "last", "geography": "tract"} | proxy
    files = {"surname": str(folder / "surnames.csv"), "geography": str(folder / "places.csv")}
    settings["tables"] = {name: file for name, file in files.items() if settings.get(name)} | proxy.get("tables", {})
    config = DossierConfig(outcome={"column": "y"}, attributes={}, proxy=settings)
    return compile_dossier(frame, config, dossiers=dossiers, today=dt.date(2026, 11, 23))


def test_the_product_by_hand(tables):
    # Garcia in 1: 0.9 * 0.01 against 0.1 * 0.02, so 9/11; Smith in 2: 0.2 * 0.03 against 0.8 * 0.01, so 3/7.
    frame = pd.DataFrame({"last": ["garcia", "Smith ", "Nguyen", ""], "tract": ["1", "2", "1", "2"], "y": [1, 0, 1, 1]})
    found = compiled(frame, tables).proxies[0].rates
    assert (found.people, found.unknown) == (2, 2)
    wanted = (9 / 11) / (9 / 11 + 3 / 7)
    assert found.groups[0].metrics["selection_rate"].value == pytest.approx(wanted, rel=1e-12)


def test_no_estimate_stands_without_bounds(tables):
    frame = pd.DataFrame(
        {"last": ["Garcia", "Smith", "Lee", "Lee"] * 100, "tract": ["1", "2"] * 200, "y": [1, 0] * 200}
    )
    found = compiled(frame, tables)
    said = render_markdown(found.document())
    for words in ("under the assumption", "without the assumption", "estimated", "Left out"):
        assert (words in said) == (words != "Left out"), words
    assert [one.column for one in found.proxy_tables] == ["last", "tract"]
    for group in found.proxies[0].rates.groups:
        rate, (low, high) = group.metrics["selection_rate"], group.bounds
        assert rate.kind == "estimated"
        assert low <= rate.value <= high


def test_what_cannot_be_a_proxy_is_refused(tables):
    frame = pd.DataFrame({"last": ["Lee"], "tract": ["1"], "y": [1]})
    with pytest.raises(DossierError) as caught:
        compiled(frame, tables, dossiers=("ll144", "disparity"))
    assert caught.value.code == "proxy-in-ll144"
    with pytest.raises(DossierError) as caught:
        compiled(frame, tables, surname="surname")
    assert (caught.value.code, caught.value.place) == ("no-column", {"column": "surname"})
    with pytest.raises(OptionError, match="disparity"):
        compiled(frame, tables, dossiers=("ugesp",))
    for text, said in (
        ("name,a\nLee,1\n", "at least two groups"),
        ("name,a,b\nLee,1,x\n", "probabilities"),
        ("name,a,b\nLee,0.5,0.5\nLEE,0.5,0.5\n", "duplicate name"),
        ("name,a,c\nLee,0.5,0.5\n", "expected the groups"),
    ):
        (tables / "places.csv").write_text(text)
        with pytest.raises(DataError, match=said):
            compiled(frame, tables)


@pytest.mark.parametrize("runs", [12, pytest.param(300, marks=pytest.mark.slow)])
def test_bounds_hold_and_the_interval_alone_misses(tmp_path, runs):
    # Members are selected 20 points more often than others of the same surname, so estimates are off.
    rng, d, n = np.random.default_rng(5), 0.2, 4000
    p = np.linspace(0.05, 0.95, 10)
    text = "name,a,b\n" + "".join(f"N{i},{share},{1 - share}\n" for i, share in enumerate(p.tolist()))
    (tmp_path / "surnames.csv").write_text(text)
    missed = held = 0
    for _ in range(runs):
        cell = rng.integers(0, 10, n)
        member = rng.random(n) < p[cell]
        y = rng.random(n) < 0.4 + d * member
        frame = pd.DataFrame({"last": [f"N{i}" for i in cell], "y": y.astype(int)})
        group = compiled(frame, tmp_path, geography=None).proxies[0].rates.groups[0]
        rate, (low, high) = group.metrics["selection_rate"], group.bounds
        truth = 0.4 + d
        held += low <= y[member].mean() <= high
        missed += not rate.low <= truth <= rate.high
    assert held == runs
    assert missed >= 0.9 * runs
