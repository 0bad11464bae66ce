"""Configurations as YAML or TOML files that a person writes: every fault is one clear error."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evenhand.errors import OptionError


def read_configuration(path: Path, *, example: str, entries: str) -> Mapping[str, Any]:
    """What a YAML or TOML file holds, entries by name.

    Args:
        path: ``.toml`` is TOML, anything else YAML in which only ``true`` and ``false`` are booleans.
        example: what such a file may be called, for messages.
        entries: those that it needs, for messages.

    Raises:
        OptionError: the file cannot be read, is no mapping, or has an entry twice.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise OptionError("this is no text", where=str(path), mend="write it in YAML or TOML, as UTF-8") from None
    except OSError as error:
        raise OptionError(
            f"the configuration cannot be read: {error.strerror or error}",
            where=str(path),
            mend=f"name a configuration, such as {example}",
        ) from None
    found = _toml(text, path) if path.suffix.lower() == ".toml" else _yaml(text, path)
    if not isinstance(found, Mapping):
        raise OptionError(
            "a configuration has entries with names",
            where=str(path),
            mend=f"write {entries}",
        )
    return found


def _toml(text: str, path: Path) -> Any:
    import tomllib

    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise OptionError(f"this is not valid TOML: {error}", where=str(path)) from None


def _yaml(text: str, path: Path) -> Any:
    import yaml

    from evenhand.schema.files import yaml_loader

    class Loader(yaml_loader()):  # type: ignore[misc]  # a class made by a function
        """Refuses what YAML leaves open: an entry that is there twice."""

        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            seen = set()
            for key, _ in node.value:
                name = str(key.value)
                if name in seen:
                    problem = f"the entry {name!r} is there twice"
                    raise yaml.MarkedYAMLError(problem=problem, problem_mark=key.start_mark)
                seen.add(name)
            return super().construct_mapping(node, deep)

    try:
        return yaml.load(text, Loader=Loader)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        line = getattr(error, "problem_mark", None)
        place = f"{path}, line {line.line + 1}" if line is not None else str(path)
        said = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise OptionError(f"this is not valid YAML: {said}", where=place) from None
