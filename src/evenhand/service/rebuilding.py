"""Rebuild machines from the configuration in the first entry of a log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from evenhand.core.canonical_json import hash_json
from evenhand.errors import DataError, EvenhandError, OptionError
from evenhand.genai.enforcement.enforcer import Enforcer
from evenhand.genai.spec.specification import GenerationConfig
from evenhand.monitoring.config import read_monitor_config
from evenhand.service.monitor_machine import MonitorMachine
from evenhand.service.shields import policy_of_plan
from evenhand.service.state_machines import GuardMachine, KeyMachine, ShieldMachine, StateMachine
from evenhand.shields.policy.policy import ShieldPolicy
from evenhand.shields.spec.configuration import read_plan


def rebuild_machine(
    kind: str, digest: str, configuration: Mapping[str, Any], policies: Sequence[ShieldPolicy] = ()
) -> StateMachine:
    """Build the machine of a log in its initial state.

    Args:
        kind: ``shield``, ``guard``, ``monitor`` or ``keys``.
        digest: Digest of the policy or configuration in the log. It selects one of ``policies``.
        configuration: Configuration from the first entry.
        policies: Trusted policies. Policies of other shields are synthesised again.

    Raises:
        OptionError: the policy is neither in the log nor in ``policies``.
        DataError: the configuration describes no machine.
    """
    try:
        if kind == "shield":
            return _rebuild_shield(digest, configuration, policies)
        if kind == "guard":
            return _rebuild_guard(configuration)
        if kind == "monitor":
            return MonitorMachine(read_monitor_config(configuration))
        if kind == "keys":
            return KeyMachine()
    except OptionError as error:
        if error.location == "--policy":
            raise
        raise DataError(f"the configuration in the log is invalid: {error.message}") from None
    except (EvenhandError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise DataError(f"the configuration in the log is invalid: {error}") from None
    raise DataError(f"expected a log of a shield, guard, monitor or keys, got {kind!r}")


def _rebuild_shield(digest: str, configuration: Mapping[str, Any], policies: Sequence[ShieldPolicy]) -> ShieldMachine:
    advisory = configuration["advisory"]
    if not isinstance(advisory, bool):
        raise TypeError(f"advisory is {advisory!r}")
    for policy in policies:
        machine = ShieldMachine(policy, configuration, advisory=advisory)
        if machine.digest == digest:
            return machine
    if configuration.get("plan") is not None:
        described = configuration["plan"]
        ordered = {**described, "groups": {name: described["groups"][name] for name in configuration["groups"]}}
        return ShieldMachine(policy_of_plan(read_plan(ordered)), configuration, advisory=advisory)
    raise OptionError(
        f"the log needs the policy with the digest {digest[:12]}..., from the file {configuration.get('policy')!r}",
        location="--policy",
        hint="pass the file" if not policies else "the passed files have other policies",
    )


def _rebuild_guard(configuration: Mapping[str, Any]) -> GuardMachine:
    read = GenerationConfig.read(configuration)
    digest = hash_json(configuration)
    return GuardMachine(Enforcer(read, mode=read.guard.mode), configuration, digest)
