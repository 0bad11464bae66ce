"""THEMIS's group discrimination score: the favourable rates of random inputs, by combination of sensitive values.

Source: Galhotra, Brun and Meliou, "Fairness testing: testing software for discrimination" (ESEC/FSE 2017). Numbers are
binned first, as in the comparison of the TestSGD paper. THEMIS's other score, causal discrimination, is part of the
search for individuals.
"""

from __future__ import annotations

import numpy as np

from evenhand.core.time_limit import TimeLimit
from evenhand.core.typing import Floats, Integers, Progress
from evenhand.errors import LimitError, OptionError
from evenhand.models.scorer import Scorer, predict_labels
from evenhand.population.independent import uniform_population
from evenhand.schema.attribute import Attribute
from evenhand.schema.people import People
from evenhand.stats.level import normal_quantile
from evenhand.stats.proportion import largest_difference_of_proportions
from evenhand.subgroups.config import SubgroupConfig
from evenhand.subgroups.cuts import AttributeCut, cut_attributes, equal_width_ends
from evenhand.subgroups.methods.published import (
    StoppingRule,
    build_result,
    check_options,
    sample_until_margin,
    sampled_finding,
    sensitive_names,
)
from evenhand.subgroups.result import SubgroupResult
from evenhand.subgroups.rules import Rules

CONFIDENCE = 0.99
"""Confidence level of the rate of each combination (published default)."""

MARGIN = 0.01
"""Half width of its interval at which sampling stops (published default)."""

MIN_SAMPLES = 512
"""Number of samples of a combination before sampling may stop, as for individuals (ten in the publication)."""

MOST_COMBINATIONS = 20_000
"""Maximum number of combinations, each of which takes up to 16,588 samples."""


def search_themis(
    scorer: Scorer, people: People, config: SubgroupConfig, progress: Progress, limit: TimeLimit
) -> SubgroupResult:
    """Compare every combination of values with the combination that has the highest rate."""
    check_options(
        config,
        "favourable",
        unsupported=("support", "min_size", "permutations", "depth", "confidence", "margin"),
    )
    names = sensitive_names(people, config)
    cuts, codes = cut_attributes(people, names, config.bins, equal_width_ends)
    shape = tuple(len(cut.names) - cut.missing for cut in cuts)
    combinations = _list_combinations(shape)
    columns = people.schema.positions(names)
    domain = uniform_population(people.schema)

    def draw(question: int, side: int, n: int, rng: np.random.Generator) -> Floats:
        rows = domain.sample(n, rng)
        for column, cut, cell in zip(columns, cuts, combinations[question].tolist(), strict=True):
            rows[:, column] = _draw_from_cell(people.schema.attributes[column], cut, cell, n, rng)
        return rows

    sampled = sample_until_margin(
        len(combinations),
        1,
        draw,
        lambda samples: predict_labels(scorer, samples) == scorer.favourable,
        rule=StoppingRule(MIN_SAMPLES, MARGIN, normal_quantile(CONFIDENCE)),
        seed=config.seed,
        limit=limit,
        progress=lambda share: progress("sampling", share),
    )
    finished = np.flatnonzero(sampled.n)
    if len(finished) < 2:
        raise LimitError("the time limit was reached before two combinations were sampled", hint="allow more time")
    # People with a missing value have codes beyond the last cell and belong to no combination.
    complete = (codes < np.array(shape)).all(axis=1)
    sizes = np.bincount(np.ravel_multi_index(tuple(codes[complete].T), shape), minlength=len(combinations))
    rates = sampled.rates[:, 0]
    best = finished[np.argmax(rates[finished])]
    compared = finished[finished != best]
    # Both rates have a margin, and both margins hold with the product of their confidence levels.
    gaps, margins = rates - rates[best], sampled.margins + sampled.margins[best]
    best_rules = _describe_combination(cuts, combinations[best])
    findings = tuple(
        sampled_finding(
            _describe_combination(cuts, combinations[i]),
            (float(rates[i]), float(rates[best])),
            float(margins[i]),
            size=int(sizes[i]),
            rest_size=int(sizes[best]),
            samples=int(sampled.n[i]),
            versus=best_rules,
        )
        for i in compared[np.argsort(gaps[compared], kind="stable")][: config.most].tolist()
    )
    low, high = largest_difference_of_proportions(sampled.k[finished, 0], sampled.n[finished], CONFIDENCE)
    return build_result(
        people,
        config,
        confidence=CONFIDENCE**2,
        against="best",
        support=0.0,
        margin=2 * MARGIN,
        rate=float((predict_labels(scorer, people.individuals) == scorer.favourable).mean()),
        rule_sets=len(combinations),
        tested=len(finished),
        found=int((gaps[compared] + margins[compared] < 0).sum()),
        attributes=tuple(cut.cells for cut in cuts),
        findings=findings,
        interrupted=sampled.cut_short,
        notes=(
            f"Group discrimination score {np.ptp(rates[finished]):.1%}, the largest difference of favourable rates "
            f"between two of {len(finished):,} combinations. Over all pairs of them, it is between {low:.1%} and "
            f"{high:.1%} with {CONFIDENCE:.0%} confidence.".replace("%", " %"),
            f"{sampled.queries:,} inputs drawn uniformly from the domain, with independent attributes: most of "
            f"these match no real person; {int((sizes[finished] == 0).sum()):,} of the combinations have no data.",
            f"The interval of a finding is its gap ± both margins of {MARGIN:g}, stated for two combinations chosen "
            "beforehand. The gap between the best and the worst of many is overestimated. A rate of 0 or 1 has no "
            "margin.",
        ),
    )


def _describe_combination(cuts: tuple[AttributeCut, ...], cells: Integers) -> Rules:
    return {cut.attribute: cut.rule(np.arange(len(cut.names)) == cell) for cut, cell in zip(cuts, cells, strict=True)}


def _list_combinations(shape: tuple[int, ...]) -> Integers:
    count = int(np.prod([float(size) for size in shape]))
    if count > MOST_COMBINATIONS:
        raise OptionError(
            f"there are {count:,} combinations of values, more than the {MOST_COMBINATIONS:,} that can be sampled",
            hint="name fewer sensitive attributes, or use the method 'exact'",
        )
    if count < 2:
        raise OptionError("there is only one combination of values, and nothing to compare it with")
    return np.stack(np.unravel_index(np.arange(count), shape), axis=1)


def _draw_from_cell(attribute: Attribute, cut: AttributeCut, cell: int, n: int, rng: np.random.Generator) -> Floats:
    """Draw entries uniformly from a cell, shape (n,)."""
    if cut.edges is None:
        values = [attribute.text(entry) for entry in attribute.domain()]
        return np.full(n, float(attribute.first + values.index(cut.names[cell])))
    low = max(cut.edges[cell], attribute.first)
    high = min(cut.edges[cell + 1], attribute.last + cut.integral)
    entries = low + (high - low) * rng.random(n)
    return np.asarray(np.floor(entries) if cut.integral else entries)
