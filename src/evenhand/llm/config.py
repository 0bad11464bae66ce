"""Settings of the audit of a language model; what is not set is as the plan of the model's file says."""

from __future__ import annotations

from typing import Literal

from evenhand.core.config import Config, setting


class LanguageModelConfig(Config):
    """Settings of the audit of a language model.

    The audit asks in sweeps: in each, every template is asked about once per group. With the goal ``precision`` it
    stops after a sweep whose interval of every gap is narrow enough; with ``decision`` it looks at a few sweeps fixed
    in advance, with intervals that hold at all of them, and stops as soon as every gap is known to be larger or smaller
    than the threshold. ``calls`` and ``money`` are never passed.
    """

    goal: Literal["precision", "decision"] = setting("precision", "when to stop")
    half_width: float | None = setting(
        None, "for precision: half the width of the gap's interval that is aimed at; 0.05 unless planned", gt=0, lt=1
    )
    threshold: float = setting(
        0.0, "for decision: the size of gap that is decided about, of numbers as a share of their range", ge=0, lt=1
    )
    calls: int | None = setting(None, "maximum number of calls to the service; 6,000 unless planned", ge=1)
    money: float | None = setting(None, "maximum cost of all calls, in the currency of the plan's price", gt=0)
    at_once: int | None = setting(None, "questions under way at once; 16 unless planned", ge=1, le=512)
    sweeps: int = setting(20, "sweeps at most", ge=2)
    templates: int = setting(100, "rows of the data asked about, drawn at random where there are more", ge=2)
    scenario: str | None = setting(None, "column whose values are scenarios: gaps are reported for each")
    cluster: str | None = setting(None, "column whose values are a sample themselves, such as jobs")
    findings: int = setting(8, "templates, the widest first, that are asked about again to confirm them", ge=0)
    finding_pairs: int = setting(40, "fresh pairs for each of them", ge=6)
    name_findings: int = setting(0, "names that are asked about again likewise", ge=0)
    confidence: float = setting(0.95, "confidence level of the intervals", gt=0.5, lt=1)
    time_limit: float | None = setting(None, "stop after so many seconds", unit="seconds", gt=0)
    seed: int | None = setting(None, "same seed, same questions; 0 unless planned", ge=0)
