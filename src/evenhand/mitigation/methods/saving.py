"""Files of models without a native format."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.core.typing import Floats
from evenhand.errors import OptionError
from evenhand.mitigation.learners.estimator import write_object
from evenhand.models.scorer import Scorer, change_templates
from evenhand.schema.people import decode, encode

PICKLED = (".joblib", ".pkl")
"""File extensions supported for every model."""


class ScorerEstimator:
    """Scorer with the interface of a scikit-learn classifier of data frames.

    No rows of the data are stored: passthrough columns are those of the data frame passed to ``predict``.

    Attributes:
        scorer: Wrapped scorer.
        constant: Values of attributes that the scorer ignores, by name. Their columns may be missing.
        schema: Schema of the data frames.
    """

    def __init__(self, scorer: Scorer, without: Sequence[str] = ()) -> None:
        self.scorer = change_templates(scorer, lambda like: like[:0])
        individual = np.array([[attribute.domain()[0] for attribute in scorer.schema.attributes]], dtype=np.float64)
        row = decode(scorer.schema.model_copy(update={"passthrough": ()}), individual)
        self.constant = {name: row[name][0] for name in without}
        passthrough = scorer.schema.passthrough if self.scorer is not scorer else ()
        self.schema = scorer.schema.model_copy(update={"passthrough": passthrough})
        names = [name for name in self.schema.columns if name not in without]
        self.classes_ = np.array(scorer.classes)
        self.feature_names_in_ = np.array(names, dtype=object)
        self.n_features_in_ = len(names)

    def predict(self, frame: Any) -> NDArray[Any]:
        """Predict the label of each row."""
        scorer, individuals = self._read(frame)
        return np.asarray(self.classes_[scorer.predict(individuals)])

    def predict_proba(self, frame: Any) -> Floats:
        """Compute the probability of each label."""
        scorer, individuals = self._read(frame)
        return scorer.scores(individuals)

    def _read(self, frame: Any) -> tuple[Scorer, Floats]:
        import narwhals as nw

        table = nw.from_native(frame, eager_only=True)
        table = table.with_columns(*(nw.lit(value).alias(name) for name, value in self.constant.items())).to_native()
        scorer = change_templates(self.scorer, lambda like: table) if self.schema.carries_rows else self.scorer
        return scorer, encode(self.schema, table).individuals


@dataclass(frozen=True)
class SaveScorer:
    """Function that writes a scorer as a ``ScorerEstimator`` to a .joblib or .pkl file.

    Attributes:
        scorer: Scorer to write.
        without: Attributes that the scorer ignores.
    """

    scorer: Scorer
    without: tuple[str, ...] = ()

    def __call__(self, path: Path) -> tuple[Path, ...]:
        import pickle

        try:
            write_object(ScorerEstimator(self.scorer, self.without), path, PICKLED)
        except (pickle.PicklingError, TypeError, AttributeError) as error:
            path.unlink(missing_ok=True)
            raise OptionError(
                f"the new model contains the original one, which cannot be written: {error}",
                location=str(path),
                hint="name another method first to write its model",
            ) from None
        return (path,)
