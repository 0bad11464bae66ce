"""``evenhand compare BEFORE AFTER``: what changed between two audits, with gates for continuous integration."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evenhand.cli.factory import ConfigOptions, grouped
from evenhand.cli.options import PageOptions
from evenhand.files import write_atomically

if TYPE_CHECKING:
    from evenhand.auditing import CompareConfig

SETTINGS: ConfigOptions[CompareConfig] = ConfigOptions("evenhand.auditing:CompareConfig", about="comparisons of audits")


@grouped
def compare(
    context: typer.Context,
    output: PageOptions,
    before: Annotated[str, typer.Argument(help="report.json of an audit, or its folder.")],
    after: Annotated[str, typer.Argument(help="report.json of another audit, or its folder.")],
    markdown: Annotated[
        Path | None, typer.Option("--markdown", help="Write the comparison as Markdown, for a pull request.")
    ] = None,
    fail_on: Annotated[
        list[str] | None,
        typer.Option("--fail-on", help="Exit with 1 if this holds of the changes, e.g. 'worse > 0'; may be repeated."),
    ] = None,
    allow_unassessable: Annotated[
        bool, typer.Option("--allow-unassessable", help="Let a --fail-on pass on changes that cannot be assessed.")
    ] = False,
) -> None:
    """Compare two audits: two models, two releases or two periods, paired where the people are the same."""
    from evenhand import auditing

    output.check_places(markdown=markdown)
    config = SETTINGS.read(context)
    audits = [auditing.read_audit(path) for path in (before, after)]
    own = {name for audit in audits for name in auditing.own_metrics(audit)}
    gates = [auditing.parse_gate(expression, own) for expression in fail_on or []]
    result = auditing.compare_audits(audits[0], audits[1], config)
    failed = [gate for gate in gates if gate.holds(result)]
    unclear = [
        (gate, what) for gate in gates if gate not in failed and not allow_unassessable
        for what in gate.not_assessable(result)
    ]  # fmt: skip
    written = output.write_page(result.document)
    if markdown is not None:
        write_atomically(markdown, result.to_markdown().rstrip("\n") + "\n")
        written = [*written, markdown]
    output.emit(result)
    output.show(result.document, written)
    for gate in failed:
        typer.echo(f"--fail-on: this holds: {gate.expression}", err=True)
    for gate, what in unclear:
        typer.echo(f"--fail-on: not assessable in {gate.expression}: {what}", err=True)
    if failed or unclear:
        raise typer.Exit(1)
