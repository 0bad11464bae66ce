"""How often a classifier's labels are right, from a labelled sample, and what a guarantee is worth under it.

Deadlines are kept for what the classifier says. If it says "elderly" of an item that shows an adult, a deadline was
kept in the books alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil, log

from pydantic import BaseModel, ConfigDict

from evenhand.errors import DataError, OptionError
from evenhand.stats.proportion import clopper_pearson
from evenhand.stats.quantity import Observed, Unknown


class Worth(BaseModel):
    """What the deadline of one value is worth.

    Attributes:
        value: which one.
        deadline: its deadline, kept for items that the classifier says show it.
        right: how often an item that is said to show it does, with an interval.
        guaranteed: whether that is wrong at most as often as was said to be tolerated, for sure up to the confidence.
        true_deadline: among so many items in a row one truly shows the value, as likely as ``likely``; None if the
            sample does not say so of any number.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

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


class Confusion(BaseModel):
    """What a classifier says of items whose value is known.

    Attributes:
        values: of the concept group.
        counts: by true value and then by what was said, how many items; the last of both is "cannot tell": of a true
            value, that the item shows none.
        confidence: that all intervals hold together for what is said of one value after another.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    values: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]
    confidence: float

    @property
    def items(self) -> int:
        """How many items were labelled."""
        return sum(map(sum, self.counts))

    def right(self, value: str) -> Observed | Unknown:
        """Of the items said to show a value, the share that does."""
        k = self._place(value)
        return self._share(self.counts[k][k], sum(row[k] for row in self.counts), f"no item was said to show {value!r}")

    def found(self, value: str) -> Observed | Unknown:
        """Of the items that show a value, the share that is said to."""
        k = self._place(value)
        return self._share(self.counts[k][k], sum(self.counts[k]), f"no item of the sample shows {value!r}")

    def worth(
        self, deadlines: Mapping[str, int], *, tolerated: float = 0.05, likely: float = 0.99
    ) -> tuple[Worth, ...]:
        """What deadlines that are kept for the classifier's labels are worth for what items show.

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
            worth_of(value, deadline, self.right(value), tolerated=tolerated, likely=likely)
            for value, deadline in deadlines.items()
        )

    def _place(self, value: str) -> int:
        if value not in self.values:
            raise OptionError(f"{value!r} is no value of the sample", mend=f"Its values are {', '.join(self.values)}.")
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


def worth_of(
    value: str, deadline: int, right: Observed | Unknown, *, tolerated: float = 0.05, likely: float = 0.99
) -> Worth:
    """What one deadline is worth, of a value that is said with this share right; see ``Confusion.worth``."""
    if not (0 <= tolerated < 1 and 0 < likely < 1):
        raise OptionError(
            f"tolerated {tolerated} and likely {likely} are no probabilities", mend="Give numbers between 0 and 1."
        )
    if deadline < 1:
        raise OptionError(f"a deadline of {deadline} items for {value!r} cannot be met")
    low = 0.0 if isinstance(right, Unknown) else right.low
    times = 1 if low >= likely else None if low <= 0 else ceil(log(1 - likely) / log(1 - low))
    return Worth(
        value=value,
        deadline=deadline,
        right=right,
        guaranteed=low >= 1 - tolerated,
        true_deadline=None if times is None else times * deadline,
        likely=likely,
    )


def confusion(
    true: Sequence[str | None], said: Sequence[str | None], values: Sequence[str], *, confidence: float = 0.95
) -> Confusion:
    """Count what a classifier says of labelled items.

    Args:
        true: the value of each item, None if it shows none.
        said: what the classifier says of each, None if it cannot tell.
        values: of the concept group.
        confidence: of the intervals.

    Raises:
        DataError: there are no items, the lengths differ, or a label is no value.
        OptionError: no values, one of them twice, or a confidence out of range.
    """
    names = tuple(values)
    if not names or len(set(names)) != len(names):
        raise OptionError(f"{list(names)} are no values", mend="Name every value once.")
    if not 0 < confidence < 1:
        raise OptionError(f"confidence is {confidence}", mend="Give a number between 0 and 1.")
    if len(true) != len(said):
        raise DataError(f"{len(true)} items are labelled and {len(said)} were classified")
    if not true:
        raise DataError("there are no labelled items")
    places: dict[str | None, int] = {None: len(names), **{name: k for k, name in enumerate(names)}}
    counts = [[0] * (len(names) + 1) for _ in places]
    for pair in zip(true, said, strict=True):
        unknown = [one for one in pair if one not in places]
        if unknown:
            raise DataError(f"{unknown[0]!r} is no value", mend=f"Known: {', '.join(names)}, and None.")
        counts[places[pair[0]]][places[pair[1]]] += 1
    return Confusion(values=names, counts=tuple(map(tuple, counts)), confidence=confidence)
