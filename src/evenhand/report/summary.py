"""The first screen: one line per protected attribute and question, with a number, its kind, and what to do next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from evenhand import charts
from evenhand.groups.result import SMALL, Breakdown
from evenhand.individual.result import IndividualResult, Profile, Rate
from evenhand.report import words
from evenhand.stats import Estimated, Proved, Quantity, Unknown, number
from evenhand.subgroup import sentences

if TYPE_CHECKING:
    from evenhand.audit.result import AuditResult
    from evenhand.certify.result import Certificate
    from evenhand.individual.search.result import SearchResult
    from evenhand.subgroup import Finding, SubgroupResult

FOUR_FIFTHS = 0.8
"""The four-fifths rule: the lowest selection rate should be at least this share of the highest (29 CFR 1607.4 D)."""


GOING_ON = {
    "done": "what is undecided lies too close to the border for this proof",
    "time": "a longer time limit decides more",
    "boxes": "a higher limit on boxes decides more",
    "target": "a lower target decides more",
    "depth": "what is undecided cannot be divided further",
    "interrupt": "let it run on to decide more",
}
"""Why a proof stopped -> what would decide more."""


@dataclass(frozen=True)
class Line:
    """One answer of the first screen.

    Attributes:
        protected: attributes it is about, as one name.
        question: what was asked, so that it reads on into the number.
        number: the answer; a dash if there is none.
        value: the same as a number, None if there is none.
        kind: observed, estimated, proved or unknown.
        details: what the number rests on, to be read after its kind, then what else there is to know.
        next_step: what to do about it.
    """

    protected: str
    question: str
    number: str
    value: float | None
    kind: str
    details: tuple[str, ...]
    next_step: str


def lines(audit: AuditResult) -> list[Line]:
    """The first screen, attribute by attribute."""
    order: list[tuple[str, ...]] = [(name,) for name in audit.protected]
    for found in (
        *(breakdown.by for breakdown in audit.groups.breakdowns),
        *(rate.protected for rate in audit.individual.rates),
        *(certificate.protected for certificate in audit.certificates),
    ):
        if found not in order:
            order.append(found)
    screen: list[Line] = []
    for protected in order:
        screen += [_group_line(breakdown) for breakdown in audit.groups.breakdowns if breakdown.by == protected]
        searches = [one for one in audit.searches if one.protected == protected]
        screen += _flip_lines(audit.individual, protected, any(one.profiles for one in searches))
        screen += [_search_line(one, audit.model.favourable) for one in searches]
        screen += [_proof_line(one) for one in audit.certificates if one.protected == protected]
    return screen + ([] if audit.subgroups is None else [_subgroup_line(audit.subgroups, audit.worst_subgroup)])


def rule(ratio: Quantity) -> str:
    """Whether the four-fifths rule is met by a ratio, in words, with the ratio; its interval may leave it open."""
    if isinstance(ratio, Unknown):
        return f"unknown ({ratio.reason})"
    side = f"{'met' if ratio.value >= FOUR_FIFTHS else 'not met'} ({words.against(ratio.value, FOUR_FIFTHS)})"
    if not isinstance(ratio, Proved) and ratio.low < FOUR_FIFTHS <= ratio.high:
        return f"{side}, but the interval {words.ends(ratio, 'demographic_parity_ratio')} leaves it open"
    return side


def pairs(individual: IndividualResult, protected: tuple[str, ...]) -> list[Profile]:
    """The examples in which exactly these attributes were changed."""
    return [profile for profile in individual.examples if set(profile.better.values) == set(protected)]


def estimate(certificate: Certificate) -> Estimated:
    """The share of different decisions in all, as a number that says what it is."""
    it = certificate.estimate
    return Estimated(
        value=it.unfair,
        low=it.low,
        high=it.high,
        confidence=it.confidence,
        n=it.n,
        population=certificate.population,
        method="what is proved, and a sample of what is undecided",
    )


def _subgroup_line(searched: SubgroupResult, worst: Finding | None) -> Line:
    over = words.joined(cells.name for cells in searched.attributes)
    among = f"{words.count(searched.tested, 'subgroup', 'subgroups')} looked at together"
    name = f"subgroups of {over}" if len(searched.attributes) > 1 else f"subgroups by {over}"
    if worst is None:
        reason = f"nobody is below the rest among {among}" if searched.tested else "no subgroup is large enough"
        return Line(
            name, "worst subgroup", "-", None, "unknown", (reason,), "see under Subgroups for how it was looked"
        )
    gap = -worst.gap
    details = (
        f"{worst.words}: {charts.percent(worst.rate)} of {worst.size:,} people are selected, of everyone else "
        f"{charts.percent(worst.rest_rate)}",
        f"adjusted {words.level(searched.confidence)} interval of the gap {words.decimal(-worst.high)} to "
        f"{words.decimal(-worst.low)}, for all of {among}",
    )
    if worst.found:
        step = "see under Subgroups whom else it concerns; look closer with evenhand subgroups"
    else:
        step = f"{sentences.unclear(searched, worst)}; see under Subgroups"
    return Line(name, "worst subgroup", words.decimal(gap), gap, "observed", details, step)


def _group_line(breakdown: Breakdown) -> Line:
    difference, ratio = breakdown.gap("demographic_parity_difference"), breakdown.gap("demographic_parity_ratio")
    name, protected = "demographic_parity_difference", words.joined(breakdown.by)
    if difference is None or isinstance(difference.value, Unknown):
        reason = (
            difference.value.reason
            if difference is not None and isinstance(difference.value, Unknown)
            else f"fewer than two groups have {SMALL} people"
        )
        return Line(
            protected, "group gap", "-", None, "unknown", (reason,), f"bring at least {SMALL} people of each group"
        )
    value = difference.value
    details = [_rests_on(value, name), f"selected most: {difference.best}; least: {difference.worst}"]
    fraction = None
    if ratio is not None:
        fraction = number(ratio.value)
        details.append(f"four-fifths rule: {rule(ratio.value)}")
    low = getattr(value, "low", value.value)
    if fraction is not None and fraction < FOUR_FIFTHS:
        step = "compare with the true labels, under Groups; justify the gap or mitigate it"
    elif low <= 0:
        step = "too few people to tell the gap from chance; more would narrow the interval"
    else:
        step = "see under Groups whether errors fall more on one group than on the other"
    return Line(protected, "group gap", words.value(value, name), value.value, value.kind, tuple(details), step)


def _flip_lines(individual: IndividualResult, protected: tuple[str, ...], searched: bool) -> list[Line]:
    found = [rate for rate in individual.rates if rate.protected == protected]
    if not found:
        return []
    first = found[0].rate
    shown = len(pairs(individual, protected))
    if any(rate.flips for rate in found):
        step = f"read the {words.count(shown, 'pair', 'pairs')} under Individuals" if shown else "ask for examples"
    elif searched:
        step = "nobody asked about was decided differently; the search below found others"
    else:
        step = "nobody asked about was decided differently; only a proof can say more"
    unknown = isinstance(first, Unknown)
    return [
        Line(
            protected=words.joined(protected),
            question="flips for",
            number="-" if isinstance(first, Unknown) else words.value(first, "rate"),
            value=None if isinstance(first, Unknown) else first.value,
            kind=first.kind,
            details=(_rests_on(first, "rate", _people(found[0])), *(_of_others(rate) for rate in found[1:])),
            next_step="give the audit more time" if unknown else step,
        )
    ]


def _search_line(search: SearchResult, favourable: str) -> Line:
    details = [f"distinct profiles that could exist and flip, each verified; {search.queries:,} questions"]
    if search.profiles:
        best: dict[str, int] = {}
        for example in search.representatives:
            for name, value in example.better.values.items():
                if example.better.label == favourable:
                    best[f"{name} {value}"] = best.get(f"{name} {value}", 0) + 1
        kinds = words.count(len(search.representatives), "kind", "kinds")
        favoured = max(best, key=lambda name: best[name], default=None)
        details.append(f"{kinds} of people" + (f"; treated best most often: {favoured}" if favoured else ""))
        step = "see under Individuals who they are; look further with evenhand search"
    else:
        step = "nothing found is no proof: see what is proved, or search longer with evenhand search"
    return Line(
        protected=words.joined(search.protected),
        question="search found",
        number=f"{search.profiles:,}",
        value=float(search.profiles),
        kind="observed",
        details=tuple(details),
        next_step=step,
    )


def _of_others(rate: Rate) -> str:
    if isinstance(rate.rate, Unknown):
        return f"of {_people(rate)}: unknown, {rate.rate.reason}"
    return (
        f"of {_people(rate)}: {words.value(rate.rate, 'rate')}, {rate.rate.kind}, {words.interval(rate.rate, 'rate')}"
    )


def _people(rate: Rate) -> str:
    return rate.population if rate.over == "data" else words.EVERYONE


def _rests_on(quantity: Quantity, name: str, people: str = "") -> str:
    """What a number rests on and its interval, to be read after its kind."""
    if isinstance(quantity, Unknown):
        return quantity.reason
    sampled = f" of {people}" if people and isinstance(quantity, Estimated) else ""
    parts = (f"{words.basis(quantity)}{sampled}", words.interval(quantity, name))
    return ", ".join(part for part in parts if part)


def _proof_line(certificate: Certificate) -> Line:
    different = estimate(certificate)
    details = (
        f"of {words.EVERYONE}",
        f"provably different for {words.at_least(certificate.falsified)}; "
        f"undecided for {words.at_most(certificate.undecided)}",
        f"different in all: {words.value(different, 'rate')}, estimated, {words.interval(different, 'rate')}",
    )
    steps = ["see under Proof for whom it differs"] if certificate.falsified > 0 else []
    if certificate.undecided > 0:
        steps.append(GOING_ON[certificate.stopped_by])
    return Line(
        words.joined(certificate.protected),
        "provably same for",
        words.at_least(certificate.certified),
        certificate.certified,
        "proved",
        details,
        "; ".join(steps) or "nothing is left open",
    )
