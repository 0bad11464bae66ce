"""Load models: objects, files, URLs and ``module:function``."""

from __future__ import annotations

import dataclasses
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar, Unpack

from evenhand.core.http import redact_url
from evenhand.core.text import list_some, summarize_error
from evenhand.errors import EvenhandError, MissingExtraError, ModelError, NotAdditiveError, TrustError
from evenhand.models.additive.network import AdditiveNetwork
from evenhand.models.blackbox.base import LoadOptions, LoadRequest, add_caution
from evenhand.models.blackbox.estimator import wrap_estimator
from evenhand.models.outputs import check_output, describe_guess, reference_people
from evenhand.models.replies import QuestionLedger, match_labels
from evenhand.models.scorer import Regressor, Scorer, favourable_score
from evenhand.schema.attribute import Attribute
from evenhand.schema.schema import Schema, attribute_to_yaml

ModelT = TypeVar("ModelT", bound=Any)


def load_model(source: Any, schema: Schema, **options: Unpack[LoadOptions]) -> Scorer:
    """Load a model that predicts labels.

    Args:
        source: A model object (scikit-learn estimator or Pipeline, PyTorch module, XGBoost, LightGBM or CatBoost model,
            ONNX model, any batch function, a ``Scorer``); a file (``.npz``, ``.h5``, ``.keras``, ``.onnx``,
            ``.pt``, ``.pth``, ``.skops``, ``.pkl``, ``.joblib``, ``.cbm``, ``.json``, ``.ubj``, ``.txt``, a
            language model's ``.yaml``), an ``http(s)://`` URL, or ``module:function``.
        schema: Schema of the individuals.
        options: Data, trust, name, ledger and meaning of the outputs (see ``LoadRequest``).

    Raises:
        ModelError: The model does not exist, is damaged, or does not fit the schema; it takes numbers for categories,
            and the schema does not state the codes (``encoding``); or the meaning of its outputs is ambiguous.
        TrustError: Loading could run code, and ``trust`` is not set.
        MissingExtraError: A required library is not installed.
        FetchError: The server does not respond.
        BudgetError: The budget is too small for the test queries.
        SchemaError: The target is a number (see ``load_regressor``).
    """
    schema.target.require_labels("this analysis")
    scorer: Scorer = open_model(source, LoadRequest(schema, **options))
    return scorer


def open_model(source: Any, request: LoadRequest) -> Any:
    """Load a ``Scorer``, or a ``Regressor`` for a numeric target.

    Raises:
        EvenhandError: As for ``load_model`` and ``load_regressor``.
    """
    if request.output is not None:
        check_output(request.output)
    if request.ledger is None:  # as callers without types may pass it
        request = dataclasses.replace(request, ledger=QuestionLedger())
    loaded = isinstance(source, Scorer)  # its labels were confirmed when it was loaded
    if isinstance(source, str) and is_path(source):
        source = Path(source)
    elif isinstance(source, str) and not is_url(source):
        if not OBJECT_NAME.fullmatch(source):
            hint = f"give a file ({', '.join(LOADERS)}), an http(s):// URL or module:function"
            raise ModelError(f"this is not a model: {source!r}", hint=hint)
        from evenhand.models.importing import import_object

        request = dataclasses.replace(request, name=request.name or source)
        source = import_object(source)
    if isinstance(source, Path):
        model = _load_file(source, request)
    elif isinstance(source, str):
        from evenhand.models.blackbox.http_endpoint import connect_model

        if request.schema.target.is_number:
            hint = "wrap it as module:function"
            raise ModelError("an endpoint is not a regressor", location=redact_url(source), hint=hint)
        model = connect_model(source, request)
    else:
        model = _wrap_object(source, request)
    if request.confirm and not loaded and getattr(model, "guessed", False):
        return _check_guess(model, request.like)
    return model


