"""Paths in the service's file start from its folder, whatever folder the service is started from."""

import pytest

from evenhand.service import Settings


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("sqlite:///here.db", "sqlite:///{folder}/here.db"),
        ("sqlite:///state/here.db", "sqlite:///{folder}/state/here.db"),
        ("sqlite:////var/lib/evenhand.db", "sqlite:////var/lib/evenhand.db"),
        ("postgresql+psycopg://evenhand@db/evenhand", "postgresql+psycopg://evenhand@db/evenhand"),
    ],
)
def test_a_relative_store_lies_beside_the_file(given, meant, tmp_path, monkeypatch):
    (tmp_path / "evenhand.toml").write_text(f'[service]\ndatabase = "{given}"\n', "utf-8")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    assert Settings.read(tmp_path / "evenhand.toml").service.database == meant.format(folder=tmp_path)
