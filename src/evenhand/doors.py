"""Doors of packages: a name is imported when it is first used, so that asking for help loads no engine."""

from __future__ import annotations

import ast
import importlib
import inspect
import sys
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any


def open_when_used(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` of a package whose imports stand under ``if TYPE_CHECKING``.

    The imports are written once, for type checkers and readers; here they are read from the package's own source.
    """

    @cache
    def origins() -> dict[str, str]:
        return dict(_late_imports(ast.parse(inspect.getsource(sys.modules[package]))))

    def find_name(name: str) -> Any:
        if name.startswith("__") or name not in origins():
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        origin = origins()[name]
        if origin == package:
            return importlib.import_module(f"{package}.{name}")
        found = vars(sys.modules[package])[name] = getattr(importlib.import_module(origin), name)
        return found

    def list_names() -> list[str]:
        return sorted(sys.modules[package].__all__)

    return find_name, list_names


def _late_imports(source: ast.Module) -> Iterator[tuple[str, str]]:
    """Name and module of every import under ``if TYPE_CHECKING``."""
    for block in source.body:
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING":
            for line in block.body:
                if isinstance(line, ast.ImportFrom):
                    yield from ((one.name, str(line.module)) for one in line.names)
