"""Questions of certificates: domain, varied attributes, and masses.

``Question`` is the part that boxes, sampling, counterexamples and regions need, for every kind of model.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import starmap
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from evenhand.certification.query.bands import ScoreBands
from evenhand.certification.query.cells import Cells, cells_of
from evenhand.certification.query.outcomes import FAIR, UNDECIDED, UNFAIR, classify_points, possible_labels
from evenhand.certification.query.rounding import (
    ACTIVATION_ERROR,
    RoundingError,
    log_odds,
    resolution_of,
    rounding_error_of,
)
from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.errors import OptionError
from evenhand.models.additive.network import AdditiveNetwork, AffineLayer, AttributeTerm, CurveTerm, LineTerm
from evenhand.population.independent import UNIFORM_POPULATION, Marginal, ProductPopulation, UniformMarginal
from evenhand.schema.attribute import Attribute, Value
from evenhand.schema.schema import Schema
from evenhand.schema.subdomain import Subdomain, parse_subdomain

if TYPE_CHECKING:
    from evenhand.models.trees.ensemble import TreeEnsemble

OPERATIONS_PER_SECOND = 2e9
"""Conservative estimate, so that the time limit holds on a slow machine."""


@dataclass(frozen=True, kw_only=True)
class Question(ABC):
    """Question whether the label is the same under every protected assignment.

    Attributes:
        model: Model.
        protected: Names of the attributes that are varied.
        assignments: Their joint values, shape (assignments, protected). Assignments with equal effect are kept once.
        cells: Cells of the other attributes, in schema order.
        pairs: Labels (a, b) of each margin, shape (margins, 2).
        population: Name of the distribution of the masses.
        threshold: With two labels, the second is predicted if its probability exceeds this. None with more labels.
        where: Conditions that restrict the domain.
        least: Minimum number of different labels that counts as unfair treatment.
        bands: Bands of a score, if these are the labels.
        limit: Permitted change of the model's number. None for labels. Label 0, within the limit, is then required.
        number_error: Bound on the error of one number of the deployed model.
        max_enumeration: Maximum seconds of an enumeration.
    """

    model: AdditiveNetwork | TreeEnsemble
    protected: tuple[str, ...]
    assignments: Floats
    cells: tuple[Cells, ...]
    pairs: Integers
    population: str
    threshold: float | None
    where: tuple[str, ...] = ()
    least: int = 2
    bands: ScoreBands | None = None
    limit: float | None = None
    number_error: float = 0.0
    orbits: ClassVar[tuple[()]] = ()
    moved: ClassVar[tuple[str, ...] | None] = None
    no_counterpart: ClassVar[float] = 0.0
    max_enumeration: ClassVar[float]

    @property
    def query(self) -> Self:
        """The question itself. For a question about orbits, that of the heaviest orbit."""
        return self

    @property
    def schema(self) -> Schema:
        """Schema of the model's individuals."""
        return self.model.schema

    @property
    def classes(self) -> tuple[Value, ...]:
        """Labels of the model, names of its bands, or outcomes of a limit on the change of a number."""
        if self.limit is not None:
            return ("within", *(f"beyond {m}" for m in range(len(self.pairs))))
        return self.model.classes if self.bands is None else self.bands.names

    @property
    def demanded(self) -> int | None:
        """Index of the required label. None: any label is fair if it is the same under all assignments."""
        return None if self.limit is None else 0

    @property
    @abstractmethod
    def model_size(self) -> int:
        """Number of weights or tree nodes of the model."""

    @property
    @abstractmethod
    def enumerable(self) -> bool:
        """Whether all individuals of a cell combination get the same answers."""

    @property
    @abstractmethod
    def point_seconds(self) -> float:
        """Cautious estimate of the seconds that deciding a point takes."""

    @property
    @abstractmethod
    def point_size(self) -> int:
        """Number of entries of an intermediate array per point."""

    @abstractmethod
    def decide_points(self, points: Integers) -> NDArray[np.int8]:
        """Compute the outcomes of points, as cells (n, attributes)."""

    @abstractmethod
    def deployed(self, individuals: Floats) -> Integers:
        """Compute the labels in the precision of the deployed model."""

    @abstractmethod
    def numbers(self, individuals: Floats) -> Floats:
        """Compute the number that a limit is about, shape (n,)."""

    def labels(self, individuals: Floats) -> Integers:
        """Compute the labels of rows of the schema, as indices of classes, shape (n,)."""
        if self.bands is not None and self.bands.of_number:
            return self.bands.of_scores(self.model.predict_numbers(individuals))
        if self.bands is not None:
            return self.bands.of_scores(self.model.scores(individuals)[:, self.bands.favourable])
        if self.threshold is None or self.threshold == 0.5:
            return self.model.predict(individuals)
        return np.asarray(self.model.scores(individuals)[:, 1] > self.threshold, dtype=np.int64)

    def answers(self, individuals: Floats) -> Integers | Floats:
        """Compute the outputs that are compared, shape (n,): labels, or numbers."""
        return self.labels(individuals) if self.limit is None else self.numbers(individuals)

    def differ(self, answers: Integers | Floats) -> Booleans:
        """Check who is treated unfairly, shape (n,), from the answers under each assignment, shape (assignments, n)."""
        if self.limit is not None:
            return np.asarray(np.ptp(answers, axis=0) > self.limit)
        return np.asarray(count_different(answers) >= self.least)

    def confirms(self, pair: Floats) -> bool:
        """Check whether two people (2, attributes) are treated differently, by the deployed model too."""
        if self.limit is not None:
            return bool(np.ptp(self.numbers(pair)) > self.limit + 2 * self.number_error)
        labels = self.labels(pair)
        return bool(labels[0] != labels[1] and np.array_equal(labels, self.deployed(pair)))

    def answer_texts(self, individuals: Floats) -> list[str]:
        """Describe the model's answers."""
        if self.limit is not None:
            return [f"{number:,.6g}" for number in self.numbers(individuals)]
        return [str(self.classes[int(label)]) for label in self.labels(individuals)]

    @cached_property
    def counts(self) -> Integers:
        """Number of cells of each attribute."""
        return np.array([cells.count for cells in self.cells], dtype=np.int64)

    @cached_property
    def points(self) -> int:
        """Number of cell combinations."""
        return int(np.prod([int(count) for count in self.counts], dtype=object)) if self.cells else 1

    @property
    def questions(self) -> int:
        """Number of queries to the model about one person."""
        return len(self.assignments)

    @cached_property
    def constant(self) -> bool:
        """Whether the varied attributes have no effect on the model, so that everyone is treated fairly."""
        return len(self.assignments) == 1

    @cached_property
    def distance(self) -> float:
        """Bound on the total variation distance between the population and the integer weights in use."""
        return sum(cells.distance for cells in self.cells)

    def entries(self, points: NDArray[np.integer]) -> Floats:
        """Select an entry of each cell of the points, shape (n, cells)."""
        return np.array([cells.entry(points[:, i]) for i, cells in enumerate(self.cells)]).reshape(-1, len(points)).T

    def point_masses(self) -> Floats:
        """Compute the population share of each point, shape (points,)."""
        masses = np.ones(1)
        for cells in self.cells:
            weights = np.diff(cells.before(np.arange(cells.count + 1))) / cells.total
            masses = (masses[:, None] * weights).ravel()
        return masses

    def individuals(self, entries: Floats, assignment: int) -> Floats:
        """Build rows of the schema from unprotected entries (n, attributes) and one protected assignment."""
        rows = np.empty((len(entries), len(self.schema.attributes)))
        for i, cells in enumerate(self.cells):
            rows[:, cells.columns] = cells.values_of(entries[:, i])
        rows[:, self.schema.positions(self.protected)] = self.assignments[assignment]
        return rows

    def words(self, lo: NDArray[np.integer], hi: NDArray[np.integer]) -> dict[str, str]:
        """Describe a box by the attributes that it restricts."""
        return {
            cells.attribute.name: cells.words(int(lo[i]), int(hi[i]))
            for i, cells in enumerate(self.cells)
            if lo[i] > 0 or hi[i] < cells.count - 1
        }


