"""Document of the assessment of a generator: verdicts, frequencies and longest waits."""

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
    ValueFinding,
    format_coverage,
)
from evenhand.stats.quantity import show_quantity

LISTED = 12
"""Maximum number of values, prompts and missed deadlines listed on a screen."""

DRAWN = 12
"""Maximum number of sequences with timelines and pictures. The tables contain all sequences."""

MAX_MISSING = 200
"""Maximum number of missing combinations listed on a page. The JSON contains all of them."""

SIGNS = {"holds": "\N{BLACK CIRCLE}", "violated": "\N{BLACK UP-POINTING TRIANGLE}"}
"""Sign of each verdict."""

VERDICT_ORDER = ("biased", "unknown", "neutral")
"""Order of prompts by their verdict."""

TIMELINE = "A tick: an item that shows the value. Grey: its longest wait. Orange, starting at a cross: overdue."


def build_document(result: GenaiAssessment, folder: str | None = None) -> Document:
    """Describe an assessment. If the folder of the files is None, items are not shown."""
    recorded = [sequence for sequence in result.sequences if sequence.prompts != "neutral"]
    blocks: list[Block] = []
    if result.interrupted:
        blocks.append(
            Note("Interrupted: only the existing items are assessed. Repeat the command to continue.", "caution")
        )
    blocks += [*_finding(recorded), _verdict_table(result)]
    if result.prompts is not None:
        blocks += _prompt_blocks(result.prompts)
    for i, sequence in enumerate(result.sequences):
        blocks += _sequence_blocks(result, sequence, i, folder)
    if any(sequence.coverage is not None for sequence in result.sequences):
        blocks += _coverage_blocks(result)
    blocks += [Heading("Method", anchor="method", detail=True), _method_facts(result)]
    return Document(
        f"{result.source}: {result.condition()}",
        "Frequencies and absences of values in the items of a generator: "
        f"{format_count(len(recorded), 'sequence', 'sequences')}.",
        tuple(blocks),
        brand="Evenhand, generative AI",
        made=f"Made by evenhand {result.evenhand}, in {format_duration(result.seconds)}.",
    )


def describe_left_out(group: GroupFinding) -> str:
    """Describe the items that are not counted for a group, in parentheses. Empty if there are none."""
    labels = list_some([f"{label!r} in {number:,}" for label, number in group.outside.items()], LISTED)
    counts = (
        (sum(group.outside.values()), f"with labels that are not values: {labels}"),
        (group.fixed, "whose prompt fixes it"),
        (group.unrecognised, "not recognised"),
        (group.biased, "of prompts that are not neutral"),
    )
    reasons = [f"{number:,} {reason}" for number, reason in counts if number]
    return f" ({'; '.join(reasons)})" if reasons else ""


def _mark(verdict: str) -> str:
    return f"{SIGNS[verdict]}\N{NO-BREAK SPACE}{verdict}" if verdict in SIGNS else verdict


def _finding(sequences: list[SequenceFinding]) -> Iterator[Text]:
    """Yield the number of violated specifications, and the values most often responsible."""
    verdicts = [verdict for sequence in sequences for verdict in sequence.verdicts]
    violated = [verdict for verdict in verdicts if verdict.verdict == "violated"]
    worst = Counter(value for verdict in violated for value in verdict.at_fault).most_common(3)
    if verdicts:
        text = f"{len(violated)} of {format_count(len(verdicts), 'specification', 'specifications')} do not hold"
        names = list_some([f"{value} ({number})" for value, number in worst])
        yield Text(f"{text} (observed){f'; missed or absent most often: {names}' if worst else ''}.", role="finding")


