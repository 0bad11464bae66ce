"""Compiled kernels: compiled once on a machine, kept on disk where there is a place to write, in memory elsewhere.

Numba looks for a place in this order: the folder that ``NUMBA_CACHE_DIR`` names, ``__pycache__`` beside the source, the
user's cache folder. Where none can be written to, every process compiles again; ``cache_problem`` says so.

A kernel is made of functions from several files, and Numba compares what it kept with one of them: after an upgrade
that mends another, the old code would go on running. So kernels are kept under a digest of all the sources of their
part of Evenhand. It does not depend on when files were written, and so a folder that is carried from one machine of
continuous integration to the next still serves.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, get_args, get_type_hints

import numba
import numpy as np
from numba.core.compiler_lock import global_compiler_lock
from numba.core.dispatcher import Dispatcher
from numba.core.types.misc import unliteral

from evenhand.core.interrupts import RUNNING_SECONDS, InterruptGuard

Arrays = TypeVar("Arrays", bound=tuple[Any, ...])

_refused: list[str] = []
_unsaved: list[str] = []


def compile_kernel(*, internal: bool = False, **options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Return a decorator that compiles a function on its first call.

    Args:
        internal: whether only kernels call it. Taking arguments from Python needs code of its own, which takes as long
            to compile as what the kernel computes; without it, a call from Python ends the process.
        options: those of ``numba.njit``, ``cache`` excepted.
    """
    if internal:
        options = options | {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}

    def compile_function(function: Callable[..., Any]) -> Any:
        try:
            kernel = numba.njit(cache=True, **options)(function)
        except RuntimeError as error:  # no folder can be written to
            _refused.append(str(error))
            kernel = numba.njit(**options)(function)
        if isinstance(kernel, Dispatcher):  # with NUMBA_DISABLE_JIT it is the function itself
            _compile_once(kernel)
            _guard_cache(kernel)
            _guard_compiler(kernel)
        return kernel

    return compile_function


def new_arrays(kind: type[Arrays], shapes: Mapping[str, int | tuple[int, ...]], **others: Any) -> Arrays:
    """Return work arrays of a kernel, filled with zeros.

    Args:
        kind: a ``NamedTuple`` whose fields say what the arrays hold.
        shapes: names of fields, separated by spaces, and the shape of each of these.
        others: the other fields.
    """
    entries = _entry_types(kind)
    made = {name: np.zeros(shape, entries[name]) for names, shape in shapes.items() for name in names.split()}
    return kind(**made, **others)


@cache
def _entry_types(kind: type[tuple[Any, ...]]) -> dict[str, Any]:
    """Return what the arrays of a named tuple hold, by field: the argument of ``NDArray``."""
    hints = {name: get_args(hint) for name, hint in get_type_hints(kind).items()}
    return {name: get_args(parts[1])[0] for name, parts in hints.items() if len(parts) == 2}


def _compile_once(kernel: Any) -> None:
    """Have a kernel compiled once for all values of its arguments: Numba compiles for each constant by default."""
    resolve = kernel.get_call_template

    def get_call_template(args: Any, kws: Any) -> Any:
        return resolve([unliteral(kind) for kind in args], kws)

    kernel.get_call_template = get_call_template


def _guard_cache(kernel: Any) -> None:
    """Compare machine code that was kept with all its sources, and let a full disk stop nothing.

    Numba offers no other way to name what the code is compared with. Sources inside an archive are left to Numba, which
    compares it with the whole archive.
    """
    kept = kernel._cache
    file: Any = getattr(kept, "_cache_file", None)
    digest = digest_sources(package_of(Path(kernel.py_func.__code__.co_filename)))
    if file is None or digest is None:
        return
    file._source_stamp = digest
    load_index, save = file._load_index, kept.save_overload

    def load_fresh_index() -> Any:
        # The index names the types of arguments, and Numba reads it before it compares sources: a type that another
        # version of Evenhand had elsewhere, or has no more, means that what was kept is out of date.
        try:
            return load_index()
        except (ImportError, AttributeError):
            return {}

    file._load_index = load_fresh_index

    def save_overload(signature: Any, code: Any) -> None:
        try:
            save(signature, code)
        except OSError as error:
            _unsaved.append(str(error.strerror))

    kept.save_overload = save_overload


def _guard_compiler(kernel: Any) -> None:
    """Let Ctrl-C and SIGTERM interrupt a compilation at any point, and pause time limits while it runs."""
    compile_signature = kernel.compile

    def compile_guarded(signature: Any) -> Any:
        with InterruptGuard(), global_compiler_lock, RUNNING_SECONDS.paused():
            return compile_signature(signature)

    kernel.compile = compile_guarded


def package_of(file: Path) -> Path:
    """Return the folder of the part of Evenhand that a file belongs to, such as ``certification``."""
    root = Path(__file__).parents[1]
    inside = [folder for folder in file.parents if folder.parent == root]
    return inside[0] if inside else file.parent


@cache
def digest_sources(folder: Path) -> str | None:
    """Return a digest of all the Python sources in a folder, of their places in it and their text; None without any."""
    total = hashlib.sha256()
    files = sorted(folder.rglob("*.py"))
    for file in files:
        text = file.read_bytes()
        total.update(f"{file.relative_to(folder).as_posix()} {len(text)}\n".encode())
        total.update(text)
    return total.hexdigest() if files else None


def is_compiled(*kernels: Any) -> bool:
    """Return whether each kernel has machine code: in this process, or on disk for these sources and this processor."""
    return all(kernel.signatures or _is_kept(kernel) for kernel in kernels)


def _is_kept(kernel: Any) -> bool:
    # Numba has no public question for this. Without an answer the kernel counts as not compiled, which costs time only.
    index = getattr(getattr(kernel, "_cache", None), "_cache_file", None)
    try:
        processor = kernel.targetctx.codegen().magic_tuple()
        return index is not None and any(kept[1] == processor for kept in index._load_index())
    except (AttributeError, IndexError, TypeError, OSError, ValueError, EOFError):
        return False


def cache_problem() -> str | None:
    """Return why compiled kernels cannot be kept for the next process, in one line; None if they are kept."""
    named = os.environ.get("NUMBA_CACHE_DIR")
    if _refused:
        where = f"NUMBA_CACHE_DIR={named}, the package's folder" if named else "the package's folder"
        return (
            f"compiled kernels cannot be kept: neither {where} nor the user's cache folder can be written to, so every "
            "run compiles again; set NUMBA_CACHE_DIR to a folder that can"
        )
    if _unsaved:
        return f"compiled kernels could not be kept ({_unsaved[0]}), so every run compiles again"
    if named and not os.access(named, os.W_OK):
        return f"NUMBA_CACHE_DIR={named} cannot be written to: compiled kernels are kept elsewhere"
    return None
