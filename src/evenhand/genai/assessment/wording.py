"""An assessed generator in words: what holds of the recorded items, how often values come, and how long they wait."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from evenhand.core.document import (
    Block,
    Cell,
    Column,
    Document,
    Facts,
    Figure,
    Fold,
    Heading,
    Metric,
    Note,
    ReportedNumber,
    Table,
    TableRow,
    Text,
)
from evenhand.core.text import format_count, format_duration, format_level, format_percent, list_some
from evenhand.genai.assessment.prompts import PromptBias, PromptFinding
from evenhand.genai.assessment.result import (
    GenaiAssessment,
    GroupFinding,
    SequenceFinding,
    SpecificationVerdict,
    ValueFinding,
    format_coverage,
)
from evenhand.stats.quantity import Estimated, Quantity, Unknown, show_quantity

LISTED = 12
"""Values, prompts and missed deadlines listed on a screen."""

DRAWN = 12
"""Sequences whose timelines and pictures a page has; its tables have all."""

MAX_MISSING = 200
"""Missing combinations named on a page; the JSON has all."""

SIGNS = {"holds": "\N{BLACK CIRCLE}", "violated": "\N{BLACK UP-POINTING TRIANGLE}"}
"""What stands before a verdict."""

ORDER = ("biased", "unknown", "neutral")
"""In which order prompts are listed."""

SOURCES = {"prompts": "by the prompts", "generator": "by the generator", "unknown": "not known"}
"""Where a group's values come from."""

TIMELINE = "A tick: an item that shows the value. Grey: its longest wait. Orange, from a cross on: due and not there."


def build_document(result: GenaiAssessment, folder: str | None = None) -> Document:
    """Return what recorded sequences show.

    Args:
        result: the assessment.
        folder: what the paths of pictures are relative to; without it no pictures are shown.
    """
    recorded = [one for one in result.sequences if one.prompts != "neutral"]
    blocks: list[Block] = []
    if result.interrupted:
        blocks.append(
            Note("Interrupted: the items that were there by then are judged. The same command goes on.", "caution")
        )
    blocks += _finding(result)
    blocks.append(_verdict_table(result))
    if result.prompts is not None:
        blocks += _prompt_blocks(result.prompts)
    for i, sequence in enumerate(result.sequences):
        blocks += _sequence_blocks(result, sequence, i, folder)
    if any(one.coverage is not None for one in result.sequences):
        blocks += _coverage_blocks(result)
    blocks += [Heading("How it was done", anchor="method", detail=True), _method_facts(result)]
    return Document(
        f"{result.source}: {result.condition()}",
        "Who appears, how often, and how soon again, in what a generator answered: "
        f"{format_count(len(recorded), 'sequence', 'sequences')}.",
        tuple(blocks),
        brand="Evenhand, generative AI",
        made=f"Made by evenhand {result.evenhand}, in {format_duration(result.seconds)}.",
    )


def describe_left_out(group: GroupFinding) -> str:
    """Return how many items do not count for a group, in brackets; nothing if all do."""
    others = [f"{label!r} in {number:,}" for label, number in group.outside.items()]
    counted = (
        (sum(group.outside.values()), f"with labels that are not among the values: {list_some(others, LISTED)}"),
        (group.fixed, "whose prompt fixes it"),
        (group.unrecognised, "not recognised"),
        (group.biased, "of prompts that are not neutral"),
    )
    said = [f"{number:,} {why}" for number, why in counted if number]
    return f" ({'; '.join(said)})" if said else ""


def _mark(verdict: str) -> str:
    return f"{SIGNS[verdict]}\N{NO-BREAK SPACE}{verdict}" if verdict in SIGNS else verdict


def _finding(result: GenaiAssessment) -> Iterator[Text]:
    """Yield how many specifications hold, and which values are at fault most often."""
    found = [verdict for one in result.sequences if one.prompts != "neutral" for verdict in one.verdicts]
    broken = [verdict for verdict in found if verdict.verdict == "violated"]
    fault = Counter(value for verdict in broken for value in verdict.at_fault)
    said = f"{len(broken)} of {format_count(len(found), 'specification', 'specifications')} do not hold (observed)"
    worst = [f"{value} ({number})" for value, number in fault.most_common(3)]
    if found:
        yield Text(f"{said}{f'; missed or absent most often: {list_some(worst)}' if worst else ''}.", role="finding")