def count_different(labels: Integers | Floats) -> Integers:
    """Count the different entries of each column, shape (n,), of labels (assignments, n)."""
    ordered = np.sort(labels, axis=0)
    return np.asarray(1 + (ordered[1:] != ordered[:-1]).sum(axis=0), dtype=np.int64)


# A network as it may run where it is deployed: in single precision.


def predict_float32(network: AdditiveNetwork, individuals: Floats, threshold: float | None = None) -> Integers:
    """Compute labels by a forward pass in float32, like a deployed model, shape (n,).

    Args:
        network: Model.
        individuals: Rows, shape (n, attributes).
        threshold: Threshold on the probability of the second of two labels. None or 0.5: the larger output.
    """
    if threshold is not None and threshold != 0.5:
        return np.asarray(_probability_float32(network, individuals) > np.float32(threshold), dtype=np.int64)
    units = _outputs_float32(network, individuals)
    if units.shape[1] == 1:
        return np.asarray(units[:, 0] > 0, dtype=np.int64)
    return np.asarray(np.argmax(units, axis=1), dtype=np.int64)


def _probability_float32(network: AdditiveNetwork, individuals: Floats) -> NDArray[np.float32]:
    """Compute the probability of the second of two labels, shape (n,)."""
    units = _outputs_float32(network, individuals)
    margin = units[:, -1] - units[:, 0] if units.shape[1] == 2 else units[:, 0]
    return np.asarray(np.float32(1) / (np.float32(1) + np.exp(-np.clip(margin, -80, 80))))


