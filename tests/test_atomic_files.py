"""Files are whole or as they were before."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from evenhand.core import files


@pytest.mark.parametrize("data", ["text\nof two lines\n", b"\x00\xff"])
def test_the_file_holds_the_data_and_nothing_lies_beside_it(tmp_path: Path, data: bytes | str) -> None:
    place = tmp_path / "file"
    files.write_atomically(place, data)
    assert place.read_bytes() == (data.encode() if isinstance(data, str) else data)
    assert os.listdir(tmp_path) == ["file"]


def test_a_failure_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "file"
    place.write_text("before")

    def fail(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="No space left"):
        files.write_atomically(place, "after")
    assert place.read_text() == "before"
    assert os.listdir(tmp_path) == ["file"]


def test_permissions_are_those_of_a_plain_file(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("")
    files.write_atomically(tmp_path / "atomic", "")
    modes = {stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("plain", "atomic")}
    assert len(modes) == 1


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("before")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    files.write_atomically(tmp_path / "link", "after")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "after"


def test_a_device_is_written_to_and_stays() -> None:
    files.write_atomically(Path(os.devnull), "gone")
    assert not Path(os.devnull).is_file()


def test_appended_data_follow_what_was_there(tmp_path: Path) -> None:
    place = tmp_path / "log"
    for line in (b"one\n", b"two\n"):
        files.append_durably(place, line)
    assert place.read_bytes() == b"one\ntwo\n"


@pytest.mark.skipif(os.name == "nt", reason="Windows has no umask")
def test_the_umask_decides_the_mode_and_is_not_changed(tmp_path, monkeypatch):
    before = os.umask(0o027)
    try:
        with monkeypatch.context() as patch:
            patch.setattr(os, "umask", lambda mask: pytest.fail("the umask of the process was changed"))
            files.write_atomically(tmp_path / "report.json", "{}")
        assert stat.S_IMODE((tmp_path / "report.json").stat().st_mode) == 0o640
    finally:
        os.umask(before)
