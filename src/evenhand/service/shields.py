"""Shields, as the service runs them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evenhand.errors import DataError, EvenhandError, OptionError
from evenhand.service.machines import ShieldMachine
from evenhand.service.settings import Down, ShieldEntry
from evenhand.shield import Plan, Shield, synthesize
from evenhand.shield.config import read_with_ranges
from evenhand.shield.file import load
from evenhand.shield.periodic import Periodic
from evenhand.shield.plan import PERIODIC
from evenhand.shield.policy import Policy


@dataclass(frozen=True)
class ServedShield:
    """What never changes about a shield.

    Attributes:
        name: its stream.
        plan: what it keeps.
        digest: of its policy.
        advisory: whether every recommendation stands.
        when_down: what happens if the store cannot be used.
    """

    name: str
    plan: Plan
    digest: str
    advisory: bool = False
    when_down: Down = "refuse"

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        kept = self.plan.property
        return {
            "name": self.name,
            "kind": self.plan.kind,
            "property": kept.words(),
            "kappa": str(kept.kappa),
            "horizon": self.plan.horizon,
            "groups": list(self.plan.inputs.groups),
            "largest_cost": self.plan.inputs.costs[-1],
            "cost_needed": len(self.plan.inputs.costs) > 1,
            "labels": kept.labelled,
            "advisory": self.advisory,
            "when_down": self.when_down,
            "digest": self.digest,
        }


def shield_of(entry: ShieldEntry, folder: Path) -> tuple[ServedShield, ShieldMachine]:
    """A shield of the settings, and its stream at the beginning.

    Args:
        entry: of the settings.
        folder: that a relative policy starts from.

    Raises:
        EvenhandError: the policy cannot be loaded or made.
    """
    try:
        policy = _from_plan(entry.plan) if entry.policy is None else load(folder / entry.policy)
        # A shield that goes on makes its first period itself.
        periodic = policy.plan.kind in PERIODIC and len(policy.plan.inputs.groups) == 2
        shield = Shield(Periodic(policy.plan) if periodic else policy, advisory=entry.advisory)
    except DataError:
        # It names the file already.
        raise
    except EvenhandError as error:
        place = f"the plan of the shield {entry.name!r}"
        error.where = f"{place}, {error.where}" if error.where else place
        raise
    about = ServedShield(entry.name, policy.plan, shield.digest, entry.advisory, entry.when_down)
    return about, ShieldMachine(shield, entry.model_dump(mode="json"))


def _from_plan(described: dict[str, Any] | None) -> Policy | Periodic:
    plan, ranges = read_with_ranges(described or {})
    if ranges is not None:
        raise OptionError(
            "shares are known within ranges only",
            where="groups",
            mend="write numbers; or make a policy file with `evenhand shield synthesize`, and name it: policy = ...",
        )
    if plan.kind in PERIODIC and len(plan.inputs.groups) == 2:
        return Periodic(plan)
    return synthesize(plan)
