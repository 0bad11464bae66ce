"""``evenhand audit DATA --rank COLUMN``: audit recorded rankings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from evenhand.cli.factory import ConfigOptions
from evenhand.cli.options import DataOptions, OutputOptions
from evenhand.errors import OptionError

if TYPE_CHECKING:
    from evenhand.auditing.gates.conditions import Gate
    from evenhand.groups.rankings.config import RankingConfig
    from evenhand.groups.rankings.result import RankingResult

RANKINGS: ConfigOptions[RankingConfig] = ConfigOptions(
    "evenhand.groups:RankingConfig",
    about="rankings",
    hint="leave it out, or leave out --rank and --rank-by",
    without=("confidence", "draws", "seed"),
)


@dataclass(frozen=True)
class RankingOptions:
    """Columns of DATA that define rankings."""

    rank: Annotated[
        str | None,
        typer.Option(
            "--rank", help="Audit rankings, without a model: column of the recorded ranks, from 1 for the first."
        ),
    ] = None
    rank_by: Annotated[
        str | None,
        typer.Option(
            "--rank-by", help="Audit rankings, without a model: column of scores; the highest score has rank 1."
        ),
    ] = None
    query: Annotated[
        str | None,
        typer.Option("--query", help="Column of the list of each row, e.g. a search; default: one list."),
    ] = None
    relevance: Annotated[
        str | None,
        typer.Option("--relevance", help="Column of the relevance of each candidate, e.g. clicks or grades."),
    ] = None

    @property
    def are_audited(self) -> bool:
        """Whether rankings are audited.

        Raises:
            OptionError: There are options for rankings, but no column of ranks or scores.
        """
        if self.rank is None and self.rank_by is None:
            for option, column in (("--query", self.query), ("--relevance", self.relevance)):
                if column is not None:
                    hint = "add a column of ranks, --rank COLUMN, or of scores, --rank-by COLUMN"
                    raise OptionError(f"{option} applies to rankings only", hint=hint)
            return False
        return True


def refuse_for_rankings(options: dict[str, object], people: DataOptions) -> None:
    """Refuse options that do not apply to rankings.

    Raises:
        OptionError: An option is set.
    """
    options = options | {"--target": people.target, "--favourable": people.favourable, "--kind": people.kind}
    options |= {"--order": people.order, "--unit": people.unit, "--ignore": people.ignore}
    hints = {
        "--score": "to rank by a score: --rank-by COLUMN",
        "--target": "for the relevance of candidates: --relevance COLUMN",
    }
    for option, value in options.items():
        if value:
            raise OptionError(f"{option} does not apply to rankings", hint=hints.get(option, "leave it out"))


def audit_rankings(
    context: typer.Context,
    data: str | None,
    rankings: RankingOptions,
    people: DataOptions,
    output: OutputOptions,
    gates: list[Gate],
) -> RankingResult:
    """Audit the rankings in DATA."""
    from evenhand import view
    from evenhand.groups.rankings.analysis import measure_rankings
    from evenhand.schema.rankings import RankingRoles

    if data is None:
        raise OptionError("an audit of rankings requires DATA", hint="evenhand audit rankings.csv --rank COLUMN ...")
    config = RANKINGS.read(context, seed=people.seed)
    with view.show_progress(quiet=output.silent) as progress:
        progress("reading the rankings", 0.0)
        source = people.read(data)
        roles = RankingRoles(
            rankings.rank,
            rankings.rank_by,
            rankings.query,
            rankings.relevance,
            people.protected,
            source.schema,
            people.accept_proposals,
        )
        read = roles.read(source.frame, location=source.name)
        for gate in gates:
            gate.check_attributes(read.people.schema.names)
        return measure_rankings(read, config, data_name=source.name, progress=progress)
