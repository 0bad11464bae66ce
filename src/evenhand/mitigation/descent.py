"""Reproducible gradient descent with PyTorch on one processor."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from evenhand.errors import MissingExtraError


@contextmanager
def deterministic_torch(seed: int) -> Iterator[None]:
    """Run PyTorch on one processor with deterministic operations and a fixed seed. Restore all settings afterwards.

    Raises:
        MissingExtraError: PyTorch is not installed.
    """
    try:
        import torch
    except ImportError:
        raise MissingExtraError("torch", extra="torch", purpose="to train a network") from None
    threads = torch.get_num_threads()
    strict, warn = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    try:
        torch.set_num_threads(1)
        torch.use_deterministic_algorithms(True)
        with torch.random.fork_rng(devices=[]):  # dropout draws from the global generator
            torch.random.default_generator.manual_seed(seed)
            yield
    finally:
        torch.use_deterministic_algorithms(strict, warn_only=warn)
        torch.set_num_threads(threads)


def descend(optimiser: Any, schedule: Any, batches: Iterable[Any], loss: Callable[[Any], Any]) -> Iterator[None]:
    """Take one gradient step per batch, and yield after each step."""
    for batch in batches:
        optimiser.zero_grad()
        loss(batch).backward()
        optimiser.step()
        schedule.step()
        yield
