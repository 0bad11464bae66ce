#!/usr/bin/env python3
"""Write a JSON Schema of every kind of result into docs/reference/schemas, made from the classes themselves.

Run it after a field of a result is added, renamed or described differently; a test in tests/house says when a file is
not today's. Fields that a schema does not know are allowed, as readers ignore them.
"""

from __future__ import annotations

import importlib
import inspect
import json
import pkgutil
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "reference" / "schemas"
PACKAGES = ("auditing", "certification", "checker", "dossier", "genai", "groups", "individual", "llm", "mitigation",
            "monitoring", "shields", "subgroups")  # fmt: skip


def list_results() -> dict[str, type]:
    """Return every class of results that a package's door shows, by name."""
    from evenhand.core import Result

    found = {}
    for name in PACKAGES:
        door = importlib.import_module(f"evenhand.{name}")
        inner = [one.name for one in pkgutil.iter_modules(door.__path__, f"{door.__name__}.") if one.ispkg]
        for package in (door, *map(importlib.import_module, inner)):
            for public in getattr(package, "__all__", ()):
                one = getattr(package, public)
                if inspect.isclass(one) and issubclass(one, Result) and not inspect.isabstract(one):
                    found[public] = one
    return dict(sorted(found.items()))


def describe(result: Any) -> str:
    """Return the JSON Schema of a class of results, as the text of its file."""
    schema = result.model_json_schema(mode="serialization")
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema"} | _allow_more(schema)
    return json.dumps(schema, indent=1, ensure_ascii=False) + "\n"


def _allow_more(part: Any) -> Any:
    """Return a schema without the ban on fields that it does not know, and without the version of today as default."""
    if isinstance(part, dict):
        kept = {key: value for key, value in part.items() if (key, value) != ("additionalProperties", False)}
        if kept.get("title") == "Evenhand" and "default" in kept:
            kept.pop("default")
        return {key: _allow_more(value) for key, value in kept.items()}
    return [_allow_more(one) for one in part] if isinstance(part, list) else part


def write_files() -> dict[Path, str]:
    """Return the text of every file."""
    return {FOLDER / f"{name}.json": describe(one) for name, one in list_results().items()}


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT / "src"))
    wanted = write_files()
    FOLDER.mkdir(parents=True, exist_ok=True)
    for old in set(FOLDER.glob("*.json")) - wanted.keys():
        old.unlink()
    for path, text in wanted.items():
        path.write_text(text, encoding="utf-8")
