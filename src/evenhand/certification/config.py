"""Settings of a certificate."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Literal, Self

from pydantic import field_validator, model_validator

from evenhand.core.config import Config, setting
from evenhand.errors import OptionError

COMPILE_SHARE = 0.5
"""Share of the time limit that compiling kernels may take, in addition to it."""

MOST_BANDS = 62
"""Maximum number of bands, whose sets are bits of one machine word."""


class CertifyConfig(Config):
    """Settings of a certificate: question, limits and computation.

    The time limit covers everything except compiling the prover on its first use on a machine; a prover that takes
    longer to compile than half the time limit is not compiled. Without any limit the linear method stops after
    ``DEFAULT_BOXES``. Without a time limit the result depends neither on the machine nor on ``jobs``.
    """

    protected: tuple[str, ...] | None = setting(
        None, "attributes to vary together; default: the protected attributes of the schema"
    )
    method: Literal["linear", "interval"] = setting(
        "linear", "linear bounds, best first; or the older symbolic intervals, also for more than two labels"
    )
    as_published: bool = setting(False, "change only the protected attributes and ignore the rules of the schema")
    where: tuple[str, ...] = setting((), "condition on the population, such as 'age >= 18'")
    threshold: float | None = setting(
        None, "with two labels, predict the second if its probability exceeds this instead of 0.5"
    )
    tolerance: float | None = setting(
        None, "for a model that predicts a number: changes of up to this size are fair", ge=0
    )
    bands: tuple[float, ...] = setting(
        (),
        "compare bands of the favourable label's score instead of labels, cut at these scores, such as 0.3,0.6; for a "
        "model that predicts a number, bands of the number, such as 150,200",
    )
    outcomes: int = setting(
        2, "with several labels or bands, also prove who can get 3 different ones, and so on up to this number", ge=2
    )
    time_limit: float | None = setting(None, "time limit in seconds", unit="seconds", gt=0)
    max_boxes: int | None = setting(None, "maximum number of boxes", ge=1)
    target_undecided: float | None = setting(None, "stop when no more than this share is undecided", ge=0, le=1)
    effort: float | None = setting(
        None,
        "stop after as many boxes as a processor core bounds in about this time; the number depends on the question "
        "alone, not on the machine",
        unit="seconds",
        gt=0,
    )
    min_progress: float | None = setting(
        None,
        "stop when another second of effort would decide less than this share (linear method and trees)",
        gt=0,
        lt=1,
    )
    seed: int = setting(0, "same seed, same result", ge=0)
    confidence: float = setting(0.99, "confidence level of the estimate's interval", gt=0, lt=1)
    samples: int = setting(20_000, "number of people drawn from undecided boxes", ge=1)
    counterexamples: int = setting(100, "maximum number of counterexamples listed", ge=0)
    enumeration: bool = setting(True, "enumerate small domains instead of proving boxes")
    jobs: int | None = setting(None, "threads; by default one per available processor", ge=1)

    @property
    def seconds(self) -> float | None:
        """The time limit or, without one, the effort."""
        return self.effort if self.time_limit is None else self.time_limit

    @model_validator(mode="after")
    def _check_method(self) -> Self:
        conflicts = [
            name
            for name, is_set in (
                ("a threshold", self.threshold is not None),
                ("bands", bool(self.bands)),
                ("several outcomes", self.outcomes > 2),
            )
            if is_set
        ]
        if self.tolerance is not None and conflicts:
            raise OptionError(f"a tolerance compares numbers, and {conflicts[0]} labels", hint="leave one of them out")
        narrow = "a tolerance" if self.tolerance is not None else "several outcomes" if self.outcomes > 2 else None
        if narrow is not None and self.method == "interval":
            raise OptionError(f"symbolic intervals cannot prove {narrow}", hint="leave `method=` out")
        return self

    @field_validator("bands")
    @classmethod
    def _check_bands(cls, bands: tuple[float, ...]) -> tuple[float, ...]:
        if bands:
            check_edges(bands)
        return bands


def check_edges(edges: Sequence[float], *, of_scores: bool = False) -> None:
    """Check that edges divide numbers or scores into bands.

    Raises:
        OptionError: An edge is not finite, or, for scores, not a probability; the edges do not increase; or there
            are too many.
    """
    inside = all((0 < edge < 1) if of_scores else math.isfinite(edge) for edge in edges)
    if not inside or any(low >= high for low, high in itertools.pairwise(edges)) or len(edges) >= MOST_BANDS:
        raise OptionError(
            f"expected {'scores between 0 and 1' if of_scores else 'finite numbers'} in increasing order, fewer than "
            f"{MOST_BANDS}, got {', '.join(f'{edge:g}' for edge in edges)}",
            hint="such as 0.3,0.6",
        )
