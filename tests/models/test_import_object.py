"""Importing a model by name leaves ``sys.path`` and the modules of the program as they were."""

from __future__ import annotations

import sys
import types

import pytest

from evenhand.errors import ModelError
from evenhand.models.blackbox.function import import_object


def write(folder, name, text):
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.py").write_text(text)
    return folder


def test_path_and_modules_stay_as_they_were(tmp_path, monkeypatch):
    write(tmp_path, "rule_a", "import helper_a\ndef predict(frame):\n    return helper_a.VALUE\n")
    write(tmp_path, "helper_a", "VALUE = 7\n")
    namesake = types.ModuleType("helper_a")
    namesake.__file__ = str(tmp_path / "other" / "helper_a.py")
    monkeypatch.setitem(sys.modules, "helper_a", namesake)
    monkeypatch.chdir(tmp_path)
    before = sys.path[:]
    assert import_object("rule_a:predict")(None) == 7
    assert sys.path == before
    assert sys.modules["helper_a"] is namesake
    monkeypatch.delitem(sys.modules, "rule_a")


def test_path_is_restored_after_an_error(tmp_path, monkeypatch):
    write(tmp_path, "broken_a", "1 / 0\n")
    monkeypatch.chdir(tmp_path)
    before = sys.path[:]
    for source in ("broken_a:predict", "missing_a:predict"):
        with pytest.raises(ModelError):
            import_object(source)
        assert sys.path == before


def test_each_folder_has_its_own_module(tmp_path):
    for value in (1, 2, 1):
        folder = write(tmp_path / str(value), "rule_b", f"def predict(frame):\n    return {value}\n")
        assert import_object("rule_b:predict", folder)(None) == value
    sys.modules.pop("rule_b", None)


def test_a_module_is_imported_once(tmp_path, monkeypatch):
    write(tmp_path, "rule_c", "CALLS = []\ndef predict(frame):\n    return CALLS\n")
    monkeypatch.chdir(tmp_path)
    assert import_object("rule_c:predict") is import_object("rule_c:predict")
    monkeypatch.delitem(sys.modules, "rule_c")


def test_an_installed_or_standard_module_is_not_hidden(tmp_path, monkeypatch):
    write(tmp_path, "rule_d", "import json\ndef predict(frame):\n    return json.dumps(1)\n")
    monkeypatch.chdir(tmp_path)
    import json

    assert import_object("rule_d:predict")(None) == "1"
    assert sys.modules["json"] is json
    assert callable(import_object("json:dumps"))
    monkeypatch.delitem(sys.modules, "rule_d")
