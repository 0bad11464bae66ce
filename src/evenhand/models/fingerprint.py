"""A digest of the exact numbers of a white-box network, the same on every machine."""

from __future__ import annotations

import hashlib
import json

import numpy as np
from numpy.typing import NDArray

from evenhand.models.additive import AdditiveNetwork, Line, Steps


def fingerprint(network: AdditiveNetwork) -> str:
    """SHA-256 of all that a network's answers depend on, in hexadecimal.

    Digested are, each with its length or shape before it: of every attribute the name, the kind and the domain; of
    its part the kind and the numbers; the first bias; weights and bias of every layer; the labels. Numbers are
    little-endian IEEE float64, so that one bit of one weight changes the digest. What an attribute is used for
    (protected or not) and the model's name do not enter.
    """
    state = hashlib.sha256(b"evenhand additive network 1\n")
    for attribute, part in zip(network.schema.attributes, network.parts, strict=True):
        described = [attribute.name, attribute.kind, attribute.values, attribute.first.hex(), attribute.last.hex()]
        _text(state, described)
        _text(state, type(part).__name__)
        if isinstance(part, Line):
            arrays = [part.slope, part.intercept]
        elif isinstance(part, Steps):
            arrays = [part.cuts, part.rows]
        else:
            arrays = [part.rows, np.array([part.first])]
        for array in arrays:
            _numbers(state, array)
    _numbers(state, network.bias)
    for layer in network.layers:
        _numbers(state, layer.weights)
        _numbers(state, layer.bias)
    _text(state, list(network.classes))
    return state.hexdigest()


def _text(state: hashlib._Hash, value: object) -> None:
    encoded = json.dumps(value).encode()
    state.update(len(encoded).to_bytes(8, "little") + encoded)


def _numbers(state: hashlib._Hash, array: NDArray[np.float64]) -> None:
    _text(state, list(array.shape))
    state.update(np.ascontiguousarray(array, dtype="<f8").tobytes())
