"""What is run for the mitigation tables."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from evenhand.errors import OptionError
from evenhand.reproduce.shields.settings import Settings as ShieldsSettings

EXTRA = ("diffdp", "exponentiated-gradient", "threshold-optimizer")
"""What stands beside the published method."""


class Settings(BaseModel):
    """What is run.

    Attributes:
        runs: networks per data set, each with people parted anew; the paper gives means over three.
        methods: what mends the subgroup; ``retrain`` is the published one.
        hidden: units of the hidden layers: with the decision six layers, as published.
        epochs: how often a network sees everybody it learns from.
        least_steps: but at least so many steps, where people are few.
        batch_size: people per step.
        support: share of the people that a rule set holds at least, as published.
        permutations: of the search for subgroups.
        samples: nudged people inside and outside on whom rates are counted as the paper counts them.
        classifiers: those of the shields paper.
        layers: their hidden layers.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    runs: int = Field(default=3, ge=1)
    methods: tuple[str, ...] = ("retrain", *EXTRA)
    hidden: tuple[int, ...] = (64, 32, 16, 8, 4)
    epochs: int = Field(default=20, ge=1)
    least_steps: int = 1500
    batch_size: int = 128
    support: float = 0.05
    permutations: int = 1000
    samples: int = 5000
    classifiers: tuple[str, ...] = ShieldsSettings.model_fields["classifiers"].default
    layers: tuple[int, ...] = ShieldsSettings.model_fields["layers"].default

    @classmethod
    def of(cls, *, quick: bool = False, runs: int | None = None) -> Settings:
        """The full settings, or the quick ones, with so many runs.

        Raises:
            OptionError: no run at all.
        """
        chosen = QUICK if quick else cls()
        if runs is None:
            return chosen
        if runs < 1:
            raise OptionError(f"{runs} runs are none", where="--runs", mend="1 or more")
        return chosen.model_copy(update={"runs": runs})


QUICK = Settings(runs=1, epochs=5, permutations=200)
"""Same people, methods and layers; one network per data set, trained for a shorter time."""
