"""``evenhand keys ...``: who may ask the service, and for what."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evenhand.cli.options import JsonOption, emit_json
from evenhand.errors import MissingExtraError, OptionError

if TYPE_CHECKING:
    from evenhand.service.security.ring import Ring

app = typer.Typer(
    name="keys",
    help="Keys of the service: who may ask it, and for what. The service may be running meanwhile.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

SECONDS = {"m": 60, "h": 3_600, "d": 86_400}

ConfigOption = Annotated[Path, typer.Option("--config", help="The service's file, which says where its store is.")]
NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="Of whoever holds the key.")]
CONFIG = Path("evenhand.toml")


@app.callback()
def _keys() -> None: ...


@app.command()
def add(
    name: NameArgument,
    scope: Annotated[
        list[str], typer.Option("--scope", help="decide, generate, read or admin (all of it); may be repeated.")
    ],
    expires: Annotated[
        str | None, typer.Option("--expires", metavar="TIME", help="The key ends after this: 90d, 12h or 30m.")
    ] = None,
    config: ConfigOption = CONFIG,
) -> None:
    """Make a key, and show it: this once, as the store keeps its hash alone."""
    seconds = None if expires is None else _seconds(expires, "--expires")
    with _ring(config) as ring:
        _show(ring.add(name, scope, seconds=seconds))


@app.command()
def rotate(
    name: NameArgument,
    overlap: Annotated[
        str, typer.Option("--overlap", metavar="TIME", help="The old key ends after this: 7d, 24h or 30m.")
    ] = "24h",
    config: ConfigOption = CONFIG,
) -> None:
    """Make another key for the same holder, with the same scopes, and show it; the old one ends later."""
    seconds = _seconds(overlap, "--overlap")
    with _ring(config) as ring:
        _show(ring.rotate(name, overlap=seconds))


@app.command()
def revoke(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Of whoever holds the keys; or the id of one key.")],
    config: ConfigOption = CONFIG,
) -> None:
    """End all keys of a holder at once, or one key by its id."""
    with _ring(config) as ring:
        for key in ring.revoke(name):
            typer.echo(f"revoked {key.id} of {key.name}")


@app.command("list")
def listed(config: ConfigOption = CONFIG, json: JsonOption = None) -> None:
    """List all keys that there ever were; never the keys themselves."""
    with _ring(config) as ring:
        keys, now = ring.keys(), ring.now
    rows = [
        {
            "id": key.id,
            "name": key.name,
            "scopes": sorted(key.scopes),
            "status": key.status(now),
            "made": _when(key.made),
            "expires": _when(key.expires),
            "revoked": _when(key.revoked),
        }
        for key in keys
    ]
    emit_json(dumps({"keys": rows}), json)
    if json == "-":
        return
    if not keys:
        typer.echo("there are no keys\n  -> evenhand keys add NAME --scope decide")
    for key in keys:
        status = key.status(now)
        ends = f", ends {_when(key.expires)}" if key.expires is not None and status == "valid" else ""
        scopes = ", ".join(sorted(key.scopes))
        typer.echo(f"{key.id}  {status:<8}  {key.name}: {scopes}; made {_when(key.made)}{ends}")


@contextmanager
def _ring(config: Path) -> Iterator[Ring]:
    try:
        from evenhand.service.security.ring import Ring
        from evenhand.service.settings import Settings
        from evenhand.service.store import Database
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("evenhand"):
            raise
        raise MissingExtraError(error.name or "fastapi", extra="serve", purpose="for the service's keys") from None
    database = Database(Settings.read(config).service.database)
    try:
        with Ring(database) as ring:
            yield ring
    finally:
        database.close()


def _show(key: str) -> None:
    """The key alone on standard output, so that a script can take it up."""
    typer.echo(key)
    typer.echo("this is the only time that it is shown: the store keeps its hash alone", err=True)


def _seconds(given: str, where: str) -> float:
    found = re.fullmatch(r"([0-9]{1,6})([mhd])", given)
    if found is None:
        raise OptionError(f"{given!r} is no time", where=where, mend="for example 90d, 24h or 30m")
    return float(int(found.group(1)) * SECONDS[found.group(2)])


def _when(seconds: float | None) -> str | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
