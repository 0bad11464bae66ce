"""Go through the boxes of a certificate: quickly at first, with more work where that is not enough.

An interrupt ends it with what was proved by then, and a file holds that for the next run.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from evenhand.checker.reading import ClaimedBoxes
from evenhand.checker.reprove import BoxProof
from evenhand.core.files import write_atomically
from evenhand.core.interrupts import InterruptCounter
from evenhand.core.typing import Booleans, Progress
from evenhand.errors import OptionError

QUICK_BATCH = 128
SLOW_FAILURES = 100
"""Boxes that more work does not confirm either, at most, before the rest of those in doubt is given up."""
SAVING_SECONDS = 20.0
STATE_MAGIC = b"EVENHAND checked boxes 1\n"


class Prover(Protocol):
    """Proves claims about boxes again."""

    @property
    def quick(self) -> bool:
        """Whether ``prove_quickly`` serves for this question."""

    @property
    def compiled(self) -> bool:
        """Whether its kernels have been compiled."""

    def prove(self, boxes: ClaimedBoxes) -> list[BoxProof]:
        """Return what was proved of each box."""

    def prove_quickly(self, boxes: ClaimedBoxes) -> list[BoxProof]:
        """Return the same with less work for each box."""


@dataclass
class CheckState:
    """Which boxes of a certificate are confirmed, kept in a file from one run to the next.

    Attributes:
        digest: of the certificate.
        done: of its boxes.
        path: of the file; None: nothing is kept.
    """

    digest: bytes
    done: Booleans
    path: Path | None = None
    _saved: float = field(default_factory=time.perf_counter)

    @classmethod
    def open(cls, path: Path | None, digest: bytes, boxes: int) -> CheckState:
        """Go on from a file if it is there.

        Raises:
            OptionError: it is about another certificate, or cannot be read.
        """
        found = cls(digest, np.zeros(boxes, dtype=np.bool_), path)
        if path is None or not path.exists():
            return found
        try:
            data = path.read_bytes()
        except OSError as error:
            raise OptionError(f"the state cannot be read: {error}", location=str(path)) from None
        if data[: len(STATE_MAGIC)] != STATE_MAGIC:
            raise OptionError("this is not the state of a check", location=str(path), hint="name another file")
        at = len(STATE_MAGIC)
        if data[at : at + 32] != digest or len(data) != at + 32 + (boxes + 7) // 8:
            raise OptionError(
                "this is the state of checking another certificate", location=str(path), hint="name another file"
            )
        found.done = np.unpackbits(np.frombuffer(data, np.uint8, offset=at + 32), count=boxes).astype(np.bool_)
        return found

    def save(self, *, now: bool = False) -> None:
        """Write the file, if it is time.

        Raises:
            OptionError: it cannot be written.
        """
        if self.path is None or (not now and time.perf_counter() - self._saved < SAVING_SECONDS):
            return
        try:
            write_atomically(self.path, STATE_MAGIC + self.digest + np.packbits(self.done).tobytes())
        except OSError as error:
            raise OptionError(f"the state cannot be written: {error}", location=str(self.path)) from None
        self._saved = time.perf_counter()


@dataclass
class Verification:
    """What became of the boxes that were looked at.

    Attributes:
        state: which are confirmed.
        failed: those that are not, with what was proved of each.
        interrupted: whether others were left out.
    """

    state: CheckState
    failed: dict[int, BoxProof] = field(default_factory=dict)
    interrupted: bool = False


def verify_boxes(
    provers: Sequence[Prover],
    boxes: ClaimedBoxes,
    owner: NDArray[np.intp],
    chosen: NDArray[np.intp],
    state: CheckState,
    say: Progress,
) -> Verification:
    """Prove boxes again until all are looked at, or somebody interrupts.

    Args:
        provers: one for each set of boxes.
        boxes: all of them.
        owner: which set each is in.
        chosen: those to prove.
        state: which were confirmed before, and now.
        say: called with the share done.
    """
    found = Verification(state)
    todo = chosen[~state.done[chosen]]
    doubtful: list[tuple[int, BoxProof | None]] = []
    looked = len(chosen) - len(todo)
    # Two passes: all boxes by quick proofs, and those they leave in doubt by proofs that take more work.
    with InterruptCounter() as interrupts, ThreadPoolExecutor(_processors()) as pool:
        for number, prover in enumerate(provers):
            mine = todo[owner[todo] == number]
            if not prover.quick:
                doubtful += [(int(k), None) for k in mine]
                continue
            if not prover.compiled:
                say("compiling the checker, once on this machine (up to a minute of processor time)", 0.0)
            pieces = [mine[at : at + QUICK_BATCH] for at in range(0, len(mine), QUICK_BATCH)]
            # Few pieces at a time: between two groups an interrupt is noticed and the state saved.
            for first in range(0, len(pieces), 2 * _processors()):
                if interrupts.count:
                    break
                group = pieces[first : first + 2 * _processors()]
                for piece, proofs in zip(
                    group, pool.map(lambda piece, by=prover: by.prove_quickly(boxes.of(piece)), group), strict=True
                ):
                    for k, proof in zip(piece.tolist(), proofs, strict=True):
                        if proof.confirmed:
                            state.done[k] = True
                        elif proof.refuted:
                            found.failed[k] = proof
                        else:
                            doubtful.append((k, proof))
                    looked += len(piece)
                say("proving boxes again", looked / max(1, len(chosen)))
                state.save()
        # Boxes in doubt are looked at again, and counted then.
        looked -= sum(proof is not None for _, proof in doubtful)
        slow = 0
        for k, proof in doubtful:
            if interrupts.count:
                break
            if slow >= SLOW_FAILURES and proof is not None:
                found.failed[k] = proof
            else:
                again = provers[owner[k]].prove(boxes.of(np.array([k])))[0]
                if again.confirmed:
                    state.done[k] = True
                else:
                    found.failed[k] = again
                    slow += 1
            looked += 1
            say("proving boxes again that are in doubt", looked / max(1, len(chosen)))
            state.save()
        found.interrupted = bool(interrupts.count)
    state.save(now=True)
    return found


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
