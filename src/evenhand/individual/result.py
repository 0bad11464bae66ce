"""How often a decision flips with a protected attribute, and for whom."""

from __future__ import annotations

from collections.abc import Container, Iterator
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

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
from evenhand.core.result import PEOPLE_HIDDEN, Result, ResultNumber
from evenhand.core.result_part import ResultPart
from evenhand.core.text import SIMULATED, format_count, format_decimal, format_percent, join_names, list_some
from evenhand.individual.noise import FlipNoise
from evenhand.models.noise import NoiseCheck, RepeatCheck
from evenhand.stats.quantity import (
    Estimated,
    Quantity,
    Unknown,
    format_basis,
    format_interval,
    format_value,
    show_quantity,
)

if TYPE_CHECKING:
    import pandas as pd


class Assignment(ResultPart):
    """What the model says to one assignment of the protected attributes.

    Attributes:
        values: protected attribute -> value in the data's own words.
        moved: the same of linked attributes that change with them; everything else is unchanged.
        label, score: what the model decides, and its favourable score.
    """

    values: dict[str, str]
    moved: dict[str, str] = Field({})
    label: str
    score: float

    @property
    def everything(self) -> dict[str, str]:
        """The protected values and those that move with them."""
        return self.values | self.moved


class Profile(ResultPart):
    """One person's unprotected part, with two protected assignments that the model decides differently.

    Attributes:
        unprotected: attribute -> value in the data's own words, of all that stays the same.
        worse, better: the assignments with the lowest and the highest favourable score among those that disagree.
        disagreeing: how many assignments get another label than the person's own.
        gap: difference of the two favourable scores.
        source: ``data`` (a person in the data) or ``population`` (drawn from the domain).
    """

    unprotected: dict[str, str]
    worse: Assignment
    better: Assignment
    disagreeing: int
    gap: float
    source: Literal["data", "population"]


class CounterpartRate(ResultPart):
    """The counterfactual flip rate between plausible counterparts, as the rules of a schema define them.

    A counterpart has other protected values and what is linked to them, and obeys every rule. People who break a rule
    and people without a counterpart are in no comparison: they count neither as flips nor as fair.

    Attributes:
        rate: share of the people with a counterpart who get another label than one of theirs. In an audit, where a
            proof is about the same population, one number from what is proved and all draws.
        flips: how many of those asked about for this rate.
        n: of how many.
        without: people who obey every rule and have no plausible counterpart.
        breaking: people who break a rule.
        implausible: of the published flips, how many need somebody who breaks a rule.
        repeats: How many flips of single answers repeat: only these count. None for a model that cannot vary.
    """

    rate: Quantity
    flips: int
    n: int
    without: int
    breaking: int
    implausible: int
    repeats: RepeatCheck | None = None


class FlipRate(ResultPart):
    """The counterfactual flip rate over one set of people.

    Attributes:
        over: ``data`` (everybody in the data) or ``population`` (individuals drawn from it).
        protected: the attributes that were changed, jointly.
        counterfactual: the rate between plausible counterparts; None where the schema has no rules, or the rate was
            measured as published.
        rate: as published: share of people for whom another assignment, everything else unchanged, changes the label.
            In an audit, where a proof is about the same population, one number from what is proved and all draws.
        flips: how many of those asked about for this rate.
        n: of how many.
        unknown: people in the data who were left out because a protected value of theirs is unknown.
        queries: individuals that were asked about, but for those of ``repeats``.
        repeats: How many flips of single answers repeat: only these count. None for a model that cannot vary.
        noise: Differences between single answers beside the model's own noise; None for a model that gives the same
            answer each time.
    """

    over: Literal["data", "population"]
    population: str
    protected: tuple[str, ...]
    counterfactual: CounterpartRate | None = None
    rate: Quantity
    flips: int
    n: int
    unknown: int = 0
    queries: int
    repeats: RepeatCheck | None = None
    noise: FlipNoise | None = None

    @property
    def unrepeated(self) -> int:
        """Flips of single answers that do not repeat: the model's own noise, which does not count."""
        repeats = self.headline.repeats
        return 0 if repeats is None else repeats.noise

    @property
    def excess(self) -> Quantity:
        """Rate of differing single answers minus the model's own noise; the headline's rate of a model without."""
        return self.headline.rate if self.noise is None else self.noise.excess

    @property
    def headline(self) -> FlipRate | CounterpartRate:
        """The rate between plausible counterparts, where it was measured; else the published one."""
        return self if self.counterfactual is None else self.counterfactual


