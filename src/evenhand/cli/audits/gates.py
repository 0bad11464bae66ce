"""Options for conditions: the conditions to fail on, and the files that report them to a pipeline."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evenhand.core.files import write_atomically
from evenhand.core.interrupts import INTERRUPTED
from evenhand.errors import OptionError

if TYPE_CHECKING:
    from evenhand.auditing.gates.conditions import Gate, GatedResult
    from evenhand.auditing.gates.formats import GateOutcome

STEP_SUMMARY = "GITHUB_STEP_SUMMARY"
"""Environment variable with the path of the job summary in GitHub Actions."""


@dataclass(frozen=True)
class GateOptions:
    """Conditions to fail on, and the formats of their report."""

    fail_on: Annotated[
        list[str] | None,
        typer.Option(
            "--fail-on", help="Exit with 1 if this condition holds, e.g. 'flip_rate > 0.01'; may be repeated."
        ),
    ] = None
    allow_unassessable: Annotated[
        bool,
        typer.Option(
            "--allow-unassessable", help="Pass conditions on numbers that are unknown or leave out small groups."
        ),
    ] = False
    sarif: Annotated[
        Path | None,
        typer.Option("--sarif", help="Write the conditions that do not pass as SARIF 2.1.0, for code scanning."),
    ] = None
    junit: Annotated[Path | None, typer.Option("--junit", help="Write JUnit XML with one test case per condition.")] = (
        None
    )
    github: Annotated[
        bool, typer.Option("--github", help="Write the job summary and annotations of GitHub Actions.")
    ] = False

    @property
    def places(self) -> dict[str, Path | None]:
        """Files to write, by option."""
        return {"sarif": self.sarif, "junit": self.junit}

    def read(self, metrics: Collection[str] = ()) -> list[Gate]:
        """Parse the conditions.

        Args:
            metrics: Names of custom metrics.

        Raises:
            OptionError: A condition is invalid, or a file is to be written without conditions.
        """
        from evenhand import auditing

        if not self.fail_on and (self.sarif or self.junit):
            raise OptionError(
                "expected conditions, got none",
                location="--sarif" if self.sarif else "--junit",
                hint="add --fail-on, e.g. 'flip_rate > 0.01'",
            )
        return [auditing.parse_gate(expression, metrics) for expression in self.fail_on or []]

    def leave(self, result: GatedResult, gates: list[Gate], subject: str) -> None:
        """Check the conditions, report them, and exit with a code unless all of them pass.

        Args:
            result: Result that the conditions are checked against.
            gates: Conditions.
            subject: Path or URL of the model or the data.

        Raises:
            typer.Exit: A condition does not pass, or the run was interrupted.
        """
        from evenhand import auditing

        outcomes = auditing.check_gates(gates, result)
        self._print(outcomes)
        self._write(outcomes, result, subject)
        if getattr(result, "interrupted", False):
            raise typer.Exit(INTERRUPTED)
        if not auditing.gates_pass(outcomes, allow_unassessable=self.allow_unassessable):
            raise typer.Exit(1)

    def _print(self, outcomes: list[GateOutcome]) -> None:
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

    def _write(self, outcomes: list[GateOutcome], result: GatedResult, subject: str) -> None:
        from evenhand import auditing

        allowed = self.allow_unassessable
        if self.sarif is not None:
            log = auditing.format_sarif(outcomes, subject=subject, allow_unassessable=allowed)
            write_atomically(self.sarif, log)
        if self.junit is not None:
            xml = auditing.format_junit(outcomes, subject=subject, seconds=result.seconds, allow_unassessable=allowed)
            write_atomically(self.junit, xml)
        if not self.github:
            return
        for line in auditing.format_annotations(outcomes, subject=subject, allow_unassessable=allowed):
            typer.echo(line, err=True)
        path = os.environ.get(STEP_SUMMARY)
        if path:
            from evenhand import view

            document = result.document()
            summary = view.render_markdown(dataclasses.replace(document, blocks=document.sections()[0]))
            with Path(path).open("a", encoding="utf-8") as file:
                file.write(auditing.format_step_summary(outcomes, summary))