def _check_guess(scorer: Scorer, like: Any) -> Scorer:
    """Check the mapping of a model's numbers to labels against the true labels of the data."""
    people = reference_people(scorer.schema, like, domain_rows=0)
    labelled = people.truth >= 0
    caution = describe_guess(
        scorer.classes[scorer.favourable],
        favourable_score(scorer, people.individuals[labelled]),
        people.truth[labelled],
        number=scorer.favourable,
        ordered=scorer.classes == scorer.schema.target.values,
        location=scorer.name,
    )
    return dataclasses.replace(scorer, caution=" ".join(filter(None, [getattr(scorer, "caution", ""), caution])))  # type: ignore[type-var]  # scorers with guessed labels are dataclasses


def load_regressor(source: Any, schema: Schema, **options: Unpack[LoadOptions]) -> Regressor:
    """Load a model that predicts a number.

    Args:
        source: A fitted regressor (scikit-learn estimator or Pipeline, ``XGBRegressor``, ``LGBMRegressor``, any object
            with ``predict``), a function that maps a frame of n people to n numbers, a ``Regressor``; or a file
            (``.skops``, ``.pkl``, ``.joblib``, ``.npz``, XGBoost's ``.json`` and ``.ubj``, LightGBM's ``.txt``), or
            ``module:function``.
        schema: Schema of the individuals. Its target is a number.
        options: As for ``load_model``, without ``output``.

    Raises:
        ModelError: The model does not exist, does not fit the schema or predicts labels; or numbers cannot be read from
            its file type.
        TrustError: Loading could run code, and ``trust`` is not set.
        MissingExtraError: A required library is not installed.
        BudgetError: The budget is too small for the test queries.
    """
    if not schema.target.is_number:
        raise ModelError(
            f"the target {schema.target.name!r} has labels, and a regressor predicts numbers",
            hint="load it with `load_model`, or set `kind=number`",
        )
    request = LoadRequest(schema, **options)
    request.refuse_output("model")
    regressor: Regressor = open_model(source, request)
    return regressor


FAIRLEARN_CLASSIFIERS = frozenset({"ExponentiatedGradient", "GridSearch", "ThresholdOptimizer"})
"""Classifiers of fairlearn that need an adapter."""

OBJECT_NAME = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")
"""Name of an object of a module: ``module:function``."""


def is_url(source: str) -> bool:
    """Check whether a model is given as a URL."""
    return re.match(r"https?://", source, re.IGNORECASE) is not None


def is_path(source: str) -> bool:
    """Check whether a model is given as a file."""
    if "://" in source:
        return False
    return Path(source).suffix.lower() in LOADERS or Path(source).exists() or ":" not in source


def _load_file(path: Path, request: LoadRequest) -> Any:
    loader, target = LOADERS.get(path.suffix.lower()), request.schema.target
    if target.is_number and loader is not None and loader not in NUMBER_LOADERS:
        raise ModelError(
            f"the target {target.name!r} is a number, and regressors cannot be read from {path.suffix} files",
            location=str(path),
            hint=f"give it as {', '.join(suffix for suffix in LOADERS if LOADERS[suffix] in NUMBER_LOADERS)}, "
            "or wrap it as module:function",
        )
    if not path.exists():
        kinds = "" if loader else f"; known kinds are {', '.join(LOADERS)}, http(s):// URLs and module:function"
        raise ModelError("there is no such file", location=str(path), hint=f"check the path{kinds}")
    if path.is_dir():
        raise ModelError(
            "this is a folder, not a model file",
            location=str(path),
            hint="give the file inside the folder, such as `model.pkl` of a model that MLflow logged. A Hugging Face "
            "text classifier needs texts: `text_column=NAME`",
        )
    if loader is None:
        message = f"a file that ends in {path.suffix!r} is not a known kind of model"
        hint = f"known kinds are {', '.join(LOADERS)}; anything else can be wrapped as module:function"
        raise ModelError(message if path.suffix else "the file has no suffix", location=str(path), hint=hint)
    with _refuse_damage(path):
        scorer = loader(path, dataclasses.replace(request, name=request.name or path.name))
    return _with_fields(scorer if loader is _load_stored else require_encodings(scorer), name=request.name)


