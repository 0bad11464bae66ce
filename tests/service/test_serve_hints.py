"""What a newcomer is told who starts a service that nobody can ask yet, or where nothing may be written."""

import os

import pytest

from evenhand.cli.service import serve
from evenhand.errors import StoreError
from evenhand.service import Database
from evenhand.service.api import error_handlers


def test_it_says_how_the_first_key_is_made_and_that_nothing_is_served(served):
    service = served("[service]\n")
    assert "keys        needed, and there is none: evenhand keys add" in service.out


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write everywhere")
def test_a_folder_that_may_not_be_written_is_said_to_be_so(tmp_path):
    tmp_path.chmod(0o555)
    with pytest.raises(StoreError, match="this user cannot write there"):
        Database(f"sqlite:///{tmp_path / 'evenhand.db'}")


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
