"""Shared parts of the reproductions: stored pieces of work, comparisons with published figures, and tables."""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from textwrap import indent
from typing import Any, Literal, NamedTuple, TypeAlias

import yaml

from evenhand import __version__
from evenhand.core.files import write_atomically
from evenhand.core.text import format_duration, format_significant
from evenhand.core.version import without_commit
from evenhand.errors import DataError, FetchError, MissingExtraError, OptionError
from evenhand.stats import Proved, Quantity, Unknown
from evenhand.stats.quantity import Sampled

FOLDER = Path(__file__).resolve().parent
DATA = FOLDER / "data"

PAPERS = ("fairquant", "conditional_fairness", "shields", "maft", "testsgd")
"""Names of the scripts, in the order of the index."""

Values: TypeAlias = dict[str, Any]
"""Result of a piece of work, as JSON."""

Found: TypeAlias = Mapping[str, Values]
"""Results of pieces by name. Pieces may be missing."""

Results: TypeAlias = dict[str, Any]
"""A file in ``results``: version, seed, seconds of every piece, pieces left out with why, figures of every table."""

Kind: TypeAlias = Literal["proved", "observed", "estimated", "measured"]
Verdict: TypeAlias = Literal["agrees", "better", "differs", "not compared"]
VERDICTS: tuple[Verdict, ...] = ("agrees", "better", "differs", "not compared")
"""``agrees``: within what chance and rounding explain; ``better``: the published figure is reached and passed."""

NOT_DONE = "not done in this run"


# Figures.


@dataclass(frozen=True)
class Own:
    """A reproduced figure, in the unit of the published one.

    Attributes:
        value: Value of the figure.
        kind: ``proved``, ``observed`` on given people or runs, ``estimated`` from a random sample, or ``measured`` for
            times and sizes.
        low, high: Ends of the 95 % interval, if there is one.
        basis: Basis of the figure, such as ``on 5,000 people``.
    """

    value: float
    kind: Kind
    low: float | None = None
    high: float | None = None
    basis: str = ""

    @classmethod
    def of_quantity(cls, quantity: Quantity, *, scale: float = 1.0) -> Own | None:
        """Convert a quantity, multiplied by a scale. None if it is unknown."""
        if isinstance(quantity, Unknown):
            return None
        if isinstance(quantity, Proved):
            return cls(scale * quantity.value, "proved", basis=quantity.how)
        assert isinstance(quantity, Sampled)  # only rankings have descriptive numbers
        low, high = scale * quantity.low, scale * quantity.high
        return cls(scale * quantity.value, quantity.kind, low, high, f"on {quantity.n:,}")


@dataclass(frozen=True)
class Figure:
    """A published figure and its reproduction.

    Attributes:
        row: Row of the table, or line of the drawing.
        measure: Measured quantity. Figures with the same measure are listed together.
        published: Figure of the paper, if there is one.
        ours: Figure by the published method.
        default: Figure by Evenhand's default method, if it differs from the published one.
        verdict: Result of the comparison.
        unit: ``%``, ``s``, or empty for counts and plain numbers.
        printed: Published figure in words, if it is more than a number: ``at most 40``.
        note: Reason for a difference or a missing comparison.
        at: Position on the horizontal axis of a drawing.
    """

    row: str
    measure: str
    published: float | None = None
    ours: Own | None = None
    default: Own | None = None
    verdict: Verdict = "not compared"
    unit: Literal["%", "s", ""] = ""
    printed: str = ""
    note: str = ""
    at: float | None = None


def judge(
    published: float, ours: float, *, better: str = "", within: float = 0.0, interval: tuple[float, float] | None = None
) -> Verdict:
    """Compare a figure with the published one.

    Args:
        published, ours: Figures in the same unit.
        better: ``higher`` or ``lower`` if one of them is an improvement.
        within: Tolerated difference: the paper's rounding, or the noise of its runs.
        interval: Interval of ours. A published figure inside it agrees.
    """
    low, high = (ours, ours) if interval is None else interval
    if low - within <= published <= high + within:
        return "agrees"
    if (better == "higher" and ours > published) or (better == "lower" and ours < published):
        return "better"
    return "differs"


