"""The command ``evenhand``.

Exit codes: 0 done; 1 a --fail-on condition holds, or a certificate is not confirmed; 2 bad input; 3 a limit ended the
run before any result; 70 a fault in Evenhand itself; 130 interrupted, and 143 ended by SIGTERM. The results so far are
written.
"""

from __future__ import annotations

import atexit
import gc
import os
import sys
import warnings
from pathlib import Path
from typing import Any, TextIO

import typer

from evenhand import __version__
from evenhand.cli import certify, data, dossier, llm, mitigate, monitor, search, service, shield, subgroups
from evenhand.cli.audits import audit, compare, decisions, rankings
from evenhand.cli.factory import OPTION_NAMES, TitledCommands, add_command, command_group
from evenhand.cli.genai import assess, commands
from evenhand.cli.options import name_options
from evenhand.core.interrupts import INTERRUPTED, StopSignals
from evenhand.errors import EvenhandError, GuessedEncodingWarning, KernelCacheWarning, OptionError, TableWarning

FAULT = 70


class Commands(TitledCommands):
    """All commands. Errors name the options of the command; an interrupt before any result becomes a message."""

    def invoke(self, ctx: Any) -> Any:
        """Run a command."""
        try:
            return super().invoke(ctx)
        except EvenhandError as error:
            options = ctx.meta.get(OPTION_NAMES)
            error.message = name_options(error.message, options)
            error.location = error.location and name_options(error.location, options)
            error.hint = error.hint and name_options(error.hint, options)
            raise
        except KeyboardInterrupt as interrupt:
            _print_error("; ".join(["interrupted before any result", *getattr(interrupt, "__notes__", [])]))
            raise typer.Exit(INTERRUPTED) from None


