"""Bound the difference between the deployed model in float32 and the exact numbers of its weights.

The error of a floating-point sum of n products is at most ``n u / (1 - n u)`` times the sum of the sizes of its terms,
in any order (u = 2**-24 in float32). Eight more roundings are included: of the inputs, of the weights, of a scaling
before the network. It is assumed that nothing overflows. A margin decides a label only if it exceeds this error and the
resolution of the last function.
"""

from __future__ import annotations

import math

import numpy as np

from evenhand.checker.form import log_odds
from evenhand.checker.network import RecordedQuestion
from evenhand.checker.reading import CertificateError
from evenhand.core.typing import Floats
from evenhand.models.additive.network import LineTerm

UNIT_ROUNDOFF = 2.0**-24
TIE = 2.0**-21
"""Difference of two outputs that a float32 sigmoid or softmax may not distinguish."""
PROBABILITY = 2.0**-22
"""Error of a float32 probability."""


def gamma(terms: int, unit: float) -> float:
    """Compute the relative error bound of a sum of ``terms`` products."""
    return terms * unit / (1 - terms * unit)


def number_error_of(question: RecordedQuestion) -> float:
    """Bound the float32 error of the model's number over the whole domain.

    The analysis is the same as for margins, with the largest magnitudes of all terms. All numbers are sums and products
    of nonnegative numbers, so their own rounding is less than one part in 2**30, which is added.
    """
    network = question.network
    sizes = question.sizes.max(axis=0)
    for axis, part in zip(question.axes, question.parts, strict=True):
        if isinstance(part, LineTerm):
            largest = max(abs(end) for end in axis.cells.extent)
            sizes = sizes + np.abs(part.slope) * largest + np.abs(part.intercept)
        else:
            sizes = sizes + np.abs(part.at(axis.entries(np.arange(axis.count))[0])).max(axis=0)
    terms = [len(network.parts), *(len(layer.weights) for layer in network.layers)]
    gammas = [gamma(n + 8, UNIT_ROUNDOFF) for n in terms]
    error = gammas[0] * sizes
    # Invariant, unit by unit: the exact number is at most ``sizes`` in magnitude, and float32's is off by at most
    # ``error``.
    for relative, layer in zip(gammas[1:], network.layers, strict=True):
        weights, bias = np.abs(layer.weights), np.abs(layer.bias)
        error = (error + relative * (sizes + error)) @ weights + relative * bias
        sizes = sizes @ weights + bias
    total = float(error.sum()) * (1 + 2.0**-30)
    if not total < 2.0**100:
        raise CertificateError("the numbers in the network are too large to check")
    return total


def telling_margins(question: RecordedQuestion, margins: int) -> Floats:
    """Compute the distance from zero at which the sign of each exact margin determines the decision."""
    threshold, bands = question.statement.header.threshold, question.statement.header.bands
    if bands:
        # Twice, because the first label's score is one minus the second's, which adds one rounding.
        return np.array([2 * probability_margin(edge) for edge in bands])
    # At a threshold of 0.5 the larger output decides, not a probability.
    return np.full(margins, TIE if threshold is None or threshold == 0.5 else probability_margin(threshold))


def probability_margin(threshold: float) -> float:
    """Compute the distance from a threshold beyond which a float32 probability is on the margin's side."""
    if not PROBABILITY < threshold < 1 - PROBABILITY:
        return math.inf
    middle = log_odds(threshold)
    width = max(log_odds(threshold + PROBABILITY) - middle, middle - log_odds(threshold - PROBABILITY))
    return max(TIE, 1.0005 * width) + 2.0**-23 * abs(middle)
