"""``evenhand serve``, ``replay``, ``keys`` and ``store``: the service, its log, who may ask it, and its backups."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from json import dumps, loads
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evenhand.cli.options import OutputOptions
from evenhand.core.interrupts import INTERRUPTED
from evenhand.core.text import format_count, suggest_name
from evenhand.errors import MissingExtraError, OptionError, StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from evenhand.service.api.context import ServiceContext
    from evenhand.service.auth.keys import KeyStore
    from evenhand.service.settings import ServiceConfig
    from evenhand.service.store.database import Database
    from evenhand.shields.policy.policy import ShieldPolicy


def serve(
    config: Annotated[
        Path | None, typer.Option(help="The service's file, in TOML; without one a demo is served.")
    ] = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on, instead of the file's.")] = None,
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Port, instead of the file's; 0: any that is free.")
    ] = None,
) -> None:
    """Serve shields, guards and monitors over HTTP."""
    try:
        from evenhand.service.server import run_server
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("evenhand"):
            raise
        raise MissingExtraError(error.name or "fastapi", extra="serve", purpose="to serve") from None
    from evenhand.service.settings import ServiceConfig, demo_config

    settings = demo_config() if config is None else ServiceConfig.read(config)
    try:
        answered = run_server(settings.with_address(host, port), ready=_print_address)
    except StoreError as error:
        if config is None:
            error.hint = f"{error.hint or 'see the file'}; the demo starts afresh in a folder without an evenhand.db"
        raise
    typer.echo("stopped" if answered else "stopped before everything was answered")
    if not answered:
        raise typer.Exit(INTERRUPTED)


def _print_address(context: ServiceContext, url: str) -> None:
    """What is served, and where."""
    settings = context.settings
    lines = [
        f"evenhand serves at {url}",
        f"  state       {settings.service.place}",
        *(f"  shield      {entry.name}{' (advisory)' if entry.advisory else ''}" for entry in settings.shields),
        *(f"  generator   {guard.name}" for guard in context.guards.values()),
        *(f"  monitor     {entry.name}: {url}/monitors/{entry.name}" for entry in settings.monitors),
        *(
            []
            if settings.shields or settings.guards or settings.monitors
            else ["  nothing     the file has no [[shields]], [[guards]] or [[monitors]]"]
        ),
        f"  keys        {_describe_keys(context)}",
        f"  interface   {url}/openapi.json",
        "Ctrl-C stops it.",
    ]
    typer.echo("\n".join(lines))


def _describe_keys(context: ServiceContext) -> str:
    """Return whether callers need a key; while there is none yet, how to make the first one."""
    from evenhand.service.state_machines import KEY_STREAM
    from evenhand.service.store.database import read_state

    if not context.settings.service.keys:
        return "not needed: only this machine should reach it"
    with context.database.reading() as connection:
        state = read_state(connection, KEY_STREAM)
    made = state is not None and state["keys"]
    return "needed" if made else "needed, and there is none: evenhand keys add NAME --scope admin --config FILE"


# ``evenhand replay``: does a service's log again, and finds what was changed in it.


def replay(
    output: OutputOptions,
    log: Annotated[
        Path | None, typer.Argument(metavar="LOG", help="A stream's log, as the service exported it.")
    ] = None,
    store: Annotated[
        str | None, typer.Option(metavar="URL", help="Read the logs straight from a service's store.")
    ] = None,
    stream: Annotated[str | None, typer.Option(help="This stream of the store alone.")] = None,
    policy: Annotated[
        list[Path] | None,
        typer.Option(help="A shield's policy file, if it was not made from a plan; may be repeated."),
    ] = None,
    head: Annotated[
        str | None, typer.Option(metavar="HASH", help="An entry's hash noted down before: it must be there.")
    ] = None,
    heads: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="What GET /v1/streams answered before: all of it must be there."),
    ] = None,
) -> None:
    """Replay the logs of the service, and verify each entry.

    Exit code 1 if an entry differs.
    """
    if (log is None) == (store is None):
        raise OptionError("give a log, or a store", hint="evenhand replay LOG, or evenhand replay --store URL")
    if stream is not None and store is None:
        raise OptionError("a log is of one stream already", location="--stream", hint="leave it out")
    if head is not None and store is not None and stream is None:
        raise OptionError("each stream has a head of its own", location="--head", hint="name the stream with --stream")
    if heads is not None and store is None:
        raise OptionError("a log is of one stream alone", location="--heads", hint="--head HASH")
    try:
        from evenhand.service.replay.replay import read_lines, replay_log
        from evenhand.service.replay.replay_store import StoreReplay, replay_stored_logs
        from evenhand.service.store.database import Database
    except ModuleNotFoundError as error:
        raise MissingExtraError(str(error.name), extra="serve", purpose="to read what the service wrote") from None
    from evenhand.service.replay.replay import ServiceReplay
    from evenhand.shields.policy.file import load_policy

    policies = [load_policy(path) for path in policy or ()]
    result: ServiceReplay | StoreReplay
    if log is not None:
        result = replay_log(read_lines(log), policies=policies, head=head)
    else:
        known = {} if heads is None else _read_heads(heads)
        if head is not None and stream is not None:
            known[stream] = head
        database = Database(_existing_store(str(store)), make=False)
        try:
            result = replay_stored_logs(database, policies=policies, heads=known, stream=stream)
        finally:
            database.close()
    output.finish(result)
    if not result.all_agree:
        raise typer.Exit(1)


def _read_heads(path: Path) -> dict[str, str]:
    """Return the hash of each stream's last entry, as a service told it before."""
    try:
        return {one["name"]: one["hash"] for one in loads(path.read_text("utf-8"))["streams"]}
    except OSError as error:
        raise OptionError(f"the heads cannot be read: {error.strerror}", location="--heads") from None
    except (ValueError, KeyError, TypeError):
        raise OptionError(
            f"expected what GET /v1/streams answers, got another file: {path}",
            location="--heads",
            hint='{"streams": [{"name": "loans", "number": 1042, "hash": "5f0c..."}]}',
        ) from None


