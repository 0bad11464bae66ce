"""Results of mitigations as evidence; results of other kinds are refused."""

import datetime as dt
import json
import math

import numpy as np
import pandas as pd
import pytest

from evenhand.core.document import Table
from evenhand.dossier import DossierConfig, DossierResult, compile_dossier
from evenhand.dossier.analysis import find_changed_cells
from evenhand.dossier.evidence import read_evidence
from evenhand.dossier.outline import OUTLINES
from evenhand.errors import DataError, DossierError, OptionError
from evenhand.mitigation import CandidateResult, MitigationResult, refute_alternatives
from evenhand.mitigation.candidate import Trial
from evenhand.mitigation.result import Change, ComparisonLine, SplitSizes
from evenhand.schema.people import ColumnRoles
from evenhand.stats import Observed
from evenhand.view import render_markdown

TODAY = dt.date(2026, 11, 23)
LAW = dt.date(2028, 1, 1)
PEOPLE = pd.DataFrame({"sex": ["Male", "Female"] * 100, "selected": ([1, 0, 1, 1] * 50), "truth": [1, 0, 0, 1] * 50})


def observed(value, n=400, half=0.05):
    return Observed(value=value, n=n, low=value - half, high=value + half, confidence=0.95, method="by hand")


def compared(name, before, after, part="asked", better_if="down", verdict="better"):
    moved = after - before
    change = Change(value=moved, low=moved - 0.01, high=moved + 0.01, confidence=0.99, n=400, method="by hand")
    sides = {"before": observed(before), "after": observed(after), "better_if": better_if}
    return ComparisonLine(part=part, name=name, of="", words=f"the {name}", change=change, verdict=verdict, **sides)


def candidate(method, accuracy, harm, **more):
    lines = (compared("accuracy", 0.9, accuracy, "performance", "up", "within noise"), compared("flip_rate", 0.2, harm))
    trials = (Trial(setting="added", value=50, accuracy=accuracy, harms=(harm,), chosen=True),)
    return CandidateResult(method=method, words=f"made by {method}", lines=lines, trials=trials, **more)


def mitigation(*candidates, chosen):
    return MitigationResult(
        model="given.npz",
        data="people",
        favourable="yes",
        people=SplitSizes(train=900, validation=300, test=400),
        harms=("decisions that flip",),
        confidence=0.95,
        accuracy_loss=0.01,
        candidates=candidates,
        chosen=chosen,
        seed=0,
        seconds=1.0,
    )


DONE = mitigation(candidate("retrain", 0.9, 0.1), candidate("reweigh", 0.85, 0.15), chosen="retrain")


def compiled(dossiers, results=(), as_of=LAW, **settings):
    settings = {"outcome": {"column": "selected"}, "attributes": {"sex": {"column": "sex"}}} | settings
    return compile_dossier(
        PEOPLE, DossierConfig(**settings), dossiers=dossiers, today=TODAY, as_of=as_of, results=results
    )


def test_files_are_read_by_kind_and_schema_version(tmp_path):
    path = tmp_path / "mitigation.json"
    path.write_text(DONE.to_json())
    assert read_evidence([path])[0].result == read_evidence([DONE])[0].result == DONE
    plain = json.loads(DONE.to_json())
    refused = [
        ({"kind": "audit"}, "got JSON of kind 'audit'"),
        ({"kind": None}, "other JSON"),
        ({"kind": []}, "other JSON"),
        ({"schema_version": 2}, "got 2"),
        ({"schema_version": None}, "got None"),
        ({"schema_version": True}, "got True"),
        ({"people": {}}, "not a MitigationResult"),
    ]
    for change, said in refused:
        path.write_text(json.dumps(plain | change))
        with pytest.raises(DataError, match=said):
            read_evidence([path])
    for text, said in (("[]", "other JSON"), ("{", "not JSON")):
        path.write_text(text)
        with pytest.raises(DataError, match=said):
            read_evidence([path])
    with pytest.raises(DataError, match="cannot be read"):
        read_evidence([tmp_path / "absent.json"])


