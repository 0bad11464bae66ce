"""TestSGD as published: each rule set is tested separately, on samples near the data, until its margin is small enough.

Source: Zhang et al., "TestSGD: interpretable testing of neural networks against subtle group discrimination" (ACM TOSEM
2023), algorithms 1 and 2 and section 4.3. The support threshold (5 %), the number of bins (10), the error margin (0.05)
and the confidence level of each side (95 %) are the default settings of the search.

The model is queried in batches, while the publication queries single samples. The samples and the stops are the same.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from evenhand.core.time_limit import TimeLimit
from evenhand.core.typing import Floats, Integers, Progress
from evenhand.errors import LimitError, OptionError
from evenhand.models.scorer import Scorer, predict_labels
from evenhand.schema.people import People
from evenhand.stats.level import normal_quantile
from evenhand.subgroups.config import SubgroupConfig
from evenhand.subgroups.family import RuleSetFamily, build_family, cut_attributes, equal_width_ends, select_known
from evenhand.subgroups.methods.published import StoppingRule, sample_until_margin, sampled_finding
from evenhand.subgroups.perturbation import Perturbation
from evenhand.subgroups.result import SubgroupResult
from evenhand.subgroups.tabulate import ConjunctionSums, cells_of_rule_sets, find_occupied_cells

MOST_RULE_SETS = 100_000
"""Maximum number of rule sets, each of which takes 2,000 to 3,100 samples. More need a time limit."""

MOST_COUNTED = 1 << 24
"""Maximum number of rule sets over the same attributes that are counted at once."""

SAMPLE_THRESHOLD = 1000
"""Number of pairs before the margin is first checked."""


def search_sampled(
    prepare_scorer: Callable[[People], Scorer],
    people: People,
    config: SubgroupConfig,
    progress: Progress,
    limit: TimeLimit,
) -> SubgroupResult:
    """Sample every frequent rule set, with the published interval of its gap.

    Args:
        prepare_scorer: Function that prepares the model for queries, from the people whose attributes are all known.
        people: All people.
        config: Settings.
        progress: Called with the current step and the completed share.
        limit: Time limit.

    Raises:
        EvenhandError: The options are invalid, or unsupported by the published method.
    """
    started, names = time.perf_counter(), tuple(config.attributes or people.schema.protected)
    _check_options(config)
    everybody, people = len(people), people.at(select_known(people, names))
    scorer = prepare_scorer(people)
    cuts, codes = cut_attributes(people, names, config.bins, equal_width_ends)
    cells, rules, n = find_occupied_cells(codes), build_family(cuts, config.depth), len(people)
    chosen, sizes = frequent_rule_sets(codes, rules, config.support, max_rule_sets=MOST_RULE_SETS)
    incomplete = len(chosen) == MOST_RULE_SETS
    if incomplete and limit.moment is None:
        raise _too_many_error(MOST_RULE_SETS)
    perturb = Perturbation(people.schema, {*names, *people.schema.protected})

    def draw(question: int, side: int, pairs: int, rng: np.random.Generator) -> Floats:
        inside = cells_of_rule_sets(rules, cells, chosen[question : question + 1])[0, cells.of]
        # Side 0 is the rule set, side 1 everyone else. People are drawn with replacement, then perturbed.
        pool = np.flatnonzero(inside if side == 0 else ~inside)
        return perturb(people.individuals[pool[rng.integers(0, len(pool), size=pairs)]], rng)

    rates = sample_until_margin(
        len(chosen),
        2,
        draw,
        lambda samples: predict_labels(scorer, samples) == scorer.favourable,
        rule=StoppingRule(SAMPLE_THRESHOLD, config.margin, normal_quantile(config.confidence)),
        seed=config.seed,
        limit=limit,
        progress=lambda share: progress("sampling", share),
    )
    finished = np.flatnonzero(rates.n)
    if rates.cut_short and not len(finished):
        raise LimitError("the time limit was reached before any rule set was sampled", hint="allow more time")
    clearest = finished[np.argsort(-np.abs(rates.gaps[finished]), kind="stable")][: config.most].tolist()
    findings = []
    for i in clearest:
        (rule_set, words), size = rules.describe(chosen[i]), int(sizes[i])
        sides, margin, samples = tuple(rates.rates[i].tolist()), float(rates.margins[i]), int(rates.n[i])
        findings.append(
            sampled_finding(rule_set, sides, margin, size=size, rest_size=n - size, samples=samples, words=words)
        )
    everyone = predict_labels(scorer, people.individuals) == scorer.favourable
    return SubgroupResult(
        method=config.method,
        measure=config.measure,
        control="none",
        confidence=config.confidence**2,
        critical=None,
        margin=config.margin,
        support=config.support,
        min_size=1,
        people=n,
        unknown=everybody - n,
        rate=float(everyone.mean()),
        rule_sets=rules.size,
        tested=len(finished),
        found=int((np.abs(rates.gaps[finished]) > rates.margins[finished]).sum()),
        attributes=tuple(cut.cells for cut in cuts),
        findings=tuple(findings),
        interrupted=rates.cut_short or incomplete,
        notes=(
            f"The published method: {rates.queries:,} samples around the data, each with one attribute that is "
            "not sensitive moved by one step. Rates are those of the samples, sizes those of real people.",
            f"Its interval, gap ± summed margins, is stated as {config.confidence:.3g} x {config.confidence:.3g} = "
            f"{config.confidence**2:.4g} for one rule set chosen beforehand. It is not corrected for the "
            f"{len(finished):,} subgroups tested, and some intervals of a fair model exclude 0.",
            "Samples are drawn repeatedly from the same people, so the interval does not widen if a group has few "
            "people. It covers decisions near these people, not the population that they are from.",
            "There is no minimum number of people outside a rule set.",
        ),
        table_reading=people.reading,
        queries=rates.queries + n,
        seed=config.seed,
        time_limited=limit.decided,
        seconds=time.perf_counter() - started,
    )


def _check_options(config: SubgroupConfig) -> None:
    """Refuse options that the published method does not support."""
    if config.measure != "favourable":
        raise OptionError(
            f"the method {config.method!r} does not compare by {config.measure!r}",
            hint="one of: favourable; or the method 'exact'",
        )
    default = SubgroupConfig()
    for name in ("per", "judged", "budget", "min_size", "permutations"):
        if getattr(config, name) != getattr(default, name):
            option = "judge" if name == "judged" else name.replace("_", "-")
            raise OptionError(
                f"the published method {config.method!r} has no option {option!r}",
                hint="leave it out, or use the method 'exact'",
            )


def frequent_rule_sets(
    codes: Integers, rules: RuleSetFamily, support: float, max_rule_sets: int
) -> tuple[Integers, Integers]:
    """Find the rule sets that contain at least a given share of the people, but not all of them (algorithm 1).

    Args:
        codes: Cell of each person by each attribute, shape (n, attributes).
        rules: All rule sets.
        support: Minimum share.
        max_rule_sets: Maximum number of rule sets.

    Returns:
        Row of each attribute's rules, 0 for none, shape (rule sets, attributes), the shortest rule sets first; and the
        number of people in each.

    Raises:
        OptionError: There are too many rule sets over the same attributes to count them.
    """
    n, attributes = codes.shape
    cells, left = find_occupied_cells(codes), max_rule_sets
    rows, sizes = [np.zeros((0, attributes), dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
    for axes in rules.combinations():
        conjunctions = ConjunctionSums(rules, axes, cells)
        if conjunctions.size > MOST_COUNTED:
            raise _too_many_error(conjunctions.size)
        counts = np.rint(conjunctions(cells.sizes[:, None].astype(np.float64))[0]).astype(np.int64)
        flat = np.flatnonzero((counts >= support * n) & (counts >= 1) & (counts < n))[:left]
        left -= len(flat)
        chosen = np.zeros((len(flat), attributes), dtype=np.int64)
        chosen[:, axes] = np.stack(np.unravel_index(flat, conjunctions.shape), axis=1) + 1
        rows.append(chosen)
        sizes.append(counts[flat])
        if left == 0:
            break
    return np.concatenate(rows), np.concatenate(sizes)


def _too_many_error(count: int) -> OptionError:
    return OptionError(
        f"there are at least {count:,} rule sets, too many to sample one by one",
        hint="set a time limit, combine fewer attributes (depth), increase the support, or use the method 'exact'",
    )
