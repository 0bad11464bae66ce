"""``evenhand genai ...``: generators that keep showing every value of what they are asked for."""

from __future__ import annotations

import json as _json
import sys
from dataclasses import dataclass
from functools import partial
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evenhand.cli.factory import ConfigOptions, Settings
from evenhand.cli.genai.assess import parse_deadlines, split_pair, split_words
from evenhand.cli.options import OutputOptions, PageOptions, SeedOption
from evenhand.core.interrupts import INTERRUPTED
from evenhand.core.text import split_lines
from evenhand.errors import DataError, OptionError

if TYPE_CHECKING:
    from evenhand.genai.config import ConfusionConfig

VERDICT_CODES = {"feasible": 0, "infeasible": 1, "undecided": 3}
"""Exit codes of a check: kept for ever by an obedient generator, by none, or not known."""


def check(
    config: Annotated[Path, typer.Option(help="What is to be kept: a YAML or TOML file.")],
    state: Annotated[
        Path | None,
        typer.Option(help="What an enforcer counted so far: its state as JSON. Else as the simulation says."),
    ] = None,
    *,
    output: OutputOptions,
) -> None:
    """Check whether the deadlines of a configuration are feasible.

    Exit codes: 0 feasible, 1 infeasible, 3 undecided.
    """
    from evenhand.genai.assessment.check import check_configuration
    from evenhand.genai.spec.specification import GenerationConfig

    found = check_configuration(GenerationConfig.read(config), None if state is None else _read_counts(state))
    output.emit(_json.dumps(found.to_dict()))
    output.show(partial(found.document, config.name))
    if not found.feasibility.feasible:
        raise typer.Exit(VERDICT_CODES[found.feasibility.verdict])


def _read_counts(state: Path) -> dict[str, dict[str, int]]:
    """What an enforcer counted, by specification."""
    try:
        text = state.read_text("utf-8")
    except OSError as error:
        raise DataError(f"the file cannot be read: {error.strerror}", location=str(state)) from None
    except UnicodeDecodeError:
        raise DataError("the file is not text in UTF-8", location=str(state)) from None
    try:
        rows: Any = _json.loads(text)
        # `genai generate` keeps it beside what else it needs to go on.
        rows = rows.get("enforcer", rows)
        return {str(name): {what: int(n) for what, n in row["counts"].items()} for name, row in rows.items()}
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise DataError(
            f"this is not a state of an enforcer: {type(error).__name__}: {error}",
            location=str(state),
            hint="give state.json of genai generate, or what Enforcer.state() gives, as JSON",
        ) from None


# ``evenhand genai confusion``: how often a classifier's labels are right, and what deadlines are worth for it.


CONFUSION: ConfigOptions[ConfusionConfig] = ConfigOptions(
    "evenhand.genai:ConfusionConfig",
    ("true", "said", "values", "conditions", "repeated", "tolerated", "confidence"),
    renamed={"conditions": "condition_column"},
    parsed={
        "values": lambda given: tuple(word for one in given for word in split_words(one)),
        "condition_column": lambda given: dict(split_pair(one, "--condition-column") for one in given),
        "repeated": lambda given: parse_deadlines(",".join(given)),
    },
)


def confusion(
    settings: Settings,
    sample: Annotated[Path, typer.Argument(help="Labelled items: a CSV, Parquet or Excel file, a row per item.")],
    output: OutputOptions,
) -> None:
    """Measure the accuracy of a classifier on labelled items."""
    from evenhand.genai.classifiers.confusion import measure_confusion

    result = measure_confusion(sample, CONFUSION.read(settings))
    output.finish(result)


# ``evenhand genai generate``: a guard around the configured generator, from the command line.


@dataclass(frozen=True)
class GenerateOptions:
    """How prompts are answered, and what the exit code says."""

    in_flight: Annotated[int, typer.Option(min=1, help="How many are answered at once; 1 unless set.")] = 1
    again: Annotated[
        bool, typer.Option("--again", help="Answer the same prompts once more, though all of them were answered.")
    ] = False
    fail_on: Annotated[
        list[str] | None,
        typer.Option(
            help="Exit with 1 if any request is violation, unguarded or refused; or if a deadline is missed.",
        ),
    ] = None

    def check(self) -> None:
        """Raise an OptionError where a condition is unknown."""
        from evenhand.genai.enforcement.generate import GenerationRun

        GenerationRun.check_conditions(self.fail_on or ())


