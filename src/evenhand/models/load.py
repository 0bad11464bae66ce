"""From what a user has to something that can be asked: an object, a file, a URL or ``module:function``."""

from __future__ import annotations

import dataclasses
import re
import sys
import warnings
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from evenhand.errors import EvenhandError, MissingExtraError, ModelError, NotAdditiveError, TrustError
from evenhand.models.blackbox.estimator import wrap_estimator
from evenhand.models.blackbox.fairlearn_model import adapt_fairlearn, is_fairlearn
from evenhand.models.blackbox.questions import summarize_error
from evenhand.models.blackbox.type_search import with_caution
from evenhand.models.encodings import require_encodings
from evenhand.models.ledger import QuestionLedger
from evenhand.models.mlflow_folder import find_model_file, find_registered, is_logged_model, is_registered
from evenhand.models.outputs import OutputKind, check_output, describe_guess, reference_people, refuse_stated
from evenhand.models.regressor import Regressor
from evenhand.models.replies import match_labels
from evenhand.models.scorer import Scorer, favourable_score
from evenhand.schema.schema import Schema


@dataclass(frozen=True)
class LoadRequest:
    """What is to be loaded.

    Attributes:
        path: the file.
        schema: what the model's individuals are.
        like: the user's data, as a template for frames.
        trust: whether the file may run code.
        name: how to call the model in a report.
        ledger: counts whom a black box is asked about.
        untyped: Whether ``like`` is a text table.
        output: meaning of the model's numeric outputs if it is stated.
    """

    path: Path
    schema: Schema
    like: Any
    trust: bool
    name: str
    ledger: QuestionLedger | None
    untyped: bool
    output: OutputKind | None


def load_model(
    source: Any,
    schema: Schema,
    *,
    like: Any = None,
    trust: bool = False,
    name: str | None = None,
    ledger: QuestionLedger | None = None,
    untyped: bool = False,
    output: OutputKind | None = None,
) -> Scorer:
    """Make a model askable.

    Args:
        source: a model object (scikit-learn estimator or Pipeline, PyTorch module, XGBoost, LightGBM or CatBoost model,
            ONNX model, any function of a batch, a ``Scorer``), or a file (``.npz``, ``.h5``, ``.keras``, ``.onnx``,
            ``.pt2``, ``.pt``, ``.pth``, ``.skops``, ``.pkl``, ``.joblib``, ``.cbm``, ``.json``, ``.ubj``, ``.txt``, a
            language model's ``.yaml``), a folder that MLflow logged or ``models:/name/version`` in its local store, an
            ``http(s)://`` URL, or ``module:function``.
        schema: what the model's individuals are.
        like: the user's data; a model that takes data frames is asked with frames of its type.
        trust: allow files that can run code when they are loaded.
        name: how to call the model in a report; by default the file, URL or type.
        ledger: counts whom a black box is asked about, from the first question that tries it; by default a new one.
        untyped: Whether ``like`` was read from a text table, which does not state the types of its columns. A model
            that takes data frames is then asked with the types that it expects.
        output: Meaning of the model's numeric outputs: ``probability``, ``logit`` or ``score``. By default their values
            and the true labels decide (see ``evenhand.models.outputs``).

    Raises:
        ModelError: there is no such model, it is damaged, or it does not fit the schema; or it is fed with numbers for
            categories, and the schema does not say which number stands for which value (``encoding``); or the meaning
            of its outputs is open.
        TrustError: loading it could run code, and it is not trusted.
        MissingExtraError: a library that it needs is not installed.
        FetchError: the URL does not answer.
        BudgetError: the ledger's budget does not pay for trying it.
        SchemaError: the target is a number (see ``load_regressor``).
    """
    scorer = open_model(
        source, schema, like=like, trust=trust, name=name, ledger=ledger, untyped=untyped, output=output
    )
    return _settle_guess(scorer, like) if getattr(scorer, "guessed", False) else scorer