def _outputs_float32(network: AdditiveNetwork, individuals: Floats) -> NDArray[np.float32]:
    """Compute the outputs, shape (n, outputs)."""
    units = np.tile(network.bias.astype(np.float32), (len(individuals), 1))
    for i, part in enumerate(network.parts):
        entries = individuals[:, i]
        if isinstance(part, LineTerm):
            line = entries.astype(np.float32)[:, None] * part.slope.astype(np.float32)
            units += line + part.intercept.astype(np.float32)
        else:
            units += part.at(entries).astype(np.float32)
    # Some builds of OpenBLAS raise the flag of an invalid operation for products of finite numbers (numpy issue 24067).
    with np.errstate(invalid="ignore"):
        for layer in network.layers:
            units = np.maximum(units, np.float32(0)) @ layer.weights.astype(np.float32) + layer.bias.astype(np.float32)
    return np.asarray(units)


# Questions about networks: cells, a bias per protected assignment, and margins.

MAX_CLASSES = 62
"""Sets of possible labels are bits of one machine word."""


@dataclass(frozen=True, kw_only=True)
class Query(Question):
    """Question whether the label of a network is the same under every protected assignment.

    A person without the protected attributes is one cell of each of ``cells``. Under protected assignment p the first
    pre-activation is ``biases[p] + sum_i contribution_i(cell_i)``; then come ``layers``, with ReLU before each. The
    last gives one margin per pair (a, b) of classes: label b beats label a exactly when it is > 0. The label is the
    class that beats all others.

    Attributes:
        biases: Biases of the first-layer units, shape (assignments, first-layer units).
        layers: Later affine maps. Without any, the first-layer units are the margins.
        slack: Rounding error on the whole domain.
    """

    model: AdditiveNetwork
    biases: Floats
    layers: tuple[AffineLayer, ...]
    slack: RoundingError
    max_enumeration: ClassVar[float] = 20.0

    @property
    def model_size(self) -> int:
        """Number of weights of the network."""
        return int(self.biases.shape[1]) * len(self.cells) + sum(layer.weights.size for layer in self.layers)

    @cached_property
    def enumerable(self) -> bool:
        """Whether all individuals of a cell combination are equal to the network."""
        return all(cells.exact for cells in self.cells)

    @property
    def point_seconds(self) -> float:
        """Cautious estimate of the seconds that deciding a point takes."""
        work = sum(layer.weights.size for layer in self.layers) + self.biases.shape[1] * (len(self.cells) + 1)
        return float(4 * len(self.assignments) * work / OPERATIONS_PER_SECOND)

    @property
    def point_size(self) -> int:
        """Number of entries of an intermediate array per point."""
        return max(len(self.biases[0]), *(len(layer.bias) for layer in self.layers), len(self.assignments), 1)

    @cached_property
    def columns(self) -> int:
        """Number of terms of a linear function: one per attribute on a line, one per cell of the others."""
        return sum(len(cells.rows) for cells in self.cells)

    def first(self, points: NDArray[np.integer]) -> Floats:
        """Compute the terms of points, as cells (n, attributes), in the first-layer units, shape (n, units)."""
        total = np.zeros((len(points), self.biases.shape[1]))
        for i, cells in enumerate(self.cells):
            total += cells.cell_contributions(points[:, i])
        return total

    def margins(self, terms: Floats, assignment: int) -> Floats:
        """Compute the margins under one protected assignment from the result of ``first``, shape (n, margins)."""
        units = terms + self.biases[assignment]
        for layer in self.layers:
            units = np.maximum(units, 0.0) @ layer.weights + layer.bias
        return np.asarray(units)

    def decide_points(self, points: Integers) -> NDArray[np.int8]:
        """Compute the outcomes of points; undecided are those with a margin within its rounding error."""
        margins = list(self._rounded_margins(points))
        if self.limit is not None:
            ((units, reach),) = margins
            within, beyond = (units < -reach).all(axis=1), (units > reach).any(axis=1)
            return np.where(beyond, UNFAIR, np.where(within, FAIR, UNDECIDED)).astype(np.int8)
        count = len(self.classes)
        possible = [possible_labels(count, self.pairs, units > reach, units < -reach) for units, reach in margins]
        return classify_points(np.stack(possible), self.least)

    def _rounded_margins(self, points: Integers) -> Iterator[tuple[Floats, Floats]]:
        """Yield the margins under each assignment and their minimum distances from zero, both of shape (n, margins)."""
        terms = self.first(points)
        sizes = np.zeros_like(terms)
        for i, cells in enumerate(self.cells):
            sizes += np.abs(cells.cell_contributions(points[:, i]))
        for bias in self.biases:
            units, error = terms + bias, self.slack.first(sizes)
            for number, layer in enumerate(self.layers):
                error = self.slack.after(number, units, error)
                units = np.maximum(units, 0.0) @ layer.weights + layer.bias
            yield units, self.slack.decision(error)

    def deployed(self, individuals: Floats) -> Integers:
        """Compute the labels by a forward pass in float32."""
        if self.bands is not None and self.bands.of_number:
            return self.bands.of_scores(_outputs_float32(self.model, individuals)[:, 0])
        if self.bands is not None:
            second = _probability_float32(self.model, individuals)
            return self.bands.of_scores(second if self.bands.favourable == 1 else np.float32(1) - second)
        return predict_float32(self.model, individuals, self.threshold)

    def numbers(self, individuals: Floats) -> Floats:
        """Compute the single output of the network, or the margin of its second label, shape (n,)."""
        outputs = self.model.logits(individuals)
        return np.asarray(outputs[:, -1] - outputs[:, 0] if outputs.shape[1] == 2 else outputs[:, 0])