def _verdict_table(result: GenaiAssessment) -> Table:
    """Return every verdict, with the one about neutral prompts beside it."""
    neutral = result.prompts is not None
    rows: list[TableRow] = []
    for i, sequence in enumerate(result.sequences):
        if sequence.prompts == "neutral":
            continue
        rows.append(TableRow((f"{sequence.name}, {format_count(sequence.items, 'item', 'items')}",), heading=True))
        after = result.sequences[i + 1] if i + 1 < len(result.sequences) else None
        beside = after.verdicts if after is not None and after.prompts == "neutral" else ()
        for k, verdict in enumerate(sequence.verdicts):
            title = _specification_title(sequence, verdict)
            said = f"{f'{title}: ' if title else ''}{verdict.specification}: {verdict.why}"
            if beside:
                said += f"; of neutral prompts: {beside[k].why}"
            more = (_mark(beside[k].verdict) if beside else "",) if neutral else ()
            rows.append(TableRow((_mark(verdict.verdict), *more, said)))
    columns = (Column("verdict"), *((Column("of neutral prompts"),) if neutral else ()), Column("specification"))
    return Table("What holds of the recorded items, observed", columns, tuple(rows))


def _specification_title(sequence: SequenceFinding, verdict: SpecificationVerdict) -> str | None:
    """Return the name of a specification, if somebody gave it one."""
    return None if verdict.name == f"{sequence.condition}: {' + '.join(verdict.groups)}" else verdict.name


def _sequence_blocks(result: GenaiAssessment, sequence: SequenceFinding, i: int, folder: str | None) -> Iterator[Block]:
    yield Heading(sequence.name, anchor=f"sequence-{i + 1}")
    if sequence.prompts == "neutral" and not any(group.biased for group in sequence.groups):
        yield Text("Every prompt is neutral for every group here: all items count, as above.")
        return
    for group in sequence.groups:
        if sequence.prompts == "neutral" and group.biased == 0:
            yield Text(f"{group.name}: no prompt fixes it, so all items count, as above.")
            continue
        if i < DRAWN:
            yield Figure("appearances", TIMELINE, group)
        yield _value_table(result, group)
        yield Fold(f"How far frequencies of {group.name} differ", (_difference_table(group),))
    if folder is not None and i < DRAWN and sequence.files:
        texts = all(Path(file).suffix.lower() == ".txt" for file in sequence.files if file)
        yield Heading("Texts" if texts else "Pictures", level=3, detail=True)
        yield Figure(
            "items",
            "In the order of the requests. Outlined: a value was due at the latest here, and did not come.",
            sequence,
            (folder,),
        )


def _value_table(result: GenaiAssessment, group: GroupFinding) -> Table:
    columns = [
        Column("value"),
        Column("items", numeric=True),
        Column("frequency", numeric=True),
        Column("longest wait", numeric=True),
    ]
    due = any(value.beta is not None for value in group.values)
    if due:
        columns += [Column("asked for", numeric=True), Column("missed", numeric=True), Column("missed at")]
    rows = []
    for value in group.values:
        cells: list[Cell] = [
            value.value,
            len(value.appearances),
            show_quantity(value.frequency, "frequency"),
            _longest_wait(value),
        ]
        if due:
            missed = [str(group.items[number - 1]) for number in value.missed]
            cells += ["" if value.beta is None else value.beta, len(missed), list_some(missed, LISTED)]
        rows.append(TableRow(tuple(cells)))
    recognised = format_count(len(group.items), "recognised item", "recognised items")
    return Table(
        f"{group.name}, observed on {recognised}{describe_left_out(group)}, with {format_level(result.confidence)} "
        "intervals",
        tuple(columns),
        tuple(rows),
        usual="observed",
        listed=LISTED,
    )


def _longest_wait(value: ValueFinding) -> str:
    if value.smallest_beta is not None:
        return format_count(value.smallest_beta, "item", "items")
    return "too few items" if value.appearances else "never appears"


def _difference_table(group: GroupFinding) -> Table:
    longest = "-" if group.smallest_beta is None else format_count(group.smallest_beta, "item", "items")
    none = "a value never appears, or there are too few items"
    rows: list[tuple[str, str | ReportedNumber]] = [
        (
            "longest wait of any value",
            ReportedNumber(longest, group.smallest_beta, "observed")
            if group.smallest_beta is not None
            else ReportedNumber("-", kind="unknown", basis=none),
        )
    ]
    bounds: tuple[tuple[str, Quantity], ...] = (
        ("largest difference of two frequencies", group.difference),
        ("that difference at most, in these items", group.bound_here),
        ("that difference at most, in the long run", group.bound),
    )
    rows += [(name, show_quantity(quantity, "frequency")) for name, quantity in bounds]
    return Table(
        f"{group.name}: differences, and what a longest wait proves of them",
        (Column("number"), Column("value", numeric=True)),
        tuple(TableRow(row) for row in rows),
        usual="observed",
        tiles=True,
    )


