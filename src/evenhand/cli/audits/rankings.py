"""``evenhand audit DATA --rank COLUMN``: rankings that were recorded."""

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
    hint="leave it out, or leave --rank and --rank-by out",
    without=("confidence", "draws", "seed"),
)


@dataclass(frozen=True)
class RankingOptions:
    """What the columns of DATA say of rankings."""

    rank: Annotated[
        str | None,
        typer.Option(
            "--rank", help="Audit rankings: the column of recorded ranks, 1 is the first; no model is needed."
        ),
    ] = None
    rank_by: Annotated[
        str | None, typer.Option("--rank-by", help="Audit rankings by the score in this column, the highest first.")
    ] = None
    query: Annotated[
        str | None,
        typer.Option("--query", help="Column that names the list of each row, e.g. a search; else one list."),
    ] = None
    relevance: Annotated[
        str | None,
        typer.Option("--relevance", help="Column of how much attention a candidate deserves, e.g. clicks or grades."),
    ] = None

    @property
    def wanted(self) -> bool:
        """Whether rankings are audited.

        Raises:
            OptionError: something is said of rankings, but not what ranks.
        """
        if self.rank is None and self.rank_by is None:
            for option, given in (("--query", self.query), ("--relevance", self.relevance)):
                if given is not None:
                    hint = "name what ranks: --rank COLUMN of places, or --rank-by COLUMN of scores"
                    raise OptionError(f"{option} is about rankings", hint=hint)
            return False
        return True


def refuse_for_rankings(given: dict[str, object], people: DataOptions) -> None:
    """Refuse options that say nothing of rankings.

    Raises:
        OptionError: one is given.
    """
    given = given | {"--target": people.target, "--favourable": people.favourable, "--kind": people.kind}
    given |= {"--order": people.order, "--unit": people.unit, "--ignore": people.ignore}
    hints = {
        "--score": "to rank by a score: --rank-by COLUMN",
        "--target": "what candidates deserve: --relevance COLUMN",
    }
    for option, value in given.items():
        if value:
            raise OptionError(f"{option} is not about rankings", hint=hints.get(option, "leave it out"))


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
        raise OptionError("an audit of rankings needs DATA", hint="evenhand audit rankings.csv --rank COLUMN ...")
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
