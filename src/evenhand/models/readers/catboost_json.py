"""Conversion of CatBoost models to JSON by the CatBoost library.

Run as ``python catboost_json.py SOURCE TARGET``, it converts a file. Category strings are read from standard
input as JSON. Evenhand is not imported.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any


def write_json(model: Any, path: str, words: Sequence[str]) -> None:
    """Write a CatBoost model as JSON with the hashes of possible category strings."""
    import catboost

    categorical = model.get_cat_feature_indices()
    pool = None
    if categorical and words and not model.get_text_feature_indices() and not model.get_embedding_feature_indices():
        # CatBoost stores the hashes of the categories in a data pool.
        rows = [[word if i in categorical else 0.0 for i in range(len(model.feature_names_))] for word in words]
        pool = catboost.Pool(rows, cat_features=categorical)
    model.save_model(path, format="json", pool=pool)


if __name__ == "__main__":
    import catboost

    source, target = sys.argv[1:]
    loaded = catboost.CatBoost()
    loaded.load_model(source)
    write_json(loaded, target, json.load(sys.stdin))
