"""Losses by the names of their methods; a method's module is loaded when it is used."""

from __future__ import annotations

from importlib import import_module

from evenhand.errors import OptionError
from evenhand.mitigate.training.losses.loss import Loss

LOSSES: dict[str, str] = {
    "erm": "erm:EmpiricalRisk",
    "diffdp": "diffdp:DiffDP",
    "gap": "diffdp:DiffDP",
    "hsic": "hsic:HSIC",
    "laftr": "laftr:LAFTR",
    "prejudice-remover": "prejudice_remover:PrejudiceRemover",
    "logit-pairing": "logit_pairing:LogitPairing",
    "certified": "certified:Certified",
}
"""Where the loss of each method stands, below this package."""


def loss(method: str) -> Loss:
    """A fresh loss.

    Raises:
        OptionError: there is no such method.
    """
    if method not in LOSSES:
        raise OptionError(f"there is no method {method!r} of training", mend=f"one of: {', '.join(LOSSES)}")
    module, _, name = LOSSES[method].partition(":")
    made: Loss = getattr(import_module(f"{__package__}.{module}"), name)()
    return made
