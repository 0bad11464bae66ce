"""Dossiers by hand: examples, bad input, the law and its dates, words for outcomes, proxies, cards."""

import datetime as dt
import json
import re

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import evenhand
from evenhand.core.document import Table
from evenhand.dossier import (
    DossierConfig,
    DossierResult,
    compile_dossier,
    read_dossier_config,
    write_card,
    write_template,
)
from evenhand.dossier.analysis import find_changed_cells
from evenhand.dossier.cards import list_numbers
from evenhand.dossier.citations import list_citations
from evenhand.dossier.outline import OUTLINES
from evenhand.errors import DataError, DossierError, OptionError
from evenhand.view import render_markdown, write_dossier
from support import ROOT

TODAY = dt.date(2026, 11, 23)
BY_SEX = {"sex": {"column": "sex", "categories": ["Male", "Female"]}}


def people(counts, column="race"):
    """A frame of (category, people, selected)."""
    return pd.DataFrame([{column: category, "selected": int(i < k)} for category, n, k in counts for i in range(n)])


FROM_PEOPLE = ("ll144", "ugesp", "disparity")
"""Dossiers that need people and outcomes alone."""


def compiled(frame, dossiers=("ll144",), today=TODAY, as_of=None, **settings):
    settings = {"outcome": {"column": "selected"}, "attributes": BY_SEX} | settings
    return compile_dossier(frame, DossierConfig(**settings), dossiers=dossiers, today=today, as_of=as_of)


def test_the_example_of_the_rule():
    # 6 RCNY 5-301 (b): 204 of 408, 412 of 797, 170 of 390 are printed as 0.97, 1.00, 0.84; from rounded rates the
    # first would be 0.96. A category of 8 people has a ratio.
    counts = [("Hispanic", 408, 204), ("White", 797, 412), ("Black", 390, 170), ("Pacific", 8, 4)]
    frame = people(counts)
    found = compiled(frame, attributes={"race": {"column": "race", "categories": [one[0] for one in counts]}})
    (table,) = found.runs[0].ll144
    assert [round(row.ratio, 2) for row in table.rows] == [0.97, 1.0, 0.84, 0.97]
    assert [row.below_2_percent for row in table.rows] == [False, False, False, True]


def test_scores_above_the_median_of_everybody():
    # The scoring example's form: rate = people above the median / people; here 3 and 1 of 4, and an unknown person.
    frame = pd.DataFrame({"sex": [*["Male"] * 4, *["Female"] * 4, ""], "score": [9, 8, 7, 1, 6.5, 2, 3, 4, 5]})
    found = compiled(frame, outcome={"column": "score", "kind": "score"})
    (table,) = found.runs[0].ll144
    assert found.median == 5
    assert [(row.k, row.rate, row.ratio) for row in table.rows] == [(3, 0.75, 1.0), (1, 0.25, 1 / 3)]
    assert (table.unknown, table.counted, found.unknown_any) == (1, 8, 1)


def test_two_middle_scores_without_a_number_between_them():
    frame = pd.DataFrame({"sex": ["Male", "Female"], "score": [1.0, 1.0000000000000002]})
    (table,) = compiled(frame, outcome={"column": "score", "kind": "score"}).runs[0].ll144
    assert [row.k for row in table.rows] == [0, 1]


def test_words_that_mean_selected_and_numbers_that_are_words():
    frame = pd.DataFrame({"sex": [1.0, 2.0, None], "selected": ["hired", "no", "hired"]})
    found = compiled(
        frame,
        outcome={"column": "selected", "selected": ["hired"]},
        attributes={"sex": {"column": "sex", "categories": {1: "Male", "2": "Female"}}},
    )
    (table,) = found.runs[0].ll144
    assert [(row.n, row.k) for row in table.rows] == [(1, 1), (1, 0)]
    assert table.unknown == 1


