"""The mitigation experiments: six tabular data sets of TestSGD, what is run on them, and what is counted of it.

Source: Zhang and others: TestSGD, ACM TOSEM 2023, section 5 ("Experiment Subjects").
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from evenhand import datasets
from evenhand.core import Result, ResultPart
from evenhand.errors import OptionError
from evenhand.schema import People, Schema, encode
from reproductions.shields.classifiers import CLASSIFIERS as METHODS
from reproductions.shields.classifiers import LAYERS, ClassifierRecord
from reproductions.shields.environments import ENVIRONMENTS, Environment

SUBGROUPS, CLASSIFIERS = "subgroups", "classifiers"
"""What the two tables are called on the command line."""


@dataclass(frozen=True)
class ExperimentCase:
    """A data set.

    Attributes:
        name: in the paper, in short.
        dataset: among ours.
        sensitive: attributes that rule sets are made of.
        scored: whether the label is COMPAS's own score in place of the data set's.
        shares: whether the sensitive attributes are shares of a community's people, read as numbers.
        depth: rules per rule set at most; None: one per sensitive attribute.
        note: where our data differ from the paper's.
    """

    name: str
    dataset: str
    sensitive: tuple[str, ...]
    scored: bool = False
    shares: bool = False
    depth: int | None = None
    note: str = ""


CASES: tuple[ExperimentCase, ...] = (
    ExperimentCase("census", "adult", ("sex", "race", "age"), note="everybody in the census table, 48,842 people"),
    ExperimentCase("bank", "bank", ("age",)),
    ExperimentCase("german", "german", ("sex", "age"), note="all 1,000 people of German Credit; the paper has 600"),
    ExperimentCase(
        "compas", "compas", ("sex", "race", "age"), scored=True,
        note="the label is whether COMPAS's score is not high; 6,172 people are left by ProPublica's filter, the paper "
        "has more than 7,000",
    ),
    ExperimentCase("law", "law-school", ("gender", "race1"), note="attributes known at admission only"),
    ExperimentCase(
        "crime", "communities-crime",
        ("racepctblack", "racePctWhite", "racePctAsian", "racePctHisp", "agePct12t21", "agePct12t29", "agePct16t24",
         "agePct65up", "MalePctDivorce", "FemalePctDiv"),
        shares=True, depth=2,
        note="the favourable label is little crime; rule sets of two attributes at most, as those published",
    ),
)  # fmt: skip
"""The data sets of the mitigation tables, with their protected attributes and where ours differ from the papers'."""


@dataclass(frozen=True)
class ChosenExperiments:
    """What is to be run.

    Attributes:
        cases: for the table of subgroups.
        environments: for the table of classifiers.
    """

    cases: tuple[ExperimentCase, ...]
    environments: tuple[Environment, ...]


def choose_experiments(only: Sequence[str]) -> ChosenExperiments:
    """Return what the names leave: tables (``subgroups``, ``classifiers``), data sets, environments (``adult:race``).

    Raises:
        OptionError: there is nothing of such a name, or nothing is left.
    """
    single = {f"{one.dataset}:{one.attribute}" for one in ENVIRONMENTS}
    sets = {one.dataset for one in CASES}
    known = (SUBGROUPS, CLASSIFIERS, *sorted(sets), *sorted(single))
    for name in only:
        if name not in known:
            raise OptionError(
                f"the papers have nothing called {name!r}", location="`only=`", hint=f"one of: {', '.join(known)}"
            )
    tables = {name for name in only if name in (SUBGROUPS, CLASSIFIERS)} or {SUBGROUPS, CLASSIFIERS}
    places = {name for name in only if name not in (SUBGROUPS, CLASSIFIERS)} or sets
    found = ChosenExperiments(
        tuple(one for one in CASES if one.dataset in places and SUBGROUPS in tables),
        tuple(
            one
            for one in ENVIRONMENTS
            if {one.dataset, f"{one.dataset}:{one.attribute}"} & places and CLASSIFIERS in tables
        ),
    )
    if not found.cases and not found.environments:
        raise OptionError(
            f"nothing is left of {' and '.join(only)}",
            location="`only=`",
            hint=f"the classifiers were trained on {', '.join(sorted({one.dataset for one in ENVIRONMENTS}))}",
        )
    return found


def load_people(case: ExperimentCase, *, data_home: str | Path | None = None) -> People:
    """Return everybody in the data set, with the paper's sensitive attributes protected.

    Shares of a community's people cannot be: a number with a fraction makes no groups.
    """
    data = datasets.load_dataset(case.dataset, data_home=data_home)
    frame, described = data.frame, data.schema.model_dump()
    if case.scored:
        frame = frame.assign(high_risk=(frame["score_text"] == "High").map({True: "yes", False: "no"}))
        described["target"] = {"name": "high_risk", "favourable": "no", "values": ["yes", "no"]}
    described["attributes"] = [_protect_attribute(case, one) for one in described["attributes"]]
    return encode(Schema.parse(described), frame)


