"""Texts whose label changes when nothing but words for people are swapped."""

from __future__ import annotations

from collections.abc import Sequence

from evenhand.stats import observed_rate
from evenhand.subgroup.text.asking import Asking
from evenhand.subgroup.text.config import Config
from evenhand.subgroup.text.mentions import Mentions
from evenhand.subgroup.text.result import Flips
from evenhand.subgroup.text.seeds import Seed
from evenhand.texts import TextFinding
from evenhand.texts.pairs import finding, once


def flipped(
    taken: Sequence[Seed], asking: Asking, said: Mentions, config: Config
) -> tuple[tuple[Flips, ...], tuple[TextFinding, ...]]:
    """How often labels flip, by category, and the clearest texts.

    Args:
        taken: texts, all of whose variants the model was asked about.
        asking: what it said.
        said: the categories.
        config: how many examples, and the confidence of the shares.
    """
    reply, classes, wanted = asking.answers()
    found: list[TextFinding] = []
    texts, flips = ([0] * len(said.names) for _ in range(2))
    for seed in taken:
        rows = asking.positions(seed.variants)
        texts[seed.axis] += 1
        if (reply.labels[rows] != reply.labels[rows[0]]).any():
            flips[seed.axis] += 1
            name = said.names[seed.axis]
            found.append(finding(name, seed.row, seed.slot, reply.labels[rows], reply.scores[rows, wanted], classes))
    clearest = once(sorted(found, key=lambda one: (-one.gap, one.row)))[: config.examples]
    return tuple(
        Flips(
            category=name,
            texts=n,
            flips=k,
            rate=observed_rate(k, n, config.confidence, if_empty="no text was swapped"),
        )
        for name, n, k in zip(said.names, texts, flips, strict=True)
        if n
    ), tuple(clearest)
