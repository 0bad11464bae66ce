"""Plans of shields and the configuration of a guard, small enough for tests."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from prometheus_client import Counter

from evenhand.service.auth.access import FailureThrottle
from evenhand.service.auth.keys import ApiKey
from evenhand.service.settings import ServiceConfig


class FakeKeys:
    """Keys of callers, each of which is the name of its holder."""

    async def caller(self, key: str) -> ApiKey:
        return ApiKey(key, key, frozenset({"decide"}))


def idle_context(*, settings: ServiceConfig | None = None, keys: Any = None) -> SimpleNamespace:
    """Build the context of a service as far as `RequestEnvelope` needs one."""
    return SimpleNamespace(
        ledger=SimpleNamespace(tracing=None),
        metrics=SimpleNamespace(requests=Counter("requests", "", ("method", "route", "status"), registry=None)),
        settings=settings or ServiceConfig(),
        keys=keys or FakeKeys(),
        failures=FailureThrottle(),
    )


PLAN: dict[str, Any] = {
    "property": "demographic_parity",
    "kappa": "0.2",
    "horizon": 40,
    "kind": "dynamic",
    "groups": {"women": {"rate": 0.4, "accept": 0.35}, "men": {"rate": 0.6, "accept": 0.6}},
}
FINITE: dict[str, Any] = {**PLAN, "kind": "finite", "horizon": 6}
LABELLED: dict[str, Any] = {
    "property": "equal_opportunity",
    "kappa": "0.2",
    "horizon": 20,
    "groups": {
        "women": {"rate": 0.4, "accept": 0.35, "label": 0.5},
        "men": {"rate": 0.6, "accept": 0.6, "label": 0.5},
    },
}
GUARD: dict[str, Any] = {
    "conditions": [{"name": "leader", "keywords": ["leader"]}],
    "specifications": [
        {"condition": "leader", "group": "age", "values": ["child", "adult", "elderly"], "repeated": [12, 4, 8]},
        {"condition": "leader", "group": "gender", "values": ["woman", "man"], "repeated": 5},
    ],
    "generator": {
        "kind": "studio",
        "bias": {"age": {"child": 0.05, "adult": 0.9, "elderly": 0.05}, "gender": {"woman": 0.1, "man": 0.9}},
        "seed": 1,
    },
    "classifier": {"kind": "studio"},
}
SMALL_GUARD: dict[str, Any] = {
    **GUARD,
    "specifications": [{"condition": "leader", "group": "gender", "values": ["woman", "man"], "repeated": 5}],
    "generator": {"kind": "studio"},
}
WATCH: dict[str, Any] = {
    "groups": {"by": ["sex"], "values": {"sex": ["female", "male"]}},
    "watch": [{"gap": "selection_rate", "tolerance": 0.02}],
}