app = typer.Typer(
    name="evenhand",
    cls=Commands,
    help="Test, certify, mitigate and enforce the fairness of automated decisions.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _print_version(show: bool) -> None:
    if show:
        typer.echo(f"evenhand {__version__}")
        raise typer.Exit


@app.callback()
def _root_options(
    version: bool = typer.Option(False, "--version", callback=_print_version, is_eager=True, help="Print the version."),
) -> None:
    try:
        Path.cwd()
    except FileNotFoundError:
        raise OptionError("the current folder was deleted", hint="change to another folder") from None


TEST, PROVE, IMPROVE, ENFORCE, DATA = (
    "Test a model or decisions",
    "Prove",
    "Improve and document",
    "Enforce at run time",
    "Describe data",
)

add_command(app, audit.audit, audit.SETTINGS, title=TEST)
add_command(app, decisions.audit_decisions, decisions.SETTINGS, title=TEST)
add_command(app, rankings.audit_rankings, rankings.SETTINGS, title=TEST)
add_command(app, compare.compare, compare.SETTINGS, title=TEST)
add_command(app, search.search, search.ROWS, search.TEXTS, title=TEST)
add_command(app, subgroups.subgroups, subgroups.ROWS, subgroups.NUMBERS, subgroups.TEXTS, title=TEST)
language_models = command_group(app, "llm", "Audit language models that decide about people.", title=TEST)
add_command(language_models, llm.audit, llm.SETTINGS)
add_command(language_models, llm.cost, llm.SETTINGS)
add_command(language_models, llm.compare, llm.COMPARED)
add_command(app, certify.certify, certify.SETTINGS, title=PROVE)
add_command(app, certify.check_certificate, title=PROVE)
add_command(app, mitigate.mitigate, mitigate.SETTINGS, title=IMPROVE)
add_command(app, mitigate.alternatives, mitigate.ALTERNATIVES, title=IMPROVE)
add_command(app, mitigate.refute, mitigate.REFUTATION, title=IMPROVE)
add_command(app, dossier.dossier, title=IMPROVE)
add_command(app, dossier.card, title=IMPROVE)
shields = command_group(app, "shield", "Build, inspect, simulate and replay shields.", title=ENFORCE)
add_command(shields, shield.synthesize)
add_command(shields, shield.simulate)
add_command(shields, shield.inspect)
add_command(shields, shield.replay)
generators = command_group(app, "genai", "Assess and guard generative models.", title=ENFORCE)
add_command(generators, assess.assess, assess.SETTINGS)
add_command(generators, commands.check)
add_command(generators, commands.confusion, commands.CONFUSION)
add_command(generators, commands.generate)
add_command(generators, commands.simulate)
add_command(app, monitor.monitor, title=ENFORCE)
add_command(app, service.serve, title=ENFORCE)
add_command(app, service.replay, title=ENFORCE)
keys = command_group(app, "keys", "Manage the keys of the service.", title=ENFORCE)
add_command(keys, service.add)
add_command(keys, service.rotate)
add_command(keys, service.revoke)
add_command(keys, service.list_keys, name="list")
store = command_group(app, "store", "Back up and restore the store of the service.", title=ENFORCE)
add_command(store, service.backup)
add_command(store, service.restore)
add_command(app, data.schema, title=DATA)
add_command(app, data.datasets, title=DATA)


def main() -> None:
    """Run the command line, and exit with its code."""
    sys.path.insert(0, "")  # modules of the current folder can be imported, as with `python -m`
    # The modules of a short command stay until its end: the search for garbage among them took a fifth of its time.
    gc.set_threshold(20_000, 20, 20)
    atexit.register(gc.freeze)
    with StopSignals() as signals, warnings.catch_warnings():
        # Warnings of other libraries are not for users of a command.
        warnings.filterwarnings("ignore")
        if "--quiet" not in sys.argv:
            for category in (GuessedEncodingWarning, TableWarning):
                warnings.filterwarnings("always", category=category)
            warnings.filterwarnings("default", category=KernelCacheWarning)
            warnings.showwarning = _show_warning
        code = _run()
    sys.exit(signals.exit_code if code == INTERRUPTED else code if isinstance(code, int) else 0)


def _run() -> object:
    """Run the command, and return its exit code, if it sets one."""
    try:
        return app(_current_usage(sys.argv[1:]), standalone_mode=False)
    except EvenhandError as error:
        _print_error(f"error: {error}")
        return error.exit_code
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except typer.Exit as leave:
        return leave.exit_code
    except Exception as error:
        return _exit_code(error)


def _current_usage(arguments: list[str]) -> list[str]:
    """Translate former usage, in which decisions and refutations had no separate commands."""
    options = {argument.partition("=")[0] for argument in arguments}
    match arguments:
        case ["audit", *others] if options & {"--decision", "--score"}:
            return ["audit-decisions", *others]
        case ["mitigate", model, data, *others] if "--refute" in others:
            others[others.index("--refute")] = "--family"
            return ["refute", data, "--model", model, *others]
    return arguments


def _exit_code(error: Exception) -> int:
    """Print a usage error, with exit code 2. Any other error is a fault of Evenhand."""
    show = getattr(error, "show", None)
    if callable(show):
        from pydantic import ValidationError

        from evenhand.core.config import translate_error

        if isinstance(error.__cause__, ValidationError):
            # Typer repeats the message of pydantic, which lacks the value.
            error.message = translate_error(error.__cause__).message  # type: ignore[attr-defined]
        names = _find_commands(getattr(error, "option_name", None))
        if names:
            error.possibilities = None  # type: ignore[attr-defined]  # similar options would distract from the command
        show()
        if names:
            _print_error(f"  -> use {' or '.join(names)}")
        return int(getattr(error, "exit_code", 2))
    if os.environ.get("EVENHAND_TRACEBACK"):
        raise error
    _print_error(
        f"error: a fault in Evenhand itself: {type(error).__name__}: {error}\n"
        "  -> report it; EVENHAND_TRACEBACK=1 shows where it happened"
    )
    return FAULT


def _find_commands(option: str | None) -> list[str]:
    """Return the commands that an unknown option may belong to, or that have its name: at most three."""
    if option is None:
        return []
    commands: dict[str, Any] = typer.main.get_command(app).commands  # type: ignore[attr-defined]  # it is a group
    named = [name for name in commands if f"--{name}" == option]
    options = {
        name: [flag for parameter in command.get_params(typer.Context(command)) for flag in parameter.opts]
        for name, command in commands.items()
    }
    names = named or [name for name, flags in options.items() if option in flags]
    return [f"evenhand {name}" for name in names] if len(names) <= 3 else []


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Print a warning as a note, without its location in the code."""
    _print_error(name_options(f"note: {message}", ()))


def _print_error(message: str) -> None:
    sys.stderr.write(message + "\n")
