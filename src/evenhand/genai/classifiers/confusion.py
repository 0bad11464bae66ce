"""How often a classifier's labels are right, from a labelled sample, and what a guarantee is worth under it.

Deadlines are kept for what the classifier says. If it says "elderly" of an item that shows an adult, a deadline was
kept in the books alone.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from math import ceil, log
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from evenhand.core.document import Block, Column, Document, Figure, Heading, Table, TableRow, Text
from evenhand.core.result import Result
from evenhand.core.result_part import ResultPart
from evenhand.core.text import format_count, format_level, format_percent
from evenhand.errors import DataError, OptionError
from evenhand.genai.assessment.sequences import read_source_table, read_text_column, sample_values
from evenhand.genai.config import ConfusionConfig
from evenhand.genai.spec.specification import GenerationConfig, Requirement
from evenhand.stats.proportion import clopper_pearson
from evenhand.stats.quantity import Observed, Quantity, Unknown, show_quantity

if TYPE_CHECKING:
    import pandas as pd
    from narwhals.typing import IntoDataFrame


class DeadlineSuccess(ResultPart):
    """What the deadline of one value is worth.

    Attributes:
        value: which one.
        deadline: its deadline, kept for items that the classifier says show it.
        right: how often an item that is said to show it does, with an interval.
        guaranteed: whether that is wrong at most as often as was said to be tolerated, for sure up to the confidence.
        true_deadline: among so many items in a row one truly shows the value, as likely as ``likely``; None if the
            sample does not say so of any number.
    """

    value: str
    deadline: int
    right: Observed | Unknown
    guaranteed: bool
    true_deadline: int | None
    likely: float

    def statement(self) -> str:
        """In one sentence."""
        if isinstance(self.right, Unknown):
            return f"{self.value!r}: nothing is known about its deadline of {self.deadline}, as {self.right.reason}."
        text = (
            f"{self.value!r}: of {self.right.n} items said to show it {self.right.value:.1%} do"
            f" (at least {self.right.low:.1%} of such items)"
        )
        if self.true_deadline is None:
            return f"{text}; so its deadline of {self.deadline} says nothing about what is shown."
        state = "is guaranteed" if self.guaranteed else "is not guaranteed"
        return (
            f"{text}; its deadline of {self.deadline} {state}, and among any {self.true_deadline} items in a row"
            f" one truly shows it with probability {self.likely:.0%}."
        )


class ConfusionMatrix(ResultPart):
    """What a classifier says of items whose value is known.

    Attributes:
        values: of the concept group.
        counts: by true value and then by what was said, how many items; the last of both is "cannot tell": of a true
            value, that the item shows none.
        confidence: that all intervals hold together for what is said of one value after another.
    """

    values: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]
    confidence: float

    @property
    def items(self) -> int:
        """How many items were labelled."""
        return sum(map(sum, self.counts))

    def precision(self, value: str) -> Observed | Unknown:
        """Return the share that does, of the items said to show a value."""
        k = self._place(value)
        return self._share(self.counts[k][k], sum(row[k] for row in self.counts), f"no item was said to show {value!r}")

    def recall(self, value: str) -> Observed | Unknown:
        """Return the share that is said to, of the items that show a value."""
        k = self._place(value)
        return self._share(self.counts[k][k], sum(self.counts[k]), f"no item of the sample shows {value!r}")

    def deadline_successes(
        self, deadlines: Mapping[str, int], *, tolerated: float = 0.05, likely: float = 0.99
    ) -> tuple[DeadlineSuccess, ...]:
        """Return what deadlines that are kept for the classifier's labels are worth for what items show.

        Of the items said to show ``k``, the interval's lower end ``p`` truly do. In ``m`` deadlines in a row the
        classifier says ``k`` at least ``m`` times, and all of them are wrong with probability at most ``(1 - p)^m``:
        so one of ``m * deadline`` items truly shows it as likely as ``1 - (1 - p)^m``.

        Assumed, and not to be seen in the numbers: the sample was drawn like the items that are judged, instructions
        included, and the classifier's errors are independent of each other. Items are counted that the classifier
        recognised.

        Args:
            deadlines: by value, from 1.
            tolerated: how often a label may be wrong for a deadline to be called guaranteed.
            likely: the probability that true deadlines hold with, for every stretch of items by itself.

        Raises:
            OptionError: a value that is not known, or a number out of range.
        """
        return tuple(
            deadline_success(value, deadline, self.precision(value), tolerated=tolerated, likely=likely)
            for value, deadline in deadlines.items()
        )

    def _place(self, value: str) -> int:
        if value not in self.values:
            raise OptionError(
                f"{value!r} is not a value of the sample", hint=f"Its values are {', '.join(self.values)}."
            )
        return self.values.index(value)

    def _share(self, hits: int, of: int, otherwise: str) -> Observed | Unknown:
        if not of:
            return Unknown(reason=otherwise)
        # Shared out among the values, so that all intervals hold together (Bonferroni).
        each = 1 - (1 - self.confidence) / len(self.values)
        low, high = clopper_pearson(hits, of, each)
        return Observed(
            value=hits / of,
            n=of,
            low=float(low),
            high=float(high),
            confidence=self.confidence,
            method=f"Clopper-Pearson, {len(self.values)} together",
        )


def deadline_success(
    value: str, deadline: int, right: Observed | Unknown, *, tolerated: float = 0.05, likely: float = 0.99
) -> DeadlineSuccess:
    """Return what one deadline is worth, of a value that is said with this share right; see ``Confusion.worth``."""
    if not (0 <= tolerated < 1 and 0 < likely < 1):
        raise OptionError(
            f"tolerated {tolerated} and likely {likely} are not probabilities", hint="Give numbers between 0 and 1."
        )
    if deadline < 1:
        raise OptionError(f"a deadline of {deadline} items for {value!r} cannot be met")
    low = 0.0 if isinstance(right, Unknown) else right.low
    times = 1 if low >= likely else None if low <= 0 else ceil(log(1 - likely) / log(1 - low))
    return DeadlineSuccess(
        value=value,
        deadline=deadline,
        right=right,
        guaranteed=low >= 1 - tolerated,
        true_deadline=None if times is None else times * deadline,
        likely=likely,
    )


def count_confusion(
    true: Sequence[str | None], said: Sequence[str | None], values: Sequence[str], *, confidence: float = 0.95
) -> ConfusionMatrix:
    """Count what a classifier says of labelled items.

    Args:
        true: the value of each item, None if it shows none.
        said: what the classifier says of each, None if it cannot tell.
        values: of the concept group.
        confidence: of the intervals.

    Raises:
        DataError: there are no items, the lengths differ, or a label is not a value.
        OptionError: no values, one of them twice, or a confidence out of range.
    """
    names = tuple(values)
    if not names or len(set(names)) != len(names):
        raise OptionError(f"{list(names)} are not values", hint="Name every value once.")
    if not 0 < confidence < 1:
        raise OptionError(f"confidence is {confidence}", hint="Give a number between 0 and 1.")
    if len(true) != len(said):
        raise DataError(f"{len(true)} items are labelled and {len(said)} were classified")
    if not true:
        raise DataError("there are no labelled items")
    places: dict[str | None, int] = {None: len(names), **{name: k for k, name in enumerate(names)}}
    counts = [[0] * (len(names) + 1) for _ in places]
    for pair in zip(true, said, strict=True):
        unknown = [one for one in pair if one not in places]
        if unknown:
            raise DataError(f"{unknown[0]!r} is not a value", hint=f"Known: {', '.join(names)}, and None.")
        counts[places[pair[0]]][places[pair[1]]] += 1
    return ConfusionMatrix(values=names, counts=tuple(map(tuple, counts)), confidence=confidence)


# What deadlines are worth that are kept for a classifier's labels, given samples of items whose values are known.
#
# Labels of several groups err together: a combination is right only if each of its labels is.


NO_VALUE = "none"
"""What stands in a sample for an item that shows no value, and for one of which nothing could be told."""


class SpecificationSuccess(ResultPart):
    """What the deadlines of one specification are worth for what items truly show.

    Attributes:
        specification: its name.
        samples: the names of those that say so: a group, or several joined with `` + ``.
        missing: groups whose labels are taken as right, as there is no sample.
        tolerated: share of wrong labels up to which a deadline is called guaranteed.
        values: one by one; empty without any sample.
        guaranteed: whether all deadlines are; None: nothing speaks against it but that labels are taken as right.
    """

    specification: str
    samples: tuple[str, ...]
    missing: tuple[str, ...]
    tolerated: float
    values: tuple[DeadlineSuccess, ...]
    guaranteed: bool | None

    def statement(self) -> str:
        """In one sentence; ``values`` say more."""
        missing = f"the labels of {_join_names(self.missing)} are taken as right, as there is no labelled sample"
        if self.guaranteed is None:
            return missing
        most = f"{100 * self.tolerated:.3g}%"
        if self.guaranteed:
            return f"guaranteed also for what items show: labels are wrong at most {most} of the time, by the sample"
        blamed = _join_names([repr(one.value) for one in self.values if not one.guaranteed])
        also = f"; {missing}" if self.missing else ""
        return f"NOT guaranteed for what items show: labels {blamed} may be wrong more than {most} of the time{also}"


def read_sample(
    source: str | Path | IntoDataFrame,
    *,
    true: str = "true",
    said: str = "said",
    values: Sequence[str] | None = None,
    conditions: Mapping[str, str] | None = None,
    confidence: float = 0.95,
) -> tuple[ConfusionMatrix, int]:
    """Count a labelled sample: a row per item, with its true value and what the classifier says.

    A true value that is empty means that the item was not labelled; it is left out. ``none`` means that it shows none
    of the values; of the classifier, that it cannot tell, as an empty field does.

    Args:
        source: a CSV or Parquet file, or any data frame that narwhals knows.
        true, said: columns.
        values: of the concept group; all that occur unless given, sorted.
        conditions: column -> value; only the rows that have all of these are read.
        confidence: of the intervals.

    Returns:
        The counts, and how many items were left out because they have no label.

    Raises:
        DataError: the file cannot be read, a column is not there, a label is not a value, or no item is left.
    """
    table, location = read_source_table(source)
    columns = {
        name: read_text_column(table, name, location) for name in dict.fromkeys([true, said, *(conditions or {})])
    }
    rows = [
        i
        for i in range(len(columns[true]))
        if all(columns[name][i] == wanted for name, wanted in (conditions or {}).items())
    ]
    labelled = [i for i in rows if columns[true][i] is not None]
    if not labelled:
        asked = dict.fromkeys([true, *(conditions or {})])
        seen = "; ".join(f"{name}: {', '.join(sample_values(columns[name]))}" for name in asked)
        raise DataError("no item is labelled", location=location, hint=f"there are {seen}")
    truths, answers = ([columns[name][i] for i in labelled] for name in (true, said))
    names = tuple(values or sorted({label for label in (*truths, *answers) if label not in (None, NO_VALUE)}))
    try:
        found = count_confusion(
            _known_labels(truths, names), _known_labels(answers, names), names, confidence=confidence
        )
    except DataError as error:
        hint = f"one of: {', '.join(names)}; or {NO_VALUE} for an item that shows none of them"
        raise DataError(error.message, location=location, hint=hint) from None
    return found, len(rows) - len(labelled)


def read_samples(configuration: GenerationConfig, *, confidence: float = 0.95) -> dict[str, ConfusionMatrix]:
    """Return the samples that a configuration names: with the columns ``true`` and ``said``.

    Raises:
        DataError: a file cannot be read, or a label in it is not a value of its groups.
    """
    return {
        about: read_sample(file, values=_sample_values(configuration, about), confidence=confidence)[0]
        for about, file in configuration.samples.items()
    }


def specification_success(
    configuration: GenerationConfig, samples: Mapping[str, ConfusionMatrix] | None = None, *, likely: float = 0.99
) -> tuple[SpecificationSuccess, ...]:
    """Return what the deadlines of each specification are worth under samples; see ``Confusion.worth``.

    The label of a combination of groups is wrong if that of any group is. A sample of the combination itself, named by
    its groups joined with `` + ``, is believed first. Else the shares of wrong labels of the groups are added up, which
    needs no independence of one error from another; assumed is that a label of one group is as often right whatever is
    said of the others. Intervals of the groups hold together (Bonferroni).

    Args:
        configuration: what is kept.
        samples: group, or groups joined with `` + `` -> its sample; those of the configuration are read unless given.
        likely: the probability that true deadlines hold with.
    """
    known = read_samples(configuration) if samples is None else samples
    tolerated = configuration.tolerated.labels
    return tuple(
        _requirement_success(one, known, tolerated, likely)
        for one in configuration.requirements
        if one.repeated is not None
    )


def _requirement_success(
    requirement: Requirement, samples: Mapping[str, ConfusionMatrix], tolerated: float, likely: float
) -> SpecificationSuccess:
    together = " + ".join(requirement.groups)
    names = (together,) if together in samples else tuple(group for group in requirement.groups if group in samples)
    missing = () if together in samples else tuple(group for group in requirement.groups if group not in samples)
    values = []
    for label, positions, deadline in zip(
        requirement.labels, requirement.combinations, requirement.repeated or (), strict=True
    ):
        if not names:
            break
        if names == (together,):
            right = samples[together].precision(label)
        else:
            shown = {group: requirement.values[g][positions[g]] for g, group in enumerate(requirement.groups)}
            right = _joint_precision([(samples[group], shown[group]) for group in names], names)
        values.append(deadline_success(label, deadline, right, tolerated=tolerated, likely=likely))
    wrong = any(not one.guaranteed for one in values)
    return SpecificationSuccess(
        specification=requirement.name,
        samples=names,
        missing=missing,
        tolerated=tolerated,
        values=tuple(values),
        guaranteed=False if wrong else None if missing else True,
    )


def _joint_precision(parts: Sequence[tuple[ConfusionMatrix, str]], names: Sequence[str]) -> Observed | Unknown:
    """Return the share of items said to show several values that show all of them, if the errors of groups add up."""
    found = []
    for sample, value in parts:
        each = 1 - (1 - sample.confidence) / len(parts)
        right = sample.model_copy(update={"confidence": each}).precision(value)
        if isinstance(right, Unknown):
            return right
        found.append(right)
    if len(found) == 1:
        return found[0]
    return Observed(
        value=max(0.0, 1 - sum(1 - one.value for one in found)),
        n=min(one.n for one in found),
        low=max(0.0, 1 - sum(1 - one.low for one in found)),
        high=min(one.high for one in found),
        confidence=parts[0][0].confidence,
        method=f"errors of {_join_names(names)} added up, each Clopper-Pearson",
    )


def _sample_values(configuration: GenerationConfig, about: str) -> tuple[str, ...]:
    """Return the values that a sample's labels may have."""
    groups = about.split(" + ")
    found = configuration.values[groups[0]]
    for group in groups[1:]:
        found = tuple(f"{before} + {value}" for before in found for value in configuration.values[group])
    return found


