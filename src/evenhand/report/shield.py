"""What people see of a shield: a screen in the terminal, and a page of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenhand import charts
from evenhand.report import words
from evenhand.report.html import NARROW, WIDE, Figure, environment
from evenhand.report.terminal import Screen, list_entries
from evenhand.shield.inspection_plot import draw_when, draw_where
from evenhand.shield.promises import convention, promises

if TYPE_CHECKING:
    from rich.console import Console

    from evenhand.shield import Policy, Replay
    from evenhand.shield.inspection import Inspection


def show_policy(
    policy: Policy,
    *,
    path: Path | None = None,
    file_bytes: int | None = None,
    worst_case: bool = False,
    console: Console | None = None,
) -> None:
    """Print a shield that was synthesised: what it guarantees, what that costs, how large it is.

    Args:
        path: the file that was written, of ``file_bytes``.
        worst_case: whether the cost is the largest that is expected when people come as anywhere in given ranges.
        console: where to print; by default standard output, without colours when that is no terminal.
    """
    from rich.console import Console

    screen = Screen(console or Console())
    plan = policy.plan
    screen.line(f"Shield for {' and '.join(plan.inputs.groups)}, kind {plan.kind}", style="bold")
    for sentence in (*promises(plan), convention(plan)):
        screen.line(sentence)
    screen.line()
    cost = "unknown" if isnan(policy.expected_cost) else words.decimal(policy.expected_cost)
    expected = (
        "however people come within the given ranges" if worst_case else "if people come as the configuration says"
    )
    rests = f"{'at most, ' if worst_case else ''}of all overrides in {plan.horizon:,} decisions, {expected}"
    screen.line(rests, lead=f"  {'expected cost':<15}{cost:>10}  ", lead_style="bold")
    screen.line(
        f"in {words.duration(policy.seconds)}", lead=f"  {'states':<15}{policy.states:>10,}  ", lead_style="bold"
    )
    in_file = f", {size(file_bytes)} in the file" if file_bytes is not None else ""
    screen.line(f"of actions{in_file}", lead=f"  {'table':<15}{size(policy.bytes):>10}  ", lead_style="bold")
    if path is not None:
        list_entries(screen, "written", [str(path)], whole=True)
        screen.line(f"evenhand shield inspect {path}", lead="look at it  ", whole=True)


def show_inspection(
    result: Inspection, name: str, *, written: Sequence[Path] = (), console: Console | None = None
) -> None:
    """Print what a policy file holds: what it guarantees, whether that was verified, and when it overrides.

    Args:
        name: what the file is called.
        written: files that were written.
        console: where to print; by default standard output, without colours when that is no terminal.
    """
    from rich.console import Console

    screen = Screen(console or Console())
    screen.line(f"Shield {name}", style="bold")
    screen.line(f"{described(result)}; made by evenhand {result.evenhand}")
    screen.line()
    screen.line("what it guarantees", style="bold")
    for sentence in (*result.promises, result.convention):
        screen.line(sentence, lead="  ")
    screen.line()
    found = answers(result)
    question = max(len(answer.question) for answer in found)
    number = max(len(answer.number) for answer in found)
    for answer in found:
        lead = f"  {answer.question:<{question}}  {answer.number:>{number}}  "
        kind = f"{answer.kind}: " if answer.kind else ""
        screen.line(f"{kind}{answer.rests_on}", lead=lead, lead_style="bold")
    if result.reached is not None:
        screen.line()
        screen.line("expected overrides, by group of the person", style="bold")
        _groups(screen, result)
    list_entries(screen, "written", [str(path) for path in written], whole=True)


def _groups(screen: Screen, result: Inspection) -> None:
    width = max([5, *(len(group.name) for group in result.groups)])
    screen.line(
        f"  {'group':<{width}}  {'who comes':>10}  {'recommended':>12}  {'accepted':>9}  {'rejected':>9}  in states"
    )
    for group in result.groups:
        cells = (
            f"{charts.percent(group.rate):>10}  {charts.percent(group.accept):>12}  {few(group.accepted):>9}  "
            f"{few(group.rejected):>9}  {charts.percent(group.states or 0.0):>9}"
        )
        screen.line(cells, lead=f"  {group.name:<{width}}  ")


def render_inspection(result: Inspection, name: str) -> str:
    """A policy file as text of one HTML page, without script or network. The same file gives the same text."""
    shown = result.reached is not None
    context = {
        "result": result,
        "name": name,
        "described": described(result),
        "answers": answers(result),
        "few": few,
        "size": size,
        "when": _figure("when", draw_when, result) if shown else None,
        "where": _figure("where", draw_where, result) if shown else None,
        "chart_styles": charts.stylesheet(),
    }
    return str(environment().get_template("shield.html").render(context))


def replayed(found: Replay) -> dict[str, Any]:
    """What came of a replay, for JSON."""
    differs = found.difference
    return {
        "kind": "shield-replay",
        "same": differs is None,
        "decisions": found.decisions,
        "labels": found.labels,
        "difference": None if differs is None else asdict(differs),
        "interventions": found.shield.interventions,
        "cost": found.shield.cost,
        "certificate": found.shield.certificate().to_dict(),
    }


def show_replay(found: Replay, log: Path, *, console: Console | None = None) -> None:
    """Print what came of a replay, and what the shield did until then."""
    from rich.console import Console

    screen = Screen(console or Console())
    screen.line(f"Replay of {log.name}", style="bold")
    if found.difference is not None:
        screen.line(f"NOT THE SAME. {found.difference}. The {found.decisions:,} decisions before agree.")
    else:
        screen.line(f"The same: {words.count(found.decisions, 'decision', 'decisions')}, "
                    f"{words.count(found.labels, 'label', 'labels')}.")  # fmt: skip
    shield = found.shield
    screen.line(f"{words.count(shield.interventions, 'override', 'overrides')}, of cost {words.decimal(shield.cost)}")
    for line in shield.certificate().summary().splitlines():
        screen.line(line)


@dataclass(frozen=True)
class Answer:
    """One line of the summary.

    Attributes:
        question, number: as they are shown.
        kind: how the number came about: ``proved`` or ``unknown``; nothing for sizes.
        rests_on: what it is about.
    """

    question: str
    number: str
    kind: str
    rests_on: str


def answers(result: Inspection) -> list[Answer]:
    """What there is to say of a policy, most important first."""
    expected = "if people come as the configuration says"
    found = [_verdict(result)]
    if result.expected_cost is not None:
        about = f"of all overrides in {result.horizon:,} decisions, {expected}"
        found.append(Answer("expected cost", words.decimal(result.expected_cost), "proved", about))
    if result.worst_cost is not None:
        about = "at most, however people come within the ranges that it was made for"
        found.append(Answer("in the worst case", words.decimal(result.worst_cost), "proved", about))
    if result.overrides is not None:
        share = charts.percent(result.overrides / result.horizon)
        about = f"of {result.horizon:,} decisions ({share}), {expected}"
        found.append(Answer("overrides", few(result.overrides), "proved", about))
    if result.overriding is not None:
        about = f"of the {result.reached:,} states that some run gets to: there some recommendation is not followed"
        found.append(Answer("intervenes in", charts.percent(result.overriding), "proved", about))
    in_file = f", {size(result.file_bytes)} in the file" if result.file_bytes is not None else ""
    about = f"of actions in {result.states:,} states, stored as {result.form}{in_file}"
    found.append(Answer("table", size(result.bytes), "", about))
    return found


def _verdict(result: Inspection) -> Answer:
    if result.verified is None:
        why = "it has no table of states" if result.form == "greedy" else "its states are not walked here"
        return Answer("every run fair", "unknown", "unknown", f"{why}; evenhand shield simulate tries it out")
    reached, unfair = (sum(number) for number in zip(*((end.reached, end.unfair) for end in result.ends), strict=True))
    if not unfair:
        return Answer("every run fair", "yes", "proved", f"all {reached:,} ends that some run gets to were looked at")
    chance = max(end.chance for end in result.ends)
    about = (
        f"{unfair:,} of {reached:,} ends that some run gets to are not; a run ends there in {charts.percent(chance)}"
    )
    return Answer("every run fair", "no", "proved", about)


def described(result: Inspection) -> str:
    """The plan in one line."""
    names = " and ".join(f"{group.name} ({charts.percent(group.rate)} of those who come)" for group in result.groups)
    return f"{result.property.replace('_', ' ')}, kappa {result.kappa}, {names}, kind {result.shield}"


def few(number: float | None) -> str:
    """An expected number of people: two digits after the point, more where it is small."""
    if number is None:
        return ""
    return words.decimal(number) if number >= 0.0001 or number == 0 else "< 0.0001"


def _figure(name: str, draw: Callable[..., charts.Spec], result: Inspection) -> Figure:
    return Figure(
        wide=charts.svg(draw(result, width=WIDE), name=f"{name}-wide"),
        narrow=charts.svg(draw(result, width=NARROW), name=f"{name}-narrow"),
    )


def size(count: int) -> str:
    """A number of bytes as ``812 B``, ``98.5 kB``, ``1.2 MB``."""
    amount, unit = float(count), "B"
    for larger in ("kB", "MB", "GB"):
        if amount < 999.5:
            break
        amount, unit = amount / 1000, larger
    return f"{amount:.0f} {unit}" if unit == "B" or amount >= 99.5 else f"{amount:.1f} {unit}"