GOOD = pd.DataFrame({"sex": ["Male", "Female"] * 30, "selected": [1, 0, 1, 1] * 15, "job": "a"})
TEXT = GOOD.astype(str)
OTHER = {"sex": {"column": "sex", "categories": ["Male", "Female", "X"]}}
SCORE = {"column": "selected", "kind": "score"}
CLASSES = {"column": "selected", "kind": "classes", "classes": ["1", "2"]}


def changed(frame, row, column, value):
    frame = frame.copy()
    frame.loc[row - 1, column] = value
    return frame


def at(row, value, column="selected"):
    return {"column": column, "value": value, "row": row}


def without(category, reason):
    return {"exclude": [{"by": "sex", "category": category, "why": reason}]}


@pytest.mark.parametrize(
    ("code", "frame", "settings", "place"),
    [
        ("no-rows", GOOD.head(0), {}, {}),
        ("no-column", GOOD, {"outcome": {"column": "hired"}}, {"column": "hired"}),
        ("no-column", GOOD, {"strata": "region"}, {"column": "region"}),
        ("no-outcomes", GOOD.assign(selected=None), {}, {"column": "selected"}),
        ("unlisted-category", changed(GOOD, 7, "sex", "X"), {}, at(7, "X", "sex")),
        ("unlisted-class", TEXT, {"outcome": CLASSES}, at(2, "0")),
        ("not-a-decision", changed(TEXT, 3, "selected", "maybe"), {}, at(3, "maybe")),
        ("not-a-number", changed(TEXT, 4, "selected", "inf"), {"outcome": SCORE}, at(4, "inf")),
        ("not-a-number", changed(TEXT, 4, "selected", "nan"), {"outcome": SCORE}, at(4, "nan")),
        ("no-stratum", changed(GOOD, 5, "job", ""), {"strata": "job"}, {"column": "job", "row": 5}),
        ("no-such-category", GOOD, {"reference": {"sex": "X"}}, {"column": "sex", "category": "X"}),
        ("no-such-category", GOOD, without("X", "few"), {"category": ["X"]}),
        ("empty-reference", GOOD, {"reference": {"sex": "X"}, "attributes": OTHER}, {"column": "sex", "category": "X"}),
        ("exclusion-without-reason", GOOD, without("Male", " "), {"category": ["Male"]}),
        ("not-below-2-percent", GOOD, without("Male", "few"), {"category": ["Male"]}),
        ("proxy-in-ll144", GOOD, {"proxy": {"surname": "name", "tables": {"surname": "names.csv"}}}, {}),
        ("audit-date-in-future", GOOD, {"audit": {"date": "2026-11-24"}}, {}),
    ],
)
def test_bad_input_has_a_code_and_a_place(code, frame, settings, place):
    with pytest.raises(DossierError) as caught:
        compiled(frame, **settings)
    assert (caught.value.code, caught.value.place) == (code, place)


def test_a_configuration_refuses_other_entries(tmp_path):
    path = tmp_path / "dossier.yaml"
    path.write_text("outcome: {column: a, knid: score}\nattributes: {sex: {column: sex}}\n")
    with pytest.raises(OptionError, match="no entry 'knid'"):
        read_dossier_config(path)
    path.write_text("outcome: {column: a}\nattributes: {sex: {column: sex}}\nquantiles: [1.5]\n")
    with pytest.raises(OptionError, match=r"1\.5"):
        read_dossier_config(path)


@pytest.mark.parametrize("name", OUTLINES)
def test_a_template_is_a_configuration_with_everything_open(tmp_path, name):
    path = tmp_path / "dossier.yaml"
    path.write_text(write_template((name,)))
    config = read_dossier_config(path)
    assert config.system.name is None
    assert list(config.attributes) == ["sex", "race_ethnicity"]


def test_open_entries_are_named_and_never_invented():
    found = compiled(GOOD, system={"name": "Ranker"})
    assert "auditor.name" in {one.field for one in found.open_fields}
    assert "system.name" not in {one.field for one in found.open_fields}
    said = render_markdown(found.document())
    assert said.count("to be filled") == len(found.open_fields) + 1  # and once in the warning
    test_data = compiled(GOOD, data={"kind": "test"})
    assert {"data.why_test", "data.how_made"} <= {one.field for one in test_data.open_fields}


