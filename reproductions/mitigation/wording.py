"""The mitigation tables in words: gaps before and after, and classifiers, published figures beside ours."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from evenhand.core import Block, Column, Document, Facts, Heading, Note, ReportedNumber, Table, TableRow, Text
from evenhand.text import format_count
from reproductions.mitigation import tables
from reproductions.mitigation.record import MitigationRecord
from reproductions.mitigation.tables import format_share, method_label
from reproductions.shields import published as shields


def build_document(found: MitigationRecord) -> Document:
    """Return both tables, as far as they were made."""
    settings = found.settings
    blocks: list[Block] = [Note(said, "caution") for said in describe_left_out(found.left_out)]
    if found.interrupted:
        blocks.append(Note("Interrupted: what is here was complete before.", "caution"))
    means = "; means over the runs" if settings.runs > 1 else ""
    blocks += [
        Text(items=tuple(f"{said}." for said in describe_halvings(found)), role="finding"),
        Text(f"All figures are observed, in percent, unless they are called published{means}."),
    ]
    if found.mended:
        blocks += _subgroup_blocks(found)
    if found.classifiers:
        blocks += _classifier_blocks(found)
    blocks += [Heading("How it was done", anchor="method", detail=True), _method_facts(found)]
    if found.notes:
        blocks += [
            Heading("Where our data differ", level=3),
            Text(items=tuple(f"{name}: {note}" for name, note in found.notes.items())),
        ]
    done = len(found.mended) + len(found.classifiers)
    return Document(
        "Mitigation, made again",
        f"What retraining makes of the widest subgroup gap ({tables.PAPER}), and classifiers trained to be fair "
        f"(Fairness Shields, {shields.WHERE}). {done:,} of {found.wanted:,} entries, "
        f"{format_count(settings.runs, 'run', 'runs')} each.",
        tuple(blocks),
        brand="Evenhand reproduce",
        made=found.provenance,
    )


def describe_halvings(found: MitigationRecord) -> list[str]:
    """Return how often each method halved the gap for less than a point, a sentence each."""
    return [
        f"{one.method}: the gap at least halved for less than a point of accuracy on {len(one.cases)} of {one.of} data "
        f"sets on people kept aside" + (f" ({', '.join(one.cases)})" if one.cases else "")
        + f", on {len(one.paper)} as the paper counts"
        for one in tables.count_halvings(found)
        if one.of
    ]  # fmt: skip


def _subgroup_blocks(found: MitigationRecord) -> Iterator[Block]:
    yield Heading("Subgroups")
    yield Text(
        "The gap is how far the rate of favourable decisions in the subgroup lies from that of everybody else: on "
        "people kept aside, on the training set, and on perturbed samples around it, as the paper counts."
    )
    rows = []
    for row in tables.subgroup_rows(found):
        known = row.published
        low, high = row.low, row.high
        ends = "" if low is None or high is None else f"{format_share(low)} to {format_share(high)}"
        rows.append(
            TableRow(
                (
                    f"{row.case}, {method_label(row.method)}",
                    format_share(row.accuracy),
                    ReportedNumber(format_share(row.gap), row.gap, "observed", low, high, ends),
                    beside_published(format_share(row.learnt_accuracy), known.accuracy if known else None, 1),
                    format_share(row.learnt_gap),
                    beside_published(format_share(row.sampled_gap), known.gap if known else None, 1),
                    beside_published(format_share(row.rate), known.inside if known else None, 1),
                    beside_published(format_share(row.rest_rate), known.rest if known else None, 1),
                )
            )
        )
    names = ("accuracy, kept aside", "gap, kept aside", "accuracy, training set", "gap, training set", "gap, sampled",
             "inside", "outside")  # fmt: skip
    yield Table(
        f"Before and after, observed; published figures ({tables.RETRAINED_PLACE}), which do not say about which "
        "people they are beyond samples around the data, in brackets. Intervals are for the signed difference inside "
        "minus outside, for people like these",
        (Column("data set, method"), *numeric_columns(names)),
        tuple(rows),
        usual="observed",
    )
    yield Heading("Which subgroups", level=3)
    entries = []
    for case in dict.fromkeys(one.case for one in found.mended):
        known_case = tables.RETRAINED[case]
        note = f" ({known_case.note})" if known_case.note else ""
        ours = "; ".join(
            words + (f" ({times} runs)" if times > 1 else "") for words, times in tables.subgroups_found(found, case)
        )
        entries.append((case, f"{ours}. Published: {known_case.words}{note}."))
    yield Facts(tuple(entries))
    left_out = tables.list_left_out(found)
    if left_out:
        yield Heading("What could not be used", level=3)
        yield Text(items=tuple(f"{case}, {name}: {why}" for case, name, why in left_out))


def _classifier_blocks(found: MitigationRecord) -> Iterator[Block]:
    yield Heading("Classifiers")
    fields = ("accuracy", "demographic_parity", "equal_opportunity")
    yield Table(
        f"On people the classifier was not trained on, observed; published figures ({shields.CLASSIFIED_PLACE}) in "
        "brackets",
        (Column("environment: classifier"), *numeric_columns(("accuracy", "gap (DP)", "gap (EqOpp)"))),
        tuple(
            TableRow(
                (
                    f"{row.environment}: {row.classifier}",
                    *(
                        beside_published(
                            format_share(getattr(row, name)), getattr(row.published, name) if row.published else None, 1
                        )
                        for name in fields
                    ),
                )
            )
            for row in tables.classifier_rows(found)
        ),
    )


def _method_facts(found: MitigationRecord) -> Facts:
    settings = found.settings
    hidden = " x ".join(str(size) for size in settings.hidden)
    layers = " x ".join(str(size) for size in settings.layers)
    return Facts((
        ("networks", f"hidden layers {hidden} and the decision, trained on 60 % of the people by Adam in batches of "
         f"{settings.batch_size}, {settings.epochs} times over everybody (at least {settings.least_steps:,} steps); "
         "the paper says no more than six layers. One that gives everybody the same label is begun again"),
        ("people", "60 % to learn from, 20 % to choose on, 20 % kept aside until the end; subgroups are searched on "
         "the first two"),
        ("subgroups", "the widest gap that is significant after adjustment over all rule sets with "
         f"{100 * settings.support:g} % of the people, and the widest at all where none is"),
        ("retraining", "samples of the subgroup with the opposite label, 50 at first, up to 10 % of the training "
         "set; how many is selected on the validation set"),
        ("samples", f"{settings.samples:,} people inside and outside, one attribute that is not sensitive moved one "
         "step, as the paper draws them"),
        ("classifiers", f"hidden layers {layers}, trained on 40 % of the people as for the shields; they do not see "
         "the attribute whose groups are compared"),
    ))  # fmt: skip


def describe_left_out(reasons: Mapping[str, str]) -> list[str]:
    """Return which classifiers are missing, and why.

    >>> describe_left_out({"HSIC": "no torch", "PR": "no torch"})
    ['Left out: HSIC, PR: no torch']
    """
    return [
        f"Left out: {', '.join(name for name, own in reasons.items() if own == why)}: {why}"
        for why in dict.fromkeys(reasons.values())
    ]


def beside_published(own: str, theirs: float | None, digits: int = 2) -> str:
    """Return a figure with the published one in brackets, where there is one."""
    return own if theirs is None else f"{own} ({theirs:.{digits}f})"


def numeric_columns(names: Sequence[str]) -> Iterator[Column]:
    """Yield columns of numbers."""
    return (Column(name, numeric=True) for name in names)