def _known_labels(labels: Sequence[str | None], values: Sequence[str]) -> list[str | None]:
    return [None if label == NO_VALUE and NO_VALUE not in values else label for label in labels]


def _join_names(names: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


# A labelled sample, counted: how often a classifier's labels are right, and what deadlines are worth for it.


class ConfusionResult(Result):
    """What a classifier says of items whose values are known.

    Attributes:
        source: the sample; conditions: column -> value of the items that were read.
        items: labelled; unlabelled: left out, because their value is unknown.
        sample: the counts.
        right: by value, of the items said to show it the share that does.
        found: by value, of the items that show it the share that is said to.
        tolerated: share of wrong labels up to which a deadline is called guaranteed.
        worth: of deadlines, if any were asked about.
    """

    chart = "confusion.draw_counts"
    kind: Literal["genai-confusion"] = "genai-confusion"
    source: str
    conditions: dict[str, str]
    items: int
    unlabelled: int
    sample: ConfusionMatrix
    right: dict[str, Quantity]
    found: dict[str, Quantity]
    tolerated: float
    worth: tuple[DeadlineSuccess, ...]

    def document(self) -> Document:
        """Return the counts, how often labels are right and values are found, and what deadlines are worth."""
        of = " and ".join(f"{name} = {value}" for name, value in self.conditions.items())
        left_out = f", {self.unlabelled:,} not labelled and left out" if self.unlabelled else ""
        blocks: list[Block] = [
            *self._finding(),
            Figure("counts of labels", "Blue: the label is right. Orange: it is wrong. The stronger, the more.", self),
            self._count_table(),
            self._share_table(),
        ]
        if self.worth:
            blocks += [Heading("Deadlines"), Text(items=tuple(one.statement() for one in self.worth))]
        return Document(
            f"Labels of {self.source}{f' ({of})' if of else ''}",
            f"{format_count(self.items, 'labelled item', 'labelled items')}{left_out}.",
            tuple(blocks),
            brand="Evenhand, generative AI",
            made=self.provenance,
        )

    def _finding(self) -> Iterator[Text]:
        right = {value: one.value for value, one in self.right.items() if isinstance(one, Observed)}
        if right:
            worst = min(right, key=lambda value: right[value])
            yield Text(
                f"Least reliable is {worst!r}: {format_percent(right[worst])} of the items said to show it do "
                "(observed).",
                role="finding",
            )

    def _count_table(self) -> Table:
        """Return the counts, a row for every true value and a column for what is said."""
        names = [*self.sample.values, NO_VALUE]
        return Table(
            "Items by the value that they show (rows) and by what is said of them (columns), observed",
            (
                Column("shown"),
                *(Column(f"said {name}", numeric=True) for name in self.sample.values),
                Column("cannot tell", numeric=True),
            ),
            tuple(TableRow((name, *counts)) for name, counts in zip(names, self.sample.counts, strict=True)),
        )

    def _share_table(self) -> Table:
        return Table(
            f"How often labels are right, and values are found: observed, with {format_level(self.sample.confidence)} "
            "intervals of all together",
            (Column("value"), Column("said, and right", numeric=True), Column("shown, and said", numeric=True)),
            tuple(
                TableRow((value, show_quantity(self.right[value], "right"), show_quantity(self.found[value], "found")))
                for value in self.sample.values
            ),
            usual="observed",
        )

    def to_frame(self) -> pd.DataFrame:
        """Return one row for every true value and what is said of it, with the number of items; None: neither."""
        import pandas as pd

        return pd.DataFrame(self.cells())

    def cells(self) -> list[dict[str, str | int | float | None]]:
        """Return the counts one by one, with their share of the items that show the same."""
        names = [*self.sample.values, None]
        return [
            {"true": true, "said": said, "items": n, "share": n / sum(counts) if sum(counts) else None}
            for true, counts in zip(names, self.sample.counts, strict=True)
            for said, n in zip(names, counts, strict=True)
        ]


def measure_confusion(
    source: str | Path | IntoDataFrame, config: ConfusionConfig | None = None, **settings: Any
) -> ConfusionResult:
    """Count a labelled sample; see ``read_sample``.

    Args:
        source: a table, a row per item, or its file.
        config: settings.
        settings: fields of ``ConfusionConfig`` by name, in place of the configuration's.

    Raises:
        DataError: the sample cannot be read.
        OptionError: an option makes no sense.
    """
    started = time.perf_counter()
    config = ConfusionConfig.of(config, settings)
    repeated, tolerated = config.repeated, config.tolerated
    sample, unlabelled = read_sample(
        source,
        true=config.true,
        said=config.said,
        values=config.values,
        conditions=config.conditions,
        confidence=config.confidence,
    )
    deadlines: dict[str, int] = {}
    if repeated is not None:
        each = [repeated] * len(sample.values) if isinstance(repeated, int) else list(repeated)
        if len(each) != len(sample.values):
            raise OptionError(
                f"{len(sample.values)} values need as many deadlines, and there are {len(each)}",
                location="`repeated=`",
                hint=f"in this order: {', '.join(sample.values)}",
            )
        deadlines = dict(zip(sample.values, each, strict=True))
    return ConfusionResult(
        seed=0,
        seconds=time.perf_counter() - started,
        source=Path(source).name if isinstance(source, str | Path) else "the data frame",
        conditions=dict(config.conditions or {}),
        items=sample.items,
        unlabelled=unlabelled,
        sample=sample,
        right={value: sample.precision(value) for value in sample.values},
        found={value: sample.recall(value) for value in sample.values},
        tolerated=tolerated,
        worth=sample.deadline_successes(deadlines, tolerated=tolerated),
    )
