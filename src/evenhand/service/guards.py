"""Guarded generators, as the service runs them."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evenhand import __version__
from evenhand.errors import EvenhandError, StoreError, TrustError
from evenhand.genai.backends import Generator
from evenhand.genai.core import Enforcer
from evenhand.genai.guard import Answer
from evenhand.genai.specification import Configuration
from evenhand.genai.workbench import Workbench, build, check_studio, classifier_of, judge_of
from evenhand.service.desk import Desk
from evenhand.service.generators import Elsewhere, Makes, makes
from evenhand.service.guardrail import Guardrail
from evenhand.service.keeper import LedgerKeeper
from evenhand.service.leftovers import Leftovers
from evenhand.service.machines import GuardMachine
from evenhand.service.notes import Notes, Watched
from evenhand.service.pictures import Pictures
from evenhand.service.settings import GuardEntry
from evenhand.service.store import Ledger
from evenhand.service.store.chain import canonical

GRACE = 10.0
"""Seconds that work under way has to end when the service stops."""


@dataclass(frozen=True)
class Served:
    """What came of a request.

    Attributes:
        answer: the guard's.
        number: of the entry in the log that admitted it, or else tells of it; None: the store has none.
        picture: the end of the picture's address, if it has to have one.
        seconds: that all of it took.
        upstream_seconds: of these, that the generator took.
    """

    answer: Answer
    number: int | None
    picture: str | None = None
    seconds: float = 0.0
    upstream_seconds: float = 0.0


class ServedGuard:
    """A generator with a guard whose rows lie in the store.

    Args:
        entry: of the settings.
        workbench: what makes items, looks at them and reads prompts.
        ledger: the store.
        replica: this process's name.
        pictures: where pictures are kept; None: nowhere.

    Attributes:
        name: its stream.
        models: the names under which clients ask for it.
        makes: pictures or texts.
        desk: where its requests wait.
        leftovers: what the store could not take.
        guardrail: for a gateway that makes items itself.
        observers: are told of every request that was answered, in whichever thread.
    """

    def __init__(
        self, entry: GuardEntry, workbench: Workbench, ledger: Ledger, replica: str, pictures: Pictures | None = None
    ) -> None:
        self.entry, self.workbench = entry, workbench
        self.name, self.models = entry.name, entry.models or (entry.name,)
        self.makes: Makes = makes(workbench.generator)
        self.ledger, self.replica, self.pictures = ledger, replica, pictures
        self.desk = Desk(entry.name, at_once=entry.at_once, waiting=entry.waiting)
        self.leftovers = Leftovers(ledger, entry.name)
        self.observers: list[Callable[[Served], None]] = []
        self.guardrail = Guardrail(self)

    def request(
        self, prompt: str, *, generator: Generator | None = None, route: str = "python", address: bool = False
    ) -> Request:
        """A request, not yet begun.

        Args:
            prompt: as the user wrote it.
            generator: for this request alone.
            route: by which it came, for the log.
            address: whether the picture must have an address.
        """
        return Request(self, prompt, generator or self.workbench.generator, route, address)

    async def serve(self, requests: Sequence[Request], seconds: float) -> list[Served | BaseException]:
        """What comes of several requests at the same time.

        Args:
            requests: see ``request``.
            seconds: how long they are waited for; an item that comes later does not count as shown.

        Returns:
            for each, what came of it, or the error that it ended with.

        Raises:
            AccessError: too many are under way already; none was begun.
            StoreError: the service is stopping.
        """

        def late() -> None:
            for one in requests:
                one.withdraw()

        found = await self.desk.gather(requests, seconds=seconds, late=late)
        return [one.late(seconds) if came is None else came for one, came in zip(requests, found, strict=True)]

    def started(self) -> None:
        """Have the log keep by what this replica reads prompts and makes and looks at items from now on."""
        configuration = self.workbench.configuration.model_dump(mode="json", exclude_none=True)
        note = {"what": "started", "replica": self.replica, "evenhand": __version__, "configuration": configuration}
        self.leftovers.submit({"op": "record", "note": note})

    def close(self, seconds: float | None = None) -> None:
        """Begin nothing more, wait for what is under way, and give up what does not end."""
        ended = self.desk.close(GRACE if seconds is None else seconds)
        self.guardrail.close()
        if not ended or self.guardrail.waiting:
            note = {"what": "stopped"}
            self.leftovers.submit({"op": "abandon", "replica": self.replica, "note": note})
        self.leftovers.close()


class Request:
    """One request to a guarded generator; called, it answers it, and blocks."""

    def __init__(self, guard: ServedGuard, prompt: str, generator: Generator, route: str, address: bool) -> None:
        self.prompt = prompt
        self._guard, self._address = guard, address
        self._made = Watched(generator)
        self._notes = Notes(prompt, self._made, route=route, log_prompts=guard.entry.log_prompts)
        self._keeper = LedgerKeeper(guard.ledger, guard.name, guard.replica, self._notes)

    def withdraw(self) -> None:
        """Nobody waits for it any more."""
        self._keeper.withdrawn = True

    def late(self, seconds: float) -> Served:
        """What is said instead of an answer that did not come in time."""
        reason = f"no answer came within {seconds:g} seconds"
        return Served(Answer(None, "refused", self.prompt, reason=reason), self._keeper.number)

    def __call__(self) -> Served:
        """Answer it.

        Raises:
            StoreError: the store failed, and nothing may be answered without it.
        """
        begun = time.perf_counter()
        guard, keeper = self._guard, self._keeper
        try:
            answer = guard.workbench.guard(keeper, generator=self._made).answer(self.prompt)
        except BaseException as error:
            # Whether it is open in the store nobody knows; nothing may stay open for ever.
            if keeper.call:
                guard.leftovers.submit({"op": "abandon", "call": keeper.call, "note": {"what": "store"}})
            if not isinstance(error, StoreError) or guard.entry.when_down == "refuse":
                raise
            answer = self._without_store()
        number = self._record(answer)
        picture = self._keep(answer, number)
        served = Served(answer, number, picture, time.perf_counter() - begun, self._made.seconds)
        for observer in guard.observers:
            observer(served)
        return served

    def _without_store(self) -> Answer:
        """An item that nobody vouches for, as it was configured."""
        reason, item, sent = "the store failed", self._made.item, self._made.sent
        if item is None:
            sent = self.prompt
            try:
                item = self._made.generate(sent)
            except Exception as error:
                what = error.what if isinstance(error, EvenhandError) else type(error).__name__
                return Answer(None, "refused", sent, reason=f"{reason}; the generator failed: {what}")
        return Answer(item, "unguarded", sent, sent != self.prompt, reason=reason)

    def _record(self, answer: Answer) -> int | None:
        """Have the log keep what its entries of admissions and items do not tell; the number of the request's entry."""
        keeper, notes = self._keeper, self._notes
        if answer.status == "ok" and keeper.number is not None:
            return keeper.number
        note: dict[str, Any] = {
            "what": "answer",
            "status": answer.status,
            "admission": keeper.number,
            "reason": notes.reason(answer.reason),
            "attempts": [
                {"values": dict(one.values), "error": notes.reason(one.error)} for one in answer.attempts
            ],
            **notes.asked(),
        }  # fmt: skip
        asked = self._guard.leftovers.submit({"op": "record", "note": note})
        if keeper.number is not None or asked is None:
            return keeper.number
        try:
            return asked.result().number
        except StoreError:
            return None

    def _keep(self, answer: Answer, number: int | None) -> str | None:
        guard, item = self._guard, answer.item
        if item is None or item.kind != "image" or guard.pictures is None:
            return None
        if self._address:
            if number is None:
                raise StoreError("the picture cannot be kept", mend="ask for b64_json")
            return guard.pictures.keep(guard.name, number, item)
        if number is not None and guard.entry.keep_pictures:
            guard.pictures.keep_later(guard.name, number, item)
        return None


