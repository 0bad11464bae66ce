"""Conditional Fairness for Generative AIs run again: bundled labels, examples of the paper, and the algorithm."""

import csv
import json
from functools import partial

import pytest

from reproductions import load_paper
from reproductions.comparison import PieceContext, reproduce_paper
from reproductions.conditional_fairness import PAPER, pieces, settings, tables
from support import shared


def quiet(what, share):
    pass


def run(function):
    return function(PieceContext(quick=True), quiet)


def verdicts(table, measure):
    return {figure.row: figure.verdict for figure in table.figures if figure.measure == measure}


@pytest.fixture(scope="module")
def without_simulations():
    names = [number for number in tables.COMPARISONS if number not in ("Algorithm 1", "Enforcement")]
    return reproduce_paper(PAPER, tables=names)


def test_bundled_labels_are_the_published_ones():
    sequences = json.loads(shared("data", "genai", "notebook_gender_sequences.json").read_text("utf-8"))
    found = {one.name: list(one.labels["gender"]) for one in pieces.select_sequences("notebook", pieces.GENDER)}
    assert found == sequences
    with shared("data", "genai", "sequences.csv").open(encoding="utf-8", newline="") as file:
        rows = {(row["sequence"], row["index"]): row for row in csv.DictReader(file)}
    authors = [row for row in pieces.read_labels() if row["labelled_by"] == "authors"]
    assert len(authors) == 476
    for row in authors:
        known = rows[row["sequence"], row["item"]]
        for name in ("gender", "ethnicity", "body_type", "occupation"):
            assert row[name] == known[f"authors_{name}"]


def test_the_papers_examples_and_recorded_sequences(without_simulations):
    by_number = {table.number: table for table in without_simulations.tables}
    differing = {number for number, table in by_number.items() if table.verdict == "differs"}
    assert differing == {"Gender"}
    (gender,) = (figure for figure in by_number["Gender"].figures if figure.verdict == "differs")
    assert (gender.row, gender.ours.value) == ("openai_poor_seq3, 31 recognised", 27)
    assert all(table.figures and not table.missing for table in without_simulations.tables)
    assert all(
        figure.because for table in without_simulations.tables for figure in table.figures
        if figure.verdict in ("differs", "not compared")
    )  # fmt: skip


def test_coverage_is_that_of_the_recorded_curves():
    known = json.loads(shared("data", "genai", "figures.json").read_text("utf-8"))["all_pairs_coverage"]
    curves = run(pieces.find_pair_coverage)["curves"]
    for name, figures in known.items():
        assert curves[name] == pytest.approx(figures["curve"], abs=1.01e-4)


def test_the_example_intervenes_with_three_values_due_in_three():
    found = run(pieces.follow_example)
    assert found["counters"] == [3, 3, 3]
    assert found["shown"] == found["shown_default"] == 47
    assert found["asked"] in (1, 2, 3)


def test_published_counters_miss_unequal_deadlines_and_the_enforcer_none(monkeypatch):
    monkeypatch.setattr(pieces, "QUICK_REQUESTS", 600)
    names = [tables.simulation_name(name, 1) for name in ("mostly one value", "four ages")]
    found = {one.name: run(one.run) for one in PAPER.pieces if one.name in names}
    table = tables.compare_algorithm(found)
    assert list(verdicts(table, "deadlines missed").values()) == ["agrees", "differs"]
    assert "Evenhand misses none" in table.because
    assert all(figure.default.value == 0 for figure in table.figures if figure.measure.startswith("deadlines missed"))
    assert table.verdict == "differs"


def test_an_interrupted_simulation_is_not_a_piece_that_is_done(monkeypatch):
    def stop(what, share):
        raise KeyboardInterrupt

    monkeypatch.setattr("evenhand.genai.simulation.simulate.PROGRESS_STEPS", 10)
    with pytest.raises(KeyboardInterrupt):
        pieces.simulate_setting("equal", 1, PieceContext(quick=True), stop)


def test_the_claim_is_about_long_deadlines_of_one_specification():
    assert [one.name for one in settings.SETTINGS if one.promised] == [
        "mostly one value", "equal", "unequal", "four ages",
    ]  # fmt: skip


def test_more_than_one_sequence_that_goes_on_differs():
    slow, quick = [i / 200 for i in range(1, 71)], [0.1] * 70
    one = tables.compare_coverage({"coverage": {"curves": {"a": slow, "b": quick}}})
    two = tables.compare_coverage({"coverage": {"curves": {"a": slow, "b": slow}}})
    measure = "coverage gained after 25 pictures"
    assert verdicts(one, measure) == {"a": "agrees", "b": "agrees"}
    assert verdicts(two, measure) == {"a": "differs", "b": "differs"}
    high = tables.compare_coverage({"coverage": {"curves": {"a": [0.5]}}})
    assert {figure.verdict for figure in high.figures} == {"differs"}


def test_every_table_stands_without_its_pieces():
    for number, compare in tables.COMPARISONS.items():
        table = compare({})
        assert table.number == number
        assert table.verdict == "not compared"


def test_every_piece_says_which_table_it_is_for():
    assert load_paper("conditional-fairness") is PAPER
    numbers = {table.number for table in PAPER.tables}
    assert {number for piece in PAPER.pieces for number in piece.tables} == numbers
    assert len({piece.name for piece in PAPER.pieces}) == len(PAPER.pieces)
    assert all(isinstance(piece.run, partial) or callable(piece.run) for piece in PAPER.pieces)
