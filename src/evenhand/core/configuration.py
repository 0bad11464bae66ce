"""Configurations in YAML and TOML files."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evenhand.errors import EvenhandError, OptionError


def read_configuration(
    source: Mapping[str, Any] | str | Path, *, example: str, entries: str, error: type[EvenhandError] = OptionError
) -> Mapping[str, Any]:
    """Read the entries of a YAML or TOML file.

    Args:
        source: Path of the file. The suffix ``.toml`` selects TOML, any other suffix YAML. In YAML, only ``true`` and
            ``false`` are Booleans, and numbers have no leading zeros. A mapping is returned as it is.
        example: Name of an example file, for messages.
        entries: Required entries, for messages.
        error: Class of the raised error.

    Raises:
        EvenhandError: The file cannot be read, is not a mapping, or has a duplicate entry.
    """
    import tomllib

    if isinstance(source, Mapping):
        return source
    path = Path(source)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise error("not a text file", location=str(path), hint="write it in YAML or TOML, encoded as UTF-8") from None
    except OSError as fault:
        message = f"the configuration cannot be read: {fault.strerror or fault}"
        raise error(message, location=str(path), hint=f"pass a configuration file, such as {example}") from None
    try:
        content: Any = tomllib.loads(text) if path.suffix.lower() == ".toml" else _parse_yaml(text, path)
    except tomllib.TOMLDecodeError as fault:
        raise error(f"invalid TOML: {fault}", location=str(path)) from None
    except OptionError as fault:
        raise error(fault.message, location=fault.location) from None
    if not isinstance(content, Mapping):
        received = "nothing" if content is None else "a list" if isinstance(content, list) else "a single value"
        message = f"expected named entries, as in {example}, got {received}"
        raise error(message, location=str(path), hint=f"write {entries}")
    return content


def _parse_yaml(text: str, path: Path) -> Any:
    import yaml

    try:
        return yaml.load(text, Loader=yaml_loader())
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        location = f"{path}, line {mark.line + 1}" if mark is not None else str(path)
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise OptionError(f"invalid YAML: {problem}", location=location) from None


def yaml_loader() -> Any:
    """Build a loader in which ``no``, ``01``, ``12:30`` and ``2020-01-01`` are strings. It rejects duplicates."""
    import yaml

    # PyYAML follows YAML 1.1, in which `no` is a Boolean, 010 is 8, 12:30 is 750, and 2020-01-01 is a date.
    removed = {f"tag:yaml.org,2002:{name}" for name in ("bool", "int", "timestamp", "value")}
    resolvers = yaml.SafeLoader.yaml_implicit_resolvers

    class Loader(yaml.SafeLoader):
        yaml_implicit_resolvers = {  # noqa: RUF012 - PyYAML's own attribute
            letter: [pair for pair in pairs if pair[0] not in removed] for letter, pairs in resolvers.items()
        }

        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            names = set()
            for key, _ in node.value:
                name = str(key.value)
                if name in names:
                    raise yaml.MarkedYAMLError(problem=f"duplicate entry {name!r}", problem_mark=key.start_mark)
                names.add(name)
            return super().construct_mapping(node, deep)

    Loader.add_implicit_resolver("tag:yaml.org,2002:int", re.compile(r"^-?(?:0|[1-9][0-9]*)$"), list("-0123456789"))
    Loader.add_implicit_resolver(
        "tag:yaml.org,2002:bool", re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF")
    )
    return Loader
