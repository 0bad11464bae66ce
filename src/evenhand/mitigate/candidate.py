"""What a method starts from, and what it comes back with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from pydantic import BaseModel, ConfigDict

from evenhand.mitigate.config import Config
from evenhand.mitigate.harms import Harm
from evenhand.mitigate.learners import Learner
from evenhand.mitigate.split import Split
from evenhand.models import Scorer

if TYPE_CHECKING:
    from evenhand.mitigate.findings import Findings

Progress: TypeAlias = Callable[[str, float], None]
"""Called with what is being done and the share of the work done, 0 to 1."""


class Trial(BaseModel):
    """One model that was trained on the way, and what it did to the validation part.

    Attributes:
        setting: what was varied, e.g. ``added`` or ``strength``.
        value: its value.
        accuracy: on the validation part.
        harms: what each harm measured there, in the order of the situation's.
        chosen: whether it became the candidate.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    setting: str
    value: float
    accuracy: float
    harms: tuple[float, ...]
    chosen: bool = False


@dataclass(frozen=True, eq=False)
class Situation:
    """What a method starts from.

    Attributes:
        given: the model as it is.
        learner: how models of its kind are trained; None where nobody can.
        split: the people; a method never looks at ``split.test``.
        findings: what was found, to learn from.
        harms: the same, to be measured; the first ones count first.
        config: the settings.
        progress: called as work goes on.
        deadline: by ``time.perf_counter()``, when to come back with the best so far; None: no limit.
        plain: what the learner makes of the people learnt from alone; None: not trained yet.
    """

    given: Scorer
    learner: Learner | None
    split: Split
    findings: Findings
    harms: tuple[Harm, ...]
    config: Config
    progress: Progress
    deadline: float | None = None
    plain: Scorer | None = None


@dataclass(frozen=True, eq=False)
class Candidate:
    """A model that a method came back with.

    Attributes:
        method: its name.
        words: what was done, for a reader: ``retrained with 400 instances added``.
        scorer: the new model.
        save: writes it to a file; the files written.
        trials: what was tried on the way.
        control: whether it is only there to compare with.
        interrupted: whether somebody stopped it, or time was up; it is the best so far.
        notes: what else a reader must know.
    """

    method: str
    words: str
    scorer: Scorer
    save: Callable[[Path], tuple[Path, ...]]
    trials: tuple[Trial, ...] = ()
    control: bool = False
    interrupted: bool = False
    notes: tuple[str, ...] = ()
