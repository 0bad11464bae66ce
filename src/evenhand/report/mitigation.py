"""What people see of a mitigation: a screen in the terminal, and a page of its own."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenhand import charts
from evenhand.groups import SMALL
from evenhand.mitigate.plot import PARTS, draw_candidate, draw_candidates, draw_trials, lines_of
from evenhand.report import words
from evenhand.report.html import NARROW, WIDE, Figure, environment
from evenhand.report.terminal import Screen, list_entries
from evenhand.report.words import Known
from evenhand.stats import Proved, Quantity, Unknown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from evenhand.mitigate.result import CandidateResult, Line, MitigationResult

MINUS = "\N{MINUS SIGN}"

SIGNS = {"better": "\N{BLACK CIRCLE}", "worse": "\N{BLACK UP-POINTING TRIANGLE}"}
"""What stands before a verdict, the mark that it has in the drawings."""

HEADED = ("performance", "asked")
"""Parts in the terminal and in the summary; the others where they got worse."""

OFFERED = ("widest_gap", "certified")
"""Lines besides."""


def show_mitigation(result: MitigationResult, *, written: Sequence[Path] = (), console: Console | None = None) -> None:
    """Print a mitigation: what the new model changed and at what price, harm that moved, and the other candidates.

    Args:
        written: files that were written.
        console: where to print; by default standard output, without colours when that is no terminal.
    """
    from rich.console import Console

    screen = Screen(console or Console())
    people = result.people
    whom = "others" if result.compared_on is None else f"people of {result.compared_on}"
    screen.line(f"Mitigation of {result.model} on {result.data}", style="bold")
    screen.line(
        f"learnt from {words.count(people.train, 'person', 'people')}, chosen on {people.validation:,}, compared on "
        f"{people.test:,} {whom}; favourable: {result.favourable}; {words.duration(result.seconds)}, seed {result.seed}"
    )
    if result.interrupted:
        screen.line("INTERRUPTED: this is the best that was found before")
    screen.line(
        f"observed on those {people.test:,} unless it says otherwise; all intervals of changes hold together with "
        f"{words.level(result.confidence)}"
    )
    for i, candidate in enumerate(result.candidates):
        screen.line()
        screen.line(title(candidate, first=i == 0), style="bold")
        for line in headed(candidate):
            _line(screen, line)
        for moved in candidate.moved:
            screen.line(f"harm moved: {moved.words}", lead=f"  {SIGNS['worse']} ", style="bold")
        screen.line(tally(candidate), lead=" " * 4, style="italic")
        for note in candidate.notes if i == 0 else ():
            screen.line(sentence(note), lead="    note: ")
    list_entries(screen, "note", list(result.notes))
    list_entries(screen, "written", [str(path) for path in written], whole=True)


def render_mitigation(result: MitigationResult) -> str:
    """A mitigation as text of one HTML file, without script or network. The same mitigation gives the same text."""
    return str(environment().get_template("mitigation.html").render(_context(result)))


def title(candidate: CandidateResult, *, first: bool = False) -> str:
    """What a candidate is, in a line."""
    role = " (this model is written)" if first else " (control)" if candidate.control else ""
    return f"{candidate.method}{role}: {candidate.words}"


def sentence(note: str) -> str:
    """A note with a capital and a full stop."""
    return f"{note[:1].upper()}{note[1:].rstrip('.')}."


def headed(candidate: CandidateResult) -> list[Line]:
    """The lines to read first: performance, what was to be mended, and what else got worse; what else there is now."""
    offered = () if candidate.control else OFFERED
    return [line for line in candidate.lines if line.part in HEADED or line.name in offered or line.verdict == "worse"]


def tally(candidate: CandidateResult) -> str:
    """How many lines say what, so that what is not shown is not taken for worse or better."""
    counted: dict[str, int] = {}
    for line in candidate.lines:
        counted[line.verdict] = counted.get(line.verdict, 0) + 1
    said = ", ".join(f"{n} {verdict}" for verdict, n in counted.items())
    return f"all {words.count(len(candidate.lines), 'number', 'numbers')} compared: {said}"


def number_of(line: Line, quantity: Quantity) -> str:
    """A number of a line: decimals for differences and ratios between groups and for areas, else percent."""
    if isinstance(quantity, Unknown):
        return "unknown"
    # Areas are close to each other: two digits would often show no change where there is one.
    return f"{quantity.value:.3f}" if line.name == "auc" else words.value(quantity, line.name)


def ends_of(line: Line, quantity: Known) -> str:
    """The ends of a number's interval, with as many digits."""
    if line.name != "auc" or isinstance(quantity, Proved):
        return words.ends(quantity, line.name)
    return f"{quantity.low:.3f} to {quantity.high:.3f}"


