"""Error rates of a classifier from a labelled sample, and their effect on guarantees.

Deadlines are kept for the labels of the classifier. If it labels an item that shows an adult as "elderly", the deadline
of "elderly" is kept for the labels but not for what items show.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from math import ceil, log
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from evenhand.core.document import Block, Column, Document, Figure, Heading, Table, TableRow, Text
from evenhand.core.result import Result
from evenhand.core.result_part import ResultPart
from evenhand.core.text import format_count, format_level, format_percent
from evenhand.errors import DataError, OptionError
from evenhand.genai.assessment.sequences import ItemTable, list_known
from evenhand.genai.config import ConfusionConfig
from evenhand.genai.spec.entries import check_known
from evenhand.genai.spec.specification import GenerationConfig, Requirement, expand_deadlines
from evenhand.stats.level import bonferroni
from evenhand.stats.proportion import observed_rate
from evenhand.stats.quantity import Observed, Quantity, Unknown, show_quantity

if TYPE_CHECKING:
    import pandas as pd
    from narwhals.typing import IntoDataFrame

NO_VALUE = "none"
"""Label of an item that shows no value, or whose value the classifier cannot tell."""


LIKELY = 0.99
"""Probability of each true deadline."""


class DeadlineSuccess(ResultPart):
    """Effect of wrong labels on the deadline of one value.

    Attributes:
        value: Name of the value.
        deadline: Deadline that is kept for the labels.
        right: Share of the items with this label that show the value.
        guaranteed: Whether the share of wrong labels is at most the tolerated share, with the stated confidence.
        true_deadline: Number of consecutive items of which one shows the value with probability ``likely``. None if the
            sample does not support any number.
        likely: Probability of the true deadline.
    """

    value: str
    deadline: int
    right: Observed | Unknown
    guaranteed: bool
    true_deadline: int | None
    likely: float

    def statement(self) -> str:
        """Describe the effect in one sentence."""
        if isinstance(self.right, Unknown):
            return f"{self.value!r}: the effect on its deadline of {self.deadline} is unknown, as {self.right.reason}."
        text = (
            f"{self.value!r}: {self.right.value:.1%} of {self.right.n} items with this label show it (at least "
            f"{self.right.low:.1%} of such items)"
        )
        if self.true_deadline is None:
            return f"{text}, so its deadline of {self.deadline} does not constrain what is shown."
        state = "is guaranteed" if self.guaranteed else "is not guaranteed"
        return (
            f"{text}; its deadline of {self.deadline} {state}, and among any {self.true_deadline} items in a row one "
            f"truly shows it with probability {self.likely:.0%}."
        )


class ConfusionMatrix(ResultPart):
    """Labels of a classifier for items whose value is known.

    Attributes:
        values: Values of the concept group.
        counts: Number of items by true value and label. The last row and column are for items without a value.
        confidence: Joint confidence level of the intervals of all values.
    """

    values: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]
    confidence: float

    @property
    def items(self) -> int:
        """Number of items."""
        return sum(map(sum, self.counts))

    def precision(self, value: str) -> Observed | Unknown:
        """Compute the share of the items with a label that show its value."""
        k = self._index(value)
        return self._rate(self.counts[k][k], sum(row[k] for row in self.counts), f"no item was labelled {value!r}")

    def recall(self, value: str) -> Observed | Unknown:
        """Compute the share of the items that show a value that are labelled with it."""
        k = self._index(value)
        return self._rate(self.counts[k][k], sum(self.counts[k]), f"no item of the sample shows {value!r}")

    def deadline_successes(
        self, deadlines: Mapping[str, int], *, tolerated: float = 0.05
    ) -> tuple[DeadlineSuccess, ...]:
        """Compute the effect of wrong labels on deadlines.

        At least the share ``p`` (the lower confidence limit) of the items labelled ``k`` shows ``k``. During ``m``
        consecutive deadlines, at least ``m`` items are labelled ``k``, and all of them are wrong with probability at
        most ``(1 - p)^m``. One of ``m * deadline`` items therefore shows ``k`` with probability ``1 - (1 - p)^m``.

        Two assumptions cannot be checked with the sample: it was drawn like the items to be classified, including their
        instructions, and the errors of the classifier are independent. Only recognised items are counted.

        Args:
            deadlines: Deadline by value.
            tolerated: Maximum share of wrong labels with which a deadline is guaranteed.

        Raises:
            OptionError: A value is unknown.
        """
        return tuple(
            _deadline_success(value, deadline, self.precision(value), tolerated)
            for value, deadline in deadlines.items()
        )

    def _index(self, value: str) -> int:
        check_known(value, self.values, "value")
        return self.values.index(value)

    def _rate(self, hits: int, total: int, reason: str) -> Observed | Unknown:
        rate = observed_rate(hits, total, bonferroni(self.confidence, len(self.values)), if_empty=reason)
        if isinstance(rate, Unknown):
            return rate
        method = f"Clopper-Pearson, jointly for {len(self.values)} values"
        return rate.model_copy(update={"confidence": self.confidence, "method": method})


def _deadline_success(value: str, deadline: int, right: Observed | Unknown, tolerated: float) -> DeadlineSuccess:
    """Compute the effect of wrong labels on one deadline. See ``ConfusionMatrix.deadline_successes``."""
    low = 0.0 if isinstance(right, Unknown) else right.low
    times = 1 if low >= LIKELY else None if low <= 0 else ceil(log(1 - LIKELY) / log(1 - low))
    return DeadlineSuccess(
        value=value,
        deadline=deadline,
        right=right,
        guaranteed=low >= 1 - tolerated,
        true_deadline=None if times is None else times * deadline,
        likely=LIKELY,
    )


def count_confusion(
    true: Sequence[str | None], said: Sequence[str | None], values: Sequence[str], *, confidence: float = 0.95
) -> ConfusionMatrix:
    """Count the labels of a classifier for items whose value is known.

    Args:
        true: True value of each item. None if it shows none.
        said: Label of each item. None if the classifier cannot tell.
        values: Values of the concept group.
        confidence: Joint confidence level of the intervals.

    Raises:
        DataError: There are no items, the lengths differ, or a label is not a value.
        OptionError: There are no values, a value is repeated, or the confidence is out of range.
    """
    names = tuple(values)
    if not names or len(set(names)) != len(names):
        raise OptionError(f"values must be different names, got {list(names)}", hint="name every value once")
    if not 0 < confidence < 1:
        raise OptionError(f"confidence must be between 0 and 1, got {confidence}")
    if len(true) != len(said):
        raise DataError(f"there are {len(true)} true values and {len(said)} labels", hint="pass one of each per item")
    if not true:
        raise DataError("there are no labelled items")
    index: dict[str | None, int] = {None: len(names), **{name: k for k, name in enumerate(names)}}
    counts = [[0] * len(index) for _ in index]
    for pair in zip(true, said, strict=True):
        for label in pair:
            if label not in index:
                raise DataError(f"{label!r} is not a value", hint=f"one of: {', '.join(names)}, or None")
        counts[index[pair[0]]][index[pair[1]]] += 1
    return ConfusionMatrix(values=names, counts=tuple(map(tuple, counts)), confidence=confidence)


# Effect of wrong labels on the specifications of a configuration


class SpecificationSuccess(ResultPart):
    """Effect of wrong labels on the deadlines of one specification.

    Attributes:
        specification: Name of the specification.
        samples: Groups with a sample.
        missing: Groups without a sample, whose labels are assumed to be correct.
        tolerated: Maximum share of wrong labels for a deadline to count as guaranteed.
        values: Effect on each deadline. Empty without samples.
        guaranteed: Whether all deadlines are guaranteed. None if this depends on labels that are assumed to be correct.
    """

    specification: str
    samples: tuple[str, ...]
    missing: tuple[str, ...]
    tolerated: float
    values: tuple[DeadlineSuccess, ...]
    guaranteed: bool | None

    def statement(self) -> str:
        """Describe the effect in one sentence."""
        missing = f"the labels of {_join_names(self.missing)} are assumed to be right, as there is no labelled sample"
        if self.guaranteed is None:
            return missing
        tolerated = f"{100 * self.tolerated:.3g}%"
        if self.guaranteed:
            return (
                f"also guaranteed for what items show: at most {tolerated} of labels are wrong, according to the sample"
            )
        names = _join_names([repr(value.value) for value in self.values if not value.guaranteed])
        also = f"; {missing}" if self.missing else ""
        return (
            f"NOT guaranteed for what items show: labels {names} may be wrong more than {tolerated} of the time{also}"
        )


def read_sample(source: str | Path | IntoDataFrame, config: ConfusionConfig) -> tuple[ConfusionMatrix, int]:
    """Count a labelled sample with one row per item.

    An empty true value means that the item was not labelled, and the item is ignored. ``none`` means that it shows no
    value. ``none`` or an empty label means that the classifier cannot tell.

    Returns:
        The counts, and the number of ignored items.

    Raises:
        DataError: The file is unreadable, a column is missing, a label is no value or misspelt, or no item remains.
        OptionError: The columns are the same.
    """
    if config.true == config.said:
        raise OptionError(f"expected two columns as true values and labels, got {config.true!r} twice")
    table = ItemTable(source)
    true, said = table.column(config.true), table.column(config.said)
    rows = table.select(config.conditions or {})
    labelled = [i for i in rows if true[i] is not None]
    if not labelled:
        names = list(dict.fromkeys([config.true, *(config.conditions or {})]))
        raise DataError("no item is labelled", location=table.name, hint=f"there are {table.sample(names)}")
    truths, labels = [true[i] for i in labelled], [said[i] for i in labelled]
    known = [value for value in list_known(truths) if value != NO_VALUE]
    if config.values is None:
        table.check_labels(config.true, [*known, NO_VALUE], stated=False)
        table.check_labels(config.said, [*known, NO_VALUE])
    values = config.values or tuple(sorted({*known, *list_known(labels)} - {NO_VALUE}))
    if NO_VALUE not in values:
        truths, labels = ([None if label == NO_VALUE else label for label in column] for column in (truths, labels))
    try:
        sample = count_confusion(truths, labels, values, confidence=config.confidence)
    except DataError as error:
        hint = f"one of: {', '.join(values)}; or {NO_VALUE} for an item that shows none of them"
        raise DataError(error.message, location=table.name, hint=hint) from None
    return sample, len(rows) - len(labelled)


def specification_success(
    configuration: GenerationConfig, samples: Mapping[str, ConfusionMatrix] | None = None
) -> tuple[SpecificationSuccess, ...]:
    """Compute the effect of wrong labels on each specification. See ``ConfusionMatrix.deadline_successes``.

    The label of a combination is wrong if the label of any group is wrong. The shares of wrong labels of the groups are
    added, which does not assume independent errors. It assumes that labels of one group are equally reliable for all
    values of the others. The intervals of the groups hold jointly (Bonferroni).

    Args:
        configuration: Configuration with the specifications.
        samples: Sample by group. If None, the samples of the configuration are read.

    Raises:
        DataError: A file is unreadable, or a label in it is not a value of its group.
    """
    if samples is None:
        samples = {
            group: read_sample(file, ConfusionConfig(values=configuration.values[group]))[0]
            for group, file in configuration.samples.items()
        }
    return tuple(
        _requirement_success(requirement, samples, configuration.tolerated.labels)
        for requirement in configuration.requirements
        if requirement.repeated is not None
    )


def _requirement_success(
    requirement: Requirement, samples: Mapping[str, ConfusionMatrix], tolerated: float
) -> SpecificationSuccess:
    groups = tuple(group for group in requirement.groups if group in samples)
    missing = tuple(group for group in requirement.groups if group not in samples)
    successes = []
    for label, values in zip(requirement.labels, requirement.combinations, strict=True) if groups else ():
        value_of = dict(zip(requirement.groups, values, strict=True))
        right = _joint_precision({group: (samples[group], value_of[group]) for group in groups})
        successes.append(_deadline_success(label, requirement.deadline_by_label[label], right, tolerated))
    wrong = any(not success.guaranteed for success in successes)
    return SpecificationSuccess(
        specification=requirement.name,
        samples=groups,
        missing=missing,
        tolerated=tolerated,
        values=tuple(successes),
        guaranteed=False if wrong else None if missing else True,
    )


def _joint_precision(parts: Mapping[str, tuple[ConfusionMatrix, str]]) -> Observed | Unknown:
    """Compute the share of items with several labels that show all of their values, if errors of groups add up."""
    rates = []
    for sample, value in parts.values():
        confidence = bonferroni(sample.confidence, len(parts))
        rate = sample.model_copy(update={"confidence": confidence}).precision(value)
        if isinstance(rate, Unknown):
            return rate
        rates.append(rate)
    if len(rates) == 1:
        return rates[0]
    return Observed(
        value=max(0.0, 1 - sum(1 - rate.value for rate in rates)),
        n=min(rate.n for rate in rates),
        low=max(0.0, 1 - sum(1 - rate.low for rate in rates)),
        high=min(rate.high for rate in rates),
        confidence=next(iter(parts.values()))[0].confidence,
        method=f"errors of {_join_names(list(parts))} added up, each Clopper-Pearson",
    )


def _join_names(names: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


# Result of a labelled sample


class ConfusionResult(Result):
    """Error rates of a classifier in a labelled sample.

    Attributes:
        source: Name of the sample.
        conditions: Required value by column.
        items: Number of labelled items.
        unlabelled: Number of ignored items, whose value is unknown.
        sample: Counts of labels.
        right: Share of the items with each label that show its value.
        found: Share of the items that show each value that are labelled with it.
        tolerated: Maximum share of wrong labels for a deadline to count as guaranteed.
        worth: Effect on deadlines.
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
        """Describe the counts, the error rates and their effect on deadlines."""
        conditions = " and ".join(f"{name} = {value}" for name, value in self.conditions.items())
        ignored = f", {self.unlabelled:,} without a true label, excluded" if self.unlabelled else ""
        values, counts = self.sample.values, self.sample.counts
        rates = {value: rate.value for value, rate in self.right.items() if isinstance(rate, Observed)}
        blocks: list[Block] = []
        if rates:
            worst = min(rates, key=rates.__getitem__)
            share = format_percent(rates[worst])
            text = f"The least reliable label is {worst!r}: {share} of the items with this label show it (observed)."
            blocks.append(Text(text, role="finding"))
        blocks += [
            Figure("counts of labels", "Blue: correct labels. Orange: wrong labels. Darker: more items.", self),
            Table(
                "Items by true value (rows) and label (columns), observed",
                (
                    Column("shown"),
                    *(Column(name, numeric=True) for name in (*(f"said {value}" for value in values), "cannot tell")),
                ),
                tuple(TableRow((name, *row)) for name, row in zip((*values, NO_VALUE), counts, strict=True)),
            ),
            Table(
                f"Reliability of labels, observed, with joint {format_level(self.sample.confidence)} intervals",
                (
                    Column("value"),
                    *(Column(name, numeric=True) for name in ("correct among labelled", "labelled among shown")),
                ),
                tuple(
                    TableRow(
                        (value, show_quantity(self.right[value], "right"), show_quantity(self.found[value], "found"))
                    )
                    for value in values
                ),
                usual="observed",
            ),
        ]
        if self.worth:
            blocks += [Heading("Deadlines"), Text(items=tuple(success.statement() for success in self.worth))]
        return Document(
            f"Labels of {self.source}{f' ({conditions})' if conditions else ''}",
            f"{format_count(self.items, 'labelled item', 'labelled items')}{ignored}.",
            tuple(blocks),
            brand="Evenhand, generative AI",
            made=self.provenance,
        )

    def to_frame(self) -> pd.DataFrame:
        """Build a table with one row per true value and label. None means that no value was recognised."""
        import pandas as pd

        return pd.DataFrame(self.cells())

    def cells(self) -> list[dict[str, str | int | float | None]]:
        """Return the counts, and their share of the items with the same true value."""
        names = [*self.sample.values, None]
        return [
            {"true": true, "said": label, "items": n, "share": n / sum(counts) if sum(counts) else None}
            for true, counts in zip(names, self.sample.counts, strict=True)
            for label, n in zip(names, counts, strict=True)
        ]


def measure_confusion(
    source: str | Path | IntoDataFrame, config: ConfusionConfig | None = None, **settings: Any
) -> ConfusionResult:
    """Measure the error rates of a classifier in a labelled sample. See ``read_sample``.

    Args:
        source: CSV or Parquet file, or data frame, with one row per item.
        config: Settings.
        settings: Fields of ``ConfusionConfig`` that replace those of ``config``.

    Raises:
        DataError: The sample is unreadable.
        OptionError: A setting is invalid.
    """
    started = time.perf_counter()
    config = ConfusionConfig.of(config, settings)
    sample, unlabelled = read_sample(source, config)
    deadlines: dict[str, int] = {}
    if config.repeated is not None:
        expanded = expand_deadlines(config.repeated, sample.values, "`repeated=`")
        deadlines = dict(zip(sample.values, expanded, strict=True))
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
        tolerated=config.tolerated,
        worth=sample.deadline_successes(deadlines, tolerated=config.tolerated),
    )
