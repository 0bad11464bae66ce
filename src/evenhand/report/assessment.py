"""What people see of an assessed generator: a screen in the terminal, and a page of its own."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenhand import charts
from evenhand.charts import percent
from evenhand.genai.assessment import coverage_said, frequency_said
from evenhand.genai.assessment_plot import LINES, draw_coverage, draw_timeline
from evenhand.genai.prompts_plot import draw_prompts
from evenhand.report import words
from evenhand.report.html import NARROW, WIDE, Figure, environment
from evenhand.report.terminal import Screen, list_entries
from evenhand.report.thumbnails import excerpts, thumbnails
from evenhand.stats import Estimated

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rich.console import Console

    from evenhand.genai.assessment import GenaiAssessment, GroupFinding, SequenceFinding, Verdict
    from evenhand.genai.inherent import PromptBias, PromptFinding

SHOWN = 12
"""Values and combinations listed in the terminal, and missing ones named in the page."""

DRAWN = 12
"""Sequences whose timelines and pictures the page has; its tables have all."""

ORDER = ("biased", "unknown", "neutral")
"""In which order prompts are listed."""

SOURCES = {"prompts": "by the prompts", "generator": "by the generator", "unknown": "not known"}
"""Where a group's values come from."""

PICTURES = 240
"""Pictures per sequence."""


def show_assessment(result: GenaiAssessment, *, written: Sequence[Path] = (), console: Console | None = None) -> None:
    """Print an assessment: verdicts, then per value the least beta and the frequency, then coverage.

    Args:
        result: the assessment.
        written: files that were written.
        console: where to print; by default standard output, without colours when that is no terminal.
    """
    from rich.console import Console

    screen = Screen(console or Console())
    screen.line(f"{result.source}: {result.condition()}", style="bold")
    for sequence in result.sequences:
        screen.line()
        screen.line(f"{sequence.name}, {words.count(sequence.items, 'item', 'items')}", style="bold")
        for verdict in sequence.verdicts:
            title = _title(sequence, verdict)
            name = "" if title is None else f"{title}: "
            screen.line(f"{name}{verdict.specification}: {verdict.why}", lead=f"  {verdict.verdict:<8}  ")
        for group in sequence.groups:
            wide = max(len(value.value) for value in group.values[:SHOWN])
            screen.line(f"{group.name}{left_out(group)}", lead="  ")
            for value in group.values[:SHOWN]:
                least = "never appears" if not value.appearances else "too few items"
                if value.least_beta is not None:
                    least = f"least beta {value.least_beta}"
                screen.line(f"{least:<14} {frequency_said(value.frequency)}", lead=f"    {value.value:<{wide}}  ")
            if len(group.values) > SHOWN:
                screen.line(f"and {len(group.values) - SHOWN:,} more values", lead="    ")
        if sequence.coverage is not None:
            screen.line(coverage_said(sequence.coverage), lead="  coverage  ")
    if result.prompts is not None:
        _show_prompts(screen, result.prompts)
    if result.interrupted:
        screen.line()
        screen.line("somebody stopped it: run the same command again to go on", style="italic")
    list_entries(screen, "written", [str(path) for path in written], whole=True)


def left_out(group: GroupFinding) -> str:
    """How many items do not count for a group, in brackets; nothing if all do."""
    said = [
        f"{number:,} {why}"
        for number, why in ((group.unrecognised, "not recognised"), (group.biased, "of prompts that are not neutral"))
        if number
    ]
    return f" ({', '.join(said)})" if said else ""


def _show_prompts(screen: Screen, bias: PromptBias) -> None:
    for one in bias.dependence:
        screen.line()
        level = f"{100 * (1 - 2 * bias.error):g} % intervals of all together"
        screen.line(f"{one.group} by prompt, {bias.how} ({level})", style="bold")
        own = [finding for finding in bias.findings if finding.group == one.group]
        for finding in sorted(own, key=lambda each: ORDER.index(each.verdict))[:SHOWN]:
            screen.line(f"{finding.prompt}: {prompt_said(finding)}", lead=f"  {finding.verdict:<8}  ")
        if len(own) > SHOWN:
            screen.line(f"and {len(own) - SHOWN:,} more prompts", lead="            ")
        screen.line(one.why, lead=f"  {SOURCES[one.source]}: ")


def prompt_said(finding: PromptFinding) -> str:
    """How often a prompt shows its likeliest value, in words."""
    known = finding.probability
    if not isinstance(known, Estimated):
        return finding.why
    interval = f"{percent(known.low)} to {percent(known.high)}"
    return f"{finding.value} in {percent(known.value)} of {known.n:,} items ({interval})"