def open_model(
    source: Any,
    schema: Schema,
    *,
    like: Any = None,
    trust: bool = False,
    name: str | None = None,
    ledger: QuestionLedger | None = None,
    untyped: bool = False,
    output: OutputKind | None = None,
) -> Scorer:
    """Make a model askable as ``load_model``, without a check of the labels that its numbers are taken for."""
    schema.target.require_labels("this analysis")
    check_output(output)
    untyped = untyped and like is not None
    options = {"like": like, "ledger": ledger, "untyped": untyped, "output": output}
    if isinstance(source, str) and is_registered(source):
        source, name = find_registered(source), name or source
    if isinstance(source, Path) or (isinstance(source, str) and is_path(source)):
        request = LoadRequest(Path(source), schema, like, trust, name or Path(source).name, ledger, untyped, output)
        return _load_file(request, name)
    if not isinstance(source, str):
        return _load_object(source, schema, name=name, **options)
    if is_url(source):
        from evenhand.models.blackbox.http_endpoint import connect_model

        return connect_model(source, schema, name=name, **options)
    if OBJECT_NAME.fullmatch(source):
        from evenhand.models.blackbox.function import import_object

        return _load_object(import_object(source), schema, name=name or source, **options)
    raise ModelError(
        f"this is not a model: {source!r}",
        hint=f"give a file ({', '.join(LOADERS)}), an http(s):// URL or module:function",
    )


def _settle_guess(scorer: Scorer, like: Any) -> Scorer:
    """Check the labels that a model's numbers were taken for against the true labels of the data.

    Raises:
        ModelError: as ``describe_guess``.
    """
    people = reference_people(scorer.schema, like, drawn=0).labelled
    scores = favourable_score(scorer, people.individuals) if len(people.truth) else np.empty(0)
    caution = describe_guess(
        scorer.classes[scorer.favourable],
        scores,
        people.truth,
        number=scorer.favourable,
        ordered=scorer.classes == scorer.schema.target.values,
        location=scorer.name,
    )
    return dataclasses.replace(scorer, caution=" ".join(filter(None, [getattr(scorer, "caution", ""), caution])))  # type: ignore[type-var]  # scorers with guessed labels are dataclasses


def load_regressor(
    source: Any,
    schema: Schema,
    *,
    like: Any = None,
    trust: bool = False,
    name: str | None = None,
    ledger: QuestionLedger | None = None,
    untyped: bool = False,
) -> Regressor:
    """Make a model that decides a number askable.

    Args:
        source: a fitted regressor (scikit-learn estimator or Pipeline, ``XGBRegressor``, ``LGBMRegressor``, anything
            with ``predict``), a function from a frame of n people to n numbers, a ``Regressor``; or a file of one
            (``.skops``, ``.pkl``, ``.joblib``, ``.npz``, XGBoost's ``.json`` and ``.ubj``, LightGBM's ``.txt``), or
            ``module:function``.
        schema: what the model's individuals are; its target is a number.
        like, trust, name, ledger, untyped: as for ``load_model``.

    Raises:
        ModelError: there is no such model, it does not fit the schema, or gives labels; or no reader takes numbers from
            its kind of file.
        TrustError: loading it could run code, and it is not trusted.
        MissingExtraError: a library that it needs is not installed.
        BudgetError: the ledger's budget does not pay for trying it.
    """
    from evenhand.models.blackbox.number_model import wrap_regressor

    untyped = untyped and like is not None
    if isinstance(source, Path) or (isinstance(source, str) and is_path(source)):
        path = Path(source)
        if path.suffix.lower() in NUMBER_LOADERS and path.exists():
            with _refuse_damage(path):
                regressor: Regressor = _import_reader(NUMBER_LOADERS[path.suffix.lower()])(path, schema)
                return regressor
        if path.suffix.lower() not in OBJECT_LOADERS:
            raise ModelError(
                f"the target {schema.target.name!r} is a number, and models that give numbers are not read from "
                f"{path.suffix or 'such'} files",
                location=str(path),
                hint=f"give it as {', '.join([*OBJECT_LOADERS, *NUMBER_LOADERS])}, or wrap it as module:function",
            )
        source, name = load_stored_object(path, trust=trust), name or path.name
    elif isinstance(source, str) and OBJECT_NAME.fullmatch(source) and not is_url(source):
        from evenhand.models.blackbox.function import import_object

        source, name = import_object(source), name or source
    if isinstance(source, Regressor):
        if source.schema.names != schema.names:
            raise ModelError(
                f"the model was made for the attributes {', '.join(source.schema.names)}",
                location=source.name,
                hint="load the model with the schema it is audited with",
            )
        return source
    if hasattr(source, "predict") or callable(source):
        return wrap_regressor(source, schema, like=like, name=name, ledger=ledger, untyped=untyped)
    shown = repr(source) if isinstance(source, str) else f"a {type(source).__name__}"
    raise ModelError(
        f"{shown} is not a model that gives numbers",
        hint="give a fitted regressor with predict, a function, a file of one, or module:function",
    )