class IndividualResult(Result):
    """Counterfactual flip rates per protected attribute (and jointly), and the clearest examples.

    Attributes:
        rates: one per protected attribute and for all of them together, over the data and the population.
        examples: per entry of ``rates[*].protected``, the profiles with the widest score gap, data first.
        interrupted: whether somebody stopped it; what is here was found before.
        counted_with: what was asked when flips were counted: the model, or its white box, which left close decisions
            and individuals with a missing value to the model. The scores of examples are the model's own.
        compared: decisions that model and white box were both asked for before, all alike.
        noise: how often the model disagreed with itself; None if it was not asked twice.
    """

    chart = "individual.draw_flips"
    kind: Literal["individual"] = "individual"
    rates: tuple[FlipRate, ...]
    examples: tuple[Profile, ...]
    interrupted: bool = False
    counted_with: Literal["model", "white box"] = "model"
    compared: int = 0
    noise: NoiseCheck | None = None

    @property
    def compares_counterparts(self) -> bool:
        """Whether people were compared with plausible counterparts."""
        return any(rate.counterfactual is not None for rate in self.rates)

    def rate(self, protected: tuple[str, ...], over: Literal["data", "population"]) -> FlipRate | None:
        """Return the rate for these protected attributes over data or population, if it was measured."""
        return next((rate for rate in self.rates if rate.protected == protected and rate.over == over), None)

    def _records_hidden(self) -> dict[str, Any]:
        return {"examples": tuple(one for one in self.examples if one.source == "population")}

    def numbers(self) -> Iterator[ResultNumber]:
        """Yield the flip rates as published and between plausible counterparts, and their excess over noise."""
        for rate in self.rates:
            prefix, by = "" if rate.over == "data" else "population_", "_x_".join(rate.protected)
            yield ResultNumber(f"{prefix}flip_rate", by, "", rate.rate)
            yield ResultNumber(f"{prefix}counterfactual_flip_rate", by, "", rate.headline.rate)
            yield ResultNumber(f"{prefix}excess_flip_rate", by, "", rate.excess)

    def document(self, *, favourable: str | None = None, scores: bool = True) -> Document:
        """Return the counterfactual flip rates, then the clearest pairs.

        Args:
            favourable: the favourable label, to be marked in pairs.
            scores: whether the model gives scores.
        """
        return Document(
            f"Individuals: what changes with a protected attribute{'' if self.compares_counterparts else ' alone'}",
            explain_comparison(self),
            (
                *noise_notes(self),
                *(Note("Interrupted: this was found before.", "caution") for _ in range(self.interrupted)),
                *flip_answers(self),
                Heading("Flip rates", detail=True),
                *rate_blocks(self),
                *self._pairs(favourable, scores=scores),
            ),
            brand="Evenhand individuals",
            made=self.provenance,
        )

    def _pairs(self, favourable: str | None, *, scores: bool) -> Iterator[Block]:
        if self.examples or self.people_left_out:
            yield Heading("Pairs")
            yield from pair_blocks(self, favourable=favourable, scores=scores)

    def to_frame(self) -> pd.DataFrame:
        """One row per example: unprotected attributes, then the protected values, labels and scores of the pair."""
        import pandas as pd

        return pd.DataFrame(
            [
                profile.unprotected
                | profile.worse.moved
                | {f"{name} (worse)": value for name, value in profile.worse.values.items()}
                | {f"{name} (better)": value for name, value in profile.better.everything.items()}
                | {"label (worse)": profile.worse.label, "label (better)": profile.better.label}
                | {"score (worse)": profile.worse.score, "score (better)": profile.better.score, "gap": profile.gap}
                | {"source": profile.source}
                for profile in self.examples
            ]
        )


def flip_answers(result: IndividualResult, *, found: Container[str] = ()) -> list[Metric]:
    """Return one answer for each set of protected attributes: over the data first, then over the population.

    Args:
        result: the rates.
        found: the protected attributes, as one name, of which a search found people who are decided differently.
    """
    return [
        _flip_answer(result, protected, searched=join_names(protected) in found)
        for protected in dict.fromkeys(rate.protected for rate in result.rates)
    ]


def noise_notes(result: IndividualResult) -> Iterator[Note]:
    """Yield what a reader must know first of a model that answers differently each time."""
    if result.noise is not None and result.noise.noisy:
        yield result.noise.caution(
            "Only flips that repeat when both sides are asked about again count. The excess of differing single "
            "answers over this noise shows smaller differences."
        )
    elif unrepeated := sum(rate.unrepeated for rate in result.rates):
        yield Note(
            f"The model answers differently each time: {format_count(unrepeated, 'flip', 'flips')} of single answers "
            "did not repeat when both sides were asked about again. They are noise and do not count.",
            "caution",
        )