def test_alternatives_tell_every_candidate_and_the_choice():
    said = render_markdown(compiled(["alternatives"], [DONE]).document())
    for words in ("given.npz", "the new model, retrain", "reweigh", "test set 400", "Made by reweigh", "1.0 %"):
        assert words in said, words
    none = mitigation(candidate("retrain", 0.7, 0.1, rejected="accuracy is lost"), chosen=None)
    said = render_markdown(compiled(["alternatives"], [none]).document())
    with pytest.raises(DossierError) as caught:
        compiled(["alternatives"])
    assert caught.value.code == "no-alternatives"


def test_thresholds_are_shown_beside_the_comparisons_of_trade():
    found = compiled(["disparity"], thresholds={"ratio": 0.5, "difference": 0.4})
    assert [(one.measure, one.finding) for one in found.thresholds] == [("ratio", "within"), ("difference", "beyond")]


def test_intervals_are_in_the_json_and_in_no_document_of_local_law_144():
    found = compiled(["ll144"], as_of=None)
    (table,) = found.intervals
    women, men = table.rows
    assert women.rate_low < 0.5 < women.rate_high
    assert women.ratio_low < 0.5 < women.ratio_high
    assert (men.ratio_low, men.ratio_high) == (None, None)
    assert math.isclose(men.rate_low, 0.025 ** (1 / 100))
    assert "interval" not in render_markdown(found.document())


def test_a_check_needs_the_results_and_finds_their_changes():
    dossier = compiled(["alternatives"], [DONE])
    with pytest.raises(OptionError, match="is based on results"):
        find_changed_cells(dossier, PEOPLE)
    assert find_changed_cells(DossierResult.from_json(dossier.to_json()), PEOPLE, results=[DONE]) == []
    written = json.loads(dossier.to_json())
    line = ("evidence", 0, "result", "candidates", 0, "lines", 0, "after", "value")
    for path in (line, ("intervals", 0, "rows", 0, "rate_low")):
        copy = json.loads(json.dumps(written))
        part = copy
        for step in path[:-1]:
            part = part[step]
        part[path[-1]] += 1e-6
        (place,) = find_changed_cells(DossierResult.model_validate(copy), PEOPLE, results=[DONE])
        assert path[-1] in place


def test_every_row_of_a_document_has_its_cells():
    names = [name for name in OUTLINES if name != "ll144"]
    dossier = compiled(names, [DONE], thresholds={"ratio": 0.8, "difference": 0.1})
    tables = [block for block in dossier.document().blocks if isinstance(block, Table)]
    assert len(tables) > 7
    for table in tables:
        # A heading of a table has one cell.
        assert {len(row.cells) for row in table.rows if not row.heading} == {len(table.columns)}, table.caption


def test_kinds_of_numbers_are_kept_in_tables():
    frames = compiled(["alternatives"], [DONE]).tables()
    assert set(frames["alternatives"]["method"]) == {"retrain", "reweigh"}
    assert set(frames["alternatives"]["before_kind"]) == {"observed"}
    assert np.isfinite(frames["alternatives"][["before_low", "change_low"]]).all(axis=None)


def test_a_refutation_is_told_alone():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"grade": rng.integers(0, 2, 200), "sex": rng.choice(["f", "m"], 200)})
    frame["hired"] = np.where(frame["grade"] + (rng.random(200) < 0.2) > 0.5, "yes", "no")
    people = ColumnRoles("hired", ["sex"], "yes").read(frame)
    found = refute_alternatives(people, features=["grade == 1"], accuracy=0.8)
    said = render_markdown(compiled(["alternatives"], [found]).document())
    assert "Refutation recorded in" in said
    assert found.need == 160
    assert "160 of 200 correct decisions" in said
