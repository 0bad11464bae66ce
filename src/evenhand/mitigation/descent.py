"""Reproducible gradient descent with PyTorch on one processor."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from evenhand.core.typing import Integers
from evenhand.errors import MissingExtraError, ModelError


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


EPOCHS = 10
"""Number of epochs when a trained network continues to learn."""

BATCH = 256
"""Rows per batch in large training sets."""

STEPS = 30
"""Minimum number of batches per epoch. Small training sets have smaller batches, but not below ``SMALLEST_BATCH``."""

SMALLEST_BATCH = 8
"""Minimum number of rows per batch."""

LEARNING_RATE = 1e-3
"""Initial learning rate of Adam. It follows half a cosine down to 0."""


def descend(optimiser: Any, schedule: Any, batches: Iterable[Any], loss: Callable[[Any], Any]) -> Iterator[None]:
    """Take one gradient step per batch, and yield after each step."""
    for batch in batches:
        optimiser.zero_grad()
        loss(batch).backward()
        optimiser.step()
        schedule.step()
        yield


def train_parameters(
    run: Callable[[Any], Any],
    parameters: list[Any],
    inputs: Any,
    labels: Integers,
    *,
    seed: int,
    location: str,
) -> None:
    """Minimise the cross-entropy of a model by ``EPOCHS`` epochs of Adam. Parameters change in place.

    Args:
        run: Function from a batch of inputs to logits: one for label 1, or one per label.
        parameters: Tensors to train.
        inputs: Tensor of shape (n, inputs).
        labels: Indices of the outputs (0 and 1 for a single output), shape (n,).
        seed: Seed of the order of the rows.
        location: Name of the model in messages.

    Raises:
        ModelError: The weights became infinite.
    """
    import torch

    with deterministic_torch(seed), torch.enable_grad():
        rng = np.random.default_rng([seed, 90])
        batches = max(1, round(len(inputs) / BATCH), min(STEPS, len(inputs) // SMALLEST_BATCH))
        optimiser = torch.optim.Adam(parameters, lr=LEARNING_RATE)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, T_max=EPOCHS * batches)
        targets = torch.as_tensor(labels)
        orders = (np.array_split(rng.permutation(len(inputs)), batches) for _ in range(EPOCHS))
        rows = (torch.as_tensor(batch) for order in orders for batch in order)
        for _ in descend(optimiser, schedule, rows, lambda batch: _cross_entropy(run(inputs[batch]), targets[batch])):
            pass
        if not all(bool(torch.isfinite(parameter).all()) for parameter in parameters):
            raise ModelError(
                "training made the weights infinite",
                location=location,
                hint="scale the numbers to a moderate size with `encoding: {offset, scale}` in the schema",
            )


def _cross_entropy(logits: Any, labels: Any) -> Any:
    """Compute the cross-entropy of a batch."""
    from torch.nn import functional

    if logits.shape[1] == 1:
        return functional.binary_cross_entropy_with_logits(logits[:, 0], labels.to(logits.dtype))
    return functional.cross_entropy(logits, labels)
