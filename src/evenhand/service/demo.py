"""What the service serves when it is told nothing: a shield for loans, and a guard around the built-in studio."""

from __future__ import annotations

from typing import Any

from evenhand.service.settings import Settings

SHIELD: dict[str, Any] = {
    "property": "demographic_parity",
    "kappa": "0.1",
    "horizon": 100,
    "kind": "dynamic",
    "groups": {"women": {"rate": 0.4, "accept": 0.35}, "men": {"rate": 0.6, "accept": 0.6}},
}
"""Goes on for ever, and is never in need of a label."""

GUARD: dict[str, Any] = {
    "conditions": [{"name": "leader", "keywords": ["leader", "manager", "chief executive"]}],
    "specifications": [
        {"condition": "leader", "group": "age", "values": ["child", "adult", "elderly"], "repeated": [12, 4, 8]},
        {"condition": "leader", "group": "gender", "values": ["woman", "man"], "repeated": 5},
    ],
    "generator": {
        "kind": "studio",
        "bias": {"age": {"child": 0.05, "adult": 0.9, "elderly": 0.05}, "gender": {"woman": 0.1, "man": 0.9}},
        "obeys": 0.95,
        "unrecognised": 0.02,
    },
    "classifier": {"kind": "studio"},
}
"""A generator that left alone draws men who are adult, and needs no network."""


def demo() -> Settings:
    """Settings for a first look: a file beside it, no keys, nobody but this machine."""
    return Settings.read(
        {
            "service": {"database": "sqlite:///evenhand.db", "keys": False},
            "shields": [{"name": "loans", "plan": SHIELD}],
            "guards": [{"name": "studio", "config": GUARD, "log_prompts": True}],
        }
    )
