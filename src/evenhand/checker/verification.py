"""Verify the boxes of a certificate: first by quick proofs, then the remaining ones by slower proofs.

After an interrupt, the results so far are saved to a file for the next run.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import joblib
import numpy as np
from numpy.typing import NDArray

from evenhand.checker.reading import ClaimedBoxes
from evenhand.checker.reprove import BoxProofs, Prover
from evenhand.core.files import write_atomically
from evenhand.core.interrupts import InterruptCounter
from evenhand.core.typing import Booleans, Progress
from evenhand.errors import OptionError

QUICK_BATCH = 128
SLOW_FAILURES = 100
"""Maximum number of boxes that slow proofs fail to confirm before the remaining doubtful boxes count as failed."""
SAVING_SECONDS = 20.0
STATE_MAGIC = b"EVENHAND checked boxes 1\n"


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
            OptionError: The file belongs to a different certificate or cannot be read.
        """
        state = cls(digest, np.zeros(boxes, dtype=np.bool_), path)
        if path is None or not path.exists():
            return state
        try:
            data = path.read_bytes()
        except OSError as error:
            raise OptionError(f"the state cannot be read: {error}", location=str(path)) from None
        if data[: len(STATE_MAGIC)] != STATE_MAGIC:
            raise OptionError("this is not a saved state of a check", location=str(path), hint="name another file")
        at = len(STATE_MAGIC)
        if data[at : at + 32] != digest or len(data) != at + 32 + (boxes + 7) // 8:
            raise OptionError(
                "this state belongs to a check of a different certificate", location=str(path), hint="name another file"
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


def verify_boxes(
    provers: Sequence[Prover],
    boxes: ClaimedBoxes,
    owner: NDArray[np.intp],
    chosen: NDArray[np.intp],
    state: CheckState,
    say: Progress,
) -> tuple[dict[int, tuple[float, float]], bool]:
    """Prove the claims of boxes until all are verified or the user interrupts.

    Args:
        provers: Prover of each partition.
        boxes: Boxes of all partitions.
        owner: Partition of each box.
        chosen: Boxes to verify.
        state: Boxes confirmed in earlier runs. Newly confirmed boxes are added.
        say: Callback for the share of verified boxes.

    Returns:
        Proved fair and unfair shares of the boxes that were not confirmed, by box; and whether an interrupt left boxes
        unverified.
    """
    threads, failed = joblib.cpu_count(), dict[int, tuple[float, float]]()
    todo = chosen[~state.done[chosen]]
    doubtful: list[tuple[int, tuple[float, float]]] = []
    looked = len(chosen) - len(todo)
    # Two passes: quick proofs of all boxes, then slow proofs of the boxes that remain in doubt.
    with InterruptCounter() as interrupts, ThreadPoolExecutor(threads) as pool:
        for number, prover in enumerate(provers):
            mine = todo[owner[todo] == number]
            if not prover.compiled:
                say("compiling the checker, once on this machine (up to a minute of processor time)", 0.0)

            def prove_quickly(piece: NDArray[np.intp], prover: Prover = prover) -> BoxProofs:
                return prover.prove(boxes.of(piece), prover.quick_parts, quickly=True)

            pieces = [mine[at : at + QUICK_BATCH] for at in range(0, len(mine), QUICK_BATCH)]
            # Groups are small, because interrupts are handled and the state is saved between two groups.
            for begin in range(0, len(pieces), 2 * threads):
                if interrupts.count:
                    break
                group = pieces[begin : begin + 2 * threads]
                for piece, proofs in zip(group, pool.map(prove_quickly, group), strict=True):
                    state.done[piece[proofs.confirmed]] = True
                    for at in np.flatnonzero(~proofs.confirmed):
                        k, shares = int(piece[at]), (float(proofs.fair[at]), float(proofs.unfair[at]))
                        if proofs.refuted[at]:
                            failed[k] = shares
                        else:
                            doubtful.append((k, shares))
                    looked += len(piece)
                say("proving boxes again", looked / max(1, len(chosen)))
                state.save()
        # Boxes that remain in doubt are counted in the second pass.
        looked -= len(doubtful)
        slow = 0
        for k, shares in doubtful:
            if interrupts.count:
                break
            if slow < SLOW_FAILURES:
                again = provers[owner[k]].prove(boxes.of(np.array([k])))
                shares = float(again.fair[0]), float(again.unfair[0])
                state.done[k] = bool(again.confirmed[0])
                slow += not state.done[k]
            if not state.done[k]:
                failed[k] = shares
            looked += 1
            say("proving the remaining boxes again", looked / max(1, len(chosen)))
            state.save()
    state.save(now=True)
    return failed, bool(interrupts.count)
