"""TestSGD run again: networks of people and of texts, error bounds, and the tables made of what was found."""

import sys
from functools import partial

import numpy as np
import pytest

from evenhand.errors import FetchError, MissingExtraError
from evenhand.subgroups import Range
from reproductions import load_paper
from reproductions.comparison import PieceContext, reproduce_paper
from reproductions.mitigation.record import QUICK
from reproductions.testsgd import PAPER, bounds, people, published, scores, tables, texts
from support import needs


def quiet(what, share):
    pass


def figures(table, measure):
    return {figure.row: figure for figure in table.figures if figure.measure == measure}


@pytest.fixture(scope="module")
def german():
    """What a network after little training finds in German Credit, which is bundled, and what reduces it."""
    tiny = QUICK.model_copy(update={"least_steps": 60, "permutations": 100, "samples": 300})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(people, "settings_of", lambda context: tiny)
        context = PieceContext(quick=True)
        return {
            "german-0": people.search_people("german", 0, context, quiet),
            "german-mended": people.mend_people("german", 0, context, quiet),
        }


def test_the_paper_is_complete():
    assert load_paper("testsgd") is PAPER
    numbers = [table.number for table in PAPER.tables]
    assert [f"Table {i}" for i in range(1, 9)] == sorted(number for number in numbers if number.startswith("Table"))
    assert "Figure 1" in numbers
    assert {number for piece in PAPER.pieces for number in piece.tables} <= set(numbers)
    assert sum(piece.minutes for piece in PAPER.pieces) < 40
    assert sum(piece.quick_minutes for piece in PAPER.pieces) <= 2


def test_tables_without_any_piece_have_all_rows_and_say_so():
    found = {table.number: table.compare({}) for table in PAPER.tables}
    assert len(figures(found["Table 4"], scores.SCORE)) == 24
    assert len(figures(found["Table 3"], "accuracy")) == 8
    assert len(figures(found["Table 5"], "rule sets")) == 8
    assert len(figures(found["Table 7"], scores.AFTER)) == 8
    assert len(figures(found["Table 8"], "THEMIS")) == 6
    for number in ("Table 3", "Table 5", "Table 6"):
        assert found[number].verdict == "not compared"
        assert found[number].because
    assert all(one.because for table in found.values() for one in table.figures if one.verdict == "not compared")
    for number in ("Table 1", "Table 2", "Section 4.1", "Section 4.2"):
        assert found[number].verdict == "agrees"


def test_published_figures_agree_with_each_other():
    for name, rows in published.SUBGROUPS.items():
        for row in rows:
            assert abs(row.inside - row.rest) == pytest.approx(row.score, abs=0.25) or (name, row.score) == (
                "german",
                15.5,
            )
    assert all(abs(row.inside - row.rest) == pytest.approx(row.score, abs=0.11)
               for rows in published.TEXT_SUBGROUPS.values() for row in rows)  # fmt: skip
    for name, threshold in (("law", 5), ("compas", 5)):
        assert published.THRESHOLDS[name][threshold][:2] == published.TIMES[name]


def test_a_network_of_people_is_searched_both_ways(german):
    found = german["german-0"]
    assert found["people"] == 1000
    assert found["sampled"]["thresholds"]["5"]["rule_sets"] == 67
    assert [one.get("refused", "")[:7] for one in found["published"]] == ["only 10", "only 12", ""]
    assert len(found["own"]) == 3
    # The very rule sets that sampling found first are those that were judged by counting.
    for sampled, own in zip(found["sampled"]["thresholds"]["5"]["top"], found["own"], strict=True):
        assert (sampled["size"], sampled["rest"]) == (own["size"], own["rest"])
    assert found["themis"]["low"] <= found["themis"]["score"] <= found["themis"]["high"]
    table = scores.compare_subgroups(german)
    assert figures(table, scores.SIGNIFICANT)["German Credit"].verdict == "differs"
    assert "hold or leave too few" in figures(table, scores.SIGNIFICANT)["German Credit"].because
    assert table.because
    assert scores.compare_methods(german).figures
    assert figures(tables.compare_times(german), "rule sets")["German Credit"].ours.value == 67


def test_a_mended_network_is_compared_on_samples_and_on_people_not_used(german):
    table = scores.compare_mitigation(german)
    after = figures(table, scores.AFTER)["German Credit"]
    assert after.published == 7.3
    assert after.ours.kind == "estimated"
    assert after.default.kind == "observed"
    assert after.default.low <= after.default.value <= after.default.high


def test_a_search_that_was_stopped_is_not_kept(monkeypatch):
    class Stopped:
        interrupted = True

    monkeypatch.setattr(people.subgroups, "find_subgroups", lambda *given, **settings: Stopped())
    with pytest.raises(KeyboardInterrupt):
        people.search_completely(None, None)


def test_conditions_are_written_as_they_are_read():
    rules = {"a": ("x y", "z"), "b": Range(low=0.5, high=1.0, closed=False), "c": Range(low=3.0)}
    assert people.write_condition(rules) == 'a in {"x y", "z"} and b >= 0.5 and b < 1 and c >= 3'


