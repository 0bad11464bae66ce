"""Errors of the library name parameters; the command line says the options in their place."""

import ast
import re

from sources import PACKAGE, nodes_of

from support import ROOT


def texts_of(path):
    """Every text of a module that is no docstring, with its line."""
    nodes, prose = nodes_of(path), set()
    for node in nodes:
        body = getattr(node, "body", None)
        for one in body if isinstance(body, list) else []:
            if isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant):
                prose.add(id(one.value))
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
            yield node.lineno, node.value


OPTION = re.compile(r"(?<![\w-])--[a-z]")
DOCUMENTS = re.compile(r"(\w+_)?wording\.py|result\.py|generate\.py|save\.py|page_template\.py|screen\.py")
"""Modules whose texts are documents: they offer a next step by its command."""


def test_errors_of_the_library_name_parameters():
    """A Python caller is not told of ``--options``: errors name the parameter, and the command line its option."""
    doors = {"cli", "service"}  # which nothing but a command starts
    paths = [path for path in PACKAGE.rglob("*.py") if path.relative_to(PACKAGE).parts[0] not in doors]
    assert [
        f"{path.relative_to(ROOT)}:{number}: {text!r}"
        for path in paths
        if not DOCUMENTS.fullmatch(path.name)
        for number, text in texts_of(path)
        if OPTION.search(text)
    ] == []
