"""Models that MLflow logged, read from its folders and its local store; MLflow itself is not needed.

A logged model is a folder with a file ``MLmodel``, which lists by *flavour* in which file each library's model is. The
file of a flavour that Evenhand knows is loaded as if it had been given itself; a model that is nothing but
``python_function`` is code, and is not loaded.
"""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import yaml

from evenhand.errors import ModelError

DESCRIPTION = "MLmodel"
REGISTERED = re.compile(r"(models|runs):/+.+")
DOWNLOAD_HINT = "download it and give the folder: mlflow artifacts download -u URI -d FOLDER"

FILES: dict[str, tuple[str, tuple[str, ...]]] = {
    "xgboost": ("data", ()),
    "lightgbm": ("data", ()),
    "catboost": ("data", ()),
    "onnx": ("data", ("model.onnx",)),
    "sklearn": ("pickled_model", ()),
    "keras": ("data", ("model.keras", "model.h5")),
    "tensorflow": ("data", ("model.keras", "model.h5")),
    "pytorch": ("model_data", ("model.pt2", "model.pth")),
}
"""By flavour, the field that names its file or folder, and the files to look for in a folder; the safest come first."""

SUFFIXES = {".cb": ".cbm", ".lgb": ".txt", ".xgb": ".ubj"}
"""How MLflow calls files that are elsewhere called otherwise."""


def is_registered(source: str) -> bool:
    """Return whether a model is named as MLflow does: ``models:/name/version``, ``runs:/id/path`` and the like."""
    return REGISTERED.fullmatch(source) is not None


def is_logged_model(path: Path) -> bool:
    """Return whether a folder holds a model that MLflow logged."""
    return (path / DESCRIPTION).is_file()


