"""Registry of mitigation methods. The module of a method is imported when it is used."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TypeAlias

from evenhand.errors import MissingExtraError, OptionError
from evenhand.mitigation.candidate import Candidate, MitigationTask
from evenhand.mitigation.learners.learner import Learner
from evenhand.models.additive.network import AdditiveNetwork
from evenhand.models.scorer import Scorer

Method: TypeAlias = Callable[[MitigationTask], Candidate]

FROM_FINDINGS = ("retrain",)
"""Methods that learn from findings. All others need only the protected attributes."""

TRAINED = ("erm", "diffdp", "gap", "hsic", "laftr", "prejudice-remover", "logit-pairing", "certified")
"""Methods that train a new network."""

FAIRLEARN = ("exponentiated-gradient",)

METHODS: dict[str, str] = {
    "retrain": "evenhand.mitigation.methods.retrain:retrain",
    **dict.fromkeys(TRAINED, "evenhand.mitigation.training.candidates:make_method"),
    "blind": "evenhand.mitigation.training.blind:blind",
    "exponentiated-gradient": "evenhand.mitigation.methods.fairlearn:exponentiated_gradient",
}
"""Function of each method, as ``module:function``. Networks share a function that makes the method for a name."""

BY_GROUP = ("diffdp", "gap", "hsic", "laftr", "prejudice-remover", *FAIRLEARN)
"""Methods that reduce gaps between groups, and not counterfactual flips."""

_NETWORK = (".npz",)

ENDINGS: Mapping[str, tuple[str, ...]] = dict.fromkeys(TRAINED, _NETWORK) | dict.fromkeys(
    FAIRLEARN, (".joblib", ".pkl")
)
"""File extensions of a method's models. All others have those of the learner."""


def check_ending(name: str, path: Path, model: Scorer, learner: Learner | None) -> None:
    """Check that a method's model can be written to a file.

    Raises:
        OptionError: The extension is not supported.
    """
    blind_network = name == "blind" and isinstance(model, AdditiveNetwork)
    endings = _NETWORK if blind_network else ENDINGS.get(name) or (learner.endings if learner is not None else ())
    if endings and path.suffix.lower() not in endings:
        raise OptionError(
            f"a model of {name} cannot be written to a file that ends in {path.suffix!r}",
            location=str(path),
            hint=f"use a file name that ends in {' or '.join(endings)}",
        )


def load_methods(names: Iterable[str]) -> dict[str, Method]:
    """Load methods by name, in the same order.

    Raises:
        OptionError: A method does not exist.
        MissingExtraError: A library is not installed.
    """
    names = list(dict.fromkeys(names))
    unknown = [name for name in names if name not in METHODS]
    if unknown:
        raise OptionError(f"unknown method {unknown[0]!r}", location="`methods=`", hint=f"use {', '.join(METHODS)}")
    return {name: _load_method(name) for name in names}


def _load_method(name: str) -> Method:
    for methods, library, purpose in (
        (TRAINED, "torch", "to train networks"),
        (FAIRLEARN, "fairlearn", "for its methods"),
    ):
        if name in methods and importlib.util.find_spec(library) is None:
            raise MissingExtraError(library, extra=library, purpose=f"{purpose} ({name})")
    module, _, function = METHODS[name].partition(":")
    method = getattr(importlib.import_module(module), function)
    loaded: Method = method(name) if name in TRAINED else method
    return loaded
