"""THEMIS's group discrimination score: the favourable rates of random inputs, one combination of values at a time.

Source: Galhotra, Brun and Meliou, "Fairness testing: testing software for discrimination" (ESEC/FSE 2017). Numbers are
cut into bins first, as in the comparison of the TestSGD paper. (THEMIS's other score, causal discrimination, is that of
individuals: the search for them has it.)
"""

from __future__ import annotations

from typing import Any

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
    SampledRates,
    StoppingRule,
    check_options,
    describe_cuts,
    sample_until_margin,
    sensitive_names,
)
from evenhand.subgroups.result import Finding
from evenhand.subgroups.rules import RuleSet, describe_rules

CONFIDENCE = 0.99
"""Of each combination's rate (the published default)."""

MARGIN = 0.01
"""Half the width of its interval at which sampling stops (the published default)."""

FEWEST_SAMPLES = 512
"""No combination stops before it has more, as in the search for individuals; the publication stops after ten."""

MOST_COMBINATIONS = 20_000
"""Each takes up to 16,588 samples."""


def search_themis(
    scorer: Scorer, people: People, config: SubgroupConfig, progress: Progress, limit: TimeLimit
) -> dict[str, Any]:
    """Return every combination of values, compared with the one that does best; see ``Published``."""
    check_options(
        config,
        "favourable",
        deaf_to=("support", "min_size", "control", "permutations", "depth", "confidence", "margin"),
    )
    names = sensitive_names(people, config)
    cuts, codes = cut_attributes(people, names, config.bins, equal_width_ends)
    shape = tuple(len(one.names) - one.missing for one in cuts)
    combinations = _list_combinations(shape)
    columns = people.schema.positions(names)
    attributes = [people.schema.attributes[at] for at in columns]
    everybody = uniform_population(people.schema)

    def draw(which: int, side: int, n: int, rng: np.random.Generator) -> Floats:
        rows = everybody.sample(n, rng)
        for at, attribute, one, cell in zip(columns, attributes, cuts, combinations[which], strict=True):
            rows[:, at] = _draw_from_cell(attribute, one, int(cell), n, rng)
        return rows

    seen = sample_until_margin(
        len(combinations),
        1,
        draw,
        lambda samples: predict_labels(scorer, samples) == scorer.favourable,
        rule=StoppingRule(FEWEST_SAMPLES, MARGIN, normal_quantile(CONFIDENCE)),
        seed=config.seed,
        limit=limit,
        progress=lambda share: progress("sampling", share),
    )
    done = np.flatnonzero(seen.n)
    if len(done) < 2:
        raise LimitError("time was up before two combinations were sampled", hint="allow more time")
    # Where a value is missing the code lies beyond the last cell: such people are in no combination.
    known = (codes < np.array(shape)).all(axis=1)
    held = np.bincount(np.ravel_multi_index(tuple(codes[known].T), shape), minlength=len(combinations))
    findings, found = _rank_combinations(seen, done, cuts, combinations, held, config.most)
    rates = seen.k[done, 0] / seen.n[done]
    low, high = largest_difference_of_proportions(seen.k[done, 0], seen.n[done], CONFIDENCE)
    return {
        "control": "none",
        "confidence": CONFIDENCE**2,
        "critical": None,
        "against": "best",
        "support": 0.0,
        "min_size": 1,
        "margin": 2 * MARGIN,
        "people": len(people),
        "rate": float((predict_labels(scorer, people.individuals) == scorer.favourable).mean()),
        "rule_sets": len(combinations),
        "tested": len(done),
        "found": found,
        "attributes": describe_cuts(cuts),
        "findings": findings,
        "interrupted": seen.cut_short,
        "notes": (
            f"Group discrimination score {rates.max() - rates.min():.1%}, the largest difference of favourable rates "
            f"between two of {len(done):,} combinations; accounting for all pairs of them it lies between {low:.1%} "
            f"and {high:.1%} with {CONFIDENCE:.0%} confidence.".replace("%", " %"),
            f"{seen.asked:,} inputs drawn uniformly from the domain, every attribute independent of the others: rates "
            f"of inputs, most of which no person has; of the combinations {int((held[done] == 0).sum()):,} occur "
            f"nowhere in the data.",
            f"The interval of a finding is its gap ± both margins of {MARGIN:g}, stated for two combinations chosen "
            f"beforehand; the best and the worst of many lie further apart than they are. A rate of 0 or 1 has no "
            f"margin at all.",
        ),
    }


def _rank_combinations(
    seen: SampledRates,
    done: Integers,
    cuts: tuple[AttributeCut, ...],
    combinations: Integers,
    held: Integers,
    most: int,
) -> tuple[tuple[Finding, ...], int]:
    """Each combination against the best one, worst first, and how many differ from it by more than the margins."""
    rates = seen.k[:, 0] / np.maximum(seen.n, 1)
    best = done[np.argmax(rates[done])]
    others = done[done != best]
    # The margins of both rates add up: each holds by itself, and so both hold with the product of their confidences.
    gaps, margins = rates - rates[best], seen.margins + seen.margins[best]
    described = [
        {one.attribute: one.rule(np.arange(len(one.names)) == cell) for one, cell in zip(cuts, cells, strict=True)}
        for cells in combinations
    ]
    findings = []
    for i in others[np.argsort(gaps[others], kind="stable")][:most].tolist():
        low, high = max(gaps[i] - margins[i], -1.0), min(gaps[i] + margins[i], 1.0)
        findings.append(
            Finding(
                rules=described[i],
                words=describe_rules(described[i]),
                size=int(held[i]),
                rest=int(held[best]),
                positives=None,
                rest_positives=None,
                rate=float(rates[i]),
                rest_rate=float(rates[best]),
                gap=float(gaps[i]),
                low=float(low),
                high=float(high),
                plain_low=float(low),
                plain_high=float(high),
                z=None,
                adjusted_p=None,
                found=bool(high < 0),
                versus=RuleSet(rules=described[best]),
                samples=int(seen.n[i]),
            )
        )
    return tuple(findings), int((gaps[others] + margins[others] < 0).sum())


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


def _draw_from_cell(attribute: Attribute, one: AttributeCut, cell: int, n: int, rng: np.random.Generator) -> Floats:
    """Return entries drawn uniformly from a cell, shape (n,)."""
    if one.edges is None:
        values = [attribute.text(entry) for entry in attribute.domain()]
        return np.full(n, float(attribute.first + values.index(one.names[cell])))
    low = max(one.edges[cell], attribute.first)
    high = min(one.edges[cell + 1], attribute.last + one.whole)
    drawn = low + (high - low) * rng.random(n)
    return np.asarray(np.floor(drawn) if one.whole else drawn)
