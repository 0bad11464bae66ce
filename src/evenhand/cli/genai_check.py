"""``evenhand genai check``: whether a configuration can be kept, and what that is worth."""

from __future__ import annotations

import json as _json
from pathlib import Path
from typing import Annotated, Any

import typer

from evenhand.cli.options import JsonOption, QuietOption, check_places, emit_json
from evenhand.errors import DataError

INFEASIBLE = 1
"""Exit code where no generator, however obedient, could keep a configuration."""


def check(
    config: Annotated[Path, typer.Option("--config", help="What is to be kept: a YAML or TOML file.")],
    state: Annotated[
        Path | None,
        typer.Option(
            "--state", help="What an enforcer counted so far: its state as JSON. Else as the simulation says."
        ),
    ] = None,
    json: JsonOption = None,
    quiet: QuietOption = False,
) -> None:
    """Check whether a configuration can be kept for ever: it can (exit code 0), or it cannot (1), and why."""
    from evenhand import report
    from evenhand.genai.check import checked
    from evenhand.genai.specification import Configuration

    check_places({"--json": None if json in (None, "-") else Path(str(json))})
    found = checked(Configuration.read(config), None if state is None else _counts(state))
    emit_json(_json.dumps(found.to_dict()), json)
    if not quiet and json != "-":
        report.show_check(found, config.name)
    if not found.feasibility.feasible:
        raise typer.Exit(INFEASIBLE)


def _counts(state: Path) -> dict[str, dict[str, int]]:
    """What an enforcer counted, by specification."""
    try:
        text = state.read_text("utf-8")
    except OSError as error:
        raise DataError(f"the file cannot be read: {error.strerror}", where=str(state)) from None
    except UnicodeDecodeError:
        raise DataError("the file is not text in UTF-8", where=str(state)) from None
    try:
        rows: Any = _json.loads(text)
        # `genai generate` keeps it beside what else it needs to go on.
        rows = rows.get("enforcer", rows)
        return {str(name): {what: int(n) for what, n in row["counts"].items()} for name, row in rows.items()}
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise DataError(
            f"this is no state of an enforcer: {type(error).__name__}: {error}",
            where=str(state),
            mend="give state.json of genai generate, or what Enforcer.state() gives, as JSON",
        ) from None
