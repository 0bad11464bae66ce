"""Pieces of a reproduction are kept and not done again; tables say what is missing; figures are judged."""

import json
from functools import partial

import pytest

from evenhand.errors import FetchError, LimitError, OptionError
from reproductions import comparison
from reproductions.comparison import (
    ComparedFigure,
    ComparedTable,
    OwnFigure,
    Paper,
    PaperReproduction,
    Piece,
    PieceContext,
    PublishedTable,
    judge,
    reproduce_paper,
)


def square(number, calls, context, progress):
    calls.append(number)
    progress("squaring", 0.5)
    return {"square": number**2 + context.seed}


def stop(context, progress):
    raise KeyboardInterrupt


def fetch(context, progress):
    raise FetchError("the network is not here", location="net-9.npz")


def compare(number, values):
    figures = [
        ComparedFigure(
            row=name,
            measure="square",
            at=float(i),
            published=4.0,
            ours=OwnFigure(value=found["square"], kind="measured"),
            verdict=judge(4.0, found["square"]),
        )
        for i, (name, found) in enumerate(values.items())
    ]
    verdict = comparison.summarize_verdicts([figure.verdict for figure in figures])
    return ComparedTable(number=number, title="Squares", figures=figures, verdict=verdict, horizontal="place")


def paper(*extra, calls=None):
    calls = [] if calls is None else calls
    pieces = [Piece(f"p{i}", ("Table I",), partial(square, i, calls), 1.0, 0.1 * (i != 3)) for i in (2, 3)]
    pieces.append(Piece("p4", ("Figure 1",), partial(square, 4, calls), 1.0, 0.1))
    tables = tuple(PublishedTable(number, "Squares", partial(compare, number)) for number in ("Table I", "Figure 1"))
    return Paper("squares", "Squares", "nowhere", tables, (*pieces, *extra))


def test_a_piece_that_is_done_is_not_done_again(tmp_path):
    calls = []
    first = reproduce_paper(
        paper(Piece("stops", ("Table I",), stop, 1, 1), calls=calls), folder=tmp_path, context=PieceContext(seed=1)
    )
    assert first.interrupted
    assert calls == [2, 3, 4]
    (tmp_path / "p3.json").write_text("damaged")
    again = reproduce_paper(paper(calls=calls), folder=tmp_path, context=PieceContext(seed=1), resume=True)
    assert calls == [2, 3, 4, 3]
    assert not again.interrupted
    assert [table.figures for table in again.tables] == [table.figures for table in first.tables]
    assert json.loads((tmp_path / "p4.json").read_text())["values"] == {"square": 17}


def test_a_run_without_any_piece_is_no_result():
    stopped = paper()._replace(pieces=(Piece("stops", ("Table I",), stop, 1, 1),))
    with pytest.raises(LimitError):
        reproduce_paper(stopped)


def test_pieces_of_another_run_are_refused(tmp_path):
    reproduce_paper(paper(), folder=tmp_path)
    with pytest.raises(OptionError, match="without pieces"):
        reproduce_paper(paper(), folder=tmp_path)
    with pytest.raises(OptionError, match="expected a piece of"):
        reproduce_paper(paper(), folder=tmp_path, context=PieceContext(seed=2), resume=True)


def test_only_the_pieces_of_a_table_are_done():
    calls = []
    found = reproduce_paper(paper(calls=calls), tables=["figure 1"])
    assert calls == [4]
    assert [table.number for table in found.tables] == ["Figure 1"]
    calls.clear()
    reproduce_paper(paper(calls=calls), tables=["I"], context=PieceContext(quick=True))
    assert calls == [2]
    with pytest.raises(OptionError, match="expected a table"):
        reproduce_paper(paper(), tables=["7"])


def test_what_is_not_here_is_named_and_the_rest_is_done():
    again = Piece("again", ("Figure 1",), fetch, 1, 1)
    found = reproduce_paper(paper(Piece("net", ("Table I",), fetch, 1, 1), again))
    assert "Left out: net, again: " in found.summary()
    assert "the network is not here" in found.left_out["net"]
    assert found.tables[0].missing == ("net",)
    assert len(found.tables[0].figures) == 3
    text = found.summary()
    assert "the network is not here" in text
    assert found.to_frame().shape[0] == 6
    assert PaperReproduction.from_json(found.to_json()) == found


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
