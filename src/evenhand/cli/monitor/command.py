"""What ``evenhand monitor`` is asked."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from evenhand.cli.factory import grouped
from evenhand.cli.monitor.run import FollowOptions, MonitorRun
from evenhand.cli.options import PageOptions
from evenhand.errors import OptionError
from evenhand.interrupts import InterruptCounter


@grouped
def monitor(
    data: Annotated[
        str,
        typer.Argument(
            help="Decisions and labels: JSON lines, the log of a served shield, a .csv file; - is standard input."
        ),
    ],
    config: Annotated[Path, typer.Option("--config", help="What is watched: a YAML or TOML file.")],
    following: FollowOptions,
    output: PageOptions,
) -> None:
    """Watch decisions while they are made: gaps between groups, with intervals and alarms that hold at every moment.

    Exit code 1 if there was an alarm. While events are waited for, alarms and decisions to be audited are printed as
    JSON lines; otherwise where everything stands at the end.
    """
    from evenhand.monitoring import read_monitor_config

    following.check_prometheus()
    output.check_places(state=following.state, prometheus=following.prometheus)
    settings = read_monitor_config(config)
    if data != "-" and not Path(data).is_file():
        raise OptionError(f"there is no file {data!r}", hint="give a file of decisions, or - for standard input")
    with InterruptCounter() as signals:
        run = MonitorRun(data, settings, following, output)
        try:
            run.take_all(signals)
        finally:
            run.lines.close()
    run.finish(interrupted=bool(signals.count))
