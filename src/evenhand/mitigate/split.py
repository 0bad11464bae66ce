"""Who is learnt from, who decides how much, and who is kept aside until the end."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evenhand.errors import DataError, OptionError
from evenhand.schema import People

SHARES = (0.6, 0.2, 0.2)
"""Of the people to learn from, to choose on and to compare on."""

LEAST = 20
"""People that every part needs: with fewer nothing can be chosen or compared."""


@dataclass(frozen=True, eq=False)
class Split:
    """Three parts of the people, nobody in two of them.

    Attributes:
        train: learnt from.
        validation: amounts and strengths are chosen on them.
        test: looked at once, when everything is chosen.
    """

    train: People
    validation: People
    test: People


def split(
    people: People, *, seed: int, test: People | None = None, shares: tuple[float, float, float] = SHARES
) -> Split:
    """Part people at random, every part with the same share of each label among each protected group.

    Args:
        people: with labels.
        test: people kept aside by the caller; all of ``people`` is then learnt from and chosen on.
        shares: of train, validation and test; they add up to 1.

    Raises:
        DataError: there are no labels, or too few people.
        OptionError: shares that do not add up to 1.
    """
    if people.labels is None or (test is not None and test.labels is None):
        raise DataError(f"the data has no column {people.schema.target.name!r}: without true labels nothing is learnt")
    if min(shares) < 0 or not np.isclose(sum(shares), 1):
        raise OptionError(f"the shares of a split add up to 1, not {sum(shares):g}")
    rng = np.random.default_rng([seed, 9])
    first, second = shares[0], shares[0] + shares[1]
    if test is not None:
        first, second = first / second, 1.0
    parts: tuple[list[NDArray[np.int64]], ...] = ([], [], [])
    strata = np.column_stack([people.labels, people.individuals[:, people.schema.positions(people.schema.protected)]])
    _, of = np.unique(strata, axis=0, return_inverse=True)
    for stratum in range(int(of.max()) + 1):
        rows = rng.permutation(np.flatnonzero(of == stratum))
        # A random offset, so that strata of one or two people do not all fall into the same part.
        place = (np.arange(len(rows)) + rng.random()) / len(rows)
        for part, chosen in zip(parts, (place < first, (place >= first) & (place < second), place >= second),
                                strict=True):  # fmt: skip
            part.append(rows[chosen])
    train, validation, rest = (people.at(np.sort(np.concatenate(part))) for part in parts)
    made = Split(train, validation, rest if test is None else test)
    smallest = min(len(made.train), len(made.validation), len(made.test))
    if smallest < LEAST:
        raise DataError(
            f"{len(people):,} people are too few to learn from some, choose on others and compare on the rest",
            mend=f"every part needs {LEAST} people at least; this one would get {smallest}",
        )
    return made
