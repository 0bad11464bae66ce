"""The surroundings of every test; what was skipped and why; no such skips where every extra is promised."""

import gc
import json
import math
import os
import re
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from evenhand.certification import config as certification_config
from evenhand.cli.main import main

# Keras answers with PyTorch: the only engine of it that the tests install.
os.environ.setdefault("KERAS_BACKEND", "torch")

if "PYTEST_XDIST_WORKER" in os.environ:
    # Processes share the cores: libraries that would start a thread for each of them must not.
    for library in ("OMP", "OPENBLAS", "MKL"):
        os.environ.setdefault(f"{library}_NUM_THREADS", "1")

# On a fresh machine, provers are compiled whatever the time limit of a test.
certification_config.COMPILE_SHARE = math.inf

# Machines are slow at times, which is not a fault. In CI the same examples run every time, in the short run everywhere.
settings.register_profile("evenhand", deadline=None, derandomize="CI" in os.environ)
settings.register_profile("short", deadline=None, derandomize=True, max_examples=12)
settings.load_profile("evenhand")

PASSED, NOT_AGAIN = (os.environ.get(f"EVENHAND_{name}") for name in ("PASSED", "NOT_AGAIN"))
"""Files of test names: where those that passed are noted, and those that are left out because they have passed."""

AGAIN = json.loads(Path(NOT_AGAIN).read_text()) if NOT_AGAIN else {"tests": [], "files": []}
AGAIN = {what: frozenset(names) for what, names in AGAIN.items()}
"""What is left out: tests, and files of which every test passed, which need not be read."""

EVERYTHING = os.environ.get("EVENHAND_EXTRAS") == "all"
NOTED: list[str] = []
ABSENT = re.compile(r"\bneeds \w|could not import")


LASTING_MODULES: set[str] = set()
"""Names of loaded modules that do not come from the folder of a test."""


@dataclass(frozen=True)
class Ran:
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def evenhand(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    """Run the command line in this process, as a user would, and see exit code and output.

    The first argument is split into words; every other one is a word. The exit code must be `code` or one of several.
    """

    def run(command: str, *arguments: object, code: int | tuple[int, ...] = 0) -> Ran:
        monkeypatch.setattr("sys.argv", ["evenhand", *command.split(), *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as left:
            main()
        captured = capsys.readouterr()
        assert int(left.value.code or 0) in (code if isinstance(code, tuple) else (code,)), captured.err
        return Ran(captured.out, captured.err)

    return run


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Ctrl-C works as in a terminal, here and in processes started meanwhile; a background job would ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(autouse=True)
def forget_temporary_modules(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Remove modules that a test imports from its own folder, so that the next test may use their names."""
    yield
    folder = str(tmp_path_factory.getbasetemp())
    # Thousands of modules are loaded: each is looked at once.
    for name in sys.modules.keys() - LASTING_MODULES:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(folder):
            del sys.modules[name]
        else:
            LASTING_MODULES.add(name)
    sys.path[:] = [path for path in sys.path if not str(path).startswith(folder)]


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out files of which every test passed before."""
    return True if os.path.relpath(collection_path, config.rootpath) in AGAIN["files"] else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what passed before and does not depend on what is installed now; note all there is, long tests too."""
    if PASSED is not None and os.environ.get("PYTEST_XDIST_WORKER", "gw0") == "gw0":
        Path(f"{PASSED}.all").write_text(json.dumps([item.nodeid for item in items]))
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid in AGAIN["tests"]])
    items[:] = [item for item in items if item.nodeid not in AGAIN["tests"]]


def pytest_collection_finish() -> None:
    """Keep the garbage collector from going through all that was imported again and again."""
    gc.collect()
    gc.freeze()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Note what passed."""
    if report.when == "call" and report.passed:
        NOTED.append(report.nodeid)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write what passed, where all processes' reports come together."""
    if PASSED is not None and "PYTEST_XDIST_WORKER" not in os.environ:
        left = {name.partition("::")[0] for name in {*json.loads(Path(f"{PASSED}.all").read_text())} - {*NOTED}}
        files = sorted({name.partition("::")[0] for name in NOTED} - left)
        Path(PASSED).write_text(json.dumps({"tests": NOTED, "files": files}))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say in a line each what the skipped tests want, where the reasons themselves are not listed."""
    reasons = [report.longrepr[2] for report in terminalreporter.stats.get("skipped", ())]
    if reasons and not terminalreporter.hasopt("s"):
        wanted = Counter(
            "need an extra or a framework that is not installed: EXTRAS=all brings them all"
            if ABSENT.search(reason)
            else "need real data that is not here: EVENHAND_SHARED names the folder that holds it"
            if "real data not here" in reason
            else reason.removeprefix("Skipped: ")
            for reason in reasons
        )
        terminalreporter.section("skipped")
        for want, number in wanted.most_common():
            terminalreporter.line(f"{number} {want}")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item) -> Any:
    return _kept_promise((yield))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Any:
    return _kept_promise((yield))


def _kept_promise(report: Any) -> Any:
    """With EVENHAND_EXTRAS=all, a skip for want of an optional library is a failure."""
    if EVERYTHING and report.skipped and isinstance(report.longrepr, tuple):
        path, line, reason = report.longrepr
        if ABSENT.search(reason):
            report.outcome = "failed"
            report.longrepr = f"{path}:{line}: skipped although every extra is promised (EVENHAND_EXTRAS=all): {reason}"
    return report
