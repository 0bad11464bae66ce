"""Express the question as margins of a layered network, in exact numbers.

The sign of a margin between two labels or bands decides which of them wins. A margin of numbers is the output under
one joint protected value p minus that under another q, minus the tolerance. The protected values only shift the first
units, each by a constant, so that the change of a unit is

    relu(z + b) - relu(z + a)  =  min(max(z + b, 0), b - a)     for a < b,

a separate activation with a cap. A later unit z that changes by d satisfies, with x+ = max(x, 0) and x- = (-x)+,

    (z + d)+ - z+  =  (d+ - z-)+ + (d- - z+)+ - d-.

So the changes are a network whose weights are the model's own, none of them rounded.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from evenhand.checker.network import RecordedQuestion, count_outputs
from evenhand.checker.question import margin_pairs
from evenhand.checker.reading import CertificateError
from evenhand.core.typing import Floats
from evenhand.models.additive.network import AffineLayer, AttributeTerm, LineTerm

MAX_COMPARED = 64
"""Maximum number of joint protected values under which numbers are compared."""


@dataclass(frozen=True, kw_only=True)
class LayeredForm:
    """Network that computes the margins from the unprotected attributes.

    Attributes:
        parts: Terms of the unprotected attributes in the first units.
        bases: Exact constants of the first units, one row per joint protected value. Numbers have one row.
        sizes: Sums of the absolute values of the terms of each row.
        caps: Exact maximum of the activation of each first unit. None: unbounded.
        layers: Later layers, exact.
        margins: Outputs (a, b) of the last layer whose difference each margin is. b is -1 for a alone.
        shifts: Numbers subtracted from the margins.
        pairs: Labels (a, b) of each margin: b beats a if it is positive. For numbers, label 0 means a change within the
            tolerance, and margins 2k and 2k + 1 exclude each other.
        labels: Number of labels.
        differences: Whether the margins are changes of a number, so that label 0 is required.
    """

    parts: tuple[AttributeTerm, ...]
    bases: tuple[tuple[Fraction, ...], ...]
    sizes: Floats
    caps: Sequence[Fraction | None]
    layers: Sequence[AffineLayer]
    margins: list[tuple[int, int]]
    shifts: Floats
    pairs: tuple[tuple[int, int], ...]
    labels: int
    differences: bool = False


def form_of(question: RecordedQuestion) -> LayeredForm:
    """Build the margins of a question.

    Raises:
        CertificateError: There are too many joint protected values to compare numbers.
    """
    network, header = question.network, question.statement.header
    if header.tolerance is not None:
        return _difference_form(question, header.tolerance)
    single = count_outputs(network) == 1
    # If the score is that of the first label, the lower band has the greater margin.
    second = network.favourable == 1
    pairs = margin_pairs(header, len(network.classes), rising=second)
    if header.bands:
        ends = [log_odds(edge) for edge in header.bands]
        margins = [(0, -1) if single else (1, 0)] * len(ends)
        shifts = np.array(ends if second else [-end for end in ends])
    else:
        margins = [(0, -1)] if single else [(b, a) for a, b in pairs]
        shifts = np.full(len(pairs), 0.0 if header.threshold is None else log_odds(header.threshold))
    return LayeredForm(
        parts=question.parts,
        bases=question.bases,
        sizes=question.sizes,
        caps=[None] * len(network.bias),
        layers=network.layers,
        margins=margins,
        shifts=shifts,
        pairs=pairs,
        labels=len(header.bands) + 1 if header.bands else len(network.classes),
    )


def log_odds(threshold: float) -> float:
    """Compute the logit of a probability, to within a few units of the last place."""
    return math.log(threshold / (1 - threshold)) if threshold != 0.5 else 0.0


def _difference_form(question: RecordedQuestion, tolerance: float) -> LayeredForm:
    network, bases = question.network, question.bases
    if len(bases) > MAX_COMPARED:
        raise CertificateError(f"numbers under more than {MAX_COMPARED} joint protected values cannot be compared")
    both = (((p, q), (q, p)) for p, q in itertools.combinations(range(len(bases)), 2))
    pairs = [pair for two in both for pair in two]
    single = count_outputs(network) == 1
    if not network.layers or not pairs:
        # The protected values change the output by constants.
        outputs = [row[0] if single else row[1] - row[0] for row in bases]
        base = tuple(outputs[p] - outputs[q] for p, q in pairs) or (Fraction(0),)
        chosen = np.zeros((len(bases[0]), len(base)))
        caps: list[Fraction | None] = [None] * len(base)
        layers: list[AffineLayer] = []
        margins = [(m, -1) for m in range(len(base))]
    else:
        owners, base, caps, changes = _first_changes(bases, deep=len(network.layers) > 1)
        chosen = np.eye(len(bases[0]))[:, owners]
        layers, changes = _later_changes(network.layers, changes)
        matrix = np.concatenate([(changes[p] - changes[q]) @ network.layers[-1].weights for p, q in pairs], axis=1)
        layers.append(AffineLayer(matrix, np.zeros(matrix.shape[1])))
        margins = [(m, -1) if single else (2 * m + 1, 2 * m) for m in range(len(pairs))]
    return LayeredForm(
        parts=tuple(_select_units(part, chosen) for part in question.parts),
        bases=(base,),
        sizes=np.abs(np.array([base], dtype=np.float64)),
        caps=caps,
        layers=layers,
        margins=margins,
        shifts=np.full(len(margins), tolerance),
        pairs=tuple((0, 1 + m) for m in range(len(margins))),
        labels=1 + len(margins),
        differences=True,
    )


def _first_changes(
    bases: Sequence[Sequence[Fraction]], *, deep: bool
) -> tuple[list[int], tuple[Fraction, ...], list[Fraction | None], list[Floats]]:
    """Build the first units of the changes.

    Returns:
        The model's first unit that each new unit reads, its constant, and its cap; and for each joint protected value
        the change from the first one as a matrix (new units, first units of the model).
    """
    owners: list[int] = []
    base: list[Fraction] = []
    caps: list[Fraction | None] = []
    steps: list[tuple[int, list[int]]] = []
    # For neighbouring bases low < high, relu(z + high) - relu(z + low) = min(max(z + high, 0), high - low). So
    # the change of a unit from one joint value to another is the sum of these clamps for the steps between them, with
    # the sign of the direction.
    for j in range(len(bases[0])):
        ends = sorted({row[j] for row in bases})
        for low, high in itertools.pairwise(ends):
            steps.append((j, [int(row[j] >= high) for row in bases]))
            owners.append(j)
            base.append(high)
            caps.append(high - low)
    if deep:
        owners += range(len(bases[0]))
        base += bases[0]
        caps += [None] * len(bases[0])
    changes = [np.zeros((len(owners), len(bases[0]))) for _ in bases]
    for k, (j, above) in enumerate(steps):
        for p, change in enumerate(changes):
            change[k, j] = above[p] - above[0]
    return owners, tuple(base), caps, changes


def _later_changes(layers: Sequence[AffineLayer], changes: list[Floats]) -> tuple[list[AffineLayer], list[Floats]]:
    """Build all hidden layers and express the changes in terms of the last activations.

    Each row of a change has one entry, 1 or -1, at most: products with the model's weights are exact.
    """
    rewritten: list[AffineLayer] = []
    units, width = changes[0].shape
    own = np.eye(units, width, k=width - units)  # the last units are the model's own, if there are later layers
    number = len(changes) - 1
    for layer in layers[:-1]:
        width = len(layer.bias)
        z, moved = own @ layer.weights, [change @ layer.weights for change in changes[1:]]
        # z+, z-, then d+ and d- of each joint value but the first.
        rewritten.append(
            AffineLayer(
                np.concatenate([z, -z, *(sign * d for d in moved for sign in (1, -1))], axis=1),
                np.concatenate([layer.bias, -layer.bias, np.zeros(2 * number * width)]),
            )
        )
        # (d+ - z-)+, (d- - z+)+ and d- of each, then z+; the change of each is the first two less the third.
        signs, totals = np.zeros((2 + 2 * number, 3 * number + 1)), np.zeros((number + 1, 3 * number + 1, 1))
        for k in range(number):
            signs[[2 + 2 * k, 1, 3 + 2 * k, 0, 3 + 2 * k], 3 * k + np.array([0, 0, 1, 1, 2])] = 1, -1, 1, -1, 1
            totals[k + 1, 3 * k : 3 * k + 3, 0] = 1, 1, -1
        signs[0, 3 * number] = 1
        matrix = _unit_blocks(signs, width)
        rewritten.append(AffineLayer(matrix, np.zeros(matrix.shape[1])))
        own = _unit_blocks(np.eye(3 * number + 1)[:, -1:], width)
        changes = [_unit_blocks(total, width) for total in totals]
    return rewritten, changes


def _unit_blocks(signs: Floats, width: int) -> Floats:
    """Apply a matrix of signs to blocks of ``width`` units."""
    return np.asarray(np.kron(signs, np.eye(width)), dtype=np.float64)


def _select_units(part: AttributeTerm, chosen: Floats) -> AttributeTerm:
    """Build the terms of new units. Each column of ``chosen`` marks the model's unit that it reads, or none."""
    if isinstance(part, LineTerm):
        return LineTerm(slope=part.slope @ chosen, intercept=part.intercept @ chosen)
    return replace(part, rows=part.rows @ chosen)