def test_the_last_day_of_use_is_a_year_after_the_audit():
    said = render_markdown(compiled(GOOD, audit={"date": "2024-02-29"}).document())
    assert "2025-02-28" in said


def test_law_that_does_not_apply_is_refused_unless_another_day_is_asked_for():
    with pytest.raises(DossierError) as caught:
        compiled(GOOD, audit={"date": "2022-06-30"})
    assert caught.value.code == "not-in-force"
    found = compiled(GOOD, audit={"date": "2022-06-30"}, as_of=dt.date(2024, 1, 1))
    assert "law of 2024-01-01" in render_markdown(found.document())


def test_an_old_check_of_the_law_is_said_first():
    old = max(one.checked_on for one in list_citations()) + dt.timedelta(days=181)
    opening, _ = compiled(GOOD, today=old).document().sections()
    assert any("181 days ago" in getattr(block, "text", "") for block in opening)
    opening, _ = compiled(GOOD).document().sections()
    assert not any("days ago" in getattr(block, "text", "") for block in opening)


LEGAL = re.compile(
    r"\d+ (?:RCNY|CFR) [\d.-]+\d(?: to [\d-]+\d)?(?: [A-Z]\b)?|RIN [\w-]+|prEN \d+|Regulation \(EU\) \S+|"
    r"Admin\. Code [\d-]+|Art(?:icle|\.) \d+|Annex [IVX]+|Local Law \d+|§"
)
"""How laws are cited."""


def test_texts_cite_what_the_file_of_citations_has():
    known = " ".join(one.citation for one in list_citations())
    written = tuple(name for name in OUTLINES if name != "alternatives")
    documents = [
        render_markdown(compiled(GOOD, dossiers=written, strata="job", as_of=dt.date(2028, 1, 1)).document()),
        *(path.read_text("utf-8") for path in (ROOT / "src" / "evenhand" / "dossier").glob("[!c]*.py")),
        (ROOT / "docs" / "how-to" / "write-a-dossier.md")
        .read_text("utf-8")
        .partition("## Documents of the EU AI Act")[0],
    ]
    cited = {found.group(0) for text in documents for found in LEGAL.finditer(text)}
    assert cited
    assert {one for one in cited if one not in known} == set()


def test_no_verdict_is_given():
    written = tuple(name for name in OUTLINES if name != "alternatives")
    said = render_markdown(compiled(GOOD, dossiers=written, as_of=dt.date(2028, 1, 1)).document()).lower()
    assert not re.search(r"\b(is|are|fully) compliant\b|violates|is (un)?lawful|discriminates", said)


def test_the_document_of_local_law_144_has_no_threshold_and_no_test():
    said = render_markdown(compiled(GOOD).document()).lower()
    assert not re.search("four.fifths|4/5|fisher|significan|p-value|proxy", said)


def test_a_changed_cell_is_found():
    found = compiled(GOOD, dossiers=("ll144", "ugesp"), strata="job", reference={"sex": "Male"})
    assert find_changed_cells(DossierResult.from_json(found.to_json()), GOOD) == []
    assert find_changed_cells(found, changed(GOOD, 1, "selected", 0))
    written = json.loads(found.to_json())
    places = [
        ("people", 59),
        ("runs", 0, "ll144", 0, "rows", 1, "ratio", 0.5000001),
        ("runs", 0, "four_fifths", 0, "rows", 1, "significant", None),
        ("runs", 0, "mantel_haenszel", 0, "rows", 0, "strata", 2),
    ]
    for *path, name, value in places:
        copy = json.loads(json.dumps(written))
        part = copy
        for step in path:
            part = part[step]
        part[name] = value
        (place,) = find_changed_cells(DossierResult.model_validate(copy), GOOD)
        assert str(name) in place


