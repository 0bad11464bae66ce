"""``evenhand serve``, ``replay``, ``keys`` and ``store``: the service, its logs, its keys and its backups."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from json import dumps, loads
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evenhand import shields
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


def serve(
    config: Path | None = typer.Option(None, help="Configuration of the service (TOML); by default a demo."),
    host: str | None = typer.Option(None, help="Address, instead of the configured one."),
    port: int | None = typer.Option(
        None, min=0, max=65535, help="Port, instead of the configured one; 0 for a free port."
    ),
) -> None:
    """Serve shields, guards and monitors over HTTP."""
    with _require_extra("to serve"):
        from evenhand.service.server import run_server
    from evenhand.service.settings import ServiceConfig, demo_config

    settings = demo_config() if config is None else ServiceConfig.read(config)
    try:
        completed = run_server(settings.with_address(host, port), ready=_print_address)
    except StoreError as error:
        if config is None:
            error.hint = f"{error.hint or 'see the file'}; or start the demo in a folder without an evenhand.db"
        raise
    typer.echo("stopped" if completed else "stopped before all requests were answered")
    if not completed:
        raise typer.Exit(INTERRUPTED)


@contextmanager
def _require_extra(purpose: str) -> Iterator[None]:
    """Explain that a library of the service is not installed."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("evenhand"):
            raise
        raise MissingExtraError(str(error.name), extra="serve", purpose=purpose) from None


NOTHING_SERVED = "  nothing     the file has no [[shields]], [[guards]] or [[monitors]]"


def _print_address(context: ServiceContext, url: str) -> None:
    """Print the address and the streams of the service."""
    settings = context.settings
    lines = [
        f"evenhand serves at {url}",
        f"  state       {settings.service.place}",
        *(f"  shield      {entry.name}{' (advisory)' if entry.advisory else ''}" for entry in settings.shields),
        *(f"  generator   {guard.name}" for guard in context.guards.values()),
        *(f"  monitor     {entry.name}: {url}/monitors/{entry.name}" for entry in settings.monitors),
        *([] if settings.shields or settings.guards or settings.monitors else [NOTHING_SERVED]),
        f"  keys        {_describe_keys(context)}",
        f"  interface   {url}/openapi.json",
        "Ctrl-C stops it.",
    ]
    typer.echo("\n".join(lines))


def _describe_keys(context: ServiceContext) -> str:
    """Describe whether callers need a key, and how the first one is made."""
    from evenhand.service.state_machines import KEY_STREAM
    from evenhand.service.store.database import read_state

    if not context.settings.service.keys:
        return "not needed: only this machine should reach it"
    with context.database.reading() as connection:
        state = read_state(connection, KEY_STREAM)
    has_keys = state is not None and state["keys"]
    return "needed" if has_keys else "needed, and there is none: evenhand keys add NAME --scope admin --config FILE"


def replay(
    output: OutputOptions,
    log: Path | None = typer.Argument(None, metavar="LOG", help="Log of a stream, exported by the service."),
    store: str | None = typer.Option(None, metavar="URL", help="Store of a service, instead of a log."),
    stream: str | None = typer.Option(None, help="Stream of the store; by default all."),
    policy: list[Path] | None = typer.Option(None, help="Policy file of a shield without a plan; may be repeated."),
    head: str | None = typer.Option(None, metavar="HASH", help="Hash of an entry that the log must contain."),
    heads: Path | None = typer.Option(
        None, metavar="FILE", help="Saved response of GET /v1/streams: the logs must contain its heads."
    ),
) -> None:
    """Replay the logs of the service, and verify each entry.

    Exit code 1 if an entry differs.
    """
    if (log is None) == (store is None):
        raise OptionError("expected a log or a store", hint="evenhand replay LOG, or evenhand replay --store URL")
    if stream is not None and store is None:
        raise OptionError("--stream requires --store", location="--stream", hint="leave it out")
    if head is not None and store is not None and stream is None:
        raise OptionError("expected one stream for --head, got all", location="--head", hint="add --stream")
    if heads is not None and store is None:
        raise OptionError("--heads requires --store", location="--heads", hint="use --head HASH")
    with _require_extra("to read the logs of the service"):
        from evenhand.service.replay.replay import ServiceReplay, read_lines, replay_log
        from evenhand.service.replay.replay_store import StoreReplay, replay_stored_logs

    policies = [shields.load_policy(path) for path in policy or ()]
    result: ServiceReplay | StoreReplay
    if log is not None:
        result = replay_log(read_lines(log), policies=policies, head=head)
    else:
        hashes = {} if heads is None else _read_heads(heads)
        if head is not None and stream is not None:
            hashes[stream] = head
        with _open_store(_check_address(str(store)), make=False) as database:
            result = replay_stored_logs(database, policies=policies, heads=hashes, stream=stream)
    output.finish(result)
    if not result.all_agree:
        raise typer.Exit(1)


