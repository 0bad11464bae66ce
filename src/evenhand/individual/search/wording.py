"""Sentences and tables about a search."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from evenhand.core.document import (
    Block,
    Document,
    Facts,
    Figure,
    Heading,
    Metric,
    NextStep,
    Note,
    ReportedNumber,
    SubjectCard,
    Text,
)
from evenhand.core.text import SIMULATED, format_count, format_level, format_percent, join_names
from evenhand.individual.flips import FlipRate
from evenhand.individual.result import Profile
from evenhand.individual.search.result import SearchResult
from evenhand.individual.wording import build_pair, fold_pairs, interrupted_notes, pair_notes, rate_metric
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
"""Number of pairs that are not collapsed."""

SHORT_PAIRS = 4
"""Number of pairs of a search that an audit shows."""


def build_document(result: SearchResult, subject: SubjectCard | None) -> Document:
    """Build the document with the rates and the findings."""
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
    answer = search_answer(result)
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
    if result.profiles:
        if scores:
            caption = "Gap between the scores of the worst and the best treated value, for all profiles."
            blocks.append(Figure("gaps of profiles", caption, result))
        blocks += _pair_section(result, favourable, scores=scores)
    blocks += [Heading("Method", anchor="method", detail=True), Facts(tuple(_facts(result)))]
    return Document(title, lead, tuple(blocks), brand="Evenhand search")


def _cautions(result: SearchResult) -> Iterator[Block]:
    if result.noise is not None and result.noise.noisy:
        yield result.noise.caution("Profiles are listed only if their decisions repeat in new queries of both sides.")
    if result.caution:
        yield Note(result.caution, "caution")
    yield from interrupted_notes(result.interrupted)


def search_answer(result: SearchResult) -> Metric:
    """Build the answer: the number of profiles, the queries used, and the protected value most often favoured."""
    test = result.noise_test
    notes = [test.sentence] if test is not None and test.repeated < test.differed else []
    notes.append(_describe_cost(result))
    if result.favoured:
        value, count = max(result.favoured.items(), key=lambda item: item[1])
        notes.append(f"most often favoured: {value} ({count:,} of {result.profiles:,})")
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
    if result.asked == "model":
        return f"{result.queries:,} individuals queried, including those for the rates"
    return f"{result.queries:,} white-box queries; the model itself confirmed each profile"


def search_blocks(result: SearchResult, *, favourable: str | None = None, scores: bool = True) -> Iterator[Block]:
    """Yield the pairs with the widest gaps, for an audit."""
    for example in result.examples[:SHORT_PAIRS]:
        yield build_pair(_describe_source(example), example, favourable, scores=scores)


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
    population = POPULATIONS.get(rate.population, rate.population)
    sample = f"{rate.n:,} sampled"
    if excluded := rate.without + rate.breaking:
        sample = f"{rate.n:,} with a plausible counterpart, among {rate.n + excluded:,} sampled"
    return rate_metric(rate, f"{rate.flips:,} of {sample} from {population}")


def _next_step(result: SearchResult) -> NextStep:
    if result.profiles:
        return NextStep("read the pairs (--html FILE), keep them as tests (--save-tests FILE)")
    if result.noise_test is not None and result.noise_test.noise:
        return NextStep("differences of single answers may be noise, which evenhand audit measures")
    if result.rate is not None and isinstance(estimate := result.rate.rate, Estimated):
        return NextStep(
            f"with {format_level(estimate.confidence)} confidence at most {format_percent(estimate.high)} are "
            "affected; only a proof can exclude it",
            "evenhand certify",
        )
    return NextStep("increase the budget, or prove that there are none", "evenhand certify")


def _pair_section(result: SearchResult, favourable: str | None, *, scores: bool) -> Iterator[Block]:
    yield Heading("The pairs with the widest gaps", anchor="pairs")
    pairs = [build_pair(_describe_source(example), example, favourable, scores=scores) for example in result.examples]
    yield from fold_pairs(pairs, UNFOLDED_PAIRS)
    yield from pair_notes(result, result.examples, scores=scores)


def _describe_source(example: Profile) -> str:
    if example.real:
        return "A profile that reveals a person in the data"
    return "A synthetic profile, plausible" if example.valid else "A synthetic profile"


def _facts(result: SearchResult) -> Iterator[tuple[str, str]]:
    yield "method", f"{result.method}; {STOPPED[result.stopped_by]}"
    count = format_count(result.queries, "individual", "individuals")
    yield "questions", f"{count} queried for rates, search and confirmation"
    for key, value in result.settings.items():
        if value:
            listed = isinstance(value, Sequence) and not isinstance(value, str)
            yield key.replace("_", " "), "; ".join(map(str, value)) if listed else str(value)
