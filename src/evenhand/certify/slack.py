"""How far rounding can carry a number, so that what is proved holds for the model as it runs.

Two arithmetics are covered. Ours: bounds are computed in float64, and every bound on a unit is widened by ``pads``,
which hold on the whole domain. The model's: it may run in float32, whose error depends on where one looks and is
carried along with the bounds, box by box. A margin is decided only if it is further from zero than both errors and
what a float32 sigmoid or softmax can tell from a tie.

The analysis is the usual one (Higham, "Accuracy and Stability of Numerical Algorithms", 2nd ed., chapter 3): a sum of
n products in any order errs by at most ``gamma_n = n u / (1 - n u)`` times the sum of their absolute values. It assumes
that the deployed model adds up what each attribute contributes to a unit, layer by layer, in any order, with weights
and inputs rounded to float32 or better, and that nothing overflows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evenhand.errors import ModelError
from evenhand.models.additive import Affine

Floats = NDArray[np.float64]

OURS = 2.0**-53
DEPLOYED = 2.0**-24
ACTIVATION = 2.0**-21
"""A float32 sigmoid or softmax cannot tell margins below this from a tie."""
HIGHEST = 1e30
"""Numbers of this size could overflow in float32."""

TEXT = (
    "bounds in float64, widened by their rounding; margins that a float32 forward pass could carry over zero count as "
    "undecided"
)


@dataclass(frozen=True)
class Slack:
    """What is needed to bound the rounding of one query.

    Attributes:
        pads: per layer of units (the margins are the last), how much a bound computed in float64 must be widened.
        base: per first unit, size of the terms that do not depend on the unprotected attributes.
        gammas: per layer of units, relative error of a float32 sum of that many terms.
        weights, biases: per layer, absolute values, for the last as they bound the error of a margin.
    """

    pads: tuple[Floats, ...]
    base: Floats
    gammas: Floats
    weights: tuple[Floats, ...]
    biases: tuple[Floats, ...]

    def first(self, sizes: Floats) -> Floats:
        """Error of the first units in float32, from the sizes of the terms that the attributes add, (n, units)."""
        return np.asarray(self.gammas[0] * (sizes + self.base))

    def after(self, layer: int, pre: Floats, error: Floats) -> Floats:
        """Error after one more layer, from its inputs before ReLU and their errors, shape (n, units)."""
        passed = np.maximum(0.0, np.minimum(error, pre + error))
        carried = passed + self.gammas[layer + 1] * (np.maximum(pre, 0.0) + passed)
        return np.asarray(carried @ self.weights[layer] + self.gammas[layer + 1] * self.biases[layer])

    def decision(self, error: Floats) -> Floats:
        """How far from zero a margin must be, from its error in float32."""
        return np.asarray(1.001 * error + self.pads[-1] + ACTIVATION)


def gamma(n: int, unit: float) -> float:
    """Relative error bound of a sum of n products."""
    return n * unit / (1 - n * unit)


def slack_of(
    base: Floats,
    reach: Floats,
    residual: Floats,
    attributes: int,
    columns: int,
    layers: Sequence[Affine],
    fold: Floats,
) -> Slack:
    """The slack of a network over a domain.

    Args:
        base: per first unit, size of the terms that do not depend on the unprotected attributes.
        reach: per first unit, bound on the sum of the sizes of all the other terms.
        residual: per first unit, what the cells' contributions are known to miss by.
        attributes, columns: terms added up by the model, and by our bounds.
        layers: the network's layers after the first, as deployed.
        fold: (outputs, margins), makes the margins from the outputs.

    Raises:
        ModelError: numbers grow beyond what float32 can hold.
    """
    apart = np.abs(fold)
    weights = [np.abs(layer.weights) for layer in layers]
    biases = [np.abs(layer.bias) for layer in layers]
    if layers:
        weights[-1], biases[-1] = weights[-1] @ apart, biases[-1] @ apart
    sizes = base + reach
    ours = residual + gamma(attributes + 4, OURS) * sizes
    pads = [2 * (ours + gamma(columns + 4, OURS) * sizes)]
    gammas = [gamma(attributes + 8, DEPLOYED)]
    for weight, bias in zip(weights, biases, strict=True):
        # A relaxed unit's constant takes up at most its size once more, hence the factor 2.
        ours = (ours + 16 * OURS * sizes) @ weight
        sizes = 2 * sizes @ weight + bias
        ours = ours + gamma(len(weight) + 4, OURS) * sizes
        pads.append(2 * (ours + gamma(columns + 4, OURS) * sizes))
        gammas.append(gamma(len(weight) + 8, DEPLOYED))
    if not sizes.max() < HIGHEST:
        raise ModelError(
            f"the network computes with numbers up to {sizes.max():.1g}, too large to bound their rounding"
        )
    return Slack(pads=tuple(pads), base=base, gammas=np.array(gammas), weights=tuple(weights), biases=tuple(biases))
