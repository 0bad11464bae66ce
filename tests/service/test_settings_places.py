"""Paths in the service's file start from its folder, whatever folder the service is started from."""

from pathlib import Path

import pytest

from evenhand.service import Settings
from evenhand.service.settings import rooted


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("sqlite:///evenhand.db", "sqlite:////etc/evenhand/evenhand.db"),
        ("sqlite:///state/evenhand.db", "sqlite:////etc/evenhand/state/evenhand.db"),
        ("sqlite:////var/lib/evenhand.db", "sqlite:////var/lib/evenhand.db"),
        ("sqlite:///:memory:", "sqlite:///:memory:"),
        ("sqlite://", "sqlite://"),
        ("postgresql+psycopg://evenhand@db/evenhand", "postgresql+psycopg://evenhand@db/evenhand"),
    ],
)
def test_a_relative_file_starts_from_the_folder(given, meant):
    assert rooted(given, Path("/etc/evenhand")) == meant


def test_a_file_is_read_with_its_folder(tmp_path, monkeypatch):
    (tmp_path / "evenhand.toml").write_text('[service]\ndatabase = "sqlite:///here.db"\n', "utf-8")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    assert Settings.read("../evenhand.toml").service.database == f"sqlite:///{elsewhere / '..' / 'here.db'}"
    assert Settings.read({}).service.database == "sqlite:///evenhand.db"
