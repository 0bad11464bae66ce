"""What is asked, in the form that the engines work on: cells, a bias per protected assignment, margins."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from evenhand.certify.cells import Cells, cells_of
from evenhand.certify.deployed import predict_float32
from evenhand.certify.question import Question
from evenhand.certify.slack import ACTIVATION, Slack, log_odds, resolution_of, slack_of
from evenhand.errors import OptionError
from evenhand.models.additive import AdditiveNetwork, Affine, Line, Part
from evenhand.population import ProductPopulation
from evenhand.schema import Attribute, Schema, Subdomain, Value, subdomain

Floats = NDArray[np.float64]

MAX_CLASSES = 62
"""Sets of possible labels are bits of one machine word."""
MAX_CELLS = 2**30
"""Values of a relaxed attribute, at most."""
MAX_WINDOW = 4096
"""People within the tolerance of one person, at most: all of them are asked about when people are sampled."""
UNIFORM = "everyone in the domain, uniformly"


@dataclass(frozen=True, kw_only=True)
class Query(Question):
    """Is the label the same for every protected assignment, and for everybody within the tolerance?

    A person without the protected attributes is one cell of each of ``cells``. Under protected assignment p the first
    pre-activation is ``biases[p] + sum_i contribution_i(cell_i)``; then come ``layers``, with ReLU before each. The
    last gives one margin per pair (a, b) of classes: label b beats label a exactly when it is > 0. The label is the
    class that beats all others.

    With relaxed attributes a person is treated fairly if one label holds for all protected assignments and all people
    whose relaxed attributes are each within the tolerance of the person's own, in the part of the domain asked about,
    everything else the same. That these labels are all one is the whole condition, although a pair of people is only
    compared if its protected values differ: where two people with the same protected value get different labels,
    either of the two and a person with another protected value make such a pair.

    Attributes:
        network: the model asked about.
        biases: shape (assignments, first units).
        layers: affine maps after the first; without any, the first units are the margins themselves.
        pairs: classes (a, b) of each margin, shape (margins, 2).
        slack: rounding slack, valid on the whole domain.
    """

    network: AdditiveNetwork
    biases: Floats
    layers: tuple[Affine, ...]
    pairs: NDArray[np.int64]
    slack: Slack

    @property
    def schema(self) -> Schema:
        """What the network's individuals are."""
        return self.network.schema

    @property
    def classes(self) -> tuple[Value, ...]:
        """The network's labels."""
        return self.network.classes

    @cached_property
    def exact(self) -> bool:
        """Whether all individuals of a cell combination are the same to the network."""
        return all(cells.exact for cells in self.cells)

    @cached_property
    def columns(self) -> int:
        """Terms of a linear function: one per attribute that enters along a line, one per cell of the others."""
        return sum(len(cells.rows) for cells in self.cells)

    def first(self, points: NDArray[np.integer]) -> Floats:
        """What points (n, attributes), given as cells, add to the first units, shape (n, units)."""
        total = np.zeros((len(points), self.biases.shape[1]))
        for i, cells in enumerate(self.cells):
            total += cells.contributions(points[:, i])
        return total

    def margins(self, first: Floats, assignment: int) -> Floats:
        """Margins under one protected assignment, from what ``first`` gave, shape (n, margins)."""
        units = first + self.biases[assignment]
        for layer in self.layers:
            units = np.maximum(units, 0.0) @ layer.weights + layer.bias
        return np.asarray(units)

    def labels(self, individuals: Floats) -> NDArray[np.int64]:
        """The model's labels for rows of its schema, as positions in its classes, shape (n,)."""
        if self.threshold is None or self.threshold == 0.5:
            return self.network.predict(individuals)
        return np.asarray(self.network.scores(individuals)[:, 1] > self.threshold, dtype=np.int64)

    def deployed(self, individuals: Floats) -> NDArray[np.int64]:
        """Labels by a forward pass in float32."""
        return predict_float32(self.network, individuals, self.threshold)