def find_model_file(folder: Path) -> tuple[Path, str]:
    """Return the file of a logged model that can be read, and the suffix that says how.

    Raises:
        ModelError: its ``MLmodel`` is damaged, has no flavour that is known, or names a file that is not there.
    """
    location = str(folder / DESCRIPTION)
    try:
        described = yaml.safe_load((folder / DESCRIPTION).read_text("utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError, RecursionError, ValueError) as error:
        raise ModelError(f"the file cannot be read as YAML: {str(error).splitlines()[0]}", location=location) from None
    flavours = described.get("flavors") if isinstance(described, Mapping) else None
    if not isinstance(flavours, Mapping):
        raise ModelError("it lists no `flavors`", location=location, hint="log the model again with MLflow")
    for flavour, (key, inside) in FILES.items():
        if isinstance(fields := flavours.get(flavour), Mapping):
            return _flavour_file(folder, flavour, fields.get(key), inside, location)
    raise ModelError(
        f"none of its flavours is known ({', '.join(map(str, flavours)) or 'there is none'}): python_function alone is "
        "code that would have to run",
        location=location,
        hint=f"log it by its library's flavour ({', '.join(FILES)}), or wrap it as module:function",
    )


def _flavour_file(folder: Path, flavour: str, named: Any, inside: tuple[str, ...], location: str) -> tuple[Path, str]:
    path = folder / str(named or "data")
    if not path.resolve().is_relative_to(folder.resolve()):
        raise ModelError(f"the flavour {flavour} names {str(named)!r}, which is outside the folder", location=location)
    if path.is_dir():
        path = next((path / name for name in inside if (path / name).is_file()), path)
    if not path.is_file():
        raise ModelError(
            f"the file of the flavour {flavour} is not there: {path.relative_to(folder)}",
            location=location,
            hint="copy the whole folder; of TensorFlow's SavedModel folders nothing is read: save as .keras",
        )
    suffix = path.suffix.lower()
    return path, SUFFIXES.get(suffix, suffix)


# The local store: folders of YAML files, or an SQLite database beside the folder of files.


def find_registered(source: str) -> Path:
    """Return the folder of a model in the local store.

    The store is the one that ``MLFLOW_TRACKING_URI`` names, or ``MLFLOW_REGISTRY_URI`` for registered models; else
    ``mlflow.db`` or ``mlruns`` in the working directory.

    Args:
        source: ``models:/name/version``, ``models:/name/latest``, ``models:/name@alias``, ``models:/m-id`` or
            ``runs:/id/path``.

    Raises:
        ModelError: there is no such model, or the store is on another machine.
    """
    kind, _, rest = source.partition(":")
    name, _, part = rest.strip("/").partition("/")
    store = _local_store(source, registry=kind == "models")
    root = store.parent / "mlruns" if store.is_file() else store
    try:
        if kind == "runs":
            listed = [*root.glob(f"*/{name}/artifacts/{part or 'model'}"), *root.glob("*/models/*/artifacts")]
            folders = [path for path in listed if is_logged_model(path) and _is_run(path, name, part)]
        elif not part and "@" not in name:
            folders = [path for path in root.glob(f"*/models/{name}/artifacts") if is_logged_model(path)]
        else:
            place = _version_place(store, name, part)
            folders = [] if place is None else _folders_at(place, root)
    except (OSError, sqlite3.Error, yaml.YAMLError, ValueError) as error:
        raise ModelError(f"MLflow's store cannot be read: {error}", location=str(store), hint=DOWNLOAD_HINT) from None
    if not folders:
        raise ModelError(
            "there is no such model in MLflow's local store",
            location=source,
            hint=f"the store is {store}; `MLFLOW_TRACKING_URI` names another one, or {DOWNLOAD_HINT}",
        )
    return folders[0]


def _local_store(source: str, *, registry: bool) -> Path:
    named = os.environ.get("MLFLOW_REGISTRY_URI") if registry else None
    named = named or os.environ.get("MLFLOW_TRACKING_URI")
    if not named:
        return next((path for path in (Path("mlflow.db"), Path("mlruns")) if path.exists()), Path("mlruns"))
    scheme = urlsplit(named).scheme
    if scheme == "sqlite":
        return Path(unquote(named.partition(":///")[2]))
    if scheme == "file" or "://" not in named:
        return _file_path(named)
    raise ModelError(
        f"MLflow's store is a {scheme} one, and only local ones are read", location=source, hint=DOWNLOAD_HINT
    )


def _file_path(place: str) -> Path:
    return Path(unquote(urlsplit(place).path) if place.startswith("file:") else place)


def _is_run(path: Path, run: str, part: str) -> bool:
    """Return whether a logged model is the one that a run calls so."""
    if path.parent.name == "artifacts":
        return True  # found by the run and the name: how MLflow 2 lays them out
    described = yaml.safe_load((path / DESCRIPTION).read_text("utf-8"))
    return described.get("run_id") == run and part in ("", described.get("artifact_path"), described.get("name"))


def _version_place(store: Path, name: str, version: str) -> str | None:
    """Return where the store says that a version of a registered model is."""
    name, _, alias = name.partition("@")
    if store.is_file():
        return _database_place(store, name, version, alias)
    folder = store / "models" / name
    if not folder.resolve().is_relative_to(store.resolve()):
        raise ValueError(f"{name!r} is not a name of a model")
    if alias:
        version = (
            (folder / "aliases" / alias).read_text("utf-8").strip() if (folder / "aliases" / alias).is_file() else "0"
        )
    if version.lower() == "latest":
        known = [int(path.name.partition("-")[2]) for path in folder.glob("version-*")]
        version = str(max(known, default=0))
    description = folder / f"version-{int(version)}" / "meta.yaml"
    if not description.is_file():
        return None
    fields = yaml.safe_load(description.read_text("utf-8"))
    return str(fields.get("storage_location") or fields.get("source"))


def _database_place(store: Path, name: str, version: str, alias: str) -> str | None:
    with closing(sqlite3.connect(f"{store.resolve().as_uri()}?mode=ro", uri=True)) as database:
        if alias:
            asked = "SELECT version FROM registered_model_aliases WHERE name = ? AND alias = ?"
            found = database.execute(asked, (name, alias)).fetchone()
        elif version.lower() == "latest":
            found = database.execute("SELECT MAX(version) FROM model_versions WHERE name = ?", (name,)).fetchone()
        else:
            found = (int(version),)
        if found is None:
            return None
        asked = "SELECT storage_location, source FROM model_versions WHERE name = ? AND version = ?"
        row = database.execute(asked, (name, found[0])).fetchone()
    return None if row is None else str(row[0] or row[1])


def _folders_at(place: str, root: Path) -> list[Path]:
    """Return the folder where the store says; if the store was moved, the one at the same place in it."""
    listed = _file_path(place)
    inside = listed.parts[listed.parts.index(root.name) + 1 :] if root.name in listed.parts else ()
    return [path for path in (listed, root.joinpath(*inside)) if is_logged_model(path)]