def _verdict_table(result: GenaiAssessment) -> Table:
    """List every verdict, with the verdict for neutral prompts."""
    rows: list[TableRow] = []
    for i, sequence in enumerate(result.sequences):
        if sequence.prompts == "neutral":
            continue
        rows.append(TableRow((f"{sequence.name}, {format_count(sequence.items, 'item', 'items')}",), heading=True))
        following = result.sequences[i + 1 : i + 2]
        neutral = following[0].verdicts if following and following[0].prompts == "neutral" else ()
        for k, verdict in enumerate(sequence.verdicts):
            # A name that is derived from the groups says nothing else than the specification.
            derived = verdict.name in (None, "", f"{sequence.condition}: {' + '.join(verdict.groups)}")
            text = f"{'' if derived else f'{verdict.name}: '}{verdict.specification}: {verdict.why}"
            if neutral:
                text += f"; of neutral prompts: {neutral[k].why}"
            more = (_mark(neutral[k].verdict) if neutral else "",) if result.prompts is not None else ()
            rows.append(TableRow((_mark(verdict.verdict), *more, text)))
    names = ("verdict", *(["of neutral prompts"] if result.prompts is not None else []), "specification")
    return Table("Verdicts on the recorded items, observed", tuple(map(Column, names)), tuple(rows))


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
        yield Fold(f"Differences between frequencies of {group.name}", (_difference_table(group),))
    if folder is not None and i < DRAWN and sequence.files:
        texts = all(Path(file).suffix.lower() == ".txt" for file in sequence.files if file)
        yield Heading("Texts" if texts else "Pictures", level=3, detail=True)
        caption = "In the order of the requests. Outlined: a value was due by this item and did not appear."
        yield Figure("items", caption, sequence, (folder,))


def _value_table(result: GenaiAssessment, group: GroupFinding) -> Table:
    has_deadlines = any(value.beta is not None for value in group.values)
    names = ("items", "frequency", "longest wait", *(["deadline", "missed"] if has_deadlines else []))
    columns = [Column("value"), *(Column(name, numeric=True) for name in names)]
    rows = []
    for value in group.values:
        cells: list[Cell] = [
            value.value,
            len(value.appearances),
            show_quantity(value.frequency, "frequency"),
            _format_longest_wait(value),
        ]
        if has_deadlines:
            missed = [str(group.items[number - 1]) for number in value.missed]
            cells += ["" if value.beta is None else value.beta, len(missed), list_some(missed, LISTED)]
        rows.append(TableRow(tuple(cells)))
    recognised = format_count(len(group.items), "recognised item", "recognised items")
    return Table(
        f"{group.name}, observed on {recognised}{describe_left_out(group)}, with {format_level(result.confidence)} "
        "intervals",
        (*columns, *((Column("missed at"),) if has_deadlines else ())),
        tuple(rows),
        usual="observed",
        listed=LISTED,
    )


def _format_longest_wait(value: ValueFinding) -> str:
    if value.smallest_beta is not None:
        return format_count(value.smallest_beta, "item", "items")
    return "too few items" if value.appearances else "never appears"


def _difference_table(group: GroupFinding) -> Table:
    longest = ReportedNumber("-", kind="unknown", basis="a value never appears, or there are too few items")
    if group.smallest_beta is not None:
        longest = ReportedNumber(format_count(group.smallest_beta, "item", "items"), group.smallest_beta, "observed")
    rows = (
        ("longest wait of any value", longest),
        ("largest difference of two frequencies", show_quantity(group.difference, "frequency")),
        ("bound on that difference in these items", show_quantity(group.bound_here, "frequency")),
        ("bound on that difference in the long run", show_quantity(group.bound, "frequency")),
    )
    return Table(
        f"{group.name}: differences, and their bounds by the longest wait",
        (Column("number"), Column("value", numeric=True)),
        tuple(map(TableRow, rows)),
        usual="observed",
        tiles=True,
    )