@contextmanager
def _refuse_damage(path: Path) -> Iterator[None]:
    """Convert any exception raised while a file is read into one clear error."""
    try:
        yield
    except EvenhandError:
        raise
    except Exception as error:
        raise ModelError(
            f"the file cannot be read as {path.suffix}: {summarize_error(error)}",
            location=str(path),
            hint="it may be truncated, damaged or of another type. Save it again",
        ) from error


def _wrap_object(source: Any, request: LoadRequest) -> Any:
    schema, kind = request.schema, type(source).__name__
    is_number = schema.target.is_number
    if isinstance(source, Regressor if is_number else Scorer):
        return _with_fields(_adopt_schema(source, schema), name=request.name)
    family = type(source).__module__.partition(".")[0]
    if family == "catboost" and kind == "CatBoost" and source.is_fitted():
        # Its ``predict`` returns raw scores, although it has classes.
        catboost = sys.modules["catboost"]
        source = catboost.to_classifier(source) if len(source.classes_) else catboost.to_regressor(source)
    if family in ("xgboost", "lightgbm") and kind == "Booster":
        from evenhand.models.readers.boosters import read_booster

        request.refuse_output(kind)
        return require_encodings(_with_fields(read_booster(source, schema), name=request.name))
    if not is_number and family == "onnx" and hasattr(source, "SerializeToString"):
        from evenhand.models.blackbox.onnx_model import open_onnx

        return require_encodings(open_onnx(source.SerializeToString(), request))
    torch = sys.modules.get("torch")  # a PyTorch model can exist only if PyTorch has been imported
    if not is_number and torch and isinstance(source, torch.nn.Module):
        from evenhand.models.blackbox.torch_module import wrap_module

        return require_encodings(wrap_module(source, request))
    if not is_number and family == "fairlearn" and kind in FAIRLEARN_CLASSIFIERS:
        from evenhand.models.blackbox.fairlearn_model import adapt_fairlearn

        request.refuse_output(kind)
        request = dataclasses.replace(request, name=request.name or kind)
        adapted = adapt_fairlearn(source, schema, name=request.name)
        return require_encodings(add_caution(wrap_estimator(adapted, request), adapted.caution))
    predicts = hasattr(source, "predict") and not isinstance(source, type)
    fitted = predicts and (hasattr(source, "classes_") or hasattr(source, "get_params"))
    if fitted or (is_number and (predicts or callable(source))):
        request.refuse_output(kind)
        return require_encodings(wrap_estimator(source, request))
    if predicts:
        request, source = dataclasses.replace(request, name=request.name or kind), source.predict
    if callable(source):
        from evenhand.models.blackbox.function import wrap_function

        return wrap_function(source, request)
    raise ModelError(
        f"a {kind} is not a {'regressor' if is_number else 'model'}",
        hint="give an estimator with predict, a PyTorch module, a function, a file, a URL or module:function",
    )


def _with_fields(scorer: Any, **changes: Any) -> Any:
    """Change the fields that are not None. A model of another library is returned unchanged."""
    changes = {name: value for name, value in changes.items() if value is not None}
    return dataclasses.replace(scorer, **changes) if hasattr(scorer, "__dataclass_fields__") and changes else scorer