def _read_heads(path: Path) -> dict[str, str]:
    """Read the hash of each stream's last entry from a saved response of the service."""
    try:
        return {stream["name"]: stream["hash"] for stream in loads(path.read_text("utf-8"))["streams"]}
    except OSError as error:
        raise OptionError(f"the heads cannot be read: {error.strerror}", location="--heads") from None
    except (ValueError, KeyError, TypeError):
        raise OptionError(
            f"expected a response of GET /v1/streams, got {path}",
            location="--heads",
            hint='save it as {"streams": [{"name": "loans", "number": 1042, "hash": "5f0c..."}]}',
        ) from None


def _check_address(address: str) -> str:
    """Check the address of a store."""
    from evenhand.service.settings import ServiceConfig

    try:
        url = ServiceConfig.read({"service": {"database": address}}).service.database
    except OptionError as error:
        raise OptionError(
            error.message, location="--store", hint="for example sqlite:///evenhand.db or postgresql://user@host/name"
        ) from None
    return url


SECONDS = {"m": 60, "h": 3_600, "d": 86_400}

ConfigOption = Annotated[Path, typer.Option(help="Configuration of the service, which names its store.")]
NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="Holder of the key.")]
CONFIG = Path("evenhand.toml")


def add(
    name: NameArgument,
    scope: list[str] | None = typer.Option(None, help="decide, generate, read or admin (everything); may be repeated."),
    role: str | None = typer.Option(None, help="Role of a person, instead of scopes: viewer or admin."),
    expires: str | None = typer.Option(None, metavar="TIME", help="Lifetime of the key: 90d, 12h or 30m."),
    stream: list[str] | None = typer.Option(
        None, help="Shield, guard or monitor of the key; may be repeated. By default all."
    ),
    config: ConfigOption = CONFIG,
) -> None:
    """Make a key, and print it once.

    The store keeps only its hash.
    """
    seconds = None if expires is None else _parse_seconds(expires, "--expires")
    with _open_keys(config) as ring:
        if stream:
            _check_streams(config, stream)
        _print_key(ring.add(name, _scopes_of(scope, role), seconds=seconds, streams=stream or None))


def _scopes_of(scope: list[str] | None, role: str | None) -> list[str]:
    """Return the scopes of a key."""
    from evenhand.service.auth.keys import ROLES

    if (not scope) == (role is None):
        raise OptionError(
            "expected scopes or a role", location="--scope", hint=f"--scope decide, or --role {'|'.join(ROLES)}"
        )
    if role is not None and role not in ROLES:
        raise OptionError(f"there is no role {role!r}", location="--role", hint=f"one of: {', '.join(ROLES)}")
    return list(scope or ROLES[str(role)])


def _check_streams(config: Path, streams: list[str]) -> None:
    """Refuse a key for a stream that is not configured."""
    settings = _read_settings(config)
    names = [shield.name for shield in settings.shields] + [guard.name for guard in settings.guards]
    names += [monitor.name for monitor in settings.monitors]
    for name in streams:
        if name not in names:
            hint = f"{suggest_name(name, names)}one of: {', '.join(names) or 'none is configured'}"
            raise OptionError(
                f"expected the name of a shield, guard or monitor, got {name!r}", location="--stream", hint=hint
            )


def rotate(
    name: NameArgument,
    overlap: str = typer.Option("24h", metavar="TIME", help="Remaining lifetime of the old key: 7d, 24h or 30m."),
    config: ConfigOption = CONFIG,
) -> None:
    """Replace a key by a new one with the same scopes."""
    seconds = _parse_seconds(overlap, "--overlap")
    with _open_keys(config) as ring:
        _print_key(ring.rotate(name, overlap=seconds))


def revoke(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Holder of the keys, or ID of one key.")],
    config: ConfigOption = CONFIG,
) -> None:
    """Revoke all keys of a holder, or one key."""
    with _open_keys(config) as ring:
        for key in ring.revoke(name):
            typer.echo(f"revoked {key.id} of {key.name}")


def list_keys(output: OutputOptions, config: ConfigOption = CONFIG) -> None:
    """List the metadata of all keys."""
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
    with _require_extra("for the service's keys"):
        from evenhand.service.auth.keys import KeyStore
    with _open_store(_read_settings(config).service.database) as database, KeyStore(database) as ring:
        yield ring