@dataclass(frozen=True, kw_only=True)
class AskedDomain:
    """Domain of a question.

    Attributes:
        protected: Names of the attributes that are varied.
        varied: Their positions in the schema.
        asked: Part of the domain that satisfies the conditions. None: all of it.
        assignments: Joint values of the protected attributes, shape (assignments, protected).
        free: Position and distribution (None: uniform) of each other attribute.
        population: Name of the distribution of the masses.
        where: Conditions that restrict the domain.
    """

    protected: tuple[str, ...]
    varied: Sequence[int]
    asked: Subdomain | None
    assignments: Floats
    free: tuple[tuple[int, Marginal | UniformMarginal | None], ...]
    population: str
    where: tuple[str, ...]

    @classmethod
    def of(
        cls,
        schema: Schema,
        protected: Sequence[str] | None,
        population: ProductPopulation | None,
        where: Sequence[str],
    ) -> AskedDomain:
        """Determine the domain; arguments and errors as for ``query_of``."""
        names = tuple(dict.fromkeys(schema.protected if protected is None else protected))
        subdomain = parse_subdomain(schema, where)
        among = (
            {name: subdomain.entries(schema[name]) for name in names if name in subdomain.allowed}
            if subdomain
            else None
        )
        assignments = schema.assignments(names, among=among)
        if population is not None and population.schema.names != schema.names:
            raise OptionError("the population and the model have different attributes")
        varied = schema.positions(names)
        marginals = [None] * len(schema.attributes) if population is None else population.marginals
        name = UNIFORM_POPULATION if population is None else population.name
        return cls(
            protected=names,
            varied=varied,
            asked=subdomain,
            assignments=assignments,
            free=tuple((i, marginal) for i, marginal in enumerate(marginals) if i not in varied),
            population=name + (f", where {subdomain}" if subdomain else ""),
            where=subdomain.conditions if subdomain else (),
        )