NUMBER_LOADERS = {
    ".npz": "readers.npz:read_npz",
    ".json": "readers.xgboost_file:read_xgboost",
    ".ubj": "readers.xgboost_file:read_xgboost",
    ".txt": "readers.lightgbm_file:read_lightgbm",
}
"""Files that are read as white boxes which give numbers, and their readers."""

OBJECT_NAME = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")
"""How an object of a module is named: ``module:function``."""


def is_url(source: str) -> bool:
    """Return whether a model is named by a URL."""
    return re.match(r"https?://", source, re.IGNORECASE) is not None


def is_path(source: str) -> bool:
    """Return whether a model is named by a file."""
    if "://" in source:
        return False
    return Path(source).suffix.lower() in LOADERS or Path(source).exists() or ":" not in source


def _load_file(request: LoadRequest, name: str | None) -> Scorer:
    path = request.path
    loader = LOADERS.get(path.suffix.lower())
    if not path.exists():
        known = "" if loader else f"; known kinds are {', '.join(LOADERS)}, http(s):// URLs and module:function"
        raise ModelError("there is no such file", location=str(path), hint=f"check the path{known}")
    if is_logged_model(path):
        inside, suffix = find_model_file(path)
        name, loader = name or path.name, LOADERS.get(suffix)
        path, request = inside, dataclasses.replace(request, path=inside, name=name)
    if path.is_dir():
        raise ModelError(
            "this is a folder, not a model file",
            location=str(path),
            hint="give the file in it; a folder of MLflow has a file MLmodel, and a Hugging Face text classifier "
            "is asked about texts: `text_column=NAME`",
        )
    if loader is None:
        raise ModelError(
            f"a file that ends in {path.suffix!r} is not a known kind of model"
            if path.suffix
            else "the file has no suffix",
            location=str(path),
            hint=f"known kinds are {', '.join(LOADERS)}; anything else can be wrapped as module:function",
        )
    with _refuse_damage(path):
        return _rename_scorer(loader(request), name)


@contextmanager
def _refuse_damage(path: Path) -> Iterator[None]:
    """Turn whatever a library says about a file that it cannot read into one clear error."""
    try:
        yield
    except EvenhandError:
        raise
    except Exception as error:
        raise ModelError(
            f"the file cannot be read as {path.suffix}: {summarize_error(error)}",
            location=str(path),
            hint="it may be truncated, damaged or of another kind: save it again",
        ) from error


def _load_object(source: Any, schema: Schema, *, name: str | None, like: Any, **options: Any) -> Scorer:
    if isinstance(source, Scorer):
        return _rename_scorer(_adopt_schema(source, schema), name)
    return require_encodings(_wrap_object(source, schema, name=name, like=like, **options))


def _wrap_object(
    source: Any,
    schema: Schema,
    *,
    like: Any,
    name: str | None,
    ledger: QuestionLedger | None,
    untyped: bool,
    output: OutputKind | None,
) -> Scorer:
    family = type(source).__module__.partition(".")[0]
    if family in ("xgboost", "lightgbm") and type(source).__name__ == "Booster":
        from evenhand.models.readers.boosters import read_booster

        refuse_stated(output, name or type(source).__name__)
        return _rename_scorer(read_booster(source, schema), name)
    if family == "onnx" and hasattr(source, "SerializeToString"):
        from evenhand.models.blackbox.onnx_model import open_onnx

        return open_onnx(source.SerializeToString(), schema, data=like, name=name, output=output)
    if is_fairlearn(source):
        name = name or type(source).__name__
        refuse_stated(output, name)
        adapted = adapt_fairlearn(source, schema, name=name)
        scorer = wrap_estimator(adapted, schema, like=like, name=name, ledger=ledger, untyped=untyped)
        return with_caution(scorer, adapted.caution)
    torch = sys.modules.get("torch")  # a PyTorch model exists only after PyTorch was imported
    if torch is not None and isinstance(source, torch.nn.Module | torch.export.ExportedProgram):
        from evenhand.models.blackbox.torch_module import wrap_module

        return wrap_module(source, schema, data=like, name=name, output=output)
    if hasattr(source, "predict") and not isinstance(source, type):
        if hasattr(source, "classes_") or hasattr(source, "get_params"):
            refuse_stated(output, name or type(source).__name__)
            return wrap_estimator(source, schema, like=like, name=name, ledger=ledger, untyped=untyped)
        name, source = name or type(source).__name__, source.predict
    if callable(source):
        from evenhand.models.blackbox.function import wrap_function

        return wrap_function(source, schema, like=like, name=name, ledger=ledger, untyped=untyped, output=output)
    raise ModelError(
        f"a {type(source).__name__} is not a model",
        hint="give an estimator with predict, a PyTorch module, a function, a file, a URL or module:function",
    )


