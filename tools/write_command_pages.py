#!/usr/bin/env python3
"""Write what every command takes into docs/reference: its arguments and options, as ``--help`` says them.

Run it after a command or an option is added, renamed or described differently; a test in tests/house says when a page
is not of today. What stands between two marks comes from the commands themselves, but for what follows ``<br>`` in a
row: that is written by hand, and kept as long as there is such an option.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
INDEX = ROOT / "docs" / "reference" / "command-line.md"
PAGES = ROOT / "docs" / "reference" / "commands"
BLOCK = re.compile(
    r"(<!-- (usage|options) of ([^:]+): by tools/write_command_pages\.py -->\n).*?(<!-- end of \2 -->)", re.S
)
COMMON = ("target", "protected", "favourable", "kind", "order", "unit", "schema", "ignore", "accept_proposals", "trust",
          "seed", "data_home", "encoding", "work", "workers", "state", "yes", "fail_on", "allow_unassessable", "sarif",
          "junit", "github", "html", "json", "quiet")  # fmt: skip
"""Options that several commands share, in the order of their table; described there, where all say the same."""
NOTE = re.compile(r"  \[(.*)\]$")
SIGNS = {">": "above", ">=": "at least", "<": "below", "<=": "at most"}
HEAD = "| option | meaning |\n| --- | --- |"


def list_commands() -> dict[str, Any]:
    """Return every command by its whole name."""
    import typer

    from evenhand.cli.main import app

    found: dict[str, Any] = {}
    for name, group in typer.main.get_command(app).commands.items():
        for inner, command in getattr(group, "commands", {"": group}).items():
            found[f"{name} {inner}".strip()] = command
    return found


def list_parameters(command: Any) -> list[Any]:
    """Return what a command takes: arguments first, then options."""
    import typer

    taken = [one for one in command.get_params(typer.Context(command)) if one.name != "help"]
    return sorted(taken, key=lambda one: one.param_type_name != "argument")


def show_name(parameter: Any) -> str:
    """Return a parameter as it is typed: ``DATA``, or ``--time-limit SECONDS``."""
    if parameter.param_type_name == "argument":
        return str(parameter.metavar or parameter.name).strip("[]").upper()
    kind = getattr(parameter, "type_descriptor", None)
    words = str(kind.annotation if kind else parameter.type).lower()
    about = str(parameter.help).lower()
    place = "FOLDER" if "folder" in about else "FILE"
    text = "COLUMN" if "column" in about else "VALUE"
    value = next((value for word, value in (("path", place), ("int", "N"), ("float", "X")) if word in words), text)
    return f"{', '.join(parameter.opts)}" + ("" if parameter.is_flag else f" {parameter.metavar or value}")


def show_meaning(parameter: Any) -> str:
    """Return the help of a parameter as Markdown, with its default and range."""
    text = str(parameter.help)
    note = NOTE.search(text)
    notes = [show_note(part) for part in note[1].split("; ")] if note else []
    text = NOTE.sub("", text)
    if parameter.param_type_name == "option":
        fixed = not note and not parameter.multiple and parameter.default not in (None, False)
        notes += [f"default {parameter.default}"] if fixed else []
        notes += ["required"] if parameter.required else []
    parts = re.split(r"(?<!\w)'([^']+)'(?!\w)|(?<![\w-])(--[a-z][a-z-]*)", text)
    for place, part in enumerate(parts):
        plain = place % 3 == 0
        parts[place] = part.replace("<", "&lt;").replace("*", "\\*") if plain else part and f"`{part}`"
    return "".join(filter(None, parts)) + (f" ({'; '.join(notes)})" if notes else "")


def show_note(note: str) -> str:
    """Return a default or a range in words: ``default 10``, ``at least 0, below 1``."""
    if note.startswith("default: "):
        return f"default {note.removeprefix('default: ').removesuffix('.0')}"
    found = re.fullmatch(r"(?:(.+?)(<=?))?x(?:([<>]=?)(.+))?", note)
    if found is None:
        return note
    low, below, sign, limit = found.groups()
    parts = [f"{'at least' if below == '<=' else 'above'} {low}"] if low else []
    return ", ".join([*parts, f"{SIGNS[sign]} {limit}"])


def write_row(parameter: Any, kept: dict[str, str]) -> str:
    """Return the row of a parameter, with what was written about it by hand."""
    name = show_name(parameter)
    shown = name.replace("|", "\\|")
    return f"| `{shown}` | {show_meaning(parameter)}{kept.get(name.split(' ')[0].rstrip(','), '')} |".replace("\n", " ")


def keep_notes(block: str) -> dict[str, str]:
    """Return what was written by hand about each parameter: what follows ``<br>`` in its row."""
    rows = re.findall(r"^\| `([^ `,]+)[^`]*` \|.*?(<br>.*) \|$", block, re.M)
    return dict(rows)


def find_common(commands: dict[str, Any]) -> dict[str, Any]:
    """Return the options of several commands, each as most of them say it."""
    found = {}
    for name in COMMON:
        said = [one for command in commands.values() for one in list_parameters(command) if one.name == name]
        found[name] = max(said, key=lambda one: sum(show_meaning(one) == show_meaning(other) for other in said))
    return found


def share(taken: list[Any], common: dict[str, Any]) -> list[Any]:
    """Return the parameters that say what the table of several commands says, in its order."""
    same = [one for one in taken if one.name in common and show_meaning(one) == show_meaning(common[one.name])]
    return sorted(same, key=lambda one: COMMON.index(one.name))


def write_usage(name: str, command: Any) -> str:
    """Return how a command is called, and what it does."""
    words = [f"evenhand {name}"]
    for one in list_parameters(command):
        if one.required:
            words.append(show_name(one))
        elif one.param_type_name == "argument":
            words.append(f"[{show_name(one)}]")
    return f"```text\n{' '.join(words)} [OPTIONS]\n```\n\n{first_paragraph(name, command)}"


def first_paragraph(name: str, command: Any) -> str:
    """Return what a command does, in a line."""
    return str(command.help).split("\n\n")[0].replace("\n", " ")


def write_options(command: Any, common: dict[str, Any], kept: dict[str, str]) -> str:
    """Return a table of what a command takes, and the names of what is described in that of several commands."""
    taken = list_parameters(command)
    shared = share(taken, common)
    own = [write_row(one, kept) for one in taken if one not in shared]
    names = ", ".join(f"`{one.opts[0]}`" for one in shared)
    link = f"[Options of several commands](../command-line.md#options-of-several-commands): {names}."
    return "\n\n".join([*(["\n".join([HEAD, *own])] if own else []), *([link] if shared else [])])


def list_pages(commands: dict[str, Any]) -> str:
    """Return a table of every command with its page and what it does, in the order of their registration."""
    places = {}
    for path in PAGES.glob("*.md"):
        names = [name for _, kind, name, _ in BLOCK.findall(path.read_text(encoding="utf-8")) if kind == "usage"]
        first = min(list(commands).index(name) for name in names)
        places |= {name: (first, number, path.name) for number, name in enumerate(names)}
    rows = []
    for name in sorted(commands, key=places.__getitem__):
        link = f"commands/{places[name][2]}#evenhand-{name.lower().replace(' ', '-')}"
        rows.append(f"| [`evenhand {name}`]({link}) | {first_paragraph(name, commands[name])} |")
    return "\n".join(["| command | what it does |", "| --- | --- |", *rows])


def written(text: str) -> str:
    """Return a page with today's commands in their places."""
    commands = list_commands()
    common = find_common(commands)

    def replace(found: re.Match[str]) -> str:
        begin, kind, name, end = found.groups()
        kept = keep_notes(found.group(0))
        if name == "all commands":
            inner = list_pages(commands)
        elif name == "several commands":
            inner = "\n".join([HEAD, *(write_row(one, kept) for one in common.values())])
        elif kind == "usage":
            inner = write_usage(name, commands[name])
        else:
            inner = write_options(commands[name], common, kept)
        return f"{begin}\n{inner}\n\n{end}"

    return BLOCK.sub(replace, text)


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT / "src"))
    for page in (*sorted(PAGES.glob("*.md")), INDEX):
        page.write_text(written(page.read_text(encoding="utf-8")), encoding="utf-8")
