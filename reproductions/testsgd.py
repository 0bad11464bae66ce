"""TestSGD (Zhang and others, ACM TOSEM 2023): subgroups that networks treat differently, and their error bounds."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Literal, NamedTuple

import numpy as np

from evenhand.core.text import format_count
from evenhand.core.typing import Floats, Integers
from evenhand.datasets.identity.lists import resolve_categories
from evenhand.schema import People, Schema
from evenhand.schema.attribute import Value
from evenhand.stats import clopper_pearson, difference_interval, student_interval
from evenhand.stats.level import normal_quantile
from evenhand.subgroups import SubgroupConfig
from evenhand.subgroups.methods.published import StoppingRule, sample_until_margin
from evenhand.subgroups.perturbation import Perturbation
from reproductions.common import NOT_DONE, Context, Figure, Found, Own, Paper, Piece, Values, Verdict, compare, judge
from reproductions.testsgd_people import (
    COMBINATIONS,
    EVERY,
    PUBLISHED,
    TOP,
    Counts,
    find_case,
    load_people,
    mend_people,
    search_completely,
    search_people,
)
from reproductions.testsgd_texts import mend_texts, sample_texts, search_texts

TITLES = PUBLISHED["titles"]


# How often the published error bound holds: for samples around given people, for people like them, for fair models.

RULE = StoppingRule(more_than=1000, margin=0.05, z=1.96)
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


def measure_coverage(context: Context) -> Values:
    """Simulate estimates with known rates, and count how often the intervals hold them."""
    runs = 300 if context.quick else 2000
    around = []
    for number, rates in enumerate(RATES):
        around.append({"rates": rates, "runs": runs, **_cover_given(rates, runs, context.seed + number)})
    people = []
    for number, inside in enumerate(INSIDE):
        people.append({"inside": inside, "runs": runs, **_cover_people(inside, runs, context.seed + number)})
    return {"around": around, "people": people}


def _cover_given(rates: tuple[float, float], runs: int, seed: int) -> Values:
    seen = sample_until_margin(
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
    seen = sample_until_margin(
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


def find_false_gaps(context: Context) -> Values:
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
        worlds.append(
            {
                "rule_sets": sampled.tested,
                "sampled": sampled.found,
                "widest": max(abs(one.gap) for one in sampled.findings),
                "counted": counted.found,
            }
        )
    return {"worlds": worlds}


# Figures of ours.

NEAR = 5.0
"""Points that scores may lie apart and agree: the published error margin."""

NEAR_SHARE = 10.0
"""Points that the shares of a score that retraining leaves may lie apart."""

NEAR_ACCURACY = 1.0
"""Points that accuracies may lie apart and agree, besides the interval of ours."""

NEAR_COUNT = 0.05
"""Share that counts of rule sets may lie apart and agree."""

ROUNDING = 0.3
"""Points by which a printed score may miss the difference of the rates printed beside it."""

PROMISED = 90.25
"""Percent: the confidence of the published error bound, 0.95 x 0.95."""

HALF = 50.0
"""Percent of a score that is left of it where it is halved."""

OTHER_NETWORK = "the network is another one of the same size, trained here"


def _own_share(k: int, n: int, kind: Literal["observed", "estimated"], basis: str) -> Own:
    low, high = clopper_pearson(k, n)
    return Own(100 * k / n, kind, 100 * float(low), 100 * float(high), basis)


def mean_figure(values: Sequence[float], samples: Sequence[int] | None = None) -> Own | None:
    """Return the mean over networks, in percent, with Student's interval; of one network its sampling margin."""
    if not values:
        return None
    mean, count = float(np.mean(values)), len(values)
    if count > 1:
        low, high = student_interval(mean, float(np.var(values, ddof=1)), count, upper=100.0)
        return Own(mean, "estimated", float(low), float(high), f"{count} networks")
    if samples is None:
        return Own(mean, "estimated", basis="one network")
    n, k, rest, rest_k = samples
    low, high = difference_interval(k, n, rest_k, rest)
    return _unsigned(k / n - rest_k / rest, float(low), float(high), "estimated", f"{n:,} samples a side")


