"""Settings of a mitigation."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from evenhand.core.config import Config, setting
from evenhand.core.result import Result


class MitigationConfig(Config):
    """Settings of a mitigation."""

    methods: tuple[str, ...] = setting(("retrain",), "what to try; the first is what is written", min_length=1)
    findings: tuple[Result | Path | str, ...] = setting(
        (), "what was found, to learn from: results of search, subgroups, certify or audit, or their JSON files"
    )
    fit: str | Callable[..., Any] | None = setting(
        None,
        "how to train such a model where that is not known: your own fit(frame, labels) -> model",
        unit="module:function",
    )
    strength: float | None = setting(
        None, "of fairness-aware training; by default selected on the validation set", ge=0
    )
    accuracy_loss: float = setting(0.01, "accuracy that may be lost on the validation set, as a share", ge=0, lt=1)
    start: int = setting(50, "instances added at first", ge=1)
    share: float = setting(0.10, "instances added at most, as a share of the training set", gt=0, le=1)
    rounds: int = setting(2, "how often the new model is searched again and retrained on what was found", ge=0)
    subgroups: int = setting(1, "subgroups of those found that are mended, the widest gap first", ge=1)
    certify_effort: float = setting(
        10.0,
        "work for the certificates of every model compared, in seconds of a processor core; it is counted in boxes and "
        "does not depend on the machine; 0 for none",
        unit="seconds",
        ge=0,
    )
    confidence: float = setting(0.95, "confidence level of every interval", gt=0, lt=1)
    time_limit: float | None = setting(None, "for learning; what is best by then is kept", unit="seconds", gt=0)
    as_published: bool = setting(
        False, "flips and proofs change the protected attribute alone, whatever rules the schema has"
    )
    budget: int | None = setting(
        None, "most individuals that the given model may be asked about, where it is a black box", unit="rows", ge=1
    )
    seed: int = setting(0, "same seed, same result", ge=0)
