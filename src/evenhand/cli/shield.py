"""``evenhand shield ...``: make, look at and replay shields that keep a classifier's decisions fair."""

from __future__ import annotations

from json import dumps
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evenhand.cli import shield_simulate
from evenhand.cli.options import JsonOption, QuietOption, check_places, emit_json
from evenhand.errors import LimitError

if TYPE_CHECKING:
    from collections.abc import Callable

    from evenhand.shield import Plan, Policy
    from evenhand.shield.robust import Ranges

app = typer.Typer(
    name="shield",
    help="Shields: override as few decisions as possible, so that groups fare alike in every run.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

ConfigOption = Annotated[Path, typer.Option("--config", help="What the shield is to keep: a YAML or TOML file.")]
PolicyArgument = Annotated[Path, typer.Argument(metavar="FILE", help="Policy file, made by shield synthesize.")]


@app.callback()
def _shields() -> None: ...


app.command("simulate")(shield_simulate.simulate)


@app.command()
def synthesize(
    config: ConfigOption,
    out: Annotated[Path | None, typer.Option("--out", help="Write the policy file here.")] = None,
    json: JsonOption = None,
    quiet: QuietOption = False,
) -> None:
    """Make the shield that a configuration asks for: the cheapest one that never fails."""
    from evenhand import report
    from evenhand.shield import file
    from evenhand.shield.config import read_with_ranges

    check_places({"--out": out, "--json": None if json in (None, "-") else Path(str(json))})
    plan, ranges = read_with_ranges(config)
    with report.progress(quiet=quiet or json == "-") as progress:
        policy = _synthesized(plan, ranges, lambda done, of: progress("synthesis", done / of))
    written = None if out is None else file.save(policy, out)
    made = {
        "kind": "shield",
        "expected_cost": None if isnan(policy.expected_cost) else policy.expected_cost,
        "states": policy.states,
        "bytes": policy.bytes,
        "seconds": policy.seconds,
    }
    emit_json(dumps(made), json)
    if not quiet and json != "-":
        report.show_policy(policy, path=out, file_bytes=written, worst_case=ranges is not None)


@app.command()
def inspect(
    policy: PolicyArgument,
    html: Annotated[Path | None, typer.Option("--html", help="Write a page to read.")] = None,
    json: JsonOption = None,
    quiet: QuietOption = False,
) -> None:
    """Look at a shield: what it guarantees, whether its table keeps that in every run, and when it overrides."""
    from evenhand import report
    from evenhand.shield import file
    from evenhand.shield.inspection import inspect as looked_at

    check_places({"--html": html, "--json": None if json in (None, "-") else Path(str(json))})
    read = file.load(policy)
    with report.progress(quiet=quiet or json == "-") as progress:
        found = looked_at(
            read,
            file_bytes=policy.stat().st_size,
            progress=lambda done, of: progress("walking through all runs", done / of),
        )
    if html is not None:
        report.write_page(report.render_inspection(found, policy.name), html)
    emit_json(found.to_json(indent=None), json)
    if not quiet and json != "-":
        report.show_inspection(found, policy.name, written=[] if html is None else [html])


@app.command()
def replay(
    policy: PolicyArgument,
    log: Annotated[Path, typer.Argument(help="Decisions that were made, first to last: JSON lines, or .csv.")],
    advisory: Annotated[bool, typer.Option("--advisory", help="The shield did not decide, it advised.")] = False,
    json: JsonOption = None,
    quiet: QuietOption = False,
) -> None:
    """Make the decisions of a log again: the same ones (exit code 0), or the first that differs (1)."""
    from evenhand import report
    from evenhand.shield import Shield, file
    from evenhand.shield import replay as made_again
    from evenhand.shield.log_file import entries

    check_places({"--json": None if json in (None, "-") else Path(str(json))})
    read = file.load(policy)
    labelled = read.plan.property.labelled
    # Labels are often logged whether the property needs them or not.
    found = made_again(Shield(read, advisory=advisory), (one for one in entries(log) if labelled or "label" not in one))
    result = report.replayed(found)
    emit_json(dumps(result), json)
    if not quiet and json != "-":
        report.show_replay(found, log)
    if found.difference is not None:
        raise typer.Exit(1)


def _synthesized(plan: Plan, ranges: Ranges | None, progress: Callable[[int, int], None]) -> Policy:
    from evenhand.shield import synthesize as make

    try:
        if ranges is not None:
            from evenhand.shield.robust import synthesize_robust

            return synthesize_robust(plan, ranges)
        return make(plan, progress=progress)
    except MemoryError:
        raise LimitError(
            f"the table of a shield for {plan.horizon:,} decisions does not fit into memory",
            where="horizon",
            mend="a shorter horizon, or periods: kind static-bw or dynamic",
        ) from None