def sampled_figure(found: Values) -> Own | None:
    """Return the score of a rule set that was sampled, with the published margins; None where it was refused."""
    if "refused" in found:
        return None
    return _unsigned(found["gap"], found["low"], found["high"], "estimated", "samples")


def counted_figure(found: Values) -> Own | None:
    """Return the score of a rule set that was counted, with its adjusted interval; None where it was refused."""
    if "gap" not in found:
        return None
    basis = f"{found['size']:,} against {found['rest']:,}, {'' if found['found'] else 'not '}significant"
    return _unsigned(found["gap"], found["low"], found["high"], "observed", basis)


def _unsigned(gap: float, low: float, high: float, kind: Literal["observed", "estimated"], basis: str) -> Own:
    """Return a gap without its sign, in percent; its interval is turned with it."""
    low, high = (low, high) if gap >= 0 else (-high, -low)
    return Own(100 * abs(gap), kind, 100 * low, 100 * high, basis)


def _near(published: float, ours: Own | None, within: float, better: str = "") -> Verdict:
    """Judge a score by its value alone, whatever its interval."""
    return "not compared" if ours is None else judge(published, ours.value, within=within, better=better)


def networks_of(found: Found, name: str) -> list[Values]:
    """Return what was found on each network of a data set, in order."""
    if name in PUBLISHED["text_subgroups"]:
        return [found[name]] if name in found else []
    return [found[key] for key in sorted(found) if key.startswith(f"{name}-") and key[len(name) + 1 :].isdigit()]


# Tables 1 to 3, and what the text says in numbers.


def compare_terms(found: Found) -> Iterator[Figure]:
    """Compare Table 1: how many identity terms there are in each category."""
    own = {one.name: len(one.groups) for one in resolve_categories(["published"], by_term=True)}
    for name, count in PUBLISHED["terms"].items():
        yield compare(name, "terms", float(count), Own(own[name], "measured"))


def compare_parameters(found: Found) -> Iterator[Figure]:
    """Compare Table 2: the settings of the published method are the defaults of ours."""
    config = SubgroupConfig()
    attributes = [
        {"name": "whole", "kind": "integer", "lower": 0, "upper": 9},
        {"name": "decimal", "kind": "real", "lower": 0.0, "upper": 1.0},
    ]
    target = {"name": "y", "favourable": 1, "values": [0, 1]}
    steps = Perturbation(Schema.parse({"target": target, "attributes": attributes}), ()).steps
    own = {
        "support threshold": 100 * config.support,
        "sampling threshold": float(RULE.more_than),
        "confidence level": 100 * config.confidence,
        "error margin threshold": 100 * RULE.margin,
        "z value": round(float(normal_quantile(config.confidence)), 2),
        "step of whole numbers": float(steps[0]),
        "step of decimal numbers": float(steps[1]),
    }
    for name, value in PUBLISHED["parameters"].items():
        yield compare(name, "parameter", value, Own(own[name], "measured"), within=1e-9)


def compare_accuracy(found: Found) -> Iterator[Figure]:
    """Compare Table 3: accuracy on people and texts that networks did not learn from."""
    for name, title in TITLES.items():
        networks, ours, note = networks_of(found, name), None, ""
        if networks:
            right, of = (sum(one["held_out"][i] for one in networks) for i in (0, 1))
            basis = f"{len(networks)} networks, people or texts outside the training set"
            ours = _own_share(right, of, "observed", basis)
            note = networks[0]["note"] or "another network, split and encoding of the data"
            if "training" in networks[0]:
                right, of = (sum(one["training"][i] for one in networks) for i in (0, 1))
                note = f"in the training set {100 * right / of:.1f} % are decided rightly; {note}"
        published = PUBLISHED["accuracy"][name]
        yield compare(title, "accuracy", published, ours, within=NEAR_ACCURACY, note=note, unit="%")