def test_equal_input_gives_equal_files(tmp_path):
    one, other = (write_dossier(compiled(GOOD), tmp_path / name, printed=False) for name in ("one", "other"))
    assert [path.name for path in one] == ["ll144.html", "dossier.json", "ll144-sex.csv"]
    assert [path.read_bytes() for path in one] == [path.read_bytes() for path in other]


def test_a_name_does_not_become_a_formula_or_markup(tmp_path):
    names = ["=1+1", "<b>@x</b>"]
    frame = pd.DataFrame({"sex": names * 5, "selected": [0, 1] * 5})
    found = compiled(frame, attributes={"sex": {"column": "sex", "categories": names}})
    page, _, table = write_dossier(found, tmp_path, printed=False)
    assert "'=1+1" in table.read_text()
    assert "<b>@x" not in page.read_text()


def test_every_table_of_a_document_has_its_cells():
    found = compiled(GOOD, dossiers=FROM_PEOPLE, strata="job", reference={"sex": "Male"})
    scored = compiled(
        GOOD, dossiers=("disparity",), outcome=SCORE, reference={"sex": "Male"}, quantiles=[0.1, 0.5], strata="job"
    )
    for one in (found, scored):
        for block in one.document().blocks:
            if isinstance(block, Table):
                assert {len(row.cells) for row in block.rows} == {len(block.columns)}
        assert not one.to_frame().empty
        assert all(len(frame) for frame in one.tables().values())


def test_finished_examples_are_read_as_dossiers_of_today():
    found = sorted((ROOT / "docs" / "dossiers").glob("*/dossier.json"))
    assert len(found) == 2
    for path in found:
        dossier = DossierResult.from_json(path.read_text("utf-8"))
        for name, frame in dossier.tables().items():
            assert (path.parent / f"{name}.csv").read_text("utf-8").startswith(",".join(frame.columns[:2])), name


DECIDED = [1] * 20 + [0] * 80 + [1] * 60 + [0] * 40
SEX = ["F"] * 100 + ["M"] * 100


@pytest.fixture(scope="module")
def audit():
    return evenhand.audit_predictions(DECIDED, y_true=DECIDED, sensitive_features={"sex": SEX}, favourable=1)


def test_hugging_face_reads_the_metadata(audit):
    hub = pytest.importorskip("huggingface_hub", reason="needs huggingface_hub, which transformers brings")
    card = hub.ModelCard(write_card(audit))
    results = {(one.metric_type, one.metric_args["of"]): one for one in card.data.eval_results}
    gap = results["demographic_parity_difference", "sex: M and F"]
    assert gap.metric_value == pytest.approx(0.4)
    assert gap.metric_args["low"] < 0.4 < gap.metric_args["high"]
    numbers = list(list_numbers(audit))
    assert card.text.count("\n| ") == len(numbers) + 2
    assert len(card.data.eval_results) == sum(one.quantity.kind != "unknown" for one in numbers)


def test_numbers_of_an_audit_keep_their_kind_and_interval(audit):
    quantities = {(number.group, number.name): number.quantity for number in list_numbers(audit)}
    breakdown = audit.groups.breakdowns[0]
    for group in breakdown.groups:
        for name, quantity in group.metrics.items():
            assert quantities[group.label, name] == quantity
    for gap in breakdown.gaps:
        assert gap.value in [one.quantity for one in list_numbers(audit) if one.name == gap.name]


SURNAMES = "name,a,b\nGarcía,0.9,0.1\nSMITH,0.2,0.8\nLee,0.5,0.5\n"
PLACES = "name,b,a\n1,0.02,0.01\n2,0.01,0.03\n"


@pytest.fixture
def tables(tmp_path):
    (tmp_path / "surnames.csv").write_text(SURNAMES, "utf-8")
    (tmp_path / "places.csv").write_text(PLACES, "utf-8")
    return tmp_path


