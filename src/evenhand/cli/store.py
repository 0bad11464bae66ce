"""``evenhand store ...``: copies of the service's store whose logs were replayed, and a store made from one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evenhand.errors import MissingExtraError, OptionError, StoreError
from evenhand.text import format_count

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from evenhand.service import Database, ServiceConfig
    from evenhand.shields import ShieldPolicy

app = typer.Typer(
    name="store",
    help="Backups of the service's store: copied at one moment, and proved by a replay of every log.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

ConfigOption = Annotated[Path, typer.Option("--config", help="The service's file, which says where its store is.")]
CONFIG = Path("evenhand.toml")
ROWS_TOLD = 100_000


@app.callback()
def _store_group() -> None: ...


@app.command()
def backup(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The backup to make; it must not be there yet.")],
    config: ConfigOption = CONFIG,
) -> None:
    """Copy the store into a file while the service goes on, and replay every log in the copy.

    The file is there only once all of it agrees. It exits with 1 if a log does not.
    """
    settings = _read_settings(config)
    if file.exists():
        raise OptionError(f"there is a file {file} already", location="FILE", hint="give the backup another name")
    partial = file.with_name(file.name + ".partial")
    partial.unlink(missing_ok=True)
    try:
        source = _open(settings.service.database, make=False)
        try:
            heads = _copy(source, f"sqlite:///{partial}", settings)
        finally:
            source.close()
        partial.rename(file)
    finally:
        for one in ("", "-wal", "-shm"):
            partial.with_name(partial.name + one).unlink(missing_ok=True)
    _tell(f"{file} has", heads)


@app.command()
def restore(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A backup that `evenhand store backup` made.")],
    config: ConfigOption = CONFIG,
) -> None:
    """Fill the store that the service's file names from a backup, and replay every log in it.

    That store must be new. What was decided after the backup is not in it. It exits with 1 if a log does not agree.
    """
    settings = _read_settings(config)
    if not file.is_file():
        raise OptionError(f"there is no file {file}", location="FILE", hint="name what `evenhand store backup` made")
    source = _open(f"sqlite:///{file.absolute()}", make=False)
    try:
        heads = _copy(source, settings.service.database, settings)
    finally:
        source.close()
    _tell(f"{settings.service.place} has", heads)


def _copy(source: Database, target: str, settings: ServiceConfig) -> Mapping[str, tuple[int, str]]:
    """Copy a store and replay the copy; return its heads."""
    from evenhand.service import replay_stored_logs
    from evenhand.service.store.backup import copy_store

    policies = _read_policies(settings)
    copy = _open(target, make=True)
    try:
        heads = copy_store(source, copy, _progress())
        typer.echo("copied; every log is replayed now", err=True)
        replay = replay_stored_logs(copy, policies=policies, heads={name: last for name, (_, last) in heads.items()})
    finally:
        copy.close()
    for one in replay.replays:
        if one.difference is not None:
            typer.echo(f"error: the log of {one.stream!r} does not hold: {one.difference}", err=True)
    if not replay.all_agree:
        typer.echo("  -> do not rely on this copy; `evenhand replay --store URL` looks at the store itself", err=True)
        raise typer.Exit(1)
    return heads


def _progress() -> Callable[[int], None]:
    """Return what tells how far a copy is, now and then."""
    told = 0

    def tell(rows: int) -> None:
        nonlocal told
        if rows // ROWS_TOLD > told:
            told = rows // ROWS_TOLD
            typer.echo(f"{rows:,} rows copied", err=True)

    return tell


def _tell(where: str, heads: Mapping[str, tuple[int, str]]) -> None:
    logs = format_count(len(heads), "log", "logs")
    typer.echo(f"{where} {logs}, and a replay derived every entry again:")
    for name, (number, last) in heads.items():
        typer.echo(f"  {name}  {number}  {last}")


def _read_settings(config: Path) -> ServiceConfig:
    from evenhand.service import ServiceConfig

    return ServiceConfig.read(config)


def _read_policies(settings: ServiceConfig) -> list[ShieldPolicy]:
    """Return the policies that the service's file names, without which logs of their shields cannot be replayed."""
    from evenhand.shields import load_policy

    return [load_policy(settings.folder / one.policy) for one in settings.shields if one.policy is not None]


def _open(url: str, *, make: bool) -> Database:
    try:
        from evenhand.service import Database
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("evenhand"):
            raise
        raise MissingExtraError(error.name or "sqlalchemy", extra="serve", purpose="for the service's store") from None
    if not make and url.startswith("sqlite:///") and not Path(url.removeprefix("sqlite:///")).is_file():
        raise StoreError("there is no such file", location=url, hint="start where the service's file says")
    return Database(url, make=make)
