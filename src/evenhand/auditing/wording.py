"""Document of an audit: summary, data, results of each part, method and limits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from evenhand.auditing.method import confidence_level, describe_limits, interval_methods, schema_rows
from evenhand.auditing.result import AuditResult
from evenhand.certification.certificate.result import proof_answers, proof_blocks
from evenhand.core.document import (
    PAGE_ROWS,
    Block,
    Column,
    Document,
    Facts,
    Figure,
    Fold,
    Heading,
    Metric,
    NextStep,
    Note,
    ReportedNumber,
    Table,
    TableRow,
    Text,
)
from evenhand.core.text import (
    SIMULATED,
    format_count,
    format_duration,
    format_percent,
    join_names,
    list_some,
    percent_at_least,
)
from evenhand.groups.wording.gaps import describe_decisions, gap_answers, gap_sentences
from evenhand.groups.wording.groups import label_terms, metric_blocks, overview_figure, rule_notes
from evenhand.groups.wording.tables import describe_weights, label_notes, small_group_notes, weighted_by
from evenhand.groups.wording.thresholds import threshold_table
from evenhand.individual.number_wording import change_answers, change_blocks
from evenhand.individual.result import IndividualResult
from evenhand.individual.search.result import SearchResult
from evenhand.individual.search.wording import search_answer, search_blocks
from evenhand.individual.white_box import CLOSE
from evenhand.individual.wording import (
    explain_comparison,
    flip_answers,
    noise_notes,
    noise_sentences,
    pair_blocks,
    rate_blocks,
)
from evenhand.stats.proportion import count_needed
from evenhand.stats.quantity import Unknown, format_interval, format_value, quantity_value
from evenhand.subgroups.result import SubgroupResult
from evenhand.subgroups.wording import (
    comparison_group,
    describe_rate,
    describe_significant,
    finding_sentence,
    method_facts,
    subgroup_blocks,
    worst_answer,
)

FINDINGS, NUMBER_FINDINGS = 5, 3
"""Maximum number of sentences at the top, for labels and for numeric targets."""

REFUSED = 100
"""Maximum number of listed groups that were too small for a test. The JSON contains all."""

BY_PROBABILITY = "; numbers of people with group probabilities are estimated"

NUMBER_TERMS = (
    "Gap of the means: difference between the highest and the lowest mean number of a group. Residual: decided minus "
    "true number."
)


def build_document(audit: AuditResult) -> Document:
    """Build the document of an audit."""
    blocks = _summarize_labels(audit) if audit.groups.outcome is None else _summarize_numbers(audit)
    decided = describe_decisions(audit.groups) if audit.groups.target else ""
    for part in (_people, _groups, _individuals, _proof, _subgroups, _further, _method, _regulation):
        blocks += part(audit)
    model = f"{audit.model.name} in" if audit.model.recorded else f"{audit.model.name} on"
    return Document(
        f"Audit of {model} {audit.data.name}",
        f"{f'{decided}; p' if decided else 'P'}rotected: {', '.join(audit.protected)}.",
        tuple(blocks),
        brand="Evenhand audit",
        made=f"{audit.provenance} All numbers at full precision are in the JSON.",
    )


def _summarize_labels(audit: AuditResult) -> list[Block]:
    """List the blocks of the summary of an audit with labels."""
    blocks: list[Block] = [] if audit.individual is None else [*noise_notes(audit.individual)]
    blocks += _cautions(audit)
    blocks += rule_notes(audit.groups)
    blocks += label_notes(audit.groups)
    blocks += _weight_notes(audit)
    sentences = headlines(audit)
    blocks += [Text(items=tuple(sentences), role="finding")] if sentences else []
    blocks += overview_figure(audit.groups)
    blocks += _answers(audit)
    blocks += _skipped(audit)
    blocks += small_group_notes(audit.groups)
    if audit.groups.thresholds is not None:
        blocks.append(Heading("Other thresholds", level=3))
        blocks.append(threshold_table(audit.groups.thresholds))
    return [*blocks, Text(_terms(audit), role="small")]


def _summarize_numbers(audit: AuditResult) -> list[Block]:
    """List the blocks of the summary of an audit with a numeric target."""
    blocks = [*_cautions(audit), *_weight_notes(audit)]
    blocks += label_notes(audit.groups)
    sentences = gap_sentences(audit.groups)[:NUMBER_FINDINGS]
    blocks += [Text(items=tuple(sentences), role="finding")] if sentences else []
    blocks += overview_figure(audit.groups)
    blocks += gap_answers(audit.groups)
    blocks += [worst_answer(search) for search in _subgroup_searches(audit)]
    blocks += [] if audit.changes is None else change_answers(audit.changes)
    for certificate in audit.certificates:
        blocks += proof_answers(certificate)
    target = audit.described.target
    scores = " If it is a score, audit the decisions with its threshold." if audit.model.recorded else ""
    direction = "" if target.favourable != "neither" else " No favourable direction was set (favourable)."
    blocks.append(
        Note(f"{target.name} is treated as a number. If it contains labels, set the kind: label.{scores}{direction}")
    )
    blocks += _skipped(audit)
    blocks += small_group_notes(audit.groups)
    return [*blocks, Text(NUMBER_TERMS, role="small")]


def _cautions(audit: AuditResult) -> Iterator[Block]:
    if audit.model.caution:
        yield Note(audit.model.caution, "caution")
    if audit.interrupted:
        yield Note("Interrupted: this audit contains only the completed parts.", "caution")


def _weight_notes(audit: AuditResult) -> Iterator[Block]:
    if audit.groups.weights is not None and not audit.model.recorded:
        parts = "Changes of individuals" if audit.groups.outcome is not None else "Flip rates, searches for individuals"
        yield Note(
            f"Results by group and subgroup are weighted ({audit.groups.weights}). {parts} and proofs are not: they "
            "count all people equally."
        )


def _skipped(audit: AuditResult) -> list[Block]:
    return [Note(f"Not run: {part.what}: {part.reason}", "caution") for part in audit.not_run]


def _terms(audit: AuditResult) -> str:
    """Explain the terms of the summary."""
    each = audit.groups.label_set
    labels = each if audit.groups.grades is None else audit.groups.grades.label_set
    gap = (
        "Demographic parity difference: difference between the highest and the lowest selection rate of a group, from "
        "0 to 1. "
    )
    worst = (
        "Worst subgroup: the tested subgroup whose rate is most clearly below that of all other people; the number is "
        "the gap."
    )
    if labels is not None:
        gap = f"{'' if each is not None else gap}{label_terms(labels)} "
    worst = "" if each is not None else worst
    if audit.individual is None:
        return (gap + worst).strip()
    flips = "whose decision changes if only the protected attribute is changed"
    if audit.individual.counterparts:
        flips = (
            "with a plausible counterpart (of another protected group, and obeying the rules of the schema) who is "
            "decided differently"
        )
    return (
        f"{gap}Counterfactual flip rate: share of people {flips}. Certified fair: proved that no value of the "
        f"protected attribute changes the decision. {SIMULATED.capitalize()}: random individuals, described under "
        f"Method. {worst}"
    ).strip()


def headlines(audit: AuditResult) -> list[str]:
    """List up to five sentences about the affected groups, worst first, and about groups that are not assessable."""
    noise = [] if audit.individual is None else list(noise_sentences(audit.individual))[:2]
    labels = [] if audit.groups.labels is None else gap_sentences(audit.groups.labels)
    sentences = labels[: 3 if audit.groups.label_set else 1]
    counterparts = audit.individual is not None and audit.individual.counterparts
    single = [
        (value, rate)
        for rate in (() if audit.individual is None else audit.individual.rates)
        if len(rate.protected) == 1
        # With independent attributes, most of the population violates the rules, so the people in the data are
        # preferred.
        and (rate.over == "data" or not counterparts)
        and (value := quantity_value(rate.rate))
    ]
    if single and not noise:
        _, worst = max(single, key=lambda pair: pair[0])
        number = worst.rate
        assert not isinstance(number, Unknown)
        people = "people in the data" if worst.over == "data" else SIMULATED
        interval = format_interval(number, "rate")
        suffix = "" if counterparts else " alone"
        sentences.append(
            f"For {format_value(number, 'rate')} of {people} the decision changes with {worst.protected[0]}{suffix} "
            f"(counterfactual flip rate, {number.kind}{f', {interval}' if interval else ''})."
        )
    if audit.certificates:
        certificate = min(audit.certificates, key=lambda certificate: certificate.certified)
        changing = certificate.falsified
        other = f"; for {percent_at_least(changing)} it is proved that it changes" if changing else ""
        sentences.append(
            f"For {percent_at_least(certificate.certified)} of {SIMULATED} it is proved that the decision does not "
            f"change with {' or '.join(certificate.protected)}{other}."
        )
    not_measured = Unknown(reason="no label is favourable")
    small = [
        f"{breakdown.by[0]} {group.label} ({format_count(group.size, 'person', 'people')}, "
        f"{format_value(rate, 'rate')} selected)"
        for breakdown in audit.groups.breakdowns
        if len(breakdown.by) == 1
        for group in breakdown.groups
        if group.small and not isinstance(rate := group.metrics.get("selection_rate", not_measured), Unknown)
    ]
    room = FINDINGS - bool(small)
    gaps = [] if audit.groups.label_set else gap_sentences(audit.groups)
    gaps = gaps[: 3 if len(noise) + len(sentences) + 3 <= room else 2]
    sentences = [*noise, *gaps, *_intersection_sentences(audit), *sentences][:room]
    return [*sentences, *([f"Not assessable for: {list_some(small)}."] if small else [])]


def _intersection_sentences(audit: AuditResult) -> list[str]:
    """Describe the subgroup that is most clearly worse off, if several attributes define it."""
    worst = None if audit.subgroups is None else audit.subgroups.widest
    if audit.subgroups is None or worst is None or not worst.found or len(worst.rules) < 2:
        return []
    number = worst_answer(audit.subgroups).number
    sentence = finding_sentence(audit.subgroups, worst).rstrip(".")
    return [f"{sentence} (difference {number.text}, adjusted {number.interval})."]


def _answers(audit: AuditResult) -> list[Metric]:
    """List the metrics of the summary, by protected attribute."""
    metrics = [
        *(gap_answers(audit.groups) if audit.groups.label_set is None else ()),
        *(() if audit.groups.labels is None else gap_answers(audit.groups.labels)),
        *(() if audit.individual is None else flip_answers(audit.individual)),
        *(search_answer(search) for search in audit.searches),
        *(metric for certificate in audit.certificates for metric in proof_answers(certificate)),
    ]
    order = dict.fromkeys([*audit.protected, *(metric.about for metric in metrics)])
    ordered = [metric for about in order for metric in metrics if metric.about == about]
    return ordered + ([] if audit.subgroups is None else [worst_answer(audit.subgroups)])


def _people(audit: AuditResult) -> Iterator[Block]:
    data = audit.data
    yield Heading("Data", anchor="people", detail=True)
    yield Text(f"{format_count(data.people, 'person', 'people')} in {data.name}. {_describe_source(audit)}")
    facts = [] if audit.groups.weights is None else [describe_weights(audit.groups)]
    if audit.groups.outcome is None:
        facts += _label_facts(audit)
    if facts:
        yield Facts(tuple(facts))
    if audit.described.passthrough:
        yield Note(
            f"Given to the model unchanged, and never varied: {', '.join(audit.described.passthrough)} (passthrough "
            "columns)."
        )
    sizes = tuple(_group_sizes(audit))
    if sizes:
        yield Fold(f"Group sizes by {' and by '.join(audit.protected)}", sizes)
    rows = schema_rows(audit.described)
    table = Table(
        f"Attributes that {'define the groups' if audit.model.recorded else 'the model receives'}, with their domains",
        (Column("attribute"), Column("type"), Column("domain"), Column("missing values")),
        tuple(
            TableRow((f"{row.name} (protected)" if row.protected else row.name, row.kind, row.domain, row.missing))
            for row in rows
        ),
    )
    yield Fold(f"Data schema: {format_count(len(rows), 'attribute', 'attributes')}", (table,))


def _describe_source(audit: AuditResult) -> str:
    """Describe the origin of the decisions, or whether the model was trained on the people."""
    if not audit.model.recorded:
        if audit.data.held_out:
            return "The model was not trained on these people."
        return "Whether the model was trained on these people is not known."
    if audit.groups.outcome is not None:
        return "The numbers are part of the data; no model was queried."
    if audit.groups.decided_by is not None:
        return "The decisions are computed from the scores in the data; no model was queried."
    return "The decisions are part of the data; no model was queried."


def _label_facts(audit: AuditResult) -> Iterator[tuple[str, str]]:
    data = audit.data
    yield "Target", audit.described.target.name
    favourable = audit.groups.label_set is None
    if favourable:
        yield (
            "Favourable label",
            f"{audit.model.favourable} (\u201cselected\u201d below means a decision with this label)",
        )
    yield "Decisions" if audit.model.recorded else "Labels of the model", ", ".join(audit.model.classes)
    if not favourable:
        return
    if data.base_rate is None:
        yield "Base rate", "unknown: the data contain no true labels"
        return
    among = "" if not data.unlabelled else f" of the {data.people - data.unlabelled:,} people with a true label"
    observed = f"observed{weighted_by(audit.groups)}"
    yield "Base rate", f"{format_percent(data.base_rate)}{among} have the favourable true label, {observed}"


def _group_sizes(audit: AuditResult) -> Iterator[Block]:
    """Yield a table of the group sizes by attribute."""
    data = audit.data
    single = [breakdown for breakdown in audit.groups.breakdowns if len(breakdown.by) == 1]
    groups = {breakdown.by[0]: {group.label: group.size for group in breakdown.groups} for breakdown in single}
    for name, counts in data.counts.items():
        if name not in groups and audit.groups.outcome is not None:
            continue
        shown = groups.get(name, counts)
        rows = tuple(
            TableRow(
                (value, size, ReportedNumber(format_percent(size / data.people), size / data.people, "observed")),
                faint=size < audit.groups.min_group_size,
            )
            for value, size in sorted(shown.items(), key=lambda item: -item[1] if len(shown) > PAGE_ROWS else 0)
        )
        columns = (Column(name), Column("people", numeric=True), Column("share", numeric=True, bar=True))
        yield Table(f"People by {name}, observed", columns, rows, usual="observed", order="largest first")
        if len(counts) > len(shown):
            listed = ", ".join(f"{value} ({size:,})" for value, size in counts.items())
            yield Fold(f"All values of {name}", (Text(listed, role="small"),))


def _groups(audit: AuditResult) -> Iterator[Block]:
    yield Heading("Groups", anchor="groups", detail=True)
    if audit.groups.outcome is not None:
        yield Text("Distribution of the numbers by group. All numbers are observed on the people in the data.")
        yield from metric_blocks(audit.groups, level=3)
        return
    yield Text(
        "Decisions by group. All numbers are observed on the people in the data, with "
        f"{confidence_level(audit)} intervals{BY_PROBABILITY * bool(audit.groups.proxies)}."
    )
    yield from metric_blocks(audit.groups, level=3)
    if audit.groups.grades is not None:
        yield Heading(f"Every grade of {audit.described.target.name}", detail=True)
        yield from metric_blocks(audit.groups.grades, level=3)


def _individuals(audit: AuditResult) -> Iterator[Block]:
    if audit.individual is None and audit.changes is None:
        return
    yield Heading("Individuals", anchor="individuals", detail=True)
    if audit.changes is not None:
        yield Text(
            "A person\u2019s number is compared with that for another value of the protected attribute, with "
            "everything else unchanged; with rules in the schema, plausible counterparts are compared."
        )
        yield from change_blocks(audit.changes)
    if audit.individual is None:
        return
    each = audit.groups.label_set is not None
    favourable, scores = None if each else audit.model.favourable, not (each or audit.model.label_only)
    yield Text(explain_comparison(audit.individual))
    yield from _fold_tables(rate_blocks(audit.individual))
    yield from pair_blocks(audit.individual, favourable=favourable, scores=scores)
    for search in audit.searches:
        yield Heading(f"Search: another {join_names(search.protected)}", level=3, detail=True)
        yield from _search(search, favourable, scores=scores)
    yield from _not_run(audit, "search for individuals")


def _search(search: SearchResult, favourable: str | None, *, scores: bool) -> Iterator[Block]:
    queries = format_count(search.queries, "query", "queries")
    if not search.profiles:
        yield Text(f"A search among plausible profiles found no differing decision in {queries}. This is not a proof.")
        return
    profiles = format_count(search.profiles, "profile", "profiles")
    yield Text(
        f"A search among plausible profiles ({search.plausible_means}) found {profiles} that "
        f"{'is' if search.profiles == 1 else 'are'} decided differently, in {queries}. They are not a random sample; "
        "the flip rates are given above."
    )
    yield Fold(
        "The pairs with the widest gaps",
        tuple(search_blocks(search, favourable=favourable, scores=scores)),
    )


def _fold_tables(blocks: Iterable[Block]) -> Iterator[Block]:
    """Fold the tables below a figure, which shows the same numbers."""
    tables: list[Block] = []
    below_figure = False
    for block in blocks:
        if below_figure and isinstance(block, Table | Fold):
            tables += block.blocks if isinstance(block, Fold) else [block]
            continue
        if tables:
            yield Fold("In numbers", tuple(tables))
            tables = []
        below_figure = isinstance(block, Figure)
        yield block
    if tables:
        yield Fold("In numbers", tuple(tables))


def _proof(audit: AuditResult) -> Iterator[Block]:
    is_number = audit.groups.outcome is not None
    if not audit.certificates and (is_number or audit.individual is None):
        return
    yield Heading("Proof", anchor="proof", detail=True)
    if is_number:
        yield Text(
            f"For these shares of {SIMULATED}, the number is proved to change by at most "
            f"{audit.certificates[0].tolerance:g}, or by more, if only the protected attributes change."
        )
    elif audit.certificates:
        populations = "; ".join(sorted({certificate.population for certificate in audit.certificates}))
        yield Text(
            f"For these shares of {SIMULATED} ({populations}), the decision is proved to be the same for all values of "
            "the protected attribute, or to differ."
        )
    else:
        yield Text("Nothing was proved about this model.")
    if audit.certificates:
        figure, shares, *details = proof_blocks(audit.certificates)
        cautions = [block for block in details[1:2] if isinstance(block, Note)]
        yield from (figure, shares, *cautions)
        evidence = tuple(block for block in details if block not in cautions)
        yield Fold("Evidence of the estimates, and where decisions differ", evidence)
    yield from () if is_number else _not_run(audit, "certif")


def _subgroup_searches(audit: AuditResult) -> list[SubgroupResult]:
    """List the searches for subgroups. With true values, there are two searches: by mean and by mean residual."""
    return [search for search in (audit.subgroups, audit.residual_subgroups) if search is not None]


def _subgroups(audit: AuditResult) -> Iterator[Block]:
    is_number = audit.groups.outcome is not None
    if audit.subgroups is None and not is_number:
        yield Heading("Subgroups", anchor="subgroups", detail=True)
        yield Text("Subgroups, such as one sex within one age range, were not tested.")
    for search in _subgroup_searches(audit):
        rate = describe_rate(search)
        anchor = "subgroups-residual" if search is audit.residual_subgroups else "subgroups"
        yield Heading(f"Subgroups by {rate}" if is_number else "Subgroups", anchor=anchor, detail=True)
        yield Text(
            f"The {rate} of each subgroup, defined by {'these' if audit.model.recorded else 'the protected'} "
            f"attributes, is compared with that of {comparison_group(search)}. Significant after adjustment: "
            f"{search.found:,} {describe_significant(search)}. All numbers are observed on the people in the data; "
            "intervals are simultaneous over all of these subgroups."
        )
        if not search.findings:
            yield Note("No subgroup is large enough to be tested.")
        yield from _fold_tables(subgroup_blocks(search, None if is_number else audit.model.favourable, level=3))
        small = [] if is_number else _small_groups(audit, search)
        if small:
            yield Heading("Groups too small to be tested", level=3)
            yield Text("These groups were not tested separately. Their members are part of larger subgroups.")
            columns = (Column("group"), Column("people", numeric=True), Column("reason"))
            table = Table("Groups that were not tested, observed", columns, tuple(map(TableRow, small[:REFUSED])))
            yield Fold(f"{format_count(len(small), 'group', 'groups')}, with the reason", (table,))
        yield Fold("Tests of the subgroups", (method_facts(search),))
    yield from () if is_number else _not_run(audit, "subgroup")


def _further(audit: AuditResult) -> Iterator[Block]:
    """Yield the documents of the analyses that have no section of their own."""
    for part in audit.further:
        document = part.document()
        yield Heading(document.title, anchor=part.kind, detail=True)
        for block in document.blocks:
            yield replace(block, level=3) if isinstance(block, Heading) else block


def _small_groups(audit: AuditResult, search: SubgroupResult) -> list[tuple[str, int, str]]:
    """List the groups that were not tested as subgroups: label, number of people and reason. Largest first."""
    weighted = search.weights is not None
    below, unit = ("below", "effective size") if weighted else ("fewer than", "people")
    everyone = audit.groups.everyone.effective_size if weighted else search.people
    minimums = [
        (search.min_size, f"{below} {search.min_size:,} {unit}"),
        (count_needed(search.support, everyone or 0), f"{below} {100 * search.support:.6g} % of the {unit}"),
    ]
    small = []
    for group in (group for breakdown in audit.groups.breakdowns for group in breakdown.groups):
        size = (group.effective_size if weighted else group.size) or 0
        reason = next((reason for minimum, reason in minimums if size < minimum), None)
        if reason is not None:
            small.append((group.label, group.size, reason))
    return sorted(small, key=lambda row: -row[1])


def _method(audit: AuditResult) -> Iterator[Block]:
    yield Heading("Method", anchor="method", detail=True)
    yield Fold("Model, data, seed, settings and versions", (Facts(tuple(_method_facts(audit))),))
    if audit.groups.outcome is None:
        yield Heading("Observed, estimated and proved numbers", level=3)
        yield _explain_types(audit)
    methods = interval_methods(audit)
    if methods:
        yield Fold("Methods of the intervals", (Facts(tuple((method, "; ".join(names)) for method, names in methods)),))
    yield Heading("Limits", level=3)
    yield Text(items=tuple(describe_limits(audit)))


def _explain_types(audit: AuditResult) -> Text:
    if audit.individual is None:
        return Text(f"All numbers are observed on the people in the data{BY_PROBABILITY * bool(audit.groups.proxies)}.")
    return Text(
        items=(
            "Observed: group metrics, gaps, and flips of the people in the data.",
            f"Estimated: flips of {SIMULATED}, and the total share of different decisions. Flips of the people in the "
            "data are estimated too if the time limit ended their count.",
            "Proved: the shares under Proof.",
        )
    )


def _method_facts(audit: AuditResult) -> Iterator[tuple[str, str]]:
    model, individual, is_number = audit.model, audit.individual, audit.groups.outcome is not None
    times = [] if is_number else [f"groups {format_duration(audit.groups.seconds)}"]
    if model.recorded:
        kind = "" if is_number else " without scores" if model.label_only else " with scores"
        yield "Numbers" if is_number else "Decisions", f"{model.name} (recorded{kind}; no model was queried)"
    else:
        yield "Model", f"{model.name} ({model.type}{', labels without scores' if model.label_only else ''})"
    if individual is not None:
        reason = model.why_not or "it could not be read"
        yield "White box", "yes: the model can be certified" if model.white_box else f"no: {reason}"
        yield "Flips are counted with", _describe_counting(individual)
        times.append(f"individuals {format_duration(individual.seconds)}")
    content = "numbers" if is_number else "labels"
    yield "Data", f"{audit.data.name}, SHA-256 of individuals and {content} as read: {audit.data.fingerprint}"
    if not is_number:
        times += [
            f"proof for {join_names(proof.protected)} {format_duration(proof.seconds)}" for proof in audit.certificates
        ]
    yield "Time", "; ".join(filter(None, (f"{format_duration(audit.seconds)} in total", ", ".join(times))))
    yield "Seed", f"{audit.seed}: equal seeds give equal numbers, unless a time limit ends a part"
    yield "Settings", ", ".join(f"{name} = {value}" for name, value in audit.settings.items())
    yield "Versions", ", ".join(f"{name} {version}" for name, version in audit.versions.items())


def _describe_counting(individual: IndividualResult) -> str:
    if individual.counted_with == "model":
        return "the model"
    compared = format_count(individual.compared, "individual", "individuals")
    return (
        f"the white box. It agreed with the model for all {compared} that both were queried about. Individuals with "
        f"close scores (less than {CLOSE} apart) or missing values, and the scores of examples, are from the model"
    )


def _regulation(audit: AuditResult) -> Iterator[Block]:
    if audit.groups.outcome is not None:
        return
    yield Heading("Tables for regulations", anchor="regulation", detail=True)
    weighted = " It counts people without weights." if audit.groups.weights is not None else ""
    yield Text(
        "This report does not contain the tables that regulations require: these use the formulas of the "
        "regulations, count excluded people, and cite the law. A dossier contains them; it requires the people with "
        f"their outcomes, and a configuration that defines the values.{weighted}"
    )
    yield NextStep("print a configuration to fill in", "evenhand dossier --template ll144 > dossier.yaml")
    yield NextStep("write the dossier", "evenhand dossier DATA --config dossier.yaml --for ll144")


def _not_run(audit: AuditResult, part: str) -> Iterator[Note]:
    for skipped in audit.not_run:
        if part in skipped.what:
            yield Note(f"Not run: {skipped.what}. {skipped.reason}")
