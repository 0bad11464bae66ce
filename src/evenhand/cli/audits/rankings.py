"""``evenhand audit-rankings DATA --rank COLUMN``: audit recorded rankings, without a model."""

from __future__ import annotations

import typer

from evenhand import groups
from evenhand.cli.audits.gates import GateOptions
from evenhand.cli.audits.report import ReportOptions
from evenhand.cli.factory import ConfigOptions, Settings
from evenhand.cli.options import DataArgument, ProtectedOption, SeedOption, SourceOptions

SETTINGS: ConfigOptions[groups.RankingConfig] = ConfigOptions(
    "evenhand.groups:RankingConfig", ("at", "position_weights", "min_group_size")
)


def audit_rankings(
    settings: Settings,
    data: DataArgument,
    table: SourceOptions,
    output: ReportOptions,
    gating: GateOptions,
    rank: str | None = typer.Option(None, help="Column of the recorded ranks, where 1 is first."),
    rank_by: str | None = typer.Option(None, help="Column of scores; the highest score has rank 1."),
    query: str | None = typer.Option(
        None, help="Column that identifies the list of each row, e.g. a search; by default, all rows are one list."
    ),
    relevance: str | None = typer.Option(
        None, help="Column of the relevance of each candidate, e.g. clicks or grades."
    ),
    protected: ProtectedOption = None,
    seed: SeedOption = 0,
) -> None:
    """Audit recorded rankings, without a model."""
    gates = gating.read()
    config = SETTINGS.read(settings, seed=seed)
    with output.progress() as progress:
        progress("reading the rankings", 0.0)
        source = table.read(data)
        roles = groups.RankingRoles(rank, rank_by, query, relevance, protected, source.schema)
        rankings = roles.read(source.frame, location=source.name)
        for gate in gates:
            gate.check_numbers(rankings.people.schema.names, ["ranking gap"])
        result = groups.measure_rankings(rankings, config, data_name=source.name, progress=progress)
    output.publish(result)
    gating.leave(result, gates, data)
