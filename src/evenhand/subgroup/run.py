"""One search: the model is asked once, everything after that is counting."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.models import Scorer
from evenhand.schema import People
from evenhand.stats import newcombe
from evenhand.stats.level import normal_quantile, normal_share
from evenhand.subgroup.augmented import augmented
from evenhand.subgroup.cells import cut
from evenhand.subgroup.config import Config
from evenhand.subgroup.cube import fingerprints, membership, occupied, through
from evenhand.subgroup.family import family
from evenhand.subgroup.measures import outcome
from evenhand.subgroup.methods import METHODS
from evenhand.subgroup.result import Cells, Finding, SubgroupResult
from evenhand.subgroup.rules import words

SHARED = ("method", "measure", "against", "control", "confidence", "margin", "support", "least_people", "seed")
"""Settings that a result repeats."""


def run(
    scorer: Scorer,
    people: People,
    config: Config | None = None,
    *,
    progress: Callable[[str, float], None] | None = None,
    **options: Any,
) -> SubgroupResult:
    """Search for subgroups that a model treats differently.

    Args:
        scorer: the model, asked once about everybody.
        people: the people it decides about.
        config: the settings.
        progress: called with what is being done and the share done, 0 to 1.
        **options: settings by name, in place of those in ``config``.

    Raises:
        EvenhandError: the options make no sense, or the model cannot be asked.
    """
    started = time.perf_counter()
    config = dataclasses.replace(config or Config(), **options)
    if config.method != "exact":
        settings = {name: getattr(config, name) for name in SHARED}
        found_by = METHODS[config.method](scorer, people, config, progress or (lambda what, share: None))
        return SubgroupResult(**settings | found_by, seconds=time.perf_counter() - started)
    names = config.attributes or people.schema.protected
    cuts, codes = cut(people, names, config.bins)
    found = outcome(scorer, people, config.measure)
    codes, values = codes[found.concerned], found.values
    n, total = len(values), float(values.sum())
    cells = occupied(codes)
    rules = family(cuts, config.depth)
    sizes = through(rules, cells, cells.sizes.astype(np.float64))
    positives = through(rules, cells, np.bincount(cells.of, weights=values, minlength=len(cells.sizes)))
    prints = fingerprints(rules, cells)
    rank = np.zeros(rules.shape, dtype=np.int64)
    for axis in range(rank.ndim):
        rank += (np.arange(rules.shape[axis]) > 0).reshape([-1 if i == axis else 1 for i in range(rank.ndim)])
    least = max(config.least_people, int(np.ceil(config.support * n)))
    ok = (rank > 0) & (rank <= rules.depth) & (sizes >= least) & (n - sizes >= config.least_people)
    flat = np.flatnonzero(ok)
    flat = flat[np.argsort(rank.ravel()[flat], kind="stable")]
    _, first = np.unique(prints.ravel()[flat], return_index=True)
    flat = flat[np.sort(first)]
    chosen = np.stack(np.unravel_index(flat, rules.shape), axis=1)
    size, positive = sizes.ravel()[flat], np.rint(positives.ravel()[flat])
    mean = size * total / n
    spread = np.sqrt(size * (n - size) / n**2 * total * (n - total) / max(n - 1, 1))
    z = np.divide(positive - mean, spread, out=np.zeros_like(mean), where=spread > 0)
    rng = np.random.default_rng(config.seed)
    inside = membership(rules, cells, chosen).astype(np.float32)
    permuted = rng.multivariate_hypergeometric(cells.sizes, int(total), size=config.permutations, method="marginals")
    scaled = np.divide(1.0, spread, out=np.zeros_like(spread), where=spread > 0)
    deviations = np.abs(inside @ permuted.T.astype(np.float32) - mean[:, None]) * scaled[:, None]
    maxima: NDArray[np.float64] = deviations.max(axis=0, initial=0.0).astype(np.float64)
    critical = float(np.sort(maxima)[int(np.ceil(config.confidence * (len(maxima) + 1))) - 1])
    adjusted = (1 + (maxima[None, :] >= np.abs(z)[:, None] - 1e-6).sum(axis=1)) / (1 + len(maxima))
    low, high = newcombe(positive, size, total - positive, n - size, 2 * float(normal_share(critical)) - 1)
    plain_low, plain_high = newcombe(positive, size, total - positive, n - size, config.confidence)
    stands = (adjusted <= 1 - config.confidence + 1e-12) & ((low > 0) | (high < 0))
    stands &= np.maximum(np.abs(low), np.abs(high)) >= config.margin
    order = np.lexsort((-np.abs(z), -np.maximum(low, -high)))
    every = {one.attribute: one.names for one in cuts if one.edges is None}
    findings = []
    for i in order[: config.most].tolist():
        described = rules.describe(chosen[i])
        inside_rate = positive[i] / size[i]
        rest_rate = (total - positive[i]) / (n - size[i])
        findings.append(
            Finding(
                rules=described,
                words=words(described, every),
                size=int(size[i]),
                rest=int(n - size[i]),
                positives=int(positive[i]),
                rest_positives=int(total - positive[i]),
                rate=inside_rate,
                rest_rate=rest_rate,
                gap=inside_rate - rest_rate,
                low=low[i],
                high=high[i],
                plain_low=plain_low[i],
                plain_high=plain_high[i],
                z=z[i],
                adjusted_p=adjusted[i],
                found=bool(stands[i]),
            )
        )
    result = SubgroupResult(
        method=config.method,
        measure=config.measure,
        against=config.against,
        control=config.control,
        confidence=config.confidence,
        critical=critical,
        margin=config.margin,
        support=config.support,
        least_people=config.least_people,
        people=n,
        rate=total / n,
        rule_sets=rules.size,
        tested=len(flat),
        found=int(stands.sum()),
        attributes=tuple(Cells(name=one.attribute, cells=one.names, ordered=one.ordered) for one in cuts),
        findings=tuple(findings),
        seed=config.seed,
        seconds=time.perf_counter() - started,
    )
    stop = None if config.time_limit is None else started + config.time_limit
    return augmented(result, scorer, people, config, progress or (lambda what, share: None), stop)
