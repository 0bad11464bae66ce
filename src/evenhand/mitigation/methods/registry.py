"""Registry of mitigation methods. The module of a method is imported when it is used."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Iterable
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

TRAINED = ("erm", "diffdp", "gap", "hsic", "laftr", "prejudice-remover", "logit-pairing")
"""Methods that train a new network."""

METHODS: dict[str, str] = {
    "retrain": "evenhand.mitigation.methods.retrain:retrain",
    **dict.fromkeys(TRAINED, "evenhand.mitigation.training.candidates:make_method"),
    "blind": "evenhand.mitigation.training.blind:blind",
}
"""Function of each method, as ``module:function``. Methods that train networks share a function that creates the method
from its name."""

BY_GROUP = ("diffdp", "gap", "hsic", "laftr", "prejudice-remover")
"""Methods that reduce gaps between groups, and not counterfactual flips."""


def check_ending(name: str, path: Path, model: Scorer, learner: Learner | None) -> None:
    """Check that a method's model can be written to a file.

    Raises:
        OptionError: The extension is not supported.
    """
    is_network = name in TRAINED or (name == "blind" and isinstance(model, AdditiveNetwork))
    endings = (".npz",) if is_network else () if learner is None else learner.endings
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
    if name in TRAINED and importlib.util.find_spec("torch") is None:
        raise MissingExtraError("torch", extra="torch", purpose=f"to train networks ({name})")
    module, _, function = METHODS[name].partition(":")
    method = getattr(importlib.import_module(module), function)
    loaded: Method = method(name) if name in TRAINED else method
    return loaded
