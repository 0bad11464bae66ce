"""The audit of a number in words: the first screen, who is in the data, what each part found, how it was done."""

from __future__ import annotations

from collections.abc import Iterator

from evenhand.auditing.method import interval_methods, schema_rows, title_document
from evenhand.auditing.result import AuditResult
from evenhand.certification.certificate.result import proof_answers, proof_blocks
from evenhand.core.document import (
    Block,
    Column,
    Document,
    Facts,
    Fold,
    Heading,
    Note,
    ReportedNumber,
    Table,
    TableRow,
    Text,
)
from evenhand.core.text import SIMULATED, format_count, format_duration, format_percent
from evenhand.groups.wording.numbers import describe_outcome, number_answers, number_blocks, number_sentences
from evenhand.groups.wording.tables import describe_weights, label_notes, small_group_notes
from evenhand.individual.number_wording import change_answers, change_blocks
from evenhand.subgroups.result import SubgroupResult
from evenhand.subgroups.wording import (
    comparison_group,
    describe_rate,
    describe_significant,
    method_facts,
    subgroup_blocks,
    worst_answer,
)

FINDINGS = 3
"""Sentences at the top, at most."""

TERMS = (
    "Gap of the means: how far the mean numbers of the highest and the lowest group are apart. Wasserstein distance: "
    "how far the numbers of one group must be moved, on average, to be distributed as those of another. Residual: the "
    "decided number minus the true one."
)


def build_document(audit: AuditResult) -> Document:
    """Return what the audit of a number says."""
    blocks: list[Block] = [Note(audit.model.caution, "caution")] if audit.model.caution else []
    if audit.groups.weights is not None and not audit.model.recorded:
        blocks.append(
            Note(
                f"Weights ({audit.groups.weights}) are in what is said of groups and subgroups. Changes of individuals "
                "and proofs count every person alike: they are unweighted."
            )
        )
    blocks += label_notes(audit.groups.label_coverage, audit.groups.breakdowns, truth="number")
    found = number_sentences(audit.groups)[:FINDINGS]
    blocks += [Text(items=tuple(found), role="finding")] if found else []
    blocks += number_answers(audit.groups)
    blocks += [worst_answer(searched) for searched in _searches(audit)]
    if audit.changes is not None:
        blocks += change_answers(audit.changes)
    for certificate in audit.certificates:
        blocks += proof_answers(certificate)
    blocks.append(Note(_taken_for(audit)))
    blocks += [Note(f"Not run: {item.what}: {item.reason}", "caution") for item in audit.not_run]
    blocks += small_group_notes(audit.groups.breakdowns, audit.groups.too_few)
    blocks.append(Text(TERMS, role="small"))
    for part in (_people, _groups, _individuals, _proof, _subgroups, _method):
        blocks += part(audit)
    return title_document(audit, describe_outcome(audit.groups), blocks)


def _taken_for(audit: AuditResult) -> str:
    """Say what the decision was taken for, and how to say otherwise."""
    target = audit.described.target
    wanted = "" if target.favourable != "neither" else " Whether people want it high or low was not said (favourable)."
    scores = (
        " If it is a score that a decision is made of, audit it with its threshold." if audit.model.recorded else ""
    )
    return f"{target.name} was taken for a number. If it holds labels, say so: kind label.{scores}{wanted}"


def _people(audit: AuditResult) -> Iterator[Block]:
    data = audit.data
    yield Heading("Who is in the data", anchor="people", detail=True)
    asked = "Whether the model was trained on these people is not known."
    if audit.model.recorded:
        asked = "The numbers are those in the data; no model was asked."
    yield Text(f"{format_count(data.people, 'person', 'people')} in {data.name}. {asked}")
    if audit.groups.weights is not None:
        yield Facts((describe_weights(audit.groups),))
    for breakdown in (one for one in audit.groups.breakdowns if len(one.by) == 1):
        rows = tuple(
            TableRow(
                (
                    group.label,
                    group.size,
                    ReportedNumber(format_percent(group.size / data.people), group.size / data.people, "observed"),
                ),
                faint=group.small,
            )
            for group in breakdown.groups
        )
        columns = (Column(breakdown.by[0]), Column("people", numeric=True), Column("share", numeric=True, bar=True))
        yield Table(f"People by {breakdown.by[0]}, observed", columns, rows, usual="observed")
    described = schema_rows(audit.described)
    table = Table(
        f"The attributes that {'groups are made by' if audit.model.recorded else 'the model sees'}, and the values "
        "each can take (the domain)",
        (Column("attribute"), Column("type"), Column("domain"), Column("a missing value is")),
        tuple(
            TableRow((f"{row.name} (protected)" if row.protected else row.name, row.kind, row.domain, row.missing))
            for row in described
        ),
    )
    yield Fold(f"Data schema: {format_count(len(described), 'attribute', 'attributes')}", (table,))


