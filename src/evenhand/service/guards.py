"""Guarded generators, as the service runs them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evenhand.genai.backends import Generator
from evenhand.genai.core import Enforcer
from evenhand.genai.guard import Answer, Guard
from evenhand.genai.specification import Configuration
from evenhand.genai.workbench import Workbench, build
from evenhand.service.keeper import LedgerKeeper
from evenhand.service.machines import GuardMachine
from evenhand.service.settings import GuardEntry
from evenhand.service.store import Ledger
from evenhand.service.store.chain import canonical


@dataclass(frozen=True)
class ServedGuard:
    """A generator with a guard whose rows lie in the store.

    Attributes:
        name: its stream.
        models: the names under which clients ask for it.
        workbench: what makes items, looks at them and reads prompts.
        guard: around the generator.
    """

    name: str
    models: tuple[str, ...]
    workbench: Workbench
    guard: Guard

    def answer(self, prompt: str, generator: Generator | None = None) -> Answer:
        """An item for a prompt; it blocks, so it is called in a thread."""
        return self.guard.answer(prompt, generator=generator)


def configuration_of(entry: GuardEntry, folder: Path) -> Configuration:
    """What an entry's configuration says."""
    return Configuration.read(folder / entry.config if isinstance(entry.config, str) else entry.config)


def machine_of(entry: GuardEntry, folder: Path) -> GuardMachine:
    """The stream of a guard, at its beginning."""
    configuration = configuration_of(entry, folder)
    # What decides: not how items are made or looked at, which may change without changing any promise.
    deciding: Mapping[str, Any] = configuration.model_dump(
        mode="json", include={"conditions", "specifications", "groups", "simulation", "guard"}
    )
    digest = hashlib.sha256(canonical(deciding).encode()).hexdigest()
    return GuardMachine(Enforcer(configuration, mode=configuration.guard.mode), deciding, digest)


def served(entry: GuardEntry, folder: Path, ledger: Ledger, replica: str) -> ServedGuard:
    """A guard at work."""
    place = (folder / entry.config).parent if isinstance(entry.config, str) else folder
    bench = build(configuration_of(entry, folder), folder=place)
    guard = bench.guard(LedgerKeeper(ledger, entry.name, replica))
    return ServedGuard(entry.name, entry.models or (entry.name,), bench, guard)
