"""Bound rounding errors, so that proofs hold for the deployed model.

Two arithmetics are covered. Ours: bounds are computed in float64, and every bound on a unit is widened by ``pads``,
which hold on the whole domain. The model's: it may run in float32, with an error that depends on the individual and is
propagated with the bounds of each box. A margin is decided only if its distance from zero exceeds both errors and the
resolution of a float32 sigmoid or softmax at a tie or at another decision threshold (``resolution_of``).

The analysis is the usual one (Higham, "Accuracy and Stability of Numerical Algorithms", 2nd ed., chapter 3): a sum of
n products in any order errs by at most ``gamma_n = n u / (1 - n u)`` times the sum of their absolute values. It assumes
that the deployed model sums the terms of the attributes in a unit, layer by layer, in any order, with weights and
inputs rounded to float32 or better, and that nothing overflows.
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
"""Margin below which a float32 sigmoid or softmax may give a tie."""
PROBABILITY_ERROR = 2.0**-22
"""Error of a float32 probability and of its threshold: four spacings below 1."""
MAX_MAGNITUDE = 1e30
"""Numbers of this size could overflow in float32."""


@dataclass(frozen=True)
class RoundingError:
    """Bounds on the rounding errors of one query.

    Attributes:
        pads: Float64 error of bounds, per layer of units; the margins are the last.
        base: Size of the terms that do not depend on the unprotected attributes, per unit of the first layer.
        gammas: Relative error of a float32 sum of all terms, per layer of units.
        weights, biases: Absolute values per layer; for the last layer bounds for the error of a margin.
        resolution: Minimum distance from zero at which the sign of an exact margin determines the decision.
    """

    pads: tuple[Floats, ...]
    base: Floats
    gammas: Floats
    weights: tuple[Floats, ...]
    biases: tuple[Floats, ...]
    resolution: float = ACTIVATION_ERROR

    def first(self, sizes: Floats) -> Floats:
        """Compute the float32 error of the first-layer units from the sizes of the attributes' terms, (n, units)."""
        return np.asarray(self.gammas[0] * (sizes + self.base))

    def after(self, layer: int, pre: Floats, error: Floats) -> Floats:
        """Propagate the error through one more layer, given its inputs before ReLU and their errors."""
        passed = np.maximum(0.0, np.minimum(error, pre + error))
        carried = passed + self.gammas[layer + 1] * (np.maximum(pre, 0.0) + passed)
        return np.asarray(carried @ self.weights[layer] + self.gammas[layer + 1] * self.biases[layer])

    def decision(self, error: Floats) -> Floats:
        """Compute the minimum distance of a margin from zero from its float32 error."""
        return np.asarray(1.001 * error + self.pads[-1] + self.resolution)


def log_odds(threshold: float) -> float:
    """Compute the logit of a probability."""
    return math.log(threshold) - math.log1p(-threshold)


def resolution_of(threshold: float) -> float:
    """Compute the distance from ``log_odds(threshold)`` beyond which a float32 probability is on the logit's side.

    A float32 sigmoid or softmax may be computed as 1 / (1 + exp(-z)), by tanh or as a quotient of exponentials. Each
    has a few roundings with unit roundoff u = 2**-24, so the probability errs by less than e = 2**-22, including the
    rounding of the threshold to float32. The sigmoid increases, so the decision is right if the exact probability
    differs from the threshold t by more than e, that is, outside of [log_odds(t - e), log_odds(t + e)]. That interval
    is about e / (t (1 - t)) wide to each side, and is widest for thresholds near 0 and 1. Roundings of numbers of the
    size of the log-odds are added, because logits are subtracted or compared. At 0.5 the larger output decides, with a
    resolution of ``ACTIVATION_ERROR``.

    Raises:
        OptionError: The threshold is too close to 0 or 1 for float32.
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
    """Compute the relative error bound of a sum of n products."""
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
    """Bound the rounding errors of a network over a domain.

    Args:
        base: Size of the terms that do not depend on the unprotected attributes, per unit of the first layer.
        reach: Bound on the sum of the sizes of all other terms, per unit of the first layer.
        residual: Error of the cells' terms, per unit of the first layer.
        attributes, columns: Number of terms of a sum in the model, and in our bounds.
        layers: Later layers, as deployed.
        fold: Map from the outputs to the margins, shape (outputs, margins).
        resolution: See ``RoundingError``.

    Raises:
        ModelError: Numbers exceed the range of float32.
    """
    fold_sizes = np.abs(fold)
    weights = [np.abs(layer.weights) for layer in layers]
    biases = [np.abs(layer.bias) for layer in layers]
    if layers:
        weights[-1], biases[-1] = weights[-1] @ fold_sizes, biases[-1] @ fold_sizes
    sizes = base + reach
    ours = residual + summation_error(attributes + 4, BINARY64_UNIT) * sizes
    pads = [2 * (ours + summation_error(columns + 4, BINARY64_UNIT) * sizes)]
    gammas = [summation_error(attributes + 8, BINARY32_UNIT)]
    for weight, bias in zip(weights, biases, strict=True):
        # The constant of a relaxed unit is at most its size, hence the factor 2.
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
