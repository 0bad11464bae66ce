"""The command ``evenhand``: parses, calls the library, renders; turns errors into one message and an exit code.

Exit codes: 0 done, 1 a --fail-on condition holds or a certificate is not confirmed, 2 bad input, 3 stopped by a limit
before any result,
130 interrupted (what was found so far is still written), 70 a fault in Evenhand itself.
"""

from __future__ import annotations

import os
import sys
import warnings
from typing import Annotated

import typer

from evenhand import __version__
from evenhand.cli import (
    audit,
    certify,
    check_certificate,
    datasets,
    genai,
    keys,
    mitigate,
    replay,
    reproduce,
    schema,
    search,
    serve,
    shield,
    subgroups,
)
from evenhand.errors import EvenhandError

INTERRUPTED = 130
FAULT = 70

app = typer.Typer(
    name="evenhand",
    help="Keeps automated decisions even-handed: tests, certifies, mitigates and enforces fairness of any model.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"evenhand {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None: ...


app.command("audit")(audit.audit)
app.command("certify")(certify.certify)
app.command("check-certificate")(check_certificate.check_certificate)
app.command("search")(search.search)
app.command("subgroups")(subgroups.subgroups)
app.command("mitigate")(mitigate.mitigate)
app.add_typer(shield.app)
app.add_typer(genai.app)
app.add_typer(keys.app)
app.add_typer(reproduce.app)
app.command("serve")(serve.serve)
app.command("replay")(replay.replay)
app.command("schema")(schema.schema)
app.command("datasets")(datasets.datasets)


def main() -> None:
    """Run the command line and leave with its exit code."""
    # Warnings of the libraries underneath are not addressed to whoever runs a command.
    warnings.filterwarnings("ignore")
    try:
        code = app(standalone_mode=False)
    except EvenhandError as error:
        _complain(f"error: {error}")
        code = error.exit_code
    except KeyboardInterrupt:
        _complain("interrupted before there was any result")
        code = INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except typer.Exit as leave:
        code = leave.exit_code
    except typer.Abort:
        code = INTERRUPTED
    except Exception as error:
        code = _usage(error)
    sys.exit(code if isinstance(code, int) else 0)


def _usage(error: Exception) -> int:
    """A wrong option gets Click's message and exit code 2; anything else is our fault and says so."""
    show = getattr(error, "show", None)
    if callable(show):
        show()
        return int(getattr(error, "exit_code", 2))
    if os.environ.get("EVENHAND_TRACEBACK"):
        raise error
    _complain(
        f"error: a fault in Evenhand itself: {type(error).__name__}: {error}\n"
        "  -> please report it; EVENHAND_TRACEBACK=1 shows where it happened"
    )
    return FAULT


def _complain(message: str) -> None:
    sys.stderr.write(message + "\n")
