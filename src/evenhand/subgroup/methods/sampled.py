"""TestSGD as published: each rule set by itself, on samples around the data, until a margin is small enough.

Source: Zhang and others, "TestSGD: interpretable testing of neural networks against subtle group discrimination"
(ACM TOSEM 2023), algorithms 1 and 2 and section 4.3. The support threshold (5 %), the bins (10), the error margin
(0.05) and the confidence of either side (95 %) are the defaults of the search's settings.

The one liberty taken is speed: the model is asked in batches, where the publication asks about one sample at a time.
The samples drawn and the stops are the same.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.errors import LimitError, OptionError
from evenhand.models import Scorer, predict
from evenhand.schema import People
from evenhand.stats.level import normal_quantile
from evenhand.subgroup.cells import cut
from evenhand.subgroup.config import Config
from evenhand.subgroup.cube import membership, occupied, through
from evenhand.subgroup.family import Family, family
from evenhand.subgroup.methods.method import check, deadline, described, sensitive
from evenhand.subgroup.methods.sampling import until_margin
from evenhand.subgroup.nudge import Nudge
from evenhand.subgroup.result import Finding
from evenhand.subgroup.rules import words

MOST_RULE_SETS = 100_000
"""Each takes 2,000 to 3,100 samples; with more, a time limit is asked for, and only so many are tried."""

MOST_COUNTED = 1 << 24
"""Rule sets over the same attributes that are counted at once."""

SAMPLE_THRESHOLD = 1000
"""The margin is looked at after more pairs than this."""


def run(scorer: Scorer, people: People, config: Config, progress: Callable[[str, float], None]) -> dict[str, Any]:
    """Every frequent rule set, with the gap seen on samples and the published interval; see ``Published``."""
    check(config, "favourable", deaf_to=("least_people", "control", "permutations"))
    ends, names = deadline(config), sensitive(people, config)
    cuts, codes = cut(people, names, config.bins)
    cells, rules, n = occupied(codes), family(cuts, config.depth), len(people)
    chosen, sizes = frequent(codes, rules, config.support, most=MOST_RULE_SETS)
    incomplete = len(chosen) == MOST_RULE_SETS
    if incomplete and ends is None:
        raise _too_many(MOST_RULE_SETS)
    nudge = Nudge(people.schema, {*names, *people.schema.protected})

    def draw(which: int, side: int, pairs: int, rng: np.random.Generator) -> NDArray[np.float64]:
        inside = membership(rules, cells, chosen[which : which + 1])[0, cells.of]
        pool = np.flatnonzero(inside if side == 0 else ~inside)
        return nudge(people.individuals[pool[rng.integers(0, len(pool), size=pairs)]], rng)

    z = normal_quantile(config.confidence)
    seen = until_margin(
        len(chosen),
        2,
        draw,
        lambda samples: predict(scorer, samples) == scorer.favourable,
        more_than=SAMPLE_THRESHOLD,
        margin=config.margin,
        z=z,
        seed=config.seed,
        deadline=ends,
        progress=lambda share: progress("sampling", share),
    )
    done = np.flatnonzero(seen.n)
    if seen.cut_short and not len(done):
        raise LimitError("time was up before one rule set was sampled", mend="allow more time")
    rates = seen.k[done] / seen.n[done, None]
    gaps = rates[:, 0] - rates[:, 1]
    order = np.argsort(-np.abs(gaps), kind="stable")
    stands = np.abs(gaps) > seen.margins[done]
    every = {one.attribute: one.names for one in cuts if one.edges is None}
    findings = []
    for i in order[: config.most].tolist():
        which, gap, margin = done[i], float(gaps[i]), float(seen.margins[done[i]])
        rule_set, size = rules.describe(chosen[which]), int(sizes[which])
        low, high = max(gap - margin, -1.0), min(gap + margin, 1.0)
        findings.append(
            Finding(
                rules=rule_set,
                words=words(rule_set, every),
                size=size,
                rest=n - size,
                positives=None,
                rest_positives=None,
                rate=float(rates[i, 0]),
                rest_rate=float(rates[i, 1]),
                gap=gap,
                low=low,
                high=high,
                plain_low=low,
                plain_high=high,
                z=None,
                adjusted_p=None,
                found=bool(stands[i]),
                samples=int(seen.n[which]),
            )
        )
    everybody = predict(scorer, people.individuals) == scorer.favourable
    return {
        "control": "none",
        "confidence": config.confidence**2,
        "critical": None,
        "least_people": 1,
        "people": n,
        "rate": float(everybody.mean()),
        "rule_sets": rules.size,
        "tested": len(done),
        "found": int(stands.sum()),
        "attributes": described(cuts),
        "findings": tuple(findings),
        "interrupted": seen.cut_short or incomplete,
        "notes": (
            f"The published method: {seen.asked:,} samples around the data, one attribute that is not sensitive moved "
            f"one step each. Rates are of these samples, sizes of real people.",
            f"Its interval, gap ± summed margins, is stated as {config.confidence:.3g} x {config.confidence:.3g} = "
            f"{config.confidence**2:.4g} for one rule set chosen beforehand. It is not corrected for the "
            f"{len(done):,} rule sets looked at, and of a fair model some intervals will exclude 0.",
            "Samples are drawn from the same people again and again, so the interval does not widen where a group has "
            "few people; it says how the model decides around these people, not around people like them.",
            "There is no floor on the people outside a rule set.",
        ),
    }


def frequent(
    codes: NDArray[np.int64], rules: Family, support: float, most: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The rule sets that hold at least a share of the people, but not all of them: algorithm 1.

    There is no floor on the rest: all that is asked for is somebody to draw.

    Args:
        codes: the cell of each person by each attribute, shape (n, attributes).
        rules: all rule sets.
        support: the share.
        most: rule sets, at most; others are left out.

    Returns:
        The row of each attribute's rules, 0 for none, shape (rule sets, attributes), the fewest rules first; and how
        many people each holds.

    Raises:
        OptionError: those over the same attributes are too many to be counted.
    """
    n, attributes = codes.shape
    rows, sizes, left = [], [], most
    for depth in range(1, rules.depth + 1):
        for axes in itertools.combinations(range(attributes), depth):
            part = Family(
                tuple(rules.cuts[axis] for axis in axes), tuple(rules.rules[axis][1:] for axis in axes), depth
            )
            if math.prod(part.shape) > MOST_COUNTED:
                raise _too_many(math.prod(part.shape))
            cells = occupied(codes[:, axes])
            counts = np.rint(through(part, cells, cells.sizes.astype(np.float64))).astype(np.int64).ravel()
            flat = np.flatnonzero((counts >= support * n) & (counts >= 1) & (counts < n))[:left]
            left -= len(flat)
            found = np.zeros((len(flat), attributes), dtype=np.int64)
            if len(flat):
                found[:, axes] = np.stack(np.unravel_index(flat, part.shape), axis=1) + 1
            rows.append(found)
            sizes.append(counts[flat])
            if left == 0:
                return np.concatenate(rows), np.concatenate(sizes)
    return np.concatenate(rows), np.concatenate(sizes)


def _too_many(count: int) -> OptionError:
    return OptionError(
        f"there are {count:,} rule sets and more, too many to draw samples for one by one",
        mend="set a time limit, combine fewer attributes (depth), ask for more support, or use the method 'exact'",
    )
