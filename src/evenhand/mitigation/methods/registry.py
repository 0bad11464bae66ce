"""Registry of mitigation methods."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeAlias

from evenhand.errors import MissingExtraError, OptionError
from evenhand.mitigation.candidate import Candidate, MitigationTask
from evenhand.mitigation.learners.learner import Learner, file_ending
from evenhand.mitigation.methods.retrain import retrain
from evenhand.mitigation.training.blind import blind
from evenhand.mitigation.training.candidates import make_method
from evenhand.mitigation.training.recipes import RECIPES
from evenhand.models.additive.network import AdditiveNetwork
from evenhand.models.scorer import Scorer

Method: TypeAlias = Callable[[MitigationTask], Candidate]

FROM_FINDINGS = ("retrain",)
"""Methods that learn from findings. All others need only the protected attributes."""

METHODS: dict[str, Method] = {"retrain": retrain, **{name: make_method(name) for name in RECIPES}, "blind": blind}

BY_GROUP = tuple(name for name, recipe in RECIPES.items() if recipe.by_group)
"""Methods that reduce gaps between groups rather than counterfactual flips."""


def check_ending(name: str, path: Path, model: Scorer, learner: Learner | None) -> None:
    """Check that a method's model can be written to a file.

    Raises:
        OptionError: The extension is not supported.
    """
    is_network = name in RECIPES or (name == "blind" and isinstance(model, AdditiveNetwork))
    endings = (".npz",) if is_network else () if learner is None else learner.endings
    if endings:
        file_ending(path, endings)


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
    trained = [name for name in names if name in RECIPES]
    if trained and importlib.util.find_spec("torch") is None:
        raise MissingExtraError("torch", extra="torch", purpose=f"to train networks ({trained[0]})")
    return {name: METHODS[name] for name in names}