def _print_key(key: str) -> None:
    """Print the key on standard output, and the note on standard error."""
    typer.echo(key)
    typer.echo("this key is not shown again: the store keeps only its hash", err=True)


def _parse_seconds(text: str, location: str) -> float:
    match = re.fullmatch(r"([0-9]{1,6})([mhd])", text)
    if match is None:
        raise OptionError(f"expected a time, got {text!r}", location=location, hint="for example 90d, 24h or 30m")
    return float(int(match[1]) * SECONDS[match[2]])


def _format_time(seconds: float | None) -> str | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


ROWS_REPORTED = 100_000
"""Number of rows between two reports of progress."""


def backup(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="File for the backup, which must not exist.")],
    config: ConfigOption = CONFIG,
) -> None:
    """Back up the store, and verify the backup.

    The service may be running. The file is written only if the replay confirms every log. Otherwise, the exit code
    is 1.
    """
    settings = _read_settings(config)
    if file.exists():
        raise OptionError(f"the file {file} exists", location="FILE", hint="choose another name")
    partial = file.with_name(file.name + ".partial")
    partial.unlink(missing_ok=True)
    try:
        heads = _copy_and_replay(settings.service.database, f"sqlite:///{partial}", settings)
        partial.rename(file)
    finally:
        for suffix in ("", "-wal", "-shm"):
            partial.with_name(partial.name + suffix).unlink(missing_ok=True)
    _print_heads(f"{file} has", heads)


def restore(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Backup of `evenhand store backup`.")],
    config: ConfigOption = CONFIG,
) -> None:
    """Restore a backup into a new store, and verify it.

    Decisions after the backup are missing. Exit code 1 if the replay of a log differs.
    """
    settings = _read_settings(config)
    if not file.is_file():
        raise OptionError(f"there is no file {file}", location="FILE", hint="name a backup of `evenhand store backup`")
    heads = _copy_and_replay(f"sqlite:///{file.absolute()}", settings.service.database, settings)
    _print_heads(f"{settings.service.place} has", heads)


def _copy_and_replay(source: str, target: str, settings: ServiceConfig) -> Mapping[str, tuple[int, str]]:
    """Copy a store, replay the copy, and return the heads of its logs."""
    from evenhand.service.replay.replay_store import replay_stored_logs
    from evenhand.service.store.upkeep import copy_store

    with _open_store(source, make=False) as original, _open_store(target) as copy:
        heads = copy_store(original, copy, _count_rows())
        policies = _read_policies(settings, copy)
        typer.echo("copied; replaying every log", err=True)
        replay = replay_stored_logs(copy, policies=policies, heads={name: last for name, (_, last) in heads.items()})
    for log in replay.replays:
        if log.difference is not None:
            typer.echo(f"error: the log of {log.stream!r} differs: {log.difference}", err=True)
    if not replay.all_agree:
        typer.echo("  -> do not use this copy; check the store with `evenhand replay --store URL`", err=True)
        raise typer.Exit(1)
    return heads


def _count_rows() -> Callable[[int], None]:
    """Return a function that reports the progress of a copy."""
    steps = 0

    def report(rows: int) -> None:
        nonlocal steps
        if rows // ROWS_REPORTED > steps:
            steps = rows // ROWS_REPORTED
            typer.echo(f"{rows:,} rows copied", err=True)

    return report


def _print_heads(where: str, heads: Mapping[str, tuple[int, str]]) -> None:
    logs = format_count(len(heads), "log", "logs")
    typer.echo(f"{where} {logs}; the replay confirmed every entry:")
    for name, (number, last) in heads.items():
        typer.echo(f"  {name}  {number}  {last}")


def _read_settings(config: Path) -> ServiceConfig:
    from evenhand.service.settings import ServiceConfig

    return ServiceConfig.read(config)


def _read_policies(settings: ServiceConfig, store: Database) -> list[shields.ShieldPolicy]:
    """Load the policies that the configuration and the logs of the store name."""
    from evenhand.service.store.database import read_configurations

    files = [shield.policy for shield in settings.shields]
    files += [configuration.get("policy") for configuration in read_configurations(store)]
    return [shields.load_policy(settings.folder / file) for file in dict.fromkeys(files) if file]


@contextmanager
def _open_store(url: str, *, make: bool = True) -> Iterator[Database]:
    with _require_extra("for the service's store"):
        from evenhand.service.store.database import Database
    if not make and url.startswith("sqlite:///") and not Path(url.removeprefix("sqlite:///")).is_file():
        raise StoreError("the file does not exist", location=url, hint="run the command in the folder of the service")
    database = Database(url, make=make)
    try:
        yield database
    finally:
        database.close()
