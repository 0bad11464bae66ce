"""The work behind a paper's tables, in pieces of minutes: each is kept when it is done, and not done again."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from evenhand import __version__
from evenhand.errors import DataError, FetchError, MissingExtraError, OptionError
from evenhand.files import write_atomically
from evenhand.typing import Progress
from evenhand.version import without_commit
from evenhand.workers import UnitsDone, Workers, open_pool, run_units
from reproductions.comparison.record import ComparedTable, Verdict

Values: TypeAlias = dict[str, Any]
"""What a piece found, as plain JSON: from it, every table is made."""

SHORTAGES = (MissingExtraError, FetchError, DataError)
"""Errors that say that something is not here; the pieces that do without it are done."""


@dataclass(frozen=True)
class PieceContext:
    """What a piece may depend on besides itself.

    Attributes:
        quick: whether to spend minutes on the whole paper instead of the published effort.
        seed: of its random numbers.
        data_home: the folder of data and networks that are not bundled; None: the usual one.
    """

    quick: bool = False
    seed: int = 0
    data_home: Path | None = None


@dataclass(frozen=True)
class Piece:
    """A piece of work that ends within ten minutes on one core.

    Attributes:
        name: unique in the paper; also of its file.
        tables: the numbers of the tables that need it.
        run: does it, and returns what tables are made of. It can be pickled: a function of a module, or
            ``functools.partial`` of one.
        minutes: about how long it takes on one core; quick_minutes: the same with ``quick``, 0 if it is then left out.
    """

    name: str
    tables: tuple[str, ...]
    run: Callable[[PieceContext, Progress], Values] = field(repr=False)
    minutes: float
    quick_minutes: float


class PublishedTable(NamedTuple):
    """A table or a drawing of a paper.

    Attributes:
        number: as the paper counts them: ``Table II``.
        title: what it shows, in our words.
        compare: makes the comparison from what its pieces found, by their names; pieces may be missing.
        needs: what it takes besides the package, in words; empty: nothing.
    """

    number: str
    title: str
    compare: Callable[[Mapping[str, Values]], ComparedTable]
    needs: str = ""


class Paper(NamedTuple):
    """A paper whose tables can be made again.

    Attributes:
        name: what it is called on the command line.
        title, published_in: of the paper.
        tables: all of its tables and drawings, also those that cannot be compared.
        pieces: the work for them.
    """

    name: str
    title: str
    published_in: str
    tables: tuple[PublishedTable, ...]
    pieces: tuple[Piece, ...]

    def choose(self, numbers: Sequence[str]) -> tuple[PublishedTable, ...]:
        """Return the tables that are named, by ``II``, ``table ii`` or ``figure 4``; all if none is.

        Raises:
            OptionError: the paper has no such table.
        """
        if not numbers:
            return self.tables
        chosen = []
        for number in numbers:
            wanted = number.casefold().split()
            found = [table for table in self.tables if table.number.casefold().split()[-len(wanted) :] == wanted]
            if not found or not wanted:
                raise OptionError(
                    f"expected a table of {self.name}, got {number!r}",
                    location="`tables=`",
                    hint=", ".join(table.number for table in self.tables),
                )
            chosen += found
        return tuple(table for table in self.tables if table in chosen)

    def plan(self, tables: Sequence[PublishedTable], *, quick: bool) -> list[Piece]:
        """Return the pieces that some tables need."""
        numbers = {table.number for table in tables}
        return [
            piece for piece in self.pieces if numbers & set(piece.tables) and (piece.quick_minutes > 0 or not quick)
        ]


class PieceDone(NamedTuple):
    """What came of a piece.

    Attributes:
        values: what it found; None where something was not here.
        seconds: it took.
        missing: what was not here.
    """

    values: Values | None
    seconds: float
    missing: str = ""


class PieceStore:
    """A folder with a JSON file for every piece that is done.

    Args:
        folder: it is made unless it is there.
        paper: the paper's name.
        context: what the pieces depend on.
        resume: whether files that are there are of use; else there must be none.

    Raises:
        OptionError: there are pieces already, and they are not to be used; or they are of another run.
        DataError: the folder cannot be made.
    """

    def __init__(self, folder: Path, paper: str, context: PieceContext, *, resume: bool) -> None:
        self._folder = folder
        self._about = {
            "paper": paper,
            "evenhand": without_commit(__version__),
            "quick": context.quick,
            "seed": context.seed,
        }
        try:
            folder.mkdir(parents=True, exist_ok=True)
            there = sorted(folder.glob("*.json"))
        except OSError as error:
            raise DataError(f"the folder cannot be used: {error}", location=str(folder)) from None
        if there and not resume:
            raise OptionError(
                f"expected a folder without pieces of an earlier run, found {len(there)}",
                location=str(folder),
                hint="`resume=True` goes on from them; or name another folder",
            )

    def read(self, name: str) -> PieceDone | None:
        """Return a piece that is done; None if it is not, or if its file is damaged.

        Raises:
            OptionError: it is of another run.
        """
        path = self._folder / f"{name}.json"
        try:
            found = json.loads(path.read_text("utf-8"))
            about, values, seconds = found["about"], dict(found["values"]), float(found["seconds"])
        except (OSError, ValueError, KeyError, TypeError):
            return None
        if about != self._about:
            raise OptionError(
                f"expected a piece of {self._about}, got one of {about}",
                location=str(path),
                hint="repeat the options of that run, or name another folder",
            )
        return PieceDone(values, seconds)

    def write(self, name: str, done: PieceDone) -> None:
        """Keep a piece that is done."""
        content = {"about": self._about, "piece": name, "seconds": round(done.seconds, 3), "values": done.values}
        write_atomically(self._folder / f"{name}.json", json.dumps(content, indent=1, allow_nan=False) + "\n")


@dataclass(frozen=True)
class _PieceTask:
    pieces: tuple[Piece, ...]
    context: PieceContext

    def run(self, unit: int) -> PieceDone:
        return run_piece(self.pieces[unit], self.context)


def run_piece(piece: Piece, context: PieceContext, progress: Progress = lambda what, share: None) -> PieceDone:
    """Do a piece; what it lacks is returned, not raised."""
    started = time.perf_counter()
    try:
        values = piece.run(context, progress)
    except SHORTAGES as error:
        return PieceDone(None, time.perf_counter() - started, str(error))
    return PieceDone(values, time.perf_counter() - started)


def run_pieces(
    pieces: Sequence[Piece],
    context: PieceContext,
    *,
    store: PieceStore | None = None,
    workers: Workers | None = None,
    progress: Progress = lambda what, share: None,
) -> tuple[dict[str, PieceDone], bool]:
    """Do pieces that are not done yet, here or on workers.

    Returns:
        what came of each, by name in their order, and whether somebody stopped it.
    """
    kept = {piece.name: done for piece in pieces if store and (done := store.read(piece.name)) is not None}
    found = dict(kept)
    todo = tuple(piece for piece in pieces if piece.name not in found)
    efforts = [piece.quick_minutes if context.quick else piece.minutes for piece in todo]
    total, spent = sum(efforts) or 1.0, 0.0
    ended = UnitsDone()

    def collect(unit: int, done: PieceDone) -> None:
        nonlocal spent
        if store is not None and done.values is not None:
            store.write(todo[unit].name, done)
        found[todo[unit].name] = done
        spent += efforts[unit]
        progress(f"{todo[unit].name} is done: {len(found)} of {len(pieces)}", min(spent / total, 1.0))

    if workers is not None and todo:
        with open_pool(workers) as pool:
            ended = run_units(_PieceTask(todo, context), range(len(todo)), pool, collect)
    else:
        try:
            for unit, piece in enumerate(todo):
                inner = _inner_progress(progress, piece.name, spent / total, efforts[unit] / total)
                collect(unit, run_piece(piece, context, inner))
        except KeyboardInterrupt:
            ended.interrupted = True
    for unit in ended.given_up:
        found[todo[unit].name] = PieceDone(None, 0.0, "it ended its workers")
    return {piece.name: found[piece.name] for piece in pieces if piece.name in found}, ended.interrupted


def _inner_progress(progress: Progress, name: str, start: float, share: float) -> Progress:
    return lambda what, done: progress(f"{name}: {what}" if what else name, min(start + share * done, 1.0))


def judge(
    published: float,
    ours: float,
    *,
    better: str = "",
    within: float = 0.0,
    interval: tuple[float, float] | None = None,
) -> Verdict:
    """Compare a figure with the published one.

    Args:
        published, ours: in the same unit.
        better: ``higher`` or ``lower``, where one of them is an improvement.
        within: how far apart they may be and agree: the paper's rounding, or the noise of its own runs.
        interval: of ours; the published figure inside of it agrees.
    """
    low, high = (ours, ours) if interval is None else interval
    if low - within <= published <= high + within:
        return "agrees"
    if (better == "higher" and ours > published) or (better == "lower" and ours < published):
        return "better"
    return "differs"


def summarize_verdicts(verdicts: Sequence[Verdict]) -> Verdict:
    """Return the verdict of a table from those of its figures: it differs where one of them does.

    >>> summarize_verdicts(["agrees", "better", "not compared"])
    'better'
    """
    ranked: tuple[Verdict, ...] = ("differs", "better", "agrees")
    return next((verdict for verdict in ranked if verdict in verdicts), "not compared")