def query_of(
    network: AdditiveNetwork,
    protected: Sequence[str] | None = None,
    population: ProductPopulation | None = None,
    *,
    where: Sequence[str] = (),
    threshold: float | None = None,
    relax: Mapping[str, float] | None = None,
) -> Query:
    """Bring a question to normal form.

    Args:
        network: the model.
        protected: attributes to vary; by default those that the schema protects.
        population: what masses are measured by; by default uniform over the domain.
        where: conditions on the people asked about, see ``schema.subdomain``.
        threshold: with two labels, the second is given if its probability is greater; by default a half.
        relax: by how much attributes that are not protected may differ between the people compared.

    Raises:
        OptionError: no attribute is protected, one has a single value, there are too many assignments or labels, the
            population is about other attributes, or a condition, the threshold or a tolerance makes no sense.
        SchemaError: an unknown name.
    """
    schema = network.schema
    names = tuple(dict.fromkeys(schema.protected if protected is None else protected))
    asked = subdomain(schema, where)
    among = {name: asked.entries(schema[name]) for name in names if name in asked.allowed} if asked else None
    assignments = schema.assignments(names, among=among)
    threshold, shift, resolution = _threshold(network, threshold)
    tolerances = _tolerances(schema, names, relax or {}, asked)
    if len(network.classes) > MAX_CLASSES:
        raise OptionError(f"certification handles up to {MAX_CLASSES} labels, the model has {len(network.classes)}")
    if population is not None and population.schema.names != schema.names:
        raise OptionError("the population and the model are about different attributes")
    varied = schema.positions(names)
    pairs, fold = _fold(network)
    bias, parts = network.bias, network.parts
    if not network.layers:
        bias, parts = bias @ fold - shift, tuple(_folded(part, fold) for part in parts)
    biases = np.tile(bias, (len(assignments), 1))
    for column, position in enumerate(varied):
        biases += parts[position].at(assignments[:, column])
    # Alike are assignments whose every term is the same: where only their sums are, float32 may still tell them apart.
    terms = np.hstack([network.parts[i].at(assignments[:, column]) for column, i in enumerate(varied)])
    kept = np.sort(np.unique(terms, axis=0, return_index=True)[1])
    if len(kept) == 1 and tolerances:
        # People are compared with others all the same, and these have another protected value.
        kept = np.arange(2)
    cells = tuple(
        cells_of(
            attribute,
            i,
            parts[i],
            None if population is None else population.marginals[i],
            runs=asked.runs(attribute) if asked else None,
            stepwise=attribute.name in tolerances,
        )
        for i, attribute in enumerate(schema.attributes)
        if i not in varied
    )
    biases = biases[kept] + sum((each.offset for each in cells), np.zeros(len(bias)))
    layers = network.layers
    if layers:
        layers = (*layers[:-1], Affine(layers[-1].weights @ fold, layers[-1].bias @ fold - shift))
    return Query(
        network=network,
        protected=names,
        assignments=assignments[kept],
        cells=cells,
        biases=biases,
        layers=layers,
        pairs=pairs,
        slack=_slack(network, fold, cells, resolution),
        population=(UNIFORM if population is None else population.name) + (f", where {asked}" if asked else ""),
        tolerance=np.array(
            [min(tolerances.get(each.attribute.name, 0), each.count - 1) for each in cells], dtype=np.int64
        ),
        threshold=threshold,
        where=asked.conditions if asked else (),
    )


def _threshold(network: AdditiveNetwork, threshold: float | None) -> tuple[float | None, float, float]:
    """The threshold on the second label's probability, the same on its margin, and what margins can be told from it."""
    if len(network.classes) != 2:
        if threshold is not None:
            raise OptionError(
                f"a threshold is for models with two labels, and this one has {len(network.classes)}",
                mend="leave it out: the label with the largest output is given",
            )
        return None, 0.0, ACTIVATION
    if threshold is None:
        return 0.5, 0.0, ACTIVATION
    if not 0 < threshold < 1:
        raise OptionError(f"a threshold lies between 0 and 1, both excluded, and {threshold:g} does not")
    return threshold, log_odds(threshold), resolution_of(threshold)


