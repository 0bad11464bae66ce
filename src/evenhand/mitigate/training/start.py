"""A given network as something to train on from: its inputs scaled, one logit for the favourable label."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from evenhand.errors import OptionError
from evenhand.mitigate.training.encoding import Block, Encoding
from evenhand.mitigate.training.saving import dense
from evenhand.models.additive import AdditiveNetwork, Line, Table, plain_line
from evenhand.schema import Schema

Layers = list[tuple[NDArray[np.float64], NDArray[np.float64]]]


def begin(network: AdditiveNetwork, schema: Schema, individuals: NDArray[np.float64]) -> tuple[Encoding, Layers]:
    """The encoding of a network's own inputs, and its layers over it: together they give the network's logits.

    Numbers, and categories that the network sees as one number, are scaled by the people learnt from, since steps of
    one size suit no inputs of many sizes. What a category's values stand for stays as it is.

    Args:
        network: of two labels.
        schema: of the people learnt from; it has the network's attributes.
        individuals: who is learnt from, shape (n, attributes).

    Raises:
        OptionError: the network is about others, has other labels than two, or sees a number by bins.
    """
    if network.schema.names != schema.names:
        raise OptionError("the network to start from is about other attributes", where=network.name)
    if not startable(network):
        raise OptionError(
            "such a network cannot be trained on: it needs two labels, and numbers that enter along a line",
            where=network.name,
        )
    described, layers = dense(network)
    weights, bias = layers[0]
    blocks, rows = [], []
    row = start = 0
    for i, attribute in enumerate(described.attributes):
        own = weights[row : row + attribute.width]
        row += attribute.width
        if attribute.width > 1 or attribute.encoding == "one-hot":
            block = Block(start, attribute.width)
        else:
            if attribute.discrete_values:
                codes = attribute.inputs(attribute.domain())[:, 0]
                seen = codes[individuals[:, i].astype(np.int64)]
            else:
                codes, seen = None, individuals[:, i]
                slope, intercept = plain_line(attribute)
                bias = bias + own[0] * intercept
                own = own * slope
            offset, scale = float(seen.mean()), float(seen.std()) or 1.0
            bias = bias + own[0] * offset
            own = own * scale
            block = Block(start, 1, offset, scale, None if codes is None else tuple(float(code) for code in codes))
        blocks.append(block)
        rows.append(own)
        start += block.width
    layers[0] = np.concatenate(rows), bias
    last, shift = layers[-1]
    if last.shape[1] == 1:
        sign = 1.0 if network.favourable == 1 else -1.0
        layers[-1] = sign * last, sign * shift
    else:
        yes, no = network.favourable, 1 - network.favourable
        layers[-1] = last[:, [yes]] - last[:, [no]], shift[[yes]] - shift[[no]]
    return Encoding(schema, tuple(blocks)), layers


def startable(network: AdditiveNetwork) -> bool:
    """Whether it has two labels, its numbers enter along lines and its categories by tables."""
    pairs = zip(network.schema.attributes, network.parts, strict=True)
    return len(network.classes) == 2 and all(
        isinstance(part, Line) or (isinstance(part, Table) and attribute.discrete_values) for attribute, part in pairs
    )
