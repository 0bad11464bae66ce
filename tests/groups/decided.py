"""Decisions about the people of public data sets, to be measured by several libraries."""

from __future__ import annotations

import numpy as np
import pandas as pd

from evenhand.datasets import Dataset

SECOND = {"adult": "race", "compas": "race", "german": "housing"}
"""Data set -> the attribute that groups are formed by beside sex."""


def decide(dataset: Dataset) -> pd.DataFrame:
    """Return the people of a data set, decided by their true label, their groups and chance, always the same.

    Returns:
        One row per person: ``sex``, ``second`` and ``both`` of them as texts, ``true`` and ``decided`` 1 for the
        favourable label, ``score``, ``weight`` (1 to 4).
    """
    target, rng = dataset.schema.target, np.random.default_rng(1)
    frame = pd.DataFrame({"sex": dataset.frame["sex"], "second": dataset.frame[SECOND[dataset.name]]}).astype(str)
    frame["both"] = frame["sex"] + ", " + frame["second"]
    frame["true"] = (dataset.frame[target.name].astype(str) == str(target.favourable)).astype(int).to_numpy()
    favour = 0.1 * (frame["sex"] == frame["sex"].max()) - 0.05 * (frame["second"] == frame["second"].min())
    frame["score"] = 0.2 + 0.4 * frame["true"] + favour + 0.2 * rng.random(len(frame))
    frame["decided"] = (rng.random(len(frame)) < frame["score"]).astype(int)
    frame["weight"] = rng.integers(1, 5, len(frame))
    return frame
