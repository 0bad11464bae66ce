"""How often the published error bound holds: for samples around given people, for people like them, for fair models.

Source: TestSGD, theorem 4.2: the score is within the summed margins with 0.95 x 0.95 = 90.25 % confidence.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from evenhand.schema import People, Schema, Value
from evenhand.stats import difference_interval
from evenhand.subgroups import methods
from evenhand.typing import Floats, Integers, Progress
from reproductions.comparison import PieceContext, Values
from reproductions.mitigation.record import load_people
from reproductions.testsgd.people import EVERY, find_case, search_completely

RULE = methods.StoppingRule(more_than=1000, margin=0.05, z=1.96)
"""When sampling stops, as published."""

RATES = ((0.5, 0.5), (0.299, 0.097), (0.01, 0.001))
"""True rates inside and outside: the widest, those of the first rule set of Census, and rare ones."""

INSIDE, OUTSIDE = (15, 50, 100, 500), 500
"""People that samples are drawn around, on either side."""

TRUE_RATES = (0.3, 0.5)
"""Rates in the population that these people are a random sample of."""

FIXED = 797
"""Pairs for which the interval of a difference has the same margin at two rates of a half."""

FAIR = "german"
"""The people among whom fair models decide."""


def measure_coverage(context: PieceContext, progress: Progress) -> Values:
    """Simulate estimates with known rates, and count how often the intervals hold them."""
    runs = 300 if context.quick else 2000
    around = []
    for number, rates in enumerate(RATES):
        progress("samples around given people", number / 7)
        around.append({"rates": rates, "runs": runs, **_cover_given(rates, runs, context.seed + number)})
    people = []
    for number, inside in enumerate(INSIDE):
        progress("people like those", (3 + number) / 7)
        people.append({"inside": inside, "runs": runs, **_cover_people(inside, runs, context.seed + number)})
    return {"around": around, "people": people}


def _cover_given(rates: tuple[float, float], runs: int, seed: int) -> Values:
    seen = methods.sample_until_margin(
        *(runs, 2, lambda question, side, n, rng: rng.random(n) < rates[side], lambda drawn: drawn),
        rule=RULE,
        seed=seed,
    )
    if seen.cut_short:
        raise KeyboardInterrupt
    truth = rates[0] - rates[1]
    rng = np.random.default_rng([seed, 1])
    k, rest_k = (rng.binomial(FIXED, rate, runs) for rate in rates)
    low, high = difference_interval(k, FIXED, rest_k, FIXED)
    return {
        "within": int((np.abs(seen.gaps - truth) <= seen.margins).sum()),
        "samples": float(seen.n.mean()),
        "covered": int(((low <= truth) & (truth <= high)).sum()),
    }


def _cover_people(inside: int, runs: int, seed: int) -> Values:
    """Draw the people of each side at random, and samples from these people."""
    rng = np.random.default_rng([seed, 2])
    sizes = inside, OUTSIDE
    # Drawing from people who are decided alike again and again is drawing with their own rate.
    k = np.stack([rng.binomial(n, rate, runs) for n, rate in zip(sizes, TRUE_RATES, strict=True)], axis=1)
    own = k / np.array(sizes)
    seen = methods.sample_until_margin(
        *(runs, 2, lambda question, side, n, rng: rng.random(n) < own[question, side], lambda drawn: drawn),
        rule=RULE,
        seed=seed,
    )
    if seen.cut_short:
        raise KeyboardInterrupt
    truth = TRUE_RATES[0] - TRUE_RATES[1]
    low, high = difference_interval(k[:, 0], inside, k[:, 1], OUTSIDE)
    return {
        "within": int((np.abs(seen.gaps - truth) <= seen.margins).sum()),
        "covered": int(((low <= truth) & (truth <= high)).sum()),
    }


@dataclass(frozen=True)
class DealtDecider:
    """A model that is fair: it decides by an attribute that was dealt out to the people at random.

    Attributes:
        people: everybody, after the dealing.
        column: of the attribute among their values.
    """

    people: People
    column: int
    name: str = "decides by an attribute dealt out at random"
    label_only: bool = True

    @property
    def schema(self) -> Schema:
        """What individuals are."""
        return self.people.schema

    @property
    def classes(self) -> tuple[Value, ...]:
        """The labels."""
        return self.schema.target.values or ()

    @property
    def favourable(self) -> int:
        """Position of the favourable label."""
        return self.classes.index(self.schema.target.favourable)

    @cached_property
    def _middle(self) -> float:
        return float(np.median(self.people.individuals[:, self.column]))

    def predict(self, individuals: Floats) -> Integers:
        """Return the label of each individual."""
        kept = individuals[:, self.column] <= self._middle
        return np.where(kept, self.favourable, 1 - self.favourable)

    def scores(self, individuals: Floats) -> Floats:
        """Return 1 for the label that is given."""
        return np.eye(2)[self.predict(individuals)]


def find_false_gaps(context: PieceContext, progress: Progress) -> Values:
    """Search fair models as published and by counting: everything that is found is false.

    Raises:
        FetchError: the data set is not here and cannot be fetched.
    """
    case = find_case(FAIR)
    people = load_people(case, data_home=context.data_home)
    column = next(
        i for i, one in enumerate(people.schema.attributes) if one.kind == "integer" and one.name not in case.sensitive
    )
    worlds: list[Values] = []
    runs = 3 if context.quick else 20
    for run in range(runs):
        progress("searching fair models", run / runs)
        order = np.random.default_rng([context.seed, 3, run]).permutation(len(people))
        dealt = people.individuals.copy()
        dealt[:, column] = dealt[order, column]
        model = DealtDecider(replace(people, individuals=dealt), column)
        sampled, counted = (
            search_completely(
                model, model.people, method=method, attributes=case.sensitive, most=EVERY, seed=context.seed + run
            )
            for method in ("sampled", "exact")
        )
        worlds.append({
            "rule_sets": sampled.tested,
            "sampled": sampled.found,
            "widest": max(abs(one.gap) for one in sampled.findings),
            "counted": counted.found,
        })  # fmt: skip
    return {"worlds": worlds}