def _prompt_blocks(bias: PromptBias) -> Iterator[Block]:
    yield Heading("Prompts", anchor="prompts")
    how = (
        "Here prompts were judged by their words."
        if bias.how == "judged"
        else f"Here prompts were repeated. A prompt is biased if it shows one value at least "
        f"{format_percent(bias.bar)} of the time, and neutral if it shows every value less often. The probability "
        f"that any verdict is wrong is at most {format_percent(bias.error)}. Prompts with an unknown verdict are not "
        "counted as neutral. Estimates do not distinguish a prompt that fixes a value from a generator that always "
        "shows it."
    )
    yield Text(
        "A prompt is biased for a group if it fixes the value of the group. Its items then do not characterise the "
        f"generator, and are not counted under \u201cof neutral prompts\u201d. {how}",
        role="small",
    )
    for group in dict.fromkeys(finding.group for finding in bias.findings):
        findings = [finding for finding in bias.findings if finding.group == group]
        findings.sort(key=lambda finding: VERDICT_ORDER.index(finding.verdict))
        yield Heading(group, level=3, detail=False)
        if any(finding.items for finding in findings):
            ordered = bias.model_copy(update={"findings": tuple(findings)})
            yield Figure("prompts", "Share of each value among the recognised items of each prompt.", ordered, (group,))
        yield _prompt_table(bias, group, findings)


def _prompt_table(bias: PromptBias, group: str, findings: list[PromptFinding]) -> Table:
    numeric = ("its probability", "items")
    names = ("prompt", "verdict", "value", *numeric, "why")
    rows = []
    for finding in findings:
        more = f"; {finding.unrecognised:,} items not recognised" if finding.unrecognised else ""
        probability = show_quantity(finding.probability, "frequency")
        value = finding.value or ""
        cells = (finding.prompt, finding.verdict, value, probability, finding.items, f"{finding.why}{more}")
        rows.append(TableRow(cells))
    return Table(
        f"{group} by prompt, {bias.how}: most frequent value of each prompt, estimated with joint "
        f"{format_level(1 - 2 * bias.error)} intervals",
        tuple(Column(name, numeric=name in numeric) for name in names),
        tuple(rows),
        usual="estimated",
        listed=LISTED,
    )


def _coverage_blocks(result: GenaiAssessment) -> Iterator[Block]:
    yield Heading("Combinations", anchor="coverage")
    yield Figure("coverage", "Share of the combinations of values that have appeared, item by item.", result)
    covered = [(sequence.name, sequence.coverage) for sequence in result.sequences if sequence.coverage is not None]
    yield Table(
        "Combinations of values, observed",
        (Column("sequence"), Column("missing", numeric=True), Column("seen")),
        tuple(TableRow((name, len(coverage.missing), format_coverage(coverage))) for name, coverage in covered),
    )
    for name, coverage in covered:
        if coverage.missing:
            missing = [" + ".join(combination.values) for combination in coverage.missing]
            count = format_count(len(missing), "missing combination", "missing combinations")
            yield Fold(f"{name}: {count}", (Text(list_some(missing, MAX_MISSING)),))


def _method_facts(result: GenaiAssessment) -> Facts:
    entries = [
        (
            "items",
            f"items requested for {result.condition()}, in the order of the requests; items whose value is not "
            "recognised, not among the values, or fixed by the prompt are excluded, and the others are numbered",
        ),
        (
            "within beta",
            "a value appears among the first beta items, and after each appearance among the next beta items; every "
            "beta items of its absence are a missed deadline. A deadline after the last item is not missed, and a "
            "sequence of at most beta items is inconclusive",
        ),
        ("longest wait", "the smallest beta for which this holds for the recorded items"),
        (
            "intervals",
            f"exact (Clopper and Pearson) at {format_level(result.confidence)} for independent items, which those of a "
            "generator told to vary its items are not; for the difference, jointly for all values (Bonferroni)",
        ),
        (
            "proved",
            "with n values and equal beta, every value has a frequency of at least 1/beta in the long run, so two "
            "differ by at most 1 - n/beta",
        ),
    ]
    if result.prompts is not None:
        level = format_level(1 - result.prompts.error)
        entries.append(
            (
                "prompts",
                f"probabilities by betting intervals that are valid at any time, each end at {level}, jointly for all "
                "prompts and groups (Bonferroni). The items of one prompt are assumed to be independent",
            )
        )
    entries.append(("labels", "as given; errors of recognition are not assessed here"))
    return Facts(tuple(entries))
