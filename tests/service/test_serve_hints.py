"""What a newcomer is told who starts a service that nobody can ask yet, or where nothing may be written."""

import pytest

from evenhand.cli.service import serve
from evenhand.errors import StoreError
from evenhand.service.api import error_handlers


def test_callers_are_not_told_where_the_store_is(caplog):
    away = StoreError(
        "the store failed: no route to db.internal", location="postgresql://evenhand@db.internal/evenhand"
    )
    said = str(error_handlers.describe_error(away))
    assert "internal" not in said
    assert "no route to db.internal" in caplog.text


def test_a_demo_that_cannot_use_the_store_it_finds_says_how_to_begin_anew(tmp_path, monkeypatch):
    (tmp_path / "evenhand.db").write_text("a shopping list")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StoreError) as told:
        serve(None, None, 0)
    assert "in a folder without an evenhand.db" in told.value.hint
    assert (tmp_path / "evenhand.db").read_text() == "a shopping list"
