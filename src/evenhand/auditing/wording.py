"""An audit in words: the first screen from its parts, who is in the data, what each part found, how it was done."""

from __future__ import annotations

from collections.abc import Iterator

from evenhand.auditing.method import confidence_level, describe_limits, interval_methods, schema_rows, title_document
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
from evenhand.groups.wording.labels import describe_labels, label_answers, label_blocks, label_sentences, label_terms
from evenhand.groups.wording.proxies import proxy_answers, proxy_blocks, proxy_sentences
from evenhand.groups.wording.rates import (
    breakdown_blocks,
    calibration_blocks,
    gap_answers,
    headline_sentences,
    rate_table,
    rule_notes,
    small_notes,
    threshold_section,
)
from evenhand.groups.wording.tables import describe_weights, label_notes, small_group_notes, weighted_by
from evenhand.groups.wording.thresholds import threshold_sentences, threshold_table
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
from evenhand.stats.quantity import Unknown, format_value, quantity_value
from evenhand.subgroups.wording import (
    comparison_group,
    describe_significant,
    method_facts,
    subgroup_blocks,
    worst_answer,
)

FINDINGS = 5
"""Sentences at the top, at most."""

REFUSED = 100
"""Groups listed that were too small to be tested as subgroups; the JSON has all."""

KNOWN_BY_PROBABILITY = "; what is known of people by probability alone is estimated"

NOT_MEASURED = Unknown(reason="no label is favourable")

LONG = 15
"""Rows from which a table is folded."""


def build_document(audit: AuditResult) -> Document:
    """Return what an audit says."""
    blocks: list[Block] = [] if audit.individual is None else [*noise_notes(audit.individual)]
    if audit.model.caution:
        blocks.append(Note(audit.model.caution, "caution"))
    if audit.interrupted:
        blocks.append(Note("Interrupted: this audit holds what was found before.", "caution"))
    blocks += rule_notes(audit.groups)
    each = audit.groups.by_label
    blocks += (
        label_notes(audit.groups.label_coverage, audit.groups.breakdowns)
        if each is None
        else label_notes(each.overall.label_coverage, each.breakdowns)
    )
    if audit.groups.weights is not None and not audit.model.recorded:
        blocks.append(
            Note(
                f"Weights ({audit.groups.weights}) are in what is said of groups and subgroups. Flip rates, searches "
                "for individuals and proofs count every person alike: they are unweighted."
            )
        )
    found = [*headlines(audit), *proxy_sentences(audit.groups.proxies, weighted_by(audit.groups))]
    blocks += [Text(items=tuple(found), role="finding")] if found else []
    blocks += answers(audit)
    blocks += [Note(f"Not run: {item.what}: {item.reason}", "caution") for item in audit.not_run]
    blocks += small_notes(audit.groups) if each is None else small_group_notes(each.breakdowns, audit.groups.too_few)
    if audit.groups.thresholds is not None:
        blocks.append(Heading("Other thresholds", level=3))
        blocks += [Text(items=tuple(threshold_sentences(audit.groups.thresholds)))]
        blocks.append(threshold_table(audit.groups.thresholds))
    blocks.append(Text(_terms(audit), role="small"))
    asked = () if audit.individual is None else (_individuals, _proof)
    for part in (_people, _groups, *asked, _subgroups, _method, _regulation):
        blocks += part(audit)
    return title_document(audit, "" if each is None else describe_labels(each), blocks)


def _terms(audit: AuditResult) -> str:
    """Return what the words of the first screen mean."""
    each, labels = audit.groups.by_label, audit.groups.labels
    gap = (
        "Demographic parity difference: how far the selection rates of the best and the worst treated group are apart, "
        "from 0 to 1. "
    )
    worst = (
        "Worst subgroup: of all that were tested, the one whose rate is most clearly below that of everyone else; the "
        "number is the gap."
    )
    if labels is not None:
        gap = f"{'' if each is not None else gap}{label_terms(labels)} "
    worst = "" if each is not None else worst
    if audit.individual is None:
        return (gap + worst).strip()
    flips = "whose decision changes when only the protected attribute is changed"
    if audit.individual.compares_counterparts:
        flips = (
            "with a plausible counterpart, of another protected group and within the schema's rules, who are decided "
        )
        flips += "differently from it"
    return (
        f"{gap}Counterfactual flip rate: the share of people {flips}. Certified fair: a proof that no value of "
        f"the protected attribute changes the decision. {SIMULATED.capitalize()}: individuals drawn at random, as "
        f"described under How it was done. {worst}"
    ).strip()


