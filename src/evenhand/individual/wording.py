"""Sentences and tables about counterfactual flip rates of people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from evenhand.core.document import (
    Block,
    Column,
    Document,
    Figure,
    Fold,
    Heading,
    Metric,
    Note,
    Pair,
    ReportedNumber,
    Side,
    Table,
    TableRow,
)
from evenhand.core.result import PEOPLE_HIDDEN, Result
from evenhand.core.text import (
    SIMULATED,
    format_count,
    format_decimal,
    join_names,
)
from evenhand.individual.flips import FlipRate
from evenhand.individual.noise import FlipNoise
from evenhand.individual.result import Assignment, IndividualResult, Profile
from evenhand.models.noise import RepeatCheck
from evenhand.stats.quantity import (
    Estimated,
    Observed,
    Unknown,
    explain_position,
    format_basis,
    format_interval,
    format_quantity,
    format_value,
    show_quantity,
)

SYNTHETIC = f"A synthetic profile, from {SIMULATED}"
"""Title of a pair that is not a record of the data."""


def build_document(result: IndividualResult, favourable: str | None, scores: bool) -> Document:
    """Build the document with the rates and the clearest pairs."""
    alone = "" if result.counterparts else " alone"
    pairs = (Heading("Pairs"), *pair_blocks(result, favourable=favourable, scores=scores))
    return Document(
        f"Individuals: decisions that change with a protected attribute{alone}",
        explain_comparison(result),
        (
            *noise_notes(result),
            *interrupted_notes(result.interrupted),
            *flip_answers(result),
            Heading("Flip rates", detail=True),
            *rate_blocks(result),
            *(pairs if result.examples or result.people_left_out else ()),
        ),
        brand="Evenhand individuals",
    )


def interrupted_notes(interrupted: bool) -> Iterator[Note]:
    """Yield the caution about an interrupted analysis."""
    if interrupted:
        yield Note("Interrupted: the results are incomplete.", "caution")


def rate_metric(rate: FlipRate, basis: str, about: str = "") -> Metric:
    """Build the answer of a search for one flip rate."""
    number = show_quantity(rate.rate, "rate", basis=basis)
    return Metric("counterfactual flip rate", number, tuple(repeat_notes(rate.repeats)), about=about)


def noise_notes(result: IndividualResult) -> Iterator[Note]:
    """Yield the caution about a model whose answers vary."""
    if result.noise is not None and result.noise.noisy:
        yield result.noise.caution(
            "Flips count only if they repeat when both sides are queried again. If single answers differ more often "
            "than noise alone explains, there are smaller differences as well."
        )
    elif unrepeated := sum(rate.unrepeated for rate in result.rates):
        yield Note(
            f"The model answers differently each time: {format_count(unrepeated, 'flip', 'flips')} of single answers "
            "did not repeat when both sides were queried again. They are noise and do not count.",
            "caution",
        )


def noise_sentences(result: IndividualResult) -> Iterator[str]:
    """Yield a sentence for each single protected attribute on whether flips in the data exceed the noise."""
    for rate in result.rates:
        is_single = rate.over == "data" and len(rate.protected) == 1
        if rate.noise is not None and is_single and not isinstance(rate.rate, Unknown):
            yield _noise_sentence(rate.noise, rate.protected[0])


def _noise_sentence(noise: FlipNoise, name: str) -> str:
    single, own, excess = noise.single, noise.own, noise.excess
    if isinstance(single, Unknown) or isinstance(own, Unknown) or not isinstance(excess, Observed | Estimated):
        return f"Whether single answers differ with {name} by more than the model's own noise is unknown."
    return (
        f"Single answers differ with {name} for {format_value(single, 'rate')} of people, "
        f"{'' if excess.low > 0 else 'not significantly '}more often than in repeated queries about the same person "
        f"({format_value(own, 'rate')}). The excess is {format_quantity(excess)}."
    )


def repeat_notes(repeats: RepeatCheck | None) -> list[str]:
    """Return the counts of repeated flips as a note, if any did not repeat."""
    return [] if repeats is None or not repeats.noise else [repeats.sentence]


def _describe_noise(rate: FlipRate) -> Iterator[str]:
    """Yield the rate of differing single answers, the model's noise, and the excess."""
    yield from repeat_notes(rate.repeats)
    if rate.noise is not None:
        yield f"single answers differ: {format_quantity(rate.noise.single)}"
        yield f"the model's own noise, if the same person is queried again: {format_quantity(rate.noise.own)}"
        yield f"excess over its own noise: {format_quantity(rate.noise.excess)}"


def explain_comparison(result: IndividualResult) -> str:
    """Explain the comparison and the counterfactual flip rate."""
    if not result.counterparts:
        return (
            "The model was queried about each person with every other value of the protected attribute and everything "
            "else unchanged. The counterfactual flip rate is the share of people whose decision changes."
        )
    return (
        "Each person was compared with plausible counterparts: people with another value of the protected attribute, "
        "with the values that the schema links to it, who break none of its rules. The counterfactual flip rate is the "
        "share of people with such a counterpart whose decision differs from it."
    )


def flip_answers(result: IndividualResult) -> list[Metric]:
    """Build the answer for each set of protected attributes, over the data first."""
    return [_flip_answer(result, protected) for protected in dict.fromkeys(rate.protected for rate in result.rates)]