def compare(
    row: str,
    measure: str,
    published: float | None,
    ours: Own | None,
    *,
    better: str = "",
    within: float = 0.0,
    note: str = "",
    missing: str = NOT_DONE,
    **more: Any,
) -> Figure:
    """Build a figure with its verdict.

    Args:
        row, measure, published, ours: See ``Figure``.
        better, within: See ``judge``.
        note: Reason for a difference or an improvement.
        missing: Reason if there is no figure of ours.
        more: Other attributes of the figure.
    """
    if published is None or ours is None:
        return Figure(row, measure, published, ours, note=note if ours else missing, **more)
    interval = None if ours.low is None or ours.high is None else (ours.low, ours.high)
    verdict = judge(published, ours.value, better=better, within=within, interval=interval)
    return Figure(row, measure, published, ours, verdict=verdict, note="" if verdict == "agrees" else note, **more)


def claim(row: str, measure: str, printed: str, ours: Own, *, holds: bool, note: str = "", **more: Any) -> Figure:
    """Build a figure that supports or contradicts a statement of the text."""
    verdict: Verdict = "agrees" if holds else "differs"
    return Figure(row, measure, None, ours, verdict=verdict, printed=printed, note="" if holds else note, **more)


def summarize_verdicts(verdicts: Iterable[str]) -> Verdict:
    """Combine the verdicts of a table's figures. A table differs if one figure does.

    >>> summarize_verdicts(["agrees", "better", "not compared"])
    'better'
    """
    present = set(verdicts)
    ranked: tuple[Verdict, ...] = ("differs", "better", "agrees")
    return next((verdict for verdict in ranked if verdict in present), "not compared")


# Pieces of work, and the papers that they are for.


@dataclass(frozen=True)
class Context:
    """Settings of all pieces.

    Attributes:
        quick: Whether to spend minutes on the whole paper instead of the published effort.
        seed: Seed of the random numbers.
        data_home: Folder of data and networks that are not bundled. None: the default folder.
    """

    quick: bool = False
    seed: int = 0
    data_home: Path | None = None


class Piece(NamedTuple):
    """A piece of work that ends within ten minutes on one core.

    Attributes:
        name: Name of the piece and of its file.
        tables: Numbers of the tables that need it.
        run: Function that does the work and returns its result.
        quick: Whether a quick run includes it.
    """

    name: str
    tables: tuple[str, ...]
    run: Callable[[Context], Values]
    quick: bool = True


@cache
def read_published(name: str) -> Any:
    """Read the title, venue, tables and figures of a paper."""
    return yaml.safe_load((FOLDER / "published" / f"{name}.yaml").read_text("utf-8"))


@dataclass(frozen=True)
class Paper:
    """A paper whose tables can be reproduced.

    Attributes:
        name: Name of the script.
        pieces: Pieces of work behind the tables.
        comparisons: Function that builds the figures of each table from the results of the pieces. Other tables of the
            published file cannot be compared.
    """

    name: str
    pieces: tuple[Piece, ...] = field(repr=False)
    comparisons: Mapping[str, Callable[[Found], Iterable[Figure]]] = field(repr=False)

    @property
    def published(self) -> Any:
        """Content of the paper."""
        return read_published(self.name)

    def choose(self, numbers: Sequence[str]) -> list[str]:
        """Find tables by ``II``, ``table ii`` or ``figure 4``. Without a name, return all.

        Raises:
            OptionError: The paper has no such table.
        """
        chosen = []
        for number in numbers:
            words = number.casefold().split()
            tables = [table for table in self.comparisons if words and table.casefold().split()[-len(words) :] == words]
            if not tables:
                raise OptionError(
                    f"expected a table of {self.name} that can be compared, got {number!r}",
                    hint=", ".join(self.comparisons),
                )
            chosen += tables
        return [number for number in self.comparisons if number in chosen or not numbers]


