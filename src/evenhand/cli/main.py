"""The command ``evenhand``: parses, calls the library, renders; turns errors into one message and an exit code.

Exit codes: 0 done, 1 a --fail-on condition holds or a certificate is not confirmed, 2 bad input, 3 stopped by a limit
before any result,
130 interrupted and 143 ended by SIGTERM (what was found so far is still written), 70 a fault in Evenhand itself.
"""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path
from typing import Annotated, Any, TextIO

import typer
from typer.core import TyperGroup

from evenhand import __version__
from evenhand.cli import (
    certify,
    data,
    dossier,
    genai,
    llm,
    mitigate,
    monitor,
    search,
    service,
    shield,
    subgroups,
)
from evenhand.cli.audits import audit, compare, rankings
from evenhand.cli.factory import with_settings
from evenhand.cli.options import name_options
from evenhand.core.interrupts import INTERRUPTED, StopSignals
from evenhand.errors import EvenhandError, GuessedEncodingWarning, KernelCacheWarning, OptionError, TableWarning

FAULT = 70


class InterruptibleCommands(TyperGroup):
    """The commands; Ctrl-C before there is any result is told before Typer makes a bare exit code of it."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was given."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as interrupt:
            raise typer.Exit(_interrupted_early(interrupt)) from None


app = typer.Typer(
    name="evenhand",
    cls=InterruptibleCommands,
    help="Keeps automated decisions even-handed: tests, certifies, mitigates and enforces fairness of any model.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"evenhand {__version__}")
        raise typer.Exit


@app.callback()
def _root_options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    try:
        Path.cwd()
    except FileNotFoundError:
        raise OptionError("the current folder is no longer there", hint="change to a folder that exists") from None


app.command("audit", cls=with_settings(audit.SETTINGS, audit.DECISIONS, rankings.RANKINGS))(audit.audit)
app.command("compare", cls=with_settings(compare.SETTINGS))(compare.compare)
app.command("certify", cls=with_settings(certify.SETTINGS))(certify.certify)
app.command("check-certificate")(certify.check_certificate)
app.command("search", cls=with_settings(search.ROWS, search.TEXTS))(search.search)
app.command("subgroups", cls=with_settings(subgroups.ROWS, subgroups.NUMBERS, subgroups.TEXTS))(subgroups.subgroups)
app.command("mitigate", cls=with_settings(mitigate.SETTINGS, mitigate.ALTERNATIVES, mitigate.REFUTATION))(
    mitigate.mitigate
)
app.command("dossier")(dossier.dossier)
app.command("card")(dossier.card)
app.command("monitor")(monitor.monitor)
app.add_typer(shield.app)
app.add_typer(genai.app)
app.add_typer(llm.app)
app.add_typer(service.app)
app.add_typer(service.store_app)
app.command("serve")(service.serve)
app.command("replay")(service.replay)
app.command("schema")(data.schema)
app.command("datasets")(data.datasets)


def main() -> None:
    """Run the command line and leave with its exit code."""
    sys.path.insert(0, "")  # modules of the current directory are found, as by `python -m`
    with StopSignals() as signals, warnings.catch_warnings():
        # Warnings of the libraries underneath are not meant for users of a command.
        warnings.filterwarnings("ignore")
        if "--quiet" not in sys.argv:
            for category in (GuessedEncodingWarning, TableWarning):
                warnings.filterwarnings("always", category=category)
            warnings.filterwarnings("default", category=KernelCacheWarning)
            warnings.showwarning = _show_warning
        code = _run()
    sys.exit(signals.exit_code if code == INTERRUPTED else code if isinstance(code, int) else 0)


def _run() -> object:
    """Run the command; what it leaves with, which is an exit code if it is a number."""
    code: object
    try:
        code = app(standalone_mode=False)
    except EvenhandError as error:
        _print_error(name_options(f"error: {error}"))
        code = error.exit_code
    except KeyboardInterrupt as interrupt:
        code = _interrupted_early(interrupt)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except typer.Abort:
        code = INTERRUPTED
    except typer.Exit as leave:
        code = leave.exit_code
    except Exception as error:
        code = _exit_code(error)
    return code


def _interrupted_early(interrupt: KeyboardInterrupt) -> int:
    notes = getattr(interrupt, "__notes__", [])
    _print_error("; ".join(["interrupted before there was any result", *notes]))
    return INTERRUPTED


def _exit_code(error: Exception) -> int:
    """A wrong option gets Click's message and exit code 2; anything else is our fault and says so."""
    show = getattr(error, "show", None)
    if callable(show):
        from pydantic import ValidationError

        from evenhand.core.config import translate_error

        if isinstance(error.__cause__, ValidationError):
            # Typer repeats the message of pydantic, which lacks the value.
            error.message = translate_error(error.__cause__).message  # type: ignore[attr-defined]
        show()
        return int(getattr(error, "exit_code", 2))
    if os.environ.get("EVENHAND_TRACEBACK"):
        raise error
    _print_error(
        f"error: a fault in Evenhand itself: {type(error).__name__}: {error}\n"
        "  -> please report it; EVENHAND_TRACEBACK=1 shows where it happened"
    )
    return FAULT


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Print a warning as a note, in place of where in the code it was raised."""
    _print_error(name_options(f"note: {message}"))


def _print_error(message: str) -> None:
    sys.stderr.write(message + "\n")
