"""Machines built again from what the first entry of their log says, to do everything in it once more."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from evenhand.errors import DataError, EvenhandError, OptionError
from evenhand.genai.core import Enforcer
from evenhand.genai.specification import Configuration
from evenhand.service.machines import GuardMachine, Machine, ShieldMachine
from evenhand.service.machines.keys import KeyMachine
from evenhand.service.store.chain import canonical
from evenhand.shield import Plan, Shield, synthesize
from evenhand.shield.periodic import Periodic
from evenhand.shield.plan import PERIODIC
from evenhand.shield.policy import Policy


def rebuilt(kind: str, digest: str, configuration: Mapping[str, Any], policies: Sequence[Policy] = ()) -> Machine:
    """The machine of a log, at its beginning.

    Args:
        kind: ``shield``, ``guard`` or ``keys``.
        digest: that the log gives for what decides; of ``policies`` the one with it is taken.
        configuration: from the log's first entry.
        policies: those that somebody vouches for; a shield whose policy is not among them is synthesised again.

    Raises:
        OptionError: the policy is not in the log, and none of those given is the one.
        DataError: the configuration describes no machine.
    """
    try:
        if kind == "shield":
            return _shield(digest, configuration, policies)
        if kind == "guard":
            return _guard(configuration)
        if kind == "keys":
            return KeyMachine()
    except OptionError as error:
        if error.where == "--policy":
            raise
        raise DataError(f"the configuration in the log describes nothing: {error.what}") from None
    except (EvenhandError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise DataError(f"the configuration in the log describes nothing: {error}") from None
    raise DataError(f"the log is of a {kind!r}, and there are shields, guards and keys")


def _shield(digest: str, configuration: Mapping[str, Any], policies: Sequence[Policy]) -> ShieldMachine:
    advisory = configuration["advisory"]
    if not isinstance(advisory, bool):
        raise TypeError(f"advisory is {advisory!r}")
    for policy in policies:
        shield = Shield(policy, advisory=advisory)
        if shield.digest == digest:
            return ShieldMachine(shield, configuration)
    if configuration.get("plan") is not None:
        described = configuration["plan"]
        ordered = {**described, "groups": {name: described["groups"][name] for name in configuration["groups"]}}
        plan = Plan.read(ordered)
        periodic = plan.kind in PERIODIC and len(plan.inputs.groups) == 2
        return ShieldMachine(Shield(Periodic(plan) if periodic else synthesize(plan), advisory=advisory), configuration)
    raise OptionError(
        f"the policy with the digest {digest[:12]}... is needed, from the file {configuration.get('policy')!r}",
        where="--policy",
        mend="give that file" if not policies else "the files given have other policies",
    )


def _guard(configuration: Mapping[str, Any]) -> GuardMachine:
    read = Configuration.read(configuration)
    digest = hashlib.sha256(canonical(configuration).encode()).hexdigest()
    return GuardMachine(Enforcer(read, mode=read.guard.mode), configuration, digest)