def _prompt_blocks(bias: PromptBias) -> Iterator[Block]:
    yield Heading("Prompts", anchor="prompts")
    how = (
        "Here prompts were judged by their words."
        if bias.how == "judged"
        else f"Here prompts were repeated: biased is one that shows one value at least {format_percent(bias.bar)} of "
        "the time, neutral one that shows every value less often. All verdicts together are wrong with probability "
        f"{format_percent(bias.error)} at most. Prompts of which it is not known do not count as neutral. An estimate "
        "cannot tell a prompt that fixes a value from a generator that always shows it: compare the prompts."
    )
    yield Text(
        "A prompt is biased for a group if it fixes the group\u2019s value: then its items say nothing about the "
        f"generator, and do not count under \u201cof neutral prompts\u201d. {how}",
        role="small",
    )
    for one in bias.dependence:
        findings = sorted(
            (each for each in bias.findings if each.group == one.group), key=lambda each: ORDER.index(each.verdict)
        )
        yield Heading(one.group, level=3, detail=False)
        yield Text(f"Where the values come from: {SOURCES[one.source]}. {one.why[:1].upper()}{one.why[1:]}.")
        if any(each.items for each in findings):
            ordered = bias.model_copy(update={"findings": tuple(findings)})
            yield Figure(
                "prompts", "How often each prompt shows each value, of its recognised items.", ordered, (one.group,)
            )
        yield _prompt_table(bias, one.group, findings)
        if not isinstance(one.difference, Unknown):
            which = "neutral prompts" if bias.how == "judged" else "prompts"
            on = format_count(one.difference.n, "item", "items") if isinstance(one.difference, Estimated) else "items"
            number = show_quantity(one.difference, "frequency", basis=f"on {on}")
            yield Metric(f"largest difference between two {which}", number, (f"in how often {one.value} comes",))


def _prompt_table(bias: PromptBias, group: str, findings: list[PromptFinding]) -> Table:
    columns = (
        Column("prompt"),
        Column("verdict"),
        Column("value"),
        Column("its probability", numeric=True),
        Column("items", numeric=True),
        Column("why"),
    )
    rows = []
    for finding in findings:
        more = f"; {finding.unrecognised:,} items not recognised" if finding.unrecognised else ""
        rows.append(
            TableRow(
                (
                    finding.prompt,
                    finding.verdict,
                    finding.value or "",
                    show_quantity(finding.probability, "frequency"),
                    finding.items,
                    f"{finding.why}{more}",
                )
            )
        )
    return Table(
        f"{group} by prompt, {bias.how}: the value that each prompt shows most often, estimated with "
        f"{format_level(1 - 2 * bias.error)} intervals of all together",
        columns,
        tuple(rows),
        usual="estimated",
        listed=LISTED,
    )


def _coverage_blocks(result: GenaiAssessment) -> Iterator[Block]:
    yield Heading("Combinations", anchor="coverage")
    yield Figure(
        "coverage", "How many of the combinations of values of different groups have appeared, item by item.", result
    )
    known = [(one.name, one.coverage) for one in result.sequences if one.coverage is not None]
    yield Table(
        "Combinations of values, observed",
        (Column("sequence"), Column("missing", numeric=True), Column("seen")),
        tuple(TableRow((name, len(coverage.missing), format_coverage(coverage))) for name, coverage in known),
    )
    for name, coverage in known:
        if coverage.missing:
            missing = [" + ".join(one.values) for one in coverage.missing]
            yield Fold(
                f"{name}: {format_count(len(missing), 'missing combination', 'missing combinations')}",
                (Text(list_some(missing, MAX_MISSING)),),
            )


def _method_facts(result: GenaiAssessment) -> Facts:
    entries = [
        (
            "items",
            f"those asked for {result.condition()}, in the order of the requests; items whose value is not recognised, "
            "not among the values, or fixed by the prompt are left out, and the others numbered",
        ),
        (
            "within beta",
            "a value comes among the first beta items, and after each appearance among the next beta; while it stays "
            "away, every beta items are one more deadline missed. A deadline after the last item violates nothing, and "
            "a sequence no longer than beta shows nothing",
        ),
        ("longest wait", "the smallest beta with which that holds of the recorded items"),
        (
            "intervals",
            f"exact (Clopper and Pearson) at {format_level(result.confidence)}, as for items drawn independently, "
            "which those of a generator that was told to vary are not; for the difference, of all values together "
            "(Bonferroni)",
        ),
        (
            "proved",
            "with n values and equal beta every value has a frequency of at least 1/beta in the long run, so two "
            "differ by at most 1 - n/beta",
        ),
    ]
    if result.prompts is not None:
        level = format_level(1 - result.prompts.error)
        entries.append(
            (
                "prompts",
                f"probabilities by bets that are valid however often one looks, each end at {level}, all prompts and "
                "groups together (Bonferroni); differences between prompts by mixture likelihood ratios at "
                f"{level}, likewise. Items of one prompt are taken to be made independently of each other",
            )
        )
    entries.append(("labels", "as given: how well they were recognised is not judged here"))
    return Facts(tuple(entries))
