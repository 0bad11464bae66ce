"""Exported PyTorch programs (``.pt2``), checked before PyTorch reads them.

``torch.export.load`` unpickles parts of the file, evaluates shape expressions and guards as Python, resolves
operators by name and loads compiled libraries, so a crafted file could run code. Therefore only the parts that a plain
network needs are copied into a new archive: raw tensors, ATen operators, symbolic arithmetic. Anything else requires
the user's trust. ``torch.export.save`` writes a zip file with a JSON graph and raw weights.
"""

from __future__ import annotations

import ast
import io
import json
import logging
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from evenhand.errors import MissingExtraError, ModelError, TrustError

TENSORS = re.compile(r"data/(weights/weight_\d+|constants/tensor_\d+)")
CONFIGS = ("data/weights/model_weights_config.json", "data/constants/model_constants_config.json")
GRAPH = "models/model.json"
EXAMPLES = "data/sample_inputs/model.pt"
PLAIN = (
    "archive_format",
    "archive_version",
    "byteorder",
    ".data/version",
    ".data/serialization_id",
    ".format_version",
    ".storage_alignment",
)
OPERATOR = re.compile(
    r"torch\.ops\.aten\.(?!from_file)\w+(\.\w+)?|_operator\.(add|sub|mul|truediv|floordiv|mod|neg|getitem|lt|le|gt|ge|eq|ne)"
)
SYMBOL = re.compile(r"[a-z]+\d+")
NAME = re.compile(r"[\w.+<=-]*")
SHAPE_FUNCTIONS = {"Symbol", "Integer", "Add", "Mul", "Max", "Min", "FloorDiv", "Mod", "PythonMod"}
CONTAINERS = {None, "builtins.tuple", "builtins.list", "builtins.dict"}


def read_program(path: Path, *, trust: bool = False) -> Any:
    """Load an exported program.

    Args:
        path: File written by ``torch.export.save``.
        trust: Whether to skip the checks.

    Raises:
        TrustError: loading could run code, and ``trust`` is not set; the message names the part.
        ModelError: the file is damaged or not an exported program.
        MissingExtraError: PyTorch is not installed.
    """
    try:
        import torch
    except ImportError:
        raise MissingExtraError("torch", extra="torch", purpose="to run a PyTorch model") from None
    log = logging.getLogger("torch.export")
    was_disabled, log.disabled = log.disabled, True  # the error replaces PyTorch's log messages about damaged files
    try:
        return torch.export.load(io.BytesIO(path.read_bytes() if trust else sanitize_archive(path)))
    except (TrustError, ModelError):
        raise
    except Exception as error:
        raise ModelError(
            f"not an exported program readable by PyTorch {torch.__version__}: {type(error).__name__}",
            location=str(path),
            hint="export it with torch.export.save(torch.export.export(model, example), path)",
        ) from error
    finally:
        log.disabled = was_disabled


def sanitize_archive(path: Path) -> bytes:
    """Copy an archive without parts that could run code on loading.

    Raises:
        TrustError: such a part is required.
        zipfile.BadZipFile, KeyError, ValueError: the archive is damaged.
    """
    entries = _archive_entries(path)
    safe = {name: content for name, content in entries.items() if name in PLAIN or TENSORS.fullmatch(name)}
    for name in CONFIGS:
        config = json.loads(entries[name])
        for tensor, meta in config["config"].items():
            folder = "weights" if "weights" in name else "constants"
            if (
                not NAME.fullmatch(tensor)
                or meta.get("use_pickle")
                or not TENSORS.fullmatch(f"data/{folder}/{meta['path_name']}")
            ):
                raise _trust_error(path, f"{tensor!r} is stored as a Python object")
        safe[name] = json.dumps(config).encode()
    described = json.loads(entries[GRAPH])
    described["guards_code"] = []
    for node in _walk_dicts(described):
        if "target" in node:
            node["metadata"] = {}  # source location names, which are resolved on loading
    for reason in _find_dangers(described):
        raise _trust_error(path, reason)
    safe[GRAPH] = json.dumps(described).encode()
    safe[EXAMPLES] = b""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_STORED) as archive:
        for name, content in safe.items():
            archive.writestr(f"model/{name}", content)
    return packed.getvalue()


def _archive_entries(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        folder = archive.namelist()[0].split("/")[0] + "/"
        entries = {info.filename.removeprefix(folder): archive.read(info) for info in archive.infolist()}
    libraries = [name for name in entries if name.startswith("data/aotinductor")]
    if libraries:
        raise _trust_error(path, "it holds compiled code")
    return entries


def _find_dangers(described: dict[str, Any]) -> Iterator[str]:
    """Yield parts of a program's description that could run code."""
    for key, text in _walk_strings(described):
        if key in ("target", "as_operator"):
            if not OPERATOR.fullmatch(text):
                yield f"it calls {text[:80]}"
        elif key == "expr_str":
            if not _is_plain_arithmetic(text):
                yield f"it computes a shape by {text[:80]!r}"
        elif key in ("in_spec", "out_spec"):
            if not _has_plain_containers(text):
                yield "its inputs or outputs are custom objects"
        elif not (SYMBOL if key == "range_constraints" else NAME).fullmatch(text):
            yield f"it uses the name {text[:80]!r}"
    for node in _walk_dicts(described):
        for key in ("custom_obj_values", "treespec_namedtuple_fields"):
            if node.get(key):
                yield f"it contains custom objects ({key})"


def _walk_strings(value: Any, key: str = "") -> Iterator[tuple[str, str]]:
    """Yield every string, including keys, with its parent key."""
    if isinstance(value, str):
        yield key, value
    elif isinstance(value, list):
        for inner in value:
            yield from _walk_strings(inner, key)
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield "range_constraints" if key == "range_constraints" else "", name
            yield from _walk_strings(inner, name)


def _walk_dicts(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _walk_dicts(inner)


def _is_plain_arithmetic(expression: str) -> bool:
    try:
        tree = ast.parse(expression, mode="eval")
    except (SyntaxError, ValueError, RecursionError):
        return False
    calls = {id(node.func): node.func for node in ast.walk(tree) if isinstance(node, ast.Call)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            allowed = node.id in SHAPE_FUNCTIONS if id(node) in calls else SYMBOL.fullmatch(node.id) is not None
        elif isinstance(node, ast.Constant):
            allowed = isinstance(node.value, bool | int) or SYMBOL.fullmatch(str(node.value)) is not None
        else:
            allowed = isinstance(
                node,
                ast.Expression
                | ast.Call
                | ast.keyword
                | ast.BinOp
                | ast.UnaryOp
                | ast.expr_context
                | ast.Add
                | ast.Sub
                | ast.Mult
                | ast.FloorDiv
                | ast.Mod
                | ast.USub,
            )
        if not allowed:
            return False
    return True


def _has_plain_containers(spec: str) -> bool:
    """Return whether nested arguments are only tuples, lists and dictionaries (``context``: keys of a dictionary)."""
    return all(
        node.get("type") in CONTAINERS and re.fullmatch(r'null|\[("\w+"(, )?)*\]', node.get("context") or "null")
        for node in _walk_dicts(json.loads(spec))
    )


def _trust_error(path: Path, reason: str) -> TrustError:
    return TrustError(
        f"loading this PyTorch program could run code: {reason}",
        location=str(path),
        hint="if you trust its source: `trust=True`",
    )
