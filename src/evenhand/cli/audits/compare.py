"""``evenhand compare BEFORE AFTER``: compare two audits, and check conditions on the changes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from evenhand import auditing
from evenhand.cli.audits.gates import GateOptions
from evenhand.cli.factory import ConfigOptions, Settings
from evenhand.cli.options import PageOptions, check_file
from evenhand.core.files import write_atomically

SETTINGS: ConfigOptions[auditing.CompareConfig] = ConfigOptions("evenhand.auditing:CompareConfig", ("confidence",))


def compare(
    settings: Settings,
    output: PageOptions,
    gating: GateOptions,
    before: Annotated[str, typer.Argument(help="report.json of an audit, or its folder.")],
    after: Annotated[str, typer.Argument(help="report.json of another audit, or its folder.")],
    markdown: Path | None = typer.Option(
        None, callback=check_file, help="Write the comparison as Markdown, for a pull request."
    ),
) -> None:
    """Compare two audits, of two models, releases or periods.

    Audits of the same people are paired.
    """
    from evenhand.auditing.comparison import own_metrics

    config = SETTINGS.read(settings)
    audits = [auditing.read_audit(path) for path in (before, after)]
    own = {name for audit in audits for name in own_metrics(audit)}
    gates = gating.read(own)
    result = auditing.compare_audits(audits[0], audits[1], config)
    auditing.check_gates(gates, result)  # refuses conditions on other numbers before anything is written
    if markdown is not None:
        write_atomically(markdown, result.to_markdown().rstrip("\n") + "\n")
    output.finish(result, written=[markdown] if markdown else [])
    gating.leave(result, gates, after)
