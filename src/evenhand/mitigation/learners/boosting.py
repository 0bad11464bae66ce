"""Boosted trees, retrained with the parameters stored in their model."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Literal
from weakref import WeakKeyDictionary

import numpy as np

from evenhand.core.text import summarize_error
from evenhand.core.typing import Floats
from evenhand.errors import EvenhandError, ModelError
from evenhand.mitigation.learners.learner import OWN_FIT, file_ending, preferred_endings, target_labels
from evenhand.mitigation.split import TrainingSet
from evenhand.models.blackbox.base import plain_numbers
from evenhand.models.readers.boosters import read_booster
from evenhand.models.scorer import Scorer
from evenhand.models.trees.columns import match_columns
from evenhand.models.trees.ensemble import TreeEnsemble

Library = Literal["xgboost", "lightgbm"]
LIBRARIES: dict[str, Library] = {".json": "xgboost", ".ubj": "xgboost", ".txt": "lightgbm"}
NAMES = {"xgboost": "XGBoost", "lightgbm": "LightGBM"}


@dataclass(frozen=True, eq=False)
class BoosterLearner:
    """Learner that trains for as many rounds as the original model, with the same parameters, on one processor.

    LightGBM writes all parameters to its files. XGBoost keeps them in memory only: its files have the objective, the
    rounds and the depth, while the learning rate and L2 regularisation are inferred from the trees (see
    ``infer_parameters``). Classifiers written by versions before 1.7 contain all parameters. Parameters that cannot be
    recovered get the defaults of the library, and ``caution`` lists them.

    Attributes:
        given: Original model.
        content: Model in the format of its library (XGBoost: UBJSON or JSON; LightGBM: text).
        library: Library of the model.
        ending: Extension of its file, which is preferred for new files.
        settings: ``save_config`` of an XGBoost model in memory. None for a file.
        models: New boosters, kept for writing.
    """

    given: TreeEnsemble
    content: bytes
    library: Library
    ending: str = ""
    settings: str | None = None
    models: WeakKeyDictionary[Any, Any] = field(default_factory=WeakKeyDictionary)

    takes_weights: ClassVar[bool] = True

    @classmethod
    def of_file(cls, path: Path, model: TreeEnsemble) -> BoosterLearner:
        """Create the learner of a model file."""
        ending = path.suffix.lower()
        return cls(model, path.read_bytes(), LIBRARIES[ending], ending)

    @classmethod
    def of_booster(cls, booster: Any, model: TreeEnsemble) -> BoosterLearner:
        """Create the learner of a ``Booster`` of either library."""
        if hasattr(booster, "save_raw"):
            return cls(model, bytes(booster.save_raw("ubj")), "xgboost", settings=booster.save_config())
        return cls(model, booster.model_to_string().encode(), "lightgbm")

    @property
    def name(self) -> str:
        """Description of the model and its training."""
        return f"{NAMES[self.library]} trees, retrained with the stored parameters"

    @property
    def caution(self) -> str:
        """Caution about parameters that cannot be recovered, or an empty string."""
        if self.library != "xgboost" or self.settings is not None:
            return ""
        import xgboost

        model = xgboost.Booster()
        model.load_model(bytearray(self.content))
        recovered = {*stated_parameters(model), *infer_parameters(json.loads(model.save_raw("json")))}
        missing = [name for name in UNSTATED if name not in recovered]
        if not missing:
            return ""
        return (
            f"The model's file does not contain these parameters, so XGBoost's defaults were used: "
            f"{', '.join(missing)}. To keep them, pass the model in memory, its classifier in a .skops or pickle "
            "file, or a training function."
        )

    @property
    def endings(self) -> tuple[str, ...]:
        """File extensions that its models can be written to."""
        endings = [ending for ending, library in LIBRARIES.items() if library == self.library]
        return preferred_endings(endings, self.ending)

    def fit(self, training_set: TrainingSet, *, seed: int) -> Scorer:
        """Train new trees.

        Raises:
            ModelError: The library is not installed, or training fails.
        """
        model = self.given
        inputs = plain_numbers(model.schema, training_set.individuals, location=model.name)
        labels = target_labels(training_set, model)
        train = _train_xgboost if self.library == "xgboost" else _train_lightgbm
        try:
            booster = train(self, inputs, labels, training_set.weights, seed % 2**31)
        except EvenhandError:
            raise
        except ModuleNotFoundError as error:
            raise ModelError(
                f"{self.library} is not installed", location=model.name, hint=f"pip install {self.library}"
            ) from error
        except Exception as error:
            raise ModelError(
                f"retraining with {NAMES[self.library]} failed: {summarize_error(error)}",
                location=model.name,
                hint=OWN_FIT,
            ) from error
        scorer = replace(read_booster(booster, model.schema), name=model.name)
        self.models[scorer] = booster
        return scorer

    def save(self, scorer: Scorer, path: Path) -> tuple[Path, ...]:
        """Write a model in the format of its library."""
        file_ending(path, self.endings)
        if scorer not in self.models:
            raise ModelError("expected trees of this learner, got another model", location=scorer.name)
        self.models[scorer].save_model(str(path))
        return (path,)

    def columns(self, width: int, names: Any) -> Any:
        """Match the columns of the booster with the inputs of the schema."""
        schema, location = self.given.schema, self.given.name
        return match_columns(schema, width, names, location=location, named_categories=range(width))


def _train_xgboost(learner: BoosterLearner, inputs: Any, labels: Any, weights: Floats | None, seed: int) -> Any:
    import xgboost

    model = xgboost.Booster()
    model.load_model(bytearray(learner.content))
    description = json.loads(model.save_raw("json"))
    settings = json.loads(learner.settings or model.save_config())
    parameters = dict(_stored_parameters(settings["learner"]))
    inferred = infer_parameters(description)
    if learner.settings is None or _contradicts_model(parameters, inferred):
        parameters |= inferred | stated_parameters(model)
    parameters |= {"nthread": 1, "device": "cpu", "verbosity": 0}
    if int(parameters.get("seed", 0)) == 0:
        parameters["seed"] = seed
    best = model.attr("best_iteration") if model.attr("scikit_learn") else None
    rounds = model.num_boosted_rounds() if best is None else int(best) + 1
    data = xgboost.DMatrix(
        inputs[:, learner.columns(model.num_features(), model.feature_names or ())],
        labels,
        weight=weights,
        feature_names=model.feature_names,
        feature_types=model.feature_types,
        enable_categorical=True,
        nthread=1,
    )
    booster = xgboost.train(parameters, data, rounds)
    booster.set_attr(scikit_learn=model.attr("scikit_learn"))
    return booster


ALIASES = {"learning_rate": "eta", "reg_alpha": "alpha", "reg_lambda": "lambda", "random_state": "seed"}
"""Names of parameters in XGBoost's scikit-learn classifiers, and XGBoost's own names."""

UNSTATED = (
    "eta",
    "lambda",
    "alpha",
    "gamma",
    "subsample",
    "colsample_bytree",
    "colsample_bylevel",
    "colsample_bynode",
    "min_child_weight",
    "max_delta_step",
)
"""Parameters that affect the trees, and that XGBoost does not write to its files."""


def stated_parameters(model: Any) -> dict[str, Any]:
    """Read the parameters in a file of an XGBoost classifier. Older versions wrote all of them."""
    stored = json.loads(model.attr("scikit_learn") or "{}")
    stored = {ALIASES.get(name, name): value for name, value in stored.items() if value is not None}
    return {
        name: stored[name] for name in (*UNSTATED, "seed", "grow_policy", "max_leaves", "max_bin") if name in stored
    }


def _contradicts_model(parameters: Mapping[str, Any], inferred: Mapping[str, float]) -> bool:
    """Check whether settings in memory are defaults after loading a file, which did not grow these trees."""
    if float(parameters.get("alpha", 0)) or float(parameters.get("max_delta_step", 0)):
        return False  # these were set explicitly, but the inference assumes 0
    depth = int(parameters.get("max_depth", 0))
    return 0 < depth < inferred.get("max_depth", 0) or any(
        not np.isclose(float(parameters[key]), inferred[key], rtol=0.05, atol=0.01)
        for key in ("eta", "lambda")
        if key in parameters and key in inferred
    )


def _stored_parameters(learner: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the training parameters in XGBoost's description of a model."""
    training = learner["learner_train_param"]
    yield from ((key, training[key]) for key in ("booster", "objective", "multi_strategy") if key in training)
    yield "seed", learner.get("generic_param", {}).get("seed", 0)
    for values in learner["objective"].values():
        if isinstance(values, dict):
            yield from values.items()
    model = learner["learner_model_param"]
    if int(model.get("num_class", 0)) > 1:
        yield "num_class", model["num_class"]
    if model.get("boost_from_average") == "0":
        yield "base_score", model["base_score"].strip("[]").split(",")[0]
    booster = learner["gradient_booster"]
    yield from booster.get("dart_train_param", {}).items()
    trees = booster.get("gbtree", booster)
    yield "num_parallel_tree", trees["gbtree_model_param"]["num_parallel_tree"]
    yield "tree_method", trees["gbtree_train_param"]["tree_method"]
    for key, value in trees.get("tree_train_param", {}).items():
        if key not in ("learning_rate", "min_split_loss", "reg_alpha", "reg_lambda") and value not in ("", "()"):
            yield key, value


