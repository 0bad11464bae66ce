"""Plans of shields, configurations of guards and files of services, small enough for tests."""

import asyncio
import functools
import json
from types import SimpleNamespace

from prometheus_client import Counter

from evenhand.genai.enforcement.instructions import InstructionWriter
from evenhand.service.auth.access import FailureThrottle
from evenhand.service.auth.keys import ApiKey
from evenhand.service.settings import ServiceConfig


class FakeKeys:
    """Keys of callers, each of which is the name of its holder."""

    async def caller(self, key):
        return ApiKey(key, key, frozenset({"decide"}))


def idle_context(*, settings=None, keys=None):
    """Build the context of a service as far as `RequestEnvelope` needs one."""
    return SimpleNamespace(
        ledger=SimpleNamespace(tracing=None),
        metrics=SimpleNamespace(requests=Counter("requests", "", ("method", "route", "status"), registry=None)),
        settings=settings or ServiceConfig(),
        keys=keys or FakeKeys(),
        failures=FailureThrottle(),
    )


class Line:
    """A connection: what the server would receive, and what it was told to send."""

    def __init__(self, parts=(b"",), *, caller="ann", headers=(), hold=None, path=None, query=b""):
        self.parts, self.hold, self.sent = list(parts), hold, []
        keys = [] if caller is None else [(b"authorization", f"Bearer {caller}".encode())]
        self.scope = {
            "type": "http",
            "method": "POST",
            "path": path or ("/login" if caller is None else "/"),
            "query_string": query,
            "headers": [*keys, *headers],
            "client": ("::1", 1),
            "app": SimpleNamespace(state=SimpleNamespace(context=idle_context())),
        }

    async def receive(self):
        if not self.parts:
            if self.hold is not None:
                await self.hold.wait()
            return {"type": "http.disconnect"}
        part = self.parts.pop(0)
        return {"type": "http.request", "body": part, "more_body": bool(self.parts) or self.hold is not None}

    async def send(self, message):
        self.sent.append(message)

    @property
    def status(self):
        return self.sent[0]["status"] if self.sent else None

    @property
    def headers(self):
        return dict(self.sent[0]["headers"])

    @property
    def error(self):
        return json.loads(self.sent[1]["body"])["error"]

    async def over(self, app, **scope):
        await app({**self.scope, **scope}, self.receive, self.send)
        return self


def in_loop(test):
    """Run a test that is a coroutine in an event loop of its own."""

    @functools.wraps(test)
    def run(*arguments, **options):
        asyncio.run(test(*arguments, **options))

    return run


def write_toml(described):
    """Write the entries of a service's file as TOML."""
    lines = []
    for section, entries in described.items():
        several = isinstance(entries, list)
        for entry in entries if several else [entries]:
            lines.append(f"[[{section}]]" if several else f"[{section}]")
            lines += [f"{name} = {to_toml(value)}" for name, value in entry.items()]
    return "\n".join(lines) + "\n"


def to_toml(value):
    """Write a value on one line."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{json.dumps(name)} = {to_toml(one)}" for name, one in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(to_toml, value)) + "]"
    return json.dumps(value)


def keyless(folder, **parts):
    """Describe a service without keys whose store is in a folder."""
    return {"service": {"database": f"sqlite:///{folder / 'evenhand.db'}", "keys": False}, **parts}


def describe_service(folder):
    """Describe three shields and a guarded studio."""
    plans = {"loans": PLAN, "finite": FINITE, "labelled": LABELLED}
    shields = [{"name": name, "plan": plan} for name, plan in plans.items()]
    return keyless(folder, shields=shields, guards=[{"name": "studio", "config": GUARD}])


def guard_ages(generator=None, **changes):
    """Configure a guard that demands each of three ages once in four items about leaders."""
    return {
        "conditions": [{"name": "leader", "keywords": ["leader"]}],
        "specifications": [{"condition": "leader", "group": "age", "values": [*AGES], "repeated": 4}],
        "classifier": {"kind": "studio"},
        **({} if generator is None else {"generator": generator}),
        **changes,
    }


AGES = {"child": ["child"], "adult": ["adult"], "elderly": ["elderly"]}
LEXICON = {"kind": "lexicon", "words": {"age": AGES}}
MEMBERS = {"women": {"rate": 0.4, "accept": 0.35}, "men": {"rate": 0.6, "accept": 0.6}}
PLAN = {"property": "demographic_parity", "kappa": "0.2", "horizon": 40, "kind": "dynamic", "groups": MEMBERS}
FINITE = {**PLAN, "kind": "finite", "horizon": 6}
LABELLED = {"property": "equal_opportunity", "kappa": "0.2", "horizon": 20}
LABELLED["groups"] = {name: {**member, "label": 0.5} for name, member in MEMBERS.items()}


def bare_guard(ledger, replica):
    """A guard without parts, whose requests are admitted and completed by hand."""
    parts = SimpleNamespace(generator=None, instruct=InstructionWriter())
    entry = SimpleNamespace(log_prompts=False)
    return SimpleNamespace(ledger=ledger, name="guard", replica=replica, budget=None, entry=entry, pipeline=parts)


GUARD = {
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
SMALL_GUARD = {
    **GUARD,
    "specifications": [{"condition": "leader", "group": "gender", "values": ["woman", "man"], "repeated": 5}],
    "generator": {"kind": "studio"},
}
WATCH = {
    "groups": {"by": ["sex"], "values": {"sex": ["female", "male"]}},
    "watch": [{"gap": "selection_rate", "tolerance": 0.02}],
}
