"""What deadlines are worth that are kept for a classifier's labels, given samples of items whose values are known.

Labels of several groups err together: a combination is right only if each of its labels is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict

from evenhand.errors import DataError
from evenhand.genai.confusion import Confusion, Worth, confusion, worth_of
from evenhand.genai.sequence import open_table, read_column, some
from evenhand.genai.specification import Configuration, Requirement
from evenhand.stats.quantity import Observed, Unknown

if TYPE_CHECKING:
    from narwhals.typing import IntoDataFrame

NONE = "none"
"""What stands in a sample for an item that shows no value, and for one of which nothing could be told."""


class LabelWorth(BaseModel):
    """What the deadlines of one specification are worth for what items truly show.

    Attributes:
        specification: its name.
        samples: the names of those that say so: a group, or several joined with `` + ``.
        missing: groups whose labels are taken as right, as there is no sample.
        tolerated: share of wrong labels up to which a deadline is called guaranteed.
        values: one by one; empty without any sample.
        guaranteed: whether all deadlines are; None: nothing speaks against it but that labels are taken as right.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    specification: str
    samples: tuple[str, ...]
    missing: tuple[str, ...]
    tolerated: float
    values: tuple[Worth, ...]
    guaranteed: bool | None

    def statement(self) -> str:
        """In one sentence; ``values`` say more."""
        missing = f"the labels of {_listed(self.missing)} are taken as right, as there is no labelled sample"
        if self.guaranteed is None:
            return missing
        most = f"{100 * self.tolerated:.3g}%"
        if self.guaranteed:
            return f"guaranteed also for what items show: labels are wrong at most {most} of the time, by the sample"
        blamed = _listed([repr(one.value) for one in self.values if not one.guaranteed])
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
) -> tuple[Confusion, int]:
    """Count a labelled sample: a row per item, with its true value and what the classifier says.

    A true value that is empty means that nobody labelled the item; it is left out. ``none`` means that it shows none of
    the values; of the classifier, that it cannot tell, as an empty field does.

    Args:
        source: a CSV or Parquet file, or any data frame that narwhals knows.
        true, said: columns.
        values: of the concept group; all that occur unless given, sorted.
        conditions: column -> value; only the rows that have all of these are read.
        confidence: of the intervals.

    Returns:
        The counts, and how many items were left out because nobody labelled them.

    Raises:
        DataError: the file cannot be read, a column is not there, a label is no value, or no item is left.
    """
    table, where = open_table(source)
    columns = {name: read_column(table, name, where) for name in dict.fromkeys([true, said, *(conditions or {})])}
    rows = [
        i
        for i in range(len(columns[true]))
        if all(columns[name][i] == wanted for name, wanted in (conditions or {}).items())
    ]
    labelled = [i for i in rows if columns[true][i] is not None]
    if not labelled:
        asked = dict.fromkeys([true, *(conditions or {})])
        seen = "; ".join(f"{name}: {', '.join(some(columns[name]))}" for name in asked)
        raise DataError("no item is labelled", where=where, mend=f"there are {seen}")
    truths, answers = ([columns[name][i] for i in labelled] for name in (true, said))
    names = tuple(values or sorted({label for label in (*truths, *answers) if label not in (None, NONE)}))
    try:
        found = confusion(_told(truths, names), _told(answers, names), names, confidence=confidence)
    except DataError as error:
        mend = f"one of: {', '.join(names)}; or {NONE} for an item that shows none of them"
        raise DataError(error.what, where=where, mend=mend) from None
    return found, len(rows) - len(labelled)


def read_samples(configuration: Configuration, *, confidence: float = 0.95) -> dict[str, Confusion]:
    """The samples that a configuration names: with the columns ``true`` and ``said``.

    Raises:
        DataError: a file cannot be read, or a label in it is no value of its groups.
    """
    return {
        about: read_sample(file, values=_values(configuration, about), confidence=confidence)[0]
        for about, file in configuration.samples.items()
    }


def label_worth(
    configuration: Configuration, samples: Mapping[str, Confusion] | None = None, *, likely: float = 0.99
) -> tuple[LabelWorth, ...]:
    """What the deadlines of each specification are worth under samples; see ``Confusion.worth``.

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
        _worth(one, known, tolerated, likely) for one in configuration.requirements if one.repeated is not None
    )


def _worth(requirement: Requirement, samples: Mapping[str, Confusion], tolerated: float, likely: float) -> LabelWorth:
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
            right = samples[together].right(label)
        else:
            shown = {group: requirement.values[g][positions[g]] for g, group in enumerate(requirement.groups)}
            right = _all_right([(samples[group], shown[group]) for group in names], names)
        values.append(worth_of(label, deadline, right, tolerated=tolerated, likely=likely))
    wrong = any(not one.guaranteed for one in values)
    return LabelWorth(
        specification=requirement.name,
        samples=names,
        missing=missing,
        tolerated=tolerated,
        values=tuple(values),
        guaranteed=False if wrong else None if missing else True,
    )


def _all_right(parts: Sequence[tuple[Confusion, str]], names: Sequence[str]) -> Observed | Unknown:
    """The share of items said to show several values that show all of them, if the errors of groups add up."""
    found = []
    for sample, value in parts:
        each = 1 - (1 - sample.confidence) / len(parts)
        right = sample.model_copy(update={"confidence": each}).right(value)
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
        method=f"errors of {_listed(names)} added up, each Clopper-Pearson",
    )


def _values(configuration: Configuration, about: str) -> tuple[str, ...]:
    """The values that a sample's labels may have."""
    groups = about.split(" + ")
    found = configuration.values[groups[0]]
    for group in groups[1:]:
        found = tuple(f"{before} + {value}" for before in found for value in configuration.values[group])
    return found


def _told(labels: Sequence[str | None], values: Sequence[str]) -> list[str | None]:
    return [None if label == NONE and NONE not in values else label for label in labels]


def _listed(names: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))