def _protect_attribute(case: ExperimentCase, described: dict[str, object]) -> dict[str, object]:
    sensitive = described["name"] in case.sensitive
    if sensitive and case.shares:
        return {"name": described["name"], "kind": "real", "lower": 0.0, "upper": 1.0}
    return {**described, "protected": sensitive}


# What is run for the mitigation tables.

EXTRA = ("diffdp", "exponentiated-gradient", "threshold-optimizer")
"""What stands beside the published method."""


class MitigationExperimentSettings(BaseModel):
    """What is run.

    Attributes:
        runs: networks per data set, each with a new split of the people; the paper gives means over three.
        methods: what mends the subgroup; ``retrain`` is the published one.
        hidden: units of the hidden layers: with the decision six layers, as published.
        epochs: how often a network sees everybody it learns from.
        least_steps: but at least so many steps, where people are few.
        batch_size: people per step.
        support: share of the people that a rule set holds at least, as published.
        permutations: of the search for subgroups.
        samples: people inside and outside, slightly changed, for rates as the paper counts them.
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
    classifiers: tuple[str, ...] = tuple(METHODS)
    layers: tuple[int, ...] = LAYERS

    @classmethod
    def of(cls, *, quick: bool = False, runs: int | None = None) -> MitigationExperimentSettings:
        """Return the full settings, or the quick ones, with so many runs.

        Raises:
            OptionError: no run at all.
        """
        chosen = QUICK if quick else cls()
        if runs is None:
            return chosen
        if runs < 1:
            raise OptionError(f"expected 1 run or more, got {runs}", location="`runs=`", hint="1 or more")
        return chosen.model_copy(update={"runs": runs})


QUICK = MitigationExperimentSettings(runs=1, epochs=5, permutations=200)
"""Same people, methods and layers; one network per data set, trained for a shorter time."""


# What the tables are counted from: models before and after, and classifiers.


class DecisionCounts(ResultPart):
    """What a model decides about some people, in whole numbers.

    Attributes:
        people: how many.
        right: decisions that agree with the true label; None if it is not known (samples).
        inside: people in the subgroup.
        favourable, rest_favourable: favourable decisions in it, and among the others.
    """

    people: int
    right: int | None
    inside: int
    favourable: int
    rest_favourable: int

    @property
    def accuracy(self) -> float | None:
        """Share of right decisions."""
        return None if self.right is None else self.right / self.people

    @property
    def rate(self) -> float:
        """Share of favourable decisions in the subgroup; 0 if it is empty."""
        return self.favourable / self.inside if self.inside else 0.0

    @property
    def rest_rate(self) -> float:
        """The same among the others."""
        rest = self.people - self.inside
        return self.rest_favourable / rest if rest else 0.0

    @property
    def gap(self) -> float:
        """How far the rates lie apart; the published fairness score."""
        return abs(self.rate - self.rest_rate)


class MitigatedModel(ResultPart):
    """A network, as it was or mended.

    Attributes:
        method: ``given``, or what mended it.
        words: what was done.
        held_out: about the people kept aside.
        training: about its training set.
        sampled: about nudged people around those, as the paper counts.
        notes: what else is to be known.
        seconds: it took.
    """

    method: str
    words: str
    held_out: DecisionCounts
    training: DecisionCounts
    sampled: DecisionCounts
    notes: tuple[str, ...] = ()
    seconds: float


class MitigationRun(ResultPart):
    """A data set, a network trained on it, its widest subgroup, and what the methods made of it.

    Attributes:
        case, dataset: the paper's name and ours.
        run: which, from 0.
        train, validation, test: people.
        subgroup: who is in the subgroup with the widest gap, in words; None where there is none large enough.
        significant: whether its gap is significant after adjustment.
        models: the given one first; it alone where there is no subgroup.
        left_out: methods that could not be used, each with why.
    """

    case: str
    dataset: str
    run: int
    train: int
    validation: int
    test: int
    subgroup: str | None
    significant: bool
    models: tuple[MitigatedModel, ...]
    left_out: dict[str, str] = Field(default_factory=dict)

    @property
    def original(self) -> MitigatedModel:
        """The network as it was."""
        return self.models[0]


class MitigationRecord(Result):
    """The figures behind the mitigation tables of two papers.

    Attributes:
        settings: what was to be run.
        mended: one per data set and run of the table of subgroups.
        classifiers: one per environment, classifier and run of the table of classifiers.
        wanted: how many entries both were to have.
        left_out: classifiers that could not be trained, each with why.
        notes: where our data differ from the papers', by data set.
        interrupted: whether somebody stopped it; what is here was complete before.
    """

    kind: Literal["mitigation-tables"] = "mitigation-tables"
    settings: MitigationExperimentSettings
    mended: tuple[MitigationRun, ...]
    classifiers: tuple[ClassifierRecord, ...]
    wanted: int
    left_out: dict[str, str] = Field(default_factory=dict)
    notes: dict[str, str] = Field(default_factory=dict)
    interrupted: bool = False
