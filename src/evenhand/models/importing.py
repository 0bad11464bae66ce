"""Import the object that ``module:name`` names."""

from __future__ import annotations

import importlib
import sys
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

from evenhand.core.text import summarize_error
from evenhand.errors import ModelError


def import_object(source: str, folder: Path | None = None) -> Any:
    """Import the object that ``module:name`` names. Like ``uvicorn``, add the folder to ``sys.path``.

    Args:
        source: Module and name.
        folder: Folder of the module. Default: the current directory.

    Raises:
        ModelError: The module or name does not exist, the import fails, or a module of this name was already imported
            from another folder.
    """
    name, _, attribute = source.partition(":")
    place = str(Path.cwd() if folder is None else folder.absolute())
    if place not in sys.path:
        sys.path.insert(0, place)
    importlib.invalidate_caches()
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not (name == error.name or name.startswith(f"{error.name}.")):
            raise _import_error(source, name, error) from error
        raise ModelError(
            f"there is no module {error.name!r}",
            location=source,
            hint="write module:function, with the module's file in the current directory or installed",
        ) from None
    except (Exception, SystemExit) as error:
        raise _import_error(source, name, error) from error
    root = name.partition(".")[0]
    spec, origin = PathFinder.find_spec(root, [place]), getattr(sys.modules[root], "__file__", None)
    if spec and spec.origin and origin and Path(origin).resolve() != Path(spec.origin).resolve():
        message = f"another module {root!r} is already imported from {origin}"
        raise ModelError(message, location=source, hint=f"rename {spec.origin}")
    value: Any = module
    for part in attribute.split("."):
        if not hasattr(value, part):
            public = ((name, getattr(value, name)) for name in dir(value) if not name.startswith("_"))
            names = [name for name, model in public if callable(model) or hasattr(model, "predict")]
            raise ModelError(
                f"there is no {part!r} in {name}",
                location=source,
                hint=f"available: {', '.join(sorted(names)[:12]) or 'nothing callable'}",
            )
        value = getattr(value, part)
    return value


def _import_error(source: str, module: str, error: BaseException) -> ModelError:
    return ModelError(
        f"importing {module} fails: {summarize_error(error)}", location=source, hint=f"try: python -c 'import {module}'"
    )