def _tolerances(
    schema: Schema, protected: Sequence[str], relax: Mapping[str, float], asked: Subdomain | None
) -> dict[str, int]:
    """Tolerances in values of each relaxed attribute, checked."""
    found: dict[str, int] = {}
    for name, tolerance in relax.items():
        attribute = schema[name]
        if name in protected:
            raise OptionError(
                f"{name!r} is protected, so all its values are compared anyway", mend="relax another attribute"
            )
        if not attribute.ordered:
            raise OptionError(f"{name!r} has no order, so no difference of its values is small")
        if attribute.size is None:
            raise OptionError(
                f"{name!r} is a real number: nobody can be compared with all the people close to him",
                mend="relax integers and ordinal attributes; describe it as integer, or as ordinal with `edges: [...]`",
            )
        if not (math.isfinite(tolerance) and tolerance >= 0 and tolerance == int(tolerance)):
            raise OptionError(f"the tolerance of {name!r} is a whole number of values, not {tolerance:g}")
        if attribute.size > MAX_CELLS:
            raise OptionError(f"{name!r} has {attribute.size:,} values, more than can be compared one by one")
        if asked is not None and len(asked.runs(attribute)) > 1:
            raise OptionError(f"{name!r} is relaxed, so the conditions must leave it one range of values")
        if tolerance:
            found[name] = min(int(tolerance), attribute.size - 1)
    window = math.prod(2 * width + 1 for width in found.values())
    if window > MAX_WINDOW:
        raise OptionError(
            f"{window:,} people are within the tolerance of one person, more than {MAX_WINDOW:,}",
            mend="relax fewer attributes, or by less",
        )
    return found


def _fold(network: AdditiveNetwork) -> tuple[NDArray[np.int64], Floats]:
    """Pairs of classes (a, b), and the map from the outputs to their margins, shape (outputs, margins)."""
    classes = len(network.classes)
    pairs = np.array([(a, b) for a in range(classes) for b in range(a + 1, classes)], dtype=np.int64)
    outputs = network.layers[-1].weights.shape[1] if network.layers else len(network.bias)
    if outputs == 1:
        return pairs, np.ones((1, 1))
    identity = np.eye(classes)
    return pairs, identity[:, pairs[:, 1]] - identity[:, pairs[:, 0]]


def _folded(part: Part, fold: Floats) -> Part:
    if isinstance(part, Line):
        return Line(slope=part.slope @ fold, intercept=part.intercept @ fold)
    return replace(part, rows=part.rows @ fold)


def _slack(network: AdditiveNetwork, fold: Floats, cells: Sequence[Cells], resolution: float) -> Slack:
    base = np.abs(network.bias)
    free = {each.position for each in cells}
    for i, (attribute, part) in enumerate(zip(network.schema.attributes, network.parts, strict=True)):
        # Without hidden layers the cells hold differences of outputs, whose terms may have been larger.
        if i not in free or not network.layers:
            base = base + _size(attribute, part)
    if not network.layers:
        base = base @ np.abs(fold)
    none = np.zeros(len(base))
    return slack_of(
        base + sum((np.abs(each.offset) for each in cells), none),
        sum((each.size() for each in cells), none),
        sum((each.residual for each in cells), none),
        attributes=len(network.parts),
        columns=sum(len(each.rows) for each in cells),
        layers=network.layers,
        fold=fold,
        resolution=resolution,
    )


def _size(attribute: Attribute, part: Part) -> Floats:
    """Largest absolute value of the terms that any value of the attribute adds, shape (units,)."""
    if isinstance(part, Line):
        reach = max(abs(attribute.first), abs(attribute.last))
        return np.asarray(np.abs(part.slope) * reach + np.abs(part.intercept))
    return np.asarray(np.abs(part.rows).max(axis=0))