def headlines(audit: AuditResult) -> list[str]:
    """Return up to five sentences, worst first: whom it concerns, how much, and who could not be assessed."""
    noise = [] if audit.individual is None else list(noise_sentences(audit.individual))[:2]
    labels = [] if audit.groups.labels is None else label_sentences(audit.groups.labels)
    found = labels[: 3 if audit.groups.by_label else 1]
    single = [
        (value, rate)
        for rate in (() if audit.individual is None else audit.individual.rates)
        if len(rate.protected) == 1
        # Most of a population of independent attributes breaks the rules: the people in the data say more.
        and (rate.over == "data" or rate.counterfactual is None)
        and (value := quantity_value(rate.headline.rate))
    ]
    if single and not noise:
        _, worst = max(single, key=lambda one: one[0])
        number = worst.headline.rate
        assert not isinstance(number, Unknown)
        whom = "people in the data" if worst.over == "data" else SIMULATED
        alone = " alone" if worst.counterfactual is None else ""
        found.append(
            f"For {format_value(number, 'rate')} of {whom} the decision changes with {worst.protected[0]}{alone} "
            f"(counterfactual flip rate, {number.kind})."
        )
    if audit.certificates:
        least = min(audit.certificates, key=lambda one: one.certified)
        found.append(
            f"For {percent_at_least(least.certified)} of {SIMULATED} it is proved that the decision does not change "
            f"with {' or '.join(least.protected)}."
        )
    small = [
        f"{breakdown.by[0]} {group.label} ({format_count(group.size, 'person', 'people')}, "
        f"{format_value(rate, 'rate')} selected)"
        for breakdown in audit.groups.breakdowns
        if len(breakdown.by) == 1
        for group in breakdown.groups
        if group.small and not isinstance(rate := group.metrics.get("selection_rate", NOT_MEASURED), Unknown)
    ]
    room = FINDINGS - bool(small)
    gaps = headline_sentences(audit.groups)[: 3 if len(noise) + len(found) + 3 <= room else 2]
    found = [*noise, *gaps, *found][:room]
    return [*found, *([f"Not assessable for: {list_some(small)}."] if small else [])]


def answers(audit: AuditResult) -> list[Metric]:
    """Return the first screen, one answer for each protected attribute and question."""
    searched = {search.protected for search in audit.searches if search.profiles}
    parts = [
        *(gap_answers(audit.groups) if audit.groups.by_label is None else ()),
        *proxy_answers(audit.groups.proxies, weighted_by(audit.groups)),
        *(() if audit.groups.labels is None else label_answers(audit.groups.labels)),
        *_flip_answers(audit.individual, {join_names(names) for names in searched}),
        *(search_answer(search, audit.model.favourable) for search in audit.searches),
        *(answer for certificate in audit.certificates for answer in proof_answers(certificate)),
    ]
    order = dict.fromkeys([*audit.protected, *(answer.about for answer in parts)])
    ordered = [answer for about in order for answer in parts if answer.about == about]
    worst = [] if audit.subgroups is None else [worst_answer(audit.subgroups)]
    return ordered + worst


def _flip_answers(individual: IndividualResult | None, found: set[str]) -> list[Metric]:
    return [] if individual is None else list(flip_answers(individual, searched=found))


