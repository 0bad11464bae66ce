"""Shields of the service."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evenhand.errors import DataError, EvenhandError
from evenhand.service.settings import ServedShieldConfig
from evenhand.service.state_machines import ShieldMachine
from evenhand.shields.policy.file import load_policy
from evenhand.shields.policy.periodic import PeriodicShield
from evenhand.shields.policy.policy import ShieldPolicy
from evenhand.shields.spec.configuration import read_plan
from evenhand.shields.spec.plan import ShieldPlan
from evenhand.shields.synthesis.plans import synthesize


@dataclass(frozen=True)
class ServedShield:
    """Constant properties of a shield.

    Attributes:
        entry: Entry of the settings.
        plan: Plan of the shield.
        digest: Digest of its policy.
    """

    entry: ServedShieldConfig
    plan: ShieldPlan
    digest: str

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON-serialisable properties."""
        plan = self.plan
        return {
            "name": self.entry.name,
            "kind": plan.kind,
            "property": plan.property.words(),
            "kappa": str(plan.property.kappa),
            "horizon": plan.horizon,
            "groups": list(plan.inputs.groups),
            "largest_cost": plan.inputs.costs[-1],
            "cost_needed": len(plan.inputs.costs) > 1,
            "labels": plan.property.labelled,
            "advisory": self.entry.advisory,
            "digest": self.digest,
        }


def policy_of_plan(plan: ShieldPlan) -> ShieldPolicy | PeriodicShield:
    """Return the policy of a plan. A periodic shield synthesises its first period itself."""
    return PeriodicShield(plan) if plan.makes_periods else synthesize(plan)


def build_shield(entry: ServedShieldConfig, folder: Path) -> tuple[ServedShield, ShieldMachine]:
    """Build a shield, and its machine in the initial state.

    Args:
        entry: Entry of the settings.
        folder: Folder of a relative path of the policy.

    Raises:
        EvenhandError: The policy cannot be loaded or synthesised.
    """
    policy: ShieldPolicy | PeriodicShield
    try:
        if entry.policy is not None:
            policy = load_policy(folder / entry.policy)
        else:
            policy = policy_of_plan(read_plan(entry.plan or {}))
        if policy.plan.makes_periods:
            policy = policy_of_plan(policy.plan)
        machine = ShieldMachine(policy, entry.model_dump(mode="json"), advisory=entry.advisory)
    except DataError:
        # The error already names the file.
        raise
    except EvenhandError as error:
        place = f"the plan of the shield {entry.name!r}"
        error.location = f"{place}, {error.location}" if error.location else place
        raise
    return ServedShield(entry, policy.plan, machine.policy_digest), machine