def generate(
    config: Annotated[
        Path,
        typer.Option(help="What is to be kept, and the generator, classifier and judge: YAML or TOML."),
    ],
    out: Annotated[Path, typer.Option(help="Folder for items, requests.csv and the state to go on with.")],
    *,
    prompts: Annotated[str | None, typer.Option(metavar="FILE", help="A prompt per line; - is standard input.")] = None,
    prompt: Annotated[str | None, typer.Option(help="One prompt, instead of a file.")] = None,
    requests: Annotated[
        int | None, typer.Option(min=1, help="How many; the prompts are gone through again and again.")
    ] = None,
    run: GenerateOptions,
    output: OutputOptions,
    trust: Annotated[bool, typer.Option("--trust", help="Run the functions that the configuration names.")] = False,
) -> None:
    """Answer prompts through a guard that keeps every deadline.

    An interrupted run is continued first.
    """
    from evenhand.genai.enforcement.generate import generate_items
    from evenhand.genai.pipeline import build_pipeline
    from evenhand.genai.spec.specification import GenerationConfig

    if out.exists() and not out.is_dir():
        raise OptionError(f"{out} is a file, not a folder", location="--out")
    asked = _read_prompts(prompts, prompt)
    many = len(asked) if requests is None else requests
    pipeline = build_pipeline(GenerationConfig.read(config), trust=trust, folder=config.absolute().parent)
    with output.progress() as progress:
        made = generate_items(
            pipeline,
            [asked[k % len(asked)] for k in range(many)],
            out,
            in_flight=run.in_flight,
            again=run.again,
            progress=progress,
        )
    output.emit(dumps(made.to_dict()))
    output.show(partial(made.document, str(config)), [made.table])
    failing = made.failing(run.fail_on or ())
    for condition in failing:
        typer.echo(f"--fail-on: this holds: {condition}", err=True)
    if made.interrupted:
        raise typer.Exit(INTERRUPTED)
    if failing:
        raise typer.Exit(1)


def _read_prompts(source: str | None, one: str | None) -> list[str]:
    """The prompts that the options mean, without empty lines."""
    if (source is None) == (one is None):
        raise OptionError(
            "what is asked of the generator?" if one is None else "prompts are given twice",
            hint='--prompts FILE with a prompt per line, or --prompt "a business leader"',
        )
    try:
        text = one if one is not None else sys.stdin.read() if source == "-" else Path(source or "").read_text("utf-8")
    except OSError as error:
        raise OptionError(f"{source} cannot be read: {error.strerror}", location="--prompts") from None
    except UnicodeDecodeError:
        raise OptionError(f"{source} is not text in UTF-8", location="--prompts") from None
    found = [text.strip()] if one is not None else [line.strip() for line in split_lines(text)]
    found = [line for line in found if line]
    if not found:
        raise OptionError("there is no prompt in it", location="--prompt" if one is not None else "--prompts")
    return found


# ``evenhand genai simulate``: which deadlines are missed under which policy, and what keeping them costs.


def simulate(
    config: Annotated[Path, typer.Option(help="What is to be kept, and who is simulated: YAML or TOML.")],
    requests: Annotated[int, typer.Option(min=1, help="How many requests.")] = 10_000,
    in_flight: Annotated[
        int | None, typer.Option(min=1, help="How many are under way at once; else as configured, or 1.")
    ] = None,
    policy: Annotated[
        list[str] | None,
        typer.Option(help="free, published, before or after; may be repeated. All of them unless set."),
    ] = None,
    seed: SeedOption = 0,
    *,
    output: PageOptions,
) -> None:
    """Simulate requests under one or several policies."""
    from evenhand.genai.simulation.simulate import simulate_requests
    from evenhand.genai.spec.specification import GenerationConfig

    read = GenerationConfig.read(config)
    with output.progress() as progress:
        result = simulate_requests(
            read, requests=requests, in_flight=in_flight, policies=policy or (), seed=seed, progress=progress
        )
    document = partial(result.document, config.name)
    output.finish(result, document, interrupted=result.interrupted)
