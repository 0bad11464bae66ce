"""COMPAS (ProPublica): is a defendant arrested again within two years?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from evenhand.datasets.entry import Entry, decision, integer, nominal, numbers, require, typed
from evenhand.datasets.tables import parse
from evenhand.schema import Schema

if TYPE_CHECKING:
    import pandas as pd

FILTER = ("days_b_screening_arrest", "is_recid")


def schema() -> Schema:
    """8 attributes; sex and race are protected."""
    return decision(
        "two_year_recid", 1, 0, favourable=0,
        attributes=(
            nominal("sex", "Female", "Male", protected=True),
            integer("age", 18, 96),
            nominal(
                "race", "African-American", "Asian", "Caucasian", "Hispanic", "Native American", "Other",
                protected=True,
            ),
            integer("juv_fel_count", 0, 20),
            integer("juv_misd_count", 0, 13),
            integer("juv_other_count", 0, 9),
            integer("priors_count", 0, 38),
            nominal("c_charge_degree", "F", "M"),
        ),
    )  # fmt: skip


def prepare(data: bytes, where: str) -> pd.DataFrame:
    """Keep the rows that ProPublica's analysis keeps, and the columns that the analysis of a decision needs."""
    frame = _unrepeated(data, where)
    require(frame, [*FILTER, *ENTRY.columns()], where)
    frame = numbers(frame, FILTER, where)
    kept = (
        frame["days_b_screening_arrest"].between(-30, 30)
        & (frame["is_recid"] != -1)
        & (frame["c_charge_degree"] != "O")
        & frame["score_text"].notna()
    )
    return typed(frame.loc[kept, list(ENTRY.columns())].reset_index(drop=True), schema(), where)


def _unrepeated(data: bytes, where: str) -> pd.DataFrame:
    """Parse a table in which the publisher repeats two column names; the second of each gets a number."""
    head, separator, rest = data.partition(b"\n")
    names: list[bytes] = []
    for name in head.rstrip(b"\r").split(b","):
        names.append(name + b".1" if name in names else name)
    return parse(b",".join(names) + separator + rest, where=where)


ENTRY = Entry(
    name="compas",
    title="COMPAS recidivism (ProPublica)",
    about="6,172 defendants in Broward County, Florida, scored by the risk assessment COMPAS; is a person charged "
    "with a new crime within two years?",
    origin="Public records of Broward County, 2013 and 2014, obtained and joined by ProPublica for the article "
    "Machine Bias (2016)",
    publisher="https://github.com/propublica/compas-analysis",
    licence="public records; the publisher states no explicit licence",
    citation="Angwin, J., Larson, J., Mattu, S., Kirchner, L. (2016). Machine Bias. ProPublica",
    rows=6_172,
    preparation="ProPublica's own filter: charge date within 30 days of the arrest (days_b_screening_arrest), "
    "is_recid known (not -1), no ordinary traffic offences (c_charge_degree not O), score_text given; 6,172 of 7,214 "
    "rows stay. Names, birth dates and case numbers are dropped. decile_score and score_text (COMPAS's own answers) "
    "stay in the frame but are no attributes. Labels are new charges, which depend on policing.",
    schema=schema,
    prepare=prepare,
    extra=("decile_score", "score_text"),
    sha256="1f82adf67ba7a40fd3eb98b5bb636e58f1734f7bb33a1d408a8dcb99d276cd9a",
    files=("compas-scores-two-years.csv", "compas_two_years.csv", "compas.csv"),
    urls=("https://raw.githubusercontent.com/propublica/compas-analysis/master/compas-scores-two-years.csv",),
)