def _people(audit: AuditResult) -> Iterator[Block]:
    data = audit.data
    yield Heading("Who is in the data", anchor="people", detail=True)
    trained = {
        None: "Whether the model was trained on these people is not known.",
        True: "The model was trained on these people.",
        False: "The model was not trained on these people.",
    }[data.training_rows]
    if audit.model.recorded:
        trained = "The decisions are those in the data; no model was asked."
        if audit.groups.decided_by is not None:
            trained = "The decisions are made of the scores in the data; no model was asked."
    base = "not known: the data has no true labels"
    if data.base_rate is not None:
        weighted = weighted_by(audit.groups)
        among = "" if not data.unlabelled else f" of the {data.people - data.unlabelled:,} people with a true label"
        base = f"{format_percent(data.base_rate)}{among} truly have the favourable label, observed{weighted}"
    yield Text(f"{format_count(data.people, 'person', 'people')} in {data.name}. {trained}")
    weights: tuple[tuple[str, str], ...] = ()
    if audit.groups.weights is not None:
        weights = (describe_weights(audit.groups),)
    wanted = (
        (
            "What people want",
            f"{audit.model.favourable} (the favourable label; \u201cselected\u201d below means given it)",
        ),
        ("Base rate", base),
    )
    yield Facts(
        (
            *weights,
            ("What is decided", audit.described.target.name),
            *(wanted[:1] if audit.groups.by_label is None else ()),
            ("Decisions" if audit.model.recorded else "Labels the model gives", ", ".join(audit.model.classes)),
            *(wanted[1:] if audit.groups.by_label is None else ()),
        )
    )
    if audit.described.passthrough:
        yield Note(
            f"Given to the model as they are, and never varied: {', '.join(audit.described.passthrough)} (passthrough "
            "columns)."
        )
    groups = {
        one.by[0]: {group.label: group.size for group in one.groups}
        for one in audit.groups.breakdowns
        if len(one.by) == 1
    }
    for name, counts in data.counts.items():
        shown = groups.get(name, counts)
        rows = tuple(
            TableRow(
                (value, size, ReportedNumber(format_percent(size / data.people), size / data.people, "observed")),
                faint=size < audit.groups.min_group_size,
            )
            for value, size in sorted(shown.items(), key=lambda one: -one[1] if len(shown) > PAGE_ROWS else 0)
        )
        columns = (Column(name), Column("people", numeric=True), Column("share", numeric=True, bar=True))
        yield Table(f"People by {name}, observed", columns, rows, usual="observed", order="largest first")
        if len(counts) > len(shown):
            listed = ", ".join(f"{value} ({size:,})" for value, size in counts.items())
            yield Fold(f"Every value of {name}", (Text(listed, role="small"),))
    described = schema_rows(audit.described)
    seen = "groups are made by" if audit.model.recorded else "the model sees"
    table = Table(
        f"The attributes that {seen}, and the values each can take (the domain)",
        (Column("attribute"), Column("type"), Column("domain"), Column("a missing value is")),
        tuple(
            TableRow((f"{row.name} (protected)" if row.protected else row.name, row.kind, row.domain, row.missing))
            for row in described
        ),
    )
    yield Fold(f"Data schema: {format_count(len(described), 'attribute', 'attributes')}", (table,))


def _groups(audit: AuditResult) -> Iterator[Block]:
    yield Heading("Groups", anchor="groups", detail=True)
    yield Text(
        "How decisions treat groups as a whole. Everything here is observed on the people in the data, with "
        f"{confidence_level(audit)} intervals{KNOWN_BY_PROBABILITY * bool(audit.groups.proxies)}."
    )
    if audit.groups.by_label is not None:
        yield from label_blocks(audit.groups.by_label, level=3)
        return
    yield rate_table(audit.groups)
    for breakdown in audit.groups.breakdowns:
        yield from breakdown_blocks(audit.groups, breakdown, level=3)
    yield from proxy_blocks(audit.groups.proxies, weighted_by(audit.groups), level=3)
    yield from calibration_blocks(audit.groups, level=3)
    yield from threshold_section(audit.groups, level=3)
    if audit.groups.labels is not None:
        yield Heading(f"Every grade of {audit.described.target.name}", detail=True)
        yield from label_blocks(audit.groups.labels, level=3)


