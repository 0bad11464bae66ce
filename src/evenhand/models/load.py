"""From what a user has to something that can be asked: an object, a file, a URL or ``module:function``."""

from __future__ import annotations

import dataclasses
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evenhand.errors import EvenhandError, MissingExtraError, ModelError, TrustError
from evenhand.models.labels import match_labels
from evenhand.models.questions import first_line
from evenhand.models.scorer import Scorer
from evenhand.schema import Schema


@dataclass(frozen=True)
class Request:
    """What is to be loaded.

    Attributes:
        path: the file.
        schema: what the model's individuals are.
        like: the user's data, as a template for frames.
        trust: whether the file may run code.
        name: how to call the model in a report.
    """

    path: Path
    schema: Schema
    like: Any
    trust: bool
    name: str


def load(source: Any, schema: Schema, *, like: Any = None, trust: bool = False, name: str | None = None) -> Scorer:
    """Make a model askable.

    Args:
        source: a model object (scikit-learn estimator or Pipeline, PyTorch module, XGBoost or LightGBM model, ONNX
            model, any function of a batch, a ``Scorer``), or a file (``.npz``, ``.h5``, ``.keras``, ``.onnx``,
            ``.pt2``, ``.pt``, ``.pth``, ``.skops``, ``.pkl``, ``.joblib``, ``.json``, ``.ubj``, ``.txt``), an
            ``http(s)://`` URL, or ``module:function``.
        schema: what the model's individuals are.
        like: the user's data; a model that takes data frames is asked with frames of its type.
        trust: allow files that can run code when they are loaded.
        name: how to call the model in a report; by default the file, URL or type.

    Raises:
        ModelError: there is no such model, it is damaged, or it does not fit the schema.
        TrustError: loading it could run code, and it is not trusted.
        MissingExtraError: a library that it needs is not installed.
        FetchError: the URL does not answer.
    """
    if isinstance(source, Path) or (isinstance(source, str) and _is_path(source)):
        return _load_file(Path(source), schema, like=like, trust=trust, name=name)
    if not isinstance(source, str):
        return _load_object(source, schema, like=like, name=name)
    if re.match(r"https?://", source, re.IGNORECASE):
        from evenhand.models.http import from_url

        return from_url(source, schema, name=name)
    if re.fullmatch(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*", source):
        from evenhand.models.function import from_import

        return _load_object(from_import(source), schema, like=like, name=name or source)
    raise ModelError(
        f"this is no model: {source!r}",
        mend=f"give a file ({', '.join(LOADERS)}), an http(s):// URL or module:function",
    )


def _is_path(source: str) -> bool:
    if "://" in source:
        return False
    return Path(source).suffix.lower() in LOADERS or Path(source).exists() or ":" not in source


def _load_file(path: Path, schema: Schema, *, like: Any, trust: bool, name: str | None) -> Scorer:
    loader = LOADERS.get(path.suffix.lower())
    if not path.exists():
        known = "" if loader else f"; known kinds are {', '.join(LOADERS)}, http(s):// URLs and module:function"
        raise ModelError("there is no such file", where=str(path), mend=f"check the path{known}")
    if path.is_dir():
        raise ModelError("this is a folder, not a model file", where=str(path), mend="give the file in it")
    if loader is None:
        raise ModelError(
            f"a file that ends in {path.suffix!r} is no known kind of model"
            if path.suffix
            else "the file has no suffix",
            where=str(path),
            mend=f"known kinds are {', '.join(LOADERS)}; anything else can be wrapped as module:function",
        )
    try:
        return _named(loader(Request(path, schema, like, trust, name or path.name)), name)
    except EvenhandError:
        raise
    except Exception as error:
        raise ModelError(
            f"the file cannot be read as {path.suffix}: {first_line(error)}",
            where=str(path),
            mend="it may be truncated, damaged or of another kind: save it again",
        ) from error


def _load_object(source: Any, schema: Schema, *, like: Any, name: str | None) -> Scorer:
    if isinstance(source, Scorer):
        return _named(_described_by(source, schema), name)
    family = type(source).__module__.partition(".")[0]
    if family in ("xgboost", "lightgbm") and type(source).__name__ == "Booster":
        from evenhand.models.trees import from_booster

        return _named(from_booster(source, schema), name)
    if family == "onnx" and hasattr(source, "SerializeToString"):
        from evenhand.models.onnx_runtime import from_onnx_file

        return from_onnx_file(source.SerializeToString(), schema, name=name)
    torch = sys.modules.get("torch")  # whoever has a PyTorch model has imported PyTorch
    if torch is not None and isinstance(source, torch.nn.Module | torch.export.ExportedProgram):
        from evenhand.models.torch_module import from_module

        return from_module(source, schema, name=name)
    if hasattr(source, "predict") and not isinstance(source, type):
        if hasattr(source, "classes_") or hasattr(source, "get_params"):
            from evenhand.models.estimator import from_estimator

            return from_estimator(source, schema, like=like, name=name)
        from evenhand.models.function import from_function

        return from_function(source.predict, schema, like=like, name=name or type(source).__name__)
    if callable(source):
        from evenhand.models.function import from_function

        return from_function(source, schema, like=like, name=name)
    raise ModelError(
        f"a {type(source).__name__} is no model",
        mend="give an estimator with predict, a PyTorch module, a function, a file, a URL or module:function",
    )


def _named(scorer: Scorer, name: str | None) -> Scorer:
    if name is None or name == scorer.name or not dataclasses.is_dataclass(scorer):
        return scorer
    return dataclasses.replace(scorer, name=name)


def _described_by(scorer: Scorer, schema: Schema) -> Scorer:
    """A ready scorer, with the marks of this schema (who is protected, which label is favourable).

    Raises:
        ModelError: it was made for other individuals, so that the same row would mean another person.
    """
    if scorer.schema == schema:
        return scorer
    for own, given in zip(scorer.schema.attributes, schema.attributes, strict=False):
        same = (own.name, own.kind, own.values, own.edges) == (given.name, given.kind, given.values, given.edges)
        if not same or own.encoding != given.encoding:
            raise ModelError(
                f"the model was made for a schema with another attribute {own.name!r} where this one has "
                f"{given.name!r}",
                where=scorer.name,
                mend="load the model with the schema it is audited with",
            )
    if len(scorer.schema.attributes) != len(schema.attributes):
        raise ModelError(
            f"the model was made for {len(scorer.schema.attributes)} attributes, and the schema has "
            f"{len(schema.attributes)}",
            where=scorer.name,
        )
    classes, favourable = match_labels(schema, scorer.classes, where=scorer.name)
    if not dataclasses.is_dataclass(scorer):
        return scorer
    return dataclasses.replace(scorer, schema=schema, classes=classes, favourable=favourable)


def _npz(request: Request) -> Scorer:
    from evenhand.models.npz import from_npz

    return from_npz(request.path, request.schema)


def _keras(request: Request) -> Scorer:
    from evenhand.models.keras_file import from_keras

    return from_keras(request.path, request.schema)


def _onnx(request: Request) -> Scorer:
    from evenhand.models.onnx_runtime import from_onnx_file

    return from_onnx_file(request.path, request.schema, name=request.name)


def _exported_program(request: Request) -> Scorer:
    from evenhand.models.pt2_archive import read_program
    from evenhand.models.torch_module import from_module

    return from_module(read_program(request.path, trust=request.trust), request.schema, name=request.name)


def _torch_object(request: Request) -> Scorer:
    _need_trust(
        request.trust,
        request.name,
        "a PyTorch object",
        "torch.export.save(torch.export.export(model, example), 'model.pt2')",
    )
    try:
        import torch
    except ImportError:
        raise MissingExtraError("torch", extra="torch", purpose="to run a PyTorch model") from None
    loaded = torch.load(request.path, map_location="cpu", weights_only=False)
    if isinstance(loaded, dict):
        raise ModelError(
            "the file holds weights alone (a state_dict), and no model to put them in",
            where=request.name,
            mend="save the whole module, or export it to .pt2 or .onnx",
        )
    return _loaded(loaded, request)


def stored_object(path: Path, *, trust: bool, name: str | None = None) -> Any:
    """The Python object in a ``.skops``, ``.joblib`` or pickle file.

    Raises:
        TrustError: loading it could run code, and it is not trusted.
        ModelError: there is no such file, or it is damaged.
        MissingExtraError: skops is needed and not installed.
    """
    name = name or path.name
    if not path.is_file():
        raise ModelError("there is no such file", where=str(path), mend="check the path")
    try:
        return STORED[path.suffix.lower()](path, trust, name)
    except EvenhandError:
        raise
    except Exception as error:
        raise ModelError(
            f"the file cannot be read as {path.suffix}: {first_line(error)}",
            where=str(path),
            mend="it may be truncated, damaged or of another kind: save it again",
        ) from error


def _skops(path: Path, trust: bool, name: str) -> Any:
    try:
        import skops.io
    except ImportError:
        raise MissingExtraError("skops", extra="skops", purpose="to read a .skops file") from None
    content = path.read_bytes()  # once, so that what is loaded is what was looked at
    untrusted = skops.io.get_untrusted_types(data=content)
    if untrusted and not trust:
        raise TrustError(
            f"the file needs types that can run code when they are loaded: {', '.join(untrusted)}",
            where=name,
            mend="if you know where it comes from: --trust (in Python: trust=True)",
        )
    return skops.io.loads(content, trusted=untrusted)


def _pickle(path: Path, trust: bool, name: str) -> Any:
    _need_trust(trust, name, "a pickle", "skops.io.dump(model, 'model.skops')")
    import pickle

    with path.open("rb") as file:
        return pickle.load(file)


def _joblib(path: Path, trust: bool, name: str) -> Any:
    _need_trust(trust, name, "a joblib file", "skops.io.dump(model, 'model.skops')")
    import joblib

    return joblib.load(path)


STORED: dict[str, Callable[[Path, bool, str], Any]] = {
    ".skops": _skops,
    ".pkl": _pickle,
    ".pickle": _pickle,
    ".joblib": _joblib,
}
"""How Python objects are read from files, by suffix."""


def _stored(request: Request) -> Scorer:
    return _loaded(stored_object(request.path, trust=request.trust, name=request.name), request)


def _xgboost(request: Request) -> Scorer:
    from evenhand.models.xgboost_file import read_xgboost

    return read_xgboost(request.path, request.schema)


def _lightgbm(request: Request) -> Scorer:
    from evenhand.models.lightgbm_file import read_lightgbm

    return read_lightgbm(request.path, request.schema)


def _loaded(source: Any, request: Request) -> Scorer:
    return _load_object(source, request.schema, like=request.like, name=request.name)


def _need_trust(trust: bool, name: str, what: str, instead: str) -> None:
    if not trust:
        raise TrustError(
            f"loading {what} runs whatever code is in it",
            where=name,
            mend=f"if you know where it comes from: --trust (in Python: trust=True); safer: {instead}",
        )


LOADERS: dict[str, Callable[[Request], Scorer]] = {
    ".npz": _npz,
    ".h5": _keras,
    ".keras": _keras,
    ".onnx": _onnx,
    ".pt2": _exported_program,
    ".pt": _torch_object,
    ".pth": _torch_object,
    ".skops": _stored,
    ".pkl": _stored,
    ".pickle": _stored,
    ".joblib": _stored,
    ".json": _xgboost,
    ".ubj": _xgboost,
    ".txt": _lightgbm,
}
"""How each kind of file is read, by its suffix."""