REPLACED_PARAMETERS = (
    "data",
    "valid",
    "num_iterations",
    "num_threads",
    "early_stopping_round",
    "categorical_feature",
    "verbosity",
    "deterministic",
    "device_type",
    "machines",
    "num_machines",
)
"""Parameters of LightGBM that are replaced."""


def _train_lightgbm(learner: BoosterLearner, inputs: Any, labels: Any, weights: Floats | None, seed: int) -> Any:
    import lightgbm

    text = learner.content.decode()
    model = lightgbm.Booster(model_str=text)
    parameters = {key: value for key, value in model.params.items() if key not in REPLACED_PARAMETERS}
    if "learning_rate" not in parameters:
        raise ModelError(
            "the model's section of training parameters is missing", location=learner.given.name, hint=OWN_FIT
        )
    if parameters.get("seed", 0) == 0:  # all other seeds are derived from it
        parameters = {key: value for key, value in parameters.items() if not key.endswith("seed")} | {"seed": seed}
    parameters |= {"num_threads": 1, "deterministic": True, "verbosity": -1}
    if not parameters.get("force_row_wise"):
        parameters["force_col_wise"] = True
    names = model.feature_name()
    head = dict(line.split("=", 1) for line in text.partition("\nTree=")[0].split("\n") if "=" in line)
    # Numbers are described as [low:high], categories as a list, and unused columns as "none".
    infos = enumerate(head["feature_infos"].split())
    categories = [i for i, info in infos if info != "none" and not info.startswith("[")]
    data = lightgbm.Dataset(
        inputs[:, learner.columns(len(names), names)],
        labels,
        weight=weights,
        feature_name=names,
        categorical_feature=categories,
        params=parameters,
    )
    return lightgbm.train(parameters, data, model.current_iteration())


