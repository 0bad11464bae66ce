"""THEMIS's group discrimination score: the favourable rates of random inputs, by combination of sensitive values.

Source: Galhotra, Brun and Meliou, "Fairness testing: testing software for discrimination" (ESEC/FSE 2017). Numbers are
binned first, as in the comparison of the TestSGD paper.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from evenhand.core.typing import Floats, Integers
from evenhand.errors import OptionError
from evenhand.models import Scorer, predict_labels
from evenhand.population.independent import uniform_population
from evenhand.schema import Attribute, People
from evenhand.stats.level import normal_quantile
from evenhand.stats.proportion import largest_difference_of_proportions
from evenhand.subgroups import describe_rules
from evenhand.subgroups.family import AttributeCut, cut_attributes, equal_width_ends
from evenhand.subgroups.methods.published import StoppingRule, sample_until_margin
from reproductions.common import Values

CONFIDENCE = 0.99
"""Confidence level of the rate of each combination (published default)."""

MARGIN = 0.01
"""Half width of its interval at which sampling stops (published default)."""

MIN_SAMPLES = 512
"""Number of samples of a combination before sampling may stop (ten in the publication)."""

MOST_COMBINATIONS = 20_000
"""Maximum number of combinations, each of which takes up to 16,588 samples."""


def score_groups(scorer: Scorer, people: People, names: Sequence[str], *, bins: int = 10, seed: int = 0) -> Values:
    """Compute the largest difference of the favourable rates of two combinations of values, with its interval.

    Raises:
        OptionError: There are too many combinations of values, or only one.
    """
    cuts, codes = cut_attributes(people, names, bins, equal_width_ends)
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
        seed=seed,
    )
    if sampled.cut_short:
        raise KeyboardInterrupt
    # People with a missing value have codes beyond the last cell and belong to no combination.
    complete = (codes < np.array(shape)).all(axis=1)
    sizes = np.bincount(np.ravel_multi_index(tuple(codes[complete].T), shape), minlength=len(combinations))
    rates = sampled.rates[:, 0]
    low, high = largest_difference_of_proportions(sampled.k[:, 0], sampled.n, CONFIDENCE)

    def describe(combination: int) -> str:
        cells = zip(cuts, combinations[combination].tolist(), strict=True)
        return describe_rules({cut.attribute: cut.rule(np.arange(len(cut.names)) == cell) for cut, cell in cells})

    best, worst = int(rates.argmax()), int(rates.argmin())
    return {
        "score": float(np.ptp(rates)),
        "low": low,
        "high": high,
        "combinations": len(combinations),
        "worst": describe(worst),
        "best": describe(best),
        "size": int(sizes[worst]),
        "rest": int(sizes[best]),
        "rates": {describe(combination): rate for combination, rate in enumerate(rates.tolist())},
    }


def _list_combinations(shape: tuple[int, ...]) -> Integers:
    count = int(np.prod([float(size) for size in shape]))
    if count > MOST_COMBINATIONS:
        raise OptionError(
            f"there are {count:,} combinations of values, more than the {MOST_COMBINATIONS:,} that can be sampled",
            hint="name fewer sensitive attributes",
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