def compare_counts(found: Found) -> Iterator[Figure]:
    """Compare section 4.1's example: how many rule sets there are of one, two and three rules."""
    own = [1]
    for more in PUBLISHED["counted_rule_sets"]["rules"]:
        own = [a + more * b for a, b in zip([*own, 0], [0, *own], strict=True)]
    published = PUBLISHED["counted_rule_sets"]["published"]
    for (row, number), ours in zip(published.items(), (*own[1:], sum(own[1:])), strict=True):
        yield compare(row, "rule sets", number, Own(ours, "measured"))


def compare_example(found: Found) -> Iterator[Figure]:
    """Compare section 4.2's example: the margins of 283 and 91 of 1,000 samples."""
    example = PUBLISHED["worked_example"]
    n, inside, outside = example["samples"], example["inside"], example["outside"]
    margins = [100 * RULE.z * math.sqrt(k / n * (1 - k / n) / n) for k in (inside, outside)]
    own = {
        "margin inside": margins[0],
        "margin outside": margins[1],
        "margin": sum(margins),
        "score": 100 * (inside - outside) / n,
        "confidence": PROMISED,
    }
    for row, number in example["figures"].items():
        yield compare(row, "example", number, Own(own[row], "measured"), within=0.05 + 1e-9, unit="%")


def compare_bounds(found: Found) -> Iterator[Figure]:
    """Compare theorem 4.2: how often the error bound holds, for which question."""
    done = found.get("coverage", {"around": (), "people": ()})
    for one in done["around"]:
        row = f"rates {100 * one['rates'][0]:g} % and {100 * one['rates'][1]:g} %"
        yield _compare_coverage(row, "scores of samples within the bound", one)
        ours, default = Own(one["samples"], "measured"), Own(FIXED, "measured")
        note = "the paper prints none; Evenhand's interval for the difference needs fewer"
        yield Figure(row, "samples a side", None, ours, default, note=note)
    for one in done["people"]:
        row = f"samples around {one['inside']} people"
        yield _compare_coverage(row, "scores of people like these within the bound", one)
    if (fair := found.get("fair-models")) is not None:
        worlds, most = fair["worlds"], 100 - PROMISED
        of = sum(one["rule_sets"] for one in worlds)
        ours = _own_share(sum(one["sampled"] for one in worlds), of, "observed", f"{len(worlds)} fair models")
        counted = sum(one["counted"] > 0 for one in worlds)
        yield Figure(
            "rule sets whose interval excludes 0",
            "false findings of fair models",
            most,
            ours,
            _own_share(counted, len(worlds), "observed", "models with any finding"),
            "agrees" if ours.value <= most else "differs",
            unit="%",
            printed=f"at most {most:g}",
            note="samples come from the same 1,000 people again and again, so that chance among them looks certain",
        )


def _compare_coverage(row: str, measure: str, one: Values) -> Figure:
    ours = _own_share(one["within"], one["runs"], "estimated", f"{one['runs']:,} simulated")
    figure = compare(
        row,
        measure,
        PROMISED,
        ours,
        default=_own_share(one["covered"], one["runs"], "estimated", "nominal 95 %"),
        better="higher",
        unit="%",
        printed=f"at least {PROMISED:g}",
    )
    note = "few people were seen, which the bound does not know" if figure.verdict == "differs" else ""
    return replace(figure, note=note)


# Table 4: rule sets and their scores.

SCORE = "score of the published rule sets"
SIGNIFICANT = "published rule sets that are significant after adjustment"
FIRST = "score of the first rule sets that the published search finds on our network"


def compare_subgroups(found: Found) -> Iterator[Figure]:
    """Compare Table 4: the published rule sets on our networks, and what is first on ours."""
    yield from _compare_people(found)
    yield from _compare_texts(found)
    yield from _count_significant(found)
    yield from _compare_first(found)