def noise_sentences(result: IndividualResult) -> Iterator[str]:
    """Yield for each protected attribute alone whether flips are more than noise, of the people in the data."""
    for rate in result.rates:
        alone = rate.over == "data" and len(rate.protected) == 1
        if rate.noise is not None and alone and not isinstance(rate.headline.rate, Unknown):
            yield rate.noise.sentence(join_names(rate.protected))


def explain_comparison(result: IndividualResult) -> str:
    """Say with whom each person was compared, and what the counterfactual flip rate is."""
    if not result.compares_counterparts:
        return (
            "Each person was asked about again with every other value of the protected attribute and everything else "
            "unchanged. The counterfactual flip rate is the share of people whose decision changes."
        )
    return (
        "Each person was compared with plausible counterparts: people with another value of the protected attribute, "
        "with the values that the schema links to it, who break none of its rules. The counterfactual flip rate is the "
        "share of people with such a counterpart whose decision differs from it. As published, only the attribute "
        "changes, and some of the people compared cannot exist."
    )


def rate_blocks(result: IndividualResult) -> Iterator[Block]:
    """Yield the rates as a drawing and as a table."""
    if any(rate.headline.rate.kind != "unknown" for rate in result.rates):
        yield Figure(
            "flip rates",
            "Counterfactual flip rate, with its interval. Filled dot: observed on the people in the data. Hollow "
            f"diamond: estimated from a sample of {SIMULATED}.",
            result,
        )
    if not result.rates:
        yield Note("No counterfactual flip rate was measured.")
        return
    columns = [
        Column("what changes"),
        Column("population"),
        Column("flips", numeric=True),
        Column("of", numeric=True),
        Column("flip rate", numeric=True),
    ]
    if result.compares_counterparts:
        columns += [
            Column("no counterpart", numeric=True),
            Column("break a rule", numeric=True),
            Column("as published", numeric=True),
        ]
    yield Table(
        "Counterfactual flip rates, each with its interval, type and confidence level",
        tuple(columns),
        tuple(map(_rate_row, result.rates)),
    )


def _rate_row(rate: FlipRate) -> TableRow:
    shown = rate.headline
    row = TableRow(
        (join_names(rate.protected), rate.population, shown.flips, shown.n, show_quantity(shown.rate, "rate"))
    )
    if rate.counterfactual is None:
        return row
    published = (rate.counterfactual.without, rate.counterfactual.breaking, show_quantity(rate.rate, "rate"))
    return TableRow((*row.cells, *published))


def pair_blocks(result: IndividualResult, *, favourable: str | None = None, scores: bool = True) -> Iterator[Block]:
    """Yield the pairs, two for each set of protected attributes and the others folded."""
    shown = False
    for protected in dict.fromkeys(rate.protected for rate in result.rates):
        pairs = [
            _pair(profile, profile_source(profile).capitalize(), favourable, scores=scores)
            for profile in select_examples(result, protected)
        ]
        if not pairs:
            continue
        shown = True
        yield Heading(f"The same person with another {' and '.join(protected)}", level=3, detail=False)
        yield from pairs[:2]
        if pairs[2:]:
            yield Fold(format_count(len(pairs) - 2, "more pair", "more pairs"), tuple(pairs[2:]))
    if result.people_left_out:
        yield Note(PEOPLE_HIDDEN)
    if shown:
        notes = ["The pairs with the widest distance between scores come first."]
        notes.append("Invented profiles are drawn from the population: they are no records of the data.")
        if any(profile.source == "data" for profile in result.examples):
            notes.append("Persons in the data are real records: handle this document as you handle the data.")
        if scores:
            notes.append("Scores are those the model gave for the favourable label, observed.")
        yield Note(" ".join(notes))


def select_examples(result: IndividualResult, protected: tuple[str, ...]) -> list[Profile]:
    """Return the examples in which exactly these attributes were changed."""
    return [profile for profile in result.examples if set(profile.better.values) == set(protected)]


def profile_source(profile: Profile) -> str:
    """Return whether a pair is a record of the data."""
    return "a person in the data" if profile.source == "data" else f"an invented profile, from {SIMULATED}"


def show_side(side: Assignment, favourable: str | None, *, scores: bool) -> Side:
    """Return one side of a pair as it is shown."""
    score = ReportedNumber(format_decimal(side.score), side.score, "observed") if scores else None
    return Side(side.everything, side.label, side.label == favourable, score)


