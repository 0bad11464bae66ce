"""``evenhand genai generate``: a guard around the configured generator, from the command line."""

from __future__ import annotations

import sys
from json import dumps
from pathlib import Path
from typing import Annotated

import typer

from evenhand.cli.options import JsonOption, QuietOption, check_places, emit_json
from evenhand.errors import OptionError


def generate(
    config: Annotated[
        Path,
        typer.Option("--config", help="What is to be kept, and the generator, classifier and judge: YAML or TOML."),
    ],
    out: Annotated[Path, typer.Option("--out", help="Folder for items, requests.csv and the state to go on with.")],
    prompts: Annotated[
        str | None, typer.Option("--prompts", metavar="FILE", help="A prompt per line; - is standard input.")
    ] = None,
    prompt: Annotated[str | None, typer.Option("--prompt", help="One prompt, instead of a file.")] = None,
    requests: Annotated[
        int | None, typer.Option("--requests", min=1, help="How many; the prompts are gone through again and again.")
    ] = None,
    trust: Annotated[bool, typer.Option("--trust", help="Run the functions that the configuration names.")] = False,
    json: JsonOption = None,
    quiet: QuietOption = False,
) -> None:
    """Answer prompts through a guard that keeps every deadline; what an interrupted run left is answered first."""
    from evenhand import report
    from evenhand.genai.generate import generate as run
    from evenhand.genai.specification import Configuration
    from evenhand.genai.workbench import build
    from evenhand.report.generated import show_generated

    check_places({"--json": None if json in (None, "-") else Path(str(json))})
    if out.exists() and not out.is_dir():
        raise OptionError(f"{out} is a file, not a folder", where="--out")
    asked = _prompts(prompts, prompt)
    many = len(asked) if requests is None else requests
    workbench = build(Configuration.read(config), trust=trust, folder=config.absolute().parent)
    with report.progress(quiet=quiet or json == "-") as progress:
        made = run(workbench, [asked[k % len(asked)] for k in range(many)], out, progress=progress)
    emit_json(dumps(made.to_dict()), json)
    if not quiet and json != "-":
        show_generated(made, config)
    if made.interrupted:
        raise typer.Exit(130)


def _prompts(source: str | None, one: str | None) -> list[str]:
    """The prompts that the options mean, without empty lines."""
    if (source is None) == (one is None):
        raise OptionError(
            "what is asked of the generator?" if one is None else "prompts are given twice",
            mend='--prompts FILE with a prompt per line, or --prompt "a business leader"',
        )
    try:
        text = one if one is not None else sys.stdin.read() if source == "-" else Path(source or "").read_text("utf-8")
    except OSError as error:
        raise OptionError(f"{source} cannot be read: {error.strerror}", where="--prompts") from None
    except UnicodeDecodeError:
        raise OptionError(f"{source} is no text in UTF-8", where="--prompts") from None
    found = [text.strip()] if one is not None else [line.strip() for line in text.splitlines()]
    found = [line for line in found if line]
    if not found:
        raise OptionError("there is no prompt in it", where="--prompt" if one is not None else "--prompts")
    return found
