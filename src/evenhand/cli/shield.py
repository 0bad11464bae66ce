"""``evenhand shield ...``: make, look at and replay shields that keep a classifier's decisions fair."""

from __future__ import annotations

import typer

app = typer.Typer(
    name="shield",
    help="Shields: override as few decisions as possible, so that groups fare alike in every run.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.callback()
def _shields() -> None: ...
