"""Settings of mitigations, searches for alternatives and refutations."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, TypeAlias

from evenhand.core.config import Config, setting
from evenhand.core.result import Result

GapName: TypeAlias = Literal["gap", "ratio", "equal-opportunity", "equalized-odds"]
"""Gap between groups that a search for alternatives reduces."""

Family: TypeAlias = Literal["reweigh", "tilt", "thresholds"]
"""Family of candidates of a search for alternatives."""

FAMILIES: tuple[Family, ...] = ("reweigh", "tilt", "thresholds")

RuleFamily: TypeAlias = Literal["any", "linear", "tree"]
"""Family of rules: any decisions by cell, including randomised ones; a threshold on a weighted sum of the features;
a decision tree. A bound for linear rules also holds for scorecards, whose weights are integers."""


class StudyConfig(Config):
    """Settings of every comparison of new models with the original one."""

    fit: str | Callable[..., Any] | None = setting(
        None,
        "training function for models that cannot otherwise be retrained: fit(frame, labels) -> model",
        unit="module:function",
    )
    accuracy_loss: float = setting(0.01, "allowed loss of accuracy on the validation set, as a share", ge=0, lt=1)
    confidence: float = setting(0.95, "simultaneous confidence level of all intervals", gt=0, lt=1)
    time_limit: float | None = setting(
        None, "time limit for training; the best model so far is kept", unit="seconds", gt=0
    )
    budget: int | None = setting(
        None, "maximum number of individuals that a black box is queried for", unit="rows", ge=1
    )
    seed: int = setting(0, "random seed", ge=0)


class MitigationConfig(StudyConfig):
    """Settings of a mitigation."""

    methods: tuple[str, ...] = setting(
        ("retrain",), "mitigation methods; the model of the first one is written", min_length=1
    )
    findings: tuple[Result | Path | str, ...] = setting(
        (), "findings to train on: results of search, subgroups, certify or audit, or their JSON files"
    )
    strength: float | None = setting(
        None, "strength of fairness-aware training; by default selected on the validation set", ge=0
    )
    start: int = setting(50, "number of instances added first", ge=1)
    share: float = setting(0.10, "maximum number of added instances, as a share of the training set", gt=0, le=1)
    rounds: int = setting(2, "number of rounds in which the new model is searched again and retrained", ge=0)
    subgroups: int = setting(1, "number of subgroups to mitigate, widest gap first", ge=1)
    certify_effort: float = setting(
        10.0,
        "work for the certificates of each model, in seconds of a processor core; counted in boxes, so it does not "
        "depend on the machine; 0 for none",
        unit="seconds",
        ge=0,
    )
    as_published: bool = setting(
        False, "vary only the protected attribute in flips and proofs, ignoring the rules of the schema"
    )


class AlternativesConfig(StudyConfig):
    """Settings of a search for less discriminatory alternatives."""

    against: GapName = setting(
        "gap",
        "search for less discriminatory alternatives, with a smaller gap between groups: in selection rates (gap, or "
        "ratio for the lowest divided by the highest), in true positive rates, or in true and false positive rates",
    )
    methods: tuple[Family, ...] = setting(FAMILIES, "families of candidates to search", min_length=1)
    decide_without: tuple[str, ...] = setting((), "attributes that the new model must not use")


class RefutationConfig(Config):
    """Settings of a refutation."""

    family: RuleFamily = setting("linear", "family of rules")
    accuracy: float | None = setting(
        None, "accuracy that a rule must reach, as a share; by default that of the original model", gt=0, le=1
    )
    depth: int = setting(2, "depth of a tree", ge=1, le=3)
    max_parts: int | None = setting(
        None,
        "maximum number of parts that the proof for linear rules is divided into; by default 60,000 "
        "divided by the number of cells of people with equal features",
        ge=1,
    )
    time_limit: float | None = setting(
        None, "time limit of the proof; the bound proved by then is kept", unit="seconds", gt=0
    )
    seed: int = setting(0, "random seed", ge=0)
