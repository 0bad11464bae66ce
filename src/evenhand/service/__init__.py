"""Shields and the guard of generators as a service: one ASGI application, its store and its log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evenhand import doors

if TYPE_CHECKING:
    from evenhand.service.api.app import create_app
    from evenhand.service.api.context import ServiceContext, open_service
    from evenhand.service.auth.keys import ROLES, Caller, KeyStore, create_key
    from evenhand.service.generation.stored_enforcer import StoredEnforcer
    from evenhand.service.replay.replay import ServiceReplay, read_lines, replay_log
    from evenhand.service.replay.replay_store import StoreReplay, replay_stored_logs
    from evenhand.service.server import run_server
    from evenhand.service.settings import (
        LimitsConfig,
        ServedGuardConfig,
        ServedShieldConfig,
        ServiceConfig,
        demo_config,
    )
    from evenhand.service.state_machines import KEY_STREAM, GuardMachine, ShieldMachine
    from evenhand.service.store.database import (
        Database,
        read_configurations,
        read_entries_after,
        read_heads,
        read_log,
        read_state,
    )
    from evenhand.service.store.ledger import Ledger, OperationResult
    from evenhand.service.store.upkeep import RetentionJob, copy_store

__all__ = [
    "KEY_STREAM",
    "ROLES",
    "Caller",
    "Database",
    "GuardMachine",
    "KeyStore",
    "Ledger",
    "LimitsConfig",
    "OperationResult",
    "RetentionJob",
    "ServedGuardConfig",
    "ServedShieldConfig",
    "ServiceConfig",
    "ServiceContext",
    "ServiceReplay",
    "ShieldMachine",
    "StoreReplay",
    "StoredEnforcer",
    "copy_store",
    "create_app",
    "create_key",
    "demo_config",
    "open_service",
    "read_configurations",
    "read_entries_after",
    "read_heads",
    "read_lines",
    "read_log",
    "read_state",
    "replay_log",
    "replay_stored_logs",
    "run_server",
]

__getattr__, __dir__ = doors.open_when_used(__name__)
