"""Settings of language-model audits. Unset fields are taken from the plan of the model file."""

from __future__ import annotations

from typing import Literal

from evenhand.core.config import Config, setting


class LanguageModelConfig(Config):
    """Settings of language-model audits.

    An audit asks its questions in sweeps, each with one question per template and group. With the goal ``precision``,
    it stops when the interval of each gap is narrow enough. With ``decision``, it evaluates a few sweeps fixed in
    advance, with simultaneous intervals, and stops when each gap is significantly larger or smaller than the threshold.
    ``calls`` and ``money`` are never exceeded.
    """

    goal: Literal["precision", "decision"] = setting("precision", "goal of the stopping rule")
    half_width: float | None = setting(
        None, "target half-width of the interval of a gap, for precision; default: from the plan, else 0.05", gt=0, lt=1
    )
    threshold: float = setting(
        0.0, "threshold of the gap, for decision; for numbers, as a share of their range", ge=0, lt=1
    )
    calls: int | None = setting(
        None, "maximum number of calls to the service; default: from the plan, else 6,000", ge=1
    )
    money: float | None = setting(None, "maximum cost of all calls, in the currency of the plan's price", gt=0)
    at_once: int | None = setting(
        None, "maximum number of concurrent questions; default: from the plan, else 16", ge=1, le=512
    )
    sweeps: int = setting(20, "maximum number of sweeps", ge=2)
    templates: int = setting(100, "maximum number of templates; more rows are sampled at random", ge=2)
    scenario: str | None = setting(None, "column of scenarios, for which separate gaps are reported")
    cluster: str | None = setting(None, "column of clusters of templates, such as jobs, if the clusters are a sample")
    findings: int = setting(8, "number of templates with the largest gaps, to be confirmed by fresh questions", ge=0)
    finding_pairs: int = setting(40, "number of fresh pairs per template", ge=6)
    confidence: float = setting(0.95, "confidence level of the intervals", gt=0.5, lt=1)
    time_limit: float | None = setting(None, "time limit in seconds", unit="seconds", gt=0)
    seed: int | None = setting(None, "random seed; default: from the plan, else 0", ge=0)
