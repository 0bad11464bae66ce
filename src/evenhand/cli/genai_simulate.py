"""``evenhand genai simulate``: which deadlines are missed under which policy, and what keeping them costs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from evenhand.cli.options import JsonOption, QuietOption, SeedOption, check_places, emit_result


def simulate(
    config: Annotated[Path, typer.Option("--config", help="What is to be kept, and who is simulated: YAML or TOML.")],
    requests: Annotated[int, typer.Option("--requests", min=1, help="How many requests.")] = 10_000,
    in_flight: Annotated[
        int | None, typer.Option("--in-flight", min=1, help="How many are under way at once; else as configured, or 1.")
    ] = None,
    policy: Annotated[
        list[str] | None,
        typer.Option("--policy", help="free, published, before or after; may be repeated. All of them unless set."),
    ] = None,
    html: Annotated[Path | None, typer.Option("--html", help="Write a page to read.")] = None,
    seed: SeedOption = 0,
    json: JsonOption = None,
    quiet: QuietOption = False,
) -> None:
    """Simulate a stream of requests under a policy, or the same stream under several."""
    from evenhand import report
    from evenhand.genai.simulate import compare, policies_named
    from evenhand.genai.specification import Configuration

    check_places({"--html": html, "--json": None if json in (None, "-") else Path(str(json))})
    wanted = policies_named(policy or ())
    read = Configuration.read(config)
    with report.progress(quiet=quiet or json == "-") as progress:
        several = compare(read, requests=requests, in_flight=in_flight, policies=wanted, seed=seed, progress=progress)
    result = several.simulations[0] if len(wanted) == 1 else several
    if html is not None:
        report.write_page(report.render_generation(result, config.name), html)
    emit_result(result, json)
    if not quiet and json != "-":
        report.show_generation(result, written=[] if html is None else [html])
    if result.interrupted:
        raise typer.Exit(130)
