"""Bound how far rounding can carry a number, so that what is proved holds for the model as it runs.

Two arithmetics are covered. Ours: bounds are computed in float64, and every bound on a unit is widened by ``pads``,
which hold on the whole domain. The model's: it may run in float32, whose error depends on where one looks and is
carried along with the bounds, box by box. A margin is decided only if it is further from zero than both errors and
what a float32 sigmoid or softmax can tell from a tie, or from another decision threshold (``resolution_of``).

The analysis is the usual one (Higham, "Accuracy and Stability of Numerical Algorithms", 2nd ed., chapter 3): a sum of
n products in any order errs by at most ``gamma_n = n u / (1 - n u)`` times the sum of their absolute values. It assumes
that the deployed model adds up what each attribute contributes to a unit, layer by layer, in any order, with weights
and inputs rounded to float32 or better, and that nothing overflows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evenhand.core.typing import Floats
from evenhand.errors import ModelError, OptionError
from evenhand.models.additive.network import AffineLayer

BINARY64_UNIT = 2.0**-53
BINARY32_UNIT = 2.0**-24
ACTIVATION_ERROR = 2.0**-21
"""A float32 sigmoid or softmax cannot tell margins below this from a tie."""
PROBABILITY_ERROR = 2.0**-22
"""Error of a float32 probability, of any size, and of the threshold it is compared with: four spacings below 1."""
MAX_MAGNITUDE = 1e30
"""Numbers of this size could overflow in float32."""


@dataclass(frozen=True)
class RoundingError:
    """What is needed to bound the rounding of one query.

    Attributes:
        pads: per layer of units (the margins are the last), how much a bound computed in float64 must be widened.
        base: per first unit, size of the terms that do not depend on the unprotected attributes.
        gammas: per layer of units, relative error of a float32 sum of that many terms.
        weights, biases: per layer, absolute values, for the last as they bound the error of a margin.
        resolution: how far from zero an exact margin must be for the decision to be the one that its sign says.
    """

    pads: tuple[Floats, ...]
    base: Floats
    gammas: Floats
    weights: tuple[Floats, ...]
    biases: tuple[Floats, ...]
    resolution: float = ACTIVATION_ERROR

    def first(self, sizes: Floats) -> Floats:
        """Error of the first units in float32, from the sizes of the terms that the attributes add, (n, units)."""
        return np.asarray(self.gammas[0] * (sizes + self.base))

    def after(self, layer: int, pre: Floats, error: Floats) -> Floats:
        """Error after one more layer, from its inputs before ReLU and their errors, shape (n, units)."""
        passed = np.maximum(0.0, np.minimum(error, pre + error))
        carried = passed + self.gammas[layer + 1] * (np.maximum(pre, 0.0) + passed)
        return np.asarray(carried @ self.weights[layer] + self.gammas[layer + 1] * self.biases[layer])

    def decision(self, error: Floats) -> Floats:
        """Return how far from zero a margin must be, from its error in float32."""
        return np.asarray(1.001 * error + self.pads[-1] + self.resolution)


def log_odds(threshold: float) -> float:
    """Return the logit whose sigmoid is the threshold."""
    return math.log(threshold) - math.log1p(-threshold)


def resolution_of(threshold: float) -> float:
    """Return how far from ``log_odds(threshold)`` a logit must be for a float32 probability to lie on its side of it.

    A float32 sigmoid or softmax may be computed as 1 / (1 + exp(-z)), by tanh or as a quotient of exponentials. In each
    case a unit roundoff u = 2**-24 enters a handful of times, so the probability errs by less than e = 2**-22, the
    rounding of the threshold to float32 included. The sigmoid increases: the decision is right as soon as the exact
    probability is further than e from the threshold t, that is, outside of [log_odds(t - e), log_odds(t + e)]. That
    is about e / (t (1 - t)) wide to each side: the further t is from a half, the less a probability tells about its
    logit. To this come roundings of numbers of the size of the log-odds, where logits are subtracted or compared.
    At a half itself decisions go by the larger output, which is told from a tie at ``ACTIVATION_ERROR``.

    Raises:
        OptionError: so close to 0 or 1 a float32 probability decides nothing.
    """
    if threshold == 0.5:
        return ACTIVATION_ERROR
    if not 2 * PROBABILITY_ERROR <= threshold <= 1 - 2 * PROBABILITY_ERROR:
        raise OptionError(
            f"the threshold {threshold:g} is so close to {round(threshold)} that a float32 probability cannot be "
            "compared with it",
            hint=f"a threshold between {2 * PROBABILITY_ERROR:.1g} and 1 - {2 * PROBABILITY_ERROR:.1g}",
        )
    middle = log_odds(threshold)
    width = max(log_odds(threshold + PROBABILITY_ERROR) - middle, middle - log_odds(threshold - PROBABILITY_ERROR))
    return max(ACTIVATION_ERROR, 1.001 * width) + PROBABILITY_ERROR * abs(middle)


def summation_error(n: int, unit: float) -> float:
    """Relative error bound of a sum of n products."""
    return n * unit / (1 - n * unit)


def rounding_error_of(
    base: Floats,
    reach: Floats,
    residual: Floats,
    attributes: int,
    columns: int,
    layers: Sequence[AffineLayer],
    fold: Floats,
    resolution: float = ACTIVATION_ERROR,
) -> RoundingError:
    """Return the slack of a network over a domain.

    Args:
        base: per first unit, size of the terms that do not depend on the unprotected attributes.
        reach: per first unit, bound on the sum of the sizes of all the other terms.
        residual: per first unit, what the cells' contributions are known to miss by.
        attributes, columns: terms added up by the model, and by our bounds.
        layers: the network's layers after the first, as deployed.
        fold: (outputs, margins), makes the margins from the outputs.
        resolution: see ``RoundingError``.

    Raises:
        ModelError: numbers grow beyond what float32 can hold.
    """
    apart = np.abs(fold)
    weights = [np.abs(layer.weights) for layer in layers]
    biases = [np.abs(layer.bias) for layer in layers]
    if layers:
        weights[-1], biases[-1] = weights[-1] @ apart, biases[-1] @ apart
    sizes = base + reach
    ours = residual + summation_error(attributes + 4, BINARY64_UNIT) * sizes
    pads = [2 * (ours + summation_error(columns + 4, BINARY64_UNIT) * sizes)]
    gammas = [summation_error(attributes + 8, BINARY32_UNIT)]
    for weight, bias in zip(weights, biases, strict=True):
        # A relaxed unit's constant takes up at most its size once more, hence the factor 2.
        ours = (ours + 16 * BINARY64_UNIT * sizes) @ weight
        sizes = 2 * sizes @ weight + bias
        ours = ours + summation_error(len(weight) + 4, BINARY64_UNIT) * sizes
        pads.append(2 * (ours + summation_error(columns + 4, BINARY64_UNIT) * sizes))
        gammas.append(summation_error(len(weight) + 8, BINARY32_UNIT))
    if not sizes.max() < MAX_MAGNITUDE:
        raise ModelError(
            f"the network computes with numbers up to {sizes.max():.1g}, too large to bound their rounding"
        )
    return RoundingError(
        pads=tuple(pads),
        base=base,
        gammas=np.array(gammas),
        weights=tuple(weights),
        biases=tuple(biases),
        resolution=resolution,
    )
