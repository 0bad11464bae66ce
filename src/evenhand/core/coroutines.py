"""Run the same coroutines in an event loop, or synchronously without one.

Code that waits checks ``is_blocking``, and either blocks or awaits. In an event loop, ``call`` awaits methods that are
decorated with ``blocks``, calls functions that are decorated with ``never_blocks``, and runs all others in a thread.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from functools import partial, wraps
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])
P = ParamSpec("P")
Owner = TypeVar("Owner")

_blocking: ContextVar[bool] = ContextVar("evenhand_blocking", default=False)


def is_blocking() -> bool:
    """Check whether the current code runs synchronously and may block."""
    return _blocking.get()


def run_blocking(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine synchronously in this thread, without an event loop.

    Raises:
        RuntimeError: The coroutine requires an event loop.
    """
    token = _blocking.set(True)
    try:
        coroutine.send(None)
    except StopIteration as end:
        return cast(T, end.value)
    finally:
        _blocking.reset(token)
        coroutine.close()
    raise RuntimeError("a coroutine run synchronously requires an event loop")


def blocks(
    method: Callable[Concatenate[Owner, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Owner, P], T]:
    """Decorate a coroutine method to run synchronously. In an event loop, ``call`` awaits the coroutine instead."""

    @wraps(method)
    def wait(owner: Owner, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return run_blocking(method(owner, *args, **kwargs))

    wait.awaited = method  # type: ignore[attr-defined]  # read by `call`
    return wait


def never_blocks(function: F) -> F:
    """Decorate a function that never waits, so that `call` runs it in the event loop itself."""
    function.never_blocks = True  # type: ignore[attr-defined]  # read by `call`
    return function


async def call(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a function. In an event loop, await its async variant, or run it in a thread if it has none and may wait."""
    # The decorations of a callable object are those of its method.
    method: Any = function if hasattr(function, "__name__") else cast(Any, function).__call__
    if is_blocking() or hasattr(method, "never_blocks"):
        return function(*args, **kwargs)
    if not hasattr(method, "awaited"):
        return await _call_in_thread(partial(function, *args, **kwargs))
    owner = getattr(method, "__self__", None)
    return cast(T, await method.awaited(*(() if owner is None else (owner,)), *args, **kwargs))


async def _call_in_thread(function: Callable[[], T]) -> T:
    """Run a function in a daemon thread and return its result. A hung call does not keep the process alive."""
    import asyncio  # only where an event loop runs
    from concurrent.futures import Future

    future: Future[T] = Future()
    future.set_running_or_notify_cancel()  # a started call cannot be cancelled, only its result be dropped

    def run() -> None:
        try:
            result = function()
        except BaseException as error:
            future.set_exception(error)
        else:
            future.set_result(result)

    threading.Thread(target=run, name="evenhand-call", daemon=True).start()
    return await asyncio.wrap_future(future)


async def gather(*coroutines: Coroutine[Any, Any, T]) -> list[T]:
    """Run several coroutines and return their results. In an event loop, they run concurrently, otherwise in order.

    The first error is raised. Coroutines that have not started by then do not run.
    """
    if not is_blocking() and len(coroutines) > 1:
        import asyncio  # only where an event loop runs

        return list(await asyncio.gather(*coroutines))
    try:
        return [await coroutine for coroutine in coroutines]
    finally:
        for coroutine in coroutines:
            coroutine.close()
