"""Law School (LSAC): does a law student pass the bar exam?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from evenhand.datasets.entry import Entry, decision, nominal, ordinal, real, require, typed
from evenhand.datasets.tables import parse
from evenhand.schema import Schema

if TYPE_CHECKING:
    import pandas as pd


def schema() -> Schema:
    """7 attributes, all known at admission; gender and race are protected."""
    return decision(
        "pass_bar", 0, 1, favourable=1,
        attributes=(
            real("lsat", 11, 48),
            real("ugpa", 1.5, 3.9),
            nominal("fulltime", 1, 2, drop=True),
            ordinal("fam_inc", 1, 2, 3, 4, 5, drop=True),
            ordinal("tier", 1, 2, 3, 4, 5, 6, drop=True),
            nominal("gender", "female", "male", protected=True, drop=True),
            nominal("race1", "asian", "black", "hisp", "other", "white", protected=True, drop=True),
        ),
    )  # fmt: skip


def prepare(data: bytes, where: str) -> pd.DataFrame:
    """Keep what is known at admission, and the outcome."""
    frame = parse(data, where=where)
    require(frame, ENTRY.columns(), where)
    return typed(frame[list(ENTRY.columns())], schema(), where)


ENTRY = Entry(
    name="law-school",
    title="Law School (LSAC National Longitudinal Bar Passage Study)",
    about="22,407 students who entered law schools of the United States in 1991; does a student pass the bar exam?",
    origin="Law School Admission Council; Linda Wightman, 1991 to 1997",
    publisher="https://github.com/TheRohanVerma/CMPUT622_FairSMOTE_vs_FairClassBal (a public copy; the study's own "
    "page is no longer kept up)",
    licence="the publisher states no explicit licence; used for research",
    citation="Wightman, L. F. (1998). LSAC National Longitudinal Bar Passage Study. LSAC Research Report Series",
    rows=22_407,
    preparation="Attributes known at admission only: LSAT score, undergraduate grades, full or part time (1, 2), "
    "family income (quintile), tier of the school, gender, race1. Dropped because they are the outcome or come after "
    "admission: bar, bar1, bar2 and their years, grad, Dropout, law school grades (zfygpa, zgpa, decile1, decile1b, "
    "decile3), and a model's own scores. Dropped as repetitions: gpa, sex, race, race2, male, asian, black, hisp, "
    "other, parttime, cluster, index6040, indxgrp, indxgrp2. age and DOB_yr are unreliable. 422 people with a missing "
    "attribute are left out when the data is read as individuals.",
    schema=schema,
    prepare=prepare,
    sha256="9febb6849ea3eaafc7ffc7fe0f9e417b09107ea2a0aef8a51b2121868c34c8df",
    files=("bar_pass_prediction.csv", "law_school_lsac.csv", "law-school.csv"),
    urls=(
        "https://raw.githubusercontent.com/TheRohanVerma/CMPUT622_FairSMOTE_vs_FairClassBal/"
        "9462529654d17583f0e2c98ccbc04478ae976d67/data/bar_pass_prediction.csv",
    ),
)