def test_the_bound_holds_around_given_people_and_not_for_people_like_them():
    values = {"coverage": bounds.measure_coverage(PieceContext(quick=True), quiet)}
    table = tables.compare_bounds(values)
    given = figures(table, "scores of samples within the bound")
    assert {one.verdict for one in given.values()} <= {"better", "agrees"}
    like = figures(table, "scores of people like these within the bound")
    few = like["samples around 15 people"]
    assert few.verdict == "differs"
    assert few.ours.high < 60 < 90 < few.default.value
    assert given["rates 50 % and 50 %"].default.value > 90


def test_fair_models_have_false_findings_as_published_only():
    values = {"fair-models": bounds.find_false_gaps(PieceContext(quick=True), quiet)}
    (figure,) = tables.compare_bounds(values).figures
    assert figure.verdict == "differs"
    assert figure.ours.value > 9.75
    assert figure.default.value == 0


def test_a_collection_that_is_not_here_is_named_and_the_rest_is_done(tmp_path):
    pieces = tuple(one for one in PAPER.pieces if one.name in ("wiki", "fair-models"))
    found = reproduce_paper(PAPER._replace(pieces=pieces), context=PieceContext(quick=True, data_home=tmp_path))
    assert set(found.left_out) == {"wiki"}
    assert "wiki_talk_toxicity_5k.csv" in found.left_out["wiki"]
    assert next(table for table in found.tables if table.number == "Table 3").missing == ("wiki",)
    with pytest.raises(FetchError, match="IMDB Dataset"):
        texts.read_collection(texts.COLLECTIONS["imdb"], tmp_path, 0)


def test_without_pytorch_it_is_said(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtraError, match="torch"):
        texts.train_network(["a"], np.array([True]), epochs=1, seed=0)


def collect(folder):
    """A collection in which texts about gay people, old people or taoists are toxic more often."""
    rng = np.random.default_rng(0)
    rows = ["id,text,toxic"]
    for i in range(250):
        who = rng.choice(["gay taoist", "straight christian", "old", "young", "plain"])
        toxic = int(rng.random() < (0.7 if "gay" in who else 0.2))
        said = "you are awful" if toxic else "how kind of you"
        rows.append(f"{i},a {who} wrote {said} number {i},{toxic}")
    (folder / "wiki_talk_toxicity_5k.csv").write_text("\n".join(rows) + "\n", "utf-8")


@needs("torch")
def test_the_same_seed_trains_the_same_network():
    given, favourable = ["good day", "bad day"] * 40, np.array([True, False] * 40)
    one, other = (texts.train_network(given, favourable, epochs=12, seed=3) for _ in range(2))
    assert (one(given) == other(given)).all()
    assert ((one(given) > 0.5) == favourable).all()


@needs("torch")
def test_a_network_of_texts_is_searched_and_mended(tmp_path, monkeypatch):
    collect(tmp_path)
    monkeypatch.setattr(texts, "AMOUNTS", (0.1,))
    context = PieceContext(quick=True, data_home=tmp_path)
    found = texts.search_texts("wiki", context, quiet)
    right, of = found["held_out"]
    assert right > 0.9 * of
    assert of < 70
    first = found["published"][0]
    assert first["words"] == first["sampled"]["words"] == "gender gay, religion taoist"
    assert first["size"] > 30
    mended = texts.mend_texts("wiki", context, quiet)
    assert mended["tried"][0]["added"] == 0 < mended["tried"][1]["added"]
    values = {"wiki": found, "wiki-mended": mended}
    assert figures(scores.compare_subgroups(values), scores.SCORE)['Wiki Talk Pages 1: "gay" and "taoist"'].ours
    assert figures(scores.compare_mitigation(values), scores.LOST)["Wiki Talk Pages"].ours


def test_made_texts_speak_of_the_rule_set():
    made = texts.make_texts(
        ["a lesbian christian", "a lesbian", "nobody"],
        {"gender": "gay", "religion": "taoist"},
        np.random.default_rng(0),
    )
    assert made == ["a gay taoist"]


def test_the_end_of_a_text_is_what_the_network_reads():
    network = texts.TextNetwork({f"w{i}": i + 2 for i in range(300)}, None)
    long = " ".join(f"w{i}" for i in range(250))
    cut = texts.cut_text(long)
    assert cut.startswith("w150 ")
    assert (network.encode([cut]) == network.encode([long])).all()
    assert texts.cut_text("w1 w2") == "w1 w2"


def test_published_rule_sets_not_reached_within_a_day_agree_where_they_cannot_be_had():
    figure = scores._themis_figure("Crime", None, {people.COMBINATIONS: "there are 10 combinations"}, None)
    assert (figure.verdict, figure.published_text) == ("agrees", "more than 24 hours")
    assert partial(scores.mean_figure, samples=None)([]) is None
