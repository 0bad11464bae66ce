"""``evenhand shield ...``: make, inspect, simulate and replay shields that keep a classifier's decisions fair."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from json import dumps
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evenhand.cli.factory import grouped
from evenhand.cli.options import OutputOptions, PageOptions, ReadOptions
from evenhand.cli.workers import WorkersOption, open_workers
from evenhand.errors import LimitError, OptionError

if TYPE_CHECKING:
    from collections.abc import Callable

    from evenhand.core.typing import Progress
    from evenhand.shields.policy.policy import ShieldPolicy
    from evenhand.shields.simulation.streams import ArrivalSource
    from evenhand.shields.spec.plan import ShieldPlan


@dataclass(frozen=True)
class ArrivalOptions(ReadOptions):
    """Who arrives at a shield."""

    group: Annotated[
        str | None, typer.Option("--group", help="With MODEL and DATA: the attribute whose values are the groups.")
    ] = None

    def check(self, model: str | None, data: str | None) -> None:
        """Refuse a part of what belongs together.

        Raises:
            OptionError: a model without people, people without groups, or the other way round.
        """
        if (model is None) != (data is None):
            raise OptionError("a model needs people to decide about", hint="give MODEL and DATA, or neither")
        if (model is None) != (self.group is None):
            raise OptionError(
                "real people come in groups of an attribute"
                if self.group is None
                else "there are no people to be grouped",
                location="--group",
                hint="MODEL DATA --group NAME go together",
            )

    def read_arrivals(self, plan: ShieldPlan, model: str, data: str, progress: Progress) -> ArrivalSource:
        """Return people with what the model recommends for them, in the groups of the plan."""
        from evenhand.models.subject import Subject
        from evenhand.shields.simulation.streams import source_from_people

        read, group = self.read(data), str(self.group)
        progress("reading the people", 0.0)
        people = self.encode(read, [group])
        scorer = Subject(model, people, trust=self.trust, output=self.output).scorer
        costs = plan.inputs.costs
        return source_from_people(
            people,
            scorer,
            group,
            groups=plan.inputs.groups,
            cost=costs[0] if len(costs) == 1 else None,
            name=f"{scorer.name} and {read.name}",
        )


@grouped
def simulate(
    config: Annotated[Path, typer.Option("--config", help="What the shield is to keep: a YAML or TOML file.")],
    people: ArrivalOptions,
    output: PageOptions,
    model: Annotated[
        str | None,
        typer.Argument(help="Model whose recommendations are shielded: file, http(s) URL or module:function."),
    ] = None,
    data: Annotated[
        str | None,
        typer.Argument(help="People who are drawn: CSV, JSON lines, Parquet or Excel file, or a data set's name."),
    ] = None,
    runs: Annotated[int, typer.Option("--runs", min=1, help="Runs, all independent.")] = 1000,
    periods: Annotated[
        int | None, typer.Option("--periods", min=1, help="Horizons in each run; 10 for shields that work in periods.")
    ] = None,
    order: Annotated[
        str,
        typer.Option("--order", help="random, or meant to break it: one-group-first, alternating, worst, greedy."),
    ] = "random",
    kind: Annotated[
        list[str] | None,
        typer.Option("--kind", help="In place of the file's kind; several of them meet the same people."),
    ] = None,
    workers: WorkersOption = None,
) -> None:
    """Simulate many runs of a shield, each beside the same run without it.

    Without MODEL and DATA individuals come as the configuration expects them; with them, people are drawn from the data
    and get the model's recommendations.
    """
    from evenhand import view
    from evenhand.shields.simulation.comparison import compare_shields, plans_of_kinds
    from evenhand.shields.simulation.simulate import ShieldRunsConfig, simulate_shield
    from evenhand.shields.simulation.streams import parse_order
    from evenhand.shields.spec.configuration import read_plan

    output.check_places()
    wanted = parse_order(order)
    people.check(model, data)
    plan = read_plan(config)
    plans = plans_of_kinds(plan, kind) if kind else [plan]
    if len(plans) > 1 and workers is not None:
        raise OptionError("one shield is simulated by several workers at a time", location="--workers")
    with view.show_progress(quiet=output.silent) as progress, open_workers(workers) as number:
        source = people.read_arrivals(plan, model, data, progress) if model and data else None
        settings = ShieldRunsConfig(runs=runs, periods=periods, order=wanted, seed=people.seed)
        result = (
            compare_shields(plans, source, settings, progress=progress)
            if len(plans) > 1
            else simulate_shield(plans[0], source, settings, workers=number, progress=progress)
        )
    written = output.write_page(result.document)
    output.finish(result, result.document, written, interrupted=result.interrupted)


# ``evenhand shield ...``: make, look at and replay shields that keep a classifier's decisions fair.

app = typer.Typer(
    name="shield",
    help="Shields: override as few decisions as possible, so that groups fare alike in every run.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

ConfigOption = Annotated[Path, typer.Option("--config", help="What the shield is to keep: a YAML or TOML file.")]
PolicyArgument = Annotated[Path, typer.Argument(metavar="FILE", help="Policy file, made by shield synthesize.")]


@app.callback()
def _shield_group() -> None: ...


app.command("simulate")(simulate)


@app.command()
@grouped
def synthesize(
    config: ConfigOption,
    out: Annotated[Path | None, typer.Option("--out", help="Write the policy file here.")] = None,
    *,
    output: OutputOptions,
) -> None:
    """Make the shield that a configuration asks for: the cheapest one that never fails."""
    from evenhand import view
    from evenhand.shields.policy.file import save_policy
    from evenhand.shields.simulation.wording import policy_document
    from evenhand.shields.spec.configuration import read_plan

    output.check_places(out=out)
    plan = read_plan(config)
    with view.show_progress(quiet=output.silent) as progress:
        policy = _synthesize_policy(plan, lambda done, of: progress("synthesis", done / of))
    written = None if out is None else save_policy(policy, out)
    made = {
        "kind": "shield",
        "expected_cost": None if isnan(policy.expected_cost) else policy.expected_cost,
        "states": policy.states,
        "bytes": policy.bytes,
        "seconds": policy.seconds,
    }
    output.emit_text(dumps(made))
    path = None if out is None else str(out)
    document = partial(policy_document, policy, path=path, file_bytes=written)
    output.show(document, [] if out is None else [out])


@app.command()
@grouped
def inspect(
    policy: PolicyArgument,
    output: PageOptions,
) -> None:
    """Look at a shield: what it guarantees, whether its table keeps that in every run, and when it intervenes.

    A table with an end that is not fair is exit code 1.
    """
    from evenhand import view
    from evenhand.shields.policy.file import policy_from_bytes, read_policy_bytes
    from evenhand.shields.simulation.inspection import inspect_policy

    output.check_places()
    data = read_policy_bytes(policy)
    read = policy_from_bytes(data, location=str(policy))
    with view.show_progress(quiet=output.silent) as progress:
        found = inspect_policy(
            read,
            file=data,
            progress=lambda done, of: progress("walking through all runs", done / of),
        )
    document = partial(found.document, policy.name)
    written = output.write_page(document)
    output.emit_text(found.to_json(indent=None))
    output.show(document, written)
    if found.verified is False:
        raise typer.Exit(1)


@app.command()
@grouped
def replay(
    policy: PolicyArgument,
    log: Annotated[Path, typer.Argument(help="Decisions that were made, first to last: JSON lines, or .csv.")],
    advisory: Annotated[bool, typer.Option("--advisory", help="The shield did not decide, it advised.")] = False,
    *,
    output: OutputOptions,
) -> None:
    """Make the decisions of a log again: the same ones (exit code 0), or the first that differs (1)."""
    from evenhand.shields.policy.file import load_policy
    from evenhand.shields.runtime.log import read_log_file, replay_log
    from evenhand.shields.runtime.shield import Shield

    output.check_places()
    read = load_policy(policy)
    labelled = read.plan.property.labelled
    # Labels are often logged whether the property needs them or not.
    found = replay_log(
        Shield(read, advisory=advisory), (one for one in read_log_file(log) if labelled or "label" not in one)
    )
    output.emit_text(dumps(found.to_dict()))
    output.show(partial(found.document, log.name))
    if found.difference is not None:
        raise typer.Exit(1)


def _synthesize_policy(plan: ShieldPlan, progress: Callable[[int, int], None]) -> ShieldPolicy:
    from evenhand.shields.synthesis.plans import synthesize

    try:
        return synthesize(plan, progress=progress)
    except MemoryError:
        raise LimitError(
            f"the table of a shield for {plan.horizon:,} decisions does not fit into memory",
            location="horizon",
            hint="a shorter horizon, or periods: kind static-bw or dynamic",
        ) from None
