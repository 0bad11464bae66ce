"""The package's own modules, each read and taken apart once for all rules about them."""

import ast
from functools import cache

from support import ROOT

SOURCE = ROOT / "src"
PACKAGE = SOURCE / "evenhand"
PATHS = sorted(PACKAGE.rglob("*.py"))


def name_of(path):
    """``evenhand.core.result``; a package goes by its folder."""
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def tree_of(path):
    return ast.parse(path.read_text("utf-8"))


@cache
def nodes_of(path):
    return tuple(ast.walk(tree_of(path)))


@cache
def imported_by(path):
    """Every import, inside functions and for types alone too."""
    return tuple(node for node in nodes_of(path) if isinstance(node, ast.Import | ast.ImportFrom))


def libraries(path):
    """The modules that a file imports from; each imported name as if it were a module, too."""
    for node in imported_by(path):
        if isinstance(node, ast.ImportFrom) and node.level == 0:
            yield str(node.module)
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        else:
            yield from (alias.name for alias in node.names)