def changed(line: Line) -> str:
    """The change with its interval, or why there is none: ``-3.2 points (-4.8 to -1.7)``."""
    change = line.change
    if change is None:
        reasons = [one.reason for one in (line.before, line.after) if isinstance(one, Unknown)]
        return reasons[0] if reasons else ""
    scale, unit = (1, "") if line.name in words.PLAIN else (100, " points")
    half = scale * (change.high - change.low) / 2
    least = 2 if scale == 1 else 1
    digits = min(6, max(least, math.ceil(-math.log10(half)))) if half > 0 else least

    def signed(value: float) -> str:
        shown = f"{scale * value:+.{digits}f}"
        return (shown[1:] if not float(shown) else shown).replace("-", MINUS)

    return f"{signed(change.value)}{unit} ({signed(change.low)} to {signed(change.high)})"


def fewer(line: Line) -> str:
    """How many times fewer people a rate concerns, where that is more than twice: ``12 times fewer``."""
    if line.name not in ("violation_rate", "population_violation_rate") or line.verdict != "better":
        return ""
    if isinstance(line.before, Unknown) or isinstance(line.after, Unknown):
        return ""
    if line.after.value == 0:
        return "none left among those asked about"
    times = line.before.value / line.after.value
    return f"{times:.3g} times fewer" if times >= 2 else ""


def _line(screen: Screen, line: Line) -> None:
    before, after = number_of(line, line.before), number_of(line, line.after)
    said = ", ".join(part for part in (line.verdict, changed(line), fewer(line), _whose(line)) if part)
    screen.line(
        f"{line.words}: {said}", lead=f"  {SIGNS.get(line.verdict, ' ')} {before:>7} -> {after:>7}  ", lead_style="bold"
    )


def _whose(line: Line) -> str:
    """What the number is, where that is no count of the test people."""
    if line.before.kind == "unknown" or line.after.kind == "unknown":
        return ""
    note = line.note if line.name == "widest_gap" else ""
    return note or (line.after.kind if line.after.kind == "estimated" else "")


def _context(result: MitigationResult) -> dict[str, Any]:
    return {
        "result": result,
        "first": result.candidates[0],
        "candidates": [_candidate(candidate, i, result) for i, candidate in enumerate(result.candidates)],
        "moved": [(candidate, candidate.moved) for candidate in result.candidates if candidate.moved],
        "beside": _figure("candidates", draw_candidates, result),
        "compared": _compared(result),
        "headed": headed,
        "title": title,
        "sentence": sentence,
        "tally": tally,
        "changed": changed,
        "fewer": fewer,
        "number_of": number_of,
        "ends_of": ends_of,
        "sign": lambda verdict: SIGNS.get(verdict, "\N{WHITE CIRCLE}"),
        "css": lambda verdict: verdict.split()[0] if verdict in SIGNS else "open",
        "parts": PARTS,
        "small": SMALL,
        "adjusted": _adjusted(result),
        "chart_styles": charts.stylesheet(),
    }


def _adjusted(result: MitigationResult) -> list[tuple[str, str, int]]:
    """Of each candidate, the level of single intervals and how many there are."""
    found = []
    for candidate in result.candidates:
        levels = [line.change.confidence for line in candidate.lines if line.change is not None]
        if levels:
            found.append((candidate.method, f"{100 * levels[0]:.2f} %", len(levels)))
    return found


def _candidate(candidate: CandidateResult, i: int, result: MitigationResult) -> dict[str, Any]:
    tried = None
    if len(candidate.trials) > 1:
        tried = _figure(f"trials-{i}", lambda it, width: draw_trials(it, result.harms, width=width), candidate)
    return {
        "it": candidate,
        "first": i == 0,
        "id": f"candidate-{i}",
        "figure": _figure(f"candidate-{i}", draw_candidate, candidate),
        "parts": [
            (name, [line for line in candidate.lines if line.part == part])
            for part, name in PARTS.items()
            if any(line.part == part for line in candidate.lines)
        ],
        "tried": tried,
    }


def _compared(result: MitigationResult) -> tuple[list[Line], list[tuple[CandidateResult, list[Line]]]]:
    """The numbers of the table of candidates, and each candidate's."""
    lines = [line for line in result.candidates[0].lines if line.part in HEADED]
    return lines, [(candidate, lines_of(candidate, lines)) for candidate in result.candidates]


def _figure(name: str, draw: Callable[..., charts.Spec], what: Any) -> Figure:
    return Figure(
        wide=charts.svg(draw(what, width=WIDE), name=f"{name}-wide"),
        narrow=charts.svg(draw(what, width=NARROW), name=f"{name}-narrow"),
    )
