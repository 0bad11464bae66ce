"""Example model for audits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from evenhand.schema.people import encode

if TYPE_CHECKING:
    from evenhand.datasets.catalogue import Dataset


def train_example(dataset: Dataset, *, seed: int = 0) -> tuple[Any, Any]:
    """Train a logistic regression on part of a data set.

    Numbers are standardised and categories one-hot encoded, so that the whole pipeline can be certified.

    Returns:
        The fitted scikit-learn pipeline, and the data frame of held-out people: the published test split, or a random
        30 % if there is none.
    """
    from sklearn.compose import ColumnTransformer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler
    from threadpoolctl import threadpool_limits

    schema = dataset.schema
    frame = dataset.frame.iloc[encode(schema, dataset.frame, location=dataset.name).rows].reset_index(drop=True)
    if "split" in frame.columns and "split" not in schema.names:
        held_out = (frame["split"] == "test").to_numpy()
    else:
        held_out = np.random.default_rng(seed).random(len(frame)) < 0.3
    numbers = [attribute.name for attribute in schema.attributes if attribute.kind in ("integer", "real")]
    words = [attribute.name for attribute in schema.attributes if attribute.name not in numbers]
    model = make_pipeline(
        ColumnTransformer(
            [("numbers", StandardScaler(), numbers), ("words", OneHotEncoder(handle_unknown="ignore"), words)]
        ),
        LogisticRegression(max_iter=1000),
    )
    train = frame[~held_out]
    # With so few coefficients, threads would mostly wait for each other and take twice as long.
    with threadpool_limits(1):
        model.fit(train[list(schema.names)], train[schema.target.name])
    return model, frame[held_out].reset_index(drop=True)
