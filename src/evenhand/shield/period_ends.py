"""Ends of a period that counts together with everything before it: owed, exempt, or at a price.

A period may end so that nobody could have made it fair, as when almost only one group came. Let w_a <= w_b be the
welfares before it, phi their difference, and d_a, d_b who was seen at its end, the past included. Accepting
ceil(w_a d_a) of group a and floor(w_b d_b) of group b is possible one decision at a time, and keeps the second welfare
less the first between phi - 1/d_a - 1/d_b, negated at worst, and phi. So a fair past can always be continued to a fair
end where 1/d_a + 1/d_b <= kappa + phi (Cano et al., "Fairness shields", Lemma 10; the condition is derived from its
proof). By the same tracking, the smaller rate keeps 1 - kappa of the larger where
(1 - kappa)/d_a + 1/d_b <= w_b - (1 - kappa) w_a, or where nobody was ever accepted.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.shield.plan import Counters
from evenhand.shield.properties import EmptyGroup, Property
from evenhand.shield.terminal import Fair, Floats, Ints

NEVER = 2**62
"""More than was ever seen."""


@dataclass(frozen=True)
class Owed:
    """Fair where a fair past makes that possible whatever comes; elsewhere as said.

    Where it is owed, a group that is small by the property's own convention counts too: a bias that built up unjudged
    might be too large to mend when it is judged.

    Attributes:
        property: what must hold, over the past and the period.
        start: counters of the past.
        horizon: of the period.
        exempt: whether anything goes where it is not owed (Definition 6); else the property must hold there too.
    """

    property: Property
    start: Counters
    horizon: int
    exempt: bool

    @cached_property
    def fair(self) -> Fair:
        """The property with every group judged, however small."""
        return Fair(replace(self.property, empty_group=EmptyGroup("zero")), self.start)

    @cached_property
    def judged(self) -> Fair:
        """The property as it is."""
        return Fair(self.property, self.start)

    @cached_property
    def least(self) -> Ints:
        """By n_a of the period: the fewest of group b in it with which a fair end is owed (Assumption 2)."""
        seen_a, past_a, seen_b, past_b = self.start
        kappa = self.property.kappa
        w_a, w_b = Fraction(past_a, max(seen_a, 1)), Fraction(past_b, max(seen_b, 1))
        share_a = share_b = Fraction(1)
        slack = kappa + abs(w_a - w_b)
        if self.property.kind == "disparate_impact":
            share_a, share_b = (1 - kappa, share_b) if w_a <= w_b else (share_a, 1 - kappa)
            slack = max(w_a, w_b) - (1 - kappa) * min(w_a, w_b)
            if slack == 0:
                return np.zeros(self.horizon + 1, dtype=np.int64)
        found = []
        for n_a in range(self.horizon + 1):
            left = slack - share_a / (seen_a + n_a) if seen_a + n_a else Fraction(0)
            found.append(max(0, math.ceil(share_b / left) - seen_b) if left > 0 else NEVER)
        return np.array(found, dtype=np.int64)

    @cached_property
    def always(self) -> bool:
        """Whether a fair end is owed however many of each group come."""
        longest = np.zeros(self.horizon + 1) if self.property.labelled else self.horizon - np.arange(self.horizon + 1)
        return bool((self.least <= longest).all())

    def owed(self, n_a: Any, n_b: Any) -> NDArray[np.bool_]:
        """Whether a fair end is owed when so many of each group came in the period; arrays or numbers."""
        return np.asarray(np.asarray(n_b) >= self.least[np.asarray(n_a)])

    def band(self, n_a: Any, a: Any, n_b: Any) -> tuple[Ints, Ints]:
        low, high = self.fair.band(n_a, a, n_b)
        owed = self.owed(n_a, n_b)
        free_low, free_high = (0, n_b) if self.exempt else self.judged.band(n_a, a, n_b)
        return np.where(owed, low, free_low), np.where(owed, high, free_high)

    def values(self, n_a: int, n_b: int) -> Floats:
        if self.owed(n_a, n_b):
            return self.fair.values(n_a, n_b)
        return np.zeros((n_a + 1, n_b + 1)) if self.exempt else self.judged.values(n_a, n_b)


@dataclass(frozen=True)
class Priced:
    """As `Owed`, but an unfair end that is not owed costs ``price`` (1 + how far above kappa its bias is).

    Attributes:
        end: what is owed; a fair end is wanted everywhere.
        price: of an unfair end, in units of the costs.
        everywhere: whether unfair ends that are owed have their price too, as when the past is unfair.
    """

    end: Owed
    price: float
    everywhere: bool = False

    def values(self, n_a: int, n_b: int) -> Floats:
        owed = bool(self.end.owed(n_a, n_b))
        if owed and not self.everywhere:
            return self.end.fair.values(n_a, n_b)
        allowed = (self.end.fair if owed else self.end.judged).values(n_a, n_b) == 0
        return np.where(allowed, 0.0, self.price * (1 + self._excess(n_a, n_b)))

    def _excess(self, n_a: int, n_b: int) -> Floats:
        seen_a, past_a, seen_b, past_b = self.end.start
        rate_a = (np.arange(n_a + 1)[:, None] + past_a) / max(n_a + seen_a, 1)
        rate_b = (np.arange(n_b + 1)[None, :] + past_b) / max(n_b + seen_b, 1)
        kept = self.end.property
        if kept.kind == "disparate_impact":
            larger = np.maximum(np.maximum(rate_a, rate_b), 1e-300)
            bias = 1 - np.minimum(rate_a, rate_b) / larger
        else:
            bias = np.abs(rate_a - rate_b)
        return np.maximum(bias - float(kept.kappa), 0.0)