def _individuals(audit: AuditResult) -> Iterator[Block]:
    assert audit.individual is not None
    each = audit.groups.by_label is not None
    favourable, scores = None if each else audit.model.favourable, not (each or audit.model.label_only)
    yield Heading("Individuals", anchor="individuals", detail=True)
    yield Text(explain_comparison(audit.individual))
    yield from rate_blocks(audit.individual)
    yield from pair_blocks(audit.individual, favourable=favourable, scores=scores)
    for search in audit.searches:
        yield Heading(f"Found by searching: another {join_names(search.protected)}", level=3, detail=True)
        yield from _search(search, favourable, scores=scores)
    yield from _not_run(audit, "search for individuals")


def _search(search: SearchResult, favourable: str | None, *, scores: bool) -> Iterator[Block]:
    questions = format_count(search.queries, "question", "questions")
    if search.reading is None:
        yield Text(
            "A search among plausible profiles found no one who is decided differently, in "
            f"{questions}. That is not a proof."
        )
        return
    profiles = format_count(search.profiles, "profile", "profiles")
    yield Text(
        f"A search among plausible profiles ({search.plausible_means}) found "
        f"{profiles} that {'is' if search.profiles == 1 else 'are'} decided differently, in {questions}. They are no "
        "random sample: how common flips are is said above."
    )
    table, *pairs = search_blocks(search, favourable=favourable, scores=scores)
    yield table
    figure = Figure(
        "attributes of profiles",
        "Share of each value in the attributes that matter most. Filled diamond: among the profiles found. Hollow "
        "circle: among the people in the data.",
        search,
    )
    yield Fold("One of each kind, and where they differ from the people in the data", (*pairs[1:], figure))


def _proof(audit: AuditResult) -> Iterator[Block]:
    yield Heading("Proof", anchor="proof", detail=True)
    if audit.certificates:
        populations = "; ".join(sorted({certificate.population for certificate in audit.certificates}))
        yield Text(
            f"For which share of {SIMULATED} ({populations}) it is proved that the decision stays the same, or does "
            "not, whatever the protected attribute says."
        )
        yield from proof_blocks(audit.certificates)
    else:
        yield Text("Nothing was proved about this model.")
    yield from _not_run(audit, "certif")


def _subgroups(audit: AuditResult) -> Iterator[Block]:
    yield Heading("Subgroups", anchor="subgroups", detail=True)
    searched = audit.subgroups
    if searched is None:
        yield Text("Subgroups, such as one sex within one age range, were not tested.")
        yield from _not_run(audit, "subgroup")
        return
    yield Text(
        "Which people, described by the protected attributes together, fare differently from "
        f"{comparison_group(searched)}? {searched.tested:,} different subgroups were tested; {searched.found:,} are "
        f"significant after adjustment, {describe_significant(searched)}. Everything here is observed on the people in "
        "the data; intervals are simultaneous over all of these subgroups."
    )
    if not searched.findings:
        yield Note("No subgroup is large enough to be tested.")
    yield from subgroup_blocks(searched, audit.model.favourable, level=3)
    refused = _small_groups(audit)
    if refused:
        yield Heading("Too few to be tested", level=3)
        yield Text("Nothing is said about these groups alone; their people count within larger subgroups.")
        columns = (Column("group"), Column("people", numeric=True), Column("reason"))
        rows = tuple(TableRow((label, size, reason)) for label, size, reason in refused[:REFUSED])
        many = format_count(len(refused), "group", "groups")
        yield Fold(f"{many}, with the reason", (Table("Groups that were refused, observed", columns, rows),))
    yield Heading("How subgroups were searched for", level=3)
    yield method_facts(searched)
    yield from _not_run(audit, "subgroup")


def _small_groups(audit: AuditResult) -> list[tuple[str, int, str]]:
    """Return groups that were not tested as subgroups: how they are called, their people, and why not."""
    searched = audit.subgroups
    if searched is None:
        return []
    weighted = searched.weights is not None
    of = "effective size" if weighted else "people"
    share = f"{'below' if weighted else 'fewer than'} {100 * searched.support:.6g} % of the {of}"
    floors = [(searched.min_size, f"{'below' if weighted else 'fewer than'} {searched.min_size:,} {of}")]
    everybody = audit.groups.effective_size if weighted else searched.people
    floors += [(count_needed(searched.support, everybody or 0), share)]
    found = []
    for group in (group for breakdown in audit.groups.breakdowns for group in breakdown.groups):
        size = group.effective_size if weighted else group.size
        why = next((reason for least, reason in floors if (size or 0) < least), None)
        if why is not None:
            found.append((group.label, group.size, why))
    return sorted(found, key=lambda one: -one[1])


