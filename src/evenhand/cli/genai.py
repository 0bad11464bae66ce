"""``evenhand genai ...``: generators that keep showing every value, in what they are asked for."""

from __future__ import annotations

from json import dumps
from pathlib import Path
from typing import Annotated

import typer

from evenhand.cli import genai_assess, genai_generate, genai_simulate
from evenhand.cli.options import JsonOption, QuietOption, check_places, emit_json

app = typer.Typer(
    name="genai",
    help="Generative models: whether every value of an attribute keeps appearing in what they are asked for.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

INFEASIBLE = 1
"""Exit code where no generator, however obedient, could keep a configuration."""


@app.callback()
def _generators() -> None: ...


app.command("assess")(genai_assess.assess)
app.command("generate")(genai_generate.generate)
app.command("simulate")(genai_simulate.simulate)


@app.command()
def check(
    config: Annotated[Path, typer.Option("--config", help="What is to be kept: a YAML or TOML file.")],
    json: JsonOption = None,
    quiet: QuietOption = False,
) -> None:
    """Check whether a configuration can be kept for ever: it can (exit code 0), or it cannot (1), and why."""
    from evenhand import report
    from evenhand.genai.feasibility import feasible
    from evenhand.genai.specification import Configuration

    check_places({"--json": None if json in (None, "-") else Path(str(json))})
    found = feasible(Configuration.read(config))
    emit_json(dumps(found.to_dict()), json)
    if not quiet and json != "-":
        report.show_feasibility(found, config.name)
    if not found.feasible:
        raise typer.Exit(INFEASIBLE)
