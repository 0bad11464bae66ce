"""Sentences and tables about a search."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from evenhand.core.document import (
    Block,
    Column,
    Document,
    Facts,
    Figure,
    Heading,
    Metric,
    NextStep,
    Note,
    Pair,
    ReportedNumber,
    SubjectCard,
    Table,
    TableRow,
    Text,
)
from evenhand.core.result import PEOPLE_HIDDEN
from evenhand.core.text import SIMULATED, format_count, format_decimal, format_level, format_percent, join_names
from evenhand.individual.flips import FlipRate
from evenhand.individual.search.reading import AttributeReading, PeopleCluster
from evenhand.individual.search.result import Example, SearchResult
from evenhand.individual.wording import PEOPLE_SHOWN, SCORES_SHOWN, build_pair, fold_pairs, rate_notes
from evenhand.stats.quantity import Estimated

STOPPED = {
    "plan": "complete: all its seeds and moves were used",
    "budget": "budget spent",
    "time": "time limit reached",
    "interrupt": "interrupted",
}
"""Description of ``SearchResult.stopped_by``."""

POPULATIONS = {
    "independent attributes, each as in the data": f"{SIMULATED} (product of marginals)",
    "everyone in the domain, uniformly": f"{SIMULATED} (uniform over the domain)",
}
"""Names of populations as shown to readers. Other populations keep their name."""

UNFOLDED_PAIRS = 4
"""Number of pairs that are not folded."""

LISTED_ATTRIBUTES = 6
"""Number of attributes that a terminal lists."""


def build_document(result: SearchResult, subject: SubjectCard | None) -> Document:
    """Build the document of the rates, the findings, and the attributes that matter."""
    names = join_names(result.protected)
    title = f"Individuals whose decision changes with {names}"
    changes = f"only {names} changes"
    if result.counterparts:
        changes = f"{names} and the attributes linked to it change"
    lead = f"Whose decision changes when {changes}?"
    if subject is not None:
        title = f"Search of {subject.name} on {subject.data}"
        if result.table_reading is None or result.table_reading.true_label is None:
            lead += f" Favourable decision: {subject.target} = {subject.favourable}."
    favourable = None if subject is None else subject.favourable
    scores = subject is None or not subject.label_only
    linked = ""
    if result.counterparts:
        linked = "Linked attributes change too, and people who break a rule of the schema are not compared. "
    answer = search_answer(result, favourable)
    blocks: list[Block] = [
        *_cautions(result),
        Text(_finding(result), role="finding"),
        *(_rate_answer(rate) for rate in result.rates),
        Metric(answer.name, answer.number, answer.notes),
        _next_step(result),
        Text(
            f"A profile is a person without {names}. It counts once, even if several values of {names} change the "
            f"decision. {linked}The profiles are not a random sample: the rates estimate how common flips are, the "
            "number of profiles does not.",
            role="small",
        ),
    ]
    if result.reading is not None:
        if scores:
            caption = "Gap between the scores of the worst and the best treated value, for all profiles."
            blocks.append(Figure("gaps of profiles", caption, result))
        blocks += [
            Heading("Kinds of people", anchor="kinds"),
            *search_blocks(result, favourable=favourable, scores=scores),
            *_pair_section(result, favourable, scores=scores),
            *_attribute_section(result),
        ]
    blocks += [Heading("Method", anchor="method", detail=True), Facts(tuple(_facts(result)))]
    return Document(
        title, lead, tuple(blocks), brand="Evenhand search", made=result.provenance, readings=result.readings
    )


def _cautions(result: SearchResult) -> Iterator[Block]:
    if result.noise is not None and result.noise.noisy:
        yield result.noise.caution("Only profiles whose decisions repeat in new queries about both sides are listed.")
    if result.caution:
        yield Note(result.caution, "caution")
    if result.interrupted:
        yield Note("This search was interrupted. Its results are incomplete.", "caution")


def search_answer(result: SearchResult, favourable: str | None = None) -> Metric:
    """Build the answer: the number of profiles, the queries used, and the protected value most often favoured."""
    test = result.noise_test
    notes = [test.sentence] if test is not None and test.repeated < test.differed else []
    notes.append(_describe_cost(result))
    favoured = Counter(
        f"{name} {value}"
        for example in result.representatives
        for name, value in example.better.values.items()
        if favourable is None or example.better.label == favourable
    )
    if favoured:
        kinds = format_count(len(result.representatives), "kind", "kinds")
        notes.append(f"{kinds} of people; most often favoured: {favoured.most_common(1)[0][0]}")
    basis = f"distinct profile{'s' * (result.profiles != 1)} that flip{_validity(result)}"
    step = "see the profiles under Individuals; continue with evenhand search"
    if not result.profiles:
        step = "no finding is not a proof: see the certificates, or search longer with evenhand search"
    number = ReportedNumber(f"{result.profiles:,}", result.profiles, "observed", basis=basis)
    return Metric("profiles found by searching", number, tuple(notes), join_names(result.protected), step)


def _validity(result: SearchResult) -> str:
    if result.valid is None or not result.profiles:
        return ""
    count = "all" if result.valid == result.profiles else f"{result.valid:,}"
    return f", {count} of them plausible ({result.plausible_means})"


def _describe_cost(result: SearchResult) -> str:
    seeds = f"{format_count(result.given, 'is a seed', 'are seeds')}; " if result.given else ""
    if result.asked == "model":
        return f"{seeds}{result.queries:,} individuals in queries, including those for the rates"
    return f"{seeds}{result.queries:,} white-box queries; the model itself confirmed each profile"


def search_blocks(result: SearchResult, *, favourable: str | None = None, scores: bool = True) -> Iterator[Block]:
    """Yield a table of the kinds of people, and one pair of each."""
    if result.reading is None:
        return
    yield _kinds_table(result, result.reading.kinds)
    if not result.representatives:
        return
    yield Heading("One of each kind", level=3, detail=True)
    for i, example in enumerate(result.representatives, 1):
        yield _build_pair(f"Kind {i}. {_describe_source(example)}", example, favourable, scores=scores)


def _kinds_table(result: SearchResult, kinds: tuple[PeopleCluster, ...]) -> Table:
    columns = (
        Column("kind"),
        Column("profiles", numeric=True),
        Column("share", numeric=True),
        Column("values that at least two in three share, and fewer people in the data"),
    )
    rows = tuple(
        TableRow(
            (str(i), kind.size, ReportedNumber(format_percent(kind.share), kind.share, "observed"), describe_kind(kind))
        )
        for i, kind in enumerate(kinds, 1)
    )
    count = format_count(result.profiles, "profile", "profiles")
    return Table(f"Kinds of people, observed on the {count} found", columns, rows, usual="observed")


def describe_kind(kind: PeopleCluster) -> str:
    """Describe the common values of a kind."""
    common = ", ".join(f"{name} {value}" for name, value in kind.common.items())
    return f"{common or 'no common values'}; median gap {format_decimal(kind.gap)}"


def _finding(result: SearchResult) -> str:
    names = join_names(result.protected)
    count = format_count(result.profiles, "profile", "profiles")
    estimates = [(rate.rate.value, rate.population) for rate in result.rates if isinstance(rate.rate, Estimated)]
    if not estimates:
        return f"The search found {count} whose decision changes with {names}; their frequency is unknown."
    value, population = max(estimates, key=lambda estimate: estimate[0])
    return (
        f"For {format_percent(value)} of {POPULATIONS.get(population, population)} the decision changes with {names} "
        f"(counterfactual flip rate, estimated); the search found {count}."
    )


def _rate_answer(rate: FlipRate) -> Metric:
    estimate, population = rate.rate, POPULATIONS.get(rate.population, rate.population)
    assert isinstance(estimate, Estimated)
    sample = f"{rate.n:,} sampled"
    if rate.without:
        sample = f"{rate.n:,} with a plausible counterpart, among {rate.n + rate.without:,} sampled"
    number = ReportedNumber(
        format_percent(estimate.value),
        estimate.value,
        "estimated",
        estimate.low,
        estimate.high,
        f"{format_percent(estimate.low)} to {format_percent(estimate.high)}",
        estimate.confidence,
        f"{rate.flips:,} of {sample} from {population}",
    )
    return Metric("counterfactual flip rate", number, tuple(rate_notes(rate)))


def _next_step(result: SearchResult) -> NextStep:
    if result.profiles:
        return NextStep("read the pairs (--html FILE), keep them as tests (--save-tests FILE)")
    if result.noise_test is not None and result.noise_test.noise:
        return NextStep("differences of single answers may be noise: read the excess of the rates, or search longer")
    if result.rate is not None and isinstance(estimate := result.rate.rate, Estimated):
        return NextStep(
            f"with {format_level(estimate.confidence)} confidence at most {format_percent(estimate.high)} are "
            "affected; only a proof can exclude it",
            "evenhand certify",
        )
    return NextStep("increase the budget, or prove that there are none", "evenhand certify")


def _pair_section(result: SearchResult, favourable: str | None, *, scores: bool) -> Iterator[Block]:
    yield Heading("The most severe pairs", anchor="pairs")
    if result.people_left_out:
        yield Note(PEOPLE_HIDDEN)
    if not result.examples:
        return
    yield Text(
        "Pairs with a wide gap between scores that resemble a person in the data come first."
        if scores
        else "Pairs that resemble a person in the data come first."
    )
    pairs = [_build_pair(_describe_source(example), example, favourable, scores=scores) for example in result.examples]
    yield from fold_pairs(pairs, UNFOLDED_PAIRS)
    notes = ["Invented profiles are made by the search and are not records of the data."]
    if any(example.real for example in result.examples):
        notes.append(PEOPLE_SHOWN)
    yield Note(" ".join([*notes, SCORES_SHOWN] if scores else notes))


def _describe_source(example: Example) -> str:
    if example.real:
        return "A person in the data" if example.distance == 0 else "A profile with values of persons in the data"
    return "An invented profile, plausible" if example.valid else "An invented profile"


def _build_pair(title: str, example: Example, favourable: str | None, *, scores: bool) -> Pair:
    note = ""
    if example.distance is not None and example.changes:
        real = ", ".join(f"{name} {value}" for name, value in example.changes.items())
        note = f"nearest real person: {real}, the rest the same"
    return build_pair(title, example, favourable, scores=scores, note=note)


def _attribute_section(result: SearchResult) -> Iterator[Block]:
    assert result.reading is not None
    yield Heading("Attributes that matter", anchor="attributes")
    yield Figure(
        "attributes of profiles",
        "Share of each value. Filled diamond: among the profiles found. Hollow circle: among the people in the data.",
        result,
    )
    columns = (Column("attribute"), Column("relation to the flips"))
    rows = tuple(TableRow((reading.name, describe_attribute(reading))) for reading in result.reading.attributes)
    yield Table("Unprotected attributes, observed on the profiles found", columns, rows, listed=LISTED_ATTRIBUTES)


def describe_attribute(reading: AttributeReading) -> str:
    """Describe the relation of an attribute to the findings."""
    parts = []
    if reading.sensitive is not None:
        flips = format_count(reading.tried, "flip", "flips")
        parts.append(f"another value undoes {format_percent(reading.sensitive)} of {flips}")
    share = max(reading.shares, key=lambda share: share.found - (share.data or 0.0))
    if share.data is not None:
        parts.append(f"{share.value}: {format_percent(share.found)} here, {format_percent(share.data)} in the data")
    return "; ".join(parts) or "the same as in the data"


def _facts(result: SearchResult) -> Iterator[tuple[str, str]]:
    yield "method", f"{result.method}; {STOPPED[result.stopped_by]}"
    count = format_count(result.queries, "individual", "individuals")
    yield "questions", f"{count} in queries for rates, search and confirmation"
    for key, value in result.settings.items():
        if value:
            listed = isinstance(value, Sequence) and not isinstance(value, str)
            yield key.replace("_", " "), "; ".join(map(str, value)) if listed else str(value)
    reading = result.reading
    if reading is not None and reading.distance is not None:
        distance = f"{format_decimal(reading.distance)} to the nearest person in the data (Gower\u2019s distance)"
        yield (
            "distance to people",
            f"{distance}, the median of {format_count(reading.looked_at, 'profile', 'profiles')}",
        )