def _method(audit: AuditResult) -> Iterator[Block]:
    yield Heading("How it was done", anchor="method", detail=True)
    yield Facts(tuple(_method_facts(audit)))
    yield Heading("What is observed, estimated, proved", level=3)
    if audit.individual is None:
        yield Text(
            f"Everything here is observed on the people in the data{KNOWN_BY_PROBABILITY * bool(audit.groups.proxies)}."
        )
    else:
        yield Text(
            items=(
                "Observed: group metrics, gaps, and flips of the people in the data.",
                f"Estimated: flips of {SIMULATED}, and the share of different decisions in all. Flips of the people in "
                "the data too, if the time limit came before everybody was asked.",
                "Proved: the shares under Proof.",
            )
        )
    methods = interval_methods(audit)
    if methods:
        yield Heading("Where the intervals come from", level=3)
        yield Facts(tuple((method, "; ".join(names)) for method, names in methods))
    yield Heading("What the numbers do not say", level=3)
    yield Text(items=tuple(describe_limits(audit)))


def _method_facts(audit: AuditResult) -> Iterator[tuple[str, str]]:
    model, individual = audit.model, audit.individual
    spent = [f"groups {format_duration(audit.groups.seconds)}"]
    if individual is None:
        scored = "without scores" if model.label_only else "with scores"
        yield "Decisions", f"{model.name} ({scored}); the model that made them was not asked"
    else:
        yield "Model", f"{model.name} ({model.type}{', gives labels only' if model.label_only else ''})"
        inside = "yes: its inside could be read"
        yield (
            "Can be proved about",
            inside if model.white_box else f"no: {model.why_not or 'its inside could not be read'}",
        )
        yield _flip_fact(individual)
        spent.append(f"individuals {format_duration(individual.seconds)}")
    yield "Data", f"{audit.data.name}, SHA-256 of individuals and labels as read: {audit.data.fingerprint}"
    spent += [f"proof for {join_names(one.protected)} {format_duration(one.seconds)}" for one in audit.certificates]
    yield "Time", f"{format_duration(audit.seconds)} in all; {', '.join(spent)}"
    yield "Seed", f"{audit.seed}: the same seed gives the same numbers, as long as no time limit cuts in"
    yield "Settings", ", ".join(f"{name} = {value}" for name, value in audit.settings.items())
    yield "Versions", ", ".join(f"{name} {version}" for name, version in audit.versions.items())


def _flip_fact(individual: IndividualResult) -> tuple[str, str]:
    if individual.counted_with == "model":
        return "Flips are counted with", "the model itself"
    compared = format_count(individual.compared, "individual", "individuals")
    return (
        "Flips are counted with",
        "the inside of the model as it was read. It gave the model's own decision for all of "
        f"{compared} that both were asked about; close decisions (scores less than {CLOSE} apart), missing values "
        "and the scores of examples were left to the model itself",
    )


def _regulation(audit: AuditResult) -> Iterator[Block]:
    yield Heading("Tables for regulations", anchor="regulation", detail=True)
    weighted = " It counts people, without weights." if audit.groups.weights is not None else ""
    yield Text(
        "The figures of this report are not the tables that a regulation asks for: those count people by the rule's "
        "own formula, count whom they leave out, and name the law by which they are made. A dossier has them; it needs "
        f"the people with their outcomes, and a configuration of what the values mean.{weighted}"
    )
    yield NextStep("print the configuration, to be filled in", "evenhand dossier --template ll144 > dossier.yaml")
    yield NextStep("write the dossier", "evenhand dossier DATA --config dossier.yaml --for ll144")


def _not_run(audit: AuditResult, words: str) -> Iterator[Note]:
    for item in audit.not_run:
        if words in item.what:
            yield Note(f"Not run: {item.what}. {item.reason}")