TREES = 200
"""Maximum number of trees used for the inference of parameters."""

AGREEMENT = 0.1
"""Maximum relative interquartile range of the estimates of a parameter. Otherwise another parameter was set."""


def infer_parameters(model: Mapping[str, Any]) -> dict[str, float]:
    """Infer the depth, learning rate and L2 regularisation of an XGBoost model, if possible.

    A split node stores its weight ``w = -G / (H + lambda)`` (Chen and Guestrin, KDD 2016, equation 5) and the sum of
    second derivatives H. A leaf stores ``eta * w``. The sums of first derivatives G of two children add up to that of
    their parent. So nodes with two split children determine lambda, and then those with two leaves determine eta.

    Args:
        model: JSON description of the model.

    Returns:
        ``max_depth``, and ``lambda`` and ``eta`` if the nodes agree.
    """
    booster = model["learner"]["gradient_booster"]
    description = booster.get("gbtree", booster)["model"]
    trees = [_Tree(tree) for tree in description["trees"][:TREES]]
    inferred: dict[str, float] = {}
    if depth := max((tree.depth for tree in trees), default=0):
        inferred["max_depth"] = depth
    penalty = _agreed_median([tree.l2_estimates() for tree in trees], 1.0)
    if penalty is not None:
        inferred["lambda"] = max(penalty, 0.0)
    rate = _agreed_median([tree.rates(inferred.get("lambda", 1.0)) for tree in trees], 0.0)
    if rate is not None and 0 < rate <= 1.5:
        inferred["eta"] = rate * int(description["gbtree_model_param"]["num_parallel_tree"])
    return inferred


class _Tree:
    """Nodes of a tree: children, weights and sums of second derivatives."""

    def __init__(self, description: Mapping[str, Any]) -> None:
        self.left = np.array(description["left_children"], dtype=np.int64)
        self.right = np.array(description["right_children"], dtype=np.int64)
        self.weight = np.array(description["base_weights"], dtype=np.float64)
        self.second = np.array(description["sum_hessian"], dtype=np.float64)
        self.split = np.flatnonzero(self.left >= 0)
        if len(self.weight) != len(self.left):  # leaves with several outputs
            self.split = self.split[:0]

    @property
    def depth(self) -> int:
        """Number of splits on the longest path."""
        depth, level = 0, np.zeros(1, dtype=np.int64)
        while (level := level[self.left[level] >= 0]).size:
            level = np.concatenate([self.left[level], self.right[level]])
            depth += 1
        return depth

    def l2_estimates(self) -> Floats:
        """Estimate lambda from each node with two split children."""
        nodes = self.split[(self.left[self.left[self.split]] >= 0) & (self.left[self.right[self.split]] >= 0)]
        a, b = self.left[nodes], self.right[nodes]
        products = self.weight * self.second
        missing = self.weight[nodes] - self.weight[a] - self.weight[b]
        clear = np.abs(missing) > 0.1 * (np.abs(self.weight[a]) + np.abs(self.weight[b]))
        return np.asarray((products[a] + products[b] - products[nodes])[clear] / missing[clear])

    def rates(self, penalty: float) -> Floats:
        """Estimate the learning rate from each node with two leaves."""
        nodes = self.split[(self.left[self.left[self.split]] < 0) & (self.left[self.right[self.split]] < 0)]
        gradients = self.weight * (self.second + penalty)
        a, b = gradients[self.left[nodes]], gradients[self.right[nodes]]
        clear = (np.abs(a + b) > 0.1 * (np.abs(a) + np.abs(b))) & (gradients[nodes] != 0)
        return np.asarray((a + b)[clear] / gradients[nodes][clear])


def _agreed_median(estimates: list[Floats], scale: float) -> float | None:
    """Compute the median, or None if the estimates differ by more than ``AGREEMENT`` of it (or of ``scale``)."""
    values = np.concatenate([np.empty(0), *estimates])
    if len(values) == 0:
        return None
    low, middle, high = np.quantile(values, [0.25, 0.5, 0.75])
    return float(middle) if high - low <= AGREEMENT * max(abs(middle), scale) else None
