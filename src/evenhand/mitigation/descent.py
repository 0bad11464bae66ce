"""Training of networks with PyTorch: repeatable to the last bit, on one processor."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from evenhand.core.typing import Integers
from evenhand.errors import MissingExtraError, ModelError


@contextmanager
def deterministic_torch(seed: int) -> Iterator[None]:
    """Run PyTorch on one processor, with repeatable operations and a fixed seed; restore all settings afterwards.

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


EPOCHS = 10
"""How often everybody is learnt from: a trained network settles within a few."""

BATCH = 256
"""People per step, where there are many."""

STEPS = 30
"""Steps that an epoch has even with few people: a step then takes fewer, but not fewer than ``FEWEST``."""

FEWEST = 8
"""People per step at least: fewer say too little about where to go."""

LEARNING_RATE = 1e-3
"""Of Adam at the start; it falls to nothing along half a cosine, so that the last steps settle."""


def train_parameters(
    run: Callable[[Any], Any],
    parameters: list[Any],
    inputs: Any,
    labels: Integers,
    *,
    probable: bool,
    seed: int,
    location: str,
) -> None:
    """Change parameters so that the outputs say the labels: cross-entropy, Adam, ``EPOCHS`` times everybody.

    Args:
        run: from a batch of inputs to outputs: a single one for label 1, or one per label.
        parameters: tensors that are changed in place.
        inputs: a tensor of shape (n, inputs).
        labels: positions among the outputs (0 and 1 where there is one), shape (n,).
        probable: whether outputs are probabilities, else logits.
        seed: of the order in which people are learnt from.
        location: how to call the model in messages.

    Raises:
        ModelError: the weights became infinite.
    """
    import torch

    with deterministic_torch(seed), torch.enable_grad():
        rng = np.random.default_rng([seed, 90])
        batches = max(1, round(len(inputs) / BATCH), min(STEPS, len(inputs) // FEWEST))
        steps = EPOCHS * batches
        optimizer = torch.optim.Adam(parameters, lr=LEARNING_RATE)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=steps)
        known = torch.as_tensor(labels)
        for _ in range(EPOCHS):
            # Batches of nearly the same size: none of a single person, which a batch normalisation could not take.
            for rows in np.array_split(rng.permutation(len(inputs)), batches):
                chosen = torch.as_tensor(rows)
                optimizer.zero_grad()
                loss = _cross_entropy(run(inputs[chosen]), known[chosen], probable)
                loss.backward()
                optimizer.step()
                schedule.step()
        if not all(bool(torch.isfinite(parameter).all()) for parameter in parameters):
            raise ModelError(
                "training made its weights infinite",
                location=location,
                hint="give numbers of moderate size: say an `encoding: {offset, scale}` in the schema",
            )


def _cross_entropy(outputs: Any, labels: Any, probable: bool) -> Any:
    """Return cross-entropy of a batch."""
    from torch.nn import functional

    if isinstance(outputs, tuple | list) and len(outputs) == 1:
        outputs = outputs[0]
    outputs = outputs.reshape(len(labels), -1)
    if outputs.shape[1] == 1:
        yes = labels.to(outputs.dtype)
        if probable:
            return functional.binary_cross_entropy(outputs[:, 0], yes)
        return functional.binary_cross_entropy_with_logits(outputs[:, 0], yes)
    if probable:
        return functional.nll_loss(outputs.clamp_min(1e-12).log(), labels)
    return functional.cross_entropy(outputs, labels)