def proxy_compiled(frame, folder, dossiers=("disparity",), **proxy):
    settings = {"surname": "last", "geography": "tract"} | proxy
    files = {"surname": str(folder / "surnames.csv"), "geography": str(folder / "places.csv")}
    settings["tables"] = {name: file for name, file in files.items() if settings.get(name)} | proxy.get("tables", {})
    config = DossierConfig(outcome={"column": "y"}, attributes={}, proxy=settings)
    return compile_dossier(frame, config, dossiers=dossiers, today=dt.date(2026, 11, 23))


def test_the_product_by_hand(tables):
    # Garcia in 1: 0.9 * 0.01 against 0.1 * 0.02, so 9/11; Smith in 2: 0.2 * 0.03 against 0.8 * 0.01, so 3/7.
    frame = pd.DataFrame({"last": ["garcia", "Smith ", "Nguyen", ""], "tract": ["1", "2", "1", "2"], "y": [1, 0, 1, 1]})
    found = proxy_compiled(frame, tables).proxies[0].rates
    assert (found.people, found.unknown) == (2, 2)
    wanted = (9 / 11) / (9 / 11 + 3 / 7)
    assert found.groups[0].metrics["selection_rate"].value == pytest.approx(wanted, rel=1e-12)


def test_no_estimate_stands_without_bounds(tables):
    frame = pd.DataFrame(
        {"last": ["Garcia", "Smith", "Lee", "Lee"] * 100, "tract": ["1", "2"] * 200, "y": [1, 0] * 200}
    )
    found = proxy_compiled(frame, tables)
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
        proxy_compiled(frame, tables, dossiers=("ll144", "disparity"))
    assert caught.value.code == "proxy-in-ll144"
    with pytest.raises(DossierError) as caught:
        proxy_compiled(frame, tables, surname="surname")
    assert (caught.value.code, caught.value.place) == ("no-column", {"column": "surname"})
    with pytest.raises(OptionError, match="disparity"):
        proxy_compiled(frame, tables, dossiers=("ugesp",))
    for text, said in (
        ("name,a\nLee,1\n", "at least two groups"),
        ("name,a,b\nLee,1,x\n", "probabilities"),
        ("name,a,b\nLee,0.5,0.5\nLEE,0.5,0.5\n", "duplicate name"),
        ("name,a,c\nLee,0.5,0.5\n", "expected the groups"),
    ):
        (tables / "places.csv").write_text(text)
        with pytest.raises(DataError, match=said):
            proxy_compiled(frame, tables)


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
        group = proxy_compiled(frame, tmp_path, geography=None).proxies[0].rates.groups[0]
        rate, (low, high) = group.metrics["selection_rate"], group.bounds
        truth = 0.4 + d
        held += low <= y[member].mean() <= high
        missed += not rate.low <= truth <= rate.high
    assert held == runs
    assert missed >= 0.9 * runs


SPELLINGS = {"bool": (True, False), "whole": (1, 0), "float": (1.0, 0.0), "words": ("1", "0")}
SPELLINGS |= {"decimals": ("1.0", "0.0"), "names": ("True", "False"), "capitals": ("TRUE", "FALSE")}


def words_compiled(sexes, outcomes, **settings):
    config = {
        "outcome": {"column": "outcome", **settings.pop("outcome", {})},
        "attributes": {"sex": {"column": "sex", "categories": settings.pop("categories", None)}},
        **settings,
    }
    return compile_dossier(pd.DataFrame({"sex": sexes, "outcome": outcomes}), config, today=TODAY)


def counts(result):
    """The people and selected people of each category."""
    (table,) = result.runs[0].ll144
    return {row.category[0]: (row.n, row.k) for row in table.rows}


def refused(code, *arguments, **settings):
    with pytest.raises(DossierError) as caught:
        words_compiled(*arguments, **settings)
    assert caught.value.code == code
    return caught.value


def listed(error):
    """The words that an error lists, with their counts and first rows."""
    found = re.findall(r"'([^']*)' \(([\d,]+) rows?, first in row ([\d,]+)\)", error.message)
    return {word: (int(n), int(row)) for word, n, row in found}


