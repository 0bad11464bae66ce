"""Dossiers by hand: the rule's own example, bad input by its code, the law and its dates, open entries, checks."""

import datetime as dt
import json
import re

import pandas as pd
import pytest

from evenhand.core.document import Table
from evenhand.dossier import DossierConfig, DossierResult, compile_dossier, read_dossier_config, write_template
from evenhand.dossier.analysis import find_changed_cells
from evenhand.dossier.citations import list_citations
from evenhand.dossier.outline import OUTLINES
from evenhand.errors import DossierError, OptionError
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
    assert "impact ratio" in render_markdown(found.document())


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
