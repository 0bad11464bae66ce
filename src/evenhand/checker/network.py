"""Rebuild the question of a certificate from a network, with the terms of protected attributes in exact sums."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from evenhand.checker.question import (
    AskedQuestion,
    RecordedDomain,
    margin_pairs,
    recorded_domain_of,
    require_fingerprint,
)
from evenhand.checker.reading import CertificateClaim, CertificateError, RecordedCells
from evenhand.core.typing import Floats
from evenhand.models.additive.network import (
    AdditiveNetwork,
    AttributeTerm,
    CurveTerm,
    LineTerm,
    StepTerm,
    TableTerm,
    network_fingerprint,
)
from evenhand.schema.attribute import Attribute

MAX_ASSIGNMENTS = 100_000


@dataclass(frozen=True, kw_only=True)
class RecordedQuestion(RecordedDomain):
    """Network, values of the protected attributes, and domain.

    Attributes:
        network: Model.
        bases: Exact sums of the bias and the protected terms in the first units, one row per different assignment.
        sizes: Sums of the absolute values of the terms of each row.
    """

    network: AdditiveNetwork
    bases: tuple[tuple[Fraction, ...], ...]
    sizes: Floats

    @property
    def parts(self) -> tuple[AttributeTerm, ...]:
        """Terms that the unprotected attributes add to the first units."""
        return tuple(self.network.parts[axis.position] for axis in self.axes)

    @cached_property
    def constant(self) -> bool:
        """Whether each protected attribute adds equal terms for all its values, so that it has no effect."""
        schema, parts = self.network.schema, self.network.parts
        return all(
            len({exact_terms(parts[schema.position(name)], entry)[0] for entry in entries}) == 1
            for name, entries in self.statement.header.protected.items()
        )


def recorded_question_of(
    statement: CertificateClaim, network: AdditiveNetwork, question: AskedQuestion | None = None
) -> RecordedQuestion:
    """Rebuild the question from a network and the file, and compare it with the user's question.

    Raises:
        CertificateError: The model, domain or population does not match, or the cells do not partition the domain.
        OptionError: The question is not valid for this schema.
    """
    _require_network(statement, network)

    def check_cells(attribute: Attribute, position: int, cells: RecordedCells) -> None:
        _check_bins(attribute, network.parts[position], cells)

    domain = recorded_domain_of(statement, network.schema, question or AskedQuestion(), check_cells)
    bases, sizes = _assignment_bases(statement, network)
    return RecordedQuestion(**vars(domain), network=network, bases=bases, sizes=sizes)


def _require_network(statement: CertificateClaim, network: AdditiveNetwork) -> None:
    """Check that the network is that of the certificate and that the settings are valid for it."""
    curved = [
        attribute.name
        for attribute, part in zip(network.schema.attributes, network.parts, strict=True)
        if isinstance(part, CurveTerm)
    ]
    if curved:
        raise CertificateError(
            f"{curved[0]!r} enters the model through a curve (a logarithm, a power, quantiles), which cannot be "
            "computed in fractions: no certificate of such a model can be checked"
        )
    require_fingerprint(statement, "network", network_fingerprint(network))
    margin_pairs(statement.header, len(network.classes), rising=True)
    if not network.classes and statement.header.tolerance is None:
        raise CertificateError("a certificate of a model that predicts a number needs a tolerance, and it has none")
    if statement.header.tolerance is not None and count_outputs(network) > 2:
        raise CertificateError(f"a tolerance cannot be used with a model of {count_outputs(network)} outputs")


def count_outputs(network: AdditiveNetwork) -> int:
    """Count the outputs of a network."""
    return network.layers[-1].weights.shape[1] if network.layers else len(network.bias)


def _check_bins(attribute: Attribute, part: AttributeTerm, cells: RecordedCells) -> None:
    """Check that a network with bins treats all entries of a cell equally."""
    if isinstance(part, TableTerm) and cells.form != "listed":
        raise CertificateError(f"a cell of {attribute.name!r} holds several values that the model distinguishes")
    if isinstance(part, LineTerm) and cells.starts is not None and cells.form == "listed":
        steps = np.diff(cells.starts)
        if not ((steps > 0).all() or (steps < 0).all()):
            raise CertificateError(f"the cells of {attribute.name!r} are out of order")
    if isinstance(part, StepTerm):
        if cells.starts is None:
            raise CertificateError(f"a cell of {attribute.name!r} holds several bins of the model")
        ends = cells.starts if cells.ends is None else cells.ends
        is_last = np.full(cells.count, False)
        is_last[-1] = True
        # A cell of a real attribute excludes its end, unless it is the last cell or a single point.
        closed = is_last | (ends == cells.starts) | (attribute.size is not None)
        first_bin = np.searchsorted(part.cuts, cells.starts, side="right")
        last_bin = np.where(
            closed, np.searchsorted(part.cuts, ends, side="right"), np.searchsorted(part.cuts, ends, side="left")
        )
        if (first_bin != last_bin).any():
            raise CertificateError(f"a cell of {attribute.name!r} holds several bins of the model")


def _assignment_bases(
    statement: CertificateClaim, network: AdditiveNetwork
) -> tuple[tuple[tuple[Fraction, ...], ...], Floats]:
    """Compute the different exact sums of the bias and the protected terms, and the sizes of their terms."""
    names = list(statement.header.protected)
    if math.prod(len(statement.header.protected[name]) for name in names) > MAX_ASSIGNMENTS:
        raise CertificateError(f"more than {MAX_ASSIGNMENTS:,} joint values of the protected attributes")
    bias = tuple(Fraction(float(x)) for x in network.bias)
    rows: dict[tuple[Fraction, ...], Floats] = {bias: np.abs(network.bias)}
    for name in names:
        part, sums = network.parts[network.schema.position(name)], dict[tuple[Fraction, ...], Floats]()
        added = [exact_terms(part, entry) for entry in statement.header.protected[name]]
        for (row, size), (terms, more) in itertools.product(rows.items(), added):
            key = tuple(a + b for a, b in zip(row, terms, strict=True))
            sums[key] = np.maximum(sums.get(key, np.zeros(len(more))), size + more)
        rows = sums
    return tuple(rows), np.array(list(rows.values()))


def exact_terms(part: AttributeTerm, entry: float) -> tuple[tuple[Fraction, ...], Floats]:
    """Compute the exact terms of one entry in the first units, and their sizes."""
    if isinstance(part, LineTerm):
        pairs = zip(part.slope.tolist(), part.intercept.tolist(), strict=True)
        exact = tuple(Fraction(slope) * Fraction(entry) + Fraction(intercept) for slope, intercept in pairs)
        return exact, np.abs(part.slope * entry) + np.abs(part.intercept)
    row = part.at(np.array([entry]))[0]
    return tuple(Fraction(float(x)) for x in row), np.abs(row)