def query_of(
    network: AdditiveNetwork,
    protected: Sequence[str] | None = None,
    population: ProductPopulation | None = None,
    *,
    where: Sequence[str] = (),
    threshold: float | None = None,
    bands: Sequence[float] = (),
    least: int = 2,
) -> Query:
    """Bring a question to normal form.

    Args:
        network: Model.
        protected: Attributes to vary. Default: the protected attributes of the schema.
        population: Distribution of the masses. Default: uniform over the domain.
        where: Conditions on the people, see ``schema.subdomain``.
        threshold: With two labels, the second is predicted if its probability exceeds this. Default: 0.5.
        bands: Scores of the favourable label that separate bands, which replace the labels.
        least: Minimum number of different labels that counts as unfair treatment.

    Raises:
        OptionError: No attribute is protected, one has a single value, there are too many assignments or labels, the
            population has other attributes, or a condition or the threshold is invalid.
        SchemaError: A name is unknown.
    """
    domain = AskedDomain.of(network.schema, protected, population, where)
    form = NormalForm.of(network, where=where, threshold=threshold, bands=bands)
    cells = tuple(starmap(form.cells, domain.free))
    query = form.query(domain.protected, domain.assignments, cells, domain.population)
    return query if least == 2 else replace(query, least=least)


@dataclass(frozen=True, kw_only=True)
class NormalForm:
    """Network, margins and conditions of a question, without the compared people.

    Attributes:
        network: Model.
        asked: Part of the domain that satisfies the conditions. None: all of it.
        threshold: With two labels, the second is predicted if its probability exceeds this. None with more labels.
        bias: Bias of the first-layer units, shape (first-layer units,).
        parts: Terms of each attribute in the first-layer units.
        layers: Later affine maps; the last gives the margins.
        pairs: Classes (a, b) of each margin, shape (margins, 2).
        fold: Map from the outputs to the margins, shape (outputs, margins).
        resolution: Minimum distance from zero of a margin that is no tie.
        bands: Bands of the score, if these are the labels.
    """

    network: AdditiveNetwork
    asked: Subdomain | None
    threshold: float | None
    bias: Floats
    parts: tuple[AttributeTerm, ...]
    layers: tuple[AffineLayer, ...]
    pairs: Integers
    fold: Floats
    resolution: float
    bands: ScoreBands | None = None

    @classmethod
    def of(
        cls,
        network: AdditiveNetwork,
        *,
        where: Sequence[str] = (),
        threshold: float | None = None,
        bands: Sequence[float] = (),
    ) -> NormalForm:
        """Read the conditions, the threshold and the bands; see ``query_of``.

        Raises:
            OptionError: There are too many labels, or a condition or the threshold is invalid.
            SchemaError: A name is unknown.
        """
        check_labels(len(network.classes), threshold)
        subdomain = parse_subdomain(network.schema, where)
        cut = ScoreBands.of(bands, network.classes, network.favourable, threshold) if bands else None
        threshold, offset, resolution = _margin_threshold(network, threshold)
        shift: float | Floats = offset
        pairs, fold = _margin_map(network)
        if cut is not None:
            pairs, shift, resolution, threshold = cut.pairs, cut.cuts, cut.resolution, None
            fold = np.tile(fold * cut.sign, (1, len(pairs)))
        bias, parts, layers = network.bias, network.parts, network.layers
        if layers:
            layers = (*layers[:-1], AffineLayer(layers[-1].weights @ fold, layers[-1].bias @ fold - shift))
        else:
            bias, parts = bias @ fold - shift, tuple(fold_term(part, fold) for part in parts)
        return cls(
            network=network,
            asked=subdomain,
            threshold=threshold,
            bias=bias,
            parts=parts,
            layers=layers,
            pairs=pairs,
            fold=fold,
            resolution=resolution,
            bands=cut,
        )

    def cells(self, position: int, marginal: Marginal | UniformMarginal | None, held: Floats | None = None) -> Cells:
        """Build the cells of one attribute with a distribution (None: uniform), or only of the values ``held``."""
        attribute = self.network.schema.attributes[position]
        return cells_of(
            attribute,
            position,
            self.parts[position],
            marginal,
            runs=self.asked.runs(attribute) if self.asked else None,
            held=held,
        )

    def query(self, names: tuple[str, ...], assignments: Floats, cells: tuple[Cells, ...], population: str) -> Query:
        """Build the question whether the label is the same under joint values of some attributes.

        Args:
            names: Attributes that are varied.
            assignments: Their joint values, shape (assignments, len(names)).
            cells: Cells of the other attributes.
            population: Name of the distribution of the masses.
        """
        varied = self.network.schema.positions(names)
        biases = np.tile(self.bias, (len(assignments), 1))
        for column, position in enumerate(varied):
            biases += self.parts[position].at(assignments[:, column])
        # Assignments have equal effects if all their terms are equal. If only the sums are equal, float32 may still
        # distinguish them.
        terms = np.hstack([self.network.parts[i].at(assignments[:, column]) for column, i in enumerate(varied)])
        distinct = np.sort(np.unique(terms, axis=0, return_index=True)[1])
        biases = biases[distinct] + sum((each.offset for each in cells), np.zeros(len(self.bias)))
        return Query(
            model=self.network,
            protected=names,
            assignments=assignments[distinct],
            cells=cells,
            biases=biases,
            layers=self.layers,
            pairs=self.pairs,
            slack=_network_rounding(self.network, self.fold, cells, self.resolution),
            population=population,
            threshold=self.threshold,
            where=self.asked.conditions if self.asked else (),
            bands=self.bands,
        )