def render_assessment(result: GenaiAssessment, *, folder: Path | None = None) -> str:
    """An assessment as text of one HTML file, without script or network.

    Args:
        result: the assessment.
        folder: what the paths of pictures are relative to; without it no pictures are shown.
    """
    sequences = [_section(one, i, folder) for i, one in enumerate(result.sequences)]
    sources = {"generator": "the generator", "prompts": "the prompts", "unknown": "not known"}
    context = {
        "result": result,
        "summary": _summary(result),
        "prompts": [] if result.prompts is None else _prompts(result.prompts),
        "sequences": sequences,
        "coverage": _figure("coverage", partial(draw_coverage, result)) if _covered(result) else None,
        "sources": sources,
        "left_out": left_out,
        "lines": LINES,
        "shown": SHOWN,
        "pictures": PICTURES,
        "chart_styles": charts.stylesheet(),
    }
    return str(environment().get_template("assessment.html").render(context))


def _summary(result: GenaiAssessment) -> list[dict[str, Any]]:
    """Every verdict, with the one about neutral prompts beside it."""
    rows: list[dict[str, Any]] = []
    for i, sequence in enumerate(result.sequences):
        if sequence.prompts == "neutral":
            continue
        after = result.sequences[i + 1] if i + 1 < len(result.sequences) else None
        neutral = after.verdicts if after is not None and after.prompts == "neutral" else ()
        for k, verdict in enumerate(sequence.verdicts):
            row = {"name": sequence.name, "title": _title(sequence, verdict), "it": verdict}
            rows.append(row | {"neutral": neutral[k] if neutral else None})
    return rows


def _title(sequence: SequenceFinding, verdict: Verdict) -> str | None:
    """The name of a specification, if somebody gave it one."""
    return None if verdict.name == f"{sequence.condition}: {' + '.join(verdict.groups)}" else verdict.name


def _prompts(bias: PromptBias) -> list[dict[str, Any]]:
    """Per group: what its prompts show, those that fix a value first."""
    found = []
    for i, one in enumerate(bias.dependence):
        findings = sorted(
            (each for each in bias.findings if each.group == one.group), key=lambda each: ORDER.index(each.verdict)
        )
        drawn = bias.model_copy(update={"findings": tuple(findings)})
        figure = _figure(f"prompts-{i}", partial(draw_prompts, drawn, one.group))
        found.append(
            {"it": one, "findings": findings, "figure": figure if any(each.items for each in findings) else None}
        )
    return found


def _covered(result: GenaiAssessment) -> bool:
    return any(one.coverage is not None for one in result.sequences)


def _section(sequence: SequenceFinding, i: int, folder: Path | None) -> dict[str, Any]:
    figures = [
        _figure(f"timeline-{i}-{k}", partial(draw_timeline, group)) if i < DRAWN else None
        for k, group in enumerate(sequence.groups)
    ]
    pictures = [] if folder is None or i >= DRAWN or not sequence.files else _pictures(sequence, folder)
    return {
        "it": sequence,
        "same": sequence.prompts == "neutral" and not any(group.biased for group in sequence.groups),
        "id": f"sequence-{i + 1}",
        "groups": list(zip(sequence.groups, figures, strict=True)),
        "coverage": None if sequence.coverage is None else coverage_said(sequence.coverage),
        "pictures": pictures,
        "texts": bool(pictures) and all(picture["image"] is None for picture in pictures),
    }


def _pictures(sequence: SequenceFinding, folder: Path) -> list[dict[str, Any]]:
    """Every picture and text with what is known of it; only those that could be read."""
    shown: dict[int, list[str]] = {}
    late: dict[int, list[str]] = {}
    for group in (one for one in sequence.groups if len(one.groups) == 1):
        for value in group.values:
            for number in value.appearances:
                shown.setdefault(group.items[number - 1], []).append(value.value)
            for number in value.missed:
                late.setdefault(group.items[number - 1], []).append(value.value)
    files = sequence.files[:PICTURES]
    pairs = zip(thumbnails(files, folder), excerpts(files, folder), strict=True)
    return [
        {"number": i, "image": image, "text": text, "values": shown.get(i, []), "late": late.get(i, [])}
        for i, (image, text) in enumerate(pairs, start=1)
        if image is not None or text is not None
    ]


def _figure(name: str, draw: Callable[..., charts.Spec]) -> Figure:
    return Figure(
        wide=charts.svg(draw(width=WIDE), name=f"{name}-wide"),
        narrow=charts.svg(draw(width=NARROW), name=f"{name}-narrow"),
    )
