"""Documents of policies: guarantees, costs and interventions."""

from __future__ import annotations

from collections.abc import Iterator
from math import isnan

from evenhand.core.document import (
    Block,
    Column,
    Document,
    Facts,
    Figure,
    Heading,
    Metric,
    NextStep,
    Note,
    ReportedNumber,
    Table,
    TableRow,
    Text,
)
from evenhand.core.text import format_count, format_decimal, format_duration, format_percent
from evenhand.shields.policy.policy import ShieldPolicy
from evenhand.shields.simulation.inspection import COST_TOLERANCE, ShieldInspection
from evenhand.shields.spec.ends import describe_empty_group, guarantees

EXPECTED = "if people arrive as configured"

ANSWERS = {
    "static-fair": "every period fair",
    "static-bw": "every period in bounds",
    "dynamic": "first period fair",
}
"""Title of the verification of a periodic shield, by its kind."""

HEATMAP_WORDS = (
    "A cell is a time and a difference between the groups so far. Its colour shows how often the next decision is made "
    "against the recommendation. Blue: accepted against it. Orange: rejected. Stronger colours: more often. Grey: the "
    "recommendation is followed. No colour: hardly any run gets there. Nine in ten runs lie between the two lines; "
    "dashed: the largest difference that is fair. Differences beyond \u00b1{limit} are in the outermost cells, and "
    "while one group has not come its rate counts as 0."
)

ENDS = ("reached", "unfair", "unjudged")
"""Counts of ends."""

OFTEN_UNJUDGED = 0.5
"""Share of runs without an evaluated end above which the page shows a warning."""

LISTED_ENDS = 12
"""Maximum number of checks on a page. The JSON has all."""


def policy_document(policy: ShieldPolicy, *, path: str | None = None, file_bytes: int | None = None) -> Document:
    """Build the document of a synthesised shield: guarantees, cost and size.

    Args:
        policy: The policy.
        path: Path of the written file.
        file_bytes: Size of the file.
    """
    plan = policy.plan
    blocks: list[Block] = [Text(sentence, role="finding") for sentence in guarantees(plan)]
    blocks.append(Text(describe_empty_group(plan)))
    cost = None if isnan(policy.expected_cost) else policy.expected_cost
    blocks.append(_cost_answer("expected cost", cost, plan.horizon))
    states = ReportedNumber(f"{policy.states:,}", policy.states, basis=f"in {format_duration(policy.seconds)}")
    blocks += [Metric("states", states), _size_answer(policy.bytes, file_bytes, "of actions")]
    if path is not None:
        blocks.append(NextStep("inspect it", f"evenhand shield inspect {path}"))
    return Document(
        f"Shield for {' and '.join(plan.inputs.groups)}, kind {plan.kind}",
        blocks=tuple(blocks),
        brand="Evenhand shield",
    )


def build_document(result: ShieldInspection, name: str = "") -> Document:
    """Build the document of an inspection.

    Args:
        result: The inspection.
        name: Name of the file.
    """
    blocks: list[Block] = [Text(sentence, role="finding") for sentence in result.promises]
    blocks += [Text(result.convention), *_answers(result), *_cautions(result)]
    if result.reached is not None:
        blocks += _intervention_blocks(result)
    if result.ends:
        blocks += _end_blocks(result)
    blocks += [Heading("About the file", anchor="file"), _file_facts(result)]
    blocks += [Heading("Plan", anchor="plan", detail=True), _plan_facts(result)]
    return Document(
        f"Shield {name}".rstrip(),
        describe_plan(result),
        tuple(blocks),
        "Evenhand shield",
        f"Made by evenhand {result.evenhand}.",
    )


def describe_plan(result: ShieldInspection) -> str:
    """Describe the plan in one line."""
    names = " and ".join(f"{group.name} ({format_percent(group.rate)} of arrivals)" for group in result.groups)
    name = result.property.replace("_", " ").capitalize()
    return f"{name}, kappa {result.kappa}, {names}, kind {result.shield}."


