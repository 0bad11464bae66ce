#!/usr/bin/env python3
"""List the public names of every package in docs/reference/python: each with the first line of its docstring.

Run it after a public name is added, renamed or described differently; a test in tests/house says when a page is not
today's. What stands around the lists is written by hand.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src"
PAGES = ROOT / "docs" / "reference" / "python"
SIGNS = {"gt": "above", "ge": "at least", "lt": "below", "le": "at most"}
SHORT = 100
"""A longer value of a constant says nothing at a glance: its docstring is needed."""
BEGIN, END = "<!-- names: listed by tools/list_public_names.py -->", "<!-- end of names -->"


@cache
def tree(module: str) -> ast.Module:
    """Return the syntax tree of a module or package."""
    path = SOURCE.joinpath(*module.split("."))
    file = path.with_suffix(".py") if path.with_suffix(".py").exists() else path / "__init__.py"
    return ast.parse(file.read_text(encoding="utf-8"))


def bound_names(statement: ast.stmt) -> list[str]:
    """Return the names that an assignment binds."""
    targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
    return [node.id for target in targets if target for node in ast.walk(target) if isinstance(node, ast.Name)]


def public_names(module: str) -> list[str]:
    """Return what ``__all__`` lists; without it, the classes and functions that a module defines."""
    body = tree(module).body
    for statement in body:
        if isinstance(statement, ast.Assign | ast.AnnAssign) and bound_names(statement) == ["__all__"]:
            return list(ast.literal_eval(statement.value or ast.List([])))
    kinds = (ast.ClassDef, ast.FunctionDef)
    return [node.name for node in body if isinstance(node, kinds) and not node.name.startswith("_")]


def find_definition(module: str, name: str) -> tuple[ast.stmt, str]:
    """Return the statement that defines a name, looked up through the doors that hand it on, and the text under it."""
    body = tree(module).body
    for statement, following in zip(body, [*body[1:], None], strict=True):
        if isinstance(statement, ast.ClassDef | ast.FunctionDef) and statement.name == name:
            return statement, ast.get_docstring(statement) or ""
        if isinstance(statement, ast.Assign | ast.AnnAssign) and name in bound_names(statement):
            text = following.value if isinstance(following, ast.Expr) else None
            value = ast.unparse(statement.value) if statement.value else ""
            written = f"``{value}``" if 0 < len(value) <= SHORT else ""
            return statement, str(text.value) if isinstance(text, ast.Constant) else written
    for node in ast.walk(tree(module)):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("evenhand"):
            for alias in node.names:
                if (alias.asname or alias.name) == name:
                    return find_definition(node.module, alias.name)
    raise LookupError(f"{module} does not define {name}")


def first_line(text: str | None) -> str:
    """Return the first paragraph of a text in one line."""
    paragraph = " ".join((text or "").strip().split("\n\n", 1)[0].split())
    return paragraph.replace("``", "`").replace("|", "\\|")


def list_settings(package: str, name: str) -> str:
    """Return the table of a configuration's settings, those of its bases first; nothing for any other class."""
    statement, _ = find_definition(package, name)
    rows = settings_of(find_module(package, name), statement) if isinstance(statement, ast.ClassDef) else []
    return "\n".join(["| setting | default | |", "| --- | --- | --- |", *rows]) if rows else ""


def settings_of(module: str, statement: ast.ClassDef) -> list[str]:
    """Return a row for every field that a class and its bases in the same module make by ``setting``."""
    above = {node.name: node for node in tree(module).body if isinstance(node, ast.ClassDef)}
    bases = [base.id for base in statement.bases if isinstance(base, ast.Name) and base.id in above]
    rows = [row for base in bases for row in settings_of(module, above[base])]
    for node in statement.body:
        call = node.value if isinstance(node, ast.AnnAssign) else None
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "setting"):
            continue
        default, text = ast.unparse(call.args[0]), str(ast.literal_eval(call.args[1]))
        words = {word.arg: ast.literal_eval(word.value) for word in call.keywords}
        limits = [f"{SIGNS[key]} {limit}" for key, limit in words.items() if key in SIGNS]
        notes = [*([str(words["unit"])] if words.get("unit") else []), *([" and ".join(limits)] if limits else [])]
        note = f" ({', '.join(notes)})" if notes else ""
        choices = choices_of(module, node.annotation)
        text += f": {', '.join(f'`{one}`' for one in choices)}" if choices else ""
        default = "required" if default == "..." else f"`{default}`"
        rows.append(f"| `{ast.unparse(node.target)}` | {default} | {text}{note} |")
    return rows


def choices_of(module: str, annotation: ast.expr) -> list[str]:
    """Return the words that a field may be: those of a ``Literal``, by its own name or by another."""
    if isinstance(annotation, ast.BinOp):
        return choices_of(module, annotation.left)
    if isinstance(annotation, ast.Subscript) and ast.unparse(annotation.value) == "Literal":
        return [str(word) for word in ast.literal_eval(ast.Tuple([annotation.slice], ast.Load()))[0]]
    if isinstance(annotation, ast.Name):
        try:
            statement, _ = find_definition(module, annotation.id)
        except LookupError:
            return []
        value = getattr(statement, "value", None)
        return choices_of(module, value) if value is not None and not isinstance(value, ast.Name) else []
    return []


def find_module(package: str, name: str) -> str:
    """Return the module that defines a name."""
    for node in ast.walk(tree(package)):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("evenhand"):
            for alias in node.names:
                if (alias.asname or alias.name) == name:
                    return find_module(node.module, alias.name)
    return package


def list_names(package: str) -> str:
    """Return the table of a package's public names, and a place for all about its functions, then its classes."""
    rows, functions, classes = [], [], []
    for name in public_names(package):
        statement, text = find_definition(package, name)
        path = f"{package}.{name}"
        shown = f"`{name}`" if isinstance(statement, ast.Assign | ast.AnnAssign) else f"[`{name}`][{path}]"
        rows.append(f"| {shown} | {first_line(text)} |")
        if isinstance(statement, ast.FunctionDef | ast.ClassDef):
            kind = functions if isinstance(statement, ast.FunctionDef) else classes
            kind += filter(None, (f"::: {path}", list_settings(package, name)))
    parts = ["| name | |\n| --- | --- |\n" + "\n".join(rows), *functions, *classes]
    return "\n\n".join([BEGIN, *parts, END])


def listed(text: str, package: str) -> str:
    """Return a page with today's list in its place."""
    before, _, rest = text.partition(BEGIN)
    return before + list_names(package) + rest.partition(END)[2]


if __name__ == "__main__":
    for page in sorted(PAGES.glob("evenhand*.md")):
        page.write_text(listed(page.read_text(encoding="utf-8"), page.stem), encoding="utf-8")
