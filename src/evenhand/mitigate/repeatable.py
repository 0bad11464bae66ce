"""PyTorch as it gives the same bits every time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from evenhand.errors import MissingExtraError


@contextmanager
def repeatable(seed: int) -> Iterator[None]:
    """PyTorch on one processor, with exactly repeatable operations and its random numbers set; all of it put back.

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
        with torch.random.fork_rng(devices=[]):  # for dropout, which draws from the global generator
            torch.random.default_generator.manual_seed(seed)
            yield
    finally:
        torch.use_deterministic_algorithms(strict, warn_only=warn)
        torch.set_num_threads(threads)