def _compare_people(found: Found) -> Iterator[Figure]:
    for name, rows in PUBLISHED["subgroups"].items():
        networks, flipped = networks_of(found, name), name in PUBLISHED["other_label"]
        for rank, row in enumerate(rows):
            own = [one["published"][rank] for one in networks]
            label = f"{TITLES[name]} {rank + 1}: {row['words']}"
            if not own:
                yield Figure(label, SCORE, row["score"], unit="%", note=NOT_DONE)
                continue
            counts = [one["sampled"] for one in own]
            scores = [100 * abs(k / n - k2 / n2) for n, k, n2, k2 in counts if n and n2]
            sampled, middle = mean_figure(scores, counts[0]), _middle_network(own)
            counted, verdict = counted_figure(middle), _near(row["score"], sampled, NEAR)
            note = describe_size(middle, "people") if counted is None else OTHER_NETWORK
            if abs(row["score"] - abs(row["inside"] - row["rest"])) > ROUNDING:
                note += f"; the rates printed lie {abs(row['inside'] - row['rest']):.1f} points apart"
            if flipped:
                note += f"; the rates printed are of {PUBLISHED['other_label'][name]}"
            note = "" if verdict == "agrees" and counted is not None else note
            yield Figure(label, SCORE, row["score"], sampled, counted, verdict, unit="%", note=note)
            if sampled is not None:
                yield from _compare_rates(label, row, counts, middle, flipped=flipped)


def _compare_rates(
    label: str, row: Values, counts: list[list[int]], middle: Values, *, flipped: bool
) -> Iterator[Figure]:
    for measure, key, own_key, (n_at, k_at) in (
        ("rate inside", "inside", "rate", (0, 1)),
        ("rate outside", "rest", "rest_rate", (2, 3)),
    ):
        rates = [100 * (one[k_at] / one[n_at]) for one in counts]
        ours, known = mean_figure([100 - rate for rate in rates] if flipped else rates), middle.get(own_key)
        default = None if known is None else Own(100 * (1 - known if flipped else known), "observed")
        verdict = _near(row[key], ours, NEAR)
        note = "" if verdict == "agrees" else OTHER_NETWORK
        yield Figure(label, measure, row[key], ours, default, verdict, unit="%", note=note)


def _compare_texts(found: Found) -> Iterator[Figure]:
    for name, rows in PUBLISHED["text_subgroups"].items():
        own = found[name]["published"] if name in found else []
        for rank, row in enumerate(rows):
            terms = " and ".join(f'"{term}"' for term in row["terms"].values())
            label = f"{TITLES[name]} {rank + 1}: {terms}"
            if not own:
                yield Figure(label, SCORE, row["score"], unit="%", note=NOT_DONE)
                continue
            sampled, counted = sampled_figure(own[rank]["sampled"]), counted_figure(own[rank])
            texts = format_count(own[rank]["sampled"]["size"] + own[rank]["sampled"]["rest"], "text", "texts")
            note = f"samples are made of {texts} with words about {' and '.join(row['terms'])}"
            note += "" if counted else f"; {own[rank]['refused']}"
            verdict = _near(row["score"], sampled, NEAR)
            yield Figure(label, SCORE, row["score"], sampled, counted, verdict, unit="%", note=note)


def _count_significant(found: Found) -> Iterator[Figure]:
    for name, title in TITLES.items():
        networks = networks_of(found, name)
        if not networks:
            yield Figure(title, SIGNIFICANT, float(TOP), note=NOT_DONE)
            continue
        judged, count = [one for network in networks for one in network["published"]], len(networks)
        value, basis = sum(bool(one.get("found")) for one in judged) / count, "adjusted for every rule set"
        doubts = Counter(describe_doubt(one) for one in judged if not one.get("found"))
        yield Figure(
            title,
            SIGNIFICANT,
            float(TOP),
            default=Own(value, "observed", basis=f"mean of {count} networks, {basis}"),
            verdict="agrees" if value == TOP else "differs",
            printed=f"{TOP}, not tested",
            note="; ".join(f"{many / count:.3g} of {TOP} {doubt}" for doubt, many in doubts.items()),
        )