def format_expected(number: float | None) -> str:
    """Format an expected number of people with two decimals, or more if it is small."""
    if number is None:
        return ""
    return format_decimal(number) if number >= 0.0001 or number == 0 else "< 0.0001"


def format_bytes(count: int) -> str:
    """Format a number of bytes as ``812 B``, ``98.5 kB``, ``1.2 MB``."""
    amount, unit = float(count), "B"
    for larger in ("kB", "MB", "GB"):
        if amount < 999.5:
            break
        amount, unit = amount / 1000, larger
    return f"{amount:.0f} {unit}" if unit == "B" or amount >= 99.5 else f"{amount:.1f} {unit}"


def _answers(result: ShieldInspection) -> Iterator[Metric]:
    """Yield the main figures of a policy, most important first."""
    yield _guarantee_answer(result)
    if result.reached is not None and result.not_walked:
        yield Metric("later periods", ReportedNumber("-", kind="unknown", basis=result.not_walked))
    if result.expected_cost is not None:
        yield _cost_answer("expected cost", result.expected_cost, result.horizon, walked=result.reached is not None)
    if result.overrides is not None:
        share = format_percent(result.overrides / result.horizon)
        basis = f"in {result.horizon:,} decisions ({share}), {EXPECTED}"
        yield Metric(
            "interventions", ReportedNumber(format_expected(result.overrides), result.overrides, "proved", basis=basis)
        )
    if result.overriding is not None:
        basis = f"of the {result.reached:,} states that some run reaches: some recommendation is overridden there"
        number = ReportedNumber(format_percent(result.overriding), result.overriding, "proved", basis=basis)
        yield Metric("intervenes in", number)
    yield _size_answer(result.bytes, result.file_bytes, f"for {result.states:,} states, stored as {result.form}")


def _cost_answer(name: str, cost: float | None, horizon: int, *, walked: bool = True) -> Metric:
    if cost is None:
        return Metric(name, ReportedNumber("-", kind="unknown", basis="not computed for shields of this kind"))
    basis = f"of all interventions in {horizon:,} decisions, {EXPECTED}"
    if not walked:
        return Metric(
            name, ReportedNumber(format_decimal(cost), cost, basis=f"as stated in the file, not verified: {basis}")
        )
    return Metric(name, ReportedNumber(format_decimal(cost), cost, "proved", basis=basis))


def _cautions(result: ShieldInspection) -> Iterator[Block]:
    """Yield the warnings."""
    stated, cost = result.stated_cost, result.expected_cost
    recomputed = result.reached is not None
    if recomputed and stated is not None and cost is not None and abs(stated - cost) > COST_TOLERANCE * max(1.0, cost):
        yield Note(
            f"The file states an expected cost of {format_decimal(stated)}, but its table costs "
            f"{format_decimal(cost)}. Synthesize the shield again.",
            tone="caution",
        )
    unjudged = [end.unjudged_chance for end in result.ends if end.time == result.horizon]
    if unjudged and unjudged[0] >= OFTEN_UNJUDGED:
        yield Note(
            f"Nothing is required in {format_percent(unjudged[0])} of the ends that are expected: {result.convention} "
            "A longer horizon or a smaller count leaves fewer of them.",
            tone="caution",
        )


def _size_answer(size: int, file_bytes: int | None, of: str) -> Metric:
    in_file = f", {format_bytes(file_bytes)} in the file" if file_bytes is not None else ""
    return Metric("table", ReportedNumber(format_bytes(size), size, basis=f"{of}{in_file}"))


