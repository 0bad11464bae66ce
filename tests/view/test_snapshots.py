"""What people read of every kind of result, in one file each: the screen, then everything that its page says.

``make snapshots`` writes the files again after a sentence was changed on purpose; the change is reviewed in the diff.
"""

import datetime as dt
import io
import re
from dataclasses import replace

import examples
import pytest
from pictured import PICTURED, document, refutation, scored
from rich.console import Console
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode

import evenhand
from evenhand import view
from evenhand.dossier import DossierConfig, compile_dossier


def decisions():
    frame = scored()
    selected = (frame["score"] > 0.5).astype(int)
    return evenhand.audit_predictions(
        selected, y_true=frame["good"].astype(int), sensitive_features=frame[["sex"]], favourable=1
    )


def dossier():
    frame = scored()
    frame["selected"] = (frame["score"] > 0.5).astype(int)
    config = DossierConfig(outcome={"column": "selected"}, attributes={"sex": {"column": "sex"}})
    return compile_dossier(frame, config, dossiers=("ll144", "ugesp", "disparity"), today=dt.date(2026, 11, 23))


WITHOUT_CHARTS = {
    "interrupted": examples.minimal,
    "decisions": decisions,
    "certificate": lambda: examples.full().certificates[0],
    "dossier": dossier,
    "refutation": refutation,
}


class TextFile(SingleFileSnapshotExtension):
    """A snapshot that can be read and reviewed as it stands."""

    _write_mode = WriteMode.TEXT
    file_extension = "md"


@pytest.fixture
def snapshot(snapshot):
    return snapshot.use_extension(TextFile)


@pytest.mark.parametrize("name", [*PICTURED, *WITHOUT_CHARTS])
def test_text(name, snapshot):
    shown = WITHOUT_CHARTS[name]().document() if name in WITHOUT_CHARTS else document(name)
    shown = replace(shown, made="")  # by which version, and how long it took
    console = Console(file=io.StringIO(), width=80)
    view.show_document(shown, console=console)
    screen = console.file.getvalue().rstrip("\n")
    text = re.sub(r"^- \*\*(Time|Versions)\*\*.*\n", "", view.render_markdown(shown), flags=re.M)
    assert f"```text\n{screen}\n```\n\n{text}" == snapshot
