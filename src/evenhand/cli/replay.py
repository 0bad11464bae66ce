"""``evenhand replay``: does a service's log again, and finds what was changed in it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from evenhand.cli.options import JsonOption, QuietOption, emit_result
from evenhand.errors import MissingExtraError, OptionError


def replay(
    log: Annotated[
        Path | None, typer.Argument(metavar="LOG", help="A stream's log, as the service exported it.")
    ] = None,
    store: Annotated[
        str | None, typer.Option("--store", metavar="URL", help="Read the logs straight from a service's store.")
    ] = None,
    stream: Annotated[str | None, typer.Option("--stream", help="This stream of the store alone.")] = None,
    policy: Annotated[
        list[Path] | None,
        typer.Option("--policy", help="A shield's policy file, if it was not made from a plan; may be repeated."),
    ] = None,
    head: Annotated[
        str | None, typer.Option("--head", metavar="HASH", help="An entry's hash noted down before: it must be there.")
    ] = None,
    json: JsonOption = None,
    quiet: QuietOption = False,
) -> None:
    """Derive every decision of a service's log anew; leave with 1 if anything in it differs."""
    if (log is None) == (store is None):
        raise OptionError("give a log, or a store", mend="evenhand replay LOG, or evenhand replay --store URL")
    if stream is not None and store is None:
        raise OptionError("a log is of one stream already", where="--stream", mend="leave it out")
    if head is not None and store is not None and stream is None:
        raise OptionError("each stream has a head of its own", where="--head", mend="name the stream with --stream")
    try:
        from evenhand.service.replay import read_lines
        from evenhand.service.replay import replay as again
        from evenhand.service.replay_store import ServiceReplays, replay_store
        from evenhand.service.store import Database
    except ModuleNotFoundError as error:
        raise MissingExtraError(str(error.name), extra="serve", purpose="to read what the service wrote") from None
    from evenhand.service.replay import ServiceReplay
    from evenhand.shield.file import load

    policies = [load(path) for path in policy or ()]
    result: ServiceReplay | ServiceReplays
    if log is not None:
        result = again(read_lines(log), policies=policies, head=head)
    else:
        database = Database(_existing(str(store)), make=False)
        try:
            result = replay_store(database, policies=policies, head=head, stream=stream)
        finally:
            database.close()
    emit_result(result, json)
    if not quiet and json != "-":
        typer.echo(result.summary())
    if not result.agrees:
        raise typer.Exit(1)


def _existing(given: str) -> str:
    """The address, if a store can be there: looking for one in a file must not make it."""
    from evenhand.service.settings import Settings

    try:
        url = Settings.read({"service": {"database": given}}).service.database
    except OptionError as error:
        raise OptionError(
            error.what, where="--store", mend="sqlite:///evenhand.db, postgresql://user@host/name"
        ) from None
    kind, _, place = url.partition(":///")
    if kind == "sqlite" and not Path(place).is_file():
        raise OptionError(f"there is no store {place!r}", where="--store", mend="start in the folder of the service")
    return url