def configuration_of(entry: GuardEntry, folder: Path) -> Configuration:
    """What an entry's configuration says."""
    return Configuration.read(folder / entry.config if isinstance(entry.config, str) else entry.config)


def machine_of(entry: GuardEntry, folder: Path) -> GuardMachine:
    """The stream of a guard, at its beginning."""
    with _about(entry):
        configuration = configuration_of(entry, folder)
        what = deciding(configuration)
        digest = hashlib.sha256(canonical(what).encode()).hexdigest()
        # Replicas admit one another's requests: nobody knows how many are under way, so none is ruled out.
        return GuardMachine(Enforcer(configuration, mode=configuration.guard.mode, in_flight=None), what, digest)


def deciding(configuration: Configuration) -> dict[str, Any]:
    """All that admissions and outcomes depend on, as a configuration of its own.

    Not in it: how prompts are read, and how items are made and looked at. Their answers are in the log, and what gave
    them is told there at every start. Nor are samples and what is tolerated: they only word what is guaranteed.
    """
    # Without what is at its default: a specification that names it where it has no meaning could not be read again.
    found: Mapping[str, Any] = configuration.model_dump(
        mode="json", include={"specifications", "groups"}, exclude_defaults=True
    )
    return {
        "conditions": [{"name": condition.name} for condition in configuration.conditions],
        **found,
        "simulation": {"retries": configuration.simulation.retries, "slack": configuration.simulation.slack},
        "guard": {"mode": configuration.guard.mode},
    }


def served(
    entry: GuardEntry, folder: Path, ledger: Ledger, replica: str, pictures: Pictures | None = None
) -> ServedGuard:
    """A guard at work."""
    place = (folder / entry.config).parent if isinstance(entry.config, str) else folder
    with _about(entry):
        guard = ServedGuard(entry, _bench(configuration_of(entry, folder), entry, place), ledger, replica, pictures)
    guard.started()
    return guard


def _bench(configuration: Configuration, entry: GuardEntry, place: Path) -> Workbench:
    if configuration.generator is not None:
        return build(configuration, trust=entry.trust, folder=place)
    check_studio(configuration)
    return Workbench(
        configuration,
        Elsewhere(),
        classifier_of(configuration, trust=entry.trust, folder=place),
        judge_of(configuration, trust=entry.trust, folder=place),
    )


@contextmanager
def _about(entry: GuardEntry) -> Iterator[None]:
    """Errors say which guard they are about."""
    try:
        yield
    except EvenhandError as error:
        if isinstance(error, TrustError):
            error.mend = "if you know where the configuration comes from: trust = true in the guard's entry"
        error.where = ", ".join(filter(None, (f"guard {entry.name!r}", error.where)))
        raise
