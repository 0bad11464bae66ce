"""Certificates of an audit for each set of protected attributes, within the limits of the audit."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from evenhand import certification
from evenhand.auditing.config import AuditConfig
from evenhand.auditing.parts import AuditParts
from evenhand.certification.certificate.result import Certificate
from evenhand.core.typing import Progress
from evenhand.models.additive.network import AdditiveNetwork
from evenhand.population.independent import ProductPopulation
from evenhand.population.mixture import MixturePopulation
from evenhand.stats.combined import Draws

if TYPE_CHECKING:
    from evenhand.models.trees.ensemble import TreeEnsemble

MIN_CERTIFY_SECONDS = 0.5
"""Minimum time for a certificate, in seconds. With less time, it is skipped."""


def certify_sets(
    network: AdditiveNetwork | TreeEnsemble,
    population: ProductPopulation | MixturePopulation | None,
    config: AuditConfig,
    parts: AuditParts,
    progress: Progress,
    *,
    drawn: Mapping[tuple[str, ...], Draws],
    tolerance: float | None = None,
    as_published: bool = False,
) -> list[Certificate]:
    """Certify each protected attribute separately and all of them jointly. Failures are recorded in ``parts``.

    Args:
        network: White box of the model.
        population: Population that defines the shares.
        config: Settings of the audit.
        parts: Parts of the audit.
        progress: Progress function.
        drawn: Flips of people sampled from the population, by protected attributes. The flips are used in the
            estimates.
        tolerance: Maximum change of a prediction that is considered fair.
        as_published: Whether only the protected attributes change.
    """
    names = network.schema.protected
    sets = [(name,) for name in names] + ([names] if len(names) > 1 else [])
    certificates: list[Certificate] = []

    def certify(step: int, seconds: float | None) -> Certificate:
        start, share = 0.4 + 0.6 * step / len(sets), 0.6 / len(sets)
        return certification.certify(
            network,
            protected=sets[step],
            population=population,
            tolerance=tolerance,
            as_published=as_published,
            confidence=config.confidence,
            seed=config.seed,
            drawn=drawn.get(sets[step]),
            progress=lambda words, done: progress(words, start + share * done),
            **config.proof_limits(1 / len(sets), seconds),
        )

    for step, protected in enumerate(sets):
        part = f"certification for {' x '.join(protected)}"
        seconds = parts.limit.left(1 / (len(sets) - step))
        if seconds is not None and seconds < MIN_CERTIFY_SECONDS:
            parts.skip(part, f"the time limit of {config.time_limit:g} s was reached: increase it")
            continue
        certificate = parts.run(part, partial(certify, step, seconds))
        if certificate is not None:
            certificates.append(certificate)
            parts.interrupted = parts.interrupted or certificate.stopped_by == "interrupt"
    return certificates
