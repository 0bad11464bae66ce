"""Code that is written once, as coroutines, and either runs in an event loop or blocks its caller.

Whatever waits asks `is_blocking` and waits in one way or the other. A method made by `blocks` is awaited in an event
loop; every other function runs in a thread there, so that it holds up nothing else.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import ContextVar
from functools import partial, wraps
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

T = TypeVar("T")
P = ParamSpec("P")
Owner = TypeVar("Owner")

_blocking: ContextVar[bool] = ContextVar("evenhand_blocking", default=False)


def is_blocking() -> bool:
    """Return whether the code that runs may block, because its caller waits for it."""
    return _blocking.get()


def run_blocking(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end in this thread, without an event loop; everything that it waits for blocks.

    Raises:
        RuntimeError: it waited for an event loop, so it was not written for this.
    """
    mark = _blocking.set(True)
    try:
        coroutine.send(None)
    except StopIteration as done:
        return cast(T, done.value)
    finally:
        _blocking.reset(mark)
        coroutine.close()
    raise RuntimeError("a coroutine that was to block waited for an event loop")


def blocks(
    method: Callable[Concatenate[Owner, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Owner, P], T]:
    """Return a method that waits for a coroutine; `call` awaits the coroutine itself in an event loop."""

    @wraps(method)
    def wait(owner: Owner, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return run_blocking(method(owner, *args, **kwargs))

    wait.awaited = method  # type: ignore[attr-defined]  # where `call` finds it
    return wait


def _awaited(function: Callable[..., Any]) -> Callable[..., Awaitable[Any]] | None:
    """Return what does the same as a function and is awaited; None if there is nothing such."""
    # An object that can be called has its method behind it.
    if not hasattr(function, "__name__"):
        function = cast(Any, function).__call__
    found = getattr(function, "awaited", None)
    owner = getattr(function, "__self__", None)
    return found if found is None or owner is None else partial(found, owner)


async def call(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Return what a function returns: awaited or from a thread where an event loop waits, and else directly."""
    if is_blocking():
        return function(*args, **kwargs)
    awaited = _awaited(function)
    if awaited is not None:
        return cast(T, await awaited(*args, **kwargs))
    return await _call_in_thread(lambda: function(*args, **kwargs))


async def call_quick(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Return what a function returns that does not wait: awaited where it can be, and else directly."""
    awaited = None if is_blocking() else _awaited(function)
    return function(*args, **kwargs) if awaited is None else cast(T, await awaited(*args, **kwargs))


async def _call_in_thread(work: Callable[[], T]) -> T:
    """Return what work returns, from a thread that ends with the process: what hangs does not keep it alive."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def settle(result: T | None, error: BaseException | None) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(cast(T, result))
        else:
            future.set_exception(error)

    def run() -> None:
        result: T | None = None
        error: BaseException | None = None
        try:
            result = work()
        except BaseException as raised:
            error = raised
        try:
            loop.call_soon_threadsafe(settle, result, error)
        except RuntimeError:
            return  # The loop has ended, and no caller waits any more.

    threading.Thread(target=run, name="evenhand-call", daemon=True).start()
    return await future


async def gather(*coroutines: Coroutine[Any, Any, T]) -> list[T]:
    """Return what several coroutines return: at the same time in an event loop, and else one after the other.

    The first error is raised; what has not begun by then never does.
    """
    if not is_blocking() and len(coroutines) > 1:
        return list(await asyncio.gather(*coroutines))
    try:
        return [await one for one in coroutines]
    finally:
        for one in coroutines:
            one.close()