PEOPLE = st.lists(st.tuples(st.sampled_from("FM"), st.booleans()), min_size=8, max_size=20).map(
    lambda drawn: [("F", True), ("M", False), *drawn]
)


@given(PEOPLE, st.sampled_from([*SPELLINGS]), st.sampled_from([(), ("1",), (1,), (True,), ("True",), ("1.0",)]))
def test_spellings_of_true_and_false_are_one(people, spelling, selected):
    sexes, outcomes = [sex for sex, _ in people], [SPELLINGS[spelling][not chosen] for _, chosen in people]
    expected = {sex: (sexes.count(sex), people.count((sex, True))) for sex in "FM"}
    result = words_compiled(sexes, outcomes, outcome={"selected": selected})
    assert counts(result) == expected
    assert sum(result.outcome_words.selected.values()) == sum(k for _, k in expected.values())


WORDS = ["hired", "Hired", "hired ", "declined", "Declined", "offer", "N/A", "Unknown", "maybe", ""]


@given(
    st.lists(st.sampled_from(WORDS), min_size=1, max_size=12),
    st.lists(st.sampled_from(["hired", "offer"]), min_size=1, unique=True),
    st.lists(st.sampled_from(["declined", "Declined"]), unique=True),
)
def test_every_word_has_a_meaning_or_is_listed(outcomes, selected, rejected):
    words = [word.strip() for word in outcomes]
    decided = {word for word in words if word not in ("", "Unknown")}
    others = decided - {*selected, *rejected}
    variants = {"Hired"} if "hired" in selected else set()
    closed = not others or (not rejected and len(others) == 1 and not others & {"N/A", *variants})
    closed = closed and {*selected, *rejected} <= decided
    arguments = (["F", "M"] * len(words), outcomes * 2)
    settings = {"outcome": {"selected": selected, "rejected": rejected}}
    if closed:
        result = words_compiled(*arguments, **settings)
        assert sum(k for _, k in counts(result).values()) == 2 * sum(word in selected for word in words)
        assert result.no_outcome == 2 * sum(word in ("", "Unknown") for word in words)
        read = result.outcome_words
        assert {**read.selected, **read.rejected} == {word: 2 * words.count(word) for word in decided}
        return
    with pytest.raises(DossierError) as caught:
        words_compiled(*arguments, **settings)
    if caught.value.code == "not-a-decision":
        assert listed(caught.value) == {word: (2 * words.count(word), words.index(word) + 1) for word in others}
    elif caught.value.code == "never-occurs":
        assert not {*selected, *rejected} <= decided
        assert set(listed(caught.value)) == decided
    else:
        assert (caught.value.code, decided) == ("no-outcomes", set())


@given(st.integers(0, 9), st.sampled_from(["yess", "YES", "no ?", "No", "2", "None", "Y es"]))
def test_no_word_can_be_exchanged_unnoticed(place, word):
    outcomes = ["yes", "no"] * 5
    outcomes[place] = word
    error = refused("not-a-decision", ["F", "M"] * 5, outcomes, outcome={"selected": ["yes"]})
    assert listed(error)[word] == (1, place + 1)


def test_words_for_unknown_are_no_outcome_only_where_they_are_listed():
    outcomes = ["yes", "no", "N/A", ""] * 2
    sexes = ["F"] * 4 + ["M"] * 4
    error = refused("not-a-decision", sexes, ["yes", "N/A", "yes", "N/A"] * 2, outcome={"selected": ["yes"]})
    assert listed(error) == {"N/A": (4, 2)}
    result = words_compiled(sexes, outcomes, outcome={"selected": ["yes"]}, unknown=["N/A"])
    assert counts(result) == {"F": (2, 1), "M": (2, 1)}
    assert (result.outcome_words.unknown, result.outcome_words.empty, result.no_outcome) == ({"N/A": 2}, 2, 4)
    stated = words_compiled(sexes, outcomes, outcome={"selected": ["yes"], "rejected": ["no", "N/A"]}, unknown=["N/A"])
    assert counts(stated) == {"F": (3, 1), "M": (3, 1)}


