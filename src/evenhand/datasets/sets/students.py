"""Student Performance (Portuguese): does a pupil pass the course?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from evenhand.datasets.entry import Entry, decision, integer, nominal, numbers, ordinal, require, typed
from evenhand.datasets.tables import parse
from evenhand.schema import Attribute, Schema

if TYPE_CHECKING:
    import pandas as pd

GRADES = ("G1", "G2", "G3")
JOBS = ("at_home", "health", "other", "services", "teacher")


def schema() -> Schema:
    """30 attributes; sex and age are protected."""
    return decision(
        "passed", "no", "yes", favourable="yes",
        attributes=(
            nominal("school", "GP", "MS"),
            nominal("sex", "F", "M", protected=True),
            integer("age", 15, 22, protected=True),
            nominal("address", "R", "U"),
            nominal("famsize", "GT3", "LE3"),
            nominal("Pstatus", "A", "T"),
            ordinal("Medu", 0, 1, 2, 3, 4),
            ordinal("Fedu", 0, 1, 2, 3, 4),
            nominal("Mjob", *JOBS),
            nominal("Fjob", *JOBS),
            nominal("reason", "course", "home", "other", "reputation"),
            nominal("guardian", "father", "mother", "other"),
            ordinal("traveltime", 1, 2, 3, 4),
            ordinal("studytime", 1, 2, 3, 4),
            integer("failures", 0, 4),
            *(_yes_no(name) for name in (
                "schoolsup", "famsup", "paid", "activities", "nursery", "higher", "internet", "romantic"
            )),
            *(ordinal(name, 1, 2, 3, 4, 5) for name in ("famrel", "freetime", "goout", "Dalc", "Walc", "health")),
            integer("absences", 0, 93),
        ),
    )  # fmt: skip


def _yes_no(name: str) -> Attribute:
    return nominal(name, "no", "yes")


def prepare(data: bytes, where: str) -> pd.DataFrame:
    """The publisher's table with the final grade turned into passed or not."""
    frame = parse(data, where=where)
    columns = [*schema().names, *GRADES]
    require(frame, columns, where)
    passed = numbers(frame, ["G3"], where)["G3"].ge(10).map({True: "yes", False: "no"})
    return typed(frame[columns].assign(passed=passed), schema(), where)


ENTRY = Entry(
    name="students",
    title="Student Performance (Portuguese language)",
    about="649 pupils of two Portuguese secondary schools; does a pupil pass the Portuguese course?",
    origin="School reports and questionnaires of 2005 and 2006, collected by Paulo Cortez and Alice Silva",
    publisher="https://archive.ics.uci.edu/dataset/320/student+performance",
    licence="CC BY 4.0",
    citation="Cortez, P. (2008). Student Performance. UCI Machine Learning Repository. doi:10.24432/C5TG7T",
    rows=649,
    preparation="student-por.csv. The label passed is 'yes' where the final grade G3 is 10 or more of 20. The grades "
    "G1, G2 and G3 stay in the frame but are no attributes: the earlier two are grades of the same course and all but "
    "give the label away.",
    schema=schema,
    prepare=prepare,
    extra=GRADES,
    files=("student-por.csv", "students.csv"),
    urls=(
        "https://archive.ics.uci.edu/static/public/320/student+performance.zip",
        "https://archive.ics.uci.edu/ml/machine-learning-databases/00320/student.zip",
    ),
    member="student-por.csv",
)
