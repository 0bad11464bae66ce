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
from typing import Any

import numpy as np

from evenhand.core.time_limit import TimeLimit
from evenhand.core.typing import Floats, Integers, Progress
from evenhand.errors import LimitError, OptionError
from evenhand.models.scorer import Scorer, predict_labels
from evenhand.schema.people import People
from evenhand.stats.level import normal_quantile
from evenhand.subgroups.config import SubgroupConfig
from evenhand.subgroups.cuts import cut_attributes, equal_width_ends
from evenhand.subgroups.family import RuleSetFamily, build_family
from evenhand.subgroups.methods.published import (
    StoppingRule,
    check_options,
    describe_cuts,
    describe_sampled,
    sample_until_margin,
    sensitive_names,
)
from evenhand.subgroups.perturbation import Perturbation
from evenhand.subgroups.rules import describe_rules
from evenhand.subgroups.tabulate import cells_of_rule_sets, find_occupied_cells, sum_rule_sets

MOST_RULE_SETS = 100_000
"""Each takes 2,000 to 3,100 samples; with more, a time limit is asked for, and only so many are tried."""

MOST_COUNTED = 1 << 24
"""Rule sets over the same attributes that are counted at once."""

SAMPLE_THRESHOLD = 1000
"""The margin is looked at after more pairs than this."""


def search_sampled(
    scorer: Scorer, people: People, config: SubgroupConfig, progress: Progress, limit: TimeLimit
) -> dict[str, Any]:
    """Return every frequent rule set, with the gap seen on samples and the published interval; see ``Published``."""
    check_options(config, "favourable", deaf_to=("min_size", "control", "permutations"))
    names = sensitive_names(people, config)
    cuts, codes = cut_attributes(people, names, config.bins, equal_width_ends)
    cells, rules, n = find_occupied_cells(codes), build_family(cuts, config.depth), len(people)
    chosen, sizes = frequent_rule_sets(codes, rules, config.support, most=MOST_RULE_SETS)
    incomplete = len(chosen) == MOST_RULE_SETS
    if incomplete and limit.moment is None:
        raise _too_many_error(MOST_RULE_SETS)
    nudge = Perturbation(people.schema, {*names, *people.schema.protected})

    def draw(which: int, side: int, pairs: int, rng: np.random.Generator) -> Floats:
        inside = cells_of_rule_sets(rules, cells, chosen[which : which + 1])[0, cells.of]
        # Side 0 is the rule set, side 1 everybody else; people are drawn with replacement and then nudged.
        pool = np.flatnonzero(inside if side == 0 else ~inside)
        return nudge(people.individuals[pool[rng.integers(0, len(pool), size=pairs)]], rng)

    z = normal_quantile(config.confidence)
    seen = sample_until_margin(
        len(chosen),
        2,
        draw,
        lambda samples: predict_labels(scorer, samples) == scorer.favourable,
        rule=StoppingRule(SAMPLE_THRESHOLD, config.margin, z),
        seed=config.seed,
        limit=limit,
        progress=lambda share: progress("sampling", share),
    )
    done = np.flatnonzero(seen.n)
    if seen.cut_short and not len(done):
        raise LimitError("time was up before one rule set was sampled", hint="allow more time")
    gaps = seen.gaps[done]
    order = np.argsort(-np.abs(gaps), kind="stable")
    stands = np.abs(gaps) > seen.margins[done]
    every = {one.attribute: one.names for one in cuts if one.edges is None}
    findings = []
    for i in order[: config.most].tolist():
        rule_set, size = rules.describe(chosen[done[i]]), int(sizes[done[i]])
        words = describe_rules(rule_set, every)
        findings.append(describe_sampled(seen, done[i], rule_set, words, size, n - size))
    everybody = predict_labels(scorer, people.individuals) == scorer.favourable
    return {
        "control": "none",
        "confidence": config.confidence**2,
        "critical": None,
        "min_size": 1,
        "people": n,
        "rate": float(everybody.mean()),
        "rule_sets": rules.size,
        "tested": len(done),
        "found": int(stands.sum()),
        "attributes": describe_cuts(cuts),
        "findings": tuple(findings),
        "interrupted": seen.cut_short or incomplete,
        "notes": (
            f"The published method: {seen.asked:,} samples around the data, one attribute that is not sensitive moved "
            f"one step each. Rates are of these samples, sizes of real people.",
            f"Its interval, gap ± summed margins, is stated as {config.confidence:.3g} x {config.confidence:.3g} = "
            f"{config.confidence**2:.4g} for one rule set chosen beforehand. It is not corrected for the "
            f"{len(done):,} subgroups tested, and of a fair model some intervals will exclude 0.",
            "Samples are drawn from the same people again and again, so the interval does not widen where a group has "
            "few people; it says how the model decides around these people, not around people like them.",
            "There is no floor on the people outside a rule set.",
        ),
    }


def frequent_rule_sets(codes: Integers, rules: RuleSetFamily, support: float, most: int) -> tuple[Integers, Integers]:
    """Return the rule sets that hold at least a share of the people, but not all of them: algorithm 1.

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
            part = RuleSetFamily(
                tuple(rules.cuts[axis] for axis in axes), tuple(rules.rules[axis][1:] for axis in axes), depth
            )
            if math.prod(part.shape) > MOST_COUNTED:
                raise _too_many_error(math.prod(part.shape))
            cells = find_occupied_cells(codes[:, axes])
            counts = np.rint(sum_rule_sets(part, cells, cells.sizes.astype(np.float64))).astype(np.int64).ravel()
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


def _too_many_error(count: int) -> OptionError:
    return OptionError(
        f"there are {count:,} rule sets and more, too many to draw samples for one by one",
        hint="set a time limit, combine fewer attributes (depth), ask for more support, or use the method 'exact'",
    )
