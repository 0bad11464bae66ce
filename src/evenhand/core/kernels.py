"""Compilation of kernels by Numba, with a cache on disk.

Numba tries these cache folders in order: ``NUMBA_CACHE_DIR``, the ``__pycache__`` folder of the source, the cache
folder of the user. If none is writable, every process compiles again, and ``cache_problem`` returns the reason.

A kernel may call functions from several files, but Numba invalidates its cache by a single file. Kernels are therefore
cached under a digest of all sources of their package. The digest does not depend on file times, so a cache folder can
be copied between machines.
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
    """Build a decorator that compiles a function on its first call.

    Args:
        internal: Whether only kernels call the function. Such a kernel has no wrapper for Python, which would double
            the compile time; calling it from Python ends the process.
        options: Options of ``numba.njit`` except ``cache``.
    """
    if internal:
        options = options | {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}

    def compile_function(function: Callable[..., Any]) -> Any:
        try:
            kernel = numba.njit(cache=True, **options)(function)
        except RuntimeError as error:  # no cache folder is writable
            _refused.append(str(error))
            kernel = numba.njit(**options)(function)
        if isinstance(kernel, Dispatcher):  # with NUMBA_DISABLE_JIT, it is the function
            _compile_once(kernel)
            _guard_cache(kernel)
            _guard_compiler(kernel)
        return kernel

    return compile_function


def new_arrays(kind: type[Arrays], shapes: Mapping[str, int | tuple[int, ...]], **others: Any) -> Arrays:
    """Allocate work arrays of a kernel, filled with zeros.

    Args:
        kind: ``NamedTuple`` whose annotations define the types of the arrays.
        shapes: Names of fields, separated by spaces, with their shape.
        others: Values of the other fields.
    """
    types = _entry_types(kind)
    arrays = {name: np.zeros(shape, types[name]) for names, shape in shapes.items() for name in names.split()}
    return kind(**arrays, **others)


@cache
def _entry_types(kind: type[tuple[Any, ...]]) -> dict[str, Any]:
    """Return the types of the array entries of a named tuple, by field."""
    hints = {name: get_args(hint) for name, hint in get_type_hints(kind).items()}
    return {name: get_args(parts[1])[0] for name, parts in hints.items() if len(parts) == 2}


def _compile_once(kernel: Any) -> None:
    """Compile a kernel once for all constant arguments. By default, Numba compiles it for each constant."""
    resolve = kernel.get_call_template

    def get_call_template(args: Any, kws: Any) -> Any:
        return resolve([unliteral(kind) for kind in args], kws)

    kernel.get_call_template = get_call_template


def _guard_cache(kernel: Any) -> None:
    """Invalidate the cache by a digest of all sources, and ignore errors of a full disk.

    Numba has no public interface for this. For sources in an archive, Numba compares the whole archive.
    """
    kernel_cache = kernel._cache
    file: Any = getattr(kernel_cache, "_cache_file", None)
    digest = digest_sources(package_of(Path(kernel.py_func.__code__.co_filename)))
    if file is None or digest is None:
        return
    file._source_stamp = digest
    load_index, save = file._load_index, kernel_cache.save_overload

    def load_fresh_index() -> Any:
        # Numba reads the types of arguments before it compares sources. A type that was moved or removed means that
        # the cache is out of date.
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

    kernel_cache.save_overload = save_overload


def _guard_compiler(kernel: Any) -> None:
    """Make compilation interruptible by Ctrl-C and SIGTERM, and pause time limits during it."""
    compile_signature = kernel.compile

    def compile_guarded(signature: Any) -> Any:
        with InterruptGuard(), global_compiler_lock, RUNNING_SECONDS.paused():
            return compile_signature(signature)

    kernel.compile = compile_guarded


def package_of(file: Path) -> Path:
    """Return the folder of the package of a file, such as ``certification``."""
    root = Path(__file__).parents[1]
    packages = [folder for folder in file.parents if folder.parent == root]
    return packages[0] if packages else file.parent


@cache
def digest_sources(folder: Path) -> str | None:
    """Compute a digest of the paths and contents of all Python sources in a folder. None without sources."""
    digest = hashlib.sha256()
    files = sorted(folder.rglob("*.py"))
    for file in files:
        text = file.read_bytes()
        digest.update(f"{file.relative_to(folder).as_posix()} {len(text)}\n".encode())
        digest.update(text)
    return digest.hexdigest() if files else None


def is_compiled(*kernels: Any) -> bool:
    """Check whether each kernel is compiled, in this process or on disk for these sources and this processor."""
    return all(kernel.signatures or _is_cached(kernel) for kernel in kernels)


def _is_cached(kernel: Any) -> bool:
    # Numba has no public interface for this. A wrong "not compiled" only costs time.
    index = getattr(getattr(kernel, "_cache", None), "_cache_file", None)
    try:
        processor = kernel.targetctx.codegen().magic_tuple()
        return index is not None and any(key[1] == processor for key in index._load_index())
    except (AttributeError, IndexError, TypeError, OSError, ValueError, EOFError):
        return False


def cache_problem() -> str | None:
    """Describe why compiled kernels cannot be cached on disk. None if they are cached."""
    folder = os.environ.get("NUMBA_CACHE_DIR")
    if _refused:
        where = f"NUMBA_CACHE_DIR={folder}, the package's folder" if folder else "the package's folder"
        return (
            f"compiled kernels cannot be cached: neither {where} nor the user's cache folder is writable, so every run "
            "compiles them again; set NUMBA_CACHE_DIR to a writable folder"
        )
    if _unsaved:
        return f"compiled kernels could not be kept ({_unsaved[0]}), so every run compiles again"
    if folder and not os.access(folder, os.W_OK):
        return f"NUMBA_CACHE_DIR={folder} cannot be written to: compiled kernels are kept elsewhere"
    return None
