"""Selection rates of groups from probabilities of membership, such as race by BIFSG."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from evenhand.core.typing import Booleans, Floats
from evenhand.errors import DataError
from evenhand.groups.breakdown import Bounds, Gap, Group, ProxyRates
from evenhand.groups.config import GroupConfig
from evenhand.groups.gaps import describe_simultaneity
from evenhand.schema.probabilities import GroupProbabilities
from evenhand.stats.probable import ProbableRate, widest_gap
from evenhand.stats.proportion import count_pairs
from evenhand.stats.quantity import Estimated, Quantity, Unknown

HALVES = 20_190_129
"""Second part of the random seed that splits people into halves."""

METHOD = "Clopper-Pearson, of effective sample sizes (membership probabilities, linearised)"


def measure_proxies(
    selected: Booleans, probabilities: GroupProbabilities, config: GroupConfig, weights: Floats | None = None
) -> ProxyRates:
    """Estimate the selection rates of groups by one attribute from probabilities, and their largest difference.

    Raises:
        DataError: No person has known probabilities.
    """
    known, name = probabilities.known, probabilities.name
    if not known.any():
        raise DataError(f"no person has known probabilities by {name}")
    people = int(known.sum())
    half = np.random.default_rng([config.seed, HALVES]).random(people) < 0.5
    weight = np.ones(people) if weights is None else weights[known]
    decided = selected[known].astype(np.float64)
    population = f"people like these, whose {name} is only known as a probability"
    estimate = partial(Estimated, n=people, population=population, confidence=config.confidence)
    rates = [ProbableRate.of(p, weight, decided, half) for p in probabilities.values[known].T]
    groups = []
    for label, rate in zip(probabilities.groups, rates, strict=True):
        quantity: Quantity = Unknown(reason="people belong to this group with probability 0")
        if rate.expected > 0:
            low, high = rate.interval(config.confidence)
            quantity = estimate(value=rate.estimate.value, low=low, high=high, method=METHOD)
        groups.append(
            Group(
                values={name: label},
                size=round(rate.expected),
                effective_size=rate.effective,
                small=rate.effective < config.min_group_size or rate.expected <= 0,
                metrics={"selection_rate": quantity},
                bounds=Bounds(*rate.bounds(config.confidence)),
            )
        )
    large = {group.label: rate for group, rate in zip(groups, rates, strict=True) if not group.small}
    difference: dict[str, Any] = {"value": Unknown(reason="two groups must be large enough")}
    if len(large) > 1:
        (best, worst), value, (low, high), bounds = widest_gap(large, config.confidence)
        method = f"linearised, normal{describe_simultaneity(count_pairs(len(large)))}"
        quantity = estimate(value=value, low=low, high=high, method=method)
        difference = {"value": quantity, "best": best, "worst": worst, "bounds": Bounds(*bounds)}
    gap = Gap(
        name="probable_selection_rate_difference",
        metric="selection_rate",
        not_assessable={group.label: round(group.effective_size or 0) for group in groups if group.small},
        **difference,
    )
    return ProxyRates(by=(name,), groups=tuple(groups), gaps=(gap,), unknown=len(known) - people, people=people)
