"""``evenhand shield simulate``: how often runs are fair with a shield and without, and what that costs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evenhand.cli.options import (
    FavourableOption,
    HomeOption,
    IgnoreOption,
    JsonOption,
    QuietOption,
    SchemaOption,
    SeedOption,
    TargetOption,
    TrustOption,
    check_places,
    emit_result,
    read_data,
)
from evenhand.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Callable

    from evenhand.shield import Plan
    from evenhand.shield.streams import Source


def simulate(
    config: Annotated[Path, typer.Option("--config", help="What the shield is to keep: a YAML or TOML file.")],
    model: Annotated[
        str | None,
        typer.Argument(help="Model whose recommendations are shielded: file, http(s) URL or module:function."),
    ] = None,
    data: Annotated[
        str | None, typer.Argument(help="People who are drawn: CSV or Parquet file, or a data set's name.")
    ] = None,
    group: Annotated[
        str | None, typer.Option("--group", help="With MODEL and DATA: the attribute whose values are the groups.")
    ] = None,
    runs: Annotated[int, typer.Option("--runs", min=1, help="Runs, all independent.")] = 1000,
    periods: Annotated[
        int | None, typer.Option("--periods", min=1, help="Horizons in each run; 10 for shields that work in periods.")
    ] = None,
    order: Annotated[
        str,
        typer.Option("--order", help="random, or meant to break it: one-group-first, alternating, worst, greedy."),
    ] = "random",
    html: Annotated[Path | None, typer.Option("--html", help="Write a page to read.")] = None,
    target: TargetOption = None,
    favourable: FavourableOption = None,
    schema: SchemaOption = None,
    ignore: IgnoreOption = None,
    trust: TrustOption = False,
    seed: SeedOption = 0,
    data_home: HomeOption = None,
    json: JsonOption = None,
    quiet: QuietOption = False,
) -> None:
    """Simulate many runs of a shield, each beside the same run without it.

    Without MODEL and DATA individuals come as the configuration expects them; with them, people are drawn from the data
    and get the model's recommendations.
    """
    from evenhand import report
    from evenhand.shield import Plan
    from evenhand.shield.simulate import simulate as run
    from evenhand.shield.streams import order_named

    check_places({"--html": html})
    wanted = order_named(order)
    if (model is None) != (data is None):
        raise OptionError("a model needs people to decide about", mend="give MODEL and DATA, or neither")
    if (model is None) != (group is None):
        raise OptionError(
            "real people come in groups of an attribute" if group is None else "there are no people to be grouped",
            where="--group",
            mend="MODEL DATA --group NAME go together",
        )
    plan = Plan.read(config)
    with report.progress(quiet=quiet or json == "-") as progress:
        source = None
        if model is not None and data is not None and group is not None:
            options = (target, favourable, schema, ignore or [], trust, data_home)
            source = _people(plan, model, data, group, options, progress)
        result = run(plan, source, runs=runs, periods=periods, order=wanted, seed=seed, progress=progress)
    written = []
    if html is not None:
        report.write_page(report.render_simulation(result), html)
        written.append(html)
    emit_result(result, json)
    if not quiet and json != "-":
        report.show_simulation(result, written=written)
    if result.interrupted:
        raise typer.Exit(130)


def _people(
    plan: Plan,
    model: str,
    data: str,
    group: str,
    options: tuple[str | None, str | None, Path | None, list[str], bool, Path | None],
    progress: Callable[[str, float], None],
) -> Source:
    """People with what the model recommends for them, in the groups of the plan."""
    from evenhand import models
    from evenhand.audit.run import described
    from evenhand.schema import encode
    from evenhand.shield.streams import real_people

    target, favourable, schema, ignore, trust, data_home = options
    read = read_data(data, schema=schema, data_home=data_home)
    people_schema = described(
        read.frame, schema=read.schema, target=target, protected=[group], favourable=favourable, ignore=ignore
    )
    progress("reading the people", 0.0)
    people = encode(people_schema, read.frame, where=read.name)
    scorer = models.load(model, people.schema, like=read.frame, trust=trust)
    costs = plan.inputs.costs
    return real_people(
        people,
        scorer,
        group,
        groups=plan.inputs.groups,
        cost=costs[0] if len(costs) == 1 else None,
        name=f"{scorer.name} and {read.name}",
    )
