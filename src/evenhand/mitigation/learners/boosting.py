"""Boosted trees, retrained with the parameters that their model remembers."""

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
from evenhand.mitigation.learners.learner import file_ending, target_labels
from evenhand.mitigation.split import TrainingSet
from evenhand.models.blackbox.base import plain_numbers
from evenhand.models.readers.boosters import read_booster
from evenhand.models.scorer import Scorer
from evenhand.models.trees.columns import match_columns
from evenhand.models.trees.ensemble import TreeEnsemble

Library = Literal["xgboost", "lightgbm"]
LIBRARIES: dict[str, Library] = {".json": "xgboost", ".ubj": "xgboost", ".txt": "lightgbm"}
WRITTEN: dict[Library, tuple[str, ...]] = {"xgboost": (".json", ".ubj"), "lightgbm": (".txt",)}
NAMES = {"xgboost": "XGBoost", "lightgbm": "LightGBM"}


@dataclass(frozen=True, eq=False)
class BoosterLearner:
    """As many rounds as the model has, with the parameters it holds, on one processor.

    LightGBM writes all parameters into its files. XGBoost keeps them in memory alone: of a file, the objective, the
    rounds and the depth are known, and learning rate and L2 regularisation are worked out from the trees (see
    ``infer_parameters``). Classifiers that versions before 1.7 wrote state all that was set. What a file does not state
    is the default of the library, and ``caution`` says so.

    Attributes:
        given: what the model answers.
        content: the model as its library writes it (XGBoost: UBJSON or JSON; LightGBM: text).
        library: which.
        ending: of the file it came from; its models are offered to be written so first.
        settings: XGBoost's own description of a model in memory, ``save_config``; None for a file.
        made: what was grown, to be written.
    """

    given: TreeEnsemble
    content: bytes
    library: Library
    ending: str = ""
    settings: str | None = None
    made: WeakKeyDictionary[Any, Any] = field(default_factory=WeakKeyDictionary)

    @classmethod
    def of_file(cls, path: Path, given: TreeEnsemble) -> BoosterLearner:
        """From a file that was already read."""
        ending = path.suffix.lower()
        return cls(given, path.read_bytes(), LIBRARIES[ending], ending)

    @classmethod
    def of_booster(cls, booster: Any, given: TreeEnsemble) -> BoosterLearner:
        """From a ``Booster`` of either library."""
        if hasattr(booster, "save_raw"):
            return cls(given, bytes(booster.save_raw("ubj")), "xgboost", settings=booster.save_config())
        return cls(given, booster.model_to_string().encode(), "lightgbm")

    @property
    def name(self) -> str:
        """What is trained and how, for a reader."""
        return f"{NAMES[self.library]} trees, retrained with the parameters that the model holds"

    @property
    def caution(self) -> str:
        """What its trees may have been grown with that is not known; empty if all is."""
        if self.library != "xgboost" or self.settings is not None:
            return ""
        import xgboost

        model = xgboost.Booster()
        model.load_model(bytearray(self.content))
        known = {*stated_parameters(model), *infer_parameters(json.loads(model.save_raw("json")))}
        unknown = [name for name in UNSTATED if name not in known]
        if not unknown:
            return ""
        return (
            f"The model's file does not say how these parameters were set, and the trees were retrained with XGBoost's "
            f"defaults: {', '.join(unknown)}. To keep them, give the model from memory, its classifier in a .skops or "
            "pickle file, or a function of your own that trains it."
        )

    takes_weights: ClassVar[bool] = True

    @property
    def endings(self) -> tuple[str, ...]:
        """Endings of files that its models can be written to."""
        return tuple(sorted(WRITTEN[self.library], key=lambda ending: ending != self.ending))

    def fit(self, training_set: TrainingSet, *, seed: int) -> Scorer:
        """Return trees of the same kind, grown on these people.

        Raises:
            ModelError: the library is not installed, or it refuses.
        """
        given = self.given
        inputs, labels = (
            plain_numbers(given.schema, training_set.individuals, location=given.name),
            target_labels(training_set, given),
        )
        grow = _train_xgboost if self.library == "xgboost" else _train_lightgbm
        try:
            booster = grow(self, inputs, labels, training_set.weights, seed % 2**31)
        except EvenhandError:
            raise
        except ModuleNotFoundError as error:
            raise ModelError(
                f"{self.library} is needed to retrain its trees, and it is not installed",
                location=given.name,
                hint=f"pip install {self.library}",
            ) from error
        except Exception as error:
            raise ModelError(
                f"{NAMES[self.library]} cannot retrain the trees: {summarize_error(error)}",
                location=given.name,
                hint="train it with your own function: `fit=module:function`",
            ) from error
        scorer = replace(read_booster(booster, given.schema), name=given.name)
        self.made[scorer] = booster
        return scorer

    def save(self, scorer: Scorer, path: Path) -> tuple[Path, ...]:
        """Write one of its models as its library does."""
        file_ending(path, self.endings)
        if scorer not in self.made:
            raise ModelError("these trees were not grown here", location=scorer.name)
        self.made[scorer].save_model(str(path))
        return (path,)


