"""Compile kernels with Numba, and cache the machine code on disk.

Numba uses the first writable folder of ``NUMBA_CACHE_DIR``, ``__pycache__`` next to the source, and the user's cache
folder. If none is writable, a warning is issued, and every process compiles the kernels again.

A kernel calls functions from several files, but Numba checks only one of these files for changes. After an upgrade that
changes another file, it would run outdated code. Cached kernels are therefore checked against a digest of all source
files of their subpackage. The digest does not depend on file times, so the cache can be copied between machines.
"""

from __future__ import annotations

import gc
import hashlib
import warnings
from collections import namedtuple
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numba
import numpy as np
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.compiler_lock import global_compiler_lock
from numba.core.dispatcher import Dispatcher
from numba.core.types.misc import unliteral

from evenhand.core.interrupts import RUNNING_SECONDS, InterruptGuard
from evenhand.errors import KernelCacheWarning

COLLECTION_THRESHOLD = 20_000
"""Number of new objects after which garbage is collected during a compilation."""


class _InternalLibrary(JITCodeLibrary):  # type: ignore[misc]  # Numba has no types
    """Code that is turned into machine code only as a part of its callers.

    By default, Numba optimises each function together with everything it calls, so that the code of a deep call is
    optimised and written again at every level.
    """

    def _optimize_final_module(self) -> None:
        """Leave the optimisation to the callers."""

    def _finalize_final_module(self) -> None:
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        """Return 0: there is no machine code."""
        return 0

    @property
    def codegen(self) -> _InternalLibrary:
        """The library itself, which takes the environment of the function."""
        return self

    def set_env(self, name: str, env: Any) -> None:
        """Ignore the environment, which only Python wrappers need."""


class _InternalCompiler(Compiler):  # type: ignore[misc]
    """Compiler of functions that only kernels call."""

    def define_pipelines(self) -> Any:
        """Use the default passes, with an ``_InternalLibrary`` for the code."""
        self.state.library = _InternalLibrary(self.state.targetctx.codegen(), self.state.func_id.func_qualname)
        return super().define_pipelines()


