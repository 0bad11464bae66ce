"""``evenhand genai ...``: guard generators, and check and simulate their configurations."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from evenhand import genai
from evenhand.cli.factory import ConfigOptions, Settings
from evenhand.cli.genai.assess import PromptOptions, parse_deadlines, split_pair, split_words
from evenhand.cli.options import ConfigOption, OutputOptions, PageOptions, SeedOption, TrustFunctionsOption
from evenhand.core.interrupts import INTERRUPTED
from evenhand.errors import DataError, OptionError

VERDICT_CODES = {"feasible": 0, "infeasible": 1, "undecided": 3}
"""Exit code of each verdict of a check."""


def check(
    config: ConfigOption,
    state: Path | None = typer.Option(None, help="State of an enforcer, as JSON; by default that of the simulation."),
    *,
    output: OutputOptions,
) -> None:
    """Check whether the deadlines of a configuration are feasible.

    Exit codes: 0 feasible, 1 infeasible, 3 undecided.
    """
    from evenhand.genai.assessment.check import check_configuration

    result = check_configuration(genai.GenerationConfig.read(config), None if state is None else _read_counts(state))
    output.emit(json.dumps(result.model_dump(mode="json")))
    output.show(partial(result.document, config.name))
    if not result.feasible:
        raise typer.Exit(VERDICT_CODES[result.verdict])


def _read_counts(state: Path) -> dict[str, dict[str, int]]:
    """Read the counts of an enforcer, by specification."""
    try:
        text = state.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not a text file"
        raise DataError(f"the file cannot be read: {reason}", location=str(state)) from None
    try:
        rows: Any = json.loads(text)
        # The state of `genai generate` has further entries.
        rows = rows.get("enforcer", rows)
        return {str(name): {value: int(n) for value, n in row["counts"].items()} for name, row in rows.items()}
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise DataError(
            f"expected the state of an enforcer, got another file: {type(error).__name__}: {error}",
            location=str(state),
            hint="pass state.json of genai generate, or Enforcer.state() as JSON",
        ) from None


CONFUSION: ConfigOptions[genai.ConfusionConfig] = ConfigOptions(
    "evenhand.genai:ConfusionConfig",
    ("true", "said", "values", "conditions", "repeated", "tolerated", "confidence"),
    renamed={"conditions": "condition_column"},
    parsed={
        "values": lambda texts: tuple(word for text in texts for word in split_words(text)),
        "condition_column": lambda texts: dict(split_pair(text, "--condition-column") for text in texts),
        "repeated": lambda texts: parse_deadlines(",".join(texts)),
    },
)


def confusion(
    settings: Settings,
    sample: Annotated[Path, typer.Argument(help="Labelled items: a CSV, Parquet or Excel file with a row per item.")],
    output: OutputOptions,
) -> None:
    """Measure the accuracy of a classifier on labelled items."""
    result = genai.measure_confusion(sample, CONFUSION.read(settings))
    output.finish(result)


@dataclass(frozen=True)
class GenerateOptions:
    """Concurrency, repetition and conditions of a run."""

    in_flight: int = typer.Option(1, min=1, help="Number of concurrent requests.")
    again: bool = typer.Option(False, "--again", help="Answer prompts again even if they are already answered.")
    fail_on: list[str] | None = typer.Option(
        None,
        help="Exit with 1 if a request has this outcome (violation, unguarded or refused), or if a deadline "
        "was missed (missed); may be repeated.",
    )

    def check(self) -> None:
        """Refuse unknown conditions."""
        from evenhand.genai.enforcement.generate import GenerationRun

        GenerationRun.check_conditions(self.fail_on or ())


def generate(
    config: ConfigOption,
    out: Annotated[Path, typer.Option(help="Folder for items, requests.csv and the state.")],
    *,
    prompting: PromptOptions,
    run: GenerateOptions,
    output: OutputOptions,
    trust: TrustFunctionsOption = False,
) -> None:
    """Answer prompts through a guard that meets every deadline.

    An interrupted run is resumed first.
    """
    from evenhand.genai.enforcement.generate import generate_items

    if out.exists() and not out.is_dir():
        raise OptionError(f"{out} is a file, not a folder", location="--out")
    texts = prompting.read()
    if not texts:
        hint = 'pass --prompts FILE with a prompt per line, or --prompt "a business leader"'
        raise OptionError("expected --prompts or --prompt, got none", hint=hint)
    count = prompting.requests or len(texts)
    pipeline = genai.build_pipeline(genai.GenerationConfig.read(config), trust=trust, folder=config.absolute().parent)
    with output.progress() as progress:
        generated = generate_items(
            pipeline,
            [texts[k % len(texts)] for k in range(count)],
            out,
            in_flight=run.in_flight,
            again=run.again,
            progress=progress,
        )
    output.emit(json.dumps(generated.model_dump(mode="json")))
    output.show(partial(generated.document, str(config)), [generated.table])
    failing = generated.failing(run.fail_on or ())
    for condition in failing:
        typer.echo(f"--fail-on: this holds: {condition}", err=True)
    if generated.interrupted:
        raise typer.Exit(INTERRUPTED)
    if failing:
        raise typer.Exit(1)


def simulate(
    config: ConfigOption,
    requests: int = typer.Option(10_000, min=1, help="Number of requests."),
    in_flight: int | None = typer.Option(
        None, min=1, help="Number of concurrent requests; by default as configured, or 1."
    ),
    policy: list[str] | None = typer.Option(
        None, help="free, published, before or after; may be repeated. By default all."
    ),
    seed: SeedOption = 0,
    *,
    output: PageOptions,
) -> None:
    """Simulate requests under one or several policies."""
    read = genai.GenerationConfig.read(config)
    with output.progress() as progress:
        result = genai.simulate_requests(
            read, requests=requests, in_flight=in_flight, policies=policy or (), seed=seed, progress=progress
        )
    document = partial(result.document, config.name)
    output.finish(result, document, interrupted=result.interrupted)
