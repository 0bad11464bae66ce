"""``evenhand audit-decisions DATA --decision COLUMN``: audit recorded decisions, without a model."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

import typer

from evenhand import auditing, groups, schema
from evenhand.cli.audits.gates import GateOptions
from evenhand.cli.audits.report import ReportOptions, read_membership
from evenhand.cli.factory import ConfigOptions, Settings
from evenhand.cli.options import AcceptOption, DataArgument, DataSource, RoleOptions, SourceOptions, open_data
from evenhand.errors import EvenhandError

if TYPE_CHECKING:
    from evenhand.core.typing import Progress
    from evenhand.schema.decisions import RecordedLabels, RecordedNumbers
    from evenhand.stats.metric_specs import Family

    Recorded: TypeAlias = schema.RecordedDecisions | RecordedLabels | RecordedNumbers

SETTINGS: ConfigOptions[auditing.DecisionAuditConfig] = ConfigOptions(
    "evenhand.auditing:DecisionAuditConfig", ("reference", "min_group_size", "thresholds")
)


@dataclass(frozen=True)
class DecisionOptions(RoleOptions, SourceOptions):
    """Columns of DATA that hold decisions."""

    decision: str | None = typer.Option(None, help="Column of the decisions.")
    favourable_target: str | None = typer.Option(None, help="Favourable true label in the --target column.")
    score: str | None = typer.Option(
        None, help="Column of scores of the favourable decision; with --threshold, they determine the decisions."
    )
    threshold: float | None = typer.Option(
        None, help="Minimum score of a favourable decision, instead of recorded decisions."
    )
    low_is_good: bool = typer.Option(
        False, "--low-is-good", help="Low scores are favourable, as for risks: scores up to --threshold are selected."
    )
    accept_proposals: AcceptOption = False
    weight: str | None = typer.Option(None, help="Column of sample weights, for numbers of groups and subgroups.")
    membership: list[str] | None = typer.Option(
        None,
        metavar="NAME=GROUP:COLUMN,...",
        help="Columns of group probabilities, e.g. race=white:p_white,black:p_black; may be repeated.",
    )

    @property
    def roles(self) -> groups.DecisionRoles:
        """Roles of the columns, without a schema."""
        return groups.DecisionRoles(
            self.decision,
            self.protected,
            self.target,
            self.score,
            self.weight,
            self.favourable,
            favourable_target=self.favourable_target,
            threshold=self.threshold,
            accept_proposals=self.accept_proposals,
            outcome=self.outcome,
            membership=read_membership(self.membership) or None,
            low_is_good=self.low_is_good,
        )

    def read_decisions(self, data: str, progress: Progress, *, by_row: bool) -> tuple[Recorded, DataSource]:
        """Read the decisions in DATA. Large data are counted by their engine, unless single rows are required."""
        roles = self.roles
        by_row = by_row or any([self.score, self.weight, roles.membership])
        large = None if by_row else open_data(data, schema=self.schema)
        if large is not None:
            progress("counting the rows where they are", 0.0)
            try:
                return replace(roles, schema=large.schema).read(large.frame, location=large.name), large
            except EvenhandError:
                if large.name == data:
                    raise
                # A single file is read into memory instead, which also gives the clearer error.
        progress("reading the decisions", 0.0)
        source = self.read(data)
        return replace(roles, schema=source.schema).read(source.frame, location=source.name), source


def audit_decisions(
    settings: Settings,
    data: DataArgument,
    columns: DecisionOptions,
    output: ReportOptions,
    gating: GateOptions,
    metric: list[str] | None = typer.Option(
        None,
        metavar="NAME=MODULE:FUNCTION",
        help="Custom metric: function of y_true and y_pred (or y_score), e.g. cost=mymodule:cost. The module is "
        "imported. May be repeated.",
    ),
) -> None:
    """Audit recorded decisions, without a model."""
    from evenhand.auditing.gates.conditions import AUDITED_FAMILIES
    from evenhand.groups.custom import read_metrics

    metrics = read_metrics(metric or ())
    gates = gating.read(metrics)
    config = SETTINGS.read(settings)
    by_row = bool(metrics or config.thresholds)
    with output.progress() as progress:
        decisions, source = columns.read_decisions(data, progress, by_row=by_row)
        described, membership = decisions.people.schema, columns.roles.membership or {}
        proxies: tuple[Family, ...] = ("proxy",) if membership else ()
        for gate in gates:
            families = AUDITED_FAMILIES[described.target.kind] + proxies
            gate.check_numbers((*described.names, *membership), families, described.target.values)
        result = auditing.audit_decisions(decisions, config, metrics=metrics, data_name=source.name, progress=progress)
    result = result.hide_people()
    output.publish(result)
    gating.leave(result, gates, data)
