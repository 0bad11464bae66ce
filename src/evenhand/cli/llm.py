"""``evenhand llm ...``: audits of language models that decide about people."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from evenhand import llm
from evenhand.cli.audits.gates import GateOptions
from evenhand.cli.factory import ConfigOptions, Settings
from evenhand.cli.options import (
    DataArgument,
    FindingsOptions,
    OutputOptions,
    PeopleOptions,
    TableOptions,
    check_file,
    require_agreement,
)

FIELDS = ("half_width", "calls", "money", "at_once", "sweeps", "templates", "cluster", "time_limit", "seed")

SETTINGS: ConfigOptions[llm.LanguageModelConfig] = ConfigOptions(
    "evenhand.llm:LanguageModelConfig",
    (*FIELDS, "goal", "threshold", "findings", "scenario"),
    about="language models",
    renamed={"calls": "budget"},
)

COMPARED: ConfigOptions[llm.LanguageModelConfig] = ConfigOptions(
    "evenhand.llm:LanguageModelConfig", FIELDS, about="a comparison", renamed={"calls": "budget"}
)

FileArgument = Annotated[
    Path, typer.Argument(help="File of a language model (YAML): service, prompt, answers and people.")
]


@dataclass(frozen=True)
class AskOptions:
    """Storage of answers, and agreement to calls."""

    resume: Path | None = typer.Option(
        None, callback=check_file, metavar="FILE", help="File that stores every answer; a later run resumes from it."
    )
    yes: bool = typer.Option(False, "--yes", help="Agree to the forecast cost, without a --budget.")

    def agree(self, config: llm.LanguageModelConfig, *forecasts: llm.LanguageModelForecast) -> None:
        """Ask for agreement to the forecast, unless an option states it.

        Raises:
            typer.Abort: The person disagrees.
        """
        if self.yes or config.calls is not None or config.money is not None:
            return
        message = "; ".join(forecast.sentence for forecast in forecasts)
        hint = "agree with --yes, or set a ceiling: --budget CALLS or --money AMOUNT"
        require_agreement(message, hint)


def audit(
    settings: Settings,
    file: FileArgument,
    data: DataArgument,
    table: TableOptions,
    run: AskOptions,
    gating: GateOptions,
    output: FindingsOptions,
    rows: PeopleOptions,
) -> None:
    """Audit a language model for gaps beyond its own noise."""
    gates, config = gating.read(), SETTINGS.read(settings)
    source = table.read_table(data, words=True)
    with output.progress() as progress:
        progress("forecasting", 0.0)
        forecast = llm.forecast_language_model(file, source.frame, config)
    for gate in gates:
        gate.check_language(forecast.groups)
    run.agree(config, forecast)
    with output.progress() as progress:
        result = llm.audit_language_model(
            file, source.frame, config, answers=run.resume, data_name=source.name, progress=progress
        )
    result = rows.hide(result)
    output.finish(result)
    gating.leave(result, gates, str(file))


def cost(
    settings: Settings, file: FileArgument, data: DataArgument, table: TableOptions, output: OutputOptions
) -> None:
    """Forecast the calls, tokens and cost of an audit.

    No call is made.
    """
    config = SETTINGS.read(settings)
    source = table.read_table(data, words=True)
    output.finish(llm.forecast_language_model(file, source.frame, config, data_name=source.name))


def compare(
    settings: Settings,
    before: FileArgument,
    after: FileArgument,
    data: DataArgument,
    table: TableOptions,
    run: AskOptions,
    gating: GateOptions,
    output: FindingsOptions,
) -> None:
    """Compare two models or prompts on the same questions."""
    gates, config = gating.read(), COMPARED.read(settings, findings=0)
    for gate in gates:
        gate.check_language(None)
    source = table.read_table(data, words=True)
    run.agree(config, *(llm.forecast_language_model(file, source.frame, config) for file in (before, after)))
    with output.progress() as progress:
        result = llm.compare_language_models(
            before, after, source.frame, config, answers=run.resume, data_name=source.name, progress=progress
        )
    output.finish(result)
    gating.leave(result, gates, str(after))