def run_piece(piece: Piece, context: Context, folder: Path | None) -> Values:
    """Run a piece, or read its stored result: ``values`` and ``seconds``, or ``missing``.

    Args:
        piece: Piece of work.
        context: Settings of the piece.
        folder: Folder of the results. A result of another version or seed is replaced.
    """
    about = {"evenhand": without_commit(__version__), "seed": context.seed, "quick": context.quick}
    path = None if folder is None else folder / f"{piece.name}.json"
    if path is not None and path.is_file():
        stored: Values = json.loads(path.read_text("utf-8"))
        if stored["about"] == about:
            return stored
    started = time.perf_counter()
    try:
        values = piece.run(context)
    except (MissingExtraError, FetchError, DataError) as error:
        return {"missing": str(error).splitlines()[0]}
    result = {"about": about, "seconds": round(time.perf_counter() - started, 1), "values": values}
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, json.dumps(result, allow_nan=False) + "\n")
    return result


def reproduce(
    paper: Paper, tables: Sequence[str] = (), context: Context | None = None, folder: Path | None = None
) -> Results:
    """Run the missing pieces of some tables, and compare.

    Args:
        paper: Paper to reproduce.
        tables: Numbers of the tables. Default: all.
        context: Settings of the pieces.
        folder: Folder for the results of the pieces. None stores nothing.

    Raises:
        OptionError: The paper has no such table.
    """
    context = context or Context()
    numbers = paper.choose(tables)
    pieces = [
        piece for piece in paper.pieces if set(numbers) & set(piece.tables) and (piece.quick or not context.quick)
    ]
    results = {}
    for piece in pieces:
        result = results[piece.name] = run_piece(piece, context, folder)
        outcome = result.get("missing") or format_duration(result["seconds"])
        print(f"{piece.name}: {outcome}", file=sys.stderr)
    values = {name: result["values"] for name, result in results.items() if "values" in result}
    return {
        "evenhand": without_commit(__version__),
        "seed": context.seed,
        "pieces": {name: results[name]["seconds"] for name in values},
        "left_out": {name: result["missing"] for name, result in results.items() if "missing" in result},
        "tables": {number: [_as_json(figure) for figure in paper.comparisons[number](values)] for number in numbers},
    }


def _as_json(figure: Figure) -> Values:
    def filled(values: Values) -> Values:
        return {key: value for key, value in values.items() if value not in (None, "")}

    return filled({key: filled(value) if isinstance(value, dict) else value for key, value in asdict(figure).items()})


def read_results(name: str) -> Results:
    """Read the committed results of a paper."""
    results: Results = json.loads((FOLDER / "results" / f"{name}.json").read_text("utf-8"))
    return results


def write_results(name: str, results: Results) -> None:
    """Write the results of a paper, a line for each figure."""
    tables = [
        json.dumps(number) + ": [" + ",".join("\n  " + json.dumps(figure) for figure in figures) + "\n ]"
        for number, figures in results["tables"].items()
    ]
    head = [f" {json.dumps(key)}: {json.dumps(value)},\n" for key, value in results.items() if key != "tables"]
    text = "{\n" + "".join(head) + ' "tables": {\n ' + ",\n ".join(tables) + "\n }\n}\n"
    write_atomically(FOLDER / "results" / f"{name}.json", text)


# Pages.