def _existing_store(given: str) -> str:
    """Return the address, if a store can be there: looking for one in a file must not make it."""
    from evenhand.service.settings import ServiceConfig

    try:
        url = ServiceConfig.read({"service": {"database": given}}).service.database
    except OptionError as error:
        raise OptionError(
            error.message, location="--store", hint="sqlite:///evenhand.db, postgresql://user@host/name"
        ) from None
    kind, _, place = url.partition(":///")
    if kind == "sqlite" and not Path(place).is_file():
        raise OptionError(f"there is no store {place!r}", location="--store", hint="start in the folder of the service")
    return url


# ``evenhand keys ...``: who may ask the service, and for what.

SECONDS = {"m": 60, "h": 3_600, "d": 86_400}

ConfigOption = Annotated[Path, typer.Option(help="The service's file, which says where its store is.")]
NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="Of the key's holder.")]
CONFIG = Path("evenhand.toml")


def add(
    name: NameArgument,
    scope: Annotated[
        list[str] | None,
        typer.Option(help="decide, generate, read or admin (all of it); may be repeated."),
    ] = None,
    role: Annotated[
        str | None,
        typer.Option(help="For people, in place of scopes: viewer or admin."),
    ] = None,
    expires: Annotated[
        str | None, typer.Option(metavar="TIME", help="The key ends after this: 90d, 12h or 30m.")
    ] = None,
    stream: Annotated[
        list[str] | None,
        typer.Option(help="For this shield, guard or monitor alone; may be repeated. Else for all."),
    ] = None,
    config: ConfigOption = CONFIG,
) -> None:
    """Make a key, and show it: this once, as the store keeps its hash alone."""
    seconds = None if expires is None else _parse_seconds(expires, "--expires")
    with _open_keys(config) as ring:
        if stream:
            _check_streams(config, stream)
        _print_key(ring.add(name, _scopes_of(scope, role), seconds=seconds, streams=stream or None))


def _scopes_of(scope: list[str] | None, role: str | None) -> list[str]:
    """Return what a key may be used for."""
    from evenhand.service.auth.keys import ROLES

    if (not scope) == (role is None):
        raise OptionError(
            "expected scopes or a role", location="--scope", hint=f"--scope decide, or --role {'|'.join(ROLES)}"
        )
    if role is not None and role not in ROLES:
        raise OptionError(f"there is no role {role!r}", location="--role", hint=f"one of: {', '.join(ROLES)}")
    return list(scope or ROLES[str(role)])


def _check_streams(config: Path, given: list[str]) -> None:
    """Refuse a key for a stream that the file does not name."""
    from evenhand.service.settings import ServiceConfig

    settings = ServiceConfig.read(config)
    known = [one.name for one in settings.shields] + [one.name for one in settings.guards]
    known += [one.name for one in settings.monitors]
    for name in given:
        if name not in known:
            hint = f"{suggest_name(name, known)}one of: {', '.join(known) or 'the file names none'}"
            raise OptionError(
                f"expected the name of a shield, guard or monitor, got {name!r}", location="--stream", hint=hint
            )


def rotate(
    name: NameArgument,
    overlap: Annotated[str, typer.Option(metavar="TIME", help="The old key ends after this: 7d, 24h or 30m.")] = "24h",
    config: ConfigOption = CONFIG,
) -> None:
    """Make another key for the same holder, with the same scopes, and show it; the old one ends later."""
    seconds = _parse_seconds(overlap, "--overlap")
    with _open_keys(config) as ring:
        _print_key(ring.rotate(name, overlap=seconds))


def revoke(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Of the keys' holder; or the id of one key.")],
    config: ConfigOption = CONFIG,
) -> None:
    """End all keys of a holder at once, or one key by its id."""
    with _open_keys(config) as ring:
        for key in ring.revoke(name):
            typer.echo(f"revoked {key.id} of {key.name}")