def _rename_scorer(scorer: Scorer, name: str | None) -> Scorer:
    if name is None or name == scorer.name or not dataclasses.is_dataclass(scorer):
        return scorer
    return dataclasses.replace(scorer, name=name)


def _adopt_schema(scorer: Scorer, schema: Schema) -> Scorer:
    """Return a ready scorer, with the marks of this schema (who is protected, which label is favourable).

    Raises:
        ModelError: it was made for other individuals, so that the same row would mean another person.
    """
    if scorer.schema == schema:
        return scorer
    for own, given in zip(scorer.schema.attributes, schema.attributes, strict=False):
        same = (own.name, own.kind, own.values, own.edges) == (given.name, given.kind, given.values, given.edges)
        if not same or (own.encoding or "code") != (given.encoding or "code"):
            raise ModelError(
                f"the model was made for a schema with another attribute {own.name!r} where this one has "
                f"{given.name!r}",
                location=scorer.name,
                hint="load the model with the schema it is audited with",
            )
    if len(scorer.schema.attributes) != len(schema.attributes):
        raise ModelError(
            f"the model was made for {len(scorer.schema.attributes)} attributes, and the schema has "
            f"{len(schema.attributes)}",
            location=scorer.name,
        )
    classes, favourable, _ = match_labels(schema, scorer.classes, location=scorer.name)
    if not dataclasses.is_dataclass(scorer):
        return scorer
    return dataclasses.replace(scorer, schema=schema, classes=classes, favourable=favourable)


def _load_onnx(request: LoadRequest) -> Scorer:
    from evenhand.models.blackbox.onnx_model import open_onnx

    scorer = open_onnx(request.path, request.schema, data=request.like, name=request.name, output=request.output)
    return require_encodings(scorer)


def _load_exported_program(request: LoadRequest) -> Scorer:
    from evenhand.models.blackbox.torch_module import wrap_module
    from evenhand.models.readers.pt2_archive import read_program

    program = read_program(request.path, trust=request.trust)
    scorer = wrap_module(program, request.schema, data=request.like, name=request.name, output=request.output)
    return require_encodings(scorer)


def _load_torch_object(request: LoadRequest) -> Scorer:
    _need_trust(
        request.trust,
        request.name,
        "a TorchScript program" if _is_torchscript(request.path) else "a PyTorch object",
        "torch.export.save(torch.export.export(model, example), 'model.pt2')",
    )
    try:
        import torch
    except ImportError:
        raise MissingExtraError("torch", extra="torch", purpose="to run a PyTorch model") from None
    if _is_torchscript(request.path):
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", category=DeprecationWarning)  # of TorchScript itself: the file exists
            return _load_contained(torch.jit.load(request.path, map_location="cpu"), request)
    loaded = torch.load(request.path, map_location="cpu", weights_only=False)
    if isinstance(loaded, dict):
        raise ModelError(
            "the file holds weights alone (a state_dict), and no model to put them in",
            location=request.name,
            hint="save the whole module, or export it to .pt2 or .onnx",
        )
    return _load_contained(loaded, request)


def _load_tree_json(request: LoadRequest) -> Scorer:
    from evenhand.models.readers.catboost_file import is_catboost

    if is_catboost(request.path.read_bytes()):
        return _load_catboost(request)
    return _reader("readers.xgboost_file:read_xgboost")(request)


def _load_catboost(request: LoadRequest) -> Scorer:
    """Read a CatBoost file; with trust, CatBoost itself answers where more than trees computes."""
    from evenhand.models.readers.catboost_file import read_catboost

    refuse_stated(request.output, request.name)
    try:
        return require_encodings(read_catboost(request.path, request.schema))
    except NotAdditiveError:
        # CatBoost's own loader crashes on some damaged files: what it does with a hostile one is not known.
        if not request.trust:
            raise
    try:
        import catboost
    except ImportError:
        raise MissingExtraError("catboost", extra="catboost", purpose="to ask a CatBoost model with CTR") from None
    model = catboost.CatBoostClassifier()
    model.load_model(str(request.path), format="json" if request.path.suffix.lower() == ".json" else "cbm")
    return _load_contained(model, request)


def _is_torchscript(path: Path) -> bool:
    """Return whether a file is what ``torch.jit.save`` writes: an archive with code and its constants."""
    try:
        with zipfile.ZipFile(path) as archive:
            return any(name.endswith("/constants.pkl") for name in archive.namelist())
    # zipfile raises NotImplementedError for archives of a kind that it does not know.
    except (OSError, zipfile.BadZipFile, ValueError, NotImplementedError):
        return False


