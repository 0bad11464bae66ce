"""A network as it may run where it is deployed: in single precision."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from evenhand.models.additive import AdditiveNetwork, Line

Floats = NDArray[np.float64]


def predict_float32(network: AdditiveNetwork, individuals: Floats, threshold: float | None = None) -> NDArray[np.int64]:
    """Labels by a forward pass in float32, as the model may run where it is deployed, shape (n,).

    Args:
        network: the model.
        individuals: shape (n, attributes).
        threshold: on the probability of the second of two labels; None or a half for the larger output.
    """
    units = np.tile(network.bias.astype(np.float32), (len(individuals), 1))
    for i, part in enumerate(network.parts):
        entries = individuals[:, i]
        if isinstance(part, Line):
            line = entries.astype(np.float32)[:, None] * part.slope.astype(np.float32)
            units += line + part.intercept.astype(np.float32)
        else:
            units += part.at(entries).astype(np.float32)
    for layer in network.layers:
        units = np.maximum(units, np.float32(0)) @ layer.weights.astype(np.float32) + layer.bias.astype(np.float32)
    if threshold is not None and threshold != 0.5:
        margin = units[:, -1] - units[:, 0] if units.shape[1] == 2 else units[:, 0]
        probability = np.float32(1) / (np.float32(1) + np.exp(-np.clip(margin, -80, 80)))
        return np.asarray(probability > np.float32(threshold), dtype=np.int64)
    if units.shape[1] == 1:
        return np.asarray(units[:, 0] > 0, dtype=np.int64)
    return np.asarray(np.argmax(units, axis=1), dtype=np.int64)
