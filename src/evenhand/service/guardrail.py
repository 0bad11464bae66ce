"""A guard for a gateway that makes items itself: it asks before, and again with the item.

There is no other attempt in between: an item that does not show what its prompt asked for is delivered, and the log
says that an assumption is broken.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from evenhand.errors import DecisionError, EvenhandError, OptionError, StoreError
from evenhand.genai.backends import Item, instruct
from evenhand.genai.core import Must
from evenhand.genai.guard import AnswerStatus, shown
from evenhand.service.keeper import LedgerKeeper
from evenhand.service.notes import Notes, hash_of

if TYPE_CHECKING:
    from evenhand.service.guards import ServedGuard

Action: TypeAlias = Literal["NONE", "BLOCKED", "GUARDRAIL_INTERVENED"]

REMEMBERED = 10_000
"""Calls whose answers are remembered, so that asking again gives them again."""


@dataclass(frozen=True)
class Verdict:
    """What the gateway is to do.

    Attributes:
        action: let it pass, refuse it, or go on with another prompt.
        status: as in the answers of guarded generators.
        prompt: to go on with.
        reason: why it is refused, or not ok.
    """

    action: Action
    status: AnswerStatus
    prompt: str = ""
    reason: str = ""


@dataclass
class _Call:
    """One call of the gateway's.

    Attributes:
        prompt: its hash.
        before: what was said to it.
        counts: whether its item counts for anything.
        until: when it is given up, by the steady clock; None: it is complete.
        item: the hash of its item.
        after: what was said to that.
    """

    prompt: str
    before: Verdict
    counts: bool
    until: float | None
    item: str | None = None
    after: Verdict | None = None
    must: Must = field(default_factory=dict)


class Guardrail:
    """Admits what a gateway is about to ask, and completes it with what came of it.

    Args:
        guard: whose judge, classifier and deadlines are used.
        steady: seconds of a clock that nobody sets.
    """

    def __init__(self, guard: ServedGuard, steady: Callable[[], float] = time.monotonic) -> None:
        self._guard, self._steady = guard, steady
        self._calls: OrderedDict[str, _Call] = OrderedDict()
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def before(self, call: str, prompt: str) -> Verdict:
        """The prompt that the gateway is to go on with.

        Args:
            call: the gateway's name of the call, with which it asks again when there is an item.
            prompt: as the user wrote it.

        Raises:
            DecisionError: the call is under way with another prompt.
            StoreError: the store failed, and nothing may go on without it.
        """
        known = self._calls.get(call)
        if known is not None and known.prompt == hash_of(prompt):
            return known.before
        bench, guard = self._guard.workbench, self._guard
        notes = self._notes(prompt)
        keeper = LedgerKeeper(guard.ledger, guard.name, guard.replica, notes, call=_named(call))
        try:
            conditions = frozenset(bench.judge.conditions(prompt))
            fixed = frozenset(bench.judge.fixed(prompt)) if conditions else frozenset()
            admission = keeper.admit(conditions, fixed=fixed)
        except StoreError as error:
            return self._without_store(call, error)
        except DecisionError:
            raise
        except Exception as error:
            # An OptionError of the keeper's is the judge's too: it names a condition that there is none of.
            return self._unsure("the judge", error, notes)
        sent = instruct(prompt, admission.must)
        if sent == prompt:
            verdict = Verdict("NONE", "ok", prompt)
        elif prompt:
            verdict = Verdict("GUARDRAIL_INTERVENED", "ok", sent)
        else:
            guard.leftovers.submit({"op": "abandon", "call": _named(call), "note": {"what": "no text"}})
            return Verdict("BLOCKED", "refused", reason="there is no text to which what must be asked for could be put")
        until = self._steady() + guard.entry.guardrail_seconds
        self._remember(
            call, _Call(hash_of(prompt), verdict, bool(admission.counts), until, must=admission.must)
        )  # fmt: skip
        return verdict

    def after(self, call: str, item: Item | None) -> Verdict:
        """Whether what came may be delivered.

        Args:
            call: as it was named before.
            item: None: there is none, or nothing that can be looked at.

        Raises:
            StoreError: the store failed, and nothing may be delivered without it.
        """
        known = self._calls.get(call)
        digest = None if item is None else hash_of(item.data)
        if known is not None and known.after is not None and known.item == digest:
            return known.after
        verdict = self._judged(call, item, known)
        if known is not None and verdict.status != "unguarded":
            known.item, known.after, known.until = digest, verdict, None
        return verdict

    def expire(self) -> int:
        """Give up calls whose item never came; how many."""
        now = self._steady()
        with self._lock:
            over = [name for name, one in self._calls.items() if one.until is not None and one.until <= now]
            for name in over:
                del self._calls[name]
        for name in over:
            self._guard.leftovers.submit(
                {"op": "abandon", "call": _named(name), "note": {"what": "no item came in time"}}
            )
        return len(over)

    @property
    def waiting(self) -> int:
        """Calls whose items have not come."""
        with self._lock:
            return sum(one.until is not None for one in self._calls.values())

    def close(self) -> None:
        """Watch no longer whether items come."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    # ---- within

    def _judged(self, call: str, item: Item | None, known: _Call | None) -> Verdict:
        guard, bench = self._guard, self._guard.workbench
        operation: dict[str, Any] = {"op": "fail", "call": _named(call), "final": True}
        note: dict[str, Any] = {"route": "guardrail"}
        failure: Exception | None = None
        if item is not None:
            note["item"] = {"sha256": hash_of(item.data), "media_type": item.media_type, "bytes": len(item.data)}
            if known is not None:
                note["clause"] = instruct("", known.must).strip()
            try:
                # Where an item counts for nothing, nothing depends on what it shows.
                looked = known is None or known.counts
                values = shown(item, bench.classifier, bench.configuration.values) if looked else {}
                operation |= {"op": "complete", "values": dict(values)}
            except Exception as error:
                failure = error
                if bench.configuration.guard.when_unsure == "pass":
                    operation |= {"op": "complete", "values": {}}
        try:
            outcome = guard.ledger.submit(guard.name, {**operation, "note": note}).result().answer["outcome"]
        except StoreError as error:
            return self._without_store(call, error)
        except DecisionError as error:
            if error.code != "unknown-id":
                raise
            return self._unsure("the call", OptionError("it was not admitted, or too long ago"), self._notes(call))
        if failure is not None:
            return self._unsure("the classifier", failure, self._notes(call))
        # Without an item, such as when a tool is called, there is nothing to keep back.
        return Verdict("NONE", "ok" if outcome["status"] == "ok" else "violation", reason=outcome["reason"])

    def _unsure(self, who: str, error: Exception, notes: Notes) -> Verdict:
        """Nobody knows what a call counts for, or shows."""
        what = error.what if isinstance(error, EvenhandError) else str(error)
        passes = self._guard.workbench.configuration.guard.when_unsure == "pass"
        status: AnswerStatus = "unguarded" if passes else "refused"
        note = {"what": "answer", "status": status, "reason": notes.reason(f"{who} failed: {what}"), **notes.asked()}
        self._guard.leftovers.submit({"op": "record", "note": note})
        # What other services said is for the log alone.
        said = f"{who} failed: {what}" if who == "the call" else f"{who} failed"
        return Verdict("NONE" if passes else "BLOCKED", status, reason=said)

    def _without_store(self, call: str, error: StoreError) -> Verdict:
        self._guard.leftovers.submit({"op": "abandon", "call": _named(call), "note": {"what": "store"}})
        if self._guard.entry.when_down == "refuse":
            raise error
        note = {"what": "answer", "status": "unguarded", "reason": "the store failed", "route": "guardrail"}
        self._guard.leftovers.submit({"op": "record", "note": note})
        return Verdict("NONE", "unguarded", reason="the store failed")

    def _notes(self, prompt: str) -> Notes:
        return Notes(prompt, None, route="guardrail", log_prompts=self._guard.entry.log_prompts)

    def _remember(self, call: str, what: _Call) -> None:
        with self._lock:
            self._calls[call] = what
            over = len(self._calls) - REMEMBERED
            if over > 0:
                # Those under way are not forgotten: somebody must give them up.
                complete = [name for name, one in self._calls.items() if one.until is None][:over]
                for name in complete:
                    del self._calls[name]
            if self._thread is None:
                self._thread = threading.Thread(target=self._watch, name="evenhand-guardrail", daemon=True)
                self._thread.start()

    def _watch(self) -> None:
        pause = min(1.0, self._guard.entry.guardrail_seconds / 4)
        while not self._stop.wait(pause):
            self.expire()


def _named(call: str) -> str:
    """A call's name in the store, where the guard's own requests have theirs."""
    return f"gateway:{call}"
