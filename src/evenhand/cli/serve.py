"""``evenhand serve``: shields and guarded generators as a service."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evenhand.errors import MissingExtraError, StoreError

if TYPE_CHECKING:
    from evenhand.service.context import Context


def serve(
    config: Annotated[
        Path | None, typer.Option("--config", help="The service's file, in TOML; without one a demo is served.")
    ] = None,
    host: Annotated[str | None, typer.Option("--host", help="Address to listen on, instead of the file's.")] = None,
    port: Annotated[
        int | None, typer.Option("--port", min=0, max=65535, help="Port, instead of the file's; 0: any that is free.")
    ] = None,
) -> None:
    """Serve shields and guarded generators over HTTP until it is interrupted."""
    try:
        from evenhand.service.running import run
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("evenhand"):
            raise
        raise MissingExtraError(error.name or "fastapi", extra="serve", purpose="to serve") from None
    from evenhand.service.demo import demo
    from evenhand.service.settings import Settings

    settings = demo() if config is None else Settings.read(config)
    try:
        answered = run(settings.listening(host, port), ready=_announce)
    except StoreError as error:
        if config is None:
            error.mend = f"{error.mend or 'see the file'}; the demo begins anew in a folder without an evenhand.db"
        raise
    typer.echo("stopped" if answered else "stopped before everything was answered")
    if not answered:
        raise typer.Exit(130)


def _announce(context: Context, url: str) -> None:
    """What is served, and where."""
    settings = context.settings
    lines = [
        f"evenhand serves at {url}",
        f"  state       {settings.service.place}",
        *(f"  shield      {entry.name}{' (advisory)' if entry.advisory else ''}" for entry in settings.shields),
        *(f"  generator   {guard.name}" for guard in context.guards.values()),
        *(
            []
            if settings.shields or settings.guards
            else ["  nothing     the file has neither [[shields]] nor [[guards]]"]
        ),
        f"  keys        {_keys(context)}",
        f"  interface   {url}/openapi.json",
        "Ctrl-C stops it.",
    ]
    typer.echo("\n".join(lines))


def _keys(context: Context) -> str:
    """Whether callers need a key; where nobody can have one yet, how the first is made."""
    from evenhand.service.machines.keys import STREAM
    from evenhand.service.store.reading import state_of

    if not context.settings.service.keys:
        return "not needed: only this machine should reach it"
    with context.database.reading() as connection:
        state = state_of(connection, STREAM)
    made = state is not None and state["keys"]
    return "needed" if made else "needed, and there is none: evenhand keys add NAME --scope admin --config FILE"
