"""Training methods for networks: the loss of each method and its use in a mitigation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from evenhand.errors import OptionError
from evenhand.mitigation.training.losses.counterfactual import LogitPairing
from evenhand.mitigation.training.losses.group_penalties import (
    GroupPenalty,
    hsic_criterion,
    mean_gap,
    mutual_information,
)
from evenhand.mitigation.training.losses.laftr import LAFTR
from evenhand.mitigation.training.losses.loss import EmpiricalRisk, FairnessLoss


@dataclass(frozen=True)
class TrainingRecipe:
    """Training settings of a method.

    Attributes:
        words: Description.
        loss: Function that creates the loss of a training run.
        sees_protected: Whether the protected attributes are inputs of the network. In the published group methods they
            are not: such a network could reach a group's rate by treating its members differently.
        by_group: Whether the penalty compares groups.
        by_person: Whether the penalty compares the answers for one person under different protected assignments. The
            original network is trained further, if possible. Otherwise, the network is small.
        steps: Number of steps for training the original network further.
        rate: Initial learning rate of these steps. A group method with a rate trains the original network further, so
            that chance affects its accuracy less than that of a new network.
    """

    words: str
    loss: Callable[[], FairnessLoss]
    sees_protected: bool = False
    by_group: bool = True
    by_person: bool = False
    steps: int = 1000
    rate: float | None = None


_diffdp = partial(GroupPenalty, "DiffDP", mean_gap, 1.0, (0.1, 0.3, 0.5, 1.0, 2.0))

RECIPES = {
    "erm": TrainingRecipe("a network trained only for accuracy", EmpiricalRisk, sees_protected=True, by_group=False),
    "diffdp": TrainingRecipe("a network trained for equal mean scores (DiffDP)", _diffdp),
    "gap": TrainingRecipe("trained further for equal mean scores", _diffdp, sees_protected=True, steps=150, rate=0.002),
    "hsic": TrainingRecipe(
        "a network trained for scores independent of the group (HSIC)",
        partial(GroupPenalty, "HSIC", hsic_criterion, 100.0, (3.0, 10.0, 30.0, 100.0, 300.0)),
    ),
    "laftr": TrainingRecipe("a network trained on a representation that hides the group (LAFTR)", LAFTR),
    "prejudice-remover": TrainingRecipe(
        "a network trained for decisions independent of the group (Prejudice Remover)",
        partial(GroupPenalty, "Prejudice Remover", mutual_information, 10.0, (0.3, 1.0, 3.0, 10.0, 30.0)),
    ),
    "logit-pairing": TrainingRecipe(
        "a network trained for equal logits under every protected assignment",
        LogitPairing,
        sees_protected=True,
        by_group=False,
        by_person=True,
    ),
}
"""Training methods by name."""


def load_loss(method: str) -> FairnessLoss:
    """Create the loss of a method.

    Raises:
        OptionError: The method does not exist.
    """
    if method not in RECIPES:
        raise OptionError(f"unknown training method {method!r}", hint=f"use {', '.join(RECIPES)}")
    return RECIPES[method].loss()
