"""Files on disk: whole or not at all."""

from __future__ import annotations

import os
import stat

import examples
import pytest

from evenhand import view
from evenhand.auditing import AuditResult
from evenhand.errors import OptionError


def test_it_writes_both_files_and_the_json_reads_back(tmp_path):
    audit = examples.minimal()
    written = view.write_report(audit, tmp_path / "new" / "folder")
    assert [path.name for path in written] == ["report.html", "report.json"]
    assert sorted(os.listdir(tmp_path / "new" / "folder")) == ["report.html", "report.json"]
    assert written[0].read_text(encoding="utf-8") == view.render_page(audit.document())
    assert AuditResult.from_json(written[1].read_text(encoding="utf-8")) == audit


def test_others_may_read_what_the_user_lets_them_read(tmp_path):
    before = os.umask(0o022)
    try:
        (html, _) = view.write_report(examples.minimal(), tmp_path)
        assert stat.S_IMODE(html.stat().st_mode) == 0o644
        assert os.umask(0o022) == 0o022
    finally:
        os.umask(before)


def test_it_replaces_an_older_report_and_leaves_other_files_alone(tmp_path):
    (tmp_path / "report.html").write_text("old")
    (tmp_path / "mine.txt").write_text("mine")
    view.write_report(examples.minimal(), tmp_path)
    assert (tmp_path / "report.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert sorted(os.listdir(tmp_path)) == ["mine.txt", "report.html", "report.json"]


def test_a_file_in_place_of_the_folder_is_refused(tmp_path):
    (tmp_path / "taken").write_text("mine")
    with pytest.raises(OptionError, match="cannot be written") as refused:
        view.write_report(examples.minimal(), tmp_path / "taken")
    assert "choose a folder that you can write to" in str(refused.value)
    assert (tmp_path / "taken").read_text() == "mine"


def test_what_cannot_take_its_place_leaves_nothing_behind(tmp_path):
    (tmp_path / "report.html" / "in the way").mkdir(parents=True)
    with pytest.raises(OptionError, match="cannot be written"):
        view.write_report(examples.minimal(), tmp_path)
    assert os.listdir(tmp_path) == ["report.html"]


def test_a_full_disk_leaves_the_older_report_as_it_was(tmp_path, monkeypatch):
    old = view.write_report(examples.minimal(), tmp_path)
    before = [path.read_bytes() for path in old]

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OptionError, match="No space left on device"):
        view.write_report(examples.full(), tmp_path)
    assert [path.read_bytes() for path in old] == before
    assert sorted(os.listdir(tmp_path)) == ["report.html", "report.json"]


def test_an_audit_that_cannot_be_shown_makes_no_folder(tmp_path, monkeypatch):
    def broken(audit):
        raise ZeroDivisionError

    monkeypatch.setattr("evenhand.view.files.render_page", broken)
    with pytest.raises(ZeroDivisionError):
        view.write_report(examples.minimal(), tmp_path / "new")
    assert not (tmp_path / "new").exists()