def _groups(audit: AuditResult) -> Iterator[Block]:
    yield Heading("Groups", anchor="groups", detail=True)
    yield Text("How numbers are distributed over groups. Everything here is observed on the people in the data.")
    yield from number_blocks(audit.groups, level=3)


def _individuals(audit: AuditResult) -> Iterator[Block]:
    if audit.changes is None:
        return
    yield Heading("Individuals", anchor="individuals", detail=True)
    yield Text(
        "By how much a person\u2019s number changes with another value of the protected attribute and everything else "
        "unchanged (with a schema\u2019s rules: between plausible counterparts)."
    )
    yield from change_blocks(audit.changes)


def _proof(audit: AuditResult) -> Iterator[Block]:
    if not audit.certificates:
        return
    yield Heading("Proof", anchor="proof", detail=True)
    yield Text(
        f"For which share of {SIMULATED} the number provably changes by at most {audit.certificates[0].tolerance:g}, "
        "or by more, where nothing but the protected attributes changes."
    )
    yield from proof_blocks(audit.certificates)


def _searches(audit: AuditResult) -> list[SubgroupResult]:
    """Return the searches for subgroups: by mean, and by mean residual where true numbers are known."""
    return [searched for searched in (audit.subgroups, audit.residual_subgroups) if searched is not None]


def _subgroups(audit: AuditResult) -> Iterator[Block]:
    for searched in _searches(audit):
        residual = searched is audit.residual_subgroups
        anchor = "subgroups-residual" if residual else "subgroups"
        yield Heading(f"Subgroups by {describe_rate(searched)}", anchor=anchor, detail=True)
        yield Text(
            f"Which people, described by {'these' if audit.model.recorded else 'the protected'} attributes together, "
            f"depart from {comparison_group(searched)} in the {describe_rate(searched)}? {searched.tested:,} different "
            f"subgroups were tested; {searched.found:,} are significant after adjustment, "
            f"{describe_significant(searched)}. Everything here is observed on the people in the data; intervals are "
            "simultaneous over all of these subgroups."
        )
        if not searched.findings:
            yield Note("No subgroup is large enough to be tested.")
        yield from subgroup_blocks(searched, level=3)
        yield Heading("How subgroups were searched for", level=3)
        yield method_facts(searched)


def _method(audit: AuditResult) -> Iterator[Block]:
    model = audit.model
    yield Heading("How it was done", anchor="method", detail=True)
    asked = "the model that decided them was not asked" if model.recorded else model.type
    yield Facts(
        (
            ("Numbers" if model.recorded else "Model", f"{model.name} ({asked})"),
            ("Data", f"{audit.data.name}, SHA-256 of individuals and numbers as read: {audit.data.fingerprint}"),
            ("Time", f"{format_duration(audit.seconds)} in all"),
            ("Seed", f"{audit.seed}: the same seed gives the same numbers"),
            ("Settings", ", ".join(f"{name} = {value}" for name, value in audit.settings.items())),
            ("Versions", ", ".join(f"{name} {version}" for name, version in audit.versions.items())),
        )
    )
    yield Heading("Where the intervals come from", level=3)
    yield Facts(tuple((method, "; ".join(names)) for method, names in interval_methods(audit)))
    yield Heading("What the numbers do not say", level=3)
    limits = [
        "Observed numbers are exact for the people in the data. Their intervals hold for the people these stand for, "
        "if these were drawn from them independently; a biased selection is in no interval.",
        "Means of few and very skewed numbers have intervals that hold a little less often than they say: with 30 "
        "people and lognormal numbers 92 of 100 times in place of 95.",
    ]
    if any("true_mean" in group.metrics for one in audit.groups.breakdowns for group in one.groups):
        limits.append(
            "True numbers are taken as they are. If they carry past discrimination, residuals against them do too."
        )
    yield Text(items=tuple(limits))