def test_scores_may_have_words_for_unknown():
    sexes, scores = ["F", "M"] * 4, ["1", "2", "3", "4", "5", "Unknown", "7", ""]
    result = words_compiled(sexes, scores, outcome={"kind": "score"})
    assert (result.assessed, result.outcome_words.unknown, result.outcome_words.empty) == (6, {"Unknown": 1}, 1)
    error = refused("not-a-number", sexes, [*scores[:6], "n/a", "-"], outcome={"kind": "score"})
    assert listed(error) == {"n/a": (1, 7), "-": (1, 8)}


def test_codes_among_scores_are_refused_unless_listed_as_unknown():
    frame = pd.DataFrame({"sex": ["F", "M"] * 4, "selected": [10.0, 20, 30, 40, 50, 60, 70, -999]})
    config = {"outcome": {"column": "selected", "kind": "score"}, "attributes": {"sex": {"column": "sex"}}}
    with pytest.raises(DossierError, match="codes for unknown scores: -999"):
        compile_dossier(frame, config)
    result = compile_dossier(frame, config | {"unknown": ["-999"]})
    assert (result.assessed, result.median) == (7, 40)


def test_classes_are_closed_too():
    sexes, words = ["F", "M"] * 3, ["lead", "support", "Lead", "analyst", "not stated", "lead"]
    error = refused("unlisted-class", sexes, words, outcome={"kind": "classes", "classes": ["lead", "support"]})
    assert listed(error) == {"Lead": (1, 3), "analyst": (1, 4), "not stated": (1, 5)}
    error = refused("unlisted-class", sexes, words, outcome={"kind": "classes"})
    assert listed(error) == {"lead": (2, 1), "Lead": (1, 3), "not stated": (1, 5)}
    classes = ["lead", "Lead", "support", "analyst", "Unknown"]
    absent = refused("never-occurs", sexes, words, outcome={"kind": "classes", "classes": [*classes, "not stated"]})
    assert absent.place["value"] == "lead"
    result = words_compiled(sexes, words, outcome={"kind": "classes", "classes": classes[:-1]}, unknown=["not stated"])
    assert [run.of for run in result.runs] == classes[:-1]


def test_categories_name_all_unlisted_words_and_spelling_variants():
    outcomes, sexes = [1, 0] * 4, ["F", "M", "female", "Non-binary", "x", "F", "x", "M"]
    error = refused("unlisted-category", sexes, outcomes, categories={"F": "Female", "M": "Male"})
    assert listed(error) == {"female": (1, 3), "Non-binary": (1, 4), "x": (2, 5)}
    variants = refused("spelling-variants", ["F", "f"] * 4, outcomes)
    assert variants.place["values"] == ("F", "f")
    forms = refused("unlisted-category", ["F", "prefer not to say"] * 4, outcomes)
    assert listed(forms) == {"prefer not to say": (4, 2)}
    merged = words_compiled(["F", "f", "M", "f"], [1, 0, 1, 0], categories={"F": "F", "f": "F", "M": "M"})
    assert set(counts(merged)) == {"F", "M"}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_category_may_be_a_truth_value(spelling):
    yes, no = SPELLINGS[spelling]
    result = words_compiled([yes, no, no], [1, 0, 1], categories={True: "veteran", False: "other"})
    assert counts(result) == {"veteran": (1, 1), "other": (2, 1)}


WORDED = {"column": "s", "selected": ["yes", "1"], "rejected": ["True"]}


@pytest.mark.parametrize("outcome", [WORDED, {"column": "s", "kind": "classes", "classes": ["1", "2", True]}])
def test_a_word_has_one_meaning(outcome):
    with pytest.raises(OptionError):
        compile_dossier(pd.DataFrame({"s": ["1"]}), {"outcome": outcome, "attributes": {"s": {"column": "s"}}})


def test_a_category_key_has_one_category():
    with pytest.raises(OptionError):
        words_compiled(["1", "2"], [1, 0], categories={1: "Female", "1.0": "Male"})