def compile_kernel(*, internal: bool = False, **options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Build a decorator that compiles a function on its first call.

    Args:
        internal: Whether only kernels call the function. It is then linked into its callers, which are optimised and
            cached with all that they call, and has no Python wrapper: a call from Python crashes the process.
        options: Options of ``numba.njit``, except ``cache``.
    """
    if internal:
        options |= {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, "pipeline_class": _InternalCompiler}

    def compile_function(function: Callable[..., Any]) -> Any:
        try:
            kernel = numba.njit(cache=not internal, **options)(function)
        except RuntimeError:
            _warn_uncached("no cache folder is writable")
            kernel = numba.njit(**options)(function)
        if isinstance(kernel, Dispatcher):  # with NUMBA_DISABLE_JIT, it is the plain function
            _compile_once(kernel)
            if not internal:
                _guard_cache(kernel)
                _guard_compiler(kernel)
        return kernel

    return compile_function


def array_table(name: str, module: str, table: Mapping[str, str]) -> Any:
    """Build the named tuple type of a kernel's work arrays from their data types and shapes; see ``new_arrays``.

    Args:
        name, module: Variable that holds the type, and its module. The cache of compiled kernels refers to them.
        table: Data type and dimensions, separated by spaces; empty for a field that is no array of its own. A dimension
            is a number or a name. A key contains one or more field names.
    """
    shapes = {field: words.split() for names, words in table.items() for field in names.split()}
    kind = namedtuple(name, " ".join(table), module=module)  # type: ignore[misc]  # the names are not literals
    kind.shapes = shapes  # type: ignore[attr-defined]
    return kind


def new_arrays(kind: Any, **values: Any) -> Any:
    """Allocate work arrays, filled with zeros.

    Args:
        kind: Result of ``array_table``.
        values: Values of its dimensions, and of its other fields.
    """
    arrays = {
        name: np.zeros([int(values.get(size, size)) for size in words[1:]], words[0]) if words else values[name]
        for name, words in kind.shapes.items()
    }
    return kind(**arrays)


def pack_arrays(kind: Any, /, **values: Any) -> Any:
    """Convert values to the data types of an ``array_table``, as contiguous arrays."""
    return kind(
        **{
            name: np.ascontiguousarray(values[name], *words[:1]) if words else values[name]
            for name, words in kind.shapes.items()
        }
    )


def _warn_uncached(reason: str) -> None:
    message = f"compiled kernels cannot be cached, so every run compiles them again: {reason}"
    warnings.warn(KernelCacheWarning(f"{message}; set NUMBA_CACHE_DIR to a writable folder"), stacklevel=1)


def _compile_once(kernel: Any) -> None:
    """Compile a kernel once for all argument values. By default, Numba compiles it again for each constant."""
    resolve = kernel.get_call_template

    def get_call_template(args: Any, kws: Any) -> Any:
        return resolve([unliteral(kind) for kind in args], kws)

    kernel.get_call_template = get_call_template


def _guard_cache(kernel: Any) -> None:
    """Check cached machine code against all its sources. A full disk does not raise an error.

    Numba has no public interface for this. It checks sources inside an archive by comparing the whole archive.
    """
    kernel_cache = kernel._cache
    file: Any = getattr(kernel_cache, "_cache_file", None)
    digest = digest_sources(package_of(Path(kernel.py_func.__code__.co_filename)))
    if file is None or digest is None:
        return
    file._source_stamp = digest
    load_index, save = file._load_index, kernel_cache.save_overload

    def load_fresh_index() -> Any:
        # Numba loads the argument types in the index before it checks the sources. If a type was moved or removed, the
        # cache is outdated.
        try:
            return load_index()
        except (ImportError, AttributeError):
            return {}

    file._load_index = load_fresh_index

    def save_overload(signature: Any, code: Any) -> None:
        try:
            save(signature, code)
        except OSError as error:
            _warn_uncached(str(error.strerror))

    kernel_cache.save_overload = save_overload


def _guard_compiler(kernel: Any) -> None:
    """Allow Ctrl-C and SIGTERM to interrupt a compilation at any point, and pause time limits in the meantime."""
    compile_signature = kernel.compile

    def compile_guarded(signature: Any) -> Any:
        with InterruptGuard(), global_compiler_lock, RUNNING_SECONDS.paused(), _rare_collection():
            return compile_signature(signature)

    kernel.compile = compile_guarded


@contextmanager
def _rare_collection() -> Iterator[None]:
    """Collect garbage less often, which takes an eighth of the compile time by default."""
    thresholds = gc.get_threshold()
    gc.set_threshold(COLLECTION_THRESHOLD, *thresholds[1:])
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)


def package_of(file: Path) -> Path:
    """Return the subpackage folder of a file, such as ``certification``."""
    root = Path(__file__).parents[1]
    packages = [folder for folder in file.parents if folder.parent == root]
    return packages[0] if packages else file.parent


@cache
def digest_sources(folder: Path) -> str | None:
    """Compute a digest of the paths and contents of all Python files in a folder. None if there are none."""
    digest = hashlib.sha256()
    files = sorted(folder.rglob("*.py"))
    for file in files:
        text = file.read_bytes()
        digest.update(f"{file.relative_to(folder).as_posix()} {len(text)}\n".encode())
        digest.update(text)
    return digest.hexdigest() if files else None


def is_compiled(*kernels: Any) -> bool:
    """Check whether all kernels are compiled, in this process or on disk for the current sources and processor."""
    return all(kernel.signatures or _is_cached(kernel) for kernel in kernels)


def _is_cached(kernel: Any) -> bool:
    # Numba has no public interface for this. If its internals differ, the kernel counts as not compiled.
    index = getattr(getattr(kernel, "_cache", None), "_cache_file", None)
    try:
        processor = kernel.targetctx.codegen().magic_tuple()
        return index is not None and any(key[1] == processor for key in index._load_index())
    except (AttributeError, IndexError, TypeError, OSError, ValueError, EOFError):
        return False
