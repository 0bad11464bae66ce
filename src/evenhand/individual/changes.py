"""By how much a number, such as a premium, changes with a protected attribute: the individual effect, person by person.

The individual effect is the largest difference between the model's numbers for one person under any two values of the
protected attributes, everything else unchanged, in the unit of the number (of counterfactual fairness for a regression:
Kusner et al., NIPS 2017; here without a causal model). Where the schema has rules, people are compared with plausible
counterparts, as for labels. With a tolerance t, the flip rate is the share of people whose number changes by more than
t.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic import field_validator

from evenhand.core.config import Config, setting
from evenhand.core.document import (
    Block,
    Column,
    Document,
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
from evenhand.core.text import SIMULATED, join_names
from evenhand.core.time_limit import check_time
from evenhand.core.typing import Booleans, Floats, Integers, Progress, ignore_progress
from evenhand.errors import OptionError
from evenhand.individual.flips import Variants, find_real
from evenhand.models.noise import RepeatCheck, can_vary
from evenhand.models.scorer import Regressor, ask_numbers
from evenhand.population.independent import Population
from evenhand.schema.people import People
from evenhand.schema.schema import Schema
from evenhand.stats.proportion import estimated_rate, observed_rate
from evenhand.stats.quantity import Quantity, show_quantity
from evenhand.stats.repetition import SAME_DIRECTION, confirm_repeats

if TYPE_CHECKING:
    import pandas as pd

QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9, 0.99)
"""Shares of people whose change is at most the number that stands for them."""
MOST_MEANS = 6
"""Values of the protected attributes whose mean numbers are listed; of more, the ends are said."""
CHUNK = 65_536
"""People asked about at once, under all assignments."""


class ChangeConfig(Config):
    """Settings of the individual effect on a number."""

    protected: tuple[str, ...] = setting(..., "attributes to vary, each alone and then all together")
    tolerance: float = setting(0.0, "changes of the number by no more than this do not count as flips", ge=0)
    samples: int = setting(20_000, "individuals drawn from the population", ge=1)
    examples: int = setting(6, "people shown per set of protected attributes", ge=0)
    confidence: float = setting(0.95, "confidence level of every interval", gt=0, lt=1)
    as_published: bool = setting(False, "change the protected attribute alone, whatever rules the schema has")
    seed: int = setting(0, "same seed, same result", ge=0)

    @field_validator("protected")
    @classmethod
    def _require_protected(cls, protected: tuple[str, ...]) -> tuple[str, ...]:
        if not protected:
            raise OptionError("no protected attribute to vary", hint="name at least one: `protected=NAME`")
        return protected


class NumberChange(ResultPart):
    """The distribution of the individual effect over one set of people.

    Attributes:
        over: ``data`` (everybody in the data) or ``population`` (individuals drawn from it).
        population: what it is called.
        protected: the attributes that were changed, jointly.
        rate: share of people whose number changes by more than the tolerance.
        n: people compared.
        without: people who have no plausible counterpart, or break a rule of the schema: they are not compared.
        mean, largest: of the changes.
        quantiles: share of people, in percent -> the change that so many of them do not exceed.
        means: mean number of those compared under each joint value of the protected attributes; empty where some of
            them cannot have every value.
        repeats: How many changes between single answers repeat: only these count. None for a model that cannot vary.
    """

    over: Literal["data", "population"]
    population: str
    protected: tuple[str, ...]
    rate: Quantity
    n: int
    without: int
    mean: float
    largest: float
    quantiles: dict[str, float]
    means: dict[str, float]
    repeats: RepeatCheck | None = None


class ChangedPerson(ResultPart):
    """A person with the two protected values between which the number differs most.

    Attributes:
        protected: the attributes that were changed.
        same: attribute -> value in the data's own words, of all that stays the same.
        lower, higher: the protected values, and those that move with them, with the lower and the higher number.
        lower_number, higher_number: the model's numbers.
        real: Whether it tells about a person in the data: it is a record but for protected attributes, or has a value
            that a single person has. Other profiles are invented.
    """

    protected: tuple[str, ...]
    same: dict[str, str]
    lower: dict[str, str]
    higher: dict[str, str]
    lower_number: float
    higher_number: float
    real: bool = True


class ChangeResult(Result):
    """Individual effects on a number per protected attribute (and jointly), and those who are affected most.

    Attributes:
        tolerance: changes by no more than this do not count as flips.
        unit: of the number and of its changes, where the schema says it.
        changes: one per protected attribute and for all of them together, over the data and the population.
        examples: people in the data with the largest changes.
    """

    kind: Literal["changes"] = "changes"
    tolerance: float
    unit: str | None
    changes: tuple[NumberChange, ...]
    examples: tuple[ChangedPerson, ...]

    def _records_hidden(self) -> dict[str, Any]:
        return {"examples": ()}

    def numbers(self) -> Iterator[ResultNumber]:
        """Yield the flip rates by the tolerance, and the mean and largest changes."""
        for change in self.changes:
            prefix, by = "" if change.over == "data" else "population_", "_x_".join(change.protected)
            yield ResultNumber(f"{prefix}flip_rate", by, "", change.rate)
            yield ResultNumber(f"{prefix}mean_change", by, "", change.mean)
            yield ResultNumber(f"{prefix}largest_change", by, "", change.largest)

    def document(self) -> Document:
        """Return the flip rates by the tolerance, the distribution of changes, and those who are affected most."""
        return Document(
            "Individuals: by how much the number changes with a protected attribute",
            "Each person was asked about again with every other value of the protected attribute. The change is the "
            "largest difference between the numbers that the same person is given.",
            (*change_answers(self), Heading("Changes", detail=True), *change_blocks(self)),
            brand="Evenhand individuals",
            made=self.provenance,
        )

    def to_frame(self) -> pd.DataFrame:
        """One row per set of protected attributes and people."""
        import pandas as pd

        return pd.DataFrame(
            [
                {"protected": join_names(one.protected), "over": one.over, "n": one.n, "mean": one.mean}
                | {f"quantile {share}": value for share, value in one.quantiles.items()}
                | {"largest": one.largest, "rate": getattr(one.rate, "value", None)}
                for one in self.changes
            ]
        )


def measure_changes(
    regressor: Regressor,
    people: People,
    population: Population,
    config: ChangeConfig | None = None,
    *,
    progress: Progress | None = None,
    **settings: Any,
) -> ChangeResult:
    """Measure by how much a model's number changes for the people in the data and of a population.

    Args:
        regressor: the model.
        people: everybody is asked about, once per joint value of the protected attributes.
        population: where further individuals are drawn from.
        config: the settings; ``protected`` must be among them.
        progress: called with what is being done and the share done, 0 to 1.
        settings: fields of ``ChangeConfig`` by name, in place of those in ``config``.

    Raises:
        OptionError: a protected attribute has one value, or there are too many joint values.
        BudgetError: the model may not be asked about so many.
    """
    started = time.perf_counter()
    config = ChangeConfig.of(config, settings)
    say = progress or ignore_progress
    schema = people.schema.without_rules() if config.as_published else people.schema
    sampled = population.sample(config.samples, np.random.default_rng(config.seed))
    sets: list[tuple[str, ...]] = [(name,) for name in config.protected]
    if len(config.protected) > 1:
        sets.append(config.protected)
    for protected in sets:
        schema.assignments(protected)  # refuse all that is wrong before anything is asked
    changes: list[NumberChange] = []
    examples: list[ChangedPerson] = []
    for step, protected in enumerate(sets):
        say(f"changes with {' x '.join(protected)}", step / len(sets))
        everybody = AssignedNumbers.ask(regressor, schema, protected, people.individuals)
        changes.append(_summarize(regressor, everybody, protected, "data", "the people in the data", schema, config))
        examples += most_affected(everybody, protected, people, config.examples)
        drawn = AssignedNumbers.ask(regressor, schema, protected, sampled)
        changes.append(_summarize(regressor, drawn, protected, "population", population.name, schema, config))
    return ChangeResult(
        tolerance=config.tolerance,
        unit=schema.target.unit,
        changes=tuple(changes),
        examples=tuple(examples),
        seed=config.seed,
        seconds=time.perf_counter() - started,
    )


class AssignedNumbers:
    """The model's numbers of people under every joint value of the protected attributes.

    Attributes:
        schema: Schema of the people.
        individuals: The people, shape (n, attributes).
        variants: who they are under each.
        numbers: shape (n, assignments); NaN where somebody cannot exist.
        compared: who obeys the rules and has a counterpart, shape (n,).
        ends: Assignments with the lowest and the highest number of each person, shape (n, 2).
        change: largest difference of two numbers of a person who is compared, else 0, shape (n,).
    """

    def __init__(self, schema: Schema, individuals: Floats, variants: Variants, numbers: Floats) -> None:
        self.schema, self.individuals = schema, individuals
        self.variants, self.numbers = variants, numbers
        self.compared = np.asarray((variants.plausible.sum(axis=1) > 1) & schema.obeys_rules(individuals))
        plausible = variants.plausible
        lowest = np.argmin(np.where(plausible, numbers, np.inf), axis=1)
        highest = np.argmax(np.where(plausible, numbers, -np.inf), axis=1)
        self.ends = np.stack([lowest, highest], axis=1)
        low, high = np.take_along_axis(numbers, self.ends, axis=1).T
        self.change = np.where(self.compared, high - low, 0.0)

    @classmethod
    def ask(
        cls, regressor: Regressor, schema: Schema, protected: tuple[str, ...], individuals: Floats
    ) -> AssignedNumbers:
        """Ask a model about people (n, attributes)."""
        variants = Variants.of(schema, protected, individuals)
        numbers = np.full(variants.plausible.shape, np.nan)
        rows = np.argwhere(variants.plausible)
        for at in range(0, len(rows), CHUNK):
            check_time()
            row, assignment = rows[at : at + CHUNK].T
            numbers[row, assignment] = ask_numbers(regressor, variants.counterparts[row, assignment])
        return cls(schema, individuals, variants, numbers)

    def at(self, rows: Integers) -> AssignedNumbers:
        """Return the people at some positions."""
        return AssignedNumbers(self.schema, self.individuals[rows], self.variants[rows], self.numbers[rows])

    @classmethod
    def concatenate(cls, parts: Sequence[AssignedNumbers]) -> AssignedNumbers:
        """Return the people of all parts, in order."""
        return cls(
            parts[0].schema,
            np.concatenate([part.individuals for part in parts]),
            Variants.concatenate([part.variants for part in parts]),
            np.concatenate([part.numbers for part in parts]),
        )

    def confirm(
        self, regressor: Regressor, *, tolerance: float, confidence: float = 0.95, left: float = np.inf
    ) -> RepeatCheck | None:
        """Ask about both ends of each change again, and set the changes that do not repeat to 0.

        A change repeats if it has the same direction, and exceeds the tolerance if it did before. Changes that repeat
        are replaced by the mean of the new answers, which do not favour large changes as a maximum does.

        Args:
            regressor: The model.
            tolerance: Changes by no more than this are not flips.
            confidence: 1 minus the false discovery rate.
            left: Number of individuals that may be asked about again; changes beyond it count as noise.

        Returns:
            The counts; None for a model that cannot vary.
        """
        if not can_vary(regressor):
            return None
        rows = np.flatnonzero(self.change > 0)
        ends = self.ends[rows]
        sides = self.variants.counterparts[rows[:, None], ends]
        exceeded = np.where(self.change[rows] > tolerance, tolerance, 0.0)
        means, answered, direction = np.zeros(ends.shape), np.zeros(len(rows), dtype=np.int64), -1

        def repeat(which: Integers) -> Booleans:
            nonlocal direction
            asked = sides[which].reshape(-1, sides.shape[2])
            # Each round reverses the order: a generator that is seeded per call would repeat its answers by position.
            new = ask_numbers(regressor, asked[::direction])[::direction].reshape(-1, 2)
            direction = -direction
            answered[which] += 1
            means[which] += (new - means[which]) / answered[which, None]
            return np.asarray(new[:, 1] - new[:, 0] > exceeded[which])

        repetition = confirm_repeats(
            repeat,
            len(rows),
            chance=SAME_DIRECTION,
            confidence=confidence,
            affordable=lambda: left / 2 - answered.sum(),
        )
        self.numbers[rows[:, None], ends] = means
        self.change[rows] = np.where(repetition.confirmed, means[:, 1] - means[:, 0], 0.0)
        return RepeatCheck(
            differed=len(rows),
            tested=repetition.tested,
            repeated=int(repetition.confirmed.sum()),
            queries=2 * int(answered.sum()),
            confidence=confidence,
        )


def _summarize(
    regressor: Regressor,
    found: AssignedNumbers,
    protected: tuple[str, ...],
    over: Literal["data", "population"],
    population: str,
    schema: Schema,
    config: ChangeConfig,
) -> NumberChange:
    means = found.numbers.copy()
    repeats = found.confirm(regressor, tolerance=config.tolerance, confidence=config.confidence)
    change = found.change[found.compared]
    n, flips = len(change), int((change > config.tolerance).sum())
    if over == "data":
        rate: Quantity = observed_rate(flips, n, confidence=config.confidence)
    else:
        rate = estimated_rate(flips, n, population=population, confidence=config.confidence)
    whole = found.variants.plausible[found.compared].all()
    means = means[found.compared].mean(axis=0) if whole and n else means[:0, 0]
    names = schema.positions(protected)
    said = [
        " and ".join(schema.attributes[i].text(entry) for i, entry in zip(names, row, strict=True))
        for row in schema.assignments(protected)
    ]
    return NumberChange(
        over=over,
        population=population,
        protected=protected,
        rate=rate,
        n=n,
        without=len(found.change) - n,
        mean=float(change.mean()) if n else 0.0,
        largest=float(change.max()) if n else 0.0,
        quantiles={f"{100 * share:g}": float(np.quantile(change, share)) if n else 0.0 for share in QUANTILES},
        means=dict(zip(said, map(float, means), strict=False)),
        repeats=repeats,
    )


def most_affected(found: AssignedNumbers, protected: tuple[str, ...], people: People, most: int) -> list[ChangedPerson]:
    """Return the profiles with the largest changes, no two of them alike.

    Args:
        found: Numbers of the profiles.
        protected: Attributes that vary.
        people: The people in the data.
        most: Maximum number of profiles.
    """
    schema, individuals = found.schema, found.individuals
    order = np.argsort(-found.change, kind="stable")
    columns = schema.positions(protected)
    pairs: dict[bytes, int] = {}
    for row in order[found.change[order] > 0].tolist():
        if len(pairs) == most:
            break
        pairs.setdefault(found.variants.counterparts[row, found.ends[row]].tobytes(), row)
    rows = list(pairs.values())
    real = find_real(people, protected, found.variants.counterparts[rows], found.variants.plausible[rows])
    shown: list[ChangedPerson] = []
    for row, is_real in zip(rows, real.tolist(), strict=True):
        pair = found.variants.counterparts[row, found.ends[row]]
        moved = _moved_columns(pair, columns, individuals[row])
        lower, higher = found.numbers[row, found.ends[row]].tolist()
        shown.append(
            ChangedPerson(
                protected=protected,
                same={a.name: a.text(pair[0, i]) for i, a in enumerate(schema.attributes) if i not in moved},
                lower={schema.names[i]: schema.attributes[i].text(pair[0, i]) for i in moved},
                higher={schema.names[i]: schema.attributes[i].text(pair[1, i]) for i in moved},
                lower_number=lower,
                higher_number=higher,
                real=is_real,
            )
        )
    return shown


def _moved_columns(pair: Floats, columns: list[int], own: Floats) -> list[int]:
    """Return the columns that differ between two people, those that were varied among them."""
    differ: Integers = np.flatnonzero((pair[0] != pair[1]) & ~np.isnan(own))
    return sorted({*columns, *differ.tolist()})


def write_number(number: float, unit: str | None = None) -> str:
    """Return a number with up to four significant digits, whole where it is large, and its unit."""
    digits = 0 if number == 0 else max(0, min(8, 3 - int(np.floor(np.log10(abs(number))))))
    return f"{number:,.{digits}f}{f' {unit}' if unit else ''}"


def change_answers(result: ChangeResult) -> list[Metric]:
    """Return one answer for each set of protected attributes: over the data first, then over the population."""
    unit, answers = result.unit, []
    for protected in dict.fromkeys(one.protected for one in result.changes):
        data, drawn = (one for one in result.changes if one.protected == protected)
        beyond = f"by more than {write_number(result.tolerance, unit)}" if result.tolerance else "at all"
        notes = [
            f"half of the people change by at most {write_number(data.quantiles['50'], unit)}, 90 % by at most "
            f"{write_number(data.quantiles['90'], unit)}, no person by more than {write_number(data.largest, unit)}",
            f"of {SIMULATED}: {show_quantity(drawn.rate, 'rate').text} change {beyond}, estimated",
        ]
        if data.means:
            notes.insert(1, _describe_means(data.means, unit))
        if data.repeats is not None and data.repeats.noise:
            notes.append(data.repeats.sentence)
        if data.without:
            notes.append(f"{data.without:,} people have no plausible counterpart and are not compared")
        answers.append(
            Metric(
                f"number changes {beyond}",
                show_quantity(data.rate, "rate", basis=f"of {data.n:,} people in the data"),
                tuple(notes),
                about=join_names(protected),
                next_step="read who is affected most under Individuals"
                if data.largest > result.tolerance
                else "no person in the data; only a proof can say more",
            )
        )
    return answers


def _describe_means(means: dict[str, float], unit: str | None) -> str:
    """Say the mean under each value; of many values, the lowest and the highest."""
    if len(means) > MOST_MEANS:
        low, high = min(means, key=lambda value: means[value]), max(means, key=lambda value: means[value])
        ends = f"from {write_number(means[low], unit)} ({low}) to {write_number(means[high], unit)} ({high})"
        return f"mean number if everybody had one of {len(means):,} values: {ends}"
    said = (f"{value}: {write_number(mean, unit)}" for value, mean in means.items())
    return f"mean number if everybody were {', '.join(said)}"


def change_blocks(result: ChangeResult) -> Iterator[Block]:
    """Yield the distribution of changes as a table, then those who are affected most."""
    columns = (
        Column("what changes"),
        Column("population"),
        Column("people", numeric=True),
        *(Column(f"{share} % up to", numeric=True) for share in result.changes[0].quantiles),
        Column("largest", numeric=True),
        Column("mean", numeric=True),
        Column("beyond the tolerance", numeric=True),
    )
    rows = tuple(
        TableRow(
            (
                join_names(one.protected),
                one.population,
                one.n,
                *(
                    ReportedNumber(write_number(value), value, "observed" if one.over == "data" else "estimated")
                    for value in (*one.quantiles.values(), one.largest, one.mean)
                ),
                show_quantity(one.rate, "rate"),
            )
        )
        for one in result.changes
    )
    unit = f", in {result.unit}" if result.unit else ""
    yield Table(f"By how much numbers change{unit}: shares of people, and the change they do not exceed", columns, rows)
    for protected in dict.fromkeys(one.protected for one in result.changes):
        shown = [one for one in result.examples if one.protected == protected]
        if shown:
            yield Heading(f"Who is affected most by {join_names(protected)}", level=3)
        for one in shown:
            yield Pair(
                f"A person in the data: a change by {write_number(one.higher_number - one.lower_number, result.unit)}",
                Side(one.lower, write_number(one.lower_number, result.unit)),
                Side(one.higher, write_number(one.higher_number, result.unit)),
                one.same,
            )
    if result.people_left_out:
        yield Note(PEOPLE_HIDDEN)
    elif result.examples:
        yield Note("These are records of real people: handle this document as you handle the data.")
