"""Models that MLflow logged.

A logged model is a folder with a file ``MLmodel``, which lists by *flavour* in which file each library's model is. The
file of a flavour that Evenhand knows is loaded like any file of its kind, without MLflow. A model with the flavour
``python_function`` alone is code, and is not loaded.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from evenhand.core.text import summarize_error
from evenhand.errors import MissingExtraError, ModelError

DESCRIPTION = "MLmodel"
REGISTERED = re.compile(r"(models|runs):/+.+")

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
"""By flavour, the field that names its file or folder, and the files in a folder, the safest first."""

SUFFIXES = {".cb": ".cbm", ".lgb": ".txt", ".xgb": ".ubj"}
"""Usual suffixes of files that MLflow names in another way."""


def is_registered(source: str) -> bool:
    """Return whether a model is given as an MLflow URI, such as ``models:/name/version`` or ``runs:/id/path``."""
    return REGISTERED.fullmatch(source) is not None


def is_logged_model(path: Path) -> bool:
    """Return whether a folder contains a model logged by MLflow."""
    return (path / DESCRIPTION).is_file()


def find_model_file(folder: Path) -> tuple[Path, str]:
    """Return the readable file of a logged model and the suffix of its format.

    Raises:
        ModelError: ``MLmodel`` is damaged, has no supported flavour, or names a missing file.
    """
    location = str(folder / DESCRIPTION)
    try:
        description = yaml.safe_load((folder / DESCRIPTION).read_text("utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError, RecursionError, ValueError) as error:
        raise ModelError(f"the file cannot be read as YAML: {str(error).splitlines()[0]}", location=location) from None
    flavours = description.get("flavors") if isinstance(description, Mapping) else None
    if not isinstance(flavours, Mapping):
        raise ModelError("the file lists no `flavors`", location=location, hint="log the model again with MLflow")
    for flavour, (key, inside) in FILES.items():
        if isinstance(fields := flavours.get(flavour), Mapping):
            return _flavour_file(folder, flavour, fields.get(key), inside, location)
    raise ModelError(
        f"none of its flavours is supported ({', '.join(map(str, flavours)) or 'none'}): python_function alone would "
        "require running code",
        location=location,
        hint=f"log it with its library's flavour ({', '.join(FILES)}), or wrap it as module:function",
    )


def _flavour_file(folder: Path, flavour: str, value: Any, inside: tuple[str, ...], location: str) -> tuple[Path, str]:
    path = folder / str(value or "data")
    if not path.resolve().is_relative_to(folder.resolve()):
        raise ModelError(f"the flavour {flavour} names {str(value)!r}, which is outside the folder", location=location)
    if path.is_dir():
        path = next((path / name for name in inside if (path / name).is_file()), path)
    if not path.is_file():
        raise ModelError(
            f"the file of the flavour {flavour} does not exist: {path.relative_to(folder)}",
            location=location,
            hint="copy the whole folder. TensorFlow's SavedModel format is not supported: save as .keras",
        )
    suffix = path.suffix.lower()
    return path, SUFFIXES.get(suffix, suffix)


def find_registered(source: str) -> Path:
    """Return the folder of a model in an MLflow store, downloaded by MLflow if the store is on another machine.

    Args:
        source: ``models:/name/version``, ``models:/name@alias``, ``runs:/id/path`` or another MLflow URI.

    Raises:
        ModelError: The model does not exist, or the store cannot be reached.
        MissingExtraError: MLflow is not installed.
    """
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    try:
        from mlflow.artifacts import download_artifacts
    except ImportError:
        raise MissingExtraError("mlflow", extra="mlflow", purpose="to find a model in MLflow's store") from None
    try:
        return Path(download_artifacts(source))
    except Exception as error:  # each type of store raises different exceptions
        raise ModelError(
            f"MLflow cannot find the model: {summarize_error(error)}",
            location=source,
            hint="check `MLFLOW_TRACKING_URI`, or give the model's folder",
        ) from None