def _adopt_schema(scorer: Any, schema: Schema) -> Any:
    """Give a loaded model a schema's protected attributes and favourable label, if there are labels."""
    if scorer.schema == schema:
        return scorer
    for own, other in zip(scorer.schema.attributes, schema.attributes, strict=False):
        same = (own.name, own.kind, own.values, own.edges) == (other.name, other.kind, other.values, other.edges)
        if not same or (own.encoding or "code") != (other.encoding or "code"):
            raise ModelError(
                f"the model was loaded with a schema in which attribute {own.name!r} differs from {other.name!r} here",
                location=scorer.name,
                hint="load the model with the schema it is audited with",
            )
    own_count, count = len(scorer.schema.attributes), len(schema.attributes)
    if own_count != count:
        message = f"the model was loaded for {own_count} attributes, and the schema has {count}"
        raise ModelError(message, location=scorer.name)
    changes: dict[str, Any] = {"schema": schema}
    if not schema.target.is_number:
        changes["classes"], changes["favourable"], _ = match_labels(schema, scorer.classes, location=scorer.name)
    return _with_fields(scorer, **changes)


def require_encodings(model: ModelT) -> ModelT:
    """Check that the schema states the code of each category that a model takes as a number.

    Codes in a different order than in training would silently swap groups.

    Raises:
        ModelError: An attribute lacks its encoding. The message contains the lines to add to the schema.
    """
    if isinstance(model, AdditiveNetwork) or getattr(model, "form", "") == "numbers":
        attributes: Sequence[Attribute] = model.schema.attributes
    else:
        attributes = getattr(model, "encoded_attributes", ())
    guessed = [attribute for attribute in attributes if attribute.lacks_encoding]
    if not guessed:
        return model
    codes = (
        f"\n    {attribute.name}: {list_some([f'{code} {value}' for code, value in enumerate(attribute.values or ())])}"
        for attribute in guessed
    )
    lines = [attribute_to_yaml(attribute.model_copy(update={"encoding": "code"})) for attribute in guessed]
    raise ModelError(
        f"the model takes numbers for {', '.join(attribute.name for attribute in guessed)}, and the schema does not "
        f"state its codes\n  in the order of the schema{''.join(codes)}",
        location=model.name,
        hint="look up how the model was trained, and state it in the schema (`evenhand schema` writes one; in "
        "Python schema.with_encodings); if this encoding is correct, add these lines:\n" + "\n".join(lines),
    )


# Python object files.


def load_stored_object(path: Path, *, trust: bool, name: str | None = None) -> Any:
    """Load the Python object in a ``.skops``, ``.joblib`` or pickle file.

    Raises:
        TrustError: Loading could run code, and ``trust`` is not set.
        ModelError: The file does not exist, or it is damaged.
        MissingExtraError: skops is needed and not installed.
    """
    if not path.is_file():
        raise ModelError("there is no such file", location=str(path), hint="check the path")
    with _refuse_damage(path):
        return OBJECT_LOADERS[path.suffix.lower()](path, trust, name or path.name)


def _load_skops(path: Path, trust: bool, name: str) -> Any:
    try:
        import skops.io
    except ImportError:
        raise MissingExtraError("skops", extra="skops", purpose="to read a .skops file") from None
    content = path.read_bytes()  # read once, so that the loaded content equals the checked content
    untrusted = skops.io.get_untrusted_types(data=content)
    if untrusted and not trust:
        raise TrustError(
            f"the file contains types that can run code when loaded: {', '.join(untrusted)}",
            location=name,
            hint="if you trust its source: `trust=True`",
        )
    return skops.io.loads(content, trusted=untrusted)


def _load_pickle(path: Path, trust: bool, name: str) -> Any:
    """Load a pickle or joblib file. joblib reads both, whatever the suffix."""
    _require_trust(trust, name, "a pickle", "skops.io.dump(model, 'model.skops')")
    import joblib

    return joblib.load(path)


OBJECT_LOADERS: dict[str, Callable[[Path, bool, str], Any]] = {
    ".skops": _load_skops,
    ".pkl": _load_pickle,
    ".pickle": _load_pickle,
    ".joblib": _load_pickle,
}
"""Loaders of Python objects, by suffix."""


def _require_trust(trust: bool, name: str, kind: str, alternative: str) -> None:
    if not trust:
        raise TrustError(
            f"loading {kind} runs any code in it",
            location=name,
            hint=f"if you trust its source: `trust=True`; safer: {alternative}",
        )