def _guarantee_answer(result: ShieldInspection) -> Metric:
    name = ANSWERS.get(result.shield, "every run fair")
    if result.verified is None:
        step = "try it out: evenhand shield simulate"
        return Metric(name, ReportedNumber("-", kind="unknown", basis=result.not_walked), next_step=step)
    reached, unfair, unjudged = (sum(getattr(end, field) for end in result.ends) for field in ENDS)
    if unfair:
        chance = max(end.chance for end in result.ends)
        basis = (
            f"on all ends that some run gets to: {unfair:,} of {reached:,} are not fair, and a run ends there in "
            f"{format_percent(chance)}"
        )
        return Metric(name, ReportedNumber("no", None, "proved", basis=basis))
    if unjudged == reached:
        return Metric(name, ReportedNumber("-", kind="unknown", basis="no end is evaluated, so nothing is guaranteed"))
    basis = f"on all {reached:,} ends that some run gets to"
    if result.shield in ANSWERS:
        basis = f"{result.walked}: {basis}"
    if unjudged:
        share = format_percent(max(end.unjudged_chance for end in result.ends))
        basis += f"; at {unjudged:,} of them too few of a group were counted to require anything ({share} of runs)"
    return Metric(name, ReportedNumber("yes", None, "proved", basis=basis))


def _intervention_blocks(result: ShieldInspection) -> Iterator[Block]:
    yield Heading("When it intervenes", anchor="when")
    if result.cells:
        yield Figure("interventions over time", HEATMAP_WORDS.format(limit=f"{result.limit:.2g}"), result)
    yield Table(
        f"Interventions expected in {result.horizon:,} decisions, by group of the person, accepted or rejected against "
        f"the recommendation; proved {EXPECTED}",
        (
            Column("group"),
            Column("of arrivals", numeric=True),
            Column("recommended", numeric=True),
            Column("accepted", numeric=True),
            Column("rejected", numeric=True),
            Column("in states", numeric=True),
        ),
        tuple(
            TableRow(
                (
                    group.name,
                    format_percent(group.rate),
                    format_percent(group.accept),
                    format_expected(group.accepted),
                    format_expected(group.rejected),
                    "" if group.states is None else format_percent(group.states),
                )
            )
            for group in result.groups
        ),
        usual="proved",
    )
    if not result.stretches:
        return
    yield Heading("Actions by counters", anchor="where", detail=True)
    yield Figure(
        "actions by counters",
        "Action on the next person by the accepted people of both groups, at four times and with typical numbers of "
        "people of each group. Grey: the recommendation is followed. Blue: the next person of "
        "the group is accepted. Orange: rejected. No colour: no run reaches the state.",
        result,
    )


def _end_blocks(result: ShieldInspection) -> Iterator[Block]:
    yield Heading("When the bias is checked", anchor="checks", detail=True)
    yield Table(
        "All reachable states at the checks, for all people and recommendations; proved",
        (
            Column("decisions", numeric=True),
            Column("states", numeric=True),
            Column("not fair", numeric=True),
            Column("not judged", numeric=True),
            Column("runs that end unfair", numeric=True),
        ),
        tuple(
            TableRow((end.time, end.reached, end.unfair, end.unjudged, format_percent(end.chance)))
            for end in result.ends[-LISTED_ENDS:]
        ),
        usual="proved",
    )
    if len(result.ends) > LISTED_ENDS:
        yield Note(f"The last {LISTED_ENDS} of {len(result.ends)} times; the JSON contains all of them.")


def _file_facts(result: ShieldInspection) -> Facts:
    sha256 = (("SHA-256", result.file_sha256),) if result.file_sha256 is not None else ()
    return Facts((*sha256, ("digest", f"{result.digest}, the name of this shield in states, logs and services")))


def _plan_facts(result: ShieldInspection) -> Facts:
    groups = (
        f"{group.name}: {format_percent(group.rate)} of arrivals, {format_percent(group.accept)} of them recommended"
        for group in result.groups
    )
    return Facts(
        (
            ("property", f"{result.property.replace('_', ' ')}: {result.keeps}"),
            ("kappa", result.kappa),
            ("horizon", format_count(result.horizon, "decision", "decisions")),
            ("kind", result.shield),
            ("empty groups", result.empty_group),
            ("groups", "; ".join(groups)),
        )
    )
