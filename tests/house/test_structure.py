"""The house as a whole: no import cycles, no public class name twice."""

import ast
from collections import Counter
from functools import cache
from graphlib import CycleError, TopologicalSorter

import pytest
from sources import PATHS, imported_by, libraries, name_of, tree_of

DOORS = {name_of(path) for path in PATHS if path.name == "__init__.py"}


@cache
def imports():
    """The imports of every module by its dotted name."""
    return {
        name_of(path): [
            (str(node.module), alias.name)
            for node in imported_by(path)
            if isinstance(node, ast.ImportFrom) and str(node.module).split(".")[0] == "evenhand"
            for alias in node.names
        ]
        for path in PATHS
    }


def needed(module, name, found, seen=0):
    """The module that an import reaches, through the doors that hand the name on."""
    if f"{module}.{name}" in found:
        return f"{module}.{name}"
    for source, given in found[module] if module in DOORS and seen < 5 else ():
        if given == name and source != module:
            return needed(source, name, found, seen + 1)
    return module


def graph(found):
    return {
        name: {target for pair in pairs if (target := needed(*pair, found)) != name and target not in DOORS}
        for name, pairs in found.items()
        if name not in DOORS
    }


def test_no_module_needs_itself():
    try:
        TopologicalSorter(graph(imports())).prepare()
    except CycleError as error:
        pytest.fail(f"an import cycle: {' -> '.join(error.args[1])}")


def test_a_public_class_name_is_used_once():
    names = Counter(
        node.name
        for path in PATHS
        for node in tree_of(path).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert [name for name, many in names.items() if many > 1] == []


def test_one_module_opens_connections():
    clients = {"urllib3", "urllib.request", "http.client", "requests", "httpx", "aiohttp"}
    found = {
        name_of(path)
        for path in PATHS
        for library in libraries(path)
        if library in clients or library.split(".")[0] in clients
    }
    assert found == {"evenhand.core.http"}
