"""Options that several audits share: the report, weights, group probabilities and custom metrics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from evenhand import auditing, view
from evenhand.cli.options import OutputOptions, choose_folder
from evenhand.errors import OptionError

if TYPE_CHECKING:
    from evenhand.groups.rankings.result import RankingResult


@dataclass(frozen=True)
class ReportOptions(OutputOptions):
    """Output of an audit, with the folder of its report."""

    out: Path | None = typer.Option(
        None, help="Folder for report.html and report.json (default evenhand-report; none with --json)."
    )

    def check(self) -> Path | None:
        """Return the folder of the report, if one is written. It is called before the command does any work."""
        return choose_folder(self.out, self.json, "evenhand-report")

    def publish(self, result: auditing.AuditResult | RankingResult) -> None:
        """Write the report and the JSON, and show the result."""
        folder = self.check()
        self.finish(result, written=() if folder is None else view.write_report(result, folder))


def read_membership(texts: Sequence[str] | None) -> dict[str, dict[str, str]]:
    """Parse texts such as ``race=white:p_white,black:p_black`` to the column of each group, by attribute."""
    memberships: dict[str, dict[str, str]] = {}
    for text in texts or ():
        name, _, listed = text.partition("=")
        parts = [part.partition(":") for part in listed.split(",")]
        groups = {group.strip(): column.strip() for group, _, column in parts}
        name = name.strip()
        if not name or not all(groups) or not all(groups.values()) or len(groups) < max(2, len(parts)):
            raise OptionError(
                f"expected a name and a column for each of at least two groups, got {text!r}",
                location="--membership",
                hint="for example race=white:p_white,black:p_black",
            )
        if name in memberships:
            raise OptionError(f"{name!r} is repeated", location="--membership", hint="pass each name once")
        memberships[name] = groups
    return memberships
