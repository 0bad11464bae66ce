"""Bank Marketing: does a client subscribe to a term deposit?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from evenhand.datasets.entry import Entry, decision, integer, nominal, ordinal, require, typed
from evenhand.datasets.tables import parse
from evenhand.schema import Schema

if TYPE_CHECKING:
    import pandas as pd

MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")


def schema() -> Schema:
    """16 attributes; age and marital status are protected."""
    return decision(
        "y", "no", "yes", favourable="yes",
        attributes=(
            integer("age", 18, 95, protected=True),
            nominal(
                "job", "admin.", "blue-collar", "entrepreneur", "housemaid", "management", "retired",
                "self-employed", "services", "student", "technician", "unemployed", "unknown",
            ),
            nominal("marital", "divorced", "married", "single", protected=True),
            nominal("education", "primary", "secondary", "tertiary", "unknown"),
            nominal("default", "no", "yes"),
            integer("balance", -8019, 102127),
            nominal("housing", "no", "yes"),
            nominal("loan", "no", "yes"),
            nominal("contact", "cellular", "telephone", "unknown"),
            integer("day", 1, 31),
            ordinal("month", *MONTHS),
            integer("duration", 0, 4918),
            integer("campaign", 1, 63),
            integer("pdays", -1, 871),
            integer("previous", 0, 275),
            nominal("poutcome", "failure", "other", "success", "unknown"),
        ),
    )  # fmt: skip


def prepare(data: bytes, where: str) -> pd.DataFrame:
    """The publisher's table as it is."""
    frame = parse(data, where=where)
    require(frame, ENTRY.columns(), where)
    return typed(frame[list(ENTRY.columns())], schema(), where)


ENTRY = Entry(
    name="bank",
    title="Bank Marketing",
    about="45,211 clients called by a Portuguese bank; does a client subscribe to a term deposit?",
    origin="Telephone campaigns of a Portuguese bank, May 2008 to November 2010, collected by Sergio Moro, Paulo "
    "Cortez and Paulo Rita",
    publisher="https://archive.ics.uci.edu/dataset/222/bank+marketing",
    licence="CC BY 4.0",
    citation="Moro, S., Rita, P., Cortez, P. (2014). Bank Marketing. UCI Machine Learning Repository. "
    "doi:10.24432/C5K306",
    rows=45_211,
    preparation="bank-full.csv as published; 'unknown' is a value like any other. pdays is -1 for clients never called "
    "before. duration, the length of the call, is only known afterwards: leave it out of a model meant for use.",
    schema=schema,
    prepare=prepare,
    sha256="b44507c26634736d4a0619ec2d7c4b6ff56a2c63cbeb5176d3134e7b25e416f0",
    files=("bank-full.csv", "bank_marketing.csv", "bank.csv"),
    urls=(
        "https://archive.ics.uci.edu/static/public/222/bank+marketing.zip",
        "https://archive.ics.uci.edu/ml/machine-learning-databases/00222/bank.zip",
    ),
    member="bank-full.csv",
)
