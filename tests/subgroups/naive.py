"""Subgroups the slow and obvious way: rule set by rule set, person by person, permutation by permutation."""

import functools
import itertools
import math

import numpy as np

FAR = 3.5


def rules_of(values, ordered):
    """Every rule on one attribute, as sets of the values that occur."""
    values = list(values)
    if ordered:
        found = [values[a:b] for a in range(len(values)) for b in range(a + 1, len(values) + 1)]
    else:
        found = [part for size in range(1, len(values)) for part in itertools.combinations(values, size)]
    return [frozenset(rule) for rule in found if len(rule) < len(values)]


def rule_sets(columns, ordered, depth=None):
    """Every conjunction: {column: rule}, with the people in it."""
    choices = [
        [None, *rules_of(sorted(set(column)), is_ordered)] for column, is_ordered in zip(columns, ordered, strict=True)
    ]
    for chosen in itertools.product(*choices):
        rules = {i: rule for i, rule in enumerate(chosen) if rule is not None}
        if 0 < len(rules) <= (depth or len(columns)):
            inside = frozenset(
                person
                for person in range(len(columns[0]))
                if all(columns[i][person] in rule for i, rule in rules.items())
            )
            yield rules, inside


@functools.cache
def moments(people, total, size):
    """Mean, standard deviation and skewness of the successes that chance deals to ``size`` of the people."""
    ways = {
        k: math.comb(total, k) * math.comb(people - total, size - k)
        for k in range(max(0, size + total - people), min(size, total) + 1)
    }
    every = sum(ways.values())
    mean = sum(k * way for k, way in ways.items()) / every
    second, third = (sum((k - mean) ** power * way for k, way in ways.items()) / every for power in (2, 3))
    return mean, math.sqrt(second), third / second**1.5 if second > 0 else 0.0


def standardised(inside, values):
    """The excess over what chance deals out, in standard deviations, its tail made like a normal one's."""
    mean, deviation, skewness = moments(len(values), int(sum(values)), len(inside))
    if deviation == 0:
        return 0.0
    excess = sum(values[person] for person in inside) - mean
    shift = math.copysign(1, excess) * skewness * (FAR**2 - 1) / 6
    return excess / deviation * FAR / max(FAR + shift, 1.0)


def arrangements(values):
    """Every different way to deal 0/1 values out."""
    people, total = len(values), int(sum(values))
    for chosen in itertools.combinations(range(people), total):
        yield [int(person in chosen) for person in range(people)]


def family_wise_p(groups, values):
    """Adjusted p of each group by all arrangements, the observed one counted once more."""
    maxima = [max(abs(standardised(group, dealt)) for group in groups) for dealt in arrangements(values)]
    return [
        (1 + sum(largest >= abs(standardised(group, values)) - 1e-6 for largest in maxima)) / (1 + len(maxima))
        for group in groups
    ]


def stratified(inside, values, strata):
    """Mantel and Haenszel's difference, stratum by stratum: (rate, rest, z without regard to skewness)."""
    own = others = weights = excess = variance = 0.0
    for stratum in set(strata):
        here = [person for person, its in enumerate(strata) if its == stratum]
        group = [person for person in here if person in inside]
        rest = [person for person in here if person not in inside]
        if not group or not rest:
            continue
        weight = len(group) * len(rest) / len(here)
        own += weight * np.mean([values[person] for person in group])
        others += weight * np.mean([values[person] for person in rest])
        weights += weight
        mean, deviation, _ = moments(len(here), int(sum(values[person] for person in here)), len(group))
        excess += sum(values[person] for person in group) - mean
        variance += deviation**2
    return own / weights, others / weights, excess / math.sqrt(variance) if variance else 0.0
