"""Settings of a mitigation."""

from __future__ import annotations

from dataclasses import dataclass

from evenhand.errors import OptionError


@dataclass(frozen=True)
class Config:
    """Settings of a mitigation.

    Attributes:
        methods: what to try; the first is what is written.
        strength: of fairness-aware training; None: chosen on the validation part.
        accuracy_loss: accuracy that may be lost on the validation part, as a share: 0.01 is a point.
        start: instances added at first.
        share: instances added at most, as a share of the people learnt from.
        rounds: how often the retrained model is searched again and retrained on what was found; 0: never.
        subgroups: how many of the subgroups found are mended, the widest gap first.
        certify_seconds: for a certificate of every model compared, where it has an inside; 0: none.
        confidence: of every interval.
        time_limit: seconds for learning; what is best by then is kept. None: no limit.
        seed: of all random numbers.
    """

    methods: tuple[str, ...] = ("retrain",)
    strength: float | None = None
    accuracy_loss: float = 0.01
    start: int = 50
    share: float = 0.10
    rounds: int = 2
    subgroups: int = 1
    certify_seconds: float = 10.0
    confidence: float = 0.95
    time_limit: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if isinstance(self.methods, str) or not self.methods:
            raise OptionError("methods must be one or several names", mend='methods=("retrain",)')
        if not 0 <= self.accuracy_loss < 1:
            raise OptionError(f"the accuracy that may be lost is a share, not {self.accuracy_loss:g}", mend="say 0.01")
        if not 0 < self.share <= 1:
            raise OptionError(f"the share of instances added lies between 0 and 1, not {self.share:g}")
        if self.strength is not None and not self.strength >= 0:
            raise OptionError(f"a strength is at least 0, not {self.strength:g}")
        for name, least in (("start", 1), ("rounds", 0), ("subgroups", 1)):
            if getattr(self, name) < least:
                raise OptionError(f"{name} must be at least {least}, not {getattr(self, name)}")
        if not self.certify_seconds >= 0:
            raise OptionError(f"certify_seconds must be at least 0, not {self.certify_seconds:g}")
        if not 0 < self.confidence < 1:
            raise OptionError(f"confidence must lie between 0 and 1, not {self.confidence:g}")
        if self.time_limit is not None and not self.time_limit > 0:
            raise OptionError(f"the time limit must be positive, not {self.time_limit:g} seconds")
