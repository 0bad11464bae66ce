"""Conditional Fairness for Generative AIs run again: bundled labels, examples of the paper, and the algorithm."""

import csv
import json

import pytest

from reproductions import conditional_fairness as script
from reproductions.common import Context, read_results, reproduce
from support import shared


def run(function):
    return function(Context(quick=True))


def verdicts(figures, measure):
    return {figure.row: figure.verdict for figure in figures if figure.measure == measure}


def test_bundled_labels_are_the_published_ones():
    sequences = json.loads(shared("data", "genai", "notebook_gender_sequences.json").read_text("utf-8"))
    found = {one.name: list(one.labels["gender"]) for one in script.select_sequences("notebook", script.GENDER)}
    assert found == sequences
    with shared("data", "genai", "sequences.csv").open(encoding="utf-8", newline="") as file:
        rows = {(row["sequence"], row["index"]): row for row in csv.DictReader(file)}
    authors = [row for row in script.read_labels() if row["labelled_by"] == "authors"]
    assert len(authors) == 476
    for row in authors:
        known = rows[row["sequence"], row["item"]]
        for name in ("gender", "ethnicity", "body_type", "occupation"):
            assert row[name] == known[f"authors_{name}"]


def test_a_quick_run_finds_what_was_committed_of_recorded_sequences():
    numbers = [one for one in script.PAPER.comparisons if one not in ("Algorithm 1", "Enforcement")]
    found, kept = reproduce(script.PAPER, numbers, Context(quick=True)), read_results("conditional_fairness")
    assert found["tables"] == {number: kept["tables"][number] for number in numbers}
    (gender,) = (one for one in found["tables"]["Gender"] if one["verdict"] == "differs")
    assert (gender["row"], gender["ours"]["value"]) == ("openai_poor_seq3, 31 recognised", 27)


def test_coverage_is_that_of_the_recorded_curves():
    known = json.loads(shared("data", "genai", "figures.json").read_text("utf-8"))["all_pairs_coverage"]
    curves = run(script.find_pair_coverage)["curves"]
    for name, figures in known.items():
        assert curves[name] == pytest.approx(figures["curve"], abs=1.01e-4)


def test_the_example_intervenes_with_three_values_due_in_three():
    found = run(script.follow_example)
    assert found["counters"] == [3, 3, 3]
    assert found["shown"] == found["shown_default"] == 47
    assert found["asked"] in (1, 2, 3)


def test_published_counters_miss_unequal_deadlines_and_the_enforcer_none(monkeypatch):
    monkeypatch.setattr(script, "QUICK_REQUESTS", 600)
    names = [script.name_simulation(name, 1) for name in ("mostly one value", "four ages")]
    found = {one.name: run(one.run) for one in script.PAPER.pieces if one.name in names}
    figures = list(script.compare_algorithm(found))
    assert list(verdicts(figures, "deadlines missed").values()) == ["agrees", "differs"]
    assert all(figure.default.value == 0 for figure in figures if figure.measure.startswith("deadlines missed"))


def test_an_interrupted_simulation_is_not_a_piece_that_is_done(monkeypatch):
    stopped = script.simulate_requests(script.SETTINGS[1].configuration(), requests=10)
    stopped = stopped.model_copy(update={"interrupted": True})
    monkeypatch.setattr(script, "simulate_requests", lambda *given, **options: stopped)
    with pytest.raises(KeyboardInterrupt):
        script.simulate_setting("equal", 1, Context(quick=True))


def test_the_claim_is_about_long_deadlines_of_one_specification():
    promised = [one.name for one in script.SETTINGS if one.promised]
    assert promised == ["mostly one value", "equal", "unequal", "four ages"]


def test_more_than_one_sequence_that_goes_on_differs():
    slow, quick = [i / 200 for i in range(1, 71)], [0.1] * 70
    one = list(script.compare_coverage({"coverage": {"curves": {"a": slow, "b": quick}}}))
    two = list(script.compare_coverage({"coverage": {"curves": {"a": slow, "b": slow}}}))
    measure = "coverage gained after 25 pictures"
    assert verdicts(one, measure) == {"a": "agrees", "b": "agrees"}
    assert verdicts(two, measure) == {"a": "differs", "b": "differs"}
    high = list(script.compare_coverage({"coverage": {"curves": {"a": [0.5]}}}))
    assert {figure.verdict for figure in high} == {"differs"}
