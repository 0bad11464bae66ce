"""The six tabular data sets of TestSGD, with its sensitive attributes and labels.

Source: Zhang and others: TestSGD, ACM TOSEM 2023, section 5 ("Experiment Subjects").
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from evenhand import datasets
from evenhand.errors import OptionError
from evenhand.reproduce.shields.environments import ENVIRONMENTS, Environment
from evenhand.schema import People, Schema, encode

SUBGROUPS, CLASSIFIERS = "subgroups", "classifiers"
"""What the two tables are called on the command line."""


@dataclass(frozen=True)
class Case:
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


CASES: tuple[Case, ...] = (
    Case("census", "adult", ("sex", "race", "age"), note="everybody in the census table, 48,842 people"),
    Case("bank", "bank", ("age",)),
    Case("german", "german", ("sex", "age"), note="all 1,000 people of German Credit; the paper has 600"),
    Case(
        "compas", "compas", ("sex", "race", "age"), scored=True,
        note="the label is whether COMPAS's score is not high; 6,172 people are left by ProPublica's filter, the paper "
        "has more than 7,000",
    ),
    Case("law", "law-school", ("gender", "race1"), note="attributes known at admission only"),
    Case(
        "crime", "communities-crime",
        ("racepctblack", "racePctWhite", "racePctAsian", "racePctHisp", "agePct12t21", "agePct12t29", "agePct16t24",
         "agePct65up", "MalePctDivorce", "FemalePctDiv"),
        shares=True, depth=2,
        note="the favourable label is little crime; rule sets of two attributes at most, as those published",
    ),
)  # fmt: skip


@dataclass(frozen=True)
class Chosen:
    """What is to be run.

    Attributes:
        cases: for the table of subgroups.
        environments: for the table of classifiers.
    """

    cases: tuple[Case, ...]
    environments: tuple[Environment, ...]


def chosen(only: Sequence[str]) -> Chosen:
    """What the names leave: tables (``subgroups``, ``classifiers``), data sets, environments (``adult:race``).

    Raises:
        OptionError: there is nothing of such a name, or nothing is left.
    """
    single = {f"{one.dataset}:{one.attribute}" for one in ENVIRONMENTS}
    sets = {one.dataset for one in CASES}
    known = (SUBGROUPS, CLASSIFIERS, *sorted(sets), *sorted(single))
    for name in only:
        if name not in known:
            raise OptionError(
                f"the papers have nothing called {name!r}", where="--only", mend=f"one of: {', '.join(known)}"
            )
    tables = {name for name in only if name in (SUBGROUPS, CLASSIFIERS)} or {SUBGROUPS, CLASSIFIERS}
    places = {name for name in only if name not in (SUBGROUPS, CLASSIFIERS)} or sets
    found = Chosen(
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
            where="--only",
            mend=f"the classifiers were trained on {', '.join(sorted({one.dataset for one in ENVIRONMENTS}))}",
        )
    return found


def load(case: Case, *, data_home: str | Path | None = None) -> People:
    """Everybody in the data set, with the paper's sensitive attributes protected.

    Shares of a community's people cannot be: a number with a fraction makes no groups.
    """
    data = datasets.load(case.dataset, data_home=data_home)
    frame, described = data.frame, data.schema.model_dump()
    if case.scored:
        frame = frame.assign(high_risk=(frame["score_text"] == "High").map({True: "yes", False: "no"}))
        described["target"] = {"name": "high_risk", "favourable": "no", "values": ["yes", "no"]}
    described["attributes"] = [_attribute(case, one) for one in described["attributes"]]
    return encode(Schema.parse(described), frame)


def _attribute(case: Case, described: dict[str, object]) -> dict[str, object]:
    sensitive = described["name"] in case.sensitive
    if sensitive and case.shares:
        return {"name": described["name"], "kind": "real", "lower": 0.0, "upper": 1.0}
    return {**described, "protected": sensitive}
