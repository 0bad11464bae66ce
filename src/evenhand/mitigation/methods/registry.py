"""What can be tried, by name; a method's module is loaded when it is used."""

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
"""Methods that learn from what was found; the others are told which attributes are protected, and no more."""

TRAINED = ("erm", "diffdp", "gap", "hsic", "laftr", "prejudice-remover", "logit-pairing", "certified")
"""Methods that train a network of their own."""

METHODS: dict[str, str] = {
    "retrain": "evenhand.mitigation.methods.retrain:retrain",
    **dict.fromkeys(TRAINED, "evenhand.mitigation.training.candidates:make_method"),
    "blind": "evenhand.mitigation.training.blind:blind",
    "exponentiated-gradient": "evenhand.mitigation.methods.fairlearn:exponentiated_gradient",
    "threshold-optimizer": "evenhand.mitigation.methods.fairlearn:threshold_optimizer",
}
"""Where each method is: ``module:function``. A method that trains a network is made for its name."""

BY_GROUP = ("diffdp", "gap", "hsic", "laftr", "prejudice-remover", "exponentiated-gradient", "threshold-optimizer")
"""Methods that make groups fare alike; what a person would be told under other protected values is not theirs."""

FAIRLEARN = ("exponentiated-gradient", "threshold-optimizer")

_NETWORK = (".npz",)

ENDINGS: Mapping[str, tuple[str, ...]] = dict.fromkeys(TRAINED, _NETWORK) | dict.fromkeys(
    FAIRLEARN, (".joblib", ".pkl")
)
"""Of files that a method's models are written to; those of the others are the learner's."""


def check_ending(name: str, path: Path, given: Scorer, learner: Learner | None) -> None:
    """Refuse a file that a method's model could not be written to.

    Raises:
        OptionError: its ending is none of the method's.
    """
    blind_network = name == "blind" and isinstance(given, AdditiveNetwork)
    endings = _NETWORK if blind_network else ENDINGS.get(name) or (learner.endings if learner is not None else ())
    if endings and path.suffix.lower() not in endings:
        raise OptionError(
            f"the model that {name} makes is not written to a file that ends in {path.suffix!r}",
            location=str(path),
            hint=f"let it end in {' or '.join(endings)}",
        )


def load_methods(names: Iterable[str]) -> dict[str, Method]:
    """Return the methods of these names, in their order.

    Raises:
        OptionError: there is no such method.
        MissingExtraError: a library that a method needs is not installed.
    """
    wanted = list(dict.fromkeys(names))
    unknown = [name for name in wanted if name not in METHODS]
    if unknown:
        raise OptionError(
            f"there is no method {unknown[0]!r}", location="`methods=`", hint=f"one of: {', '.join(METHODS)}"
        )
    return {name: _load_method(name) for name in wanted}


def _load_method(name: str) -> Method:
    for those, module, purpose in ((TRAINED, "torch", "to train fairly"), (FAIRLEARN, "fairlearn", "for its methods")):
        if name in those and importlib.util.find_spec(module) is None:
            raise MissingExtraError(module, extra=module, purpose=f"{purpose} ({name})")
    module, _, function = METHODS[name].partition(":")
    found = getattr(importlib.import_module(module), function)
    method: Method = found(name) if name in TRAINED else found
    return method
