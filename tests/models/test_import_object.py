"""Objects are imported by name, from the current directory or another folder."""

from __future__ import annotations

import sys

import pytest

from evenhand.errors import ModelError
from evenhand.models.importing import import_object


@pytest.fixture(autouse=True)
def own_path(monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))


def write(folder, name, text):
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.py").write_text(text)
    return folder


def test_imports_from_the_current_directory(tmp_path, monkeypatch):
    write(tmp_path, "rule_a", "def predict(frame):\n    import helper_a\n    return helper_a.VALUE\n")
    write(tmp_path, "helper_a", "VALUE = 7\n")
    monkeypatch.chdir(tmp_path)
    assert import_object("rule_a:predict")(None) == 7
    for name in ("rule_a", "helper_a"):
        monkeypatch.delitem(sys.modules, name)


def test_rejects_a_second_module_of_the_same_name(tmp_path, monkeypatch):
    for value in (1, 2):
        write(tmp_path / str(value), "rule_b", f"def predict(frame):\n    return {value}\n")
    assert import_object("rule_b:predict", tmp_path / "1")(None) == 1
    with pytest.raises(ModelError, match="another module 'rule_b' is already imported"):
        import_object("rule_b:predict", tmp_path / "2")
    assert import_object("rule_b:predict", tmp_path / "1")(None) == 1
    monkeypatch.delitem(sys.modules, "rule_b")


def test_imports_a_module_once(tmp_path, monkeypatch):
    write(tmp_path, "rule_c", "CALLS = []\ndef predict(frame):\n    return CALLS\n")
    monkeypatch.chdir(tmp_path)
    assert import_object("rule_c:predict") is import_object("rule_c:predict")
    monkeypatch.delitem(sys.modules, "rule_c")


def test_imports_an_installed_module(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert callable(import_object("json:dumps"))
