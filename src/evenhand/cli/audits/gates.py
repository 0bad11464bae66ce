"""Options for conditions: the conditions to fail on, and the files that report them to a pipeline."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from evenhand import auditing, view
from evenhand.cli.options import check_writable
from evenhand.core.files import write_atomically
from evenhand.core.interrupts import INTERRUPTED
from evenhand.errors import OptionError

if TYPE_CHECKING:
    from evenhand.auditing.gates.conditions import GatedResult

GITHUB = Path("github")
"""Value of ``--gate-report`` for GitHub Actions, which is not a file."""

STEP_SUMMARY = "GITHUB_STEP_SUMMARY"
"""Environment variable with the path of the job summary in GitHub Actions."""


@dataclass(frozen=True)
class GateOptions:
    """Conditions to fail on, and the formats of their report."""

    fail_on: list[str] | None = typer.Option(
        None, help="Exit with 1 if this condition holds, e.g. 'flip_rate > 0.01'; may be repeated."
    )
    allow_unassessable: bool = typer.Option(
        False, "--allow-unassessable", help="Pass conditions on numbers that are unknown or leave out small groups."
    )
    gate_report: list[Path] | None = typer.Option(
        None,
        metavar="FILE",
        help="Report of the conditions: FILE.sarif (SARIF 2.1.0), FILE.xml (JUnit) or github (job summary and "
        "annotations); may be repeated.",
    )

    def read(self, metrics: Collection[str] = ()) -> list[auditing.Gate]:
        """Parse the conditions.

        Args:
            metrics: Names of custom metrics.
        """
        files = [path for path in self.gate_report or () if path != GITHUB]
        for path in files:
            if path.suffix not in (".sarif", ".xml"):
                raise OptionError(
                    f"expected a file that ends in .sarif or .xml, or github, got {path}", location="--gate-report"
                )
            check_writable(path, "--gate-report")
        if files and not self.fail_on:
            raise OptionError(
                "expected conditions, got none", location="--gate-report", hint="add --fail-on, e.g. 'flip_rate > 0.01'"
            )
        return [auditing.parse_gate(expression, metrics) for expression in self.fail_on or []]

    def leave(self, result: GatedResult, gates: list[auditing.Gate], subject: str) -> None:
        """Check the conditions, report them, and exit with a code unless all of them pass.

        Args:
            result: Result that the conditions are checked against.
            gates: Conditions.
            subject: Path or URL of the model or the data.

        Raises:
            typer.Exit: A condition does not pass, or the run was interrupted.
        """
        outcomes = auditing.check_gates(gates, result)
        self._print(outcomes)
        self._write(outcomes, result, subject)
        if getattr(result, "interrupted", False):
            raise typer.Exit(INTERRUPTED)
        if not auditing.gates_pass(outcomes, allow_unassessable=self.allow_unassessable):
            raise typer.Exit(1)

    def _print(self, outcomes: list[auditing.GateOutcome]) -> None:
        unclear = False
        for outcome in outcomes:
            if outcome.status == "failed" or (outcome.status == "passed" and outcome.cautions):
                typer.echo(f"--fail-on: {outcome.message}", err=True)
            if outcome.status == "not assessable" and not self.allow_unassessable:
                for reason in (*outcome.reasons, *outcome.cautions):
                    typer.echo(f"--fail-on: not assessable in {outcome.expression}: {reason}", err=True)
                unclear = True
        if unclear:
            hint = "audit more people of these groups, or ask more questions; or pass it by --allow-unassessable"
            typer.echo(hint, err=True)

    def _write(self, outcomes: list[auditing.GateOutcome], result: GatedResult, subject: str) -> None:

        allowed = self.allow_unassessable
        for path in self.gate_report or ():
            if path.suffix == ".sarif":
                text = auditing.format_sarif(outcomes, subject=subject, allow_unassessable=allowed)
                write_atomically(path, text)
            elif path.suffix == ".xml":
                text = auditing.format_junit(
                    outcomes, subject=subject, seconds=result.seconds, allow_unassessable=allowed
                )
                write_atomically(path, text)
            else:
                for line in auditing.format_annotations(outcomes, subject=subject, allow_unassessable=allowed):
                    typer.echo(line, err=True)
                _write_step_summary(outcomes, result)


def _write_step_summary(outcomes: list[auditing.GateOutcome], result: GatedResult) -> None:
    """Append the conditions and the findings to the job summary of GitHub Actions, if there is one."""
    path = os.environ.get(STEP_SUMMARY)
    if path:
        document = result.document()
        findings = view.render_markdown(dataclasses.replace(document, blocks=document.sections()[0]))
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(auditing.format_step_summary(outcomes, findings))
