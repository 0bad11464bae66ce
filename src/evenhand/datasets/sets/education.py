"""Data sets about education: Law School (LSAC), Student Performance."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evenhand.datasets.entry import (
    DatasetEntry,
    cast_to_floats,
    cast_to_schema,
    categorical_attribute,
    decision_schema,
    integer_attribute,
    ordinal_attribute,
    parse_published,
    real_attribute,
    require_columns,
)
from evenhand.schema import Attribute, Schema

if TYPE_CHECKING:
    import pandas as pd


def law_school_schema() -> Schema:
    """Return the schema: 7 attributes, all known at admission; gender and race are protected."""
    return decision_schema(
        "pass_bar", 0, 1, favourable=1,
        attributes=(
            real_attribute("lsat", 11, 48),
            real_attribute("ugpa", 1.5, 3.9),
            categorical_attribute("fulltime", 1, 2, drop=True),
            ordinal_attribute("fam_inc", 1, 2, 3, 4, 5, drop=True),
            ordinal_attribute("tier", 1, 2, 3, 4, 5, 6, drop=True),
            categorical_attribute("gender", "female", "male", protected=True, drop=True),
            categorical_attribute("race1", "asian", "black", "hisp", "other", "white", protected=True, drop=True),
        ),
    )  # fmt: skip


def prepare_law_school(data: bytes, location: str) -> pd.DataFrame:
    """Keep what is known at admission, and the outcome."""
    return LAW_SCHOOL.take_columns(parse_published(data, location), location)


LAW_SCHOOL = DatasetEntry(
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
    schema=law_school_schema,
    prepare=prepare_law_school,
    sha256="9febb6849ea3eaafc7ffc7fe0f9e417b09107ea2a0aef8a51b2121868c34c8df",
    files=("bar_pass_prediction.csv", "law_school_lsac.csv", "law-school.csv"),
    urls=(
        "https://raw.githubusercontent.com/TheRohanVerma/CMPUT622_FairSMOTE_vs_FairClassBal/"
        "9462529654d17583f0e2c98ccbc04478ae976d67/data/bar_pass_prediction.csv",
    ),
)


GRADES = ("G1", "G2", "G3")
JOBS = ("at_home", "health", "other", "services", "teacher")


def students_schema() -> Schema:
    """Return the schema: 30 attributes; sex and age are protected."""
    return decision_schema(
        "passed", "no", "yes", favourable="yes",
        attributes=(
            categorical_attribute("school", "GP", "MS"),
            categorical_attribute("sex", "F", "M", protected=True),
            integer_attribute("age", 15, 22, protected=True),
            categorical_attribute("address", "R", "U"),
            categorical_attribute("famsize", "GT3", "LE3"),
            categorical_attribute("Pstatus", "A", "T"),
            ordinal_attribute("Medu", 0, 1, 2, 3, 4),
            ordinal_attribute("Fedu", 0, 1, 2, 3, 4),
            categorical_attribute("Mjob", *JOBS),
            categorical_attribute("Fjob", *JOBS),
            categorical_attribute("reason", "course", "home", "other", "reputation"),
            categorical_attribute("guardian", "father", "mother", "other"),
            ordinal_attribute("traveltime", 1, 2, 3, 4),
            ordinal_attribute("studytime", 1, 2, 3, 4),
            integer_attribute("failures", 0, 4),
            *(_yes_no_attribute(name) for name in (
                "schoolsup", "famsup", "paid", "activities", "nursery", "higher", "internet", "romantic"
            )),
            *(ordinal_attribute(name, 1, 2, 3, 4, 5) for name in (
                "famrel", "freetime", "goout", "Dalc", "Walc", "health"
            )),
            integer_attribute("absences", 0, 93),
        ),
    )  # fmt: skip


def _yes_no_attribute(name: str) -> Attribute:
    return categorical_attribute(name, "no", "yes")


def prepare_students(data: bytes, location: str) -> pd.DataFrame:
    """Return the publisher's table with the final grade turned into passed or not."""
    frame = parse_published(data, location)
    columns = [*students_schema().names, *GRADES]
    require_columns(frame, columns, location)
    passed = cast_to_floats(frame, ["G3"], location)["G3"].ge(10).map({True: "yes", False: "no"})
    return cast_to_schema(frame[columns].assign(passed=passed), students_schema(), location)


STUDENTS = DatasetEntry(
    name="students",
    title="Student Performance (Portuguese language)",
    about="649 pupils of two Portuguese secondary schools; does a pupil pass the Portuguese course?",
    origin="School reports and questionnaires of 2005 and 2006, collected by Paulo Cortez and Alice Silva",
    publisher="https://archive.ics.uci.edu/dataset/320/student+performance",
    licence="CC BY 4.0",
    citation="Cortez, P. (2008). Student Performance. UCI Machine Learning Repository. doi:10.24432/C5TG7T",
    rows=649,
    preparation="student-por.csv. The label passed is 'yes' where the final grade G3 is 10 or more of 20. The grades "
    "G1, G2 and G3 stay in the frame but are not attributes: the earlier two are grades of the same course and all but "
    "give the label away.",
    schema=students_schema,
    prepare=prepare_students,
    extra=GRADES,
    files=("student-por.csv", "students.csv"),
    urls=(
        "https://archive.ics.uci.edu/static/public/320/student+performance.zip",
        "https://archive.ics.uci.edu/ml/machine-learning-databases/00320/student.zip",
    ),
    member="student-por.csv",
)
