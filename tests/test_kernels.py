"""Compiled kernels, atomic writes of files, and parallel work."""

import errno
import os
import signal
import stat
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import joblib
import numba
import pytest
from numba.core.caching import IndexDataCacheFile
from numba.core.dispatcher import Dispatcher

from evenhand.core import files, kernels, parallel
from evenhand.errors import DataError, KernelCacheWarning, OptionError

PROGRAM = """
import sys
sys.path.insert(0, sys.argv[1])
from certification.cases import worked_example
from evenhand import certification
from evenhand.certification.proof_run import is_compiled
print(is_compiled())
certification.certify(worked_example(), max_boxes=64, enumeration=False)
print(is_compiled())
"""


def run(folder: Path) -> list[str]:
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder)}
    command = [sys.executable, "-c", PROGRAM, str(Path(__file__).parent)]
    return subprocess.check_output(command, env=environment, text=True).split()


@pytest.mark.slow
def test_what_one_process_compiled_the_next_one_finds(tmp_path: Path) -> None:
    assert run(tmp_path) == ["False", "True"]
    assert run(tmp_path) == ["True", "True"]


def test_a_work_array_has_one_length() -> None:
    with pytest.raises(ValueError, match="duplicate"):
        kernels.array_table("Work", __name__, {"sums single": "int64 4", "single": "bool 9"})


def test_without_a_place_to_write_kernels_are_compiled_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    compile_here = numba.njit

    def refuse(*functions: object, cache: bool = False, **options: object) -> object:
        if cache:
            raise RuntimeError("cannot cache function 'double': no locator available")
        return compile_here(*functions, **options)

    monkeypatch.setattr(kernels.numba, "njit", refuse)
    with pytest.warns(KernelCacheWarning, match="no cache folder is writable"):
        double = kernels.compile_kernel(nogil=True)(lambda x: 2 * x)
    assert not kernels.is_compiled(double)
    assert double(21) == 42
    assert kernels.is_compiled(double)


def test_constants_and_variables_share_one_compilation() -> None:
    either = kernels.compile_kernel(internal=True)(lambda x, up: x + 1 if up else x - 1)

    @numba.njit
    def call(x: int) -> int:
        return either(x, True) * either(x, False) * either(x, x > 0)

    assert call(3) == 4 * 2 * 4
    assert len(either.signatures) == 1


def test_a_full_disk_is_named_and_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def fill(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(IndexDataCacheFile, "save", fill)
    thrice = kernels.compile_kernel()(lambda x: 3 * x)
    with pytest.warns(KernelCacheWarning, match="No space left on device"):
        assert thrice(14) == 42


CALLER = """
from evenhand.core.kernels import compile_kernel
from {name} import answer

@compile_kernel()
def call(x):
    return answer(x)

print(call(20))
"""
CALLED = """
from evenhand.core.kernels import compile_kernel

@compile_kernel(internal=True)
def answer(x):
    return {result}
"""


def run_caller(folder: Path) -> str:
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder / "kept"), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.check_output([sys.executable, "caller.py"], cwd=folder, env=environment, text=True).strip()


@pytest.mark.full
def test_kept_code_is_compiled_anew_after_a_change_in_a_file_it_calls(tmp_path: Path) -> None:
    (tmp_path / "caller.py").write_text(CALLER.format(name="called"), "utf-8")
    printed = []
    for result in "x + 1", "x + 1", "2 * x":
        (tmp_path / "called.py").write_text(CALLED.format(result=result), "utf-8")
        printed.append(run_caller(tmp_path))
    assert printed == ["21", "21", "40"]


TYPED_CALLER = """
from evenhand.core.kernels import compile_kernel
from {name} import Pair

@compile_kernel()
def call(pair):
    return pair.first + pair.second

print(call(Pair(20, 22)))
"""
PAIR = """
from typing import NamedTuple

class Pair(NamedTuple):
    first: int
    second: int
"""


@pytest.mark.full
def test_kept_code_for_a_type_that_has_moved_is_compiled_anew(tmp_path: Path) -> None:
    for name in ("before", "after"):
        (tmp_path / "before.py").unlink(missing_ok=True)
        (tmp_path / f"{name}.py").write_text(PAIR, "utf-8")
        (tmp_path / "caller.py").write_text(TYPED_CALLER.format(name=name), "utf-8")
        assert run_caller(tmp_path) == "42"


def test_code_for_another_processor_does_not_count_as_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    square = kernels.compile_kernel()(lambda x: x * x)
    here = square.targetctx.codegen().magic_tuple()
    for processor, kept in ((here, True), (("z80", "", ""), False)):
        index = {("signature", processor, ("code",)): "square.1.nbc"}
        monkeypatch.setattr(square._cache._cache_file, "_load_index", lambda index=index: index)
        assert kernels.is_compiled(square) is kept


def test_an_interrupt_that_the_compiler_loses_ends_it_all_the_same(
    interruptible: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lose_it(kernel: object, signature: object) -> None:
        with suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        raise RuntimeError("no compiled object yet")

    monkeypatch.setattr(Dispatcher, "compile", lose_it)

    @kernels.compile_kernel()
    def double(number: int) -> int:
        return 2 * number

    with pytest.raises(KeyboardInterrupt):
        double(3)


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


def square(part):
    return part * part


def fail(part):
    raise DataError(f"part {part} is damaged")


def die_where_marked(part):
    """Return a square; the process that has the marked part first is killed."""
    number, mark = part
    if number == 3 and Path(mark).exists():
        Path(mark).unlink()
        os.kill(os.getpid(), signal.SIGKILL)
    return number * number


def die_elsewhere(part):
    """Return a square in the given process; others are killed."""
    number, process = part
    if os.getpid() != process:
        os.kill(os.getpid(), signal.SIGKILL)
    return number * number


@pytest.mark.parametrize("backend", ["sequential", "threading"])
def test_runs_every_part_once(backend):
    with joblib.parallel_config(backend=backend):
        assert sorted(parallel.run_parts(square, range(20), 3)) == [(n, n * n) for n in range(20)]
    assert list(parallel.run_parts(square, [], 2)) == []


def test_errors_of_a_call_are_raised():
    with pytest.raises(DataError, match="part 0 is damaged"):
        list(parallel.run_parts(fail, range(2), 1))


def test_workers_of_another_version_are_refused():
    with pytest.raises(OptionError, match=r"expected Evenhand 0\.0 on all workers"):
        parallel._run_part("0.0", square, 0, 1)


@pytest.mark.parametrize("workers", [0, -2, True, 1.5, "2"])
def test_refuses_other_numbers_of_workers(workers):
    with pytest.raises(OptionError, match="expected a positive number of worker processes"):
        parallel.count_workers(workers)


@pytest.mark.slow
def test_parts_of_a_killed_worker_run_again(tmp_path):
    mark = tmp_path / "mark"
    mark.touch()
    found = dict(parallel.run_parts(die_where_marked, [(n, str(mark)) for n in range(8)], 2))
    assert found == {n: n * n for n in range(8)}
    assert not mark.exists()


@pytest.mark.slow
def test_parts_that_end_every_worker_run_in_this_process():
    found = dict(parallel.run_parts(die_elsewhere, [(n, os.getpid()) for n in range(3)], 2))
    assert found == {n: n * n for n in range(3)}
