"""A model whose chances are known, for tests that ask it."""

import numpy as np

from evenhand.llm.design import CHOICE, Outcomes


class SimulatedRespondent:
    """Says yes with given chances, shape (templates, groups, names); the same question and draw gets the same answer.

    Ranks by the chances themselves where it ``ranks``: without noise, but with what records and places are worth.
    """

    def __init__(self, chance, names=None, *, ranks=False, records=0.0, places=0.0, kinds=None, seed=0):
        self.chance, self.ranks, self.records, self.places, self.kinds = chance, ranks, records, places, kinds
        self.seed = seed
        self.templates, groups, most = chance.shape
        self.names = names or (most,) * groups
        self.batches = []

    def ask(self, batch):
        self.batches.append(batch)
        chance = self.chance[batch.template[:, None], batch.group, batch.name]
        kind = np.full(len(chance), CHOICE)
        if self.ranks:
            worth = chance + self.records * batch.record - self.places * np.arange(chance.shape[1])
            return Outcomes(worth.argsort(axis=1).argsort(axis=1) / (chance.shape[1] - 1), kind)
        dice = roll(self.seed, batch.template, batch.group[:, 0], batch.name[:, 0], batch.draw)
        value = (dice[:, None] < chance).astype(float)
        if self.kinds is not None:
            kind = self.kinds(batch)
            value = np.where((kind == CHOICE)[:, None], value, np.nan)
        return Outcomes(value, kind)


def roll(*numbers):
    """Return a number between 0 and 1 that follows from whole numbers and looks random (the mixer of SplitMix64)."""
    mixed = np.zeros(1, dtype=np.uint64)
    for number in numbers:
        mixed = (mixed + np.asarray(number, dtype=np.uint64)) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(1)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        mixed ^= mixed >> np.uint64(31)
    return mixed / 2.0**64
