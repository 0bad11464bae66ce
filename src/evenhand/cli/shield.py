"""``evenhand shield ...``: synthesize, inspect, simulate and replay shields of classifiers."""

from __future__ import annotations

from functools import partial
from json import dumps
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evenhand import shields
from evenhand.cli.options import ConfigOption, DataOptions, OutputOptions, PageOptions, check_file
from evenhand.cli.workers import WorkersOption, open_workers
from evenhand.errors import LimitError, OptionError

if TYPE_CHECKING:
    from evenhand.core.typing import Progress
    from evenhand.shields.simulation.streams import ArrivalSource


def _read_arrivals(
    plan: shields.ShieldPlan, people: DataOptions, model: str, data: str, progress: Progress
) -> ArrivalSource:
    """Read the people of DATA, with their groups in the plan and the recommendations of the model."""
    if people.protected is None or len(people.protected) != 1:
        raise OptionError(
            f"expected the attribute whose values are the groups, got {', '.join(people.protected or ()) or 'none'}",
            location="--protected",
            hint="name one attribute: --protected NAME",
        )
    subject, costs = people.read_subject(model, data, progress), plan.inputs.costs
    return shields.source_from_people(
        subject.people,
        subject.scorer,
        people.protected[0],
        groups=plan.inputs.groups,
        cost=costs[0] if len(costs) == 1 else None,
        name=f"{subject.scorer.name} and {subject.data_name}",
    )


def simulate(
    config: ConfigOption,
    people: DataOptions,
    output: PageOptions,
    model: str | None = typer.Argument(
        None, help="Model whose recommendations are shielded: file, http(s) URL or module:function."
    ),
    data: str | None = typer.Argument(
        None, help="People to draw from: CSV, JSON lines, Parquet or Excel file, or a data set's name."
    ),
    runs: int = typer.Option(1000, min=1, help="Number of independent runs."),
    periods: int | None = typer.Option(
        None, min=1, help="Number of horizons in each run; by default 10 for periodic shields; always 1 for others."
    ),
    arrivals: str = typer.Option(
        "random", help="Order of arrivals: random, one-group-first, alternating, worst or greedy."
    ),
    shield_kind: list[str] | None = typer.Option(
        None,
        help="Kind of shield, instead of the configured one. May be repeated: all shields receive the same people.",
    ),
    workers: WorkersOption = None,
) -> None:
    """Simulate a shield, with and without interventions.

    Without MODEL and DATA, arrivals follow the configuration. With them, people are drawn from the data.
    """
    from evenhand.shields.simulation.comparison import plans_of_kinds
    from evenhand.shields.simulation.streams import parse_order

    order = parse_order(arrivals)
    if model is not None and data is None:
        raise OptionError("expected MODEL and DATA, got MODEL alone", hint="add DATA, or leave MODEL out")
    plan = shields.read_plan(config)
    plans = plans_of_kinds(plan, shield_kind) if shield_kind else [plan]
    if len(plans) > 1 and workers is not None:
        raise OptionError("--workers requires one shield", location="--workers", hint="pass --shield-kind once")
    with output.progress() as progress, open_workers(workers) as number:
        source = _read_arrivals(plan, people, model, data, progress) if model and data else None
        settings = shields.ShieldRunsConfig(runs=runs, periods=periods, order=order, seed=people.seed)
        result = (
            shields.compare_shields(plans, source, settings, progress=progress)
            if len(plans) > 1
            else shields.simulate_shield(plans[0], source, settings, workers=number, progress=progress)
        )
    output.finish(result, interrupted=result.interrupted)


PolicyArgument = Annotated[Path, typer.Argument(metavar="FILE", help="Policy file of shield synthesize.")]


def synthesize(
    config: ConfigOption,
    save: Path | None = typer.Option(None, callback=check_file, help="File for the policy."),
    *,
    output: OutputOptions,
) -> None:
    """Synthesize the cheapest shield that never fails."""
    from evenhand.shields.simulation.wording import policy_document

    plan = shields.read_plan(config)
    with output.progress() as progress:
        try:
            policy = shields.synthesize(plan, progress=lambda done, of: progress("synthesis", done / of))
        except MemoryError:
            raise LimitError(
                f"the table of a shield for {plan.horizon:,} decisions does not fit into memory",
                location="horizon",
                hint="use a shorter horizon, or periods (kind static-bw or dynamic)",
            ) from None
    size = None if save is None else shields.save_policy(policy, save)
    summary = {
        "kind": "shield",
        "expected_cost": None if isnan(policy.expected_cost) else policy.expected_cost,
        "states": policy.states,
        "bytes": policy.bytes,
        "seconds": policy.seconds,
    }
    output.emit(dumps(summary))
    path = None if save is None else str(save)
    document = partial(policy_document, policy, path=path, file_bytes=size)
    output.show(document, [] if save is None else [save])


def inspect(policy: PolicyArgument, output: PageOptions) -> None:
    """Verify the guarantee of a shield in every run.

    Exit code 1 if a run ends unfairly.
    """
    from evenhand.shields.policy.file import policy_from_bytes, read_policy_bytes

    data = read_policy_bytes(policy)
    read = policy_from_bytes(data, location=str(policy))
    with output.progress() as progress:
        inspection = shields.inspect_policy(
            read, file=data, progress=lambda done, of: progress("checking all runs", done / of)
        )
    document = partial(inspection.document, policy.name)
    pages = output.write_files(inspection, document)
    output.emit(inspection.to_json(indent=None))
    output.show(document, pages)
    if inspection.verified is False:
        raise typer.Exit(1)


def replay(
    policy: PolicyArgument,
    log: Annotated[Path, typer.Argument(help="Decisions in the order they were made: JSON lines or .csv.")],
    advisory: bool = typer.Option(False, "--advisory", help="Whether the shield was only advisory."),
    *,
    output: OutputOptions,
) -> None:
    """Replay a log of decisions.

    Exit code 1 if a decision differs.
    """
    from evenhand.shields.runtime.log import read_log_file

    loaded = shields.load_policy(policy)
    labelled = loaded.plan.property.labelled
    # Labels are often logged although the property does not need them.
    entries = (entry for entry in read_log_file(log) if labelled or "label" not in entry)
    replayed = shields.replay_log(shields.Shield(loaded, advisory=advisory), entries)
    output.emit(dumps(replayed.to_dict()))
    output.show(partial(replayed.document, log.name))
    if replayed.difference is not None:
        raise typer.Exit(1)
