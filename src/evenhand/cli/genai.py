"""``evenhand genai ...``: generators that keep showing every value, in what they are asked for."""

from __future__ import annotations

import typer

from evenhand.cli import genai_assess, genai_check, genai_confusion, genai_generate, genai_simulate

app = typer.Typer(
    name="genai",
    help="Generative models: whether every value of an attribute keeps appearing in what they are asked for.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.callback()
def _generators() -> None: ...


app.command("assess")(genai_assess.assess)
app.command("check")(genai_check.check)
app.command("confusion")(genai_confusion.confusion)
app.command("generate")(genai_generate.generate)
app.command("simulate")(genai_simulate.simulate)
