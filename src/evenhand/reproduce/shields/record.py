"""What is run, the paper's settings or fewer of them, and what is kept of every run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from evenhand.core import Result, ResultPart
from evenhand.errors import OptionError

PropertyName: TypeAlias = Literal["demographic_parity", "equal_opportunity"]
Costs: TypeAlias = Literal["constant", "paired"]

FINITE = "FinHzn"
STATIC_FAIR = "Static-Fair"
STATIC_BW = "Static-BW"
DYNAMIC = "Dynamic"
DYNAMIC_STRICT = "Dynamic (strict)"
DYNAMIC_SOFT = "Dynamic (soft)"
PUBLISHED_PERIODIC = (STATIC_FAIR, STATIC_BW, DYNAMIC)
PERIODIC = (*PUBLISHED_PERIODIC, DYNAMIC_STRICT, DYNAMIC_SOFT)
"""The shields by their names in the paper; strict and soft ends of a dynamic shield's periods are ours."""

PUBLISHED_COSTS: Costs = "constant"
PUBLISHED_EMPTY_GROUP = "zero"


class ShieldExperimentSettings(BaseModel):
    """What is run.

    Attributes:
        kappas: thresholds of the bias, as decimals.
        horizons: decisions of a run with a bounded horizon, by property.
        runs: of every setting with a bounded horizon.
        period: decisions in a period; periods: of a run; periodic_runs: of every periodic setting.
        costs: ``constant``: cost 1, and any recommendation equally likely (the paper's, which knows nothing of the
            classifier); ``paired``: the classifier's confidence in bins, distributed as on all its people.
        cost_bins: bins of the confidence.
        empty_groups: conventions for empty groups; ``zero`` is the paper's.
        classifiers: names of those whose decisions are shielded; periodic shields are for the first alone, as in the
            paper.
        layers: sizes of their hidden layers.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    kappas: tuple[str, ...] = ("0.05", "0.1", "0.15", "0.2")
    horizons: dict[PropertyName, int] = {"demographic_parity": 100, "equal_opportunity": 75}
    runs: int = Field(default=50, ge=1)
    period: int = 50
    periods: int = 10
    periodic_runs: int = Field(default=10, ge=1)
    costs: tuple[Costs, ...] = ("constant", "paired")
    cost_bins: int = 10
    empty_groups: tuple[str, ...] = ("zero", "min_count=5")
    classifiers: tuple[str, ...] = Field(default=("ERM", "DiffDP", "HSIC", "LAFTR", "PR"), min_length=1)
    layers: tuple[int, ...] = (512, 256, 64)

    @classmethod
    def of(
        cls, *, quick: bool = False, runs: int | None = None, classifiers: Sequence[str] = ()
    ) -> ShieldExperimentSettings:
        """Return the paper's settings, or the quick ones; ``runs`` per setting, a fifth of it periodically.

        Of some classifiers only, where any are named.

        Raises:
            OptionError: no run at all.
        """
        chosen = QUICK if quick else cls()
        if classifiers:
            chosen = chosen.model_copy(update={"classifiers": tuple(dict.fromkeys(classifiers))})
        if runs is None:
            return chosen
        if runs < 1:
            raise OptionError(f"expected 1 run or more, got {runs}", location="`runs=`", hint="1 or more")
        return chosen.model_copy(update={"runs": runs, "periodic_runs": max(1, runs // 5)})


QUICK = ShieldExperimentSettings(kappas=("0.1",), runs=20, periodic_runs=2)
"""Same classifiers, horizons and periods; one threshold and fewer runs."""


# What a reproduction holds: the classifiers, and every run of every setting, from which all tables are counted.


class ClassifierRecord(ResultPart):
    """A classifier on an environment.

    Attributes:
        dataset, attribute, classifier: which.
        groups: names of the two groups.
        people, arriving: rows, and how many of them the classifier was not trained on: those arrive at the shield.
        label: share with label 1; group_a: share in the first group; gap: of label 1 between the groups.
        accepted: share of each group that is accepted.
        accuracy: share of right decisions on those who arrive; demographic_parity, equal_opportunity: gaps there.
        seconds: training took.
        note: where our data differ from the paper's.
    """

    dataset: str
    attribute: str
    classifier: str
    groups: tuple[str, str]
    people: int
    arriving: int
    label: float
    group_a: float
    gap: float
    accepted: tuple[float, float]
    accuracy: float
    demographic_parity: float
    equal_opportunity: float
    seconds: float
    note: str = ""


class SettingRuns(ResultPart):
    """The runs of one setting; tuples have one entry per run, or per period.

    Attributes:
        experiment: ``bounded`` (one horizon) or ``periodic``.
        dataset, attribute, classifier: whose decisions are shielded.
        property, kappa, empty_group: what is kept.
        shield, costs: how.
        horizon, periods: decisions in a period, periods in a run.
        bias, bias_unshielded: at the end of each run, with the shield and of the same recommendations without it.
        fair, fair_unshielded: whether it was fair at the end of every period, decided exactly.
        assumed: whether all held that the shield's guarantee rests on.
        interventions: decisions against the recommendation; cost: what they cost.
        right, right_unshielded: decisions that agree with the true label.
        fair_at, fair_at_unshielded: how many runs are fair at the end of each period.
        seconds: synthesis and simulation took.
    """

    experiment: Literal["bounded", "periodic"]
    dataset: str
    attribute: str
    classifier: str
    property: PropertyName
    kappa: str
    empty_group: str
    shield: str
    costs: str
    horizon: int
    periods: int
    bias: tuple[float, ...]
    bias_unshielded: tuple[float, ...]
    fair: tuple[bool, ...]
    fair_unshielded: tuple[bool, ...]
    assumed: tuple[bool, ...]
    interventions: tuple[int, ...]
    cost: tuple[float, ...]
    right: tuple[int, ...]
    right_unshielded: tuple[int, ...]
    fair_at: tuple[int, ...]
    fair_at_unshielded: tuple[int, ...]
    seconds: float

    def environment(self) -> str:
        """Return data set and attribute."""
        return f"{self.dataset}, {self.attribute}"

    def runs(self) -> int:
        """Return how many."""
        return len(self.fair)

    def losses(self) -> list[float]:
        """Return the paper's utility loss per run: correct decisions that the shield costs, in percent."""
        return [
            100 * (alone - right) / alone if alone else 0.0
            for right, alone in zip(self.right, self.right_unshielded, strict=True)
        ]


class ReproductionRecord(Result):
    """The figures of a paper's experiments, run again.

    Attributes:
        paper: which.
        settings: what was to be run.
        environments: which, as ``data set, attribute``.
        classifiers: how those fare whose decisions are shielded.
        cells: the runs of every setting.
        wanted: how many settings there were to be.
        left_out: classifiers that were to be shielded and could not be trained, each with why.
        interrupted: whether somebody stopped it; what is here was complete before.
    """

    kind: Literal["reproduction"] = "reproduction"
    paper: Literal["shields"] = "shields"
    settings: ShieldExperimentSettings
    environments: tuple[str, ...]
    classifiers: tuple[ClassifierRecord, ...]
    cells: tuple[SettingRuns, ...]
    wanted: int
    left_out: dict[str, str] = Field(default_factory=dict)
    interrupted: bool = False
