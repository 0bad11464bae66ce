"""What a search found, and how common it is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic import Field

from evenhand.core.document import (
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
    Pair,
    ReportedNumber,
    SubjectCard,
    Table,
    TableRow,
    Text,
)
from evenhand.core.result import PEOPLE_HIDDEN, Result
from evenhand.core.result_part import ResultPart
from evenhand.core.text import SIMULATED, format_count, format_decimal, format_level, format_percent, join_names
from evenhand.core.typing import Floats, Integers
from evenhand.individual.noise import FlipNoise
from evenhand.individual.result import Assignment, describe_noise, show_side
from evenhand.individual.search.findings import ProfileTable
from evenhand.individual.search.reading import AttributeReading, PeopleCluster, SearchReading
from evenhand.models.noise import NoiseCheck, RepeatCheck

if TYPE_CHECKING:
    import pandas as pd


STOPPED = {
    "plan": "complete: all its seeds and moves were used",
    "budget": "budget of questions spent",
    "time": "time limit reached",
    "interrupt": "interrupted",
}
"""Why a search ended."""

PEOPLE = {
    "independent attributes, each as in the data": f"{SIMULATED} (product of marginals)",
    "everyone in the domain, uniformly": f"{SIMULATED} (uniform over the domain)",
}
"""Populations of rates, as people read them; others are called what they are."""

PAIRS = 4
"""Pairs that are seen before the others are unfolded."""

LEAST_OF_KIND = 10
"""Profiles of a kind that is told where rows of real people are left out."""

ATTRIBUTES = 6
"""Attributes on a screen."""


class SampledFlipRate(ResultPart):
    """The share of a population that is decided differently under some protected assignment, from a random sample.

    Attributes:
        estimate: the share among the n drawn.
        low, high, confidence: the exact (Clopper-Pearson) interval, two-sided.
        population: what was sampled.
        flips, n: how many of how many.
        drawn: how many were drawn; those left out break a rule of the schema or have no plausible counterpart.
        repeats: How many flips of single answers repeat: only these count. None if there is none, or the model cannot
            vary.
        noise: Differences between single answers beside the model's own noise; None for a model that gives the same
            answer each time.
    """

    estimate: float
    low: float
    high: float
    confidence: float
    population: str
    flips: int
    n: int
    drawn: int | None = None
    repeats: RepeatCheck | None = None
    noise: FlipNoise | None = None


class Example(ResultPart):
    """One profile: a person's unprotected part, with what the model says to each protected assignment.

    Attributes:
        unprotected: attribute -> value in the data's own words, of all that stays the same.
        worse, better: the assignments with the lowest and the highest favourable score among those that disagree.
        outcomes: every assignment under which it is a person who can exist, in the schema's order.
        gap: difference of the two favourable scores.
        severity: what the examples are ranked by: the gap times how near somebody in the data is (1 minus
            ``distance``); without data the gap.
        distance: Gower's distance of the unprotected part to the nearest person in the data, 0 to 1; None without data.
        changes: what that person has instead: attribute -> value, for the attributes that differ.
        valid: whether every pair of its values occurs together in the data; None without data.
        given: whether it is a seed as it stands, so that no search was needed.
        real: Whether it tells about a person in the data: it is a record but for protected attributes, or has a value
            that a single person has. Other profiles are invented.
    """

    unprotected: dict[str, str]
    worse: Assignment
    better: Assignment
    outcomes: tuple[Assignment, ...]
    gap: float
    severity: float
    distance: float | None = None
    changes: dict[str, str] = Field(default_factory=dict)
    valid: bool | None
    given: bool
    real: bool = False

    def hide_nearest(self) -> Example:
        """Return the profile without the record nearest to it, and without its own attributes if it is a record."""
        if not self.real:
            return self.model_copy(update={"changes": {}})
        sides = {name: getattr(self, name).model_copy(update={"moved": {}}) for name in ("worse", "better")}
        outcomes = tuple(side.model_copy(update={"moved": {}}) for side in self.outcomes)
        return self.model_copy(update={**sides, "unprotected": {}, "outcomes": outcomes, "changes": {}})


class SearchResult(Result):
    """Profiles that a model decides differently under some protected assignment.

    Attributes:
        method: how they were searched.
        protected: the attributes whose joint assignments were compared.
        counterparts: whether the schema says who can exist: then linked attributes moved along, and no one was compared
            who breaks a rule.
        profiles: distinct profiles found, each decided differently by the model itself.
        valid: how many of them have only pairs of values that occur together in the data; None without data.
        given: how many of them were seeds as they stand.
        queries: individuals that were asked about in all: trying the model when it is loaded, the rates, the search,
            what confirms its findings, and further tries after failures.
        rates: counterfactual flip rates, first over the population; none if a tenth of the budget paid for no sample.
        examples: the most severe profiles, most severe first.
        reading: attributes that matter and kinds of people; None if nothing was found.
        representatives: one profile per kind of ``reading.kinds``, in their order.
        interrupted: whether somebody stopped it; what is here was found before.
        stopped_by: what ended the search: its plan was carried out, budget, time, or an interrupt.
        remembered: questions answered from the file of answers.
        asked: what answered the questions: the model, or its white box, which left close decisions to the model. What
            was found was always verified by the model, and has its scores.
        noise: how often the model disagreed with itself; None if it was not asked twice.
        noise_test: How many findings in single answers repeat: only these are reported. None for a model that cannot
            vary.
        caution: what else a reader must know about how the model was asked.
        settings: what it was called with.
        table: all profiles; not part of the JSON.
    """

    chart = "search.plot_search"
    kind: Literal["individual"] = "individual"
    method: str
    protected: tuple[str, ...]
    counterparts: bool = False
    profiles: int
    valid: int | None
    given: int
    queries: int
    rate: SampledFlipRate | None
    rates: tuple[SampledFlipRate, ...]
    examples: tuple[Example, ...]
    reading: SearchReading | None = None
    representatives: tuple[Example, ...] = ()
    interrupted: bool = False
    stopped_by: Literal["plan", "budget", "time", "interrupt"]
    remembered: int = 0
    asked: Literal["model", "white box"] = "model"
    noise: NoiseCheck | None = None
    noise_test: RepeatCheck | None = None
    caution: str = ""
    settings: dict[str, Any]
    table: Any = Field(default=None, exclude=True, repr=False)

    def __eq__(self, other: object) -> bool:
        """Whether two results say the same; the table of all profiles does not travel as JSON and does not count."""
        return isinstance(other, SearchResult) and self.plain() == other.plain()

    __hash__ = None  # type: ignore[assignment]  # settings and table cannot be hashed

    def _records_hidden(self) -> dict[str, Any]:
        """Return the examples that are invented, and the kinds of enough profiles."""
        reading = self.reading
        if reading is not None and any(example.distance is not None for example in self.representatives):
            kinds = tuple(kind for kind in reading.kinds if kind.size >= LEAST_OF_KIND)
            reading = reading.model_copy(update={"kinds": kinds})
        return {
            "examples": tuple(example.hide_nearest() for example in self.examples if not example.real),
            "representatives": tuple(example.hide_nearest() for example in self.representatives),
            "reading": reading,
        }

    def _small_groups_hidden(self) -> dict[str, Any]:
        """Leave out all profiles where people were searched from."""
        from_data = any(example.distance is not None for example in (*self.examples, *self.representatives))
        return {"table": None, **({"examples": (), "representatives": ()} if from_data else {})}

    @property
    def plausible_means(self) -> str:
        """What is true of plausible profiles, to be read in brackets."""
        rules = "they obey the rules of the schema, and " if self.counterparts else ""
        return f"{rules}any two of their values occur together in the data"

    def document(self, subject: SubjectCard | None = None) -> Document:
        """Return how common flips are, what was found, who it concerns, and what matters.

        Args:
            subject: what was searched, which the result does not hold.
        """
        return _build_document(self, subject)

    @property
    def shown_table(self) -> ProfileTable:
        """Profiles that may be shown: invented ones only, where records of people are left out."""
        assert isinstance(self.table, ProfileTable)
        return self.table.invented if self.people_left_out else self.table

    def to_frame(self) -> pd.DataFrame:
        """One row per profile in the data's own words, in the order found; after ``from_json`` only the examples.

        Where records of people are left out, only invented profiles are in it.

        Columns: the unprotected attributes; protected values, label and favourable score of the worst and the best
        treated assignment; gap; valid; given.
        """
        import pandas as pd

        if isinstance(self.table, ProfileTable):
            return self.shown_table.to_frame()
        rows = [
            example.unprotected
            | example.worse.moved
            | {f"{name} (worse)": value for name, value in example.worse.values.items()}
            | {f"{name} (better)": value for name, value in example.better.everything.items()}
            | {"label (worse)": example.worse.label, "label (better)": example.better.label}
            | {"score (worse)": example.worse.score, "score (better)": example.better.score, "gap": example.gap}
            | {"valid": example.valid, "given": example.given}
            for example in self.examples
        ]
        return pd.DataFrame(rows)


def build_examples(
    table: ProfileTable,
    rows: Integers,
    severity: Floats,
    distance: Floats | None = None,
    nearest: Floats | None = None,
) -> tuple[Example, ...]:
    """Return profiles of a table in full.

    Args:
        rows: their positions in the table, shape (n,).
        severity, distance: shape (n,), see ``Example``.
        nearest: the unprotected part of the nearest person in the data, shape (n, U).
    """
    found, schema = table.found, table.schema
    people = [table.people(rows, np.full(len(rows), which)) for which in range(len(table.assignments))]

    def moved(k: int, row: int) -> list[str]:
        """Return which attributes differ between the worst and the best treated, beside the protected ones."""
        sides = people[table.worse[row]][k], people[table.better[row]][k]
        return [name for name in table.moved if len({side[schema.position(name)] for side in sides}) > 1]

    def assignment(k: int, row: int, which: int) -> Assignment:
        def values(names: Sequence[str]) -> dict[str, str]:
            return {name: schema[name].text(people[which][k, schema.position(name)]) for name in names}

        return Assignment(
            values=values(table.protected),
            moved=values(moved(k, row)),
            label=str(table.classes[found.labels[row, which]]),
            score=float(found.scores[row, which, table.favourable]),
        )

    def changes(k: int, row: int) -> dict[str, str]:
        if nearest is None:
            return {}
        pairs = zip(table.unprotected_names, found.unprotected[row], nearest[k], strict=True)
        return {name: table.schema[name].text(real) for name, entry, real in pairs if entry != real}

    return tuple(
        Example(
            unprotected={
                name: table.schema[name].text(entry)
                for name, entry in zip(table.unprotected_names, found.unprotected[row], strict=True)
                if name not in moved(k, row)
            },
            worse=assignment(k, row, int(table.worse[row])),
            better=assignment(k, row, int(table.better[row])),
            outcomes=tuple(assignment(k, row, which) for which in np.flatnonzero(table.compared[row]).tolist()),
            gap=float(table.gap[row]),
            severity=float(severity[k]),
            distance=None if distance is None else float(distance[k]),
            changes=changes(k, row),
            valid=bool(found.valid[row]) if table.with_data else None,
            given=bool(found.given[row]),
            real=bool(table.real[row]),
        )
        for k, row in enumerate(rows.tolist())
    )


def search_answer(result: SearchResult, favourable: str | None = None) -> Metric:
    """Return how many profiles were found, at what price, and which protected value is treated best."""
    notes = [_describe_price(result)]
    test = result.noise_test
    if test is not None and test.repeated < test.differed:
        notes.insert(0, test.sentence)
    best: dict[str, int] = {}
    for example in result.representatives:
        for name, value in example.better.values.items():
            if favourable is None or example.better.label == favourable:
                best[f"{name} {value}"] = best.get(f"{name} {value}", 0) + 1
    if best:
        favoured = max(best, key=lambda name: best[name])
        kinds = format_count(len(result.representatives), "kind", "kinds")
        notes.append(f"{kinds} of people; treated best most often: {favoured}")
    said = "distinct profiles" if result.profiles != 1 else "distinct profile"
    number = ReportedNumber(
        f"{result.profiles:,}", result.profiles, "observed", basis=f"{said} that flip{_validity(result)}"
    )
    step = "see under Individuals who they are; look further with evenhand search"
    if not result.profiles:
        step = "finding nothing is not a proof: see what is proved, or search longer with evenhand search"
    return Metric("profiles found by searching", number, tuple(notes), join_names(result.protected), step)


def search_blocks(result: SearchResult, *, favourable: str | None = None, scores: bool = True) -> Iterator[Block]:
    """Yield the kinds of people found: a table, one pair of each, and how they differ from the data."""
    reading = result.reading
    if reading is None:
        return
    yield kinds_table(result)
    if not result.representatives:
        return
    yield Heading("One of each kind", level=3, detail=True)
    for i, example in enumerate(result.representatives, 1):
        yield _pair(f"Kind {i}. {_source(example)}", example, favourable, scores=scores)


def kinds_table(result: SearchResult) -> Table:
    """Return the kinds of people found."""
    columns = (
        Column("kind"),
        Column("profiles", numeric=True),
        Column("share", numeric=True),
        Column("what at least two in three have in common, and fewer of the people in the data"),
    )
    rows = tuple(
        TableRow(
            (str(i), kind.size, ReportedNumber(format_percent(kind.share), kind.share, "observed"), describe_kind(kind))
        )
        for i, kind in enumerate(result.reading.kinds if result.reading is not None else (), 1)
    )
    found = format_count(result.profiles, "profile", "profiles")
    return Table(f"Kinds of people, observed on the {found} found", columns, rows, usual="observed")


def describe_kind(kind: PeopleCluster) -> str:
    """Return what the people of a kind have in common."""
    common = ", ".join(f"{name} {value}" for name, value in kind.common.items())
    return f"{common or 'people of every sort'}; median gap {format_decimal(kind.gap)}"


def _build_document(result: SearchResult, subject: SubjectCard | None) -> Document:
    names = join_names(result.protected)
    title = f"Individuals who are decided differently by {names}"
    changes = f"nothing but {names} changes"
    if result.counterparts:
        changes = f"{names} changes, and with it what the schema links to it"
    lead = f"Who is decided differently when {changes}?"
    if subject is not None:
        title = f"Search of {subject.name} on {subject.data}"
        if result.table_reading is None or result.table_reading.true_label is None:
            lead += f" Favourable decision: {subject.target} = {subject.favourable}."
    blocks: list[Block] = []
    if result.noise is not None and result.noise.noisy:
        blocks.append(
            result.noise.caution("Only profiles whose decisions repeat when both sides are asked again are listed.")
        )
    if result.caution:
        blocks.append(Note(result.caution, "caution"))
    if result.interrupted:
        blocks.append(Note("This search was interrupted. It holds what was found before.", "caution"))
    blocks.append(Text(_finding(result), role="finding"))
    blocks += [_rate_answer(rate) for rate in result.rates]
    answer = search_answer(result, None if subject is None else subject.favourable)
    blocks += [Metric(answer.name, answer.number, answer.notes), _next_step(result)]
    blocks.append(
        Text(
            f"A profile is everything about a person but {names}. It counts once, however many values of {names} "
            f"change the decision. {_explain_counterparts(result)}Profiles that "
            "were found are not a random sample: how common flips are is said by the rates, not by their number.",
            role="small",
        )
    )
    favourable = None if subject is None else subject.favourable
    scores = subject is None or not subject.label_only
    if result.reading is not None:
        if scores:
            caption = "How far the scores of the worst and the best treated value lie apart, for all profiles found."
            blocks.append(Figure("gaps of profiles", caption, result))
        blocks += [
            Heading("Kinds of people", anchor="kinds"),
            *search_blocks(result, favourable=favourable, scores=scores),
            *_pair_section(result, favourable, scores=scores),
            *_attribute_section(result),
        ]
    blocks += [Heading("How it was done", anchor="method", detail=True), Facts(tuple(_facts(result)))]
    return Document(
        title, lead, tuple(blocks), brand="Evenhand search", made=result.provenance, readings=result.readings
    )


def _finding(result: SearchResult) -> str:
    """Return for how many the decision changes, and how many profiles were found, in a sentence."""
    names = join_names(result.protected)
    many = format_count(result.profiles, "profile", "profiles")
    if not result.rates:
        return f"The search found {many} whose decision changes with {names}; how common they are is not known."
    worst = max(result.rates, key=lambda rate: rate.estimate)
    whom = PEOPLE.get(worst.population, worst.population)
    return (
        f"For {format_percent(worst.estimate)} of {whom} the decision changes with {names} (counterfactual flip rate, "
        f"estimated); the search found {many}."
    )


def _explain_counterparts(result: SearchResult) -> str:
    if not result.counterparts:
        return ""
    return "Linked attributes move along, and no one is compared who breaks a rule of the schema. "


def _rate_answer(rate: SampledFlipRate) -> Metric:
    whom = (
        f"{rate.n:,} sampled"
        if rate.drawn in (None, rate.n)
        else (f"{rate.n:,} with a plausible counterpart, among {rate.drawn:,} sampled")
    )
    number = ReportedNumber(
        format_percent(rate.estimate),
        rate.estimate,
        "estimated",
        rate.low,
        rate.high,
        f"{format_percent(rate.low)} to {format_percent(rate.high)}",
        rate.confidence,
        f"{rate.flips:,} of {whom} from {PEOPLE.get(rate.population, rate.population)}",
    )
    notes = [] if rate.repeats is None or not rate.repeats.noise else [rate.repeats.sentence]
    notes += [] if rate.noise is None else describe_noise(rate.noise)
    return Metric("counterfactual flip rate", number, tuple(notes))


def _validity(result: SearchResult) -> str:
    if result.valid is None or not result.profiles:
        return ""
    many = "all" if result.valid == result.profiles else f"{result.valid:,}"
    return f", {many} of them plausible ({result.plausible_means})"


def _describe_price(result: SearchResult) -> str:
    started = format_count(result.given, "is a person", "are people")
    given = f"{started} it started from; " if result.given else ""
    if result.asked == "model":
        return f"{given}{result.queries:,} individuals asked about, the rates included"
    return (
        f"{given}{result.queries:,} questions to the inside of the model; it confirmed each profile itself at the end"
    )


def _next_step(result: SearchResult) -> NextStep:
    if result.profiles:
        return NextStep("read the pairs (--html FILE), keep them as tests (--save-tests FILE)")
    if result.noise_test is not None and result.noise_test.noise:
        return NextStep("what differed in single answers may be noise: read the excess of the rates, or search longer")
    if result.rate is not None:
        return NextStep(
            f"with {format_level(result.rate.confidence)} confidence at most {format_percent(result.rate.high)} are "
            "affected; only a proof can say that no one is",
            "evenhand certify",
        )
    return NextStep("give it a larger budget, or prove that there is none", "evenhand certify")


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
    pairs = [_pair(_source(example), example, favourable, scores=scores) for example in result.examples]
    yield from pairs[:PAIRS]
    if pairs[PAIRS:]:
        yield Fold(format_count(len(pairs) - PAIRS, "more pair", "more pairs"), tuple(pairs[PAIRS:]))
    notes = ["Invented profiles are made by the search: they are no records of the data."]
    if any(example.real for example in result.examples):
        notes.append("Persons in the data are real records: handle this document as you handle the data.")
    if scores:
        notes.append("Scores are those the model gave for the favourable label, observed.")
    yield Note(" ".join(notes))


def _attribute_section(result: SearchResult) -> Iterator[Block]:
    assert result.reading is not None
    yield Heading("Attributes that matter", anchor="attributes")
    yield Figure(
        "attributes of profiles",
        "Share of each value. Filled diamond: among the profiles found. Hollow circle: among the people in the data.",
        result,
    )
    columns = (Column("attribute"), Column("what it has to do with the flips"))
    rows = tuple(TableRow((one.name, describe_attribute(one))) for one in result.reading.attributes)
    yield Table("Unprotected attributes, observed on the profiles found", columns, rows, listed=ATTRIBUTES)


def describe_attribute(one: AttributeReading) -> str:
    """Return what an attribute has to do with the findings."""
    parts = []
    if one.sensitive is not None:
        parts.append(
            f"another value undoes {format_percent(one.sensitive)} of {format_count(one.tried, 'flip', 'flips')}"
        )
    most = max(one.shares, key=lambda share: share.found - (share.data or 0.0))
    if most.data is not None:
        parts.append(f"{most.value}: {format_percent(most.found)} here, {format_percent(most.data)} in the data")
    return "; ".join(parts) or "the same as in the data"


def _facts(result: SearchResult) -> Iterator[tuple[str, str]]:
    yield "method", f"{result.method}; {STOPPED[result.stopped_by]}"
    asked = format_count(result.queries, "individual", "individuals")
    yield "questions", f"{asked} asked about in all: rates, search and confirmation"
    for key, value in result.settings.items():
        if value:
            listed = isinstance(value, Sequence) and not isinstance(value, str)
            yield key.replace("_", " "), "; ".join(map(str, value)) if listed else str(value)
    reading = result.reading
    if reading is not None and reading.distance is not None:
        many = format_count(reading.looked_at, "profile", "profiles")
        near = f"{format_decimal(reading.distance)} to the nearest person in the data (Gower\u2019s distance)"
        yield "distance to people", f"{near}, the median of {many}"


def _source(example: Example) -> str:
    """Return whether a profile is a record of the data."""
    if example.real:
        return "A person in the data" if example.distance == 0 else "A profile with values of persons in the data"
    return "An invented profile, plausible" if example.valid else "An invented profile"


def _pair(title: str, example: Example, favourable: str | None, *, scores: bool) -> Pair:
    first, second = (show_side(side, favourable, scores=scores) for side in (example.worse, example.better))
    note = ""
    if example.distance is not None and example.changes:
        real = ", ".join(f"{name} {value}" for name, value in example.changes.items())
        note = f"nearest real person: {real}, the rest the same"
    return Pair(title, first, second, example.unprotected, note)