def list_keys(output: OutputOptions, config: ConfigOption = CONFIG) -> None:
    """List all keys that there ever were; never the keys themselves."""
    with _open_keys(config) as ring:
        keys, now = ring.keys(), ring.now
    rows = [
        {
            "id": key.id,
            "name": key.name,
            "scopes": sorted(key.scopes),
            "streams": None if key.streams is None else sorted(key.streams),
            "session": key.session,
            "status": key.status(now),
            "made": _format_time(key.made),
            "expires": _format_time(key.expires),
            "revoked": _format_time(key.revoked),
        }
        for key in keys
    ]
    output.emit(dumps({"keys": rows}))
    if output.silent:
        return
    if not keys:
        typer.echo("there are no keys\n  -> evenhand keys add NAME --scope decide")
    for key in keys:
        status = key.status(now)
        ends = f", ends {_format_time(key.expires)}" if key.expires is not None and status == "valid" else ""
        scopes = ", ".join(sorted(key.scopes)) + (f" for {', '.join(sorted(key.streams))}" if key.streams else "")
        name = key.name if key.session is None else f"{key.name} (logged in)"
        typer.echo(f"{key.id}  {status:<8}  {name}: {scopes}; made {_format_time(key.made)}{ends}")


@contextmanager
def _open_keys(config: Path) -> Iterator[KeyStore]:
    try:
        from evenhand.service.auth.keys import KeyStore
        from evenhand.service.settings import ServiceConfig
        from evenhand.service.store.database import Database
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("evenhand"):
            raise
        raise MissingExtraError(error.name or "fastapi", extra="serve", purpose="for the service's keys") from None
    database = Database(ServiceConfig.read(config).service.database)
    try:
        with KeyStore(database) as ring:
            yield ring
    finally:
        database.close()


def _print_key(key: str) -> None:
    """The key alone on standard output, so that a script can take it up."""
    typer.echo(key)
    typer.echo("this is the only time that it is shown: the store keeps its hash alone", err=True)


def _parse_seconds(given: str, location: str) -> float:
    found = re.fullmatch(r"([0-9]{1,6})([mhd])", given)
    if found is None:
        raise OptionError(f"expected a time, got {given!r}", location=location, hint="for example 90d, 24h or 30m")
    return float(int(found.group(1)) * SECONDS[found.group(2)])


def _format_time(seconds: float | None) -> str | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


# ``evenhand store ...``: copies of the service's store whose logs were replayed, and a store made from one.

ROWS_TOLD = 100_000
"""Copied between two lines about it."""


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
        source = _open_store(settings.service.database, make=False)
        try:
            heads = _copy_and_replay(source, f"sqlite:///{partial}", settings)
        finally:
            source.close()
        partial.rename(file)
    finally:
        for one in ("", "-wal", "-shm"):
            partial.with_name(partial.name + one).unlink(missing_ok=True)
    _print_heads(f"{file} has", heads)


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
    source = _open_store(f"sqlite:///{file.absolute()}", make=False)
    try:
        heads = _copy_and_replay(source, settings.service.database, settings)
    finally:
        source.close()
    _print_heads(f"{settings.service.place} has", heads)


def _copy_and_replay(source: Database, target: str, settings: ServiceConfig) -> Mapping[str, tuple[int, str]]:
    """Copy a store and replay the copy; return its heads."""
    from evenhand.service.replay.replay_store import replay_stored_logs
    from evenhand.service.store.upkeep import copy_store

    copy = _open_store(target, make=True)
    try:
        heads = copy_store(source, copy, _count_rows())
        policies = _read_policies(settings, copy)
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


def _count_rows() -> Callable[[int], None]:
    """Return what tells how far a copy is, now and then."""
    told = 0

    def tell(rows: int) -> None:
        nonlocal told
        if rows // ROWS_TOLD > told:
            told = rows // ROWS_TOLD
            typer.echo(f"{rows:,} rows copied", err=True)

    return tell


def _print_heads(where: str, heads: Mapping[str, tuple[int, str]]) -> None:
    logs = format_count(len(heads), "log", "logs")
    typer.echo(f"{where} {logs}, and a replay derived every entry again:")
    for name, (number, last) in heads.items():
        typer.echo(f"  {name}  {number}  {last}")


def _read_settings(config: Path) -> ServiceConfig:
    from evenhand.service.settings import ServiceConfig

    return ServiceConfig.read(config)


def _read_policies(settings: ServiceConfig, store: Database) -> list[ShieldPolicy]:
    """Return the policies that the service's file and the logs of the store name, which a replay needs."""
    from evenhand.service.store.database import read_configurations
    from evenhand.shields.policy.file import load_policy

    files = [shield.policy for shield in settings.shields]
    files += [configuration.get("policy") for configuration in read_configurations(store)]
    return [load_policy(settings.folder / one) for one in dict.fromkeys(files) if one]


def _open_store(url: str, *, make: bool) -> Database:
    try:
        from evenhand.service.store.database import Database
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("evenhand"):
            raise
        raise MissingExtraError(error.name or "sqlalchemy", extra="serve", purpose="for the service's store") from None
    if not make and url.startswith("sqlite:///") and not Path(url.removeprefix("sqlite:///")).is_file():
        raise StoreError("there is no such file", location=url, hint="start where the service's file says")
    return Database(url, make=make)
