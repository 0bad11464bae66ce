"""What is run: the paper's settings, or fewer of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

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


class Settings(BaseModel):
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
    def of(cls, *, quick: bool = False, runs: int | None = None, classifiers: Sequence[str] = ()) -> Settings:
        """The paper's settings, or the quick ones; ``runs`` per setting, a fifth of it (at least one) periodically.

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
            raise OptionError(f"{runs} runs are none", where="--runs", mend="1 or more")
        return chosen.model_copy(update={"runs": runs, "periodic_runs": max(1, runs // 5)})


QUICK = Settings(kappas=("0.1",), runs=20, periodic_runs=2)
"""Same classifiers, horizons and periods; one threshold and fewer runs."""