def describe_doubt(found: Values) -> str:
    """Return why a rule set is not significant."""
    if "refused" in found:
        return "hold or leave too few"
    return "are certainly less than 5 points" if found["low"] * found["high"] > 0 else "may be chance"


def describe_size(found: Values, what: str) -> str:
    """Return how few a rule set holds, or leaves outside."""
    if "refused" in found:
        return str(found["refused"])
    return f"{found['size']:,} {what} inside, {found['rest']:,} outside"


def _middle_network(own: Sequence[Values]) -> Values:
    """Return a rule set on the network with the middle one of its gaps; the first where it was refused."""
    return sorted(own, key=lambda one: abs(one.get("gap", 0.0)))[len(own) // 2]


def _compare_first(found: Found) -> Iterator[Figure]:
    for name, title in TITLES.items():
        people = name in PUBLISHED["subgroups"]
        done = found.get(f"{name}-0" if people else f"{name}-sampled")
        if done is None:
            continue
        tops = done["sampled"]["thresholds"]["5"]["top"] if people else done["top"]
        judged = done["own"] if people else [{}] * len(tops)
        rows = PUBLISHED["subgroups" if people else "text_subgroups"][name]
        for rank, (top, own, row) in enumerate(zip(tops, judged, rows, strict=False), 1):
            ours, counted = sampled_figure(top), counted_figure(own)
            if ours is None:
                continue
            verdict = _near(row["score"], ours, NEAR)
            said = ["another network, another rule set"] * (verdict != "agrees")
            said += [describe_size(top, "people" if people else "texts")] * (counted is None)
            if own.get("found") is False:
                said.append(f"not significant: such gaps {describe_doubt(own)}")
            label, note = f"{title} {rank}: {top['words']}", "; ".join(filter(None, said))
            yield Figure(label, FIRST, row["score"], ours, counted, verdict, unit="%", note=note)


# Tables 5 and 6: times, and support thresholds.


def compare_times(found: Found) -> Iterator[Figure]:
    """Compare Table 5: rule sets, seconds, and how much faster counting is in the same run."""
    for name, published in PUBLISHED["times"].items():
        title, sampled, counted = TITLES[name], *_both_searches(found, name)
        if sampled is None or counted is None:
            yield Figure(title, "rule sets", published["rule_sets"], note=NOT_DONE)
            yield Figure(title, "seconds", published["seconds"], unit="s", note=NOT_DONE)
            continue
        ours = Own(sampled["rule_sets"], "measured")
        default = Own(counted["tested"], "measured", basis="different groups that meet the floors")
        number, note = published["rule_sets"], _explain_count(name, found)
        within = max(1.0, NEAR_COUNT * number)
        yield compare(title, "rule sets", number, ours, default=default, within=within, note=note)
        ours, default = Own(sampled["seconds"], "measured"), Own(counted["seconds"], "measured")
        note = "another machine; seconds of the processor"
        yield Figure(title, "seconds", published["seconds"], ours, default, unit="s", note=note)
        times = (counted["tested"] / counted["seconds"]) / (sampled["rule_sets"] / max(sampled["seconds"], 1e-9))
        yield Figure(
            title,
            "rule sets per second, as a multiple of the published method's in the same run",
            1.0,
            default=Own(times, "measured"),
            verdict="better" if times > 1 else "differs",
            note="" if times > 1 else "the model's one pass over everybody takes longer than the samples",
        )


def _both_searches(found: Found, name: str) -> tuple[Values | None, Values | None]:
    """Return the published search (rule sets, seconds) and the counting one of a data set; None if not done."""
    if name in PUBLISHED["text_subgroups"]:
        return found.get(f"{name}-sampled"), found.get(name, {}).get("counted")
    if (done := found.get(f"{name}-0")) is None:
        return None, None
    sampled = done["sampled"]
    return {"seconds": sampled["seconds"], "rule_sets": sampled["thresholds"]["5"]["rule_sets"]}, done["counted"]


def _explain_count(name: str, found: Found) -> str:
    if name == "crime":
        sampled = found["crime-0"]["sampled"]
        return (
            f"shares cut into {sampled['bins']} parts, not 10, and {sampled['depth']} rules at most: with 10 parts "
            "algorithm 1 gives 67,193 rule sets of two rules, and the paper does not say which it left out"
        )
    if name in PUBLISHED["text_subgroups"]:
        if found[f"{name}-sampled"]["depth"] == 1:
            return "single terms only, and no pairs of them"
        return "those for which some text here has words of every category; the paper has more texts"
    return "all that algorithm 1 gives: subsets of values and ranges of neighbouring parts, one attribute or more"


def compare_thresholds(found: Found) -> Iterator[Figure]:
    """Compare Table 6: rule sets, first score and share of the time, by support threshold."""
    for name, rows in PUBLISHED["thresholds"].items():
        thresholds = found[f"{name}-0"]["sampled"]["thresholds"] if f"{name}-0" in found else {}
        longest = max(row["seconds"] for row in rows.values())
        most = max([1, *(one["samples"] for one in thresholds.values())])
        for percent, row in rows.items():
            own, title, at = thresholds.get(str(percent)), TITLES[name], float(percent)
            if own is None:
                yield Figure(title, "rule sets", row["rule_sets"], note=NOT_DONE, at=at)
                yield Figure(title, "first score", row.get("score"), unit="%", note=NOT_DONE, at=at)
                continue
            ours, within = Own(own["rule_sets"], "measured"), max(1.0, NEAR_COUNT * row["rule_sets"])
            note = "all that algorithm 1 gives hold so many people; the paper has fewer"
            yield compare(title, "rule sets", row["rule_sets"], ours, within=within, note=note, at=at)
            yield _compare_first_score(title, row, own["top"], at)
            share, ours = (
                100 * row["seconds"] / longest,
                Own(100 * own["samples"] / most, "measured", basis="by samples"),
            )
            measure, note = "share of the longest time", "more rule sets are left than in the paper"
            yield compare(title, measure, share, ours, within=10.0, note=note, at=at, unit="%")


def _compare_first_score(title: str, row: Values, tops: list[Values], at: float) -> Figure:
    ours = sampled_figure(tops[0]) if tops else None
    if "score" not in row or ours is None:
        note = f"the paper has none; ours: {tops[0]['words']}" if tops else "none either"
        return Figure(title, "first score", row.get("score"), ours, verdict="differs", unit="%", note=note, at=at)
    top, verdict = tops[0], _near(row["score"], ours, NEAR)
    note = f"published: {row['words']}; ours: {top['words']} ({top['size']:,} people, {top['rest']:,} outside)"
    return Figure(title, "first score", row["score"], ours, verdict=verdict, unit="%", note=note, at=at)


# Table 7: retraining.

BEFORE, AFTER = "score before retraining", "score after retraining"
LEFT, GAINED = "share of the score that is left", "accuracy gained"


class Mended(NamedTuple):
    """A score and an accuracy before and after, in percent, as published and on people who were not used."""

    scores: tuple[float, float]
    held: tuple[Own | None, Own | None]
    accuracy: tuple[float, float]
    words: str


def compare_mitigation(found: Found) -> Iterator[Figure]:
    """Compare Table 7: the score of the widest subgroup before and after retraining, and the accuracy."""
    for name, published in PUBLISHED["mitigation"].items():
        done = found.get(f"{name}-mended")
        own = None if done is None else _mended_people(done) if "models" in done else _mended_texts(done)
        yield from _compare_mended(TITLES[name], published, own)


def _mended_people(done: Values) -> Mended | None:
    if not done["models"]:
        return None
    (_, before), (words, after) = ((one["words"], one) for one in done["models"])

    def rates(counted: Values) -> tuple[float, float]:
        counts = Counts(**counted)
        return counts.favourable / max(counts.inside, 1), counts.rest_favourable / max(counts.people - counts.inside, 1)

    held = []
    for one in (before["held_out"], after["held_out"]):
        counts, (inside, rest) = Counts(**one), rates(one)
        low, high = difference_interval(
            counts.favourable, counts.inside, counts.rest_favourable, counts.people - counts.inside
        )
        held.append(_unsigned(inside - rest, float(low), float(high), "observed", f"on {counts.people:,} people"))
    scores = [100 * abs(inside - rest) for inside, rest in (rates(one["sampled"]) for one in (before, after))]
    accuracy = [100 * one["held_out"]["right"] / one["held_out"]["people"] for one in (before, after)]
    sure = "" if done["significant"] else ", which is not significant"
    said = f"{done['subgroup']}{sure}; {words.rpartition(', ')[2]}"
    return Mended((scores[0], scores[1]), (held[0], held[1]), (accuracy[0], accuracy[1]), said)


def _mended_texts(done: Values) -> Mended | None:
    tried = [one for one in done["tried"] if "refused" not in one["sampled"]]
    if len(tried) < 2:
        return None
    accuracy = [100 * one["held_out"][0] / one["held_out"][1] for one in tried]
    cheap = [i for i in range(1, len(tried)) if accuracy[i] >= accuracy[0] - NEAR_ACCURACY] or [1]
    best = min(cheap, key=lambda i: abs(tried[i]["sampled"]["gap"]))
    first, last = tried[0]["sampled"], tried[best]["sampled"]
    texts = format_count(first["size"] + first["rest"], "text", "texts")
    said = f"{first['words']}, samples of {texts}; with {tried[best]['added']:,} texts added"
    scores = 100 * abs(first["gap"]), 100 * abs(last["gap"])
    return Mended(scores, (None, None), (accuracy[0], accuracy[best]), said)


def _compare_mended(title: str, published: Values, own: Mended | None) -> Iterator[Figure]:
    left = 100 * published["score_after"] / published["score"]
    gained = published["accuracy_after"] - published["accuracy"]
    if own is None:
        for measure, number in ((BEFORE, published["score"]), (AFTER, published["score_after"]), (LEFT, left)):
            yield Figure(title, measure, number, unit="%", note=NOT_DONE)
        yield Figure(title, GAINED, gained, unit="%", note=NOT_DONE)
        return
    for at, (measure, number) in enumerate(((BEFORE, published["score"]), (AFTER, published["score_after"]))):
        ours = Own(own.scores[at], "estimated", basis="5,000 samples a side")
        verdict = _near(number, ours, NEAR, "lower" if at else "")
        yield Figure(title, measure, number, ours, own.held[at], verdict, unit="%", note=own.words)
    ours, default = Own(100 * own.scores[1] / max(own.scores[0], 1e-9), "estimated"), None
    if own.held[0] and own.held[1]:
        unused = own.held[1].value / max(own.held[0].value, 1e-9) * 100
        default = Own(unused, "observed", basis="on people not used")
    note = f"another network and another subgroup: {own.words}"
    yield compare(title, LEFT, left, ours, default=default, within=NEAR_SHARE, better="lower", note=note, unit="%")
    change, note = own.accuracy[1] - own.accuracy[0], "another network, and few people to measure it on"
    ours = Own(change, "observed", basis="points, on people or texts outside the training set")
    yield compare(title, GAINED, gained, ours, within=NEAR_ACCURACY, better="higher", note=note, unit="%")


# Table 8: other methods.


def compare_methods(found: Found) -> Iterator[Figure]:
    """Compare Table 8: the first score by TestSGD and by THEMIS."""
    for name, rows in PUBLISHED["subgroups"].items():
        done, title = found.get(f"{name}-0"), TITLES[name]
        published = {"TestSGD": rows[0]["score"], "THEMIS": PUBLISHED["themis"][name]}
        if done is None:
            for measure, number in published.items():
                yield Figure(title, measure, number, unit="%", note=NOT_DONE)
            continue
        widest, first = done["counted"]["widest"], done["sampled"]["thresholds"]["5"]["top"][0]
        default = None if widest is None else counted_figure(widest)
        note = f"first as published: {first['words']}" + (f"; widest significant: {widest['words']}" if widest else "")
        yield _compare_score(title, "TestSGD", published["TestSGD"], sampled_figure(first), default, note)
        yield _compare_themis(title, published["THEMIS"], done["themis"], default)


def _compare_themis(title: str, published: float | None, done: Values, default: Own | None) -> Figure:
    if COMBINATIONS in done:
        verdict: Verdict = "agrees" if published is None else "differs"
        printed = "more than 24 hours" if published is None else ""
        note = f"not measured here either: {done[COMBINATIONS]}"
        return Figure(title, "THEMIS", published, None, default, verdict, unit="%", printed=printed, note=note)
    basis = f"random inputs, all pairs of {done['combinations']} combinations"
    ours = Own(100 * done["score"], "estimated", 100 * done["low"], 100 * done["high"], basis)
    note = f"{done['best']} ({done['rest']:,} people) against {done['worst']} ({done['size']:,} people)"
    return _compare_score(title, "THEMIS", published, ours, default, note)


def _compare_score(
    row: str, measure: str, published: float | None, ours: Own | None, default: Own | None, note: str
) -> Figure:
    verdict: Verdict = "not compared" if published is None else _near(published, ours, NEAR)
    note = note if verdict == "agrees" else f"{OTHER_NETWORK}; {note}"
    return Figure(row, measure, published, ours, default, verdict, unit="%", note=note)


RUNS = 3
"""Networks per data set of people; the paper gives means over three."""

ON_PEOPLE = ("Table 3", "Table 4", "Table 5", "Table 8")


def _plan_pieces() -> Iterator[Piece]:
    yield Piece("coverage", ("Theorem 4.2",), measure_coverage)
    yield Piece("fair-models", ("Theorem 4.2",), find_false_gaps)
    for name in PUBLISHED["subgroups"]:
        first = (*ON_PEOPLE, "Table 6") if name in PUBLISHED["thresholds"] else ON_PEOPLE
        for run in range(RUNS):
            tables = first if run == 0 else ON_PEOPLE[:2]
            yield Piece(f"{name}-{run}", tables, partial(search_people, name, run), quick=run == 0)
        yield Piece(f"{name}-mended", ("Table 7",), partial(mend_people, name), quick=False)
    for name in PUBLISHED["text_subgroups"]:
        quick = name == "wiki"
        yield Piece(name, ("Table 3", "Table 4", "Table 5"), partial(search_texts, name), quick)
        yield Piece(f"{name}-sampled", ("Table 4", "Table 5"), partial(sample_texts, name), quick)
        yield Piece(f"{name}-mended", ("Table 7",), partial(mend_texts, name), quick=False)


PAPER = Paper(
    name="testsgd",
    pieces=tuple(_plan_pieces()),
    comparisons={
        "Table 1": compare_terms,
        "Section 4.1": compare_counts,
        "Section 4.2": compare_example,
        "Theorem 4.2": compare_bounds,
        "Table 2": compare_parameters,
        "Table 3": compare_accuracy,
        "Table 4": compare_subgroups,
        "Table 5": compare_times,
        "Table 6": compare_thresholds,
        "Table 7": compare_mitigation,
        "Table 8": compare_methods,
    },
)
