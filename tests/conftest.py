"""The surroundings of every test, and no silent skips where every extra is promised."""

from __future__ import annotations

import os
import re
from typing import Any

import pytest
from hypothesis import settings

# Keras answers with PyTorch: the only engine of it that the tests install.
os.environ.setdefault("KERAS_BACKEND", "torch")

# Machines are slow at times, which is no fault. In CI the same examples run every time.
settings.register_profile("evenhand", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("evenhand")

EVERYTHING = os.environ.get("EVENHAND_EXTRAS") == "all"
ABSENT = re.compile(r"\bneeds \w|could not import")


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