def _train_xgboost(learner: BoosterLearner, inputs: Any, labels: Any, weights: Floats | None, seed: int) -> Any:
    import xgboost

    model = xgboost.Booster()
    model.load_model(bytearray(learner.content))
    described = json.loads(model.save_raw("json"))
    settings = json.loads(learner.settings or model.save_config())
    parameters = dict(_stored_parameters(settings["learner"]))
    told = infer_parameters(described)
    if learner.settings is None or _contradicts_model(parameters, told):
        parameters |= told | stated_parameters(model)
    parameters |= {"nthread": 1, "device": "cpu", "verbosity": 0}
    if int(parameters.get("seed", 0)) == 0:
        parameters["seed"] = seed
    best = model.attr("best_iteration") if model.attr("scikit_learn") else None
    rounds = model.num_boosted_rounds() if best is None else int(best) + 1
    columns = match_columns(
        learner.given.schema,
        model.num_features(),
        model.feature_names or (),
        location=learner.given.name,
        named_categories=range(model.num_features()),
    )
    data = xgboost.DMatrix(
        inputs[:, columns],
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


TWINS = {"learning_rate": "eta", "reg_alpha": "alpha", "reg_lambda": "lambda", "random_state": "seed"}
"""What scikit-learn's classifiers of XGBoost call some of its parameters."""

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
"""Parameters that change what is grown, and that XGBoost does not write into its files."""


def stated_parameters(model: Any) -> dict[str, Any]:
    """Return parameters that a file of an XGBoost classifier states: older versions wrote all that was set."""
    written = json.loads(model.attr("scikit_learn") or "{}")
    known = {TWINS.get(name, name): value for name, value in written.items() if value is not None}
    return {name: known[name] for name in (*UNSTATED, "seed", "grow_policy", "max_leaves", "max_bin") if name in known}


def _contradicts_model(parameters: Mapping[str, Any], told: Mapping[str, float]) -> bool:
    """Whether settings in memory are the library's defaults, as after loading a file, and did not grow these trees."""
    if float(parameters.get("alpha", 0)) or float(parameters.get("max_delta_step", 0)):
        return False  # set by somebody, and what the trees tell takes them for 0
    depth = int(parameters.get("max_depth", 0))
    differ = [
        not np.isclose(float(parameters[key]), told[key], rtol=0.05, atol=0.01)
        for key in ("eta", "lambda")
        if key in parameters and key in told
    ]
    return any(differ) or 0 < depth < told.get("max_depth", 0)


def _stored_parameters(learner: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield what XGBoost's description of a model says about how it was trained."""
    trained = learner["learner_train_param"]
    yield from ((key, trained[key]) for key in ("booster", "objective", "multi_strategy") if key in trained)
    yield "seed", learner.get("generic_param", {}).get("seed", 0)
    for values in learner["objective"].values():
        if isinstance(values, dict):
            yield from values.items()
    about = learner["learner_model_param"]
    if int(about.get("num_class", 0)) > 1:
        yield "num_class", about["num_class"]
    if about.get("boost_from_average") == "0":
        yield "base_score", about["base_score"].strip("[]").split(",")[0]
    booster = learner["gradient_booster"]
    yield from booster.get("dart_train_param", {}).items()
    trees = booster.get("gbtree", booster)
    yield "num_parallel_tree", trees["gbtree_model_param"]["num_parallel_tree"]
    yield "tree_method", trees["gbtree_train_param"]["tree_method"]
    known = dict(trees.get("tree_train_param", {}))
    for twin in ("learning_rate", "min_split_loss", "reg_alpha", "reg_lambda"):
        known.pop(twin, None)
    yield from ((key, value) for key, value in known.items() if value not in ("", "()"))


OWN_LIGHTGBM = (
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


def _train_lightgbm(learner: BoosterLearner, inputs: Any, labels: Any, weights: Floats | None, seed: int) -> Any:
    import lightgbm

    text = learner.content.decode()
    model = lightgbm.Booster(model_str=text)
    parameters = {key: value for key, value in model.params.items() if key not in OWN_LIGHTGBM}
    if "learning_rate" not in parameters:
        raise ModelError(
            "the model does not say how it was trained: its section of parameters is missing",
            location=learner.given.name,
            hint="train it with your own function: `fit=module:function`",
        )
    if parameters.get("seed", 0) == 0:  # the others are drawn from it
        parameters = {key: value for key, value in parameters.items() if not key.endswith("seed")} | {"seed": seed}
    parameters |= {"num_threads": 1, "deterministic": True, "verbosity": -1}
    if not parameters.get("force_row_wise"):
        parameters["force_col_wise"] = True
    names = model.feature_name()
    head = dict(line.split("=", 1) for line in text.partition("\nTree=")[0].split("\n") if "=" in line)
    # A number's values are written as [lowest:highest], categories as a list, and nothing of a column never used.
    asked = [i for i, info in enumerate(head["feature_infos"].split()) if info != "none" and not info.startswith("[")]
    rounds = model.current_iteration()
    columns = match_columns(
        learner.given.schema, len(names), names, location=learner.given.name, named_categories=range(len(names))
    )
    data = lightgbm.Dataset(
        inputs[:, columns], labels, weight=weights, feature_name=names, categorical_feature=asked, params=parameters
    )
    return lightgbm.train(parameters, data, rounds)


# What XGBoost's trees tell about how they were grown: its files do not keep the parameters.

TREES = 200
"""Trees looked at: each tells the same."""

AGREE = 0.1
"""The middle half of what the nodes say may spread by this share; if it is more, something else was set."""


def infer_parameters(model: Mapping[str, Any]) -> dict[str, float]:
    """Return depth, learning rate and L2 regularisation of a model, each where it can be told.

    A node that was split keeps its weight ``w = -G / (H + lambda)`` (Chen and Guestrin, KDD 2016, equation 5) and the
    sum of second derivatives H; a leaf keeps ``eta * w``. The sums of first derivatives G of two children add up to
    that of their parent, so that nodes with two split children give lambda, and then those with two leaves give eta.

    Args:
        model: as XGBoost writes it to JSON.

    Returns:
        ``max_depth``, and ``lambda`` and ``eta`` where the nodes agree.
    """
    booster = model["learner"]["gradient_booster"]
    found = booster.get("gbtree", booster)["model"]
    trees = [_Tree(tree) for tree in found["trees"][:TREES]]
    told: dict[str, float] = {}
    depth = max((tree.depth for tree in trees), default=0)
    if depth:
        told["max_depth"] = depth
    regular = _agreed_median(np.concatenate([tree.l2_estimates() for tree in trees] or [np.empty(0)]), 1.0)
    if regular is not None:
        told["lambda"] = max(regular, 0.0)
    rate = _agreed_median(np.concatenate([tree.rates(told.get("lambda", 1.0)) for tree in trees] or [np.empty(0)]), 0.0)
    if rate is not None and 0 < rate <= 1.5:
        told["eta"] = rate * int(found["gbtree_model_param"]["num_parallel_tree"])
    return told


class _Tree:
    """One tree's nodes: children, weights, sums of second derivatives."""

    def __init__(self, described: Mapping[str, Any]) -> None:
        self.left = np.array(described["left_children"], dtype=np.int64)
        self.right = np.array(described["right_children"], dtype=np.int64)
        self.weight = np.array(described["base_weights"], dtype=np.float64)
        self.second = np.array(described["sum_hessian"], dtype=np.float64)
        self.split = np.flatnonzero(self.left >= 0)
        if len(self.weight) != len(self.left):  # several outputs in each leaf
            self.split = self.split[:0]

    @property
    def depth(self) -> int:
        """Splits on the longest way from the root to a leaf."""
        depth, level = 0, np.zeros(1, dtype=np.int64)
        while (level := level[self.left[level] >= 0]).size:
            level = np.concatenate([self.left[level], self.right[level]])
            depth += 1
        return depth

    def l2_estimates(self) -> Floats:
        """Return lambda by each node whose two children were split."""
        node = self.split[(self.left[self.left[self.split]] >= 0) & (self.left[self.right[self.split]] >= 0)]
        a, b = self.left[node], self.right[node]
        products = self.weight * self.second
        missing = self.weight[node] - self.weight[a] - self.weight[b]
        clear = np.abs(missing) > 0.1 * (np.abs(self.weight[a]) + np.abs(self.weight[b]))
        return np.asarray((products[a] + products[b] - products[node])[clear] / missing[clear])

    def rates(self, regular: float) -> Floats:
        """Return the learning rate by each node whose two children are leaves."""
        node = self.split[(self.left[self.left[self.split]] < 0) & (self.left[self.right[self.split]] < 0)]
        first = self.weight * (self.second + regular)
        a, b = first[self.left[node]], first[self.right[node]]
        clear = (np.abs(a + b) > 0.1 * (np.abs(a) + np.abs(b))) & (first[node] != 0)
        return np.asarray((a + b)[clear] / first[node][clear])


def _agreed_median(values: Floats, least: float) -> float | None:
    """The median of what the nodes say, if they say the same (up to a share of it, or of ``least`` if that is more)."""
    if len(values) == 0:
        return None
    low, middle, high = np.quantile(values, [0.25, 0.5, 0.75])
    return float(middle) if high - low <= AGREE * max(abs(middle), least) else None