def _flip_answer(result: IndividualResult, protected: tuple[str, ...]) -> Metric:
    first, *more = (rate for rate in result.rates if rate.protected == protected)
    if isinstance(first.rate, Unknown):
        step = "increase the time limit"
    elif any(rate.flips for rate in (first, *more)):
        step = "read the pairs under Individuals"
    else:
        step = "no flips in these queries: search for people, or prove that there are none"
    left_out = [*_describe_excluded(first)]
    basis = None
    if isinstance(first.rate, Estimated):
        basis = f"{format_basis(first.rate)} of {_population(first)}"
    elif result.counterparts:
        basis = f"{first.flips:,} of {first.n:,}"
    return Metric(
        "counterfactual flip rate",
        show_quantity(first.rate, "rate", basis=basis),
        (
            *_describe_noise(first),
            *(_describe_rate(rate) for rate in more),
            *dict.fromkeys(filter(None, (explain_position(rate.rate) for rate in (first, *more)))),
        ),
        about=join_names(protected),
        next_step=step,
        left_out=f"left out: {'; '.join(left_out)}" if left_out else "",
    )


def _describe_excluded(rate: FlipRate) -> Iterator[str]:
    """Yield the numbers of people who are not compared, with the reasons."""
    if rate.breaking:
        yield format_count(rate.breaking, "record that breaks a rule", "records that break a rule")
    if rate.without:
        yield f"{format_count(rate.without, 'person', 'people')} without a counterpart"
    if rate.unknown:
        yield f"{format_count(rate.unknown, 'person', 'people')} of unknown {' or '.join(rate.protected)}"


def _describe_rate(rate: FlipRate) -> str:
    quantity = rate.rate
    if isinstance(quantity, Unknown):
        return f"of {_population(rate)}: unknown, {quantity.reason}"
    value, interval = format_value(quantity, "rate"), format_interval(quantity, "rate")
    return f"of {_population(rate)}: {value}, {quantity.kind}, {interval}"


def _population(rate: FlipRate) -> str:
    return rate.population if rate.over == "data" else SIMULATED


def rate_blocks(result: IndividualResult) -> Iterator[Block]:
    """Yield the rates as a chart and as a table."""
    if any(rate.rate.kind != "unknown" for rate in result.rates):
        yield Figure(
            "flip rates",
            "Counterfactual flip rate, with its interval. Filled dot: observed on the people in the data. Hollow "
            f"diamond: estimated from a sample of {SIMULATED}.",
            result,
        )
    if not result.rates:
        yield Note("No counterfactual flip rate was measured.")
        return
    numbers = ["flips", "of", "flip rate"]
    if result.counterparts:
        numbers += ["no counterpart", "break a rule"]
    yield Table(
        "Counterfactual flip rates, each with its interval, type and confidence level",
        (Column("what changes"), Column("population"), *(Column(name, numeric=True) for name in numbers)),
        tuple(_rate_row(rate, counterparts=result.counterparts) for rate in result.rates),
    )


def _rate_row(rate: FlipRate, *, counterparts: bool) -> TableRow:
    excluded = (rate.without, rate.breaking) if counterparts else ()
    number = show_quantity(rate.rate, "rate")
    return TableRow((join_names(rate.protected), rate.population, rate.flips, rate.n, number, *excluded))


def pair_blocks(result: IndividualResult, *, favourable: str | None = None, scores: bool = True) -> Iterator[Block]:
    """Yield the pairs of each set of protected attributes, with the first two expanded."""
    for protected in dict.fromkeys(rate.protected for rate in result.rates):
        pairs = [
            build_pair("A person in the data" if example.real else SYNTHETIC, example, favourable, scores=scores)
            for example in result.examples
            if set(example.better.values) == set(protected)
        ]
        if pairs:
            yield Heading(f"The same person with another {' and '.join(protected)}", level=3, detail=False)
            yield from fold_pairs(pairs, 2)
    yield from pair_notes(result, result.examples, scores=scores)


def pair_notes(result: Result, profiles: Sequence[Profile], *, scores: bool) -> Iterator[Note]:
    """Yield the notes about the order and the origin of pairs."""
    if result.people_left_out:
        yield Note(PEOPLE_HIDDEN)
    if profiles:
        notes = [
            "The pairs with the widest gap between scores come first. Invented profiles are not records of the data."
        ]
        if any(profile.real for profile in profiles):
            notes.append("People in the data are real records: handle this document as you handle the data.")
        if scores:
            notes.append("Scores are the model's scores of the favourable label, observed.")
        yield Note(" ".join(notes))


def fold_pairs(pairs: list[Pair], n: int) -> Iterator[Block]:
    """Yield the first n pairs, and collapse all others."""
    yield from pairs[:n]
    if pairs[n:]:
        yield Fold(format_count(len(pairs) - n, "more pair", "more pairs"), tuple(pairs[n:]))


def build_pair(title: str, profile: Profile, favourable: str | None, *, scores: bool) -> Pair:
    """Build the block of a pair."""
    worse, better = (_show_side(side, favourable, scores=scores) for side in (profile.worse, profile.better))
    return Pair(title, worse, better, profile.unprotected)


def _show_side(side: Assignment, favourable: str | None, *, scores: bool) -> Side:
    score = ReportedNumber(format_decimal(side.score), side.score, "observed") if scores else None
    return Side(side.everything, side.label, side.label == favourable, score)