def _pair(profile: Profile, title: str, favourable: str | None, *, scores: bool) -> Pair:
    first, second = (show_side(side, favourable, scores=scores) for side in (profile.worse, profile.better))
    return Pair(title, first, second, profile.unprotected)


def _flip_answer(result: IndividualResult, protected: tuple[str, ...], *, searched: bool) -> Metric:
    found = [rate for rate in result.rates if rate.protected == protected]
    first, shown = found[0], len(select_examples(result, protected))
    number = first.headline
    if isinstance(number.rate, Unknown):
        step = "give it more time"
    elif any(rate.headline.flips for rate in found):
        step = f"read the {format_count(shown, 'pair', 'pairs')} under Individuals" if shown else "ask for examples"
        step = "see under Individuals how it was counted" if result.people_left_out and not shown else step
    elif searched:
        step = "no one asked about was decided differently; the search found others"
    else:
        step = "no one asked about was decided differently; only a proof can say more"
    left: tuple[str, ...] = ()
    if first.unknown:
        left = (f"left out: {format_count(first.unknown, 'person', 'people')} of unknown {' or '.join(protected)}",)
    basis = None
    if isinstance(number.rate, Estimated):
        basis = f"{format_basis(number.rate)} of {_population(first)}"
    elif first.counterfactual is not None:
        basis = f"{number.flips:,} of {number.n:,}"
    return Metric(
        "counterfactual flip rate",
        show_quantity(number.rate, "rate", basis=basis),
        (
            *(() if number.repeats is None or not number.repeats.noise else (number.repeats.sentence,)),
            *(() if first.noise is None else describe_noise(first.noise)),
            *_describe_published(first),
            *(_describe_rate(rate) for rate in found[1:]),
            *left,
        ),
        about=join_names(protected),
        next_step=step,
    )


def describe_noise(noise: FlipNoise, nouns: tuple[str, str] = ("person", "people")) -> Iterator[str]:
    """Yield how much of a rate is the model's own noise, and the favourable rate under each value.

    Args:
        noise: what was found.
        nouns: who was asked about, one and several.
    """
    if isinstance(noise.excess, Unknown) or isinstance(noise.own, Unknown) or isinstance(noise.single, Unknown):
        return
    again = format_count(noise.people, *nouns)
    yield f"single answers differ: {format_value(noise.single, 'rate')}, {format_interval(noise.single, 'rate')}"
    yield (
        f"the model's own noise: {format_value(noise.own, 'rate')}, {format_interval(noise.own, 'rate')} (the same "
        f"{again} asked about again)"
    )
    yield f"excess over its own noise: {format_value(noise.excess, 'rate')}, {format_interval(noise.excess, 'rate')}"
    if noise.p is not None:
        rates = [f"{one.value} {show_quantity(one.rate, 'rate').text}" for one in noise.directions]
        yield f"favourable decision under each value: {list_some(rates)}; p = {noise.p:.2g} that all are the same"


def _describe_published(rate: FlipRate) -> Iterator[str]:
    """Yield who was compared, then the published rate and how much of it needs people who cannot exist."""
    number = rate.counterfactual
    if number is None:
        return
    breaking = format_count(number.breaking, "record breaks a rule", "records break a rule")
    without = f"{number.without:,} without a counterpart"
    apart = ", ".join(said for said, n in ((breaking, number.breaking), (without, number.without)) if n)
    yield f"plausible counterparts: {number.n:,} of {rate.n:,}{f' ({apart})' if apart else ''}"
    if isinstance(rate.rate, Unknown):
        return
    yield f"as published, only the attribute changes: {format_value(rate.rate, 'rate')}"
    if number.implausible:
        yield f"{format_percent(number.implausible / rate.flips)} of these flips need a person who breaks a rule"


def _describe_rate(rate: FlipRate) -> str:
    shown = rate.headline.rate
    if isinstance(shown, Unknown):
        return f"of {_population(rate)}: unknown, {shown.reason}"
    value, interval = format_value(shown, "rate"), format_interval(shown, "rate")
    published = ""
    if rate.counterfactual is not None and not isinstance(rate.rate, Unknown):
        published = f"; as published {format_value(rate.rate, 'rate')}"
    return f"of {_population(rate)}: {value}, {shown.kind}, {interval}{published}"


def _population(rate: FlipRate) -> str:
    return rate.population if rate.over == "data" else SIMULATED