def load_stored_object(path: Path, *, trust: bool, name: str | None = None) -> Any:
    """Return the Python object in a ``.skops``, ``.joblib`` or pickle file.

    Raises:
        TrustError: loading it could run code, and it is not trusted.
        ModelError: there is no such file, or it is damaged.
        MissingExtraError: skops is needed and not installed.
    """
    name = name or path.name
    if not path.is_file():
        raise ModelError("there is no such file", location=str(path), hint="check the path")
    with _refuse_damage(path):
        return OBJECT_LOADERS[path.suffix.lower()](path, trust, name)


def _load_skops(path: Path, trust: bool, name: str) -> Any:
    try:
        import skops.io
    except ImportError:
        raise MissingExtraError("skops", extra="skops", purpose="to read a .skops file") from None
    content = path.read_bytes()  # once, so that what is loaded is what was looked at
    untrusted = skops.io.get_untrusted_types(data=content)
    if untrusted and not trust:
        raise TrustError(
            f"the file needs types that can run code when they are loaded: {', '.join(untrusted)}",
            location=name,
            hint="if you know where it comes from: `trust=True`",
        )
    return skops.io.loads(content, trusted=untrusted)


def _load_pickle(path: Path, trust: bool, name: str) -> Any:
    """Load what pickle or joblib wrote: joblib reads both, and people call the files of either by either ending."""
    _need_trust(trust, name, "a pickle", "skops.io.dump(model, 'model.skops')")
    import joblib

    return joblib.load(path)


OBJECT_LOADERS: dict[str, Callable[[Path, bool, str], Any]] = {
    ".skops": _load_skops,
    ".pkl": _load_pickle,
    ".pickle": _load_pickle,
    ".joblib": _load_pickle,
}
"""How Python objects are read from files, by suffix."""


def _load_stored(request: LoadRequest) -> Scorer:
    return _load_contained(load_stored_object(request.path, trust=request.trust, name=request.name), request)


def _load_contained(source: Any, request: LoadRequest) -> Scorer:
    return _load_object(
        source,
        request.schema,
        like=request.like,
        name=request.name,
        ledger=request.ledger,
        untyped=request.untyped,
        output=request.output,
    )


def _need_trust(trust: bool, name: str, what: str, instead: str) -> None:
    if not trust:
        raise TrustError(
            f"loading {what} runs whatever code is in it",
            location=name,
            hint=f"if you know where it comes from: `trust=True`; safer: {instead}",
        )


def _reader(place: str) -> Callable[[LoadRequest], Scorer]:
    """Return a loader by ``module:function`` of a reader that takes a path and a schema; it is imported when used."""

    def read(request: LoadRequest) -> Scorer:
        refuse_stated(request.output, request.name)
        scorer: Scorer = _import_reader(place)(request.path, request.schema)
        return require_encodings(scorer)

    return read


def _import_reader(place: str) -> Callable[[Path, Schema], Any]:
    module, _, function = place.partition(":")
    reader: Callable[[Path, Schema], Any] = getattr(import_module(f"{__package__}.{module}"), function)
    return reader


def _load_keras(request: LoadRequest) -> Scorer:
    from evenhand.models.readers.keras_file import read_keras

    network = read_keras(request.path, request.schema, data=request.like, output=request.output)
    return require_encodings(network)


def _load_screening(request: LoadRequest) -> Scorer:
    from evenhand.models.language.scorer import open_screening_file

    refuse_stated(request.output, request.name)
    return open_screening_file(request.path, request.schema, name=request.name, ledger=request.ledger)


LOADERS: dict[str, Callable[[LoadRequest], Scorer]] = {
    ".npz": _reader("readers.npz:read_npz"),
    ".h5": _load_keras,
    ".keras": _load_keras,
    ".onnx": _load_onnx,
    ".pt2": _load_exported_program,
    ".pt": _load_torch_object,
    ".pth": _load_torch_object,
    ".skops": _load_stored,
    ".pkl": _load_stored,
    ".pickle": _load_stored,
    ".joblib": _load_stored,
    ".cbm": _load_catboost,
    ".json": _load_tree_json,
    ".ubj": _reader("readers.xgboost_file:read_xgboost"),
    ".txt": _reader("readers.lightgbm_file:read_lightgbm"),
    ".yaml": _load_screening,
    ".yml": _load_screening,
}
"""How each kind of file is read, by its suffix."""