# Model files.


def _load_stored(path: Path, request: LoadRequest) -> Any:
    return _wrap_object(load_stored_object(path, trust=request.trust, name=request.name), request)


def _load_onnx(path: Path, request: LoadRequest) -> Any:
    from evenhand.models.blackbox.onnx_model import open_onnx

    return open_onnx(path, request)


def _load_torch(path: Path, request: LoadRequest) -> Any:
    """Load a module or a TorchScript program."""
    _require_trust(
        request.trust, str(request.name), "a PyTorch file", "torch.onnx.export(model, example, 'model.onnx')"
    )
    try:
        import torch
    except ImportError:
        raise MissingExtraError("torch", extra="torch", purpose="to run a PyTorch model") from None
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*(TorchScript|torch.jit.load)")  # the file exists
        model = torch.load(path, map_location="cpu", weights_only=False)
    if isinstance(model, dict):
        raise ModelError(
            "the file contains only weights (a state_dict), not a model",
            location=request.name,
            hint="save the whole module, or export it to .onnx",
        )
    return _wrap_object(model, request)


def _load_catboost(path: Path, request: LoadRequest) -> Any:
    """Read a CatBoost file. If trusted, a model with label-based features is run by CatBoost itself."""
    from evenhand.models.readers.catboost_file import read_catboost

    request.refuse_output(path.name)
    try:
        return read_catboost(path, request.schema)
    except NotAdditiveError:
        # CatBoost's own loader crashes on some damaged files, so it may be unsafe on hostile ones.
        if not request.trust:
            raise
    try:
        import catboost
    except ImportError:
        raise MissingExtraError("catboost", extra="catboost", purpose="to ask a CatBoost model with CTR") from None
    model = catboost.CatBoostClassifier()
    model.load_model(str(path))
    return _wrap_object(model, request)


def _load_white_box(reader: str) -> Callable[[Path, LoadRequest], Any]:
    """Build a loader that calls a reader of the package ``readers``, named as ``module:function``."""

    def load(path: Path, request: LoadRequest) -> Any:
        request.refuse_output(path.name)
        module, _, function = reader.partition(":")
        return getattr(import_module(f"{__package__}.readers.{module}"), function)(path, request.schema)

    return load


def _load_keras(path: Path, request: LoadRequest) -> Any:
    from evenhand.models.readers.keras_file import read_keras

    return read_keras(path, request.schema, data=request.like, output=request.output)


def _load_screening(path: Path, request: LoadRequest) -> Any:
    request.refuse_output(path.name)
    return import_language_models().open_screening_file(path, request.schema, name=request.name, ledger=request.ledger)


def import_language_models() -> ModuleType:
    """Import the reader of language-model files by name, because it belongs to a package above this one."""
    return import_module("evenhand.llm.scorer")


_load_npz = _load_white_box("npz:read_npz")
_load_xgboost = _load_white_box("xgboost_file:read_xgboost")
_load_lightgbm = _load_white_box("lightgbm_file:read_lightgbm")

LOADERS: dict[str, Callable[[Path, LoadRequest], Any]] = {
    ".npz": _load_npz,
    ".h5": _load_keras,
    ".keras": _load_keras,
    ".onnx": _load_onnx,
    ".pt": _load_torch,
    ".pth": _load_torch,
    ".skops": _load_stored,
    ".pkl": _load_stored,
    ".pickle": _load_stored,
    ".joblib": _load_stored,
    ".cbm": _load_catboost,
    ".cb": _load_catboost,
    **dict.fromkeys((".json", ".ubj", ".xgb"), _load_xgboost),
    **dict.fromkeys((".txt", ".lgb"), _load_lightgbm),
    ".yaml": _load_screening,
    ".yml": _load_screening,
}
"""Loaders of model files, by suffix."""

NUMBER_LOADERS = (_load_npz, _load_xgboost, _load_lightgbm, _load_stored)
"""Loaders of files that may contain a regressor."""
