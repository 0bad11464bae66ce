"""Certificates: proved shares of a population that a model treats equally under all protected values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from evenhand.core.document import (
    Block,
    Column,
    Document,
    Figure,
    Fold,
    Heading,
    Metric,
    Note,
    Pair,
    ReportedNumber,
    Side,
    Table,
    TableRow,
    Text,
)
from evenhand.core.result import Result, ResultNumber
from evenhand.core.result_part import ResultPart
from evenhand.core.text import (
    SIMULATED,
    format_count,
    format_duration,
    format_level,
    format_percent,
    join_names,
    percent_at_least,
    percent_at_most,
)
from evenhand.stats.quantity import COMBINED, Estimated, Proved, explain_position, show_quantity

if TYPE_CHECKING:
    import pandas as pd


REGIONS = 6
"""Number of parts of the domain shown per certificate. The JSON contains all of them."""

EXAMPLES = 6
"""Number of counterexamples shown per certificate. The JSON contains all of them."""

STOPPED = {
    "done": "complete",
    "time": "time limit reached",
    "progress": "little progress: more work would decide little",
    "boxes": "limit on boxes reached",
    "target": "little enough is undecided",
    "depth": "boxes cannot be divided further",
    "interrupt": "interrupted",
}
"""Reasons why a proof ended."""

GOING_ON = {
    "done": "the rest is too close to the decision boundary for this proof",
    "time": "a longer time limit decides more",
    "progress": "--time-limit continues until then, but more work would decide little",
    "boxes": "a higher limit on boxes decides more",
    "target": "a time limit, or a lower target of evenhand certify, decides more",
    "depth": "the undecided boxes cannot be divided further",
    "interrupt": "a complete run decides more",
}
"""Advice for deciding more, by stopping reason."""

METHODS = {
    "interval": "symbolic intervals, box by box",
    "linear": "linear bounds, box by box",
}


class Estimate(ResultPart):
    """Two-sided confidence interval for the share of unfairly treated people, from n random draws.

    The estimate of a whole certificate combines the draws with the proofs (``evenhand.stats.combined_share``).
    """

    unfair: float
    low: float
    high: float
    confidence: float
    n: int


class Evidence(ResultPart):
    """Random draws on which the estimate of a certificate is based.

    Attributes:
        source: ``undecided`` (from the boxes that are not decided as a whole), ``breakdown`` (from the whole
            population, for the shares by attribute) or ``flip rate`` (from everyone with a counterpart, for the
            counterfactual flip rate).
        mass: Share of the population that they were drawn from.
        unfair: Number of unfairly treated people.
        n: Number of draws.
    """

    source: Literal["undecided", "breakdown", "flip rate"]
    mass: float
    unfair: int
    n: int


class Counterexample(ResultPart):
    """Person of the domain whose label differs between two protected assignments, confirmed by the model."""

    unprotected: dict[str, str]
    first: dict[str, str]
    second: dict[str, str]
    first_label: str
    second_label: str


class ProgressPoint(ResultPart):
    """Proved shares at one moment of a run."""

    seconds: float
    boxes: int
    certified: float
    falsified: float


class Subregion(ResultPart):
    """Part of the domain, as ranges or values of attributes, with its mass in the population.

    ``falsified`` and ``undecided`` are the proved unfair and the undecided parts of that mass.
    """

    where: dict[str, str]
    mass: float
    falsified: float
    undecided: float


class AttributeSlice(ResultPart):
    """People with one value, or a range of values, of one attribute.

    Attributes:
        attribute, values: Attribute and its values, as spelled in the data.
        mass: Share of the population.
        estimate: Share of these people that is treated unfairly, from a sample of the whole population. If ``n`` is 0,
            none of them was drawn and the share is unknown.
        undecided: Approximate share of these people that the proof left undecided, assuming that the undecided mass
            of a box is distributed like its population.
    """

    attribute: str
    values: str
    mass: float
    estimate: Estimate
    undecided: float


class OutcomeShare(ResultPart):
    """Bounds on the share of the population that can get at least ``least`` different labels or bands.

    Attributes:
        least: Number of different outcomes when the protected attributes vary.
        proved: Proved lower bound.
        possible: Proved upper bound.
    """

    least: int
    proved: float
    possible: float

    @classmethod
    def of(cls, least: int, certified: float, falsified: float) -> OutcomeShare:
        """Build the bounds from the shares that are proved to get fewer outcomes, and ``least`` or more."""
        return cls(least=least, proved=falsified, possible=max(falsified, 1 - certified))


class Certificate(Result):
    """Shares of the population: certified + falsified + undecided + no_counterpart = 1.

    Attributes:
        certified: Proved lower bound on the mass of people treated fairly.
        falsified: Proved lower bound on the mass of people treated unfairly.
        undecided: The rest.
        estimate: Unfair mass from the proofs and all draws together, with its interval.
        evidence: Draws behind the estimate.
        counterexamples: Distinct counterexamples in the domain, confirmed by the model.
        boxes: Number of boxes that were bounded.
        cpu_seconds: Processor time of the run.
        method: ``linear`` (linear bounds, best first), ``interval`` (symbolic intervals, depth first), ``trees``
            (bounds over leaves), or ``enumeration`` (every point of a small domain).
        population: Name of the population.
        stopped_by: ``done``, ``time``, ``progress`` (another second would have decided too little), ``boxes``,
            ``target``, ``depth`` or ``interrupt``.
        protected: Attributes that were varied.
        where: Conditions on the people.
        threshold: With two labels, ``positive`` is given if its probability exceeds this. None otherwise.
        positive: Label of the threshold.
        moved: For plausible counterparts, the attributes that change together with the protected ones. None if
            only the protected attributes change.
        no_counterpart: Share of people without a plausible counterpart, who are neither certified nor undecided.
        history: Progress of the run.
        regions: Proved unfair and undecided mass by coarse parts of the domain.
        slices: Estimated unfair and undecided shares by single attributes.
        tolerance: For numbers, the change that still counts as fair. None otherwise.
        bands: Scores that separate bands of the favourable label's score. Empty otherwise.
        outcomes: Bounds for each number of different outcomes above two, if requested.
        caution: Assumptions about the model's outputs.
    """

    chart = "certification.plot_certificate"
    kind: Literal["certificate"] = "certificate"
    certified: float = Field(ge=0, le=1)
    falsified: float = Field(ge=0, le=1)
    undecided: float = Field(ge=0, le=1)
    estimate: Estimate
    evidence: tuple[Evidence, ...] = ()
    counterexamples: tuple[Counterexample, ...]
    boxes: int
    cpu_seconds: float
    method: str
    population: str
    stopped_by: Literal["done", "time", "progress", "boxes", "target", "depth", "interrupt"]
    protected: tuple[str, ...]
    where: tuple[str, ...] = ()
    threshold: float | None = None
    positive: str | None = None
    moved: tuple[str, ...] | None = None
    no_counterpart: float = 0.0
    history: tuple[ProgressPoint, ...] = ()
    regions: tuple[Subregion, ...] = ()
    slices: tuple[AttributeSlice, ...] = ()
    tolerance: float | None = None
    bands: tuple[float, ...] = ()
    outcomes: tuple[OutcomeShare, ...] = ()
    caution: str = ""

    def document(self) -> Document:
        """Build the report: proved shares, estimate, unfair and undecided parts."""
        name = join_names(self.protected)
        conditions = [
            *filter(None, [self.caution]),
            *([self._describe_counterparts()] if self.moved is not None else []),
            *(f"Only people with {condition}." for condition in self.where),
        ]
        if self.tolerance is not None:
            conditions.append(f"A change of the model\u2019s number by no more than {self.tolerance:g} is fair.")
        if self.bands:
            edges = ", ".join(f"{edge:g}" for edge in self.bands)
            conditions.append(
                f"Decisions are bands of the favourable label\u2019s score, or of a number, cut at {edges}."
            )
        if self.threshold not in (None, 0.5):
            conditions.append(f"{self.positive!r} is predicted if its probability is greater than {self.threshold:g}.")
        same, other = "the decision stays the same", "changes"
        if self.tolerance is not None:
            same, other = f"the model\u2019s number changes by at most {self.tolerance:g}", "by more"
        return Document(
            f"Certificate for {name}",
            f"Proved shares of {SIMULATED} ({self.population}) for which {same} for all values of {name}, or {other}.",
            (
                Text(
                    f"For {percent_at_least(self.certified)} of {SIMULATED} it is proved that {same} for all values of "
                    f"{name}; for {percent_at_least(self.falsified)} it is proved that it {other}"
                    f"{'' if self.tolerance is None else ' than that'}.",
                    role="finding",
                ),
                *(Text(sentence) for sentence in conditions),
                *proof_answers(self),
                *outcome_blocks(self),
                Heading("Proof", anchor="proof", detail=True),
                *proof_blocks((self,)),
            ),
            brand="Evenhand certify",
            made=self.provenance,
            readings=self.readings,
        )

    @property
    def difference(self) -> str:
        """Description of unfair treatment."""
        return "different decisions" if self.tolerance is None else f"changes by more than {self.tolerance:g}"

    def _describe_counterparts(self) -> str:
        moved_along = f", except for {', '.join(self.moved)}, which changes too" if self.moved else ""
        return (
            "Everyone is compared only with plausible counterparts: people who obey the schema's rules, have another "
            f"{join_names(self.protected)}, and are otherwise the same{moved_along}."
        )

    def numbers(self) -> Iterator[ResultNumber]:
        """Yield the proved shares."""
        how = f"by proof ({self.method}), of the population: {self.population}"
        for name in ("certified", "falsified", "undecided"):
            yield ResultNumber(name, "_x_".join(self.protected), "", Proved(value=getattr(self, name), how=how))

    def to_frame(self) -> pd.DataFrame:
        """Build a table with one row per share."""
        import pandas as pd

        return pd.DataFrame(
            {
                "share": ["certified", "falsified", "undecided"],
                "value": [self.certified, self.falsified, self.undecided],
            }
        )


def proof_answers(certificate: Certificate) -> list[Metric]:
    """Build the summary of a certificate: proved shares, estimate, and advice."""
    steps = ["the section Proof shows who is affected"] if certificate.falsified > 0 else []
    if certificate.undecided > 0:
        steps.append(GOING_ON[certificate.stopped_by])
    share = estimated_share(certificate)
    different = show_quantity(share, "rate")
    among = "among people with a plausible counterpart" if certificate.no_counterpart > 0 else "in total"
    name = join_names(certificate.protected)
    fair = replace(_at_least(certificate.certified), basis=f"of {SIMULATED}")
    return [
        Metric(
            "certified fair",
            fair,
            (
                f"certified unfair {percent_at_least(certificate.falsified)}; undecided "
                f"{percent_at_most(certificate.undecided)}",
                *(
                    [f"without a plausible counterpart {format_percent(certificate.no_counterpart)}: neither"]
                    if certificate.no_counterpart > 0
                    else []
                ),
                f"{certificate.difference} {among}: {different.text}, estimated, {different.interval}",
                *filter(None, (explain_position(share),)),
                f"{format_count(certificate.boxes, 'box', 'boxes')} in {format_duration(certificate.seconds)}; "
                f"{STOPPED[certificate.stopped_by]}",
            ),
            about=name,
            next_step="; ".join(steps) or "nothing is left open",
        )
    ]


def _proved(share: float) -> ReportedNumber:
    return ReportedNumber(format_percent(share), share, "proved")


def _at_least(share: float) -> ReportedNumber:
    return ReportedNumber(percent_at_least(share), share, "proved")


def _at_most(share: float) -> ReportedNumber:
    return ReportedNumber(percent_at_most(share), share, "proved")


def outcome_blocks(certificate: Certificate) -> Iterator[Block]:
    """Yield the bounds for numbers of different outcomes, if requested."""
    if not certificate.outcomes:
        return
    noun = "bands" if certificate.bands else "labels"
    rows = tuple(
        TableRow(
            (
                f"{share.least} or more",
                _at_least(share.proved),
                _at_most(share.possible),
            )
        )
        for share in certificate.outcomes
    )
    columns = (
        Column(f"different {noun}"),
        Column("people, at least", numeric=True),
        Column("people, at most", numeric=True),
    )
    yield Table(
        f"Number of different {noun} that people can get as {join_names(certificate.protected)} varies: proved shares "
        f"of {SIMULATED}",
        columns,
        rows,
        usual="proved",
    )


def proof_blocks(certificates: Sequence[Certificate]) -> Iterator[Block]:
    """Yield the proofs about one model, with one certificate for each set of protected attributes."""
    yield Figure(
        "proved shares",
        "From left to right: certified fair, undecided, certified unfair. Long vertical mark: estimated share "
        "with equal decisions, with its interval.",
        tuple(certificates),
    )
    yield _share_table(certificates)
    yield _evidence_table(certificates)
    for certificate in certificates:
        yield from _place_blocks(certificate)
    for certificate in certificates:
        if certificate.counterexamples:
            yield _counterexamples(certificate)


def estimated_share(certificate: Certificate) -> Estimated:
    """Compute the estimated counterfactual flip rate among the people with a counterpart."""
    estimate, compared = certificate.estimate, 1 - certificate.no_counterpart
    value, low, high = (min(1.0, mass / compared) for mass in (estimate.unfair, estimate.low, estimate.high))
    return Estimated(
        value=value,
        low=low,
        high=high,
        confidence=estimate.confidence,
        n=estimate.n,
        population=certificate.population,
        method=COMBINED,
    )


def _share_table(certificates: Sequence[Certificate]) -> Table:
    has_unmatched = any(certificate.no_counterpart > 0 for certificate in certificates)
    columns = (
        Column("protected"),
        Column("certified fair, at least", numeric=True),
        Column("certified unfair, at least", numeric=True),
        Column("undecided, at most", numeric=True),
        *([Column("no counterpart", numeric=True)] if has_unmatched else []),
        Column("different, of those with a counterpart" if has_unmatched else "different in total", numeric=True),
        Column("method, and why it ended"),
    )
    rows = tuple(
        TableRow(
            (
                join_names(certificate.protected),
                _at_least(certificate.certified),
                _at_least(certificate.falsified),
                _at_most(certificate.undecided),
                *([_proved(certificate.no_counterpart)] if has_unmatched else []),
                show_quantity(estimated_share(certificate), "rate"),
                f"{METHODS.get(certificate.method, certificate.method)}; "
                f"{format_count(certificate.boxes, 'box', 'boxes')} in {format_duration(certificate.seconds)} "
                f"({format_duration(certificate.cpu_seconds)} of processor time); {STOPPED[certificate.stopped_by]}",
            )
        )
        for certificate in certificates
    )
    return Table("Proved shares, and the estimated total share of different decisions", columns, rows)


SOURCES = {
    "undecided": "drawn from the boxes that are not decided as a whole, {mass} of the simulated population",
    "breakdown": "drawn from all of the simulated population{apart}, for shares by attribute",
    "flip rate": "drawn from all of the simulated population{apart}, for the counterfactual flip rate",
}
"""Origin and purpose of draws."""


def _evidence_table(certificates: Sequence[Certificate]) -> Table:
    """Build the table of the evidence behind each estimate."""
    rows = []
    has_unmatched = any(certificate.no_counterpart > 0 for certificate in certificates)
    for certificate in certificates:
        name, compared = join_names(certificate.protected), 1 - certificate.no_counterpart
        least = _at_least(min(1.0, certificate.falsified / compared))
        most = _at_most(min(1.0, max(0.0, 1 - certificate.certified / compared)))
        rows.append(TableRow((name, "proved to be different, at least", "", "", least)))
        rows.append(TableRow((name, "not proved to be the same, at most", "", "", most)))
        for draws in certificate.evidence:
            share = draws.unfair / draws.n
            description = SOURCES[draws.source].format(
                mass=format_percent(draws.mass),
                apart=" with a plausible counterpart" if certificate.no_counterpart > 0 else "",
            )
            number = ReportedNumber(format_percent(share), share, "observed")
            rows.append(TableRow((name, description, draws.unfair, draws.n, number)))
        rows.append(TableRow((name, "together", "", "", show_quantity(estimated_share(certificate), "rate"))))
    columns = (
        Column("protected"),
        Column("evidence"),
        Column("different", numeric=True),
        Column("of", numeric=True),
        Column("share", numeric=True),
    )
    return Table(
        "Evidence behind the estimate of different decisions: each draw counts once, proved shares are not estimated"
        + (". All shares are of people with a plausible counterpart" if has_unmatched else ""),
        columns,
        tuple(rows),
    )


def _place_blocks(certificate: Certificate) -> Iterator[Block]:
    """Yield estimates by single attributes, and proofs by parts of the domain."""
    name, level = join_names(certificate.protected), format_level(certificate.estimate.confidence)
    if any(part.estimate.unfair or part.undecided for part in certificate.slices):
        yield Heading(f"Share with different decisions, by {name}", level=3)
        yield Figure(
            "shares by attribute",
            "The most informative attributes, by value. Bars: approximate share of these people that the proof left "
            f"undecided. Diamonds: estimated share with different decisions, from a sample of {SIMULATED}; "
            f"lines: each estimate\u2019s {level} interval.",
            certificate,
        )
    if not certificate.regions:
        return
    yield Heading(f"Where decisions differ or are undecided, by {name}", level=3)
    columns = (
        Column("where"),
        Column("total", numeric=True),
        Column("certified unfair", numeric=True),
        Column("undecided", numeric=True),
    )
    rows = tuple(
        TableRow(
            (
                "; ".join(f"{attribute} {value}" for attribute, value in region.where.items()) or "everywhere",
                *map(_proved, (region.mass, region.falsified, region.undecided)),
            )
        )
        for region in certificate.regions[:REGIONS]
    )
    caption = f"Parts of the domain by decreasing mass: proved shares of {SIMULATED}"
    yield Table(caption, columns, rows, usual="proved")
    hidden = len(certificate.regions) - REGIONS
    if hidden > 0:
        yield Note(f"{format_count(hidden, 'smaller part is', 'smaller parts are')} in the JSON.")


def _counterexamples(certificate: Certificate) -> Fold:
    examples = certificate.counterexamples
    pairs: list[Block] = [
        Pair(
            f"Drawn from {SIMULATED} and confirmed by the model",
            Side(example.first, example.first_label),
            Side(example.second, example.second_label),
            example.unprotected,
        )
        for example in examples[:EXAMPLES]
    ]
    if len(examples) > EXAMPLES:
        pairs.append(Note(f"The JSON contains the other {len(examples) - EXAMPLES:,}."))
    name, many = join_names(certificate.protected), format_count(len(examples), "example", "examples")
    return Fold(f"Different decisions found by the proof, by {name}: {many}", tuple(pairs))
