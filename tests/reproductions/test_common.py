"""The runner of reproductions, and the paper on conditional fairness."""

import csv
import importlib
import json
from functools import partial

import pytest

from evenhand.errors import FetchError, OptionError
from reproductions import __main__ as command
from reproductions import common
from reproductions import conditional_fairness as script
from reproductions.common import PAPERS, Context, Figure, Own, Paper, Piece, compare, judge, read_results, reproduce
from support import ROOT, shared


def square(number, calls, context):
    calls.append(number)
    return {"square": number**2 + context.seed}


def fetch(context):
    raise FetchError("the network is not here", location="net-9.npz")


def compare_squares(found):
    for name, one in found.items():
        yield compare(name, "square", 4.0, Own(one["square"], "measured"))


def paper(*extra, calls=None):
    calls = [] if calls is None else calls
    pieces = [Piece(f"p{i}", ("Table I",), partial(square, i, calls), quick=i != 3) for i in (2, 3)]
    pieces.append(Piece("p4", ("Figure 1",), partial(square, 4, calls)))
    return Paper("squares", (*pieces, *extra), {"Table I": compare_squares, "Figure 1": compare_squares})


def test_a_piece_that_is_done_is_not_done_again(tmp_path):
    calls = []

    def stop(context):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        reproduce(paper(Piece("stops", ("Table I",), stop), calls=calls), context=Context(seed=1), folder=tmp_path)
    assert calls == [2, 3, 4]
    (tmp_path / "p3.json").unlink()
    found = reproduce(paper(calls=calls), context=Context(seed=1), folder=tmp_path)
    assert calls == [2, 3, 4, 3]
    assert [one["ours"]["value"] for one in found["tables"]["Table I"]] == [5, 10, 17]
    assert json.loads((tmp_path / "p4.json").read_text())["values"] == {"square": 17}


def test_a_piece_of_another_seed_or_effort_is_done_again(tmp_path):
    calls = []
    for context in (Context(), Context(seed=1), Context(quick=True), Context(quick=True)):
        reproduce(paper(calls=calls), ["figure 1"], context, tmp_path)
    assert calls == [4, 4, 4]


def test_only_the_pieces_of_a_table_are_done():
    calls = []
    found = reproduce(paper(calls=calls), ["figure 1"])
    assert calls == [4]
    assert list(found["tables"]) == ["Figure 1"]
    calls.clear()
    reproduce(paper(calls=calls), ["I"], Context(quick=True))
    assert calls == [2]
    with pytest.raises(OptionError, match="expected a table"):
        reproduce(paper(), ["7"])


def test_what_is_not_here_is_named_and_the_rest_is_done():
    found = reproduce(paper(Piece("net", ("Table I",), fetch)))
    assert "the network is not here" in found["left_out"]["net"]
    assert set(found["pieces"]) == {"p2", "p3", "p4"}


@pytest.mark.parametrize(
    ("ours", "options", "verdict"),
    [
        (4.0, {}, "agrees"),
        (4.05, {"within": 0.1}, "agrees"),
        (5.0, {"interval": (3.9, 6.0)}, "agrees"),
        (5.0, {"better": "higher"}, "better"),
        (3.0, {"better": "higher"}, "differs"),
        (3.0, {"better": "lower"}, "better"),
        (3.0, {}, "differs"),
    ],
)
def test_a_figure_is_judged(ours, options, verdict):
    assert judge(4.0, ours, **options) == verdict


def test_a_figure_without_its_other_side_is_not_compared():
    assert compare("a", "b", None, Own(1.0, "observed"), note="drawn") == Figure(
        "a", "b", None, Own(1.0, "observed"), note="drawn"
    )
    assert compare("a", "b", 1.0, None).note == common.NOT_DONE
    assert compare("a", "b", 1.0, Own(1.0, "observed"), note="why").note == ""
    assert compare("a", "b", 1.5, Own(1.0, "observed", low=0.5, high=2.0)).verdict == "agrees"


@pytest.mark.parametrize("name", PAPERS)
def test_committed_results_have_every_table_that_can_be_compared(name):
    script, results = importlib.import_module(f"reproductions.{name}").PAPER, read_results(name)
    assert list(results["tables"]) == list(script.comparisons)
    assert set(script.comparisons) <= set(script.published["tables"])
    assert {number for piece in script.pieces for number in piece.tables} <= set(script.comparisons)
    assert len({piece.name for piece in script.pieces}) == len(script.pieces)
    assert {*results["pieces"], *results["left_out"]} == {piece.name for piece in script.pieces}
    # Without any piece, a table shows its published figures; the committed results have all of them.
    for number, comparison in script.comparisons.items():
        kept = {(one["row"], one["measure"], one.get("published")) for one in results["tables"][number]}
        bare = list(comparison({}))
        assert {(one.row, one.measure, one.published) for one in bare if one.published is not None} <= kept
        assert all(one.note for one in bare if one.verdict == "not compared")


@pytest.mark.parametrize("name", PAPERS)
def test_the_page_of_a_paper_has_all_its_figures(name):
    tables, results = common.build_tables(name), read_results(name)
    assert tables.count('??? note "') == len(results["tables"])
    assert tables.count("\n    | ") == sum(
        len(figures) + len({figure["measure"] for figure in figures}) for figures in results["tables"].values()
    )
    page = ROOT / "docs" / "methods" / f"{name.replace('_', '-')}.md"
    assert f"<!-- reference: paper {name} -->" in page.read_text("utf-8")
    assert f"]({page.name})" in common.list_papers()


def test_the_command_prints_a_table_and_keeps_its_pieces(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(command, "KEPT", tmp_path)
    assert command.main(["conditional-fairness", "--quick", "--table", "figure 4"]) == 0
    assert "| yellow, last seen as item 8 of 11 | 0 | 0 observed | - | agrees |" in capsys.readouterr().out
    assert (tmp_path / "conditional_fairness-quick" / "weak-next.json").is_file()
    assert command.main(["conditional-fairness", "--quick", "--table", "VII"]) == 2
    assert "expected a table of conditional_fairness" in capsys.readouterr().err


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
