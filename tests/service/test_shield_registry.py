"""The registry of shields has one owner: changes from several threads do not overwrite each other."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest

from evenhand.service import Database, Ledger, ServedShieldConfig
from evenhand.service.shields import ServedShield, ShieldRegistry, build_shield

PLAN = {
    "property": "demographic_parity",
    "kappa": "0.2",
    "horizon": 20,
    "groups": {"women": {"rate": 0.4, "accept": 0.35}, "men": {"rate": 0.6, "accept": 0.6}},
}


@pytest.fixture
def shield() -> ServedShield:
    return build_shield(ServedShieldConfig(name="loans", plan=PLAN), Path())[0]


@pytest.fixture
def registry(tmp_path: Path, shield: ServedShield) -> ShieldRegistry:
    database = Database(f"sqlite:///{tmp_path / 'evenhand.db'}")
    ledger = Ledger(database, {})
    yield ShieldRegistry(ledger, {"loans": shield}, {"loans": replace(shield, version=2, when_down="pass")})
    ledger.close()
    database.close()


def test_a_pending_version_is_served_once_it_is_in_force(registry: ShieldRegistry) -> None:
    registry.activate("loans", 1)
    registry.activate("other", 2)
    assert registry.shields["loans"].version == 1
    before = registry.shields
    registry.activate("loans", 2)
    assert registry.shields["loans"].version == 2
    assert before["loans"].version == 1, "readers keep the mapping that they have"
    registry.update({"loans": replace(registry.shields["loans"], version=3)}, {})
    registry.activate("loans", 2)
    assert registry.shields["loans"].version == 3, "an older version does not come back"


def test_a_removed_shield_keeps_its_decider_and_loses_its_pending_version(registry: ShieldRegistry) -> None:
    decider = registry.deciders["loans"]
    registry.update({}, {}, ["loans"])
    registry.activate("loans", 2)
    assert not registry.shields
    assert registry.deciders["loans"] is decider


def test_changes_of_several_threads_are_all_kept(registry: ShieldRegistry, shield: ServedShield) -> None:
    serve, inside, go_on = registry._serve, threading.Event(), threading.Event()

    def slow_serve(shields: dict[str, ServedShield]) -> None:
        if "hiring" in shields and not go_on.is_set():
            inside.set()
            assert go_on.wait(60)
        serve(shields)

    registry._serve = slow_serve
    adding = threading.Thread(target=registry.update, args=({"hiring": replace(shield, name="hiring")}, {}))
    adding.start()
    assert inside.wait(60)
    # In the middle of one change, another thread makes one.
    activating = threading.Thread(target=registry.activate, args=("loans", 2))
    activating.start()
    activating.join(0.2)
    go_on.set()
    adding.join()
    activating.join()
    assert {name: one.version for name, one in registry.shields.items()} == {"loans": 2, "hiring": 1}
    assert registry.deciders.keys() == {"loans", "hiring"}