def check_labels(number: int, threshold: float | None) -> None:
    """Check the number of labels and the threshold."""
    if number > MAX_CLASSES:
        raise OptionError(f"certification handles up to {MAX_CLASSES} labels, the model has {number}")
    if threshold is not None and number != 2:
        raise OptionError(
            f"a threshold requires a model with two labels, but this one has {number}",
            hint="omit it to predict the label with the largest output",
        )
    if threshold is not None and not 0 < threshold < 1:
        raise OptionError(f"a threshold must lie strictly between 0 and 1, got {threshold:g}")


def _margin_threshold(network: AdditiveNetwork, threshold: float | None) -> tuple[float | None, float, float]:
    """Compute the threshold on the second label's probability, the cut of its margin, and the resolution there."""
    if threshold is None:
        return 0.5 if len(network.classes) == 2 else None, 0.0, ACTIVATION_ERROR
    return threshold, log_odds(threshold), resolution_of(threshold)


def _margin_map(network: AdditiveNetwork) -> tuple[Integers, Floats]:
    """Build the pairs of classes (a, b), and the map from the outputs to their margins, shape (outputs, margins)."""
    classes = len(network.classes)
    pairs = np.array([(a, b) for a in range(classes) for b in range(a + 1, classes)], dtype=np.int64)
    outputs = network.layers[-1].weights.shape[1] if network.layers else len(network.bias)
    if outputs == 1:
        return pairs, np.ones((1, 1))
    identity = np.eye(classes)
    return pairs, identity[:, pairs[:, 1]] - identity[:, pairs[:, 0]]


def fold_term(part: AttributeTerm, fold: Floats) -> AttributeTerm:
    """Map the terms of an attribute from units to combinations of them, by a matrix (units, combinations)."""
    if isinstance(part, LineTerm):
        return LineTerm(slope=part.slope @ fold, intercept=part.intercept @ fold)
    return replace(part, rows=part.rows @ fold)


def _network_rounding(
    network: AdditiveNetwork, fold: Floats, cells: Sequence[Cells], resolution: float
) -> RoundingError:
    base = np.abs(network.bias)
    # Attributes that only occur together add up beforehand: a float32 model adds their terms, which may be larger.
    free = {each.position for each in cells if each.joint is None}
    for i, (attribute, part) in enumerate(zip(network.schema.attributes, network.parts, strict=True)):
        # Without hidden layers the cells hold differences of outputs, whose terms may have been larger.
        if i not in free or not network.layers:
            base = base + _term_size(attribute, part)
    if not network.layers:
        base = base @ np.abs(fold)
    none = np.zeros(len(base))
    return rounding_error_of(
        base + sum((np.abs(each.offset) for each in cells), none),
        sum((each.summed_size() for each in cells), none),
        sum((each.residual for each in cells), none),
        attributes=len(network.parts),
        columns=sum(len(each.rows) for each in cells),
        layers=network.layers,
        fold=fold,
        resolution=resolution,
    )


def _term_size(attribute: Attribute, part: AttributeTerm) -> Floats:
    """Compute the largest absolute value of the terms of an attribute, shape (units,)."""
    if isinstance(part, LineTerm):
        reach = max(abs(attribute.first), abs(attribute.last))
        return np.asarray(np.abs(part.slope) * reach + np.abs(part.intercept))
    if isinstance(part, CurveTerm):
        return part.size()
    return np.asarray(np.abs(part.rows).max(axis=0))
