"""The notebooks of the documentation: small, with outputs that need nothing else, and true when they are run again."""

import importlib.util
import re

import pytest

from support import ROOT

nbformat = pytest.importorskip("nbformat", reason="needs nbformat, of the group `test`")

NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
LARGEST = 600_000
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


def load_tool():
    pytest.importorskip("nbclient", reason="needs nbclient, of the group `test`")
    pytest.importorskip("ipykernel", reason="needs ipykernel, of the group `test`")
    spec = importlib.util.spec_from_file_location("run_notebooks", ROOT / "tools" / "run_notebooks.py")
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    return tool


def compared(book):
    """The outputs of cells that are the same in every run, as text."""
    return [
        "".join(one.get("text") or one.data["text/plain"] for one in cell.outputs)
        for cell in book.cells
        if cell.metadata.get("same")
    ]


def test_there_are_three_in_the_menu():
    menu = (ROOT / "mkdocs.yml").read_text("utf-8")
    assert len(NOTEBOOKS) == 3
    assert all(f"notebooks/{path.name}" in menu for path in NOTEBOOKS)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_outputs_are_committed_and_need_nothing_else(path):
    text = path.read_text("utf-8")
    book = nbformat.reads(text, as_version=4)
    assert load_tool().find_faults(book) == []
    assert len(text) < LARGEST
    assert "<script" not in text
    assert "http://" not in text.replace("http://www.w3.org/", "")
    assert "https://" not in text
    run = [cell.execution_count for cell in book.cells if cell.cell_type == "code"]
    assert run == list(range(1, len(run) + 1)), "execute it as a whole: tools/run_notebooks.py"
    assert len(compared(book)) >= 3
    assert all(compared(book))
    kinds = {kind for cell in book.cells for one in cell.get("outputs", ()) for kind in one.get("data", ())}
    assert kinds & {"image/svg+xml", "text/html"}


def test_faults_are_found():
    cell = nbformat.v4.new_code_cell(
        outputs=[
            nbformat.v4.new_output("stream", name="stderr", text="a warning"),
            nbformat.v4.new_output("stream", text="written to /tmp/x/report.html"),
            nbformat.v4.new_output("error", ename="ValueError", evalue="no"),
        ]
    )
    assert len(load_tool().find_faults(nbformat.v4.new_notebook(cells=[cell]))) == 3


@pytest.mark.full
@pytest.mark.parametrize(
    "path",
    # The others take longer.
    [NOTEBOOKS[0], *(pytest.param(path, marks=pytest.mark.slow) for path in NOTEBOOKS[1:])],
    ids=lambda path: path.stem,
)
def test_running_it_again_says_the_same(path):
    tool = load_tool()
    again = tool.execute(path)
    assert tool.find_faults(again) == []
    for said, before in zip(compared(again), compared(nbformat.read(path, as_version=4)), strict=True):
        # Another processor adds up in another order, and a training that begins alike ends a little apart.
        assert NUMBER.sub("#", said) == NUMBER.sub("#", before)
        assert [float(one) for one in NUMBER.findall(said)] == pytest.approx(
            [float(one) for one in NUMBER.findall(before)], rel=0.05, abs=0.02
        )