def build_tables(name: str) -> str:
    """Render the committed results of a paper as Markdown: an overview, then every table, folded."""
    published, results = read_published(name), read_results(name)
    blocks = [published["about"].strip()] if "about" in published else []
    blocks.append("\n".join(_overview(published["tables"], results)))
    drawings = [
        f"- {number}, {about['title']}: {about['text'].strip()}"
        for number, about in published["tables"].items()
        if number not in results["tables"]
    ]
    if drawings:
        blocks.append("\n".join(["Without figures to compare:", "", *drawings]))
    for reason in dict.fromkeys(results["left_out"].values()):
        pieces = ", ".join(piece for piece, why in results["left_out"].items() if why == reason)
        blocks.append(f"Left out: {pieces}: {reason}.")
    for number in results["tables"]:
        title = published["tables"][number]["title"].replace('"', "'")
        body = "\n\n".join(build_table(name, number, results))
        blocks.append(f'??? note "{number}: {title}"\n\n{indent(body, " " * 4)}')
    seconds = format_duration(sum(results["pieces"].values()))
    blocks.append(f"*Evenhand {results['evenhand']}, seed {results['seed']}; {seconds} of work.*")
    return "\n\n".join(blocks)


def _overview(tables: Mapping[str, Any], results: Results) -> Iterator[str]:
    yield "| table | shows | agree | better | differ | not compared |\n|---|---|---:|---:|---:|---:|"
    for number, figures in results["tables"].items():
        counts = Counter(figure["verdict"] for figure in figures)
        numbers = " | ".join(str(counts[verdict] or "") for verdict in VERDICTS)
        yield f"| {number} | {tables[number]['title']} | {numbers} |"


def build_table(name: str, number: str, results: Results) -> Iterator[str]:
    """Yield the blocks of one table of a paper: a note about the comparison, and a table for each measure."""
    about, figures = read_published(name)["tables"][number], results["tables"][number]
    if "text" in about:
        yield about["text"].strip()
    reasons = [
        note for note, count in Counter(figure["note"] for figure in figures if "note" in figure).items() if count > 1
    ]
    for measure in dict.fromkeys(figure["measure"] for figure in figures):
        own = [figure for figure in figures if figure["measure"] == measure]
        unit = {"%": ", in percent", "s": ", in seconds", "": ""}[own[0].get("unit", "")]
        head = (
            "| row | published | published method | Evenhand's method | verdict | note |\n|---|---:|---:|---:|---|---|"
        )
        yield f"**{measure[:1].upper()}{measure[1:]}{unit}.**"
        yield "\n".join([head, *(_table_row(figure, reasons) for figure in own)])
    if reasons:
        yield "\n".join(f"- Reason {index}: {reason}" for index, reason in enumerate(reasons, 1))


def _table_row(figure: Values, reasons: Sequence[str]) -> str:
    note = figure.get("note", "")
    published = figure.get("printed") or (format_significant(figure["published"]) if "published" in figure else "-")
    row = f"{figure['row']} at {figure['at']:g}" if "at" in figure else figure["row"]
    cells = [row, published, _own_cell(figure.get("ours")), _own_cell(figure.get("default")), figure["verdict"]]
    return "| " + " | ".join([*cells, f"reason {reasons.index(note) + 1}" if note in reasons else note]) + " |"


def _own_cell(own: Values | None) -> str:
    if own is None:
        return "-"
    text = format_significant(own["value"])
    if "low" in own and "high" in own:
        text += f" ({format_significant(own['low'])} to {format_significant(own['high'])})"
    kind = "" if own["kind"] == "measured" else own["kind"]
    return " ".join(filter(None, (text, kind, own.get("basis", ""))))


def list_papers() -> str:
    """Render the table of all papers as Markdown, with the number of tables of each verdict."""
    lines = [
        "| paper | tables | agree | better | differ | not compared | work |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for name in PAPERS:
        published, results = read_published(name), read_results(name)
        counts = Counter(
            summarize_verdicts(figure["verdict"] for figure in results["tables"].get(number, ()))
            for number in published["tables"]
        )
        page = f"[{published['title']}]({name.replace('_', '-')}.md), {published['where']}"
        numbers = [str(len(published["tables"])), *(str(counts[verdict]) for verdict in VERDICTS)]
        lines.append(f"| {' | '.join([page, *numbers, format_duration(sum(results['pieces'].values()))])} |")
    return "\n".join(lines)
