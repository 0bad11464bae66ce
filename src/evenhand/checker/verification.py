"""Verify the boxes of a certificate: first by quick proofs, then the remaining ones by slower proofs.

An interrupt ends the verification and keeps its results. A file saves them for the next run.
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
"""Maximum number of boxes that slow proofs fail to confirm before the remaining doubtful boxes count as failed."""
SAVING_SECONDS = 20.0
STATE_MAGIC = b"EVENHAND checked boxes 1\n"


class Prover(Protocol):
    """Prover of claims about boxes."""

    @property
    def quick(self) -> bool:
        """Whether all boxes are checked by default."""

    @property
    def compiled(self) -> bool:
        """Whether the kernels are compiled."""

    def prove(self, boxes: ClaimedBoxes) -> list[BoxProof]:
        """Prove the claims of boxes."""

    def prove_quickly(self, boxes: ClaimedBoxes) -> list[BoxProof]:
        """Prove the claims of boxes with less work for each box."""


@dataclass
class CheckState:
    """Confirmed boxes of a certificate, saved in a file between runs.

    Attributes:
        digest: Digest of the certificate.
        done: Mask of the confirmed boxes.
        path: File of the state. None disables saving.
    """

    digest: bytes
    done: Booleans
    path: Path | None = None
    _saved: float = field(default_factory=time.perf_counter)

    @classmethod
    def open(cls, path: Path | None, digest: bytes, boxes: int) -> CheckState:
        """Read the state from a file, or start a new one if the file does not exist.

        Raises:
            OptionError: The file belongs to another certificate or cannot be read.
        """
        state = cls(digest, np.zeros(boxes, dtype=np.bool_), path)
        if path is None or not path.exists():
            return state
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
        state.done = np.unpackbits(np.frombuffer(data, np.uint8, offset=at + 32), count=boxes).astype(np.bool_)
        return state

    def save(self, *, now: bool = False) -> None:
        """Write the file if it was last written ``SAVING_SECONDS`` ago, or if ``now`` is set.

        Raises:
            OptionError: The file cannot be written.
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
    """Result of a verification.

    Attributes:
        failed: Proofs of the boxes that were not confirmed, by box.
        interrupted: Whether an interrupt left boxes unverified.
    """

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
    """Prove the claims of boxes until all are verified or the user interrupts.

    Args:
        provers: Prover of each partition.
        boxes: Boxes of all partitions.
        owner: Partition of each box.
        chosen: Boxes to verify.
        state: Boxes confirmed in earlier runs. Newly confirmed boxes are added.
        say: Callback for the share of verified boxes.
    """
    verification = Verification()
    todo = chosen[~state.done[chosen]]
    doubtful: list[tuple[int, BoxProof]] = []
    looked = len(chosen) - len(todo)
    # Two passes: quick proofs of all boxes, then slow proofs of the boxes that remain in doubt.
    with InterruptCounter() as interrupts, ThreadPoolExecutor(_processors()) as pool:
        for number, prover in enumerate(provers):
            mine = todo[owner[todo] == number]
            if not prover.compiled:
                say("compiling the checker, once on this machine (up to a minute of processor time)", 0.0)
            pieces = [mine[at : at + QUICK_BATCH] for at in range(0, len(mine), QUICK_BATCH)]
            # Groups are small, because interrupts are handled and the state is saved between two groups.
            for begin in range(0, len(pieces), 2 * _processors()):
                if interrupts.count:
                    break
                group = pieces[begin : begin + 2 * _processors()]
                for piece, proofs in zip(
                    group, pool.map(lambda piece, by=prover: by.prove_quickly(boxes.of(piece)), group), strict=True
                ):
                    for k, proof in zip(piece.tolist(), proofs, strict=True):
                        if proof.confirmed:
                            state.done[k] = True
                        elif proof.refuted:
                            verification.failed[k] = proof
                        else:
                            doubtful.append((k, proof))
                    looked += len(piece)
                say("proving boxes again", looked / max(1, len(chosen)))
                state.save()
        # Boxes in doubt are counted in the second pass.
        looked -= len(doubtful)
        slow = 0
        for k, proof in doubtful:
            if interrupts.count:
                break
            if slow >= SLOW_FAILURES:
                verification.failed[k] = proof
            else:
                again = provers[owner[k]].prove(boxes.of(np.array([k])))[0]
                if again.confirmed:
                    state.done[k] = True
                else:
                    verification.failed[k] = again
                    slow += 1
            looked += 1
            say("proving the remaining boxes again", looked / max(1, len(chosen)))
            state.save()
        verification.interrupted = bool(interrupts.count)
    state.save(now=True)
    return verification


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
