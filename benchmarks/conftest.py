"""What every benchmark records beside its times: the machine and the versions they were taken with."""

from __future__ import annotations

import os

import pytest


def pytest_benchmark_update_machine_info(config: pytest.Config, machine_info: dict[str, object]) -> None:
    """Times mean nothing without the versions and the number of cores they were taken with."""
    import importlib.metadata

    machine_info["cores"] = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    machine_info["versions"] = {
        name: importlib.metadata.version(name) for name in ("evenhand", "numpy", "numba", "scikit-learn")
    }
